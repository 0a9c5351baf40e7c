"""What is said of a ModelPlacement: its phase, its service and its storage."""

from collections.abc import Sequence

from function.contract import Condition
from function.domain.allocation import Share
from function.domain.cache import Hydration
from function.domain.placement import Placement
from function.kube.manifests import Manifest, flag, integer, mapping, prune
from function.kube.quantity import gib
from function.reasons import ConditionType, Phase, ServiceAccepted, ServiceReady, Status
from function.remote.objects import ObservedObject
from function.serving.state import url
from function.status import loading
from function.status.caches import remembered
from function.status.inference_environment import share
from function.status.weights import sentence
from function.weights.loading import Loading
from function.weights.plan import StoragePlan
from function.weights.state import StorageState


def storage_ready(state: StorageState) -> Condition:
    """Return StorageReady as the weights say."""
    message = sentence(state)
    return Condition(type=ConditionType.STORAGE_READY, status=state.status, reason=state.reason, message=message)


def progress(
    xr: Manifest, conditions: Sequence[Condition], state: StorageState | None, service: ObservedObject
) -> Manifest:
    """Return the phase, and the latch `served`: it was Ready once, now or before."""
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
    """Return the status beside phase and latch, with what is said of the service; `stored`: where the weights are."""
    gpus = placement.shape.gpus * placement.replicas if placement.shape else 0
    return prune({"gpus": gpus, "service": service, "storage": stored or None})


def service(
    remote: ObservedObject, name: str, namespace: str, uri: str, next_uri: str, takes: Share | None
) -> Manifest:
    """Return which service it is, what it reads and will read next, and what it takes of which pool."""
    read = {"url": url(remote.manifest) or None, "uri": uri or None, "appliedUri": next_uri or None}
    said = prune({"name": name, "namespace": namespace, **read})
    selector: Manifest = {} if takes is None or takes.labels is None else {"nodeSelector": dict(takes.labels)}
    return {**said, **(share(takes) if takes else {}), **selector}


def with_fewer(status: Manifest, replicas: int) -> Manifest:
    """Return the parts of a status that tell what a service takes, which is no more than so many replicas."""
    said = mapping(status, "service")
    has = integer(said, "replicas")
    if has <= replicas:
        return {}
    return {"service": {**said, "replicas": replicas}, "gpus": integer(status, "gpus") * replicas // has}


def storage(plan: StoragePlan, mode: str, hydration: Hydration, loads: Loading | None) -> Manifest:
    """Return where the weights are, how large they may be, and how long they take to load."""
    return prune(
        {
            "type": plan.type,
            "claimName": plan.claim_name or None,
            "path": plan.path or None,
            "accessMode": mode or None,
            "uri": plan.uri,
            "size": gib(plan.size.amount) if plan.size else None,
            "sizeFrom": plan.size.source if plan.size else None,
            **loading.status(loads),
            "job": plan.job.name if plan.job else None,
            **(remembered(hydration) if plan.job else {}),
        }
    )
