"""What stays, what is decided again, and what yields.

A placement that exists stays where it is: also when its environment is not Ready, the capabilities or the
storage of its pool drifted, a better profile became possible, or its pool is overcommitted and it ever
served. Where an environment, a pool or a profile is declared but cannot be read, it stays as well: invalid
input tears nothing down.

It is decided again where its environment or pool is gone or going, its profile is gone or has another
shape, a selector no longer admits the environment, or it shall run another model than was decided there and the pool
does not suit that. For VRAM maths the shape is computed again when the
model's vram is another one, not when the memory of the pool drifted.

It yields where it never served and its environment has no room for it in its turn (see ledger.py): two deployments
that decided at the same moment took the same room. It yields as well where its environment has not admitted it and
nothing of it was composed, and would not be chosen any more: nobody waits for what does not come up. One that served
and has no room for another shape that it was given is decided again, and runs on meanwhile.

How many replicas a placement that stays gets.

Fewer always; more only where its pool has room for all of them beside the others and the planner has storage for
all of them. Where it has not, the placement keeps the number it has, and the refusal is reported: what runs
keeps running, and nothing is promised that would overcommit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from function.domain.environment import Environment, Pool
from function.domain.model import Profile, Shape, Spread
from function.domain.placement import Placement
from function.reasons import Refused
from function.scheduling.capacity import Demand, replica_shape
from function.scheduling.filters import (
    CHECKS,
    find_shortage,
    refused_by_profile_selector,
    refused_by_selectors,
    satisfies_requirements,
    shared_storage,
    step_of,
    unreadable_environment,
)
from function.scheduling.ledger import Ledger
from function.scheduling.verdicts import Assignment, DropCause, Dropped, Field, Infeasible, Refusal, SchedulingRequest
from function.weights.faults import find_faults_for_existing_claim


class Retention(Enum):
    """What becomes of a placement."""

    KEEP = "keep"
    RESCHEDULE = "reschedule"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class Retained:
    """Own placements by what becomes of them, each by name of its environment; at most one an environment."""

    retained: tuple[Placement, ...] = ()
    to_reschedule: tuple[Placement, ...] = ()
    dropped: tuple[Dropped, ...] = ()


def retention_order(placement: Placement) -> tuple[bool, bool, bool, bool, str, str]:
    """Sorts placements so that those which shall stay longest come first: who is Ready, was once, has begun."""
    served, begun = placement.was_ready, placement.has_resources
    return placement.deleting, not placement.ready, not served, not begun, placement.environment, placement.name


def retain(
    request: SchedulingRequest, environments: Mapping[str, Environment], own: Iterable[Placement], ledger: Ledger
) -> Retained:
    """Sort a deployment's own placements; `environments` are those that are not being deleted."""
    seen: set[str] = set()
    dropped: list[Dropped] = []
    by_standing: dict[Retention, list[Placement]] = {standing: [] for standing in Retention}
    for placement in sorted(own, key=retention_order):
        if placement.environment in seen:
            dropped.append(Dropped(placement=placement, cause=DropCause.SCALED_DOWN))
            continue
        seen.add(placement.environment)
        environment = environments.get(placement.environment)
        by_standing[_decide_retention(request, environment, placement, ledger)].append(placement)
    dropped += (Dropped(placement=placement, cause=DropCause.EVICTED) for placement in by_standing[Retention.EVICT])
    return Retained(tuple(by_standing[Retention.KEEP]), tuple(by_standing[Retention.RESCHEDULE]), tuple(dropped))


def find_profile(request: SchedulingRequest, name: str) -> Profile | None:
    """Return the valid profile of a name, if there is one."""
    return next((p for p in request.model.profiles if p.name == name), None)


def _decide_retention(
    request: SchedulingRequest, environment: Environment | None, placement: Placement, ledger: Ledger
) -> Retention:
    if environment is None:
        return Retention.RESCHEDULE
    pool = environment.pool(placement.pool)
    if pool is not None and not ledger.keeps_place(environment, pool, placement):
        return Retention.EVICT
    if _admission_impossible(environment, placement):
        return Retention.EVICT
    if _new_shape_rejected(environment, placement) or not _is_still_valid(request, environment, pool, placement):
        return Retention.RESCHEDULE
    return Retention.KEEP


def _admission_impossible(environment: Environment, placement: Placement) -> bool:
    chosen_anew = environment.ready and not environment.broken
    admitted = not environment.uid or environment.find_grants(placement.uid)
    return not (chosen_anew or admitted or placement.has_resources)


def _new_shape_rejected(environment: Environment, placement: Placement) -> bool:
    """Tell whether there is no room for another shape, or in another pool, than those it was admitted for."""
    asks = placement.requested
    if asks is None or (placement.uid, placement.pool) not in environment.rejected:
        return False
    return not any(grant.share.is_like(asks) for grant in environment.find_grants(placement.uid))


def _is_still_valid(
    request: SchedulingRequest, environment: Environment, pool: Pool | None, placement: Placement
) -> bool:
    if environment.broken:
        return True
    if refused_by_selectors(request, environment):
        return False
    if _is_unreadable(request, environment, placement):
        return True
    profile = find_profile(request, placement.profile)
    if profile is None or pool is None or refused_by_profile_selector(profile, environment) is not None:
        return False
    if placement.model != request.deployment.model and not satisfies_requirements(request, environment, profile, pool):
        return False
    return not _is_reshaped(request, profile, pool, placement)


def _is_unreadable(request: SchedulingRequest, environment: Environment, placement: Placement) -> bool:
    """Tell whether the profile or the pool is declared in a way that cannot be read."""
    broken = {profile.name for profile in request.model.broken}
    return placement.profile in broken or placement.pool in environment.broken_pools


def _is_reshaped(request: SchedulingRequest, profile: Profile, pool: Pool, placement: Placement) -> bool:
    if placement.shape is None:
        return False
    if profile.shape is not None:
        return profile.shape != placement.shape
    if placement.vram is not None and placement.vram == request.model.vram:
        return False  # whatever became of the pool's memory
    computed = replica_shape(profile, request.model.vram, pool)
    return computed is not None and computed != placement.shape


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
