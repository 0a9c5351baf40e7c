"""Division: the replicas of a deployment are divided over its environments (`scaling.replicaScheduling: Divided`).

A replica that has a place keeps it, so that nothing moves without need. If there are too many replicas, the least
preferred placements give up theirs first. If there are too few, the most preferred environments get them first, each
as many as fit; where the preference is equal, placements that exist come first, then environments that have the
weights. Replicas that fit nowhere are tried again in every decision.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from operator import itemgetter
from typing import Any, TypeAlias

from function.capacity.reclaim import find_kept, find_time_to_move
from function.domain.allocation import QuotaUsage
from function.domain.environment import Environment
from function.domain.placement import Placement, Preference, Stage
from function.reasons import Phase
from function.scheduling.candidates import SchedulingInputs, filter_in_order
from function.scheduling.filters import (
    Candidate,
    check_ready,
    filter_environment,
    filter_for_reschedule,
    find_step,
    rank_candidate,
)
from function.scheduling.limits import charge_assignments, count_extra_gpus, refuse_quota
from function.scheduling.scaling import scale_existing
from function.scheduling.verdicts import Assignment, Held, Infeasible, SchedulingRequest, Verdict

_SortKey: TypeAlias = tuple[Any, ...]
_NO_RANK: _SortKey = ()  # sorts first


@dataclass(slots=True)
class Division:
    """The replicas that have a place so far, and those that still need one."""

    inputs: SchedulingInputs
    left: int  # replicas without a place
    most: int  # environments that may have replicas
    assignments: dict[str, Assignment] = field(default_factory=dict)  # by environment
    refusals: dict[str, Infeasible] = field(default_factory=dict)  # by environment

    @property
    def usage(self) -> QuotaUsage | None:
        """What the namespace has of its quota, with all assignments of this division charged."""
        usage = self.inputs.usage
        return usage and charge_assignments(usage, self.assignments.values())

    @property
    def may_use_more(self) -> bool:
        """Tells whether a further environment may get replicas; a placement without any does not count."""
        return sum(each.replicas > 0 for each in self.assignments.values()) < self.most

    def assign(self, assignment: Assignment) -> None:
        """Gives replicas a place, in addition to those that the environment has."""
        known = self.assignments.get(assignment.environment)
        self.left -= assignment.replicas - (known.replicas if known else 0)
        self.assignments[assignment.environment] = assignment


def divide(
    inputs: SchedulingInputs,
    kept: Sequence[Placement],
    to_reschedule: Sequence[Placement],
    evicted: Mapping[str, Placement],
    *,
    may_add: bool,
) -> Division:
    """Divides the replicas of a deployment.

    `kept`: the placements that may stay, the ones to be kept longest first. `to_reschedule`: the placements that must
    leave, or get another shape in place. `evicted`: placements by environment that are used again if their environment
    is chosen. `may_add`: further environments may be used.
    """
    deployment = inputs.request.deployment
    unreadable = [p for p in kept if p.shape is None]
    division = Division(
        inputs=inputs,
        left=max(0, deployment.replicas - sum(p.replicas for p in unreadable)),
        most=max(0, deployment.environments - len(unreadable)),
    )
    ranks = {p.environment: _rank(inputs, p) for p in kept}
    # Of equals, the one with most replicas is kept, and stays the choice while it takes over those of the others.
    sleeps = not deployment.replicas

    def order(p: Placement) -> tuple[tuple[bool, bool, bool], _SortKey, int, str]:
        rank = ranks[p.environment]
        return _gives_up_first(p, sleeps=sleeps), rank, 0 if sleeps else -p.replicas, p.environment if sleeps else ""

    preferred = sorted((p for p in kept if p.shape), key=order)
    running = _count_running_to_keep(preferred[: division.most], division.left)
    for placement in preferred:
        _keep(division, placement, running)
    for placement in to_reschedule:
        _reschedule_in_place(division, placement)
    # A placement that needs another pool and has no replicas now is used again if its environment is chosen.
    reusable = {p.environment: p for p in to_reschedule if p.environment not in division.assignments} | {**evicted}
    used = frozenset(p.environment for p in kept).union(division.assignments)
    if division.left or (not division.assignments and not unreadable):
        for candidate in _sort_candidates(division, ranks, used, evicted):
            _grow(division, candidate, reusable, may_add=may_add)
            if not division.left and division.assignments:
                break
        _take_back(division, ranks, used, reusable, may_add=may_add)
    _hold_replicas(division, kept)
    _close_empty_placements(division)
    if not division.left:  # whoever got fewer than it could have had misses nothing
        division.refusals = {name: i for name, i in division.refusals.items() if i.granted_replicas is None}
    return division


def _rank(inputs: SchedulingInputs, placement: Placement) -> _SortKey:
    """Returns the preference of an existing placement, as far as its environment and model can be read."""
    environment = inputs.environments[placement.environment]
    profile = inputs.request.find_profile(placement.profile)
    pool = environment.pool(placement.pool)
    if profile is None or pool is None:
        return _NO_RANK
    rank = rank_candidate(
        Candidate(inputs.request.with_replicas(1), environment, profile, pool, placement.shape), inputs.ledger
    )
    return rank.sort_key if rank else _NO_RANK


def _gives_up_first(placement: Placement, *, sleeps: bool) -> tuple[bool, bool, bool]:
    """Returns the sort key by which placements that serve keep their replicas longest, whatever is preferred.

    While all replicas stop, it does not count whose pods have ended: the same placement stays in every decision.
    """
    stopped = not sleeps and not placement.running_replicas
    return placement.deleting, stopped, placement.stage < Stage.SERVED


def _count_running_to_keep(placements: Sequence[Placement], left: int) -> dict[str, int]:
    """Returns how many running replicas each environment keeps: they stay longer than replicas that start."""
    kept: dict[str, int] = {}
    for placement in placements:
        kept[placement.environment] = min(placement.running_replicas, left)
        left -= kept[placement.environment]
    return kept


def _keep(division: Division, placement: Placement, running: dict[str, int]) -> None:
    """Keeps the replicas of a placement, as far as they are still requested; a placement without any may grow.

    `running`: how many running replicas are to be kept, by environment; those of this placement are taken from it.
    """
    if not division.may_use_more:
        return
    inputs = division.inputs
    environment = inputs.environments[placement.environment]
    running.pop(placement.environment, None)
    replicas = min(placement.replicas, division.left - sum(running.values()))
    request = inputs.request.with_replicas(replicas)
    assignment, _ = scale_existing(request, environment, placement, inputs.ledger)
    division.assign(assignment)


def _reschedule_in_place(division: Division, placement: Placement) -> None:
    """Gives a placement another shape or pool on its environment, with as many of its replicas as fit there."""
    inputs = division.inputs
    environment = inputs.environments.get(placement.environment)
    replicas = min(placement.replicas, division.left)
    if environment is None or not division.may_use_more or not replicas:
        return

    def try_replicas(replicas: int) -> Verdict:
        return filter_for_reschedule(inputs.request.with_replicas(replicas), environment, inputs.ledger)

    fitting = bisect_left(range(1, replicas + 1), 1, key=lambda n: isinstance(try_replicas(n), Infeasible))
    verdict = try_replicas(fitting) if fitting else None
    if isinstance(verdict, Assignment):
        division.assign(replace(verdict, placement=placement))


def _sort_candidates(
    division: Division, ranks: Mapping[str, _SortKey], used: frozenset[str], evicted: Mapping[str, Placement]
) -> Iterator[Placement | Verdict]:
    """Yields the placements that may grow and the verdicts on further environments, the most preferred first."""
    inputs = division.inputs
    assigned = (a.placement for a in division.assignments.values() if a.placement and not a.is_rescheduled)
    existing = [p for p in assigned if not p.deleting]  # new replicas would go with a placement that is being deleted
    one_replica = replace(inputs, request=inputs.request.with_replicas(min(1, inputs.request.deployment.replicas)))
    verdicts = filter_in_order(one_replica, used, after_eviction=bool(evicted))
    if inputs.request.deployment.prefer is Preference.DECLARED:
        yield from existing
        if _has_named_cache(inputs.request):  # a stable sort: the order stays where no weights differ
            verdicts = iter(sorted(verdicts, key=lambda verdict: not _has_weights(inputs, verdict.environment)))
        yield from verdicts
        return
    ranked: list[tuple[_SortKey, Placement | Verdict]] = [((ranks[p.environment], 0), p) for p in existing]
    for verdict in verdicts:
        if isinstance(verdict, Infeasible) or verdict.rank is None:
            yield verdict
        else:
            after = 1 + (not _has_weights(inputs, verdict.environment))
            ranked.append(((verdict.rank.sort_key, after), verdict))
    for _, candidate in sorted(ranked, key=itemgetter(0)):
        yield candidate


def _has_named_cache(request: SchedulingRequest) -> bool:
    return request.storage_request is not None and request.storage_request.named_cache is not None


def _has_weights(inputs: SchedulingInputs, environment: str) -> bool:
    """Tells whether the ModelCache of a deployment has its weights on an environment."""
    storage = inputs.request.storage_request
    entry = storage.named_cache.entry(environment) if storage and storage.named_cache else None
    return entry is not None and entry.phase is Phase.READY


def _grow(
    division: Division, candidate: Placement | Verdict, reusable: Mapping[str, Placement], *, may_add: bool
) -> None:
    """Gives replicas that have no place to a placement, or to a new one."""
    inputs = division.inputs
    if isinstance(candidate, Infeasible):
        division.refusals[candidate.environment] = candidate
        return
    environment = inputs.environments[candidate.environment]
    if isinstance(candidate, Placement):
        _grow_existing(division, environment, candidate)
    elif may_add and division.may_use_more:
        _place_new(division, environment, reusable.get(candidate.environment))


def _take_back(
    division: Division,
    ranks: Mapping[str, _SortKey],
    used: frozenset[str],
    reusable: Mapping[str, Placement],
    *,
    may_add: bool,
) -> None:
    """Gives guaranteed replicas without a place GPUs that are taken back from lent replicas of others."""
    inputs = division.inputs
    deployment = inputs.request.deployment
    lacking = deployment.guaranteed_replicas - (deployment.replicas - division.left)
    lends_nothing = frozenset(e.name for e in inputs.environments.values() if not inputs.ledger.lends(e))
    left = inputs.request.charge_guaranteed(division.assignments.values()).guaranteed_gpus
    if lacking <= 0 or left == 0 or lends_nothing.issuperset(inputs.environments):
        return
    division.inputs = replace(inputs, request=replace(inputs.request, takes_back=True))
    lent, division.left = division.left - lacking, lacking
    names = used.union(division.assignments, lends_nothing)
    candidates = [*_sort_candidates(division, ranks, names, {})]
    feasible = (candidate for candidate in candidates if not isinstance(candidate, Infeasible))
    for candidate in takewhile(lambda _: division.left, feasible):
        before = dict(division.assignments)
        _grow(division, candidate, reusable, may_add=may_add)
        _limit_to_guarantee(division, before, candidate.environment)
    division.left += lent
    division.inputs = inputs
    division.refusals = {
        name: replace(infeasible, granted_replicas=division.assignments[name].replicas)
        if name in division.assignments
        else infeasible
        for name, infeasible in division.refusals.items()
    }


def _limit_to_guarantee(division: Division, before: Mapping[str, Assignment], name: str) -> None:
    """Lowers what an environment was given just now to what the namespace has GPUs left for."""
    gpus = division.inputs.request.charge_guaranteed(before.values()).guaranteed_gpus
    grown = division.assignments.get(name)
    if gpus is None or grown is None:
        return
    most = (before[name].replicas if name in before else 0) + gpus // grown.shape.gpus
    surplus = max(0, grown.replicas - most)
    division.left += surplus
    if most or name in before:
        division.assignments[name] = replace(grown, replicas=grown.replicas - surplus)
    else:
        del division.assignments[name]


def _grow_existing(division: Division, environment: Environment, placement: Placement) -> None:
    has = division.assignments[environment.name].replicas
    if not has and not division.may_use_more:
        return
    if unready := check_ready(environment):  # what runs there stays, and new replicas go where they can start
        division.refusals[environment.name] = Infeasible(
            refusals=(unready,), failed_step=find_step(unready), granted_replicas=has
        )
        return
    request = division.inputs.request.with_replicas(has + division.left)
    assignment, infeasible = scale_existing(request, environment, placement, division.inputs.ledger)
    if infeasible is not None:
        division.refusals[environment.name] = infeasible
    allowed, over_quota = _limit_by_quota(division.usage, assignment, at_least=has)
    if over_quota is not None:
        division.refusals[environment.name] = over_quota
    division.assign(replace(assignment, replicas=allowed))


def _limit_by_quota(
    usage: QuotaUsage | None, assignment: Assignment, *, at_least: int
) -> tuple[int, Infeasible | None]:
    """Returns how many replicas of an existing placement the quota allows, and the refusal if they are fewer."""

    def find_excess(replicas: int) -> QuotaUsage | None:
        more = count_extra_gpus(replace(assignment, replicas=replicas))
        return usage.find_excess(more, assignment.price, is_new=False) if usage and more else None

    excess = find_excess(assignment.replicas)
    if excess is None:
        return assignment.replicas, None
    numbers = range(at_least + 1, assignment.replicas)
    allowed = at_least + bisect_left(numbers, 1, key=lambda n: find_excess(n) is not None)
    return allowed, refuse_quota(assignment, excess, granted_replicas=allowed)


def _place_new(division: Division, environment: Environment, existing: Placement | None) -> None:
    inputs = division.inputs
    request = replace(inputs.request, quota_usage=None if existing else division.usage)

    def try_replicas(replicas: int) -> Verdict:
        return filter_environment(request.with_replicas(replicas), environment, inputs.ledger)

    verdict = try_replicas(division.left)
    if isinstance(verdict, Infeasible):
        refused = verdict
        fitting = bisect_left(range(1, division.left), 1, key=lambda n: isinstance(try_replicas(n), Infeasible))
        verdict = try_replicas(fitting) if fitting else refused
        division.refusals[environment.name] = replace(refused, granted_replicas=fitting or None)
    if isinstance(verdict, Assignment):
        division.assign(replace(verdict, placement=existing))


def _hold_replicas(division: Division, kept: Sequence[Placement]) -> None:
    """Keeps running replicas that are given back, for a while, as far as others start elsewhere in their place."""
    inputs = division.inputs
    holding: dict[str, Held] = {}  # replicas that are given back, and may stay for now, by environment
    for placement in kept:
        guaranteed = inputs.request.find_guarantee(placement)
        found = find_kept(inputs.environments[placement.environment], placement, guaranteed)
        assigned = division.assignments.get(placement.environment)
        if found and assigned and (until := find_time_to_move(found[1], inputs.now)):
            surplus = max(0, placement.running_replicas - assigned.replicas)
            holding[placement.environment] = Held(replicas=surplus, until=until, yields=found[1])
    starting = sum(
        max(0, each.replicas - (each.placement.running_replicas if each.placement else 0))
        for name, each in division.assignments.items()
        if name not in holding
    )
    for name, most in sorted(holding.items()):
        held = replace(most, replicas=min(most.replicas, starting))
        starting -= held.replicas
        if held.replicas:
            division.assignments[name] = replace(division.assignments[name], held=held)


def _close_empty_placements(division: Division) -> None:
    """Closes placements without replicas; one stays if no replica has a place, so that its weights stay too."""
    serving = {name: each for name, each in division.assignments.items() if each.replicas or each.held}
    first = dict(list(division.assignments.items())[:1])
    division.assignments = serving or first
