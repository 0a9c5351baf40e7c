"""What is said of an LLMInferenceService: whether KServe took it, and whether it serves."""

from collections.abc import Sequence

from function.domain.problem import Problem
from function.exchange import Condition
from function.kube.manifests import Manifest, condition, listing, text
from function.observe.health import Level, assess, current
from function.observe.objects import ObservedObject, State
from function.reasons import ConditionType, ServiceAccepted, ServiceReady, Status
from function.report.conditions import faulty
from function.report.objects import obstacle

# The cluster answers, whatever became of what was written: what is mirrored is how it is.
_ANSWERED = {State.PRESENT, State.REJECTED, State.UNKNOWN_FIELD, State.CONFLICT, State.WEBHOOK_FAILED}


def accepted(remote: ObservedObject, *, gate_open: bool) -> Condition:
    """Return ServiceAccepted; `gate_open` tells whether the weights allow the service to be composed."""
    status, reason, message = _acceptance(remote, gate_open=gate_open)
    return Condition(type=ConditionType.SERVICE_ACCEPTED, status=status, reason=reason, message=message)


def _acceptance(remote: ObservedObject, *, gate_open: bool) -> tuple[Status, ServiceAccepted, str]:
    if remote.refused:
        return Status.FALSE, ServiceAccepted.REJECTED, obstacle(remote)
    if remote.state is State.KIND_MISSING:
        return (
            Status.FALSE,
            ServiceAccepted.REJECTED,
            "The cluster does not serve LLMInferenceService; install KServe",
        )
    if not remote.seen and not gate_open:
        return Status.FALSE, ServiceAccepted.WAITING_FOR_STORAGE, "The service is created once its weights are there"
    if remote.state is State.UNSEEN:
        return Status.FALSE, ServiceAccepted.APPLYING, "The service is being created"
    if not remote.present:
        return Status.UNKNOWN, ServiceAccepted.APPLYING, obstacle(remote)
    if not current(remote.manifest):
        return Status.FALSE, ServiceAccepted.APPLYING, "KServe has not seen the latest change yet"
    combined = condition(remote.manifest, "PresetsCombined")
    if combined.get("status") == "False":
        return Status.FALSE, ServiceAccepted.REJECTED, f"KServe: {text(combined, 'message')}"
    if combined.get("status") != "True":
        return Status.FALSE, ServiceAccepted.APPLYING, "KServe has not combined its presets yet"
    return Status.TRUE, ServiceAccepted.ACCEPTED, "KServe has accepted the service"


def invalid(problems: Sequence[Problem]) -> Condition:
    """Return ServiceAccepted for a service that cannot be written at all."""
    return faulty(ConditionType.SERVICE_ACCEPTED, ServiceAccepted.REJECTED, problems)


def serving(remote: ObservedObject, replicas: int, *, served: bool) -> Condition:
    """Return ServiceReady. `served`: it was Ready once, so that not being so now is Degraded, not Starting."""
    status, reason, message = _serving(remote, replicas, served=served)
    return Condition(type=ConditionType.SERVICE_READY, status=status, reason=reason, message=message)


def _serving(remote: ObservedObject, replicas: int, *, served: bool) -> tuple[Status, ServiceReady, str]:
    if remote.silent:
        reason = ServiceReady.UNREACHABLE if remote.out_of_reach else ServiceReady.SYNC_FAILED
        return Status.UNKNOWN, reason, f"{obstacle(remote)}{_last(remote)}"
    if not remote.seen:
        return Status.FALSE, ServiceReady.STARTING, "The service does not exist yet"
    if remote.state not in _ANSWERED:
        return Status.UNKNOWN, ServiceReady.UNREACHABLE, f"{obstacle(remote)}{_last(remote)}"
    health = assess(remote.manifest)
    if replicas == 0 and health.level is not Level.FAILED:
        waits = f". KServe: {health.message}" if health.message else ""
        return Status.TRUE, ServiceReady.SCALED_TO_ZERO, f"No replicas are asked for{waits}"
    if health.up:
        return Status.TRUE, ServiceReady.SERVING, f"Serving at {url(remote.manifest) or 'no URL yet'}"
    reason = ServiceReady.DEGRADED if served else ServiceReady.STARTING
    return Status.FALSE, reason, health.message or "Waits for KServe"


def _last(remote: ObservedObject) -> str:
    if not remote.seen:
        return ""
    return f". It was last seen as {'ready' if assess(remote.manifest).up else 'not ready'}"


def url(manifest: Manifest) -> str:
    """Return the service's URL: KServe's own, else its first address."""
    return text(manifest, "status.url") or next((text(a, "url") for a in listing(manifest, "status.addresses")), "")
