"""What is known of a cluster and of its storage class, from the Objects of its environment."""

from collections.abc import Mapping

from function.reasons import ClusterReady, EnvironmentStorage, Status
from function.remote.objects import ObservedObject, State

_CLUSTERS: Mapping[State, ClusterReady] = {
    State.UNSEEN: ClusterReady.CONNECTING,
    State.PRESENT: ClusterReady.CONNECTED,
    State.NO_CREDENTIALS: ClusterReady.KUBECONFIG_MISSING,
    State.KIND_MISSING: ClusterReady.KSERVE_MISSING,
    State.NAMESPACE_MISSING: ClusterReady.KSERVE_MISSING,
    State.UNKNOWN_FIELD: ClusterReady.KSERVE_MISSING,
    State.REJECTED: ClusterReady.UNREACHABLE,
    State.UNAUTHORISED: ClusterReady.UNREACHABLE,
    State.UNREACHABLE: ClusterReady.UNREACHABLE,
}
_STATUSES: Mapping[ClusterReady | EnvironmentStorage, Status] = {
    ClusterReady.CONNECTED: Status.TRUE,
    ClusterReady.CONNECTING: Status.UNKNOWN,
    ClusterReady.SYNC_FAILED: Status.UNKNOWN,
    EnvironmentStorage.DEFAULT_CLASS: Status.TRUE,
    EnvironmentStorage.STORAGE_CLASS_FOUND: Status.TRUE,
    EnvironmentStorage.CONNECTING: Status.UNKNOWN,
}


def cluster(preset: ObservedObject) -> tuple[Status, ClusterReady]:
    """Return how a cluster is, from the Object that keeps KServe's pipeline preset."""
    reason = _CLUSTERS.get(preset.state, ClusterReady.SYNC_FAILED)
    return _STATUSES.get(reason, Status.FALSE), reason


def storage(class_name: str | None, remote: ObservedObject) -> tuple[Status, EnvironmentStorage]:
    """Return how the storage of an environment is, from its class and the observe-only Object on it."""
    reason = _storage(class_name, remote)
    return _STATUSES.get(reason, Status.FALSE), reason


def _storage(class_name: str | None, remote: ObservedObject) -> EnvironmentStorage:
    if class_name is None:
        return EnvironmentStorage.NOT_CONFIGURED
    if class_name == "":
        return EnvironmentStorage.DEFAULT_CLASS
    if remote.present:
        return EnvironmentStorage.STORAGE_CLASS_FOUND
    absent = remote.state is State.ABSENT
    return EnvironmentStorage.STORAGE_CLASS_NOT_FOUND if absent else EnvironmentStorage.CONNECTING
