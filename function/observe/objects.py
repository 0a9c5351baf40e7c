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
    UNREACHABLE = "the cluster does not answer"


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
    (("cannot get credentials secret",), State.NO_CREDENTIALS),
    (("cannot get provider config",), State.NO_CREDENTIALS),
    (("dial tcp",), State.UNREACHABLE),
    (("i/o timeout",), State.UNREACHABLE),
    (("tls handshake",), State.UNREACHABLE),
    (("no matches for kind",), State.KIND_MISSING),
    (("could not find the requested resource",), State.KIND_MISSING),
    (('namespaces "', '" not found'), State.NAMESPACE_MISSING),
    (("denied the request",), State.REJECTED),
    (("is invalid",), State.REJECTED),
    (("is forbidden",), State.REJECTED),
    (("forbidden:",), State.REJECTED),
    (("immutable",), State.REJECTED),
    (("admission webhook",), State.REJECTED),
    (("strict decoding error",), State.REJECTED),
)


_CONNECTION = re.compile(r" ?\S+:\d+->")


def read(observed: Manifest | None) -> ObservedObject:
    """Return what an observed Object says; None where it is not composed yet."""
    if observed is None:
        return ObservedObject(State.UNSEEN, {})
    manifest = mapping(observed, "status.atProvider.manifest")
    synced = condition(observed, "Synced")
    if synced.get("status") == "False":
        # Ports of a broken connection differ at every try, and a message that changes is written anew each time.
        message = _CONNECTION.sub("", text(synced, "message"))
        return ObservedObject(_classify(message), manifest, message)
    return ObservedObject(State.PRESENT if manifest else State.UNSEEN, manifest)


def _classify(message: str) -> State:
    lowered = message.lower()
    for phrases, state in _PHRASES:
        if all(phrase in lowered for phrase in phrases):
            return state
    return State.UNREACHABLE
