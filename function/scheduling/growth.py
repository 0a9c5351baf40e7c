"""How many replicas a placement that stays gets.

Fewer always; more only where its pool has room for all of them beside the others and the planner has storage for
all of them. Where it has not, the placement keeps the number it has, and the refusal is reported: what runs
keeps running, and nothing is promised that would overcommit.
"""

from dataclasses import replace

from function.domain.environment import Environment, Pool
from function.domain.model import Shape, Spread
from function.domain.placement import Placement
from function.reasons import Refused
from function.scheduling.checks import CHECKS, shared_storage
from function.scheduling.judge import step_of, unreadable_environment
from function.scheduling.ledger import Ledger
from function.scheduling.pool_capacity import Demand
from function.scheduling.request import SchedulingRequest
from function.scheduling.retain import find_profile
from function.scheduling.shortage import find_shortage
from function.scheduling.verdicts import Assignment, Field, Infeasible, Refusal
from function.weights.faults import find_faults_for_existing_claim


def scale_existing(
    request: SchedulingRequest, environment: Environment, placement: Placement, shape: Shape, ledger: Ledger
) -> tuple[Assignment, Infeasible | None]:
    """Return a placement as it stays, with the replicas that it can have, and why it has not all of them."""
    wanted, held = request.deployment.replicas, _admitted_replicas(environment, placement)
    miss = (
        _why_not_scaled(request, environment, replace(placement, replicas=held), shape, ledger)
        if wanted > held
        else None
    )
    profile = find_profile(request, placement.profile)
    computed = profile is not None and profile.shape is None
    assignment = Assignment(
        environment=placement.environment,
        profile=placement.profile,
        pool=placement.pool,
        shape=shape,
        replicas=wanted if miss is None else held,
        vram=request.model.vram if computed else placement.vram,
        placement=placement,
    )
    return assignment, miss


def _admitted_replicas(environment: Environment, placement: Placement) -> int:
    """Return how many replicas a placement has, or may still get."""
    asks = placement.requested
    if asks is None or (placement.uid, placement.pool) not in environment.rejected:
        return placement.replicas
    granted = (g.share.replicas for g in environment.find_grants(placement.uid) if g.share.is_like(asks))
    return min(placement.replicas, max(granted, default=0))


def _why_not_scaled(
    request: SchedulingRequest, environment: Environment, placement: Placement, shape: Shape, ledger: Ledger
) -> Infeasible | None:
    pool = environment.pool(placement.pool)
    if pool is None or environment.broken:
        field = Field.ENVIRONMENT if environment.broken else Field.NODE_POOLS
        return replace(unreadable_environment(environment, field), current_replicas=placement.replicas)
    unread = _refuse_invalid_profile(request, placement)
    if unread is not None:
        return Infeasible(environment=environment.name, refusals=(unread,), current_replicas=placement.replicas)
    unstorable = _refuse_storage(request, environment, pool, placement, shape)
    full = _refuse_capacity(request, environment, pool, placement, shape, ledger)
    refusals = (*unstorable, *([full] if full else ()))
    if not refusals:
        return None
    step = step_of(full) if full and not unstorable else CHECKS.index(shared_storage)
    return Infeasible(
        environment=environment.name, refusals=refusals, failed_at=step, current_replicas=placement.replicas
    )


def _refuse_invalid_profile(request: SchedulingRequest, placement: Placement) -> Refusal | None:
    """Refuse while its profile cannot be read: what is not carried out is not promised."""
    broken = next((profile for profile in request.model.broken if profile.name == placement.profile), None)
    if broken is None:
        return None
    return Refusal(
        reason=Refused.INVALID_PROFILE,
        field=Field.PROFILE,
        environment=placement.environment,
        profile=placement.profile,
        found=broken.problems,
    )


def _refuse_storage(
    request: SchedulingRequest, environment: Environment, pool: Pool, placement: Placement, shape: Shape
) -> tuple[Refusal, ...]:
    found = request.storage_check(environment, pool, shape, request.deployment.replicas)
    if placement.serving_uri or placement.hydration.completed_at:
        found = find_faults_for_existing_claim(found, placement.claim_mode, shape.nodes, request.deployment.replicas)
    return tuple(
        Refusal(
            reason=fault.reason,
            field=Field.STORAGE,
            environment=environment.name,
            profile=placement.profile,
            pool=pool.name,
            shape=shape,
            storage=fault,
        )
        for fault in found
    )


def _refuse_capacity(
    request: SchedulingRequest,
    environment: Environment,
    pool: Pool,
    placement: Placement,
    shape: Shape,
    ledger: Ledger,
) -> Refusal | None:
    profile = find_profile(request, placement.profile)
    apart = profile is not None and profile.replicas_across_nodes is Spread.REQUIRED
    return find_shortage(
        ledger.room(environment, pool),
        Demand(shape, request.deployment.replicas, apart),
        placement.environment,
        placement.profile,
        pool,
    )
