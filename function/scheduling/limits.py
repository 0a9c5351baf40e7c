"""Decisions within the quota of a namespace: new requests that exceed it are refused, existing placements stay."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from function.capacity.ledger import charge_order
from function.capacity.quota import find_excess
from function.domain.allocation import Limits, QuotaUsage
from function.domain.placement import Placement
from function.scheduling.filters import choose_quota_reason, find_step
from function.scheduling.refusals import Field, Refusal
from function.scheduling.verdicts import Assignment, Decision, Infeasible


def count_extra_gpus(assignment: Assignment) -> int:
    """Returns the GPUs of an assignment beyond the GPUs that its placement is charged for."""
    placement = assignment.placement
    shares = (placement.requested, placement.service.allocated) if placement else ()
    return max(0, assignment.gpus - max((share.gpus for share in shares if share), default=0))


def charge_assignments(usage: QuotaUsage, assignments: Iterable[Assignment]) -> QuotaUsage:
    """Returns the usage with the assignments charged, as far as the quota allows it."""
    for each in assignments:
        more = count_extra_gpus(each)
        is_new = each.placement is None
        if more and not usage.find_excess(more, each.price, is_new=is_new):
            usage = usage.with_more(f"its own on {each.environment}", more, each.price, is_new=is_new)
    return usage


def limit_decision(
    decision: Decision,
    to_placement: Callable[[Assignment], Placement],
    namespace_placements: Sequence[Placement],
    limits: Limits,
) -> Decision:
    """Returns a decision within the quota: excessive new placements are refused, existing ones keep what they have.

    Of more replicas, an existing placement gets as many as the quota allows; so does a new one where the replicas are
    divided over environments. New placements are charged after all existing placements, and after new placements that
    were decided before.
    """
    if not limits.has_limits:
        return decision
    accepted: list[Assignment] = []
    unchanged: list[Placement] = []
    refusals: list[Infeasible] = []
    charged = [*namespace_placements]
    for assignment in sorted(
        decision.assignments, key=lambda a: (False, charge_order(a.placement)) if a.placement else (True, None)
    ):
        existing = assignment.placement
        planned = to_placement(assignment)
        if existing is None:
            planned = replace(planned, created="~" * (1 + len(accepted)))  # sorts after every time
        needs_quota = existing is None or requests_more(existing, planned)
        excess = find_excess(planned, charged, limits) if needs_quota else None
        if excess is None:
            charged.append(planned)
            accepted.append(assignment)
            continue
        granted = _find_allowed_replicas(planned, existing, charged, limits, may_be_fewer=decision.is_divided)
        if granted is not None:
            charged.append(replace(planned, replicas=granted))
            accepted.append(replace(assignment, replicas=granted))
        elif existing:
            unchanged.append(existing)
        refusals.append(refuse_quota(assignment, excess, granted_replicas=granted))
    return replace(
        decision,
        assignments=tuple(sorted(accepted, key=attrgetter("environment"))),
        carried=tuple(sorted((*decision.carried, *unchanged), key=lambda p: (p.environment, p.name))),
        refusals=tuple(sorted((*decision.refusals, *refusals), key=attrgetter("environment"))),
    )


def refuse_quota(assignment: Assignment, excess: QuotaUsage, *, granted_replicas: int | None) -> Infeasible:
    """Returns the refusal of an assignment that exceeds the quota."""
    refusal = Refusal(
        reason=choose_quota_reason(excess),
        field=Field.QUOTA,
        environment=assignment.environment,
        profile=assignment.profile,
        pool=assignment.pool,
        shape=assignment.shape,
        required=excess.requested,
        quota_usage=excess,
    )
    return Infeasible(refusals=(refusal,), failed_step=find_step(refusal), granted_replicas=granted_replicas)


def _find_allowed_replicas(
    planned: Placement, existing: Placement | None, charged: Sequence[Placement], limits: Limits, *, may_be_fewer: bool
) -> int | None:
    """Returns how many of the planned replicas the quota allows; None if the placement cannot be as planned at all.

    `may_be_fewer`: a new placement may get fewer replicas than planned, but at least one.
    """
    has = _granted_replicas(existing, planned) if existing else 0 if may_be_fewer else None
    if has is None:
        return None
    more = [replace(planned, replicas=replicas) for replicas in range(has + 1, planned.replicas)]
    allowed = has + bisect_left(more, 1, key=lambda each: find_excess(each, charged, limits) is not None)
    return allowed if existing or allowed else None


def find_exceeded_usage(decision: Decision) -> QuotaUsage | None:
    """Returns the usage of the namespace if the quota refuses a new placement; None otherwise."""
    refusals = (infeasible.refusals[0] for infeasible in decision.refusals if infeasible.granted_replicas is None)
    return next((refusal.quota_usage for refusal in refusals if refusal.quota_usage), None)


def requests_more(existing: Placement, planned: Placement) -> bool:
    """Tells whether more replicas or another shape are planned than the placement has, or was given."""
    current = _granted_replicas(existing, planned)
    request = planned.requested
    if request is None or existing.effective_request is None:
        return False
    if current is not None:
        return request.replicas > current
    return existing.requested is None or not existing.requested.has_same_pool_and_size(request)


def _granted_replicas(existing: Placement, planned: Placement) -> int | None:
    """Returns how many replicas of the planned shape it has; None if it has another shape, or may have no replicas."""
    current = existing.effective_request
    request = planned.requested
    return current.replicas if current and request and current.has_same_pool_and_size(request) else None
