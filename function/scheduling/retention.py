"""Existing placements: which are kept, with how many replicas, which are rescheduled, and which are evicted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from function.domain.environment import Environment, Pool
from function.domain.model import Profile, Shape
from function.domain.placement import Placement
from function.kube.selectors import NO_EXECUTE, find_untolerated
from function.reasons import Refused
from function.scheduling.capacity import compute_shape
from function.scheduling.filters import (
    CHECKS,
    FIRST_OF_POOL,
    Candidate,
    check_profile_selector,
    check_schedulable,
    check_selectors,
    check_shared_storage,
    find_shortage,
    refuse_unreadable,
    satisfies_requirements,
    sort_last_steps,
)
from function.scheduling.ledger import Ledger
from function.scheduling.refusals import Field, Refusal
from function.scheduling.verdicts import Assignment, DropCause, Dropped, Infeasible, SchedulingRequest
from function.weights.faults import find_faults_for_existing_claim


class Retention(Enum):
    """What is decided about an existing placement."""

    # The default. Also where its environment is not Ready, its pool's capabilities or storage changed, a better profile
    # became possible, or its pool is overcommitted and it was Ready once. What is declared but cannot be read changes
    # nothing: invalid input removes no running workload.
    KEEP = "keep"
    # Its environment, pool or profile is deleted, its shape changed, a selector no longer admits the environment, its
    # environment has a NoExecute taint that its deployment does not tolerate, its pool does not suit another model, or
    # there is no room for a new shape; it keeps running meanwhile.
    RESCHEDULE = "reschedule"
    # It was never Ready and its environment has no room for it: two deployments chose the same GPUs at the same moment.
    # The loser has no Objects: one that has may have been Ready before its status was lost, and stays. Also if not
    # admitted, nothing composed, and the environment is no longer schedulable.
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class Retained:
    """The placements of a deployment by what is decided about them; at most one for each environment is not dropped."""

    kept: tuple[Placement, ...] = ()
    to_reschedule: tuple[Placement, ...] = ()
    dropped: tuple[Dropped, ...] = ()


def retention_order(placement: Placement) -> tuple[bool, bool, bool, bool, str, str]:
    """Sorts placements: those that are kept longest come first (Ready, was Ready, has resources, then by name)."""
    return (
        placement.deleting,
        not placement.ready,
        not placement.was_ready,
        not placement.may_run,
        placement.environment,
        placement.name,
    )


def retain(
    request: SchedulingRequest, environments: Mapping[str, Environment], own: Iterable[Placement], ledger: Ledger
) -> Retained:
    """Decides which placements of a deployment are kept; `environments` are those that are not being deleted."""
    used: set[str] = set()
    dropped: list[Dropped] = []
    by_retention: dict[Retention, list[Placement]] = {retention: [] for retention in Retention}
    for placement in sorted(own, key=retention_order):
        if placement.environment in used:
            dropped.append(Dropped(placement=placement, cause=DropCause.SCALED_DOWN))
            continue
        used.add(placement.environment)
        environment = environments.get(placement.environment)
        by_retention[_decide_retention(request, environment, placement, ledger)].append(placement)
    dropped += (Dropped(placement=placement, cause=DropCause.EVICTED) for placement in by_retention[Retention.EVICT])
    return Retained(tuple(by_retention[Retention.KEEP]), tuple(by_retention[Retention.RESCHEDULE]), tuple(dropped))


def _decide_retention(
    request: SchedulingRequest, environment: Environment | None, placement: Placement, ledger: Ledger
) -> Retention:
    if environment is None:
        return Retention.RESCHEDULE
    pool = environment.pool(placement.pool)
    if pool is not None and not ledger.has_room_in_turn(environment, pool, placement):
        return Retention.EVICT
    is_schedulable = environment.ready and not environment.broken
    is_admitted = not environment.uid or environment.find_grants(placement.uid)
    if not (is_schedulable or is_admitted or placement.may_run):
        return Retention.EVICT
    if _new_shape_rejected(environment, placement) or not _is_still_valid(request, environment, pool, placement):
        return Retention.RESCHEDULE
    return Retention.KEEP


def _new_shape_rejected(environment: Environment, placement: Placement) -> bool:
    """Tells whether it is rejected with a shape or a pool that it was not admitted for."""
    request = placement.requested
    if request is None or (placement.uid, placement.pool) not in environment.rejected:
        return False
    return environment.count_admitted(placement.uid, request) is None


def _is_still_valid(
    request: SchedulingRequest, environment: Environment, pool: Pool | None, placement: Placement
) -> bool:
    if environment.broken:
        return True
    if check_selectors(request, environment):
        return False
    if find_untolerated(environment.taints, request.deployment.tolerations, {NO_EXECUTE}):
        return False
    broken_profiles = {profile.name for profile in request.model.broken}
    if placement.profile in broken_profiles or placement.pool in environment.broken_pools:
        return True
    profile = request.find_profile(placement.profile)
    if profile is None or pool is None or check_profile_selector(profile, environment) is not None:
        return False
    if placement.model != request.deployment.model and not satisfies_requirements(request, environment, profile, pool):
        return False
    return not _is_reshaped(request, profile, pool, placement)


def _is_reshaped(request: SchedulingRequest, profile: Profile, pool: Pool, placement: Placement) -> bool:
    if profile.shape is None and placement.vram is not None and placement.vram == request.model.vram:
        return False  # the pool's declared memory may have changed since
    shape = compute_shape(profile, request.model.vram, pool)
    return placement.shape is not None and shape is not None and shape != placement.shape


def scale_existing(
    request: SchedulingRequest, environment: Environment, placement: Placement, shape: Shape, ledger: Ledger
) -> tuple[Assignment, Infeasible | None]:
    """Returns a kept placement with the replicas that it can have, and why it cannot be scaled up, if so.

    Fewer replicas are always possible; more only where the pool has room and storage for all of them. Otherwise it
    keeps those that it has: nothing is overcommitted.
    """
    desired, current = request.deployment.replicas, _count_current_replicas(environment, placement)
    infeasible = _why_not_scaled(request, environment, placement, shape, ledger) if desired > current else None
    profile, pool = request.find_profile(placement.profile), environment.pool(placement.pool)
    assignment = Assignment(
        environment=placement.environment,
        profile=placement.profile,
        pool=placement.pool,
        shape=shape,
        replicas=desired if infeasible is None else current,
        vram=request.model.vram if profile and profile.shape is None else placement.vram,
        placement=placement,
        price=pool.price if pool else None,
    )
    return assignment, replace(infeasible, current_replicas=current) if infeasible else None


def _count_current_replicas(environment: Environment, placement: Placement) -> int:
    """Returns the replicas of a placement; where it is rejected, no more than it is admitted for."""
    request = placement.requested
    if request is None or (placement.uid, placement.pool) not in environment.rejected:
        return placement.replicas
    return min(placement.replicas, environment.count_admitted(placement.uid, request) or 0)


def _why_not_scaled(
    request: SchedulingRequest, environment: Environment, placement: Placement, shape: Shape, ledger: Ledger
) -> Infeasible | None:
    pool, profile = environment.pool(placement.pool), request.find_profile(placement.profile)
    if pool is None or environment.broken:
        refusal = refuse_unreadable(environment, Field.ENVIRONMENT if environment.broken else Field.NODE_POOLS)
        return Infeasible(environment=environment.name, refusals=(refusal,), failed_at=FIRST_OF_POOL)
    if profile is None:  # it cannot be read, so that nothing could be composed
        refusal = Refusal(
            reason=Refused.INVALID_PROFILE,
            field=Field.PROFILE,
            environment=placement.environment,
            profile=placement.profile,
            actual=next((broken.problems for broken in request.model.broken if broken.name == placement.profile), ()),
        )
        return Infeasible(environment=environment.name, refusals=(refusal,))
    candidate = Candidate(request, environment, profile, pool, shape)
    faults, replicas = candidate.storage_faults, request.deployment.replicas
    if placement.serving_uri or placement.hydration.completed_at:
        faults = find_faults_for_existing_claim(faults, placement.claim_mode, shape.nodes, replicas)
    storage = [candidate.refuse_fault(fault) for fault in faults]
    shortage = find_shortage(candidate, ledger.room(environment, pool))
    steps = [(CHECKS.index(check_shared_storage), refusal) for refusal in storage]
    steps += sort_last_steps(shortage, *check_schedulable(candidate))
    if not steps:
        return None
    return Infeasible(
        environment=environment.name, refusals=tuple(refusal for _, refusal in steps), failed_at=steps[0][0]
    )
