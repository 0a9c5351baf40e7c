"""The quota of a namespace: which of its placements exceed what the platform allows each namespace.

Placements that have resources are charged first and keep them, even if the limits were lowered. Further requests follow
in the order of the ledger. A request that does not fit exceeds the quota, and leaves the quota to the requests after
it. Every placement of the namespace counts, on every environment, whether a deployment composed it or a user wrote it.
"""

from collections.abc import Iterable
from decimal import Decimal

from function.capacity.ledger import charge_order
from function.domain.allocation import Limits, QuotaUsage
from function.domain.placement import Placement, Stage


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
        """Charges the request of a placement; returns False and charges nothing if the request exceeds the quota."""
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
    """Returns the GPUs that are charged before any request: those of its service, none while it has no service."""
    return placement.service.allocated.gpus if placement.service.allocated and placement.stage > Stage.NEW else 0


def _count_requested(placement: Placement) -> int:
    """Returns the GPUs that a placement requests beyond what is charged."""
    return max(0, (placement.requested.gpus if placement.requested else 0) - _count_charged(placement))


def may_exceed(placement: Placement, limits: Limits) -> bool:
    """Tells whether the other placements of its namespace can leave a placement without quota.

    Returns False for a placement with resources that requests no more GPUs than it has: `find_excess` returns None for
    it whatever the other placements have, so they need not be known.
    """
    more = _count_requested(placement)
    if limits.invalid:
        return bool(more) or placement.stage is Stage.NEW
    return bool((limits.placements and placement.stage is Stage.NEW) or ((limits.gpus or limits.cost) and more))


def find_excess(placement: Placement, others: Iterable[Placement], limits: Limits) -> QuotaUsage | None:
    """Returns why a placement exceeds the quota of its namespace; None if it does not."""
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
