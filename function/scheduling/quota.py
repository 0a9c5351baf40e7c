"""The quota of a namespace: which of its placements are beyond what the platform allows each namespace.

What runs, and what was composed, is charged first and stays, whatever the limits became. Then comes, in the ledger's
order, what asks for more: one that does not fit is beyond the quota, and is not charged to those after it. Every
placement of a namespace counts, whoever wrote it and wherever it is.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from function.domain.placement import Placement
from function.domain.quota import Excess, Limits
from function.reasons import Refused
from function.scheduling.ledger import charge_order
from function.scheduling.verdicts import Assignment, Decision, Field, Miss, Refusal

# Steps are of checks, of which there are fewer than this for each reason.
_FINER = 100


def excess(placement: Placement, others: Iterable[Placement], limits: Limits) -> Excess | None:
    """Return why a placement is beyond the quota of its namespace; None where it is within. `others` may hold it."""
    me = _key(placement)
    every = {_key(p): p for p in others if p.namespace == placement.namespace} | {me: placement}
    held = {key: _held(p) for key, p in every.items() if p.begun}
    gpus = sum(held.values())
    for key, each in sorted(every.items(), key=lambda item: charge_order(item[1])):
        more = max(0, (each.asks.gpus if each.asks else 0) - held.get(key, 0))
        many = bool(limits.placements and key not in held and len(held) >= limits.placements)
        if not many and not (limits.gpus and more and gpus + more > limits.gpus):
            if each.begun or not each.deleting:
                held[key], gpus = held.get(key, 0) + more, gpus + more
        elif key == me:
            holders = sorted(((name, has) for (name, _), has in held.items()), key=lambda h: (-h[1], h[0]))
            return Excess(
                namespace=placement.namespace,
                limits=limits,
                placements=len(held),
                gpus=gpus,
                wanted=more,
                holders=tuple(holders),
            )
    return None


def within_quota(
    decision: Decision, made: Callable[[Assignment], Placement], there: Sequence[Placement], limits: Limits
) -> Decision:
    """Return a decision without what the quota has no room for beside those placements that are `there`.

    What is new is not made, and what is there stays as it is. `made` tells what an assignment would be as a placement.
    """
    kept: list[Assignment] = []
    stays: list[Placement] = []
    misses: list[Miss] = []
    charged = [*there]
    for assignment in sorted(decision.assignments, key=_what_is_there_first):
        existing, wanted = assignment.placement, made(assignment)
        # What is new comes after everything that is there, and after what was new before it.
        wanted = wanted if existing else replace(wanted, created="~" * (1 + len(kept)))
        beyond = excess(wanted, charged, limits) if existing is None or _takes_more(existing, wanted) else None
        keeps = _keeps(existing, wanted) if existing and beyond else None
        if beyond is None:
            charged.append(wanted)
            kept.append(assignment)
            continue
        misses.append(_over_quota(assignment, beyond, keeps))
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


def _what_is_there_first(assignment: Assignment) -> tuple[bool, tuple[bool, bool, str, str, str, str] | None]:
    there = assignment.placement
    return there is None, charge_order(there) if there else None


def _keeps(existing: Placement, wanted: Placement) -> int | None:
    """Return how many replicas it has of what is wanted; None where it has another shape, or may have none at all."""
    has, asks = existing.claims, wanted.asks
    return has.replicas if has and asks and has.is_like(asks) else None


def _takes_more(existing: Placement, wanted: Placement) -> bool:
    """Tell whether more replicas or another shape are wanted than it has, or was given."""
    has, asks = _keeps(existing, wanted), wanted.asks
    if asks is None or existing.claims is None:
        return False
    if has is not None:
        return asks.replicas > has
    return existing.asks is None or not existing.asks.is_like(asks)


def _over_quota(assignment: Assignment, found: Excess, keeps: int | None) -> Miss:
    """Return why it is not had; nothing else stood in its way, so that no other came nearer."""
    refusal = Refusal(
        reason=Refused.QUOTA_EXCEEDED,
        field=Field.QUOTA,
        environment=assignment.environment,
        profile=assignment.profile,
        pool=assignment.pool,
        shape=assignment.shape,
        wanted=found.wanted,
        excess=found,
    )
    return Miss(
        environment=assignment.environment, refusals=(refusal,), step=Refused.QUOTA_EXCEEDED.rank * _FINER, keeps=keeps
    )


def _key(placement: Placement) -> tuple[str, str]:
    return placement.name, placement.uid


def _held(placement: Placement) -> int:
    """Return the GPUs that its service has; while there is none yet it may still ask for any number."""
    return placement.takes.gpus if placement.takes else 0
