"""What stands between us and a remote object, as one sentence for each state; the provider's words follow."""

from collections.abc import Mapping

from function.remote.objects import ObservedObject, State

SENTENCES: Mapping[State, str] = {
    State.UNSEEN: "",
    State.PRESENT: "",
    State.ABSENT: "It does not exist on the cluster",
    State.KIND_MISSING: "The cluster does not serve its kind",
    State.NAMESPACE_MISSING: "The cluster lacks its namespace",
    State.NO_CREDENTIALS: "The cluster's kubeconfig is missing or unusable",
    State.NO_REFERENCE: "A Secret that is copied to the cluster does not exist",
    State.NO_REFERENCE_KEY: "A Secret that is copied to the cluster lacks the key",
    State.REJECTED: "The cluster refused it",
    State.UNKNOWN_FIELD: "The cluster does not know a field of it, so what serves its kind there is of another version",
    State.CONFLICT: "Somebody else changed it at the same time; the provider tries again",
    State.WEBHOOK_FAILED: "A webhook of the cluster does not answer",
    State.UNAUTHORISED: "The cluster and the kubeconfig do not accept each other's credentials",
    State.UNREACHABLE: "No answer from the cluster",
    State.UNRECOGNISED: "Not known; provider-kubernetes says",
}


def obstacle(remote: ObservedObject) -> str:
    """Return why the object is not known to be as it shall be; empty where nothing is in the way."""
    return ": ".join(part for part in (SENTENCES[remote.state], remote.message) if part)
