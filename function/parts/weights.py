"""The weights that a placement is planned to read: claim, Job, scripts and copies of Secrets.

StorageReady is also about adapters, so the next part has it (parts/adapters.py).
"""

from function.contract import Call
from function.domain.placement import ResolvedPlacement
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import PlacementContext
from function.remote.composed_kinds import HASHED, OBJECT
from function.remote.object_writer import SERVICE_PREFIX
from function.status import model_placement as report
from function.weights.job import JOB_PREFIX
from function.weights.reconcile import (
    CLAIM_PREFIX,
    SCRIPTS_PREFIX,
    SECRET_COPY_PREFIX,
    ReconciledWeights,
    reconcile_weights,
)
from function.weights.request import WeightsRequest, parse_claim_uri

WEIGHTS_NAMES = f"{CLAIM_PREFIX}.+|(?:{JOB_PREFIX}|{SCRIPTS_PREFIX}|{SECRET_COPY_PREFIX}){HASHED}"


def _reconcile_weights(context: PlacementContext, _: Decisions) -> PartOutcome[ReconciledWeights]:
    placement = context.resolved.placement
    request = request_weights(context.call, context.resolved)
    record = placement.weights.download
    weights = reconcile_weights(request, context.writer, record, placement.service.serving_uri, context.call.now)
    return PartOutcome(
        decision=weights, desired=weights.current, status=report.build_storage(context.call, context.resolved, weights)
    )


WEIGHTS_PART = Part(run=_reconcile_weights, names={OBJECT: WEIGHTS_NAMES})


def request_weights(call: Call, resolved: ResolvedPlacement) -> WeightsRequest:
    placement = resolved.placement
    request = WeightsRequest(
        model=resolved.model,
        choice=placement.storage_choice,
        namespace=resolved.namespace,
        owner=placement.name,
        named_cache=resolved.cache,
        adapters=placement.adapters if _may_need_adapters(resolved) else (),
        service_exists=any(key.startswith(SERVICE_PREFIX) for key in call.observed),
    )
    return request.with_pool(resolved.environment, resolved.pool, resolved.shape, placement.replicas)


def _may_need_adapters(resolved: ResolvedPlacement) -> bool:
    """Tells whether there is, or may be, a service with the adapters of a placement: no other adapter needs a claim."""
    return not resolved.adapter_obstacle or parse_claim_uri(resolved.placement.service.serving_uri) is not None
