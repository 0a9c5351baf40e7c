"""Scenario 42: a group of two nodes crashes at each start, beside the real KServe and LeaderWorkerSet.

Its users see how often, since when, what the container said last, and the GPUs that it holds; at its restart limit,
another deployment gets these GPUs. A group that has served keeps its own. The scenario plays the kubelet of both nodes:
a container exits, is started again, and LeaderWorkerSet then creates the whole group again.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from function.kube.manifests import JSON, Manifest, condition, get, is_deleting, listing, mapping, strings, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World, running
from tools.stack.api import Api
from tools.stack.kubelet.node import build_node
from tools.stack.kubelet.status import write_time
from tools.stack.layout import EAST
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM, PLACE, CRASHES, WAITS = "crashing", "crash-site", "crashes", "waits"
NODES = ("crash-1", "crash-2")
LABELS = {"modelplane.ai/pool": "crash-site"}
LIMIT = 4
_RUNS_SECONDS, _ENDS_SECONDS = 1.0, 1.0
_TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"  # of nobody
_SAYS = f"downloading with {_TOKEN}\ntorch.OutOfMemoryError: CUDA out of memory\n"


class Kubelet(threading.Thread):
    """Runs the pods on the nodes of the scenario; those of some deployments crash."""

    def __init__(self, api: Api) -> None:
        super().__init__(daemon=True)
        self.crashing: set[str] = set()  # names of deployments
        self.over = threading.Event()
        self.played: Counter[str] = Counter()  # restarts, by the name of a pod
        self._api = api
        self._seen: dict[tuple[str, str], float] = {}

    def run(self) -> None:
        """Looks after the pods until the scenario is over; a pod that goes meanwhile is no error."""
        while not self.over.wait(0.25):
            with contextlib.suppress(OSError):
                for pod in self._api.find("Pod", TEAM):
                    if text(pod, "spec.nodeName") in NODES:
                        with contextlib.suppress(OSError):
                            self._step(pod)

    def _lasted(self, pod: Manifest, what: str, seconds: float) -> bool:
        began = self._seen.setdefault((text(pod, "metadata.uid"), what), time.monotonic())
        return time.monotonic() - began >= seconds

    def _step(self, pod: Manifest) -> None:
        name, uid = text(pod, "metadata.name"), text(pod, "metadata.uid")
        restarts = max((int(str(c["restartCount"])) for c in listing(pod, "status.containerStatuses")), default=None)
        service = strings(pod, "metadata.labels").get("app.kubernetes.io/name", "")
        crashes = any(service.startswith(f"{each}-") for each in self.crashing)
        if is_deleting(pod):
            if self._lasted(pod, "ends", _ENDS_SECONDS):
                self._api.delete("Pod", name, TEAM, grace_seconds=0, uid=uid)
        elif crashes and (restarts is None or running(pod)):
            self._report(pod, restarts=0, ready=False)
        elif crashes and restarts == 0 and self._lasted(pod, "runs", _RUNS_SECONDS):
            self._report(pod, restarts=1, ready=False)
            self.played[name] += 1
        elif not crashes and not running(pod) and not restarts:
            self._report(pod, restarts=0, ready=True)

    def _report(self, pod: Manifest, *, restarts: int, ready: bool) -> None:
        ended: Manifest = {"exitCode": 1, "reason": "Error", "message": _SAYS, "finishedAt": write_time(time.time())}
        last: Manifest = {"terminated": {**ended, "startedAt": write_time(time.time() - 1)}} if restarts else {}
        containers: list[JSON] = [
            {
                "name": text(container, "name"),
                "image": text(container, "image"),
                "imageID": "",
                "ready": ready,
                "started": True,
                "restartCount": restarts,
                "state": {"running": {"startedAt": write_time(time.time())}},
                "lastState": last,
            }
            for container in listing(pod, "spec.containers")
        ]
        kept = [c for c in listing(pod, "status.conditions") if text(c, "type") == "PodScheduled"]
        status = "True" if ready else "False"
        now = write_time(time.time())
        conditions: list[JSON] = [
            {"type": type_, "status": status, "lastTransitionTime": now} for type_ in ("ContainersReady", "Ready")
        ]
        body: Manifest = {"phase": "Running", "conditions": [*kept, *conditions], "containerStatuses": containers}
        self._api.patch("Pod", text(pod, "metadata.name"), {"status": body}, TEAM, part="status")


def _environment(observe: str) -> Manifest:
    nodes = pool("gpus", labels={**LABELS})
    return environment(PLACE, nodes, hardware={"observe": "Never"}, monitoring={"observePods": observe})


def _model(name: str, limit: int | None = None) -> Manifest:
    return model(name, profile=spanning(2, 8) | ({"restartLimit": limit} if limit else {}))


def _deployment(name: str, **spec: JSON) -> Manifest:
    made = deployment(TEAM, name, name, on=PLACE)
    mapping(made, "spec").update(spec)
    return made


@pytest.fixture(scope="module")
def kubelet(world: World, empty: None) -> Iterator[Kubelet]:  # noqa: ARG001  # it comes first
    world.team(TEAM)
    remote = Api(world.stack.home, EAST.name)
    taint: Manifest = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    for name in NODES:
        node = build_node(name, LABELS, {"nvidia.com/gpu": "8"})
        remote.apply({**node, "spec": {"taints": [taint]}})
        size = mapping(node, "status")
        ready: Manifest = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "played"}
        times = {key: write_time(time.time()) for key in ("lastHeartbeatTime", "lastTransitionTime")}
        remote.patch("Node", name, {"status": {**size, "conditions": [{**ready, **times}]}}, part="status")
    player = Kubelet(remote)
    player.start()
    yield player
    player.crashing.clear()
    world.clear()
    player.over.set()
    player.join(10)
    for name in NODES:
        remote.delete("Node", name)


@pytest.fixture(scope="module")
def crashing(world: World, kubelet: Kubelet) -> Kubelet:
    """A deployment whose group crashes, and another that waits for its GPUs; nobody may look at pods yet."""
    kubelet.crashing.add(CRASHES)
    world.apply(_environment("Never"), _model(CRASHES), _model(WAITS, 1))
    world.wait("InferenceEnvironment", PLACE, "Ready", "True")
    world.apply(_deployment(CRASHES))
    world.wait_placed(TEAM, CRASHES)
    world.apply(_deployment(WAITS))
    world.wait("ModelDeployment", WAITS, "Scheduled", "False/InsufficientCapacity", TEAM)
    return kubelet


def _pod_uids(world: World, name: str) -> set[str]:
    pods = world.pods(world.service(world.placement(TEAM, name)))
    return {text(pod, "metadata.uid") for pod in pods}


def _restarts(world: World, name: str) -> Manifest:
    return mapping(world.placement(TEAM, name), "status.restarts")


def _wait_restarts(world: World, name: str, count: int) -> Manifest:
    def counted() -> Manifest:
        found = _restarts(world, name)
        if int(str(found.get("count", 0))) < count:
            raise LookupError(f"{found}; {condition(world.placement(TEAM, name), 'ServiceReady')}")
        return found

    return until(f"{count} restarts of {name}", counted, seconds=120)


def _pod_objects(world: World) -> list[str]:
    kinds = [text(o, "spec.forProvider.manifest.kind") for o in world.stack.hub.find("Object", TEAM)]
    return [kind for kind in kinds if kind == "Pod"]


def test_without_consent_the_gpus_and_the_time_are_told(world: World, crashing: Kubelet) -> None:  # noqa: ARG001  # it crashes
    uids = until("its pods", lambda: _pod_uids(world, CRASHES))

    def is_recreated() -> bool:
        found = _pod_uids(world, CRASHES)
        return bool(found) and not uids & found

    until("LeaderWorkerSet to create the group again", is_recreated, seconds=60)

    def says() -> Manifest:
        placement = world.placement(TEAM, CRASHES)
        message = text(condition(placement, "ServiceReady"), "message")
        if "Not Ready since 20" not in message or "has 16 GPUs meanwhile" not in message:
            raise LookupError(message)
        return placement

    placement = until("ServiceReady to tell", says)
    assert text(placement, "status.notReadySince")
    assert not mapping(placement, "status.restarts")
    assert not _pod_objects(world)


def test_with_consent_restarts_and_last_words_are_told(
    world: World, crashing: Kubelet, record_property: Callable[[str, object], None]
) -> None:
    before, began = max(crashing.played.values()), time.monotonic()
    world.apply(_environment("Messages"))
    found = _wait_restarts(world, CRASHES, 3)
    played, counted = max(crashing.played.values()) - before, int(str(found["count"]))
    record_property("restarts", f"{counted} of {played} counted in {time.monotonic() - began:.1f} s")
    assert counted <= played + 1, "one may be seen that came before"
    last = mapping(found, "last")
    assert (last["exitCode"], last["reason"], last["container"]) == (1, "Error", "main")
    assert last["message"] == "downloading with hf_*** torch.OutOfMemoryError: CUDA out of memory"
    assert text(found, "since") <= text(last, "finishedAt")
    message = text(condition(world.placement(TEAM, CRASHES), "ServiceReady"), "message")
    assert "CUDA out of memory" in message
    assert _TOKEN not in message
    assert len(_pod_objects(world)) == 2


def test_at_the_limit_another_deployment_gets_the_gpus(
    world: World,
    crashing: Kubelet,  # noqa: ARG001  # it crashes
    record_property: Callable[[str, object], None],
) -> None:
    began = time.monotonic()

    def note(what: str) -> None:
        record_property(what, f"after {time.monotonic() - began:.1f} s")

    world.apply(_model(CRASHES, LIMIT))
    placement = world.placement(TEAM, CRASHES)
    stopped = world.wait(
        "ModelPlacement", text(placement, "metadata.name"), "Admitted", "False/RestartLimitReached", TEAM, seconds=120
    )
    note("stopped")
    message = text(condition(stopped, "Admitted"), "message")
    assert "has reached restartLimit" in message
    assert "CUDA out of memory" in message
    assert "spec.retry of ModelDeployment crashes" in message
    until("its pods to end", lambda: not world.pods(world.service(placement)))
    note("its pods have ended")
    world.wait_placed(TEAM, WAITS)
    note("the other deployment is placed")
    world.ready(TEAM, WAITS)
    note("the other deployment serves")
    stopped = world.placement(TEAM, CRASHES)
    assert (text(stopped, "status.phase"), get(stopped, "status.service.replicas")) == ("Failed", 0)
    assert text(condition(stopped, "ServiceReady"), "reason") == "Stopped"
    assert text(stopped, "metadata.uid") == text(placement, "metadata.uid"), "nothing is moved"
    ready = condition(world.deployment(TEAM, CRASHES), "PlacementsReady")
    assert "RestartLimitReached" in text(ready, "message")
    steady("it stays stopped", lambda: get(world.service(stopped), "spec.replicas") == 0, seconds=5)
    assert not _pod_objects(world)


def test_a_group_that_has_served_keeps_its_gpus(world: World, crashing: Kubelet) -> None:
    uids = _pod_uids(world, WAITS)
    crashing.crashing.add(WAITS)
    found = _wait_restarts(world, WAITS, 2)
    assert found["served"] is True
    placement = world.placement(TEAM, WAITS)
    assert text(condition(placement, "Admitted"), "reason") == "Admitted"
    assert get(world.service(placement), "spec.replicas") == 1
    crashing.crashing.discard(WAITS)
    world.ready(TEAM, WAITS)
    assert not uids & _pod_uids(world, WAITS)
    until("the count to begin again", lambda: _restarts(world, WAITS).get("count") == 0)


def test_another_retry_starts_it_again(world: World, crashing: Kubelet) -> None:
    world.remove(TEAM, WAITS)
    placement = world.placement(TEAM, CRASHES)
    assert get(world.service(placement), "spec.replicas") == 0
    crashing.crashing.clear()
    world.apply(_deployment(CRASHES, retry="the image is mended"))
    world.ready(TEAM, CRASHES)
    after = world.placement(TEAM, CRASHES)
    assert text(after, "metadata.uid") == text(placement, "metadata.uid")
    assert get(after, "status.restarts.count") == 0
