"""What provider-kubernetes says about one remote object, read from the Object that describes it.

An Object that is Synced=False tells the past: its mirrored manifest is what was last seen, which says nothing about
now. So the state is told first, and the mirrored manifest is trusted for "is it ready" only where the state is
PRESENT. The provider has no machine-readable reasons for a failed sync; the phrases below are those of
provider-kubernetes v1.2, client-go and apimachinery's errors.
"""

import re
from dataclasses import dataclass
from enum import Enum

from function.kube.manifests import Manifest, condition, mapping, text


class State(Enum):
    """What is known of a remote object."""

    UNSEEN = "not composed, or the provider has not looked yet"
    PRESENT = "exists as last read"
    ABSENT = "observed only, and not there"
    KIND_MISSING = "the cluster does not serve the kind"
    NAMESPACE_MISSING = "the cluster lacks the namespace"
    NO_CREDENTIALS = "the Secret with the kubeconfig is missing or unusable"
    NO_REFERENCE = "a Secret that is copied does not exist"
    NO_REFERENCE_KEY = "a Secret that is copied lacks the key"
    REJECTED = "the cluster answered and refused"
    UNKNOWN_FIELD = "the cluster answered and does not know a field"
    CONFLICT = "somebody else changed it at the same time"
    WEBHOOK_FAILED = "a webhook of the cluster does not answer"
    UNAUTHORISED = "the cluster and the kubeconfig do not accept each other's credentials"
    UNREACHABLE = "the cluster does not answer"
    UNRECOGNISED = "the provider failed, in words that nobody knows"


_OUT_OF_REACH = frozenset({State.NO_CREDENTIALS, State.UNAUTHORISED, State.UNREACHABLE})
_HINDERED = frozenset({State.CONFLICT, State.WEBHOOK_FAILED})
_REFUSED = frozenset({State.REJECTED, State.UNKNOWN_FIELD})


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """A remote object as last seen. `manifest` is empty where it was never seen."""

    state: State
    manifest: Manifest
    message: str = ""

    @property
    def present(self) -> bool:
        """Whether it exists now."""
        return self.state is State.PRESENT

    @property
    def silent(self) -> bool:
        """Whether nothing was learned of how it is now: what is mirrored tells the past, if anything."""
        if self.state in _HINDERED:
            return not self.seen
        return self.out_of_reach or self.state is State.UNRECOGNISED

    @property
    def out_of_reach(self) -> bool:
        """Whether the cluster cannot be asked."""
        return self.state in _OUT_OF_REACH

    @property
    def refused(self) -> bool:
        """Whether the cluster said no to what was written; as long as nothing changes it will."""
        return self.state in _REFUSED

    @property
    def seen(self) -> bool:
        """Whether it was ever seen to exist."""
        return bool(self.manifest)


# First match wins. Lower case; every phrase of a row must occur.
_PHRASES: tuple[tuple[tuple[str, ...], State], ...] = (
    (("external resource does not exist",), State.ABSENT),
    (("cannot get referenced resource", "not found"), State.NO_REFERENCE),
    (("cannot patch from referenced resource",), State.NO_REFERENCE_KEY),
    (("cannot get credentials",), State.NO_CREDENTIALS),
    (("cannot extract from secret key",), State.NO_CREDENTIALS),
    (("cannot get provider config",), State.NO_CREDENTIALS),
    # The API server cannot reach its webhook, in the same words as we would not reach the API server.
    (("failed calling webhook",), State.WEBHOOK_FAILED),
    (("denied the request",), State.REJECTED),
    (("x509:",), State.UNAUTHORISED),
    (("certificate has expired",), State.UNAUTHORISED),
    (("dial tcp",), State.UNREACHABLE),
    (("i/o timeout",), State.UNREACHABLE),
    (("tls handshake",), State.UNREACHABLE),
    (("connection reset by peer",), State.UNREACHABLE),
    (("asked for the client to provide credentials",), State.UNAUTHORISED),
    (("the object has been modified",), State.CONFLICT),
    (("not declared in schema",), State.UNKNOWN_FIELD),
    (("strict decoding error",), State.UNKNOWN_FIELD),
    (("no matches for kind",), State.KIND_MISSING),
    (("could not find the requested resource",), State.KIND_MISSING),
    (('namespaces "', '" not found'), State.NAMESPACE_MISSING),
    (("is invalid",), State.REJECTED),
    (("is forbidden",), State.REJECTED),
    (("forbidden:",), State.REJECTED),
    (("immutable",), State.REJECTED),
    (("admission webhook",), State.REJECTED),
    (("unauthorized",), State.UNAUTHORISED),
    (("context deadline exceeded",), State.UNREACHABLE),
    (("client connection lost",), State.UNREACHABLE),
    (('": eof',), State.UNREACHABLE),
)
# What a condition can hold; a provider may quote a whole manifest between what failed and why.
_HEAD, _TAIL = 560, 240
# Anchored at the start of a word: tried at every character, it would cost the square of the length.
_CONNECTION = re.compile(r"(?<!\S)\S+:\d+->")


def read(observed: Manifest | None) -> ObservedObject:
    """Return what an observed Object says; None where it is not composed yet."""
    if observed is None:
        return ObservedObject(State.UNSEEN, {})
    manifest = mapping(observed, "status.atProvider.manifest")
    synced = condition(observed, "Synced")
    if synced.get("status") == "False":
        # Ports of a broken connection differ at every try, and a message that changes is written anew each time.
        message = _CONNECTION.sub("", _cut(text(synced, "message")))
        return ObservedObject(_classify(message), manifest, message)
    return ObservedObject(State.PRESENT if manifest else State.UNSEEN, manifest)


def _classify(message: str) -> State:
    lowered = message.lower()
    for phrases, state in _PHRASES:
        if all(phrase in lowered for phrase in phrases):
            return state
    return State.UNRECOGNISED


def _cut(message: str) -> str:
    """Return a message without its middle where it is long, before anything else looks at it."""
    return message if len(message) <= _HEAD + _TAIL else f"{message[:_HEAD]} … {message[-_TAIL:]}"
