"""A rollout waits for the pods of replicas on one node: KServe is Ready while those of the earlier spec serve."""

from dataclasses import dataclass, field

from function.kube.manifests import Manifest, get, integer, mapping, strings, text
from tests.composers.test_turns import (
    NEW,
    OLD,
    OSLO,
    TOKYO,
    WIEN,
    on_three,
    placements,
    rolled_out,
    use_image,
    watch_images,
)
from tests.support.plane import change, only, remote
from tools.remote_stages import condition
from tools.world import World

DIGEST = "modelplane.ai/spec-digest"
DEADLINE = 'ReplicaSet "chat-5f6d" has timed out progressing.'
FORBIDDEN = 'deployments.apps "chat" is forbidden: User "modelplane" cannot patch resource "deployments"'
COUNTS = "1 of 3 environments serve the requested spec and are Ready"
_REMOTE = "status.atProvider.manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surging(World):
    """Clusters where a new pod starts before an old one ends, so that services are Ready throughout."""

    pending: set[str] = field(default_factory=set)  # environments where new pods stay Pending
    overdue: set[str] = field(default_factory=set)  # and where the Deployment has waited for longer than its deadline
    forbidden: set[str] = field(default_factory=set)  # and whose identity may not read Deployments
    services: dict[tuple[str, str], Manifest] = field(default_factory=dict)  # by environment and name of the Deployment
    running: dict[tuple[str, str], str] = field(default_factory=dict)  # digest of the pods that are available

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return a resource as observed so many steps after its creation."""
        observed = World.advance(self, resource, step)
        config = text(resource, "spec.providerConfigRef.name")
        environment = next((name for name in (OSLO, TOKYO, WIEN) if config.startswith(name)), "")
        remote_object = mapping(observed, _REMOTE)
        name = text(remote_object, "metadata.name")
        match text(remote_object, "kind"):
            case "LLMInferenceService" if get(remote_object, "status.conditions"):
                self.services[environment, f"{name}-kserve"] = remote_object
                primary: Manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{name}-kserve"}
                status: Manifest = {**mapping(remote_object, "status"), "workloads": {"primary": primary}}
                observed["status"] = {
                    **mapping(observed, "status"), "atProvider": {"manifest": {**remote_object, "status": status}}
                }  # fmt: skip
            case "Deployment" if environment in self.forbidden:
                problem = condition("Synced", ok=False, reason="ReconcileError", message=f"observe failed: {FORBIDDEN}")
                observed["status"] = {"conditions": [problem]}
            case "Deployment":
                deployment = {**remote_object, **self._update(environment, name)}
                observed["status"] = {**mapping(observed, "status"), "atProvider": {"manifest": deployment}}
        return observed

    def _update(self, environment: str, name: str) -> Manifest:
        """Return spec and status of a Deployment, as its controller writes them."""
        place, service = (environment, name), self.services[environment, name]
        digest, replicas = strings(service, "spec.annotations").get(DIGEST, ""), integer(service, "spec.replicas")
        if environment not in self.pending or place not in self.running:
            self.running[place] = digest
        is_updated = self.running[place] == digest
        is_overdue = not is_updated and environment in self.overdue
        return {
            "spec": {"replicas": replicas, "template": {"metadata": {"annotations": {DIGEST: digest}}}},
            "status": {
                "observedGeneration": 1,
                "replicas": replicas if is_updated else replicas + 1,
                "updatedReplicas": replicas if is_updated else 1,
                "availableReplicas": replicas,
                "conditions": [
                    condition("Available", ok=True, reason="MinimumReplicasAvailable"),
                    condition("Progressing", ok=not is_overdue, reason="Any", message=DEADLINE if is_overdue else ""),
                ],
            },
        }


def test_new_pods_that_stay_pending_hold_further_environments() -> None:
    world = Surging()
    control = on_three(world=world)
    world.pending.add(TOKYO)
    use_image(control, NEW)
    assert watch_images(control) == [OSLO, TOKYO]
    _, reason, message = rolled_out(control)
    assert reason == "Rolling"
    assert message.startswith(f"{COUNTS}; ")
    pods = "1 of 2 pods have the current spec (3 exist, 2 available)"
    assert f" on {TOKYO}: {pods}; not changed yet: {WIEN}" in message

    world.overdue.add(TOKYO)
    control.settle()
    _, reason, message = rolled_out(control)
    assert reason == "Stopped"
    assert f" on {TOKYO}: {pods}: {DEADLINE}; not changed yet: {WIEN}" in message

    world.pending.clear()
    assert watch_images(control) == [WIEN], "the fix resumes the rollout"
    assert rolled_out(control)[1] == "UpToDate"


def test_earlier_spec_rolls_back_although_old_pods_serve() -> None:
    world = Surging()
    control = on_three(world=world)
    world.pending.add(TOKYO)
    use_image(control, NEW)
    assert watch_images(control) == [OSLO, TOKYO]
    use_image(control, OLD)
    assert sorted(watch_images(control)) == [OSLO, TOKYO]
    assert rolled_out(control)[1] == "UpToDate"


def test_deployment_that_may_not_be_read_holds_further_environments_with_the_reason() -> None:
    world = Surging()
    control = on_three(world=world)
    world.forbidden.add(OSLO)
    control.settle()
    use_image(control, NEW)
    assert watch_images(control) == [OSLO]
    _, reason, message = rolled_out(control)
    assert reason == "Stopped"
    assert FORBIDDEN in message


def test_deployments_are_observed_only_where_environments_change_one_by_one() -> None:
    control = on_three(world=Surging())

    def list_observed() -> list[Manifest]:
        return [m for _, ref in placements(control) for m in remote(control, ref, "workload").values()]

    assert {text(m, "kind") for m in list_observed()} == {"Deployment"}
    change(control, only(control, "ModelDeployment"), "spec.rollout", None)
    control.settle()
    assert list_observed() == []
