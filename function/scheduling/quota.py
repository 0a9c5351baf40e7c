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
    """Return a decision without the new placements that the quota has no room for beside those that are `there`.

    `made` tells what an assignment would be as a placement.
    """
    kept: list[Assignment] = []
    misses: list[Miss] = []
    charged = [*there]
    for assignment in decision.assignments:
        # What is new comes after everything that is there.
        new = None if assignment.placement else replace(made(assignment), created="~")
        beyond = excess(new, charged, limits) if new else None
        if new and beyond is None:
            charged.append(new)
        if beyond is None:
            kept.append(assignment)
        else:
            misses.append(_over_quota(assignment, beyond))
    refusals = sorted((*decision.refusals, *misses), key=lambda miss: miss.environment)
    return replace(decision, assignments=tuple(kept), refusals=tuple(refusals))


def _over_quota(assignment: Assignment, found: Excess) -> Miss:
    """Return why a new placement is not made; nothing else stood in its way, so that no other came nearer."""
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
    return Miss(environment=assignment.environment, refusals=(refusal,), step=Refused.QUOTA_EXCEEDED.rank * _FINER)


def _key(placement: Placement) -> tuple[str, str]:
    return placement.name, placement.uid


def _held(placement: Placement) -> int:
    """Return the GPUs that its service has; while there is none yet it may still ask for any number."""
    return placement.takes.gpus if placement.takes else 0
