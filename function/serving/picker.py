"""The endpoint picker of a service: when it is requested, when requests may go to its InferencePool, and when it goes.

KServe composes the picker and the InferencePool for `spec.router.scheduler`. Engines do not restart when it comes or
goes, so it is not part of the spec digest.

A gateway refuses requests to an InferencePool while no picker answers. So ModelServices may name the InferencePool only
once KServe has reported the service Ready with it, and no longer when no picker is ready. A picker that is not
requested any more stays until ModelServices have had the time to withdraw the InferencePool. A service gets its picker
only once it has served: until then a gateway that accepts no pool would look like an engine that does not start.
"""

import math
from collections.abc import Iterable

from function.domain.model import Routing
from function.domain.records.service import ServiceRecord
from function.kube.manifests import Manifest, condition, get, integer, mapping, text
from function.remote.composed_kinds import assess
from function.serving.digest import ServingRequest
from function.weights.request import parse_claim_uri

PICKERS = 2  # of a service; they elect a leader, so that losing one of them costs no more than the time of an election
WITHDRAWAL_SECONDS = 60  # until ModelServices, the provider and the gateway of the cluster have withdrawn a pool
_SCHEDULER = "spec.router.scheduler"
_MAX_NAME = 253  # of an InferencePool


def wants_picker(request: ServingRequest) -> bool:
    return request.profile.routing is Routing.PREFIX_AWARE and not find_picker_obstacle(request)


def find_picker_obstacle(request: ServingRequest) -> str:
    """Returns why a service has no picker although its profile asks for one; else empty."""
    if request.profile.routing is Routing.DEFAULT:
        return ""
    return request.kserve.find_picker_obstacle(on_claim=parse_claim_uri(request.uri) is not None)


def build_router(request: ServingRequest) -> Manifest:
    """Returns how requests reach the pods."""
    return {"gateway": {}, "route": {}, **({"scheduler": {"replicas": PICKERS}} if wants_picker(request) else {})}


def with_picker_of(service: Manifest, other: Manifest) -> Manifest:
    """Returns a service with the picker that another one has; without a picker if that one has none."""
    router = mapping(service, "spec.router")
    scheduler = get(other, _SCHEDULER)
    if not router or router.get("scheduler") == scheduler:
        return service
    own = {key: value for key, value in router.items() if key != "scheduler"}
    return {
        **service,
        "spec": {**mapping(service, "spec"), "router": own if scheduler is None else {**own, "scheduler": scheduler}},
    }


def keep_while_used(built: Manifest, written: Manifest, record: ServiceRecord, now: float) -> Manifest:
    """Returns a service with the router of the written one while requests may still go to its InferencePool."""
    if get(written, _SCHEDULER) is None or get(built, _SCHEDULER) is not None:
        return built
    since = record.pool_unused_since
    is_unused = not record.inference_pool and since is not None and now >= since + WITHDRAWAL_SECONDS
    router = get(written, "spec.router")
    return built if is_unused else {**built, "spec": {**mapping(built, "spec"), "router": router}}


def without_new_picker(built: Manifest, written: Manifest) -> Manifest:
    """Returns a service that has a picker only if the written one has it."""
    return with_picker_of(built, {}) if get(written, _SCHEDULER) is None else built


def find_inference_pool(service: Manifest, written: Manifest, recorded: str) -> str:
    """Returns the InferencePool that requests may go to; empty if there is none, or if none of its pickers is ready.

    `written`: the service as it was written last; without a picker, the one that is reported goes. `recorded`: the
    pool that was found last. It stays while pods of the engine restart.
    """
    pool = text(service, "status.router.scheduler.inferencePool.name")
    if not 0 < len(pool) <= _MAX_NAME or get(written, _SCHEDULER) is None:
        return ""
    if integer(service, "status.workloads.scheduler.readyReplicas") <= 0:
        return ""
    is_refused = text(condition(service, "InferencePoolReady"), "status") == "False"
    may_stay = pool == recorded and not is_refused
    return pool if may_stay or assess(service).up else ""


def find_unused_since(services: Iterable[Manifest], recorded: int | None, now: float) -> int | None:
    """Returns since when a picker that is not requested any more has had no requests; None if there is no picker.

    `services`: the service as composed, and as the cluster has it. A picker that was refused is on none, and goes too.
    """
    if all(get(service, _SCHEDULER) is None for service in services):
        return None
    return recorded if recorded is not None and 0 < recorded <= now else math.ceil(now)
