"""What the queues of Kueue say about a service that lacks pods, and when they are observed."""

from dataclasses import dataclass, replace

import pytest

from function.kube.manifests import JSON, Manifest, get, mapping
from function.remote.object_writer import ObjectWriter
from function.remote.observed_object import ObservedObject, State
from function.serving.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, describe_wait, lacks_pods, observe_queues
from tests.support.remote_scene import ONE_NODE, Edit, Scene, edit_environment, edit_observed, load_scene, set_field

GPU = "nvidia.com/gpu"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
SERVICE: Manifest = {
    "metadata": {"name": "chat", "namespace": "team"},
    "spec": {"replicas": 2, "labels": {QUEUE_LABEL: "gpus"}},
}
QUEUE = "LocalQueue gpus in namespace team of the cluster"
PENDING = f"pending in {QUEUE}, perhaps of others"
SHOWS = "; `kubectl -n team get workloads -o yaml` there has the cause of each"


def observed(manifest: Manifest, failure: str = "") -> Manifest:
    """Returns an Object that has observed a manifest, or whose last observation failed."""
    synced: JSON = {"type": "Synced", "status": "False" if failure else "True", "message": failure}
    return {"status": {"atProvider": {"manifest": manifest}, "conditions": [synced]}}


def active(status: str, message: str = "") -> JSON:
    return [{"type": "Active", "status": status, "message": message}]


def local_queue(pending: int = 0, conditions: JSON = None) -> Manifest:
    status: Manifest = {"pendingWorkloads": pending, "conditions": conditions or active("True")}
    return {"spec": {"clusterQueue": "all"}, "status": status}


def quota(name: str, amount: JSON, resource: str = GPU) -> JSON:
    return {"name": name, "resources": [{"name": resource, "nominalQuota": amount}]}


def cluster_queue(*flavors: JSON, reserved: JSON = None, conditions: JSON = None) -> Manifest:
    return {
        "metadata": {"name": "all"},
        "spec": {"resourceGroups": [{"flavors": [*flavors]}]},
        "status": {"flavorsReservation": reserved, "conditions": conditions or active("True")},
    }


def writer(**objects: Manifest) -> ObjectWriter:
    keys = {"local": LOCAL_QUEUE, "cluster": CLUSTER_QUEUE}
    found = {keys[name]: manifest for name, manifest in objects.items()}
    return ObjectWriter(owner="chat", namespace="team", provider_config="east", watch=False, observed=found)


TAKEN: JSON = [{"name": "h100", "resources": [{"name": "cpu", "total": "4"}, {"name": GPU, "total": "8"}]}]
FORBIDDEN = 'localqueues.kueue.x-k8s.io "gpus" is forbidden: User "modelplane" cannot get resource'


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    writer: ObjectWriter
    want: str


CASES = (
    Case("unseen", "the provider has not observed the queue yet", writer(),
         f"Kueue admits the pods by {QUEUE}, which is not observed yet"),
    Case("absent", "without the LocalQueue, Kueue admits no pod",
         writer(local=observed({}, "observe failed: external resource does not exist")),
         f"Waiting for Kueue: {QUEUE} does not exist"),
    Case("no-kueue", "without Kueue, the label does nothing",
         writer(local=observed({}, 'no matches for kind "LocalQueue" in version "kueue.x-k8s.io/v1beta2"')),
         f"The pods name {QUEUE}, and the cluster does not serve kueue.x-k8s.io/v1beta2 of Kueue"),
    Case("forbidden", "the right is missing", writer(local=observed({}, FORBIDDEN)),
         f"Kueue admits the pods by {QUEUE}, which cannot be read: The cluster refused it: {FORBIDDEN}"),
    Case("inactive", "the LocalQueue says why it takes no Workloads",
         writer(local=observed(local_queue(1, active("False", "ClusterQueue all does not exist")))),
         f"Waiting for Kueue: {QUEUE} is not active: ClusterQueue all does not exist"),
    Case("stopped", "the ClusterQueue says why it admits none",
         writer(local=observed(local_queue(1)),
                cluster=observed(cluster_queue(conditions=active("False", "it is stopped")))),
         "Waiting for Kueue: ClusterQueue all is not active: it is stopped"),
    Case("admitted", "the queue holds nothing", writer(local=observed(local_queue())), ""),
    Case("pending", "the ClusterQueue is not observed yet", writer(local=observed(local_queue(1))),
         f"Waiting for Kueue: 1 Workload {PENDING}{SHOWS}"),
    Case("quota", "the quota for GPUs is reserved",
         writer(local=observed(local_queue(2)),
                cluster=observed(cluster_queue(quota("h100", "8"), quota("a100", 4), reserved=TAKEN))),
         f"Waiting for Kueue: 2 Workloads {PENDING}; ClusterQueue all has reserved 8 of 8 in flavor h100, "
         f"0 of 4 in flavor a100 of {GPU}{SHOWS}"),
    Case("no-gpus", "the ClusterQueue has no quota for GPUs",
         writer(local=observed(local_queue(2)), cluster=observed(cluster_queue(quota("h100", "8", "cpu")))),
         f"Waiting for Kueue: 2 Workloads {PENDING}; ClusterQueue all has no quota for {GPU}{SHOWS}"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_queues_say_what_holds_pods(case: Case) -> None:
    assert describe_wait(SERVICE, case.writer, GPU) == case.want, case.reason


def test_messages_are_bounded() -> None:
    long = writer(local=observed(local_queue(1, active("False", "x" * 32_768))))
    many = [quota(f"flavor-{number}", "8") for number in range(100)]
    wide = writer(local=observed(local_queue(1)), cluster=observed(cluster_queue(*many)))
    assert len(describe_wait(SERVICE, long, GPU)) < 400
    assert len(describe_wait(SERVICE, wide, GPU)) < 600


@pytest.mark.parametrize(
    ("requested", "status", "want"),
    [
        (2, {"readyReplicas": 2}, False),
        (2, {"readyReplicas": 1}, True),
        (2, {}, False),
        (0, {"readyReplicas": 0}, False),
    ],
)
def test_a_ready_service_lacks_pods_while_replicas_are_missing(requested: int, status: Manifest, want: bool) -> None:
    remote: Manifest = {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"generation": 1},
        "status": {
            "observedGeneration": 1,
            "conditions": [{"type": type_, "status": "True"} for type_ in ("Ready", "PresetsCombined")],
            "workloads": {"primary": status},
        },
    }
    service: Manifest = {"spec": {"replicas": requested}}
    assert lacks_pods(service, ObservedObject(State.PRESENT, remote)) is want


def test_queues_are_observed_while_pods_are_missing() -> None:
    local = replace(writer(), observed={LOCAL_QUEUE: observed(local_queue())})
    first, then = (observe_queues(SERVICE, w, is_needed=True).composed for w in (writer(), local))
    written = {key: mapping(item.manifest, "spec.forProvider.manifest") for key, item in then.items()}
    version = "kueue.x-k8s.io/v1beta2"
    assert written == {
        LOCAL_QUEUE: {"apiVersion": version, "kind": "LocalQueue", "metadata": {"name": "gpus", "namespace": "team"}},
        CLUSTER_QUEUE: {"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": "all"}},
    }
    assert [*first] == [LOCAL_QUEUE]
    assert all(item.ready for item in then.values())
    for service, is_needed in ((SERVICE, False), ({}, True)):
        dropped = observe_queues(service, local, is_needed=is_needed)
        assert not dropped.composed
        assert [drop.key for drop in dropped.drops] == [LOCAL_QUEUE, CLUSTER_QUEUE]


def queued(*edits: Edit) -> Scene:
    """Returns a placement on a pool with a queue, whose service was created with it."""

    def label(scene: Scene) -> None:
        edit_observed("service-", "spec.forProvider.manifest.spec.labels", {QUEUE_LABEL: "gpus"})(scene)

    return load_scene(ONE_NODE).edited(edit_environment("nodePools.0.kueue", {"queue": "gpus"}), label, *edits)


def not_ready(scene: Scene) -> None:
    (key,) = (key for key in scene.observed if key.startswith("service-"))
    conditions: JSON = [{"type": "PresetsCombined", "status": "True"}, {"type": "Ready", "status": "False"}]
    set_field(scene.observed[key], "status.atProvider.manifest.status.conditions", conditions)


def test_a_placement_observes_its_queue_until_it_is_ready() -> None:
    assert LOCAL_QUEUE not in queued().outcome().composed
    waiting = queued(not_ready)
    assert waiting.outcome().composed[LOCAL_QUEUE].ready
    assert "Kueue admits the pods by LocalQueue gpus in namespace" in waiting.condition("ServiceReady").message
    assert get(waiting.outcome().composed[LOCAL_QUEUE].manifest, "spec.managementPolicies") == ["Observe"]
