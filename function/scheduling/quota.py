"""The quota of a namespace: which of its placements are beyond what the platform allows each namespace.

What runs, and what was composed, is charged first and stays, whatever the limits became. Then comes, in the ledger's
order, what asks for more: one that does not fit is beyond the quota, and is not charged to those after it. Every
placement of a namespace counts, whoever wrote it and wherever it is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from function.domain.allocation import Limits, QuotaUsage
from function.domain.placement import Placement
from function.reasons import Refused
from function.scheduling.filters import refuse_over_quota, step_of
from function.scheduling.ledger import charge_order
from function.scheduling.verdicts import Assignment, Decision, Infeasible


@dataclass(slots=True)
class _QuotaBook:
    """What is charged to the quota of a namespace so far: the GPUs of each placement, and of all of them."""

    limits: Limits
    held: dict[tuple[str, str], int]
    gpus: int

    @classmethod
    def of(cls, placements: Mapping[tuple[str, str], Placement], limits: Limits) -> Self:
        """Return the book in which what was composed is charged with what it has."""
        held = {key: _allocated_gpus(placement) for key, placement in placements.items() if placement.has_resources}
        return cls(limits, held, sum(held.values()))

    def more(self, key: tuple[str, str], placement: Placement) -> int:
        """Return the GPUs that a placement asks for beyond what it has."""
        return max(0, (placement.requested.gpus if placement.requested else 0) - self.held.get(key, 0))

    def charge(self, key: tuple[str, str], placement: Placement) -> bool:
        """Charge what a placement asks for; tell whether there is room, without which nothing is charged."""
        more = self.more(key, placement)
        many = bool(self.limits.placements and key not in self.held and len(self.held) >= self.limits.placements)
        if many or (self.limits.gpus and more and self.gpus + more > self.limits.gpus):
            return False
        if placement.has_resources or not placement.deleting:
            self.held[key], self.gpus = self.held.get(key, 0) + more, self.gpus + more
        return True

    def excess(self, namespace: str, wanted: int) -> QuotaUsage:
        """Return what is taken, beside which so many GPUs are wanted."""
        holders = sorted(((name, has) for (name, _), has in self.held.items()), key=lambda h: (-h[1], h[0]))
        return QuotaUsage(
            namespace=namespace,
            limits=self.limits,
            placements=len(self.held),
            gpus=self.gpus,
            wanted=wanted,
            holders=tuple(holders),
        )


def may_exceed(placement: Placement, limits: Limits) -> bool:
    """Tell whether other placements of its namespace can leave a placement without room in the quota.

    False for one that was composed and asks for no more GPUs than it has: `excess` is None whatever the others have, so
    that it need not know them.
    """
    book = _QuotaBook.of({_key(placement): placement}, limits)
    more = book.more(_key(placement), placement)
    return bool((limits.placements and not placement.has_resources) or (limits.gpus and more))


def find_excess(placement: Placement, others: Iterable[Placement], limits: Limits) -> QuotaUsage | None:
    """Return why a placement is beyond the quota of its namespace; None where it is within. `others` may hold it."""
    me = _key(placement)
    every = {_key(p): p for p in others if p.namespace == placement.namespace} | {me: placement}
    book = _QuotaBook.of(every, limits)
    for key, each in sorted(every.items(), key=lambda item: charge_order(item[1])):
        if not book.charge(key, each) and key == me:
            return book.excess(placement.namespace, book.more(key, each))
    return None


def namespace_usage(namespace: str, there: Iterable[Placement], limits: Limits) -> QuotaUsage | None:
    """Return what a namespace takes, beside which what is new must find room; None without limits."""
    if not limits.any:
        return None
    every = {_key(p): p for p in there if p.namespace == namespace}
    book = _QuotaBook.of(every, limits)
    for key, each in sorted(every.items(), key=lambda item: charge_order(item[1])):
        book.charge(key, each)
    return book.excess(namespace, 0)


def apply_quota_to_decision(
    decision: Decision, made: Callable[[Assignment], Placement], there: Sequence[Placement], limits: Limits
) -> Decision:
    """Return a decision without what the quota has no room for beside those placements that are `there`.

    What is new is not made, and what is there stays as it is. `made` tells what an assignment would be as a placement.
    """
    if not limits.any:
        return decision
    kept: list[Assignment] = []
    stays: list[Placement] = []
    misses: list[Infeasible] = []
    charged = [*there]
    for assignment in sorted(decision.assignments, key=_existing_first):
        existing, wanted = assignment.placement, made(assignment)
        # What is new comes after everything that is there, and after what was new before it.
        wanted = wanted if existing else replace(wanted, created="~" * (1 + len(kept)))
        beyond = find_excess(wanted, charged, limits) if existing is None or requests_more(existing, wanted) else None
        keeps = _current_replicas(existing, wanted) if existing and beyond else None
        if beyond is None:
            charged.append(wanted)
            kept.append(assignment)
            continue
        misses.append(_make_infeasible(assignment, beyond, keeps))
        if keeps is not None:
            kept.append(replace(assignment, replicas=keeps))
        elif existing:
            stays.append(existing)
    return replace(
        decision,
        assignments=tuple(sorted(kept, key=lambda assignment: assignment.environment)),
        carried=tuple(sorted((*decision.carried, *stays), key=lambda p: (p.environment, p.name))),
        refusals=tuple(sorted((*decision.refusals, *misses), key=lambda miss: miss.environment)),
    )


def find_quota_refusal(decision: Decision) -> QuotaUsage | None:
    """Return what the namespace takes, where the quota has no room for something new that was decided."""
    beyond = (miss.refusals[0] for miss in decision.refusals if miss.current_replicas is None)
    return next((refusal.quota_usage for refusal in beyond if refusal.reason is Refused.QUOTA_EXCEEDED), None)


def requests_more(existing: Placement, wanted: Placement) -> bool:
    """Tell whether more replicas or another shape are wanted than it has, or was given."""
    has, asks = _current_replicas(existing, wanted), wanted.requested
    if asks is None or existing.effective_request is None:
        return False
    if has is not None:
        return asks.replicas > has
    return existing.requested is None or not existing.requested.is_like(asks)


def _existing_first(assignment: Assignment) -> tuple[bool, tuple[bool, bool, str, str, str, str] | None]:
    """Return an order: what is there as the ledger charges it, then what is new as it was decided."""
    there = assignment.placement
    return there is None, charge_order(there) if there else None


def _current_replicas(existing: Placement, wanted: Placement) -> int | None:
    """Return how many replicas it has of what is wanted; None where it has another shape, or may have none at all."""
    has, asks = existing.effective_request, wanted.requested
    return has.replicas if has and asks and has.is_like(asks) else None


def _make_infeasible(assignment: Assignment, found: QuotaUsage, keeps: int | None) -> Infeasible:
    """Return why it is not had; nothing else stood in its way, so that no other came nearer."""
    refusal = refuse_over_quota(assignment.environment, assignment.profile, assignment.pool, assignment.shape, found)
    return Infeasible(
        environment=assignment.environment, refusals=(refusal,), failed_at=step_of(refusal), current_replicas=keeps
    )


def _key(placement: Placement) -> tuple[str, str]:
    return placement.name, placement.uid


def _allocated_gpus(placement: Placement) -> int:
    """Return the GPUs that its service has; while there is none yet it may still ask for any number."""
    return placement.allocated.gpus if placement.allocated else 0
