"""Status and conditions of a ModelPlacement: its phase, its service and its storage."""

from collections.abc import Sequence
from dataclasses import replace

from function.contract import Condition
from function.domain.allocation import Share
from function.domain.cache import Hydration
from function.domain.model import Problem
from function.domain.placement import Placement
from function.kube.manifests import Manifest, condition, flag, get, integer, listing, mapping, prune, text
from function.kube.quantity import gib
from function.reasons import ConditionType, Phase, ServiceAccepted, ServiceReady, Status
from function.remote.health import Level, assess, is_current
from function.remote.observed_object import ObservedObject, State
from function.status.conditions import faulty
from function.status.inference_environment import build_share
from function.status.model_cache import build_hydration_status
from function.status.weights import build_load_status, describe_storage
from function.weights.planner import StoragePlan
from function.weights.sizing import LoadEstimate
from function.weights.state import StorageState

# The cluster answers, whatever became of the last write: the mirrored manifest is current.
_ANSWERED = {State.PRESENT, State.REJECTED, State.UNKNOWN_FIELD, State.CONFLICT, State.WEBHOOK_FAILED}


def storage_ready(state: StorageState) -> Condition:
    """Returns StorageReady from the state of the weights."""
    return Condition(
        type=ConditionType.STORAGE_READY, status=state.status, reason=state.reason, message=describe_storage(state)
    )


def service_accepted(remote: ObservedObject, *, may_compose: bool) -> Condition:
    """Returns ServiceAccepted from the observed service; `may_compose`: admission and weights allow to compose it."""
    status, reason, message = _judge_acceptance(remote, may_compose=may_compose)
    return Condition(type=ConditionType.SERVICE_ACCEPTED, status=status, reason=reason, message=message)


def service_invalid(problems: Sequence[Problem]) -> Condition:
    """Returns ServiceAccepted of a service that cannot be built."""
    return faulty(ConditionType.SERVICE_ACCEPTED, ServiceAccepted.REJECTED, problems)


def service_ready(remote: ObservedObject, replicas: int, *, ever_ready: bool) -> Condition:
    """Returns ServiceReady from the observed service and the requested replicas.

    `ever_ready`: the service was Ready before, so that not being so now is Degraded and not Starting.
    """
    status, reason, message = _judge_readiness(remote, replicas, ever_ready=ever_ready)
    return Condition(type=ConditionType.SERVICE_READY, status=status, reason=reason, message=message)


def with_pull_secret_note(ready: Condition, missing: StorageState | None) -> Condition:
    """Returns ServiceReady; while nothing serves it also says why an image cannot be pulled."""
    if missing is None or ready.status is Status.TRUE:
        return ready
    return replace(ready, message=f"{ready.message}. Images cannot be pulled: {describe_storage(missing)}")


def service_url(service: Manifest) -> str:
    """Returns the URL of a service: KServe's own, else its first address."""
    return text(service, "status.url") or next((text(a, "url") for a in listing(service, "status.addresses")), "")


def _judge_acceptance(remote: ObservedObject, *, may_compose: bool) -> tuple[Status, ServiceAccepted, str]:
    if remote.refused:
        return Status.FALSE, ServiceAccepted.REJECTED, remote.problem
    if remote.state is State.KIND_MISSING:
        message = "The cluster does not serve LLMInferenceService; install KServe"
        return Status.FALSE, ServiceAccepted.REJECTED, message
    if not remote.seen and not may_compose:
        message = "The service is created once its weights are ready"
        return Status.FALSE, ServiceAccepted.WAITING_FOR_STORAGE, message
    if remote.state is State.UNSEEN:
        return Status.FALSE, ServiceAccepted.APPLYING, "The service is being created"
    if not remote.present:
        return Status.UNKNOWN, ServiceAccepted.APPLYING, remote.problem
    if not is_current(remote.manifest):
        return Status.FALSE, ServiceAccepted.APPLYING, "KServe has not observed the latest change yet"
    presets = condition(remote.manifest, "PresetsCombined")
    match text(presets, "status"):
        case "True":
            return Status.TRUE, ServiceAccepted.ACCEPTED, "KServe has accepted the service"
        case "False":
            return Status.FALSE, ServiceAccepted.REJECTED, f"KServe: {text(presets, 'message')}"
        case _:
            return Status.FALSE, ServiceAccepted.APPLYING, "KServe has not combined its presets yet"


def _judge_readiness(remote: ObservedObject, replicas: int, *, ever_ready: bool) -> tuple[Status, ServiceReady, str]:
    health = assess(remote.manifest)
    if remote.state_unknown or (remote.seen and remote.state not in _ANSWERED):
        reason = ServiceReady.UNREACHABLE
        if remote.state_unknown and not remote.unreachable:
            reason = ServiceReady.SYNC_FAILED
        last = f". Last observed as {'ready' if health.up else 'not ready'}" if remote.seen else ""
        return Status.UNKNOWN, reason, f"{remote.problem}{last}"
    if not remote.seen:
        return Status.FALSE, ServiceReady.STARTING, "The service does not exist yet"
    # KServe reports Ready for a service without replicas [docs/facts.md].
    if replicas > 0 and get(remote.manifest, "spec.replicas") == 0:
        return Status.FALSE, ServiceReady.STARTING, "The service has no replicas yet"
    if replicas == 0 and health.level is not Level.FAILED:
        message = f"No replicas are requested. KServe: {health.message}" if health.message else ""
        return Status.TRUE, ServiceReady.SCALED_TO_ZERO, message or "No replicas are requested"
    if health.up:
        return Status.TRUE, ServiceReady.SERVING, f"Serving at {service_url(remote.manifest) or 'no URL yet'}"
    reason = ServiceReady.DEGRADED if ever_ready else ServiceReady.STARTING
    return Status.FALSE, reason, health.message or "Waiting for KServe"


def progress(
    xr: Manifest, conditions: Sequence[Condition], state: StorageState | None, service: ObservedObject
) -> Manifest:
    """Returns the phase, and whether the service was ever Ready."""
    serves = any(c.reason == ServiceReady.SERVING for c in conditions)
    return {"phase": _phase(conditions, state, service), "served": serves or flag(xr, "status.served")}


def _phase(conditions: Sequence[Condition], state: StorageState | None, service: ObservedObject) -> Phase:
    by_type = {condition.type: condition for condition in conditions}
    if by_type[ConditionType.SERVICE_READY].status is Status.TRUE:
        return Phase.READY
    if by_type[ConditionType.SERVICE_ACCEPTED].reason == ServiceAccepted.REJECTED:
        return Phase.FAILED
    if service.seen:
        return Phase.STARTING
    if state is None:
        return Phase.PENDING
    return Phase.STARTING if state.status is Status.TRUE else state.phase


def status(placement: Placement, service: Manifest, stored: Manifest) -> Manifest:
    """Returns the status except `progress`, with the parts for the service and for the storage of the weights."""
    gpus = placement.shape.gpus * placement.replicas if placement.shape else 0
    return prune({"gpus": gpus, "service": service, "storage": stored or None})


def service(
    remote: ObservedObject, name: str, namespace: str, serving_uri: str, applied_uri: str, allocated: Share | None
) -> Manifest:
    """Returns the part of the status for the service: its name, what it reads, and what it takes of which pool."""
    selector: Manifest = {"nodeSelector": dict(allocated.labels)} if allocated and allocated.labels is not None else {}
    return {
        **prune(
            {
                "name": name,
                "namespace": namespace,
                "url": service_url(remote.manifest) or None,
                "uri": serving_uri or None,
                "appliedUri": applied_uri or None,
            }
        ),
        **(build_share(allocated) if allocated else {}),
        **selector,
    }


def limit_replicas(status: Manifest, replicas: int) -> Manifest:
    """Returns the allocation in a status for at most this number of replicas; empty where it is no more."""
    service = mapping(status, "service")
    allocated = integer(service, "replicas")
    if allocated <= replicas:
        return {}
    return {"service": {**service, "replicas": replicas}, "gpus": integer(status, "gpus") * replicas // allocated}


def storage(plan: StoragePlan, mode: str, hydration: Hydration, loads: LoadEstimate | None) -> Manifest:
    """Returns the part of the status for the storage: where the weights are, their size, and their time to load."""
    return prune(
        {
            "type": plan.type,
            "claimName": plan.claim_name or None,
            "path": plan.path or None,
            "accessMode": mode or None,
            "uri": plan.uri,
            "size": gib(plan.size.amount) if plan.size else None,
            "sizeFrom": plan.size.source if plan.size else None,
            **build_load_status(loads),
            "job": plan.job.name if plan.job else None,
            **(build_hydration_status(hydration) if plan.job else {}),
        }
    )
