"""Scenario 40: Kueue admits the pods of a pool, beside the real KServe and LeaderWorkerSet.

Its quota is too small at first. Users see why, the pods start once there is quota, and nothing is left behind.
"""

from collections.abc import Iterator

import pytest

from function.kube.manifests import JSON, Manifest, condition, get, listing, mapping, strings, text
from tests.e2e.objects import VLLM, deployment, environment, model, pool, spanning
from tests.e2e.world import World, running
from tools.stack import kueue
from tools.stack.kubectl import Kubectl
from tools.stack.layout import EAST
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM, QUEUED, LOCAL, CLUSTER = "queued", "queued", "team-gpus", "gpus"
GROUP = "kueue.x-k8s.io/v1beta2"
QUEUE_LABEL, GATE = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/admission"
CLAIM: Manifest = {"type": "PVC"}
ENGINE: Manifest = {"engine": {"name": "vLLM", "image": VLLM}, "routing": "PrefixAware"}
ONE: Manifest = {**spanning(1, 8), **ENGINE}
TWO: Manifest = {**spanning(2, 8), **ENGINE}


def _environment(queue: str) -> Manifest:
    """Returns an environment with a pool of eight nodes, whose pods Kueue admits."""
    nodes = pool("gpus", maxNodeCount=8, kueue={"queue": queue})
    return environment(QUEUED, nodes, kserve={"scheduler": True})


def _cluster_queue(gpus: int) -> Manifest:
    amounts: dict[str, JSON] = {"nvidia.com/gpu": str(gpus), "cpu": "1000", "memory": "10Ti"}
    resources: JSON = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    group: Manifest = {"coveredResources": [*amounts], "flavors": [{"name": "any", "resources": resources}]}
    return {
        "apiVersion": GROUP,
        "kind": "ClusterQueue",
        "metadata": {"name": CLUSTER},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
    }


FLAVOR: Manifest = {"apiVersion": GROUP, "kind": "ResourceFlavor", "metadata": {"name": "any"}}


def _local_queue(name: str) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": TEAM}
    return {"apiVersion": GROUP, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": CLUSTER}}


@pytest.fixture(scope="module", autouse=True)
def _kueue(world: World, empty: None) -> Iterator[None]:  # noqa: ARG001  # it comes first
    home, processes = world.stack.home, world.stack.processes
    kueue.up(home, processes)
    _apply(world, FLAVOR, _cluster_queue(8))
    yield
    world.clear()
    kueue.down(home, processes)


def _apply(world: World, *manifests: Manifest) -> None:
    Kubectl(world.stack.home, EAST.name).apply([*manifests])


def _pods(world: World, name: str) -> list[Manifest]:
    """Returns the engine pods of a deployment."""
    pods = world.pods(world.service(world.placement(TEAM, name)))
    return [pod for pod in pods if "router-scheduler" not in text(pod, "metadata.name")]


def _gated(pod: Manifest) -> bool:
    return any(text(gate, "name") == GATE for gate in listing(pod, "spec.schedulingGates"))


def _wait_pods(world: World, name: str, *, runs: int, gated: int) -> None:
    """Waits until so many pods of a deployment run, and Kueue holds so many others."""

    def arrived() -> bool:
        pods = _pods(world, name)
        found = (sum(map(running, pods)), sum(map(_gated, pods)), len(pods))
        if found != (runs, gated, runs + gated):
            raise LookupError(f"{found} run, are gated, and exist; {_message(world, name)}")
        return True

    until(f"{runs} pods of {name} to run and {gated} to be gated", arrived, seconds=180)


def _message(world: World, name: str) -> str:
    return text(condition(world.placement(TEAM, name), "ServiceReady"), "message")


def _wait_message(world: World, name: str, *parts: str) -> None:
    def says() -> bool:
        message = _message(world, name)
        if not all(part in message for part in parts):
            raise LookupError(message)
        return True

    until(f"ServiceReady of {name} to say {parts}", says, seconds=120)


def _observes_queues(world: World) -> bool:
    kinds = {get(each, "spec.forProvider.manifest.kind") for each in world.stack.hub.find("Object", TEAM)}
    return bool(kinds & {"LocalQueue", "ClusterQueue"})


def _workloads(world: World) -> list[str]:
    return [text(each, "metadata.name") for each in world.stack.remote.find("Workload", TEAM)]


def _observed_quota(world: World) -> Manifest:
    return mapping(world.stack.remote.get("ClusterQueue", CLUSTER), "status")


def test_a_missing_queue_is_named_and_the_download_is_not_held(world: World) -> None:
    world.team(TEAM)
    world.apply(
        _environment("wrong"),
        model("one", profile=ONE, resources={"disk": "60Gi"}),
        deployment(TEAM, "one", "one", on=QUEUED, modelCache=CLAIM),
    )
    world.wait_placed(TEAM, "one")
    until("the pod to exist", lambda: _pods(world, "one"))
    _wait_pods(world, "one", runs=0, gated=1)
    (job,) = world.stack.remote.find("Job", TEAM)
    assert condition(job, "Complete")["status"] == "True"
    _wait_message(
        world, "one", f"Waiting for Kueue: LocalQueue wrong in namespace {TEAM} of the cluster does not exist"
    )


def test_another_queue_reaches_a_service_that_is_created_again(world: World) -> None:
    world.apply(_environment(LOCAL))
    _wait_message(world, "one", f"the pods keep their labels {QUEUE_LABEL}", "deleting ModelPlacement")
    before = world.placement(TEAM, "one")
    world.stack.hub.delete("ModelPlacement", text(before, "metadata.name"), TEAM)

    def is_new() -> bool:
        uids = [text(each, "metadata.uid") for each in world.placements(TEAM, "one")]
        return len(uids) == 1 and uids != [text(before, "metadata.uid")]

    until("another placement", is_new)
    _wait_message(world, "one", f"LocalQueue {LOCAL} in namespace {TEAM} of the cluster does not exist")
    _apply(world, _local_queue(LOCAL))
    world.ready(TEAM, "one")
    until("the queues to be observed no more", lambda: not _observes_queues(world))
    assert "Kueue" not in _message(world, "one")


def test_the_quota_that_a_replica_waits_for_is_named(world: World) -> None:
    world.apply(deployment(TEAM, "one", "one", on=QUEUED, modelCache=CLAIM, replicas=2))
    _wait_pods(world, "one", runs=1, gated=1)
    reserved = f"ClusterQueue {CLUSTER} has reserved 8 of 8 in flavor any of nvidia.com/gpu"
    _wait_message(world, "one", "Waiting for Kueue: 1 Workload pending in", reserved)
    _apply(world, _cluster_queue(64))
    _wait_pods(world, "one", runs=2, gated=0)
    until("the queues to be observed no more", lambda: not _observes_queues(world))


def test_the_endpoint_picker_is_not_held(world: World) -> None:
    def picker() -> Manifest | None:
        found = world.stack.remote.find("Deployment", TEAM)
        return next((each for each in found if "router-scheduler" in text(each, "metadata.name")), None)

    found = until("the endpoint picker", picker)
    assert QUEUE_LABEL not in strings(found, "spec.template.metadata.labels")


def test_a_running_service_keeps_its_queue_and_takes_other_edits(world: World) -> None:
    before = sorted(text(pod, "metadata.uid") for pod in _pods(world, "one"))
    world.apply(_environment("another"))
    _wait_message(world, "one", f"the pods keep their labels {QUEUE_LABEL}")
    steady("the pods", lambda: sorted(text(pod, "metadata.uid") for pod in _pods(world, "one")) == before, seconds=15)
    world.ready(TEAM, "one")
    later = "vllm/vllm-openai:v0.16.0"
    world.apply(model("one", profile={**ONE, "engine": {"name": "vLLM", "image": later}}, resources={"disk": "60Gi"}))

    def rolled() -> bool:
        images = {text(listing(pod, "spec.containers")[0], "image") for pod in _pods(world, "one")}
        return images == {later} and len(_pods(world, "one")) == 2

    until("the new image", rolled, seconds=180)
    world.ready(TEAM, "one")
    assert {strings(pod, "metadata.labels")[QUEUE_LABEL] for pod in _pods(world, "one")} == {LOCAL}
    world.apply(_environment(LOCAL))
    until("the note to go", lambda: "keep their labels" not in _message(world, "one"))


def test_fewer_replicas_and_a_deletion_leave_nothing_behind(world: World) -> None:
    world.apply(deployment(TEAM, "one", "one", on=QUEUED, modelCache=CLAIM))
    _wait_pods(world, "one", runs=1, gated=0)
    until("one Workload", lambda: len(_workloads(world)) == 1)
    world.remove(TEAM, "one")
    until("no Workload", lambda: not _workloads(world))
    until("no pod", lambda: not world.stack.remote.find("Pod", TEAM, "app.kubernetes.io/part-of=llminferenceservice"))


def test_a_group_of_pods_is_admitted_as_a_whole(world: World) -> None:
    """Each replica on two nodes needs 16 GPUs; there is quota for one and a half."""
    _apply(world, _cluster_queue(8))
    world.apply(model("two", profile=TWO, resources={"disk": "60Gi"}), deployment(TEAM, "two", "two", on=QUEUED))
    world.wait_placed(TEAM, "two")
    until("the pods to exist", lambda: _pods(world, "two"))
    _wait_pods(world, "two", runs=0, gated=2)
    _wait_message(world, "two", "Waiting for Kueue: 1 Workload pending in", "has reserved 0 of 8 in flavor any")
    _apply(world, _cluster_queue(24))
    _wait_pods(world, "two", runs=2, gated=0)
    world.ready(TEAM, "two")
    world.apply(deployment(TEAM, "two", "two", on=QUEUED, replicas=2))
    _wait_pods(world, "two", runs=2, gated=2)
    _wait_message(world, "two", "has reserved 16 of 24 in flavor any")
    _apply(world, _cluster_queue(64))
    _wait_pods(world, "two", runs=4, gated=0)
    assert len(_workloads(world)) == 2


def test_a_group_comes_back_after_it_has_lost_a_pod(world: World) -> None:
    before = {text(pod, "metadata.uid") for pod in _pods(world, "two")}
    world.stack.remote.delete("Pod", text(_pods(world, "two")[1], "metadata.name"), TEAM)
    until("another pod", lambda: {text(pod, "metadata.uid") for pod in _pods(world, "two")} != before)
    _wait_pods(world, "two", runs=4, gated=0)


def test_a_group_takes_an_image_and_kueue_refuses_other_requests(world: World) -> None:
    later = "vllm/vllm-openai:v0.16.0"
    profile: Manifest = {**TWO, "engine": {"name": "vLLM", "image": later}}
    world.apply(model("two", profile=profile, resources={"disk": "60Gi"}))

    def rolled() -> bool:
        pods = _pods(world, "two")
        return {text(listing(pod, "spec.containers")[0], "image") for pod in pods} == {later} and all(
            map(running, pods)
        )

    until("the new image", rolled, seconds=180)
    _wait_pods(world, "two", runs=4, gated=0)
    world.ready(TEAM, "two")
    before = {text(pod, "metadata.uid") for pod in _pods(world, "two")}
    world.apply(model("two", profile=profile, resources={"disk": "60Gi", "cpu": "7"}))
    _wait_message(world, "two", "field is immutable")
    assert {text(pod, "metadata.uid") for pod in _pods(world, "two")} == before
    world.apply(model("two", profile=profile, resources={"disk": "60Gi"}))
    world.ready(TEAM, "two")
    assert {text(pod, "metadata.uid") for pod in _pods(world, "two")} == before


def test_fewer_groups_and_a_deletion_leave_nothing_behind(world: World) -> None:
    world.apply(deployment(TEAM, "two", "two", on=QUEUED))
    _wait_pods(world, "two", runs=2, gated=0)
    until("one Workload", lambda: len(_workloads(world)) == 1)
    world.remove(TEAM, "two")
    until("no Workload", lambda: not _workloads(world))
    until("no group", lambda: not world.stack.remote.find("LeaderWorkerSet", TEAM))
    until("no pod", lambda: not world.stack.remote.find("Pod", TEAM, "app.kubernetes.io/part-of=llminferenceservice"))
    until("no quota to be reserved", lambda: get(_observed_quota(world), "reservingWorkloads") == 0)


def test_without_kueue_the_queue_holds_nothing(world: World) -> None:
    kueue.down(world.stack.home, world.stack.processes)
    try:
        world.apply(deployment(TEAM, "free", "one", on=QUEUED, modelCache=CLAIM))
        world.ready(TEAM, "free")
        world.remove(TEAM, "free")
    finally:
        kueue.up(world.stack.home, world.stack.processes)
