"""What several composites share on a cluster: no two Jobs in one directory, no token taken away."""

import copy
from dataclasses import dataclass, field

import pytest
from crossplane.function import resource

from function.cli.store import Ref
from function.kube.manifests import Manifest, get, mapping, text
from tests.support.plane import call, change, manifests, only, plane, remote, request_of
from tools.control_plane import ControlPlane
from tools.world import World

COMPLETE: Manifest = {"type": "Complete", "status": "True"}
FAILED: Manifest = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
NEVER_DELETED = ["Observe", "Create", "Update", "LateInitialize"]


@dataclass(frozen=True, kw_only=True)
class Slow(World):
    """A world in which Jobs run until they are let finish, and vanish where they are said to."""

    running: set[str] = field(default_factory=lambda: {"all"})

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return the Object; the Job in it still runs."""
        observed = World.advance(self, resource, step)
        job = mapping(observed, "status.atProvider.manifest")
        if job.get("kind") == "Job" and self.running:
            job["status"] = {"active": 1}
        return observed


def _twins(story: str, cache: Manifest, world: World) -> ControlPlane:
    """Return two deployments of one model on one cluster."""
    control = ControlPlane(renderer=plane(story).renderer, world=world)
    found = manifests(story)
    (deployment,) = [m for m in found if m["kind"] == "ModelDeployment"]
    mapping(deployment, "spec")["modelCache"] = cache
    twin = copy.deepcopy(deployment)
    mapping(twin, "metadata")["name"] = "twin"
    control.apply([*found, twin])
    control.settle()
    return control


def _keys(control: ControlPlane, prefix: str) -> list[set[str]]:
    return [set(remote(control, ref, prefix)) for ref in control.all("ModelPlacement")]


def _weights(control: ControlPlane, ref: Ref) -> set[str]:
    found = remote(control, ref, "").values()
    return {text(m, "metadata.name") for m in found if m.get("kind") in ("Job", "PersistentVolumeClaim")}


def _policies(control: ControlPlane, ref: Ref, key: str) -> object:
    return get(control.rounds[-1].rendered[ref].composed[key], "spec.managementPolicies")


def test_two_deployments_on_one_claim_of_the_user_share_a_job() -> None:
    control = _twins("private-model", {"claimName": "team-models"}, Slow())
    jobs = [remote(control, ref, "job-") for ref in control.all("ModelPlacement")]
    assert len(jobs) == 2
    assert jobs[0] == jobs[1], "two composites share one Job"
    assert all(key.startswith("job-weights-") for key in jobs[0])
    assert _keys(control, "token-")[0] == _keys(control, "token-")[1] != set()
    for ref in control.all("ModelPlacement"):
        for key in (key for prefix in ("job-", "scripts-", "token-") for key in remote(control, ref, prefix)):
            assert _policies(control, ref, key) == NEVER_DELETED, "the other composite still needs the object"


def test_another_claim_is_another_job_with_a_token_of_its_own() -> None:
    control = _twins("private-model", {"claimName": "team-models"}, Slow())
    twin = next(ref for ref in control.all("ModelDeployment") if ref.name == "twin")
    change(control, twin, "spec.modelCache.claimName", "other-models")
    control.settle()
    for prefix in ("job-", "token-"):
        one, two = _keys(control, prefix)
        assert one.isdisjoint(two)


@pytest.mark.parametrize("prefix", ["token-", "scripts-"])
def test_deletes_objects_of_shared_download_in_two_steps(prefix: str) -> None:
    world = Slow()
    control = _twins("private-model", {"type": "PVC", "retain": True, "size": "20Gi", "storageClassName": "rwx"}, world)
    first, second = control.all("ModelPlacement")
    (needed,) = remote(control, first, prefix)
    assert _policies(control, first, needed) == NEVER_DELETED
    control.delete(next(ref for ref in control.all("ModelDeployment") if ref.name == "twin"))
    control.settle()
    (left,) = control.all("ModelPlacement")
    assert left in (first, second)
    assert _policies(control, left, needed) == NEVER_DELETED, "the download of the other composite continues"
    world.running.clear()
    steps = []
    for _ in range(6):
        control.advance()
        composed = control.rounds[-1].rendered[left].composed
        steps.append(get(composed[needed], "spec.managementPolicies") if needed in composed else None)
    assert steps[-1] is None
    assert ["*"] in steps, "the object is composed once with the Delete policy"
    assert NEVER_DELETED not in steps[steps.index(["*"]) :]


@pytest.mark.parametrize(
    ("status", "kept"),
    [({"active": 1}, False), ({"conditions": [COMPLETE]}, True), ({"conditions": [FAILED]}, False)],
    ids=("running", "finished", "failed"),
)
def test_a_job_of_another_name_counts_only_once_it_is_complete(status: Manifest, kept: bool) -> None:
    control = _twins("private-model", {"claimName": "team-models"}, Slow())
    placement = control.all("ModelPlacement")[0]
    (key,) = remote(control, placement, "job-")
    (token,) = remote(control, placement, "token-")
    request = request_of(control, placement)
    earlier = copy.deepcopy(control.store.owned(placement)[key])
    name = f"{placement.name[:20]}-00000000"
    for path in ("spec.forProvider.manifest", "status.atProvider.manifest"):
        mapping(earlier, f"{path}.metadata")["name"] = name
    mapping(earlier, "status.atProvider.manifest")["status"] = status
    del request.observed.resources[key]
    resource.update(request.observed.resources[f"job-{name}"], earlier)
    desired = call(request).desired.resources
    if status == {"active": 1}:
        leaving = resource.struct_to_dict(desired[f"job-{name}"].resource)
        assert {k for k in desired if k.startswith("job-")} == {f"job-{name}"}, (
            "two Jobs would write into one directory"
        )
        assert leaving["spec"]["managementPolicies"] == ["Observe", "Delete"], (
            "the Job would continue without its Object"
        )
        mapping(earlier, "spec")["managementPolicies"] = ["Observe", "Delete"]
        resource.update(request.observed.resources[f"job-{name}"], earlier)
        desired = call(request).desired.resources
    jobs = {k for k in desired if k.startswith("job-")}
    assert jobs == {f"job-{name}" if kept else key}
    done = status == {"conditions": [COMPLETE]}
    assert token in desired or done, "a running Job reads its token"


def test_a_cache_and_a_placement_of_one_name_have_a_claim_each() -> None:
    control = plane("model-cache")
    cache = only(control, "ModelCache")
    placement = only(control, "ModelPlacement")
    found = copy.deepcopy(control.composites[placement])
    mine: Manifest = {key: found[key] for key in ("apiVersion", "kind", "spec")}
    labels: Manifest = {"modelplane.ai/environment": text(found, "spec.inferenceEnvironmentRef.name")}
    mine["metadata"] = {"name": cache.name, "namespace": cache.namespace, "labels": labels}
    mapping(mine, "spec").pop("deploymentRef")
    mapping(mine, "spec")["modelCache"] = {"type": "PVC", "size": "600Gi"}
    control.apply([mine])
    control.settle()
    ours = _weights(control, Ref("ModelPlacement", cache.namespace, cache.name))
    theirs = _weights(control, cache)
    assert len(ours) == 2
    assert ours.isdisjoint(theirs)
