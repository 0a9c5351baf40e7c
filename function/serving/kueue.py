"""The queues by which Kueue admits the pods of a service, and what they say while not all of its pods are ready.

Kueue keeps a pod from being scheduled until it admits the pod's Workload. The Workload says why it waits, but its name
follows from that of a pod, and no label selects the Workloads of a service. So the LocalQueue is observed, and the
ClusterQueue behind it: each is one object with a known name (decision 49). They are observed only while pods are
missing.
"""

from collections.abc import Iterator
from dataclasses import replace

from function.contract import Composed, Desired, Drop
from function.kube.manifests import Manifest, condition, get, integer, listing, text
from function.kube.messages import format_count, join_with_more, truncate_middle
from function.remote.composed_kinds import KUEUE_VERSION, assess
from function.remote.object_writer import ManagementPolicy, ObjectWriter
from function.remote.observed_object import ObservedObject, State
from function.serving.labels import find_queue
from function.serving.pod_deployment import PRIMARY_WORKLOAD

LOCAL_QUEUE, CLUSTER_QUEUE = "local-queue", "cluster-queue"  # composition-resource-names
_CLUSTER_QUEUE_NAME = "spec.clusterQueue"  # of a LocalQueue
_MAX_CAUSE = 256  # bytes of what a queue says


def lacks_pods(service: Manifest, remote: ObservedObject) -> bool:
    """Tells whether not all replicas of a service as written are ready, as far as the cluster reports them."""
    requested = integer(service, "spec.replicas")
    ready = get(remote.manifest, f"{PRIMARY_WORKLOAD}.readyReplicas")
    is_complete = assess(remote.manifest).up and (not isinstance(ready, int) or ready >= requested)
    return requested > 0 and not is_complete


def observe_queues(service: Manifest, writer: ObjectWriter, *, is_needed: bool) -> Desired:
    """Returns the Objects that observe the queues of a service as written.

    They always count as ready, because a placement can be ready although its queues cannot be read.
    """
    queue = find_queue(service) if is_needed else ""
    if not queue:
        why = "no pod waits for Kueue"
        return Desired(drops=(Drop(LOCAL_QUEUE, why), Drop(CLUSTER_QUEUE, why)))
    namespace = text(service, "metadata.namespace")
    composed = {LOCAL_QUEUE: _observe(writer, LOCAL_QUEUE, "LocalQueue", {"name": queue, "namespace": namespace})}
    cluster_queue = text(writer.read(LOCAL_QUEUE).manifest, _CLUSTER_QUEUE_NAME)
    if not cluster_queue:
        return Desired(composed, (Drop(CLUSTER_QUEUE, "the LocalQueue names none yet"),))
    composed[CLUSTER_QUEUE] = _observe(writer, CLUSTER_QUEUE, "ClusterQueue", {"name": cluster_queue})
    return Desired(composed)


def describe_wait(service: Manifest, writer: ObjectWriter, gpu_resource: str) -> str:
    """Returns what holds the pods of a service as written, as far as its queues say; empty if they hold none.

    Workloads of others in the same queue are not told apart from those of the service.
    """
    name, namespace = find_queue(service), text(service, "metadata.namespace")
    queue = f"LocalQueue {name} in namespace {namespace} of the cluster"
    local = writer.read(LOCAL_QUEUE)
    if local.state is State.UNSEEN:
        return f"Kueue admits the pods by {queue}, which is not observed yet"
    if local.state is State.ABSENT:
        return f"Waiting for Kueue: {queue} does not exist"
    if local.state is State.KIND_MISSING:
        return f"The pods name {queue}, and the cluster does not serve {KUEUE_VERSION} of Kueue"
    if not local.present:
        return f"Kueue admits the pods by {queue}, which cannot be read: {local.problem}"
    cluster = writer.read(CLUSTER_QUEUE)
    stopped = _describe_inactive(local.manifest, queue) or _describe_inactive(
        cluster.manifest, f"ClusterQueue {text(cluster.manifest, 'metadata.name')}"
    )
    if stopped:
        return f"Waiting for Kueue: {stopped}"
    pending = integer(local.manifest, "status.pendingWorkloads")
    if not pending:
        return ""
    usage = _describe_usage(cluster.manifest, gpu_resource)
    waiting = f"Waiting for Kueue: {format_count(pending, 'Workload')} pending in {queue}, perhaps of others{usage}"
    return f"{waiting}; `kubectl -n {namespace} get workloads -o yaml` there has the cause of each"


def _observe(writer: ObjectWriter, key: str, kind: str, metadata: Manifest) -> Composed:
    manifest: Manifest = {"apiVersion": KUEUE_VERSION, "kind": kind, "metadata": metadata}
    return replace(writer.compose(key, manifest, ManagementPolicy.OBSERVE_ONLY), ready=True)


def _describe_inactive(queue: Manifest, subject: str) -> str:
    active = condition(queue, "Active")
    if active.get("status") != "False":
        return ""
    return f"{subject} is not active: {truncate_middle(text(active, 'message'), _MAX_CAUSE)}"


def _describe_usage(cluster_queue: Manifest, resource: str) -> str:
    """Returns how many GPUs of its quota a ClusterQueue has reserved in each flavor; empty if it is not observed."""
    if not cluster_queue:
        return ""
    reserved = {
        text(flavor, "name"): total
        for flavor in listing(cluster_queue, "status.flavorsReservation")
        for total in _find_amounts(flavor, resource, "total")
    }
    flavors = [
        f"{reserved.get(text(flavor, 'name'), '0')} of {quota} in flavor {text(flavor, 'name')}"
        for group in listing(cluster_queue, "spec.resourceGroups")
        for flavor in listing(group, "flavors")
        for quota in _find_amounts(flavor, resource, "nominalQuota")
    ]
    usage = f"has reserved {join_with_more(flavors)} of" if flavors else "has no quota for"
    return f"; ClusterQueue {text(cluster_queue, 'metadata.name')} {usage} {resource}"


def _find_amounts(flavor: Manifest, resource: str, field: str) -> Iterator[str]:
    """Returns the amount of a resource in a flavor, if it has the resource."""
    return (str(get(row, field)) for row in listing(flavor, "resources") if text(row, "name") == resource)
