"""The weights that a placement is planned to read: claim, Job, scripts and copies of Secrets."""

from function.contract import Call
from function.domain.placement import ResolvedPlacement
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import PlacementContext
from function.remote.composed_kinds import HASHED, OBJECT
from function.remote.object_writer import SERVICE
from function.status import model_placement as report
from function.weights.job import JOB
from function.weights.reconcile import CLAIM, SCRIPTS, SECRET_COPY, ReconciledWeights, reconcile_weights
from function.weights.request import StorageRequest

WEIGHTS_NAMES = f"{CLAIM}.+|(?:{JOB}|{SCRIPTS}|{SECRET_COPY}){HASHED}"


def _reconcile_weights(context: PlacementContext, _: Decisions) -> PartOutcome[ReconciledWeights]:
    placement = context.resolved.placement
    request = request_storage(context.call, context.resolved)
    weights = reconcile_weights(request, context.writer, placement.weights.hydration, placement.service.uri)
    return PartOutcome(
        decision=weights,
        desired=weights.current,
        conditions=(report.build_storage_ready(weights.state),),
        status=report.build_storage(context.call, context.resolved, weights),
    )


WEIGHTS_PART = Part(run=_reconcile_weights, names={OBJECT: WEIGHTS_NAMES})


def request_storage(call: Call, resolved: ResolvedPlacement) -> StorageRequest:
    placement = resolved.placement
    request = StorageRequest(
        model=resolved.model,
        choice=placement.cache,
        namespace=resolved.namespace,
        owner=placement.name,
        named_cache=resolved.cache,
        service_exists=any(key.startswith(SERVICE) for key in call.observed),
    )
    return request.with_pool(resolved.environment, resolved.pool, resolved.shape, placement.replicas)
