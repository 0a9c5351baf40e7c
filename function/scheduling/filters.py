"""What a pool must satisfy, one function for each requirement; `CHECKS` in its order is the specification.

The order is that of `Refused`, so that the pool whose first failing check lies furthest down came nearest.
Within the requirements on the hardware it is the design's table. Asked for but not declared by the pool is
not satisfied, and recorded as `found=None`. What the weights ask for is the planner's to say. Capacity and
readiness come after these, see judge.py; selectors before.

Whether a pool has room for a demand: never (not even were it empty) and not now are told apart.

What a pool can ever hold is a matter of what is declared; nodes that cannot be used are missing now.

Which of several pools that satisfy everything is taken where a deployment prefers the smallest that suffices.

For the first profile in declared order that anything satisfies, among all pools of all environments: the least GPU
memory of a replica beyond what is asked for (the model's vram, else what the profile requires of its GPUs, else
nothing), then the fewest GPUs left on the fullest node that would be used, then environment and pool by name.

After a yield those who lost spread by a hash of their own over what is equally small, as they do where the order is
the declared one: who packs tightest would be the same for all of them.

Every (environment, profile, pool): the first that satisfies everything, else how near the nearest came.

Profiles in declared order, then pools in declared order, unless the smallest is preferred (preference.py). An
environment that a selector refuses is judged no further. A pool runs all checks and keeps every refusal, so that nobody
fixes one fault to meet the next. The nearest pool is the one whose first failing check lies furthest down the chain,
and the nearest environment is the one with the nearest pool: selectors, `CHECKS`, a pool or a quota that is too small,
capacity, readiness, the quota of the namespace. The quota comes last because it holds everywhere: an environment that
the quota alone refuses has room and is Ready.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

from function.domain.allocation import QuotaUsage
from function.domain.engine_args import find_shape_faults, find_tls_faults
from function.domain.environment import Environment, Pool
from function.domain.hardware import covers_interconnect
from function.domain.model import Profile, Shape, Spread
from function.domain.placement import Preference
from function.kube.selectors import Selector
from function.reasons import Refused
from function.scheduling.capacity import Demand, PoolCapacity, empty_holds, replica_shape
from function.scheduling.ledger import Ledger, pool_use
from function.scheduling.verdicts import Feasible, Field, Infeasible, Rank, Refusal, SchedulingRequest, Value, Verdict
from function.weights.faults import StorageFault


@dataclass(frozen=True)
class Candidate:
    """A profile on a pool. `shape` None: it must be computed, and pool or model do not say enough."""

    request: SchedulingRequest
    environment: Environment
    profile: Profile
    pool: Pool
    shape: Shape | None

    @cached_property
    def storage(self) -> tuple[StorageFault, ...]:
        """Why the planner has no storage for it; asked at most once."""
        if self.shape is None:
            return ()
        return self.request.storage_check(self.environment, self.pool, self.shape, self.request.deployment.replicas)


Check: TypeAlias = Callable[[SchedulingRequest, Candidate], Refusal | None]


def _make_refusal(
    candidate: Candidate,
    field: Field,
    wanted: Value,
    found: Value,
    reason: Refused = Refused.NO_POOL_SATISFIES_REQUIREMENTS,
) -> Refusal:
    return Refusal(
        reason=reason,
        field=field,
        environment=candidate.environment.name,
        profile=candidate.profile.name,
        pool=candidate.pool.name,
        wanted=wanted,
        found=found,
        shape=candidate.shape,
    )


def vram(request: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A profile without a shape needs a model that says how much memory it takes."""
    if candidate.profile.shape is None and not request.model.vram:
        return _make_refusal(candidate, Field.VRAM, None, None, Refused.INVALID_PROFILE)
    return None


def engine_args(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Engine and arguments must agree with a shape that VRAM maths made; parse checks declared shapes."""
    if candidate.profile.shape is not None or candidate.shape is None:
        return None
    problems = find_shape_faults(candidate.profile.engine, candidate.shape)
    return _make_refusal(candidate, Field.ENGINE_ARGS, None, problems, Refused.INVALID_PROFILE) if problems else None


def inter_node(request: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """An engine leaves to the pool's preset what that says about the network between nodes."""
    if candidate.shape is None:
        return None
    problems = request.serving_check(candidate.profile, candidate.shape, candidate.pool)
    return _make_refusal(candidate, Field.INTER_NODE, None, problems, Refused.INVALID_PROFILE) if problems else None


def tls(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """An engine can serve HTTPS where the cluster's KServe speaks nothing else to it."""
    problems = find_tls_faults(candidate.profile.engine) if candidate.environment.kserve.tls else ()
    return _make_refusal(candidate, Field.TLS, None, problems, Refused.INVALID_PROFILE) if problems else None


def deployment_storage(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """What the deployment itself says about its weights suits this shape."""
    return _storage(candidate, Refused.INVALID_DEPLOYMENT)


def multi_node(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Several nodes need a pool that says it can; one node runs anywhere."""
    shape = candidate.shape
    if shape is not None and shape.nodes > 1 and not candidate.pool.multi_node:
        return _make_refusal(candidate, Field.MULTI_NODE, shape.nodes, "false")
    return None


def gpus_per_node(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A node has at least the GPUs that one pod takes."""
    shape, has = candidate.shape, candidate.pool.gpus_per_node
    if shape is not None and shape.gpus_per_node > has:
        return _make_refusal(candidate, Field.GPUS_PER_NODE, shape.gpus_per_node, has)
    return None


def memory_per_gpu(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A GPU has at least the memory asked for; VRAM maths needs it declared in any case."""
    wanted, has = candidate.profile.requires.memory_per_gpu, candidate.pool.memory_per_gpu
    if candidate.profile.shape is None and not has:
        return _make_refusal(candidate, Field.MEMORY_PER_GPU, wanted, None)
    if wanted is not None and (has is None or has < wanted):
        return _make_refusal(candidate, Field.MEMORY_PER_GPU, wanted, has)
    return None


def nvlink_domain(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """At least so many GPUs share one NVLink domain."""
    wanted, has = candidate.profile.requires.nvlink_domain, candidate.pool.nvlink_domain
    if wanted is not None and (has is None or has < wanted):
        return _make_refusal(candidate, Field.NVLINK_DOMAIN, wanted, has)
    return None


def interconnect(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """GPUs of one node are connected so, or better."""
    wanted, has = candidate.profile.requires.interconnect, candidate.pool.interconnect
    if wanted is not None and (has is None or not covers_interconnect(has, wanted)):
        return _make_refusal(candidate, Field.INTERCONNECT, wanted, has)
    return None


def accelerator_type(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """The GPUs are of exactly this type."""
    wanted, has = candidate.profile.requires.accelerator_type, candidate.pool.accelerator_type or None
    return _make_refusal(candidate, Field.ACCELERATOR_TYPE, wanted, has) if wanted and wanted != has else None


def bandwidth(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Nodes are connected at a rung of the ladder, or at least at it."""
    wanted, has = candidate.profile.requires.bandwidth, candidate.pool.bandwidth
    if wanted is not None and (has is None or not wanted.is_met_by(has)):
        return _make_refusal(candidate, Field.BANDWIDTH, wanted, has)
    return None


def precision(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """The GPUs support every precision asked for."""
    wanted, has = candidate.profile.requires.precision, candidate.pool.precision
    if wanted and (has is None or not set(wanted) <= set(has)):
        return _make_refusal(candidate, Field.PRECISION, wanted, has)
    return None


def claim_size(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Where nobody says how large the claim must be, the pool's GPU memory does."""
    if candidate.profile.requires.memory_per_gpu and candidate.pool.memory_per_gpu is None:
        return None  # said already
    return _storage(candidate, Refused.NO_POOL_SATISFIES_REQUIREMENTS)


def shared_storage(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """The environment has storage that every pod can mount."""
    return _storage(candidate, Refused.SHARED_STORAGE_MISSING)


def storage_size(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """The claim is said to hold what the weights take."""
    return _storage(candidate, Refused.STORAGE_TOO_SMALL)


def cache(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A named ModelCache keeps its weights on this environment."""
    return _storage(candidate, Refused.CACHE_NOT_ON_ENVIRONMENT)


def _storage(candidate: Candidate, reason: Refused) -> Refusal | None:
    fault = next((fault for fault in candidate.storage if fault.reason is reason), None)
    return None if fault is None else refuse_storage(candidate, fault)


def refuse_storage(candidate: Candidate, fault: StorageFault) -> Refusal:
    """Return the planner's word as a refusal."""
    refusal = _make_refusal(candidate, Field.STORAGE, None, None, fault.reason)
    return replace(refusal, storage=fault)


CHECKS: tuple[Check, ...] = (
    deployment_storage,
    vram,
    engine_args,
    inter_node,
    tls,
    multi_node,
    gpus_per_node,
    memory_per_gpu,
    nvlink_domain,
    interconnect,
    accelerator_type,
    bandwidth,
    precision,
    claim_size,
    shared_storage,
    storage_size,
    cache,
)
FIRST_OF_POOL = CHECKS.index(multi_node)


def check_capacity(request: SchedulingRequest, candidate: Candidate, ledger: Ledger) -> Refusal | None:
    """Refuse where the pool has no room for every replica; what no node can hold was refused before."""
    shape = candidate.shape
    if shape is None or shape.gpus_per_node > candidate.pool.gpus_per_node:
        return None
    environment, profile, pool = candidate.environment, candidate.profile, candidate.pool
    demand = Demand(shape, request.deployment.replicas, profile.replicas_across_nodes is Spread.REQUIRED)
    found = find_shortage(ledger.room(environment, pool), demand, environment.name, profile.name, pool)
    if found is None or found.reason is Refused.POOL_TOO_SMALL or ledger.has_capacity_of(environment, pool):
        return found
    return replace(found, field=Field.LEDGER)


def find_shortage(room: PoolCapacity, demand: Demand, environment: str, profile: str, pool: Pool) -> Refusal | None:
    """Return what is missing for a demand, in replicas."""
    fit = room.holds(demand)
    if fit >= demand.replicas:
        return None
    ever = empty_holds(room.nodes, room.gpus_per_node, demand, room.exclusive_nodes)
    never = ever < demand.replicas
    return Refusal(
        reason=Refused.POOL_TOO_SMALL if never else Refused.INSUFFICIENT_CAPACITY,
        field=Field.REPLICAS,
        environment=environment,
        profile=profile,
        pool=pool.name,
        wanted=demand.replicas,
        found=ever if never else fit,
        shape=demand.shape,
        use=pool_use(room, pool),
        exclusive_node=pool.needs_exclusive_node(demand.shape.nodes, demand.shape.gpus_per_node),
    )


def rank(candidate: Candidate, ledger: Ledger) -> Rank | None:
    """Return how a candidate that satisfies everything compares with others; None where that does not count."""
    request, shape = candidate.request, candidate.shape
    if request.deployment.prefer is Preference.DECLARED or shape is None:
        return None
    profile, has = candidate.profile, candidate.pool.memory_per_gpu
    asked = request.model.vram or (profile.requires.memory_per_gpu or 0) * shape.gpus
    apart = profile.replicas_across_nodes is Spread.REQUIRED
    room = ledger.room(candidate.environment, candidate.pool)
    return Rank(
        profile=request.model.profiles.index(profile),
        spare=None if has is None else has * shape.gpus - asked,
        left=room.packed(Demand(shape, request.deployment.replicas, apart)),
    )


def sort_key_in_environment(fit: Feasible) -> tuple[tuple[int, int, int], int, str]:
    """Sorts fits of one environment."""
    assert fit.rank is not None  # likewise
    return fit.rank.size, fit.rank.left, fit.pool


def smallest_first(verdicts: Iterable[Verdict], *, by_name: bool) -> Iterator[Verdict]:
    """Return the misses, then the fits of several environments, the smallest first.

    Not `by_name`: what is equally small stays in the order in which it comes.
    """
    found = [*verdicts]
    yield from (verdict for verdict in found if isinstance(verdict, Infeasible))
    fits = [verdict for verdict in found if isinstance(verdict, Feasible)]
    yield from sorted(fits, key=_sort_key_by_name if by_name else _size)


def _size(fit: Feasible) -> tuple[int, int, int]:
    assert fit.rank is not None  # what is preferred as the smallest has one
    return fit.rank.size


def _sort_key_by_name(fit: Feasible) -> tuple[tuple[int, int, int], int, str]:
    assert fit.rank is not None  # likewise
    return fit.rank.size, fit.rank.left, fit.environment


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
