"""How an LLMInferenceService is, as data: whether KServe took it, and whether it serves."""

from collections.abc import Mapping
from enum import Enum

from function.kube.manifests import Manifest, condition, get, listing, text
from function.reasons import ServiceAccepted, ServiceReady, Status
from function.remote.health import Level, assess, current
from function.remote.objects import ObservedObject, State

# The cluster answers, whatever became of what was written: what is mirrored is how it is.
_ANSWERED = {State.PRESENT, State.REJECTED, State.UNKNOWN_FIELD, State.CONFLICT, State.WEBHOOK_FAILED}


class Acceptance(Enum):
    """What became of a service that was written, or shall be."""

    REFUSED = "the cluster refused it"
    NO_KSERVE = "the cluster does not serve its kind"
    WAITS = "its weights are not there yet"
    BEING_CREATED = "nobody has seen it yet"
    SILENT = "nothing is learned of it"
    UNREAD = "KServe has not seen the latest change yet"
    STUCK = "KServe has no preset for it"
    UNCOMBINED = "KServe has not combined its presets yet"
    ACCEPTED = "KServe has taken it"


ACCEPTED: Mapping[Acceptance, tuple[Status, ServiceAccepted]] = {
    Acceptance.REFUSED: (Status.FALSE, ServiceAccepted.REJECTED),
    Acceptance.NO_KSERVE: (Status.FALSE, ServiceAccepted.REJECTED),
    Acceptance.WAITS: (Status.FALSE, ServiceAccepted.WAITING_FOR_STORAGE),
    Acceptance.BEING_CREATED: (Status.FALSE, ServiceAccepted.APPLYING),
    Acceptance.SILENT: (Status.UNKNOWN, ServiceAccepted.APPLYING),
    Acceptance.UNREAD: (Status.FALSE, ServiceAccepted.APPLYING),
    Acceptance.STUCK: (Status.FALSE, ServiceAccepted.REJECTED),
    Acceptance.UNCOMBINED: (Status.FALSE, ServiceAccepted.APPLYING),
    Acceptance.ACCEPTED: (Status.TRUE, ServiceAccepted.ACCEPTED),
}


def acceptance(remote: ObservedObject, *, gate_open: bool) -> Acceptance:
    """Return whether KServe took a service; `gate_open` tells whether the weights allow it to be composed."""
    if remote.refused:
        return Acceptance.REFUSED
    if remote.state is State.KIND_MISSING:
        return Acceptance.NO_KSERVE
    if not remote.seen and not gate_open:
        return Acceptance.WAITS
    if remote.state is State.UNSEEN:
        return Acceptance.BEING_CREATED
    if not remote.present:
        return Acceptance.SILENT
    if not current(remote.manifest):
        return Acceptance.UNREAD
    combined = {"True": Acceptance.ACCEPTED, "False": Acceptance.STUCK}
    return combined.get(text(condition(remote.manifest, "PresetsCombined"), "status"), Acceptance.UNCOMBINED)


def without_replicas(remote: ObservedObject) -> bool:
    """Tell whether a service has no replicas, of which KServe says Ready all the same [docs/facts.md]."""
    return get(remote.manifest, "spec.replicas") == 0


def serving(remote: ObservedObject, replicas: int, *, served: bool) -> tuple[Status, ServiceReady]:
    """Return whether a service serves. `served`: it was Ready once, so that not being so now is Degraded.

    `replicas` are those that are asked for.
    """
    if remote.silent:
        return Status.UNKNOWN, ServiceReady.UNREACHABLE if remote.out_of_reach else ServiceReady.SYNC_FAILED
    if not remote.seen:
        return Status.FALSE, ServiceReady.STARTING
    if remote.state not in _ANSWERED:
        return Status.UNKNOWN, ServiceReady.UNREACHABLE
    health = assess(remote.manifest)
    if replicas > 0 and without_replicas(remote):
        return Status.FALSE, ServiceReady.STARTING
    if replicas == 0 and health.level is not Level.FAILED:
        return Status.TRUE, ServiceReady.SCALED_TO_ZERO
    if health.up:
        return Status.TRUE, ServiceReady.SERVING
    return Status.FALSE, ServiceReady.DEGRADED if served else ServiceReady.STARTING


def url(manifest: Manifest) -> str:
    """Return the service's URL: KServe's own, else its first address."""
    return text(manifest, "status.url") or next((text(a, "url") for a in listing(manifest, "status.addresses")), "")
