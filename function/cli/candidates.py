"""Candidates of a deployment, in words: an environment with a profile and a pool, judged by the rules that decide."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from function.composers.model_deployment import Considered
from function.domain.allocation import Cost, format_replica
from function.domain.environment import Environment
from function.domain.model import Problem, Shape
from function.kube.messages import format_count
from function.kube.quantity import gib
from function.reasons import Refused
from function.scheduling.filters import filter_candidates, rank_candidate
from function.scheduling.ledger import Ledger
from function.scheduling.refusals import Refusal, join_messages
from function.scheduling.verdicts import Rank


class Verdict(StrEnum):
    """The verdict on a candidate that is not refused; a refused one has the reason."""

    PLACED = "placed"
    STAYS = "stays"
    FITS = "fits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One candidate in words."""

    environment: str
    profile: str = ""
    pool: str = ""
    replica: str = ""
    verdict: str
    required: str = ""
    available: str = ""
    refusals: tuple[Refusal, ...] = ()
    faults: tuple[Problem, ...] = ()  # of an invalid pool
    rank: Rank | None = None  # of a candidate that fits, where the cheapest or the smallest pool is preferred
    cost: Cost | None = None  # of all replicas; None: the pool has no price, or no replica has a shape

    @property
    def serves(self) -> bool:
        """Tells whether the deployment runs there."""
        return self.verdict in (Verdict.PLACED, Verdict.STAYS)

    @property
    def message(self) -> str:
        """Everything that refuses it."""
        return join_messages([*(refusal.message for refusal in self.refusals), *map(str, self.faults)])

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Sorts the nearest to the front; what fits by the order of choice, where that is not as declared."""
        preferred = (*self.rank.sort_key, self.rank.left) if self.rank else ()
        if self.serves:
            return -2, *preferred
        if self.faults:
            return (len(Refused) + 1,)
        return (len(Refused) - self.refusals[0].reason.rank,) if self.refusals else (-1, *preferred)


def list_candidates(
    considered: Considered, environment: Environment, ledger: Ledger, existing: Collection[str]
) -> list[Row]:
    """Returns all candidates on an environment; `existing` names the placements from before the decision."""
    assigned = next((a for a in considered.decision.assignments if a.environment == environment.name), None)
    place, rows = (assigned.profile, assigned.pool) if assigned else None, dict[tuple[str, str], Row]()
    for candidate, refusals in filter_candidates(considered.request, environment, ledger):
        replica = _format_replica(candidate.shape if candidate else None)
        price = candidate.pool.price if candidate else None
        if refusals:
            first = refusals[0]
            required, available = first.columns
            available += count_more(len(refusals) - 1)
            key, verdict, rank = (first.profile, first.pool), str(first.reason), None
        else:
            assert candidate is not None  # only a pool can be without a refusal
            key, verdict = (candidate.profile.name, candidate.pool.name), str(Verdict.FITS)
            rank, room = rank_candidate(candidate, ledger), ledger.room(environment, candidate.pool)
            fitting = room.count_fitting(replace(candidate.requested, replicas=room.nodes * room.gpus_per_node))
            required = format_count(considered.request.deployment.replicas, "replica")
            available = f"room for {fitting}" + (f", {format_spare(rank)}" if rank else "")
        rows[key] = Row(
            environment=environment.name,
            profile=key[0],
            pool=key[1],
            replica=replica,
            verdict=verdict,
            required=required,
            available=available,
            refusals=refusals,
            rank=rank,
            cost=price.cost(candidate.requested.gpus) if price and candidate and candidate.shape else None,
        )
    if assigned and place:
        is_kept = assigned.placement is not None and assigned.placement.name in existing
        # One may be kept although its pool or profile cannot be read, or its labels are not admitted any more.
        kept = Row(
            environment=environment.name,
            profile=place[0],
            pool=place[1],
            verdict="",
            replica=_format_replica(assigned.shape),
            cost=assigned.cost,
        )
        rows[place] = replace(rows.get(place, kept), verdict=Verdict.STAYS if is_kept else Verdict.PLACED)
    return [*rows.values()]


def count_more(number: int) -> str:
    """Returns how many more there are than the one that is shown."""
    return f" (+{number} more)" if number else ""


def _format_replica(shape: Shape | None) -> str:
    return format_replica(shape.nodes, shape.gpus_per_node) if shape else ""


def format_spare(rank: Rank) -> str:
    """Returns how much GPU memory a replica would not need."""
    if rank.spare is None:
        return "memoryPerGpu not declared"
    return f"{gib(rank.spare)} unused" if rank.spare >= 0 else f"{gib(-rank.spare)} too little"


def explain_preference(rows: Iterable[Row]) -> Iterator[str]:
    """Explains for each new placement why the cheapest or the smallest pool that suffices was chosen."""
    ranked = [(row, row.rank) for row in rows if row.rank]
    for row, best in ranked:
        if row.verdict != Verdict.PLACED:
            continue
        which = "the cheapest" if best.cost else "the smallest"
        reason = f"{row.environment}: of what fits profile {row.profile}, pool {row.pool} is {which}"
        others = [(o, other) for o, other in ranked if o.verdict == Verdict.FITS and o.profile == row.profile]
        following = [f"next {o.environment}/{o.pool} ({_format_rank(other)})" for o, other in others]
        parts = [f"{reason} ({_format_rank(best)})", *following[:1]]
        currencies = sorted({rank.cost.currency for _, rank in ((row, best), *others) if rank.cost})
        if len(currencies) > 1:
            parts.append(
                f"and costs in {' and '.join(currencies)} are not compared: those in {currencies[0]} come first"
            )
        yield ", ".join(parts)


def _format_rank(rank: Rank) -> str:
    return str(rank.cost or format_spare(rank))
