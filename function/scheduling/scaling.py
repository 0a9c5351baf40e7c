"""Scaling of a placement in place: fewer replicas always, more as far as there is room."""

from bisect import bisect_left

from function.capacity.ledger import CapacityView
from function.capacity.pools import compute_shape
from function.capacity.reclaim import find_kept
from function.domain.environment import Environment
from function.domain.model import Shape
from function.domain.placement import Placement
from function.reasons import Refused
from function.scheduling.filters import (
    CHECKS,
    Candidate,
    Step,
    can_take_back,
    check_schedulable,
    check_shared_storage,
    find_shortage,
    find_step,
    refuse_unreadable,
    sort_last_steps,
)
from function.scheduling.refusals import Field, Refusal
from function.scheduling.verdicts import Assignment, Infeasible, SchedulingRequest
from function.weights.faults import find_faults_for_existing_claim


def scale_existing(
    request: SchedulingRequest, environment: Environment, placement: Placement, ledger: CapacityView
) -> tuple[Assignment, Infeasible | None]:
    """Returns the assignment of a kept placement that has a shape, and why it does not get all requested replicas.

    Fewer replicas are always possible. Of more replicas, the placement gets as many as the pool has room and storage
    for, so that nothing is overcommitted (decision 4).
    """
    shape = placement.shape
    requested = placement.requested
    assert shape is not None
    assert requested is not None
    desired, taken_back = _limit_to_kept(request, environment, placement)
    current = placement.replicas
    if (placement.uid, placement.pool) in environment.rejected:
        current = min(current, environment.count_admitted(placement.uid, requested) or 0)

    def find_refusals(replicas: int) -> list[Step]:
        return _find_scaling_refusals(request.with_replicas(replicas), environment, placement, shape, ledger)

    steps = find_refusals(desired) if desired > current else []
    # If a number of replicas is possible, every smaller number is.
    granted = (
        current + bisect_left(range(current + 1, desired), 1, key=lambda n: bool(find_refusals(n)))
        if steps
        else desired
    )
    profile = request.find_profile(placement.profile)
    pool = environment.pool(placement.pool)
    # A shape that was computed for other memory stays while its pool or model cannot be read. The record must then stay
    # as well, so that the shape changes later.
    computed = compute_shape(profile, request.model.vram, pool) if profile and pool else None
    fits_model = profile is not None and profile.shape is None and computed == shape
    assignment = Assignment(
        environment=placement.environment,
        profile=placement.profile,
        pool=placement.pool,
        shape=shape,
        replicas=granted,
        vram=request.model.vram if fits_model else placement.vram,
        placement=placement,
        price=pool.price if pool else None,
        takes_back=request.takes_back,
    )
    if taken_back:
        steps = [(find_step(taken_back), taken_back)]
    refusals = tuple(refusal for _, refusal in steps)
    not_scaled = Infeasible(refusals=refusals, failed_step=steps[0][0], granted_replicas=granted) if steps else None
    return assignment, not_scaled


def _limit_to_kept(
    request: SchedulingRequest, environment: Environment, placement: Placement
) -> tuple[int, Refusal | None]:
    """Returns how many replicas a placement may have that gives some back, and why they are fewer."""
    deployment = request.deployment
    desired = deployment.replicas
    guaranteed = placement.guaranteed_replicas
    if not deployment.divides_replicas:  # a placement that lost all its replicas is guaranteed some all the same
        most = deployment.replicas if placement.guaranteed is None else placement.guaranteed
        guaranteed = min(most, deployment.guaranteed_replicas)
    kept, yields = find_kept(environment, placement, request.find_guarantee(placement)) or (desired, None)
    if yields is None or desired <= kept:
        return desired, None
    refusal = Refusal(
        reason=Refused.INSUFFICIENT_CAPACITY,
        field=Field.PREEMPTED if kept < guaranteed else Field.LENT,
        environment=environment.name,
        profile=placement.profile,
        pool=placement.pool,
        shape=placement.shape,
        required=desired - kept,
        actual=str(yields),
    )
    return kept, refusal


def _find_scaling_refusals(
    request: SchedulingRequest, environment: Environment, placement: Placement, shape: Shape, ledger: CapacityView
) -> list[Step]:
    pool = environment.pool(placement.pool)
    profile = request.find_profile(placement.profile)
    if pool is None or environment.broken:
        return [refuse_unreadable(environment)]
    if profile is None:  # the profile cannot be read, so nothing could be composed
        refusal = Refusal(
            reason=Refused.INVALID_PROFILE,
            field=Field.PROFILE,
            environment=placement.environment,
            profile=placement.profile,
            actual=next((broken.problems for broken in request.model.broken if broken.name == placement.profile), ()),
        )
        return [(0, refusal)]
    candidate = Candidate(request, environment, profile, pool, shape)
    faults = candidate.storage_faults
    replicas = request.deployment.replicas
    if placement.service.serving_uri or placement.weights.download.completed_at:
        faults = find_faults_for_existing_claim(faults, placement.weights.access_mode, shape.nodes, replicas)
    storage = [(CHECKS.index(check_shared_storage), candidate.refuse_fault(fault)) for fault in faults]
    shortage = find_shortage(candidate, ledger.free_capacity(environment, pool))
    has = environment.count_admitted(placement.uid, candidate.requested) or 0
    if shortage and can_take_back(candidate, ledger, replicas - has):
        shortage = None
    return [*storage, *sort_last_steps(shortage, *check_schedulable(candidate))]
