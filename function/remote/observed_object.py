"""The state and the health of one remote object, read from the provider-kubernetes Object that describes it.

The mirrored manifest of an Object that is Synced=False is stale: it says nothing about now. The state therefore comes
first, and the manifest decides health only where the state is PRESENT. The provider has no machine-readable reasons
for a failed sync; the phrases below are those of provider-kubernetes v1.2, client-go and apimachinery's errors.

Health is a level with a message and not a bool: a failed Job and a running Job are both not ready, and differ. Kinds
that are not in the table `HEALTH` have their Ready condition, which counts only if it is about the current generation.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from function.kube.manifests import Manifest, condition, get, integer, listing, mapping, text
from function.reasons import ClusterReady


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a state says to the user, and about the object and its cluster."""

    message: str = ""  # the provider's own words follow
    cluster: ClusterReady = ClusterReady.SYNC_FAILED  # the reason, if this is the Object for KServe's preset
    unreachable: bool = False  # the cluster cannot be asked
    refused: bool = False  # the cluster refuses what was written, and will as long as nothing changes
    transient: bool = False  # the write failed, the mirrored manifest is current


class State(Enum):
    """The state of a remote object as the provider reports it."""

    UNSEEN = _Facts(cluster=ClusterReady.CONNECTING)  # not composed, or not yet reconciled by the provider
    PRESENT = _Facts(cluster=ClusterReady.CONNECTED)
    ABSENT = _Facts("It does not exist on the cluster")  # of an Object that only observes
    KIND_MISSING = _Facts("The cluster does not serve its kind", cluster=ClusterReady.KSERVE_MISSING)
    NAMESPACE_MISSING = _Facts("Its namespace does not exist on the cluster", cluster=ClusterReady.KSERVE_MISSING)
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
    # The API server cannot reach its webhook: the same words follow as when the API server itself is unreachable.
    (State.WEBHOOK_FAILED, ("failed calling webhook",)),
    (State.REJECTED, ("denied the request",)),
    (State.UNAUTHORISED, ("x509:", "certificate has expired")),
    (State.UNREACHABLE, ("dial tcp", "i/o timeout", "tls handshake", "connection reset by peer")),
    (State.UNAUTHORISED, ("asked for the client to provide credentials",)),
    (State.CONFLICT, ("the object has been modified",)),
    (State.UNKNOWN_FIELD, ("not declared in schema", "strict decoding error")),
    (State.KIND_MISSING, ("no matches for kind", "could not find the requested resource")),
    (State.NAMESPACE_MISSING, ('namespaces " … " not found',)),
    (State.REJECTED, ("is invalid", "is forbidden", "forbidden:", "immutable", "admission webhook")),
    (State.UNAUTHORISED, ("unauthorized",)),
    (State.UNREACHABLE, ("context deadline exceeded", "client connection lost", '": eof')),
)
# Characters of a message that a condition can hold; a provider may quote a whole manifest in the middle.
_HEAD, _TAIL = 560, 240
# Anchored at the start of a word: tried at every character, it would cost the square of the length.
_CONNECTION = re.compile(r"(?<!\S)\S+:\d+->")


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
        # Of a Secret that is no kubeconfig the provider only quotes Go's parser.
        return ObservedObject(state, manifest, "" if state is State.INVALID_KUBECONFIG else message)
    return ObservedObject(State.PRESENT if manifest else State.UNSEEN, manifest)


def _classify(message: str) -> State:
    for state, phrases in _PHRASES:
        for phrase in phrases:
            if all(part in message for part in phrase.split(" … ")):
                return state
    return State.UNRECOGNISED


class Level(Enum):
    UP = "up"
    PROGRESSING = "progressing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Health:
    level: Level
    message: str = ""

    @property
    def up(self) -> bool:
        return self.level is Level.UP


_UP = Health(Level.UP)


def assess(manifest: Manifest) -> Health:
    """Returns the health of a manifest as read from its cluster; an empty one is progressing."""
    if not manifest:
        return Health(Level.PROGRESSING, "not created yet")
    kind = f"{text(manifest, 'apiVersion').rpartition('/')[0]}/{text(manifest, 'kind')}"
    return HEALTH.get(kind, _assess_ready_condition)(manifest)


def is_up(remote: ObservedObject) -> bool:
    return remote.present and assess(remote.manifest).up


def is_current(manifest: Manifest) -> bool:
    """Tells whether the status is about the current generation, or has no generation.

    A status that is ahead comes from a restored backup: the API server counts generations from 1 again.
    """
    generation = get(manifest, "metadata.generation")
    return generation is None or get(manifest, "status.observedGeneration") in (None, generation)


def is_programmed(route: Manifest) -> bool:
    """Tells whether every gateway has seen the current generation of a route; one without gateways is used by none."""
    generation = get(route, "metadata.generation")
    conditions = [listing(parent, "conditions") for parent in listing(route, "status.parents")]
    return all(any(c.get("observedGeneration") == generation for c in of_parent) for of_parent in conditions)


def _assess_route(manifest: Manifest) -> Health:
    parents = listing(manifest, "status.parents")
    if not parents:
        why = "no Gateway has seen it: its Gateway does not exist, or no controller serves it"
        return Health(Level.PROGRESSING, why)
    if not is_programmed(manifest):
        return Health(Level.PROGRESSING, "its Gateway has not observed the latest change yet")
    for parent in parents:
        for type_ in ("Accepted", "ResolvedRefs"):
            found = condition({"status": parent}, type_)
            status = text(found, "status") or "missing"
            message = text(found, "message") or "without a message"
            if status != "True":
                return Health(Level.FAILED, f"{type_} is {status}: {text(found, 'reason')}, {message}")
    return _UP


def _assess_namespace(manifest: Manifest) -> Health:
    if text(manifest, "status.phase") == "Terminating":
        return Health(Level.FAILED, "the namespace is being deleted")
    return _UP


def _assess_claim(manifest: Manifest) -> Health:
    phases = {"Bound": _UP, "Lost": Health(Level.FAILED, "the claim has lost its volume")}
    return phases.get(text(manifest, "status.phase"), Health(Level.PROGRESSING, "the claim is not bound yet"))


def _assess_job(manifest: Manifest) -> Health:
    if condition(manifest, "Complete").get("status") == "True":
        return _UP
    failed = condition(manifest, "Failed")
    if failed.get("status") == "True":
        return Health(Level.FAILED, f"{text(failed, 'reason')}: {text(failed, 'message')}")
    if integer(manifest, "status.failed"):
        return Health(Level.PROGRESSING, f"failed attempts so far: {integer(manifest, 'status.failed')}")
    if condition(manifest, "Suspended").get("status") == "True":
        return Health(Level.PROGRESSING, "suspended on the cluster; it continues once it is resumed there")
    if not integer(manifest, "status.active"):
        return Health(Level.PROGRESSING, "not started yet")
    if get(manifest, "status.ready") == 0:
        return Health(Level.PROGRESSING, "its pod is not running yet; see its events on the cluster")
    return Health(Level.PROGRESSING, "running")


def _assess_ready_condition(manifest: Manifest) -> Health:
    if not is_current(manifest):
        return Health(Level.PROGRESSING, "its controller has not observed the latest change yet")
    ready = condition(manifest, "Ready")
    if ready.get("status") == "True":
        return _UP
    return Health(Level.PROGRESSING, text(ready, "message") or text(ready, "reason"))


def _assess_service(manifest: Manifest) -> Health:
    # observedGeneration is current while a preset is missing, so Ready alone proves nothing (docs/facts.md, KServe).
    combined = condition(manifest, "PresetsCombined")
    if is_current(manifest) and combined.get("status") == "False":
        return Health(Level.FAILED, _describe(combined))
    health = _assess_ready_condition(manifest)
    if health.up and combined.get("status") != "True":
        return Health(Level.PROGRESSING, "its presets are not combined yet")
    false = [c for c in listing(manifest, "status.conditions") if c.get("status") == "False"]
    if health.up or not false:
        return health
    return Health(health.level, _describe(min(false, key=lambda c: (c.get("type") == "Ready", text(c, "type")))))


def _describe(entry: Manifest) -> str:
    # Without the reason: KServe sets AllGroupsReady while pods are not ready (docs/facts.md, KServe).
    return ": ".join(part for part in (text(entry, "type"), text(entry, "message")) if part)


HEALTH: Mapping[str, Callable[[Manifest], Health]] = {
    "/Namespace": _assess_namespace,
    "/ConfigMap": lambda _: _UP,
    "/Secret": lambda _: _UP,
    "/PersistentVolumeClaim": _assess_claim,
    "batch/Job": _assess_job,
    "storage.k8s.io/StorageClass": lambda _: _UP,
    "serving.kserve.io/LLMInferenceServiceConfig": lambda _: _UP,
    "serving.kserve.io/LLMInferenceService": _assess_service,
    "gateway.networking.k8s.io/HTTPRoute": _assess_route,
}

# The same checks in CEL for provider-kubernetes, which polls every 30 s only while an Object is not Ready. An error in
# a query counts as not ready, hence the `has()`.
READINESS: Mapping[str, str] = {
    "/PersistentVolumeClaim": "has(object.status) && has(object.status.phase) && object.status.phase == 'Bound'",
    "batch/Job": (
        "has(object.status) && has(object.status.conditions) && "
        "object.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')"
    ),
    "serving.kserve.io/LLMInferenceService": (
        "has(object.status) && has(object.status.conditions) && has(object.status.observedGeneration) && "
        "object.status.observedGeneration == object.metadata.generation && "
        "['Ready', 'PresetsCombined'].all(t, "
        "object.status.conditions.exists(c, c.type == t && c.status == 'True'))"
    ),
    "gateway.networking.k8s.io/HTTPRoute": (
        "has(object.status) && has(object.status.parents) && size(object.status.parents) > 0 && "
        "object.status.parents.all(p, has(p.conditions) && ['Accepted', 'ResolvedRefs'].all(t, "
        "p.conditions.exists(c, c.type == t && c.status == 'True' && has(c.observedGeneration) && "
        "c.observedGeneration == object.metadata.generation)))"
    ),
}
