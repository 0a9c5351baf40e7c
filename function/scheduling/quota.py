"""The quota of a namespace: which of its placements exceed what the platform allows each namespace.

What has resources is charged first and keeps them, whatever the limits became. Then come further requests, in the order
of the ledger: one that does not fit exceeds the quota, and leaves the quota to those after it. Every placement of the
namespace counts, on every environment, whether a deployment composed it or a user wrote it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from operator import attrgetter

from function.domain.allocation import Limits, QuotaUsage
from function.domain.placement import Placement, Stage
from function.scheduling.filters import choose_quota_reason, find_step
from function.scheduling.ledger import charge_order
from function.scheduling.refusals import Field, Refusal
from function.scheduling.verdicts import Assignment, Decision, Infeasible


class _QuotaBook:
    """What is charged to the quota of a namespace, beginning with what the services of its placements have."""

    def __init__(self, namespace: str, placements: Iterable[Placement], limits: Limits) -> None:
        self.namespace, self.limits = namespace, limits
        in_namespace = {_key(p): p for p in placements if p.namespace == namespace}
        self.placements = sorted(in_namespace.values(), key=charge_order)
        self.charged = {_key(p): _count_charged(p) for p in self.placements if p.stage > Stage.NEW}
        self.gpus = sum(self.charged.values())
        self.spent = sum((limits.charge(p.price, _count_charged(p)) for p in self.placements), Decimal(0))

    def charge(self, placement: Placement) -> bool:
        """Charges the request of a placement; False, and nothing charged, where it exceeds the quota."""
        key = _key(placement)
        more = _count_requested(placement)
        cost = self.limits.charge(placement.price, more)
        is_new = key not in self.charged
        is_allowed = self.limits.allow(len(self.charged), self.gpus, is_new=is_new, more_gpus=more)
        if not (is_allowed and self.limits.allow_cost(self.spent, cost)):
            return False
        if placement.stage > Stage.NEW or not placement.deleting:
            self.charged[key] = self.charged.get(key, 0) + more
            self.gpus += more
            self.spent += cost
        return True

    def summarize(self, placement: Placement | None = None) -> QuotaUsage:
        """Returns what the namespace has, with what a placement requests beyond it."""
        requested = _count_requested(placement) if placement else 0
        holders = sorted(((name, gpus) for (name, _), gpus in self.charged.items()), key=lambda h: (-h[1], h[0]))
        return QuotaUsage(
            namespace=self.namespace,
            limits=self.limits,
            placements=len(self.charged),
            gpus=self.gpus,
            requested=requested,
            holders=tuple(holders),
            spent=self.spent,
            requested_cost=self.limits.charge(placement.price, requested) if placement else Decimal(0),
        )


def _key(placement: Placement) -> tuple[str, str]:
    return placement.name, placement.uid


def _count_charged(placement: Placement) -> int:
    """Returns the GPUs that are charged before any request: while there is no service yet it may still request any."""
    return placement.service.allocated.gpus if placement.service.allocated and placement.stage > Stage.NEW else 0


def _count_requested(placement: Placement) -> int:
    """Returns the GPUs that a placement requests beyond what is charged."""
    return max(0, (placement.requested.gpus if placement.requested else 0) - _count_charged(placement))


def may_exceed(placement: Placement, limits: Limits) -> bool:
    """Tells whether the other placements of its namespace can leave a placement without quota.

    False for one with resources that requests no more GPUs than it has: `find_excess` returns None whatever the others
    have, so they need not be known.
    """
    more = _count_requested(placement)
    if limits.invalid:
        return bool(more) or placement.stage is Stage.NEW
    return bool((limits.placements and placement.stage is Stage.NEW) or ((limits.gpus or limits.cost) and more))


def find_excess(placement: Placement, others: Iterable[Placement], limits: Limits) -> QuotaUsage | None:
    """Returns why a placement exceeds the quota of its namespace; None where it does not."""
    book = _QuotaBook(placement.namespace, (*others, placement), limits)
    for each in book.placements:
        if not book.charge(each) and each is placement:
            return book.summarize(each)
    return None


def namespace_usage(namespace: str, placements: Iterable[Placement], limits: Limits) -> QuotaUsage | None:
    """Returns what a namespace has of its quota; None without limits."""
    if not limits.has_limits:
        return None
    book = _QuotaBook(namespace, placements, limits)
    for placement in book.placements:
        book.charge(placement)
    return book.summarize()


def count_more(assignment: Assignment) -> int:
    """Returns the GPUs of an assignment beyond those that its placement is charged."""
    placement = assignment.placement
    shares = (placement.requested, placement.service.allocated) if placement else ()
    return max(0, assignment.gpus - max((share.gpus for share in shares if share), default=0))


def charge_assignments(usage: QuotaUsage, assignments: Iterable[Assignment]) -> QuotaUsage:
    """Returns the usage with what was decided, as far as the quota allows it."""
    for each in assignments:
        more = count_more(each)
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
    """Returns a decision within the quota: new placements that exceed it are refused, existing ones stay as they are.

    New placements are charged after all existing ones, and after new ones that were decided before.
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
        current = _current_replicas(existing, planned) if existing else None
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
        refusals.append(Infeasible(refusals=(refusal,), failed_at=find_step(refusal), current_replicas=current))
        if current is not None:
            accepted.append(replace(assignment, replicas=current))
        elif existing:
            unchanged.append(existing)
    return replace(
        decision,
        assignments=tuple(sorted(accepted, key=attrgetter("environment"))),
        carried=tuple(sorted((*decision.carried, *unchanged), key=lambda p: (p.environment, p.name))),
        refusals=tuple(sorted((*decision.refusals, *refusals), key=attrgetter("environment"))),
    )


def find_exceeded_usage(decision: Decision) -> QuotaUsage | None:
    """Returns what the namespace has, where the quota refuses something new that was decided."""
    refusals = (infeasible.refusals[0] for infeasible in decision.refusals if infeasible.current_replicas is None)
    return next((refusal.quota_usage for refusal in refusals if refusal.quota_usage), None)


def requests_more(existing: Placement, planned: Placement) -> bool:
    """Tells whether more replicas or another shape are planned than a placement has, or was given."""
    current = _current_replicas(existing, planned)
    request = planned.requested
    if request is None or existing.effective_request is None:
        return False
    if current is not None:
        return request.replicas > current
    return existing.requested is None or not existing.requested.has_same_size(request)


def _current_replicas(existing: Placement, planned: Placement) -> int | None:
    """Returns how many replicas it has of what is planned; None where it has another shape, or may have none."""
    current = existing.effective_request
    request = planned.requested
    return current.replicas if current and request and current.has_same_size(request) else None
