"""An adapter that is not there yet holds the turn of its environment, and the rollout says which adapter it is."""

from dataclasses import dataclass, field
from itertools import groupby

from function.kube.manifests import Manifest, listing, mapping, text
from tests.composers.test_turns import OSLO, TOKYO, rolled_out
from tests.support.plane import change, only, plane
from tools.world import World

FAILED: Manifest = {
    "conditions": [
        {
            "type": "Failed",
            "status": "True",
            "reason": "PodFailurePolicy",
            "message": "Container download for pod team/x failed with exit code 42 matching FailJob rule at index 0",
        }
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloading(World):
    """Clusters on some of which the Jobs of adapters have a status of their own."""

    jobs: dict[str, Manifest] = field(default_factory=dict)  # by environment

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return a resource as observed so many steps after its creation."""
        observed = World.advance(self, resource, step)
        config = text(resource, "spec.providerConfigRef.name")
        job = mapping(observed, "status.atProvider.manifest")
        for environment, status in self.jobs.items():
            if config.startswith(environment) and "MODELPLANE_ADAPTER_BASE" in str(job) and text(job, "kind") == "Job":
                observed["status"] = {
                    **mapping(observed, "status"), "atProvider": {"manifest": {**job, "status": status}}
                }  # fmt: skip
        return observed


def _change_adapters(status: Manifest) -> list[tuple[str, str, str]]:
    """Add an adapter whose download has this status on the second environment; return each RolledOut that follows."""
    control = plane("two-environments", Downloading(jobs={TOKYO: status}))
    model, deployment = only(control, "ClusterModel"), only(control, "ModelDeployment")
    serving = [{**profile, "lora": {"maxAdapters": 1}} for profile in listing(control.store[model], "spec.serving")]
    change(control, model, "spec.serving", [*serving])
    change(control, deployment, "spec.modelCache", {"type": "PVC"})
    change(control, deployment, "spec.rollout", {"environments": "OneByOne", "order": [OSLO, TOKYO]})
    for environment in control.all("InferenceEnvironment"):
        change(control, environment, "spec.storage", {"storageClassName": "shared"})
    control.settle()
    assert rolled_out(control)[1] == "UpToDate"
    change(control, deployment, "spec.adapters", [{"name": "sql", "huggingFace": {"repo": "org/sql"}}])
    found = []
    for _ in range(25):
        control.advance()
        found.append(rolled_out(control))
    return [each for each, _ in groupby(found)]


def test_says_which_adapter_holds_a_turn() -> None:
    *turns, last = _change_adapters({"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"})
    assert last[:2] == ("False", "Rolling")
    assert last[2].endswith(
        f" on {TOKYO}: it still serves the earlier spec, and its StorageReady is False (Downloading) for adapter sql"
    )
    assert f" on {OSLO}: it still serves the earlier spec" in str(turns)
    assert "no replicas" not in str(turns)


def test_an_adapter_that_fails_holds_no_turn() -> None:
    assert _change_adapters(FAILED)[-1][1] == "UpToDate"
