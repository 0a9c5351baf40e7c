"""What is said of an LLMInferenceService: whether KServe took it, and whether it serves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from function.contract import Condition
from function.domain.model import Problem
from function.kube.manifests import condition, text
from function.reasons import ConditionType, ServiceAccepted, ServiceReady, Status
from function.remote.health import assess
from function.remote.objects import ObservedObject
from function.serving import state as observe
from function.serving.state import Acceptance, url
from function.status.conditions import faulty
from function.status.objects import obstacle
from function.status.weights import sentence
from function.weights.state import StorageState

_ACCEPTED: Mapping[Acceptance, str] = {
    Acceptance.NO_KSERVE: "The cluster does not serve LLMInferenceService; install KServe",
    Acceptance.WAITS: "The service is created once its weights are there",
    Acceptance.BEING_CREATED: "The service is being created",
    Acceptance.UNREAD: "KServe has not seen the latest change yet",
    Acceptance.UNCOMBINED: "KServe has not combined its presets yet",
    Acceptance.ACCEPTED: "KServe has accepted the service",
}


def accepted(remote: ObservedObject, *, gate_open: bool) -> Condition:
    """Return ServiceAccepted; `gate_open` tells whether the weights allow the service to be composed."""
    found = observe.acceptance(remote, gate_open=gate_open)
    status, reason = observe.ACCEPTED[found]
    message = _ACCEPTED.get(found) or obstacle(remote)
    if found is Acceptance.STUCK:
        message = f"KServe: {text(condition(remote.manifest, 'PresetsCombined'), 'message')}"
    return Condition(type=ConditionType.SERVICE_ACCEPTED, status=status, reason=reason, message=message)


def invalid(problems: Sequence[Problem]) -> Condition:
    """Return ServiceAccepted for a service that cannot be written at all."""
    return faulty(ConditionType.SERVICE_ACCEPTED, ServiceAccepted.REJECTED, problems)


def serving(remote: ObservedObject, replicas: int, *, served: bool) -> Condition:
    """Return ServiceReady. `served`: it was Ready once, so that not being so now is Degraded, not Starting."""
    status, reason = observe.serving(remote, replicas, served=served)
    message = _serving(reason, remote) if status is not Status.UNKNOWN else f"{obstacle(remote)}{_last(remote)}"
    return Condition(type=ConditionType.SERVICE_READY, status=status, reason=reason, message=message)


def remarked(serving: Condition, uncopied: StorageState | None) -> Condition:
    """Return ServiceReady; where nothing serves yet, with why an image may not be pulled."""
    if uncopied is None or serving.status is Status.TRUE:
        return serving
    return replace(serving, message=f"{serving.message}. Images cannot be pulled: {sentence(uncopied)}")


def _serving(reason: ServiceReady, remote: ObservedObject) -> str:
    if not remote.seen:
        return "The service does not exist yet"
    waits = assess(remote.manifest).message
    if reason is ServiceReady.STARTING and observe.without_replicas(remote):
        return "The service has no replicas yet"
    match reason:
        case ServiceReady.SERVING:
            return f"Serving at {url(remote.manifest) or 'no URL yet'}"
        case ServiceReady.SCALED_TO_ZERO:
            return f"No replicas are asked for. KServe: {waits}" if waits else "No replicas are asked for"
        case _:
            return waits or "Waits for KServe"


def _last(remote: ObservedObject) -> str:
    if not remote.seen:
        return ""
    return f". It was last seen as {'ready' if assess(remote.manifest).up else 'not ready'}"
