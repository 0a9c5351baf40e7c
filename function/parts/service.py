"""The LLMInferenceService of a placement, and copies of the Secrets with which its images are pulled."""

from function.contract import Desired, Event
from function.domain.records.service import build_ready_replicas
from function.parts.adapters import ADAPTERS_PART
from function.parts.admission import ADMISSION_PART
from function.parts.outcome import observed_status
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import KeptPlacement, PlacementContext
from function.parts.weights import WEIGHTS_PART
from function.remote.composed_kinds import HASHED, OBJECT
from function.remote.object_writer import SERVICE_PREFIX
from function.remote.observed_object import read_written
from function.serving.kueue import describe_wait, lacks_pods
from function.serving.labels import find_queue
from function.serving.reconcile import PULL_PREFIX, HeldServices, ReconciledService, keep_services, reconcile_service
from function.serving.restarts import evaluate_restarts
from function.status import model_placement as report


def _reconcile_service(context: PlacementContext, decisions: Decisions) -> PartOutcome[ReconciledService]:
    resolved = context.resolved
    admission = decisions.of(ADMISSION_PART)
    weights, adapters = decisions.of(WEIGHTS_PART), decisions.of(ADAPTERS_PART)
    reconciled = reconcile_service(resolved, context.writer, weights, adapters, admission, context.call.now)
    events: tuple[Event, ...] = ()
    if reconciled.rollout_blocked:
        blocked = report.build_rollout_blocked(
            resolved.placement, admission, same_node_is_full=reconciled.same_node_is_full
        )
        events = (blocked,)
    restarts = evaluate_restarts(resolved, context.writer, reconciled.remote, reconciled.next_digest)
    return PartOutcome(
        decision=reconciled,
        desired=Desired({**reconciled.pull_secrets, **reconciled.composed}, reconciled.drops),
        conditions=report.build_service_conditions(resolved, reconciled, restarts, _describe_wait(context, reconciled)),
        status=report.build_service_status(context.call, resolved, reconciled)
        | report.build_restart_status(reconciled.remote, restarts),
        events=events,
    )


def _describe_wait(context: PlacementContext, reconciled: ReconciledService) -> str:
    """Returns why Kueue may hold pods of the service; empty if it holds none, or if no pod is missing."""
    service = reconciled.written
    if not find_queue(service) or not lacks_pods(service, reconciled.remote):
        return ""
    return describe_wait(service, context.writer, context.resolved.pool.gpu_resource)


SERVICE_PART = Part(run=_reconcile_service, names={OBJECT: f"(?:{PULL_PREFIX}|{SERVICE_PREFIX}){HASHED}"})


def _keep_service(context: KeptPlacement, _: Decisions) -> PartOutcome[HeldServices]:
    """Keeps the service, with fewer replicas if fewer are requested."""
    placement = context.placement
    services = keep_services(context.call.observed, placement, scale_down=context.may_scale_down)
    requested = max(placement.replicas, services.replicas)
    observed = observed_status(context.call.xr)
    written = read_written(next((item.manifest for item in services.composed.values()), None))
    withdrawn = report.withdraw_pool(observed, services.remote, written)
    status = build_ready_replicas(services.remote.manifest) | withdrawn
    ready = report.build_service_ready(services.remote, requested, has_served=placement.has_served)
    if services.composed:
        status |= report.limit_replicas({**observed, **withdrawn}, services.allocated_replicas)
    return PartOutcome(
        decision=services,
        desired=Desired(services.composed),
        conditions=(report.with_stop(ready, placement),),
        status=status,
    )


KEPT_SERVICE_PART = Part(run=_keep_service)
