"""The state of one remote object, read from the provider-kubernetes Object that describes it.

The mirrored manifest of an Object that is Synced=False is stale: it does not show the present. The state therefore
comes first, and the manifest decides its health only where the state is PRESENT. The provider has no machine-readable
reasons for a failed sync; the phrases below are those of provider-kubernetes v1.2, client-go and apimachinery's errors.
"""

import re
from dataclasses import dataclass
from enum import Enum

from function.kube.manifests import Manifest, condition, mapping, text
from function.reasons import ClusterReady
from function.remote.composed_kinds import assess

_WRITTEN = "spec.forProvider.manifest"


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a state means for the user, the object and its cluster."""

    message: str = ""  # the provider's own words follow
    cluster: ClusterReady = ClusterReady.SYNC_FAILED  # the reason, if this is the Object for KServe's preset
    unreachable: bool = False  # the cluster cannot be asked
    refused: bool = False  # the cluster refuses the write, and will refuse it until something changes
    transient: bool = False  # the write failed, the mirrored manifest is current


class State(Enum):
    """The state of a remote object as the provider reports it."""

    UNSEEN = _Facts(cluster=ClusterReady.CONNECTING)  # not composed, or not yet reconciled by the provider
    PRESENT = _Facts(cluster=ClusterReady.CONNECTED)
    ABSENT = _Facts("It does not exist on the cluster")  # of an Object that only observes
    KIND_MISSING = _Facts("The cluster does not serve its kind", cluster=ClusterReady.KSERVE_MISSING)
    NAMESPACE_MISSING = _Facts("Its namespace does not exist on the cluster", cluster=ClusterReady.KSERVE_MISSING)
    NAMESPACE_ENDING = _Facts("Its namespace is being deleted", cluster=ClusterReady.KSERVE_MISSING, transient=True)
    NO_CREDENTIALS = _Facts(
        "The cluster's kubeconfig is missing or unusable", cluster=ClusterReady.KUBECONFIG_MISSING, unreachable=True
    )
    INVALID_KUBECONFIG = _Facts(
        "The cluster's Secret holds no kubeconfig", cluster=ClusterReady.KUBECONFIG_MISSING, unreachable=True
    )
    NO_REFERENCE = _Facts("A Secret that is copied to the cluster does not exist")
    NO_REFERENCE_KEY = _Facts("A Secret that is copied to the cluster lacks the key")
    REJECTED = _Facts("The cluster refused it", cluster=ClusterReady.UNREACHABLE, refused=True)
    UNKNOWN_FIELD = _Facts(
        "The cluster does not know one of its fields: another version of its CRD is installed",
        cluster=ClusterReady.KSERVE_MISSING,
        refused=True,
    )
    CONFLICT = _Facts("Write conflict; the provider will retry", transient=True)
    WEBHOOK_FAILED = _Facts("A webhook of the cluster does not answer", transient=True)
    UNAUTHORISED = _Facts(
        "The cluster and the kubeconfig do not accept each other's credentials",
        cluster=ClusterReady.UNREACHABLE,
        unreachable=True,
    )
    UNREACHABLE = _Facts("The cluster does not answer", cluster=ClusterReady.UNREACHABLE, unreachable=True)
    UNRECOGNISED = _Facts("Unrecognized error from provider-kubernetes")


@dataclass(frozen=True, slots=True)
class ObservedObject:
    state: State
    manifest: Manifest  # empty: never seen
    message: str = ""  # of the provider

    @property
    def present(self) -> bool:
        """Tells whether it exists now."""
        return self.state is State.PRESENT

    @property
    def seen(self) -> bool:
        """Tells whether it was ever seen to exist."""
        return bool(self.manifest)

    @property
    def state_unknown(self) -> bool:
        """Tells whether its present state is unknown: the mirrored manifest, if there is one, is stale."""
        if self.state.value.transient:
            return not self.seen
        return self.unreachable or self.state is State.UNRECOGNISED

    @property
    def unreachable(self) -> bool:
        return self.state.value.unreachable

    @property
    def refused(self) -> bool:
        return self.state.value.refused

    @property
    def problem(self) -> str:
        """Why the object is not known to be as desired, with the provider's words; empty where nothing is wrong."""
        return ": ".join(part for part in (self.state.value.message, self.message) if part)


# First row with a phrase in the message wins. Lower case; both parts of a phrase with an ellipsis must occur.
_PHRASES: tuple[tuple[State, tuple[str, ...]], ...] = (
    (State.ABSENT, ("external resource does not exist",)),
    (State.NO_REFERENCE, ("cannot get referenced resource … not found",)),
    (State.NO_REFERENCE_KEY, ("cannot patch from referenced resource",)),
    (State.NO_CREDENTIALS, ("cannot get credentials", "cannot extract from secret key", "cannot get provider config")),
    (
        State.INVALID_KUBECONFIG,
        (
            "failed to load kubeconfig",
            "cannot create new rest config using provider secret",
            "currentcontext not set in kubeconfig",
        ),
    ),
    # The API server cannot reach a webhook. The same words follow as if the API server itself were unreachable.
    (State.WEBHOOK_FAILED, ("failed calling webhook",)),
    (State.REJECTED, ("denied the request",)),
    (State.UNAUTHORISED, ("x509:", "certificate has expired")),
    (State.UNREACHABLE, ("dial tcp", "i/o timeout", "tls handshake", "connection reset by peer")),
    (State.UNAUTHORISED, ("asked for the client to provide credentials",)),
    (State.CONFLICT, ("the object has been modified",)),
    (State.UNKNOWN_FIELD, ("not declared in schema", "strict decoding error")),
    (State.KIND_MISSING, ("no matches for kind", "could not find the requested resource")),
    (State.NAMESPACE_MISSING, ('namespaces " … " not found',)),
    (State.NAMESPACE_ENDING, ("because it is being terminated",)),
    (State.REJECTED, ("is invalid", "is forbidden", "forbidden:", "immutable", "admission webhook")),
    (State.UNAUTHORISED, ("unauthorized",)),
    (State.UNREACHABLE, ("context deadline exceeded", "client connection lost", '": eof')),
)
# Characters of a message that a condition can hold; a provider may quote a whole manifest in the middle.
_HEAD, _TAIL = 560, 240
# Anchored at the start of a word: matching from every character would take quadratic time.
_CONNECTION = re.compile(r"(?<!\S)\S+:\d+->")


def read_written(observed: Manifest | None) -> Manifest:
    """Returns the manifest in the spec of an Object, as this function last wrote it; empty if there is none."""
    return mapping(observed, _WRITTEN)


def read_object(observed: Manifest | None) -> ObservedObject:
    """Returns what an observed Object says; None: it is not composed yet."""
    if observed is None:
        return ObservedObject(State.UNSEEN, {})
    manifest = mapping(observed, "status.atProvider.manifest")
    synced = condition(observed, "Synced")
    if synced.get("status") == "False":
        # The ports of a broken connection differ at every attempt; without them the message stays the same.
        message = text(synced, "message")
        if len(message) > _HEAD + _TAIL:
            message = f"{message[:_HEAD]} … {message[-_TAIL:]}"
        message = _CONNECTION.sub("", message)
        state = _classify(message.lower())
        # If the Secret is not a kubeconfig, the provider only quotes Go's parser.
        return ObservedObject(state, manifest, "" if state is State.INVALID_KUBECONFIG else message)
    return ObservedObject(State.PRESENT if manifest else State.UNSEEN, manifest)


def _classify(message: str) -> State:
    for state, phrases in _PHRASES:
        for phrase in phrases:
            if all(part in message for part in phrase.split(" … ")):
                return state
    return State.UNRECOGNISED


def is_up(remote: ObservedObject) -> bool:
    return remote.present and assess(remote.manifest).up
