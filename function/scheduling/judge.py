"""Every (environment, profile, pool): the first that satisfies everything, else how near the nearest came.

Profiles in declared order, then pools in declared order, unless the smallest is preferred (preference.py). An
environment that a selector refuses is judged no further. A pool runs all checks and keeps every refusal, so that nobody
fixes one fault to meet the next. The nearest pool is the one whose first failing check lies furthest down the chain,
and the nearest environment is the one with the nearest pool: selectors, `CHECKS`, a pool or a quota that is too small,
capacity, readiness, the quota of the namespace. The quota comes last because it holds everywhere: an environment that
the quota alone refuses has room and is Ready.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

from function.domain.environment import Environment, Pool
from function.domain.model import Profile, Shape
from function.domain.quota import QuotaUsage
from function.kube.selectors import Selector
from function.reasons import Refused
from function.scheduling.checks import CHECKS, FIRST_OF_POOL, Candidate
from function.scheduling.ledger import Ledger
from function.scheduling.preference import rank, sort_key_in_environment
from function.scheduling.request import SchedulingRequest
from function.scheduling.shape import replica_shape
from function.scheduling.shortage import check_capacity
from function.scheduling.verdicts import Feasible, Field, Infeasible, Refusal, Verdict

FilterFunc: TypeAlias = Callable[[SchedulingRequest, Environment, Ledger], Verdict]
_Step: TypeAlias = tuple[int, Refusal]
SELECTION = -1
_REQUIREMENT_REASONS = (Refused.INVALID_PROFILE, Refused.NO_POOL_SATISFIES_REQUIREMENTS)
NEVER, NOT_NOW, READINESS, QUOTA = range(len(CHECKS), len(CHECKS) + 4)
_STEPS = {
    Refused.POOL_TOO_SMALL: NEVER,
    Refused.INSUFFICIENT_CAPACITY: NOT_NOW,
    Refused.ENVIRONMENT_NOT_READY: READINESS,
    Refused.QUOTA_EXCEEDED: QUOTA,
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A profile on a pool with all that refuses it; no candidate: it did not come to a pool."""

    candidate: Candidate | None
    refusals: tuple[Refusal, ...]


def filter_candidates(request: SchedulingRequest, environment: Environment, ledger: Ledger) -> tuple[Attempt, ...]:
    """Return all that `judge` would look at if nothing fitted, in its order."""
    if environment.broken:
        return (Attempt(None, unreadable_environment(environment, Field.ENVIRONMENT).refusals),)
    outside = refused_by_selectors(request, environment)
    if outside:
        return (Attempt(None, outside),)
    late = None if environment.ready else _not_ready(environment)
    found = _filter_candidates(request, environment, ledger, late)
    return tuple(Attempt(candidate, tuple(refusal for _, refusal in steps)) for candidate, steps in found)


def filter_environment(request: SchedulingRequest, environment: Environment, ledger: Ledger) -> Verdict:
    """Judge an environment that would be chosen anew: it must be Ready."""
    late = None if environment.ready else _not_ready(environment)
    return _filter(request, environment, ledger, late)


def filter_for_reschedule(request: SchedulingRequest, environment: Environment, ledger: Ledger) -> Verdict:
    """Judge an environment whose placement is decided again: an outage is no reason to leave it, nor is a quota."""
    return _filter(replace(request, quota_usage=None), environment, ledger, None)


def satisfies_requirements(request: SchedulingRequest, environment: Environment, profile: Profile, pool: Pool) -> bool:
    """Tell whether a pool has all that a profile asks for; weights and room may come, and an outage go."""
    candidate = Candidate(request, environment, profile, pool, replica_shape(profile, request.model.vram, pool))
    refusals = (check(request, candidate) for check in CHECKS)
    return not any(refusal and refusal.reason in _REQUIREMENT_REASONS for refusal in refusals)


def refused_by_selectors(request: SchedulingRequest, environment: Environment) -> tuple[Refusal, ...]:
    """Return what the deployment's and the model's selector refuse."""
    if not (request.deployment.selector.requirements or request.model.selector.requirements):
        return ()
    labels = dict(environment.labels)
    found = (
        _selection(environment, request.deployment.selector, labels, Field.DEPLOYMENT_SELECTOR),
        _selection(environment, request.model.selector, labels, Field.MODEL_SELECTOR),
    )
    return tuple(refusal for refusal in found if refusal is not None)


def refused_by_profile_selector(profile: Profile, environment: Environment) -> Refusal | None:
    """Return what the profile's own selector refuses."""
    if not profile.selector.requirements:
        return None
    return _selection(environment, profile.selector, dict(environment.labels), Field.PROFILE_SELECTOR, profile.name)


def _selection(
    environment: Environment, selector: Selector, labels: Mapping[str, str], field: Field, profile: str = ""
) -> Refusal | None:
    unmet = selector.find_unmet(labels)
    if not unmet:
        return None
    return Refusal(
        reason=Refused.NO_ENVIRONMENT_MATCHES,
        field=field,
        environment=environment.name,
        profile=profile,
        wanted=unmet,
        found=environment.labels,
    )


def _filter(request: SchedulingRequest, environment: Environment, ledger: Ledger, late: Refusal | None) -> Verdict:
    if environment.broken:
        return unreadable_environment(environment, Field.ENVIRONMENT)
    outside = refused_by_selectors(request, environment)
    if outside:
        return Infeasible(environment=environment.name, refusals=outside, failed_at=SELECTION)
    nearest: list[Iterator[_Step]] = []
    furthest, best = SELECTION, None
    for candidate, steps in _filter_candidates(request, environment, ledger, late):
        if best is not None and (candidate is None or candidate.profile.name != best.profile):
            break
        first = next(steps, None)
        if first is None:
            fit = _accept(request, candidate, ledger)
            if fit.rank is None:
                return fit
            best = fit if best is None else min(best, fit, key=sort_key_in_environment)
            continue
        if first[0] > furthest:
            furthest, nearest = first[0], []
        if first[0] == furthest:
            nearest.append(chain((first,), steps))
    if best is not None:
        return best
    refusals = min((tuple(refusal for _, refusal in steps) for steps in nearest), key=len)
    return Infeasible(environment=environment.name, refusals=refusals, failed_at=furthest)


def _filter_candidates(
    request: SchedulingRequest, environment: Environment, ledger: Ledger, late: Refusal | None
) -> Iterator[tuple[Candidate | None, Iterator[_Step]]]:
    for profile in request.model.profiles:
        refused = refused_by_profile_selector(profile, environment)
        if refused is not None:
            yield None, iter([(SELECTION, refused)])
        elif not environment.pools:
            yield None, iter([(FIRST_OF_POOL, _unreadable(environment, Field.NODE_POOLS))])
        else:
            for pool in environment.pools:
                shape = replica_shape(profile, request.model.vram, pool)
                candidate = Candidate(request, environment, profile, pool, shape)
                yield candidate, _run_filters(request, candidate, ledger, late)


def _run_filters(
    request: SchedulingRequest, candidate: Candidate, ledger: Ledger, late: Refusal | None
) -> Iterator[_Step]:
    """Run the chain. Lazily: beyond its first refusal only the nearest pool is of interest."""
    for step, check in enumerate(CHECKS):
        refusal = check(request, candidate)
        if refusal is not None:
            yield step, refusal
    full = check_capacity(request, candidate, ledger)
    over = _check_quota(request, candidate)
    found = [refusal for refusal in (full, late, over) if refusal is not None]
    yield from sorted(((step_of(refusal), refusal) for refusal in found), key=itemgetter(0))


def _check_quota(request: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    if request.quota_usage is None or candidate.shape is None:
        return None
    excess = request.quota_usage.of(candidate.shape.gpus * request.deployment.replicas)
    if excess is None:
        return None
    return refuse_over_quota(
        candidate.environment.name, candidate.profile.name, candidate.pool.name, candidate.shape, excess
    )


def refuse_over_quota(environment: str, profile: str, pool: str, shape: Shape, excess: QuotaUsage) -> Refusal:
    """Return the refusal of what a namespace has no room for in its quota."""
    return Refusal(
        reason=Refused.QUOTA_EXCEEDED,
        field=Field.QUOTA,
        environment=environment,
        profile=profile,
        pool=pool,
        shape=shape,
        wanted=excess.wanted,
        quota_usage=excess,
    )


def step_of(refusal: Refusal) -> int:
    """Return the step of a refusal after `CHECKS`.

    A quota that the request alone exceeds is as far away as a pool that is too small: waiting never helps.
    """
    if refusal.quota_usage is not None and refusal.quota_usage.exceeds_limit:
        return NEVER
    return _STEPS[refusal.reason]


def _accept(request: SchedulingRequest, candidate: Candidate | None, ledger: Ledger) -> Feasible:
    assert candidate is not None  # what nothing refuses has a pool and a shape
    assert candidate.shape is not None
    return Feasible(
        environment=candidate.environment.name,
        profile=candidate.profile.name,
        pool=candidate.pool.name,
        shape=candidate.shape,
        vram=request.model.vram if candidate.profile.shape is None else None,
        rank=rank(candidate, ledger),
    )


def unreadable_environment(environment: Environment, field: Field) -> Infeasible:
    """Return the refusal of an environment, or of its pools, that cannot be read or are not there."""
    return Infeasible(
        environment=environment.name, refusals=(_unreadable(environment, field),), failed_at=FIRST_OF_POOL
    )


def _unreadable(environment: Environment, field: Field) -> Refusal:
    return Refusal(
        reason=Refused.NO_POOL_SATISFIES_REQUIREMENTS,
        field=field,
        environment=environment.name,
        found=environment.broken_pools or None,
    )


def _not_ready(environment: Environment) -> Refusal:
    return Refusal(
        reason=Refused.ENVIRONMENT_NOT_READY,
        field=Field.READY,
        environment=environment.name,
        found=environment.ready_message or None,
    )
