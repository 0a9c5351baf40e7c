"""Two deployments on one pool: the group of the first crashes, reaches its limit, and its GPUs go to the second."""

import copy

from function.kube.manifests import JSON, Manifest, condition, get, integer, listing, mapping, text
from tests.support.crashes import minute
from tests.support.plane import call, change, manifests, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

STORY = "kimi-k2-two-nodes"
FIRST, SECOND = "kimi-k2", "second"
NOT_READY: JSON = [
    {"type": "PresetsCombined", "status": "True"},
    {"type": "Ready", "status": "False", "lastTransitionTime": "2026-03-01T10:00:00Z", "message": "not ready"},
]


class _Crashing(World):
    """A cluster on which the pods of the first deployment are new in each round, and have restarted."""

    def advance(self, resource: Manifest, step: int) -> Manifest:
        observed = super().advance(resource, step)
        remote = mapping(observed, "status.atProvider.manifest")
        name = text(remote, "metadata.name")
        if remote.get("kind") == "LLMInferenceService":
            status = mapping(remote, "status")
            crashes = name.startswith(f"{FIRST}-") and integer(remote, "spec.replicas") > 0
            ready = 0 if crashes else integer(remote, "spec.replicas")
            status["workloads"] = {"primary": {"kind": "LeaderWorkerSet", "name": name, "readyReplicas": ready}}
            if crashes:
                status["conditions"] = NOT_READY
        if remote.get("kind") == "Pod" and name.startswith(f"{FIRST}-"):
            labels: Manifest = {"leaderworkerset.sigs.k8s.io/name": name.removesuffix("-1").removesuffix("-0")}
            ended: Manifest = {"exitCode": 1, "reason": "Error", "finishedAt": minute(step)}
            mapping(remote, "metadata").update(
                {"uid": f"{name}-{step}", "creationTimestamp": minute(step), "labels": labels}
            )
            state: Manifest = {"name": "main", "restartCount": 1, "lastState": {"terminated": ended}}
            remote["status"] = {"containerStatuses": [state]}
        return observed


def _control(limit: int | None) -> ControlPlane:
    control = ControlPlane(renderer=Engine(call), world=_Crashing())
    for manifest in manifests(STORY):
        spec = mapping(manifest, "spec")
        if manifest["kind"] == "InferenceEnvironment":
            spec["monitoring"] = {"observePods": "Restarts"}
            (pool,) = listing(manifest, "spec.nodePools")
            pool |= {"nodeCount": 2, "maxNodeCount": 2}
        if manifest["kind"] == "ClusterModel" and limit:
            listing(manifest, "spec.serving")[0]["restartLimit"] = limit
        control.apply([manifest])
    while not control.all("ModelPlacement"):
        control.advance()
    later = copy.deepcopy(next(m for m in manifests(STORY) if m["kind"] == "ModelDeployment"))
    mapping(later, "metadata")["name"] = SECOND
    control.apply([later])
    return control


def _placement(control: ControlPlane, deployment: str) -> Manifest:
    found = [control.composites[ref] for ref in control.all("ModelPlacement")]
    (placement,) = (each for each in found if text(each, "spec.deploymentRef.name") == deployment)
    return placement


def _deployment(control: ControlPlane, name: str) -> Manifest:
    return next(control.composites[ref] for ref in control.all("ModelDeployment") if ref.name == name)


def test_the_gpus_of_a_stopped_service_go_to_another_deployment() -> None:
    control = _control(limit=3)
    control.settle()
    first, second = (_placement(control, name) for name in (FIRST, SECOND))
    assert text(condition(first, "Admitted"), "reason") == "RestartLimitReached"
    assert get(first, "status.service.replicas") == 0
    assert get(first, "status.restarts.count") in {3, 4}, "it restarts once more before it ends"
    assert text(condition(second, "ServiceReady"), "reason") == "Serving"
    environment = control.composites[control.all("InferenceEnvironment")[0]]
    grants = {text(g, "name"): integer(g, "replicas") for g in listing(environment, "status.admitted")}
    assert {name: count for name, count in grants.items() if count} == {text(second, "metadata.name"): 1}
    assert get(environment, "status.gpus.inUse") == 16
    stopped = _deployment(control, FIRST)
    assert text(condition(stopped, "Scheduled"), "status") == "True", "it is not moved"
    assert "RestartLimitReached" in text(condition(stopped, "PlacementsReady"), "message")


def test_retry_waits_for_the_gpus_that_others_have_by_now() -> None:
    control = _control(limit=3)
    control.settle()
    ref = next(ref for ref in control.all("ModelDeployment") if ref.name == FIRST)
    change(control, ref, "spec.retry", "again")
    control.settle()
    assert text(condition(_deployment(control, FIRST), "Scheduled"), "reason") == "InsufficientCapacity"
    assert text(condition(_placement(control, SECOND), "ServiceReady"), "reason") == "Serving"
    control.delete(next(ref for ref in control.all("ModelDeployment") if ref.name == SECOND))
    control.settle()
    first = _placement(control, FIRST)
    assert text(first, "status.restarts.retry") == "again", "it has had its GPUs again"
    assert text(condition(first, "Admitted"), "reason") == "RestartLimitReached"


def test_without_a_limit_the_first_keeps_its_gpus() -> None:
    control = _control(limit=None)
    for _ in range(40):
        control.advance()
    assert text(condition(_deployment(control, SECOND), "Scheduled"), "reason") == "InsufficientCapacity"
    assert int(str(get(_placement(control, FIRST), "status.restarts.count"))) > 3
    ref = next(ref for ref in control.all("ModelPlacement"))
    assert said(control, ref, "Admitted") == ("True", "Admitted")
