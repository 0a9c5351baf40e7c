"""Filters: whether an environment can run a deployment, and if not, how near its nearest pool came.

Every profile is tried on every pool, in declared order. Each attempt reports every refusal, so that a user sees all
faults at once. The nearest pool is the pool whose first refusal comes latest in the order of `Refused`. The quota comes
last because it applies everywhere: an environment that only the quota refuses has capacity and is Ready. If a pool does
not declare a required value, the requirement is not satisfied, and the refusal has no actual value.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

from function.api.parse_cache import CacheStats
from function.capacity.ledger import CapacityView
from function.capacity.pools import PoolCapacity, compute_shape, count_in_empty_pool
from function.contract import noop
from function.domain.adapter import find_adapter_obstacle
from function.domain.allocation import QuotaUsage, Share
from function.domain.engines import find_shape_faults, find_tls_faults
from function.domain.environment import BEING_CREATED, Environment, Pool
from function.domain.model import INTERCONNECTS, Profile, Routing, Shape, Spread
from function.domain.placement import Placement, Preference
from function.kube.selectors import Selector, find_untolerated
from function.reasons import Refused
from function.scheduling.refusals import Field, Refusal, Value
from function.scheduling.verdicts import Assignment, Infeasible, Rank, SchedulingRequest, Verdict
from function.weights.faults import StorageFault

FilterFunc: TypeAlias = Callable[[Environment, CapacityView], Verdict]  # for one request
MAX_REQUESTS = 64  # as many as may be pending in a fleet; they are compared one by one
MAX_VERDICTS = 64_000  # 0.6 kB each (docs/performance.md), so that all of them take 40 MB
Step: TypeAlias = tuple[int, Refusal]  # the step that refuses (a position in `CHECKS`, or beyond), and the refusal


@dataclass(frozen=True)
class Candidate:
    """A profile on a pool."""

    request: SchedulingRequest
    environment: Environment
    profile: Profile
    pool: Pool
    shape: Shape | None  # None: it must be computed, but the pool or the model declares too little

    @property
    def requested(self) -> Share:
        """What all replicas take of the pool; only a candidate with a shape has it."""
        assert self.shape is not None
        return Share(
            pool=self.pool.name,
            nodes=self.shape.nodes,
            gpus_per_node=self.shape.gpus_per_node,
            replicas=self.request.deployment.replicas,
            exclusive_replica_nodes=self.profile.replicas_across_nodes is Spread.REQUIRED,
        )

    @cached_property
    def storage_faults(self) -> tuple[StorageFault, ...]:
        """Why the weights cannot be stored for this candidate; computed at most once."""
        if self.shape is None:
            return ()
        return self.request.find_storage_faults(self.environment, self.pool, self.shape)

    def refuse(
        self,
        field: Field,
        required: Value = None,
        actual: Value = None,
        reason: Refused = Refused.NO_POOL_SATISFIES_REQUIREMENTS,
        **details: Any,
    ) -> Refusal:
        """Returns a refusal of this candidate; `details` are further fields of the refusal."""
        return Refusal(
            reason=reason,
            field=field,
            environment=self.environment.name,
            profile=self.profile.name,
            pool=self.pool.name,
            required=required,
            actual=actual,
            shape=self.shape,
            **details,
        )

    def refuse_profile(self, field: Field, problems: Value) -> Refusal | None:
        return self.refuse(field, None, problems, Refused.INVALID_PROFILE) if problems else None

    def refuse_fault(self, fault: StorageFault) -> Refusal:
        return self.refuse(Field.STORAGE, reason=fault.reason, storage=fault)

    def refuse_storage(self, reason: Refused) -> Refusal | None:
        return next((self.refuse_fault(fault) for fault in self.storage_faults if fault.reason is reason), None)


Check: TypeAlias = Callable[[Candidate], Refusal | None]


def check_vram(candidate: Candidate) -> Refusal | None:
    is_missing = candidate.profile.shape is None and not candidate.request.model.vram
    return candidate.refuse(Field.VRAM, None, None, Refused.INVALID_PROFILE) if is_missing else None


def check_engine_args(candidate: Candidate) -> Refusal | None:
    """Refuses arguments that contradict a computed shape; a declared shape is checked where it is parsed."""
    if candidate.profile.shape is not None or candidate.shape is None:
        return None
    path = f"spec.serving[{candidate.profile.name}].engine.args"
    problems = find_shape_faults(candidate.profile.engine, candidate.shape, path)
    return candidate.refuse_profile(Field.ENGINE_ARGS, problems)


def check_inter_node(candidate: Candidate) -> Refusal | None:
    """Refuses a profile that conflicts with the pool's preset for the network between nodes."""
    profile = candidate.profile
    shape = candidate.shape
    problems = candidate.request.serving_check(profile, shape, candidate.pool) if shape else ()
    return candidate.refuse_profile(Field.INTER_NODE, problems)


def check_tls(candidate: Candidate) -> Refusal | None:
    profile = candidate.profile
    path = f"spec.serving[{candidate.profile.name}].engine"
    problems = find_tls_faults(profile.engine, path) if candidate.environment.kserve.tls else ()
    return candidate.refuse_profile(Field.TLS, problems)


def check_routing(candidate: Candidate) -> Refusal | None:
    """Refuses an environment whose services cannot have the endpoint picker that a profile asks for."""
    routing, shape = candidate.profile.routing, candidate.shape
    if routing is Routing.DEFAULT or shape is None:
        return None
    environment = candidate.environment
    on_claim = candidate.request.is_on_claim(environment, candidate.pool, shape)
    obstacle = environment.kserve.find_picker_obstacle(on_claim=on_claim)
    return candidate.refuse(Field.ROUTING, routing, obstacle, Refused.ROUTING_NOT_SUPPORTED) if obstacle else None


def check_adapters(candidate: Candidate) -> Refusal | None:
    """Refuses a profile that cannot serve the adapters of the deployment."""
    adapters = candidate.request.deployment.adapters
    obstacle = find_adapter_obstacle(adapters, candidate.profile, candidate.request.model.served_name)
    if not obstacle:
        return None
    return candidate.refuse(Field.ADAPTERS, len(adapters), obstacle, Refused.ADAPTERS_NOT_SUPPORTED)


def check_multi_node(candidate: Candidate) -> Refusal | None:
    nodes = candidate.shape.nodes if candidate.shape else 1
    return candidate.refuse(Field.MULTI_NODE, nodes, "false") if nodes > 1 and not candidate.pool.multi_node else None


def check_gpus_per_node(candidate: Candidate) -> Refusal | None:
    required = candidate.shape.gpus_per_node if candidate.shape else 0
    actual = candidate.pool.gpus_per_node
    return candidate.refuse(Field.GPUS_PER_NODE, required, actual) if required > actual else None


def check_gpu_resource(candidate: Candidate) -> Refusal | None:
    """Refuses several slices or shares of GPUs for one pod: a pod can use only one."""
    required = candidate.shape.gpus_per_node if candidate.shape else 0
    is_refused = candidate.pool.needs_several_parts(required)
    return candidate.refuse(Field.GPU_RESOURCE, required, candidate.pool.gpu_resource) if is_refused else None


def check_memory_per_gpu(candidate: Candidate) -> Refusal | None:
    """Refuses a pool with too little memory per GPU; for a computed shape, the pool must declare this memory."""
    required = candidate.profile.requires.memory_per_gpu
    actual = candidate.pool.memory_per_gpu
    if candidate.profile.shape is None and not actual:
        return candidate.refuse(Field.MEMORY_PER_GPU, required, None)
    if required is not None and (actual is None or actual < required):
        return candidate.refuse(Field.MEMORY_PER_GPU, required, actual)
    return None


def _check_requirement(field: Field, is_met: Callable[[Any, Any], bool]) -> Check:
    """Returns the check of one field of `Requires`; `is_met` compares what the pool declares with what is required."""
    name = field.value.attribute

    def check(candidate: Candidate) -> Refusal | None:
        required = getattr(candidate.profile.requires, name)
        actual = getattr(candidate.pool, name)
        actual = None if actual == "" else actual
        is_unmet = required and (actual is None or not is_met(actual, required))
        return candidate.refuse(field, required, actual) if is_unmet else None

    return check


def check_claim_size(candidate: Candidate) -> Refusal | None:
    """Refuses a claim without a declared size if the pool's GPU memory gives no bound for the size either."""
    if candidate.profile.requires.memory_per_gpu and candidate.pool.memory_per_gpu is None:
        return None  # reported by check_memory_per_gpu
    return candidate.refuse_storage(Refused.NO_POOL_SATISFIES_REQUIREMENTS)


# Refuses storage that not every pod can mount.
check_shared_storage = partial(Candidate.refuse_storage, reason=Refused.SHARED_STORAGE_MISSING)

# The order is the specification: it refines the order of `Refused`.
CHECKS: tuple[Check, ...] = (
    partial(Candidate.refuse_storage, reason=Refused.INVALID_DEPLOYMENT),  # its modelCache does not suit the shape
    check_vram,
    check_engine_args,
    check_inter_node,
    check_tls,
    check_multi_node,
    check_gpus_per_node,
    check_gpu_resource,
    check_memory_per_gpu,
    _check_requirement(Field.NVLINK_DOMAIN, operator.ge),
    _check_requirement(Field.INTERCONNECT, lambda has, kind: kind in INTERCONNECTS[has]),
    _check_requirement(Field.ACCELERATOR_TYPE, operator.eq),
    _check_requirement(Field.BANDWIDTH, lambda has, speed: speed.is_met_by(has)),
    _check_requirement(Field.PRECISION, lambda has, formats: set(formats) <= set(has)),
    check_claim_size,
    check_routing,
    check_adapters,
    check_shared_storage,
    partial(Candidate.refuse_storage, reason=Refused.STORAGE_TOO_SMALL),
    partial(Candidate.refuse_storage, reason=Refused.CACHE_NOT_ON_ENVIRONMENT),
)
# The steps before, among and after the checks.
SELECTION = -1
FIRST_OF_POOL = CHECKS.index(check_multi_node)
STEP_NEVER, STEP_TAINTED, STEP_UNSCHEDULABLE, STEP_CAPACITY, STEP_READINESS, STEP_QUOTA = range(
    len(CHECKS), len(CHECKS) + 6
)
_STEPS = {
    Refused.POOL_TOO_SMALL: STEP_NEVER,
    Refused.ENVIRONMENT_TAINTED: STEP_TAINTED,
    Refused.POOL_UNSCHEDULABLE: STEP_UNSCHEDULABLE,
    Refused.INSUFFICIENT_CAPACITY: STEP_CAPACITY,
    Refused.POOL_NOT_CREATED: STEP_READINESS,
    Refused.ENVIRONMENT_NOT_READY: STEP_READINESS,
    Refused.BUDGET_EXCEEDED: STEP_QUOTA,
    Refused.QUOTA_EXCEEDED: STEP_QUOTA,
}
REQUIREMENT_REASONS = (Refused.INVALID_PROFILE, Refused.NO_POOL_SATISFIES_REQUIREMENTS)


def find_step(refusal: Refusal) -> int:
    """Returns the step of a refusal that comes after `CHECKS`.

    A quota that the request alone exceeds is as far away as a pool that is too small: waiting never helps.
    """
    if refusal.quota_usage is not None and refusal.quota_usage.exceeds_limit:
        return STEP_NEVER
    return _STEPS[refusal.reason]


def filter_candidates(
    request: SchedulingRequest, environment: Environment, ledger: CapacityView
) -> Iterator[tuple[Candidate | None, tuple[Refusal, ...]]]:
    """Returns every candidate that `filter_environment` would try if none were feasible, with all its refusals."""
    for candidate, steps in _try_candidates(request, environment, ledger):
        yield candidate, tuple(refusal for _, refusal in steps)


def filter_for_reschedule(request: SchedulingRequest, environment: Environment, ledger: CapacityView) -> Verdict:
    """Filters an environment for an existing placement: neither an outage nor the quota is a reason to leave it."""
    return filter_environment(replace(request, quota_usage=None), replace(environment, ready=True), ledger)


def filter_environment(request: SchedulingRequest, environment: Environment, ledger: CapacityView) -> Verdict:
    """Returns the feasible candidate for a new placement, else every refusal of the nearest candidate.

    The nearest candidate is the candidate whose first refusal comes at the latest step; of several such candidates, the
    one with the fewest refusals. The steps run lazily: after its first refusal, a candidate runs the remaining steps
    only if it is among the nearest.
    """
    chosen: Assignment | None = None
    nearest_step = SELECTION  # the latest step at which a candidate was first refused
    nearest: list[tuple[Refusal, Iterator[Step]]] = []  # the first refusal at that step, and the steps still to run
    for candidate, steps in _try_candidates(request, environment, ledger):
        if chosen is not None and (candidate is None or candidate.profile.name != chosen.profile):
            break  # pools compete within a profile only: profiles are tried in declared order
        first = next(steps, None)
        if first is None:
            assert candidate is not None  # a candidate without a refusal has a pool
            feasible = _assign(candidate, ledger)
            if feasible.rank is None:
                return feasible
            chosen = feasible if chosen is None else min(chosen, feasible, key=attrgetter("preference"))
            continue
        step, refusal = first
        if step > nearest_step:
            nearest_step = step
            nearest = []
        if step == nearest_step:
            nearest.append((refusal, steps))
    if chosen is not None:
        return chosen
    refusals = min(((refusal, *(later for _, later in steps)) for refusal, steps in nearest), key=len)
    return Infeasible(refusals=refusals, failed_step=nearest_step)


def _try_candidates(
    request: SchedulingRequest, environment: Environment, ledger: CapacityView
) -> Iterator[tuple[Candidate | None, Iterator[Step]]]:
    """Yields every candidate with its refusals; None stands for a refusal that comes before a pool is tried."""
    if environment.broken:
        yield None, iter([refuse_unreadable(environment)])
        return
    if refusals := check_selectors(request, environment):
        yield None, ((SELECTION, refusal) for refusal in refusals)
        return
    for profile in request.model.profiles:
        refused = check_profile_selector(profile, environment)
        if refused is not None:
            yield None, iter([(SELECTION, refused)])
        elif not environment.pools:
            yield None, iter([refuse_unreadable(environment)])
        else:
            for pool in environment.pools:
                shape = compute_shape(profile, request.model.vram, pool)
                candidate = Candidate(request, environment, profile, pool, shape)
                yield candidate, _run_filters(candidate, ledger)


def satisfies_requirements(request: SchedulingRequest, environment: Environment, profile: Profile, pool: Pool) -> bool:
    """Tells whether a pool satisfies a profile, whatever its storage, capacity and readiness are now."""
    candidate = Candidate(request, environment, profile, pool, compute_shape(profile, request.model.vram, pool))
    refusals = (check(candidate) for check in CHECKS)
    return not any(refusal and refusal.reason in REQUIREMENT_REASONS for refusal in refusals)


def check_selectors(request: SchedulingRequest, environment: Environment) -> tuple[Refusal, ...]:
    of_deployment = _check_selector(environment, request.deployment.selector, Field.DEPLOYMENT_SELECTOR)
    of_model = _check_selector(environment, request.model.selector, Field.MODEL_SELECTOR)
    return tuple(filter(None, (of_deployment, of_model)))


def check_profile_selector(profile: Profile, environment: Environment) -> Refusal | None:
    return _check_selector(environment, profile.selector, Field.PROFILE_SELECTOR, profile.name)


def _check_selector(environment: Environment, selector: Selector, field: Field, profile: str = "") -> Refusal | None:
    labels = dict(environment.labels) if selector.requirements else {}
    unmet = tuple((requirement, labels.get(requirement.key)) for requirement in selector.find_unmet(labels))
    if not unmet:
        return None
    return Refusal(
        reason=Refused.NO_ENVIRONMENT_MATCHES, field=field, environment=environment.name, profile=profile, unmet=unmet
    )


def _assign(candidate: Candidate, ledger: CapacityView) -> Assignment:
    assert candidate.shape is not None  # a candidate without a shape is refused
    model = candidate.request.model
    return Assignment(
        environment=candidate.environment.name,
        profile=candidate.profile.name,
        pool=candidate.pool.name,
        shape=candidate.shape,
        replicas=candidate.request.deployment.replicas,
        vram=model.vram if candidate.profile.shape is None else None,
        rank=rank_candidate(candidate, ledger),
        price=candidate.pool.price,
        takes_back=candidate.request.takes_back and _lacks_capacity(candidate, ledger),
    )


def _lacks_capacity(candidate: Candidate, ledger: CapacityView) -> bool:
    return find_shortage(candidate, ledger.free_capacity(candidate.environment, candidate.pool)) is not None


def _run_filters(candidate: Candidate, ledger: CapacityView) -> Iterator[Step]:
    """Runs all filters lazily, because only the nearest pools need all refusals."""
    for step, check in enumerate(CHECKS):
        refusal = check(candidate)
        if refusal is not None:
            yield step, refusal
    capacity = check_capacity(candidate, ledger)
    unready = check_ready(candidate.environment)
    yield from sort_last_steps(capacity, *check_schedulable(candidate), unready, _check_quota(candidate))


def sort_last_steps(*refusals: Refusal | None) -> list[Step]:
    """Returns the refusals that come after `CHECKS` with their steps, in the order of the steps."""
    return sorted(((find_step(refusal), refusal) for refusal in refusals if refusal is not None), key=itemgetter(0))


def check_schedulable(candidate: Candidate) -> Iterator[Refusal]:
    """Refuses a taint that the deployment does not tolerate, and a pool that is unschedulable or not created."""
    pool = candidate.pool
    tolerations = candidate.request.deployment.tolerations
    if taints := tuple(taint.describe() for taint in find_untolerated(candidate.environment.taints, tolerations)):
        yield candidate.refuse(Field.TAINTS, None, taints, Refused.ENVIRONMENT_TAINTED)
    if pool.unschedulable:
        reason = pool.unschedulable_reason or None
        yield candidate.refuse(Field.UNSCHEDULABLE, None, reason, Refused.POOL_UNSCHEDULABLE)
    if pool.not_created:
        refusal = candidate.refuse(Field.CREATED, None, pool.not_created, Refused.POOL_NOT_CREATED)
        yield replace(refusal, is_normal=pool.not_created == BEING_CREATED)


def check_capacity(candidate: Candidate, ledger: CapacityView) -> Refusal | None:
    shape = candidate.shape
    if shape is None or shape.gpus_per_node > candidate.pool.gpus_per_node:
        return None  # reported by check_gpus_per_node
    environment = candidate.environment
    pool = candidate.pool
    refusal = find_shortage(candidate, ledger.free_capacity(environment, pool))
    if refusal and candidate.request.takes_back and can_take_back(candidate, ledger, candidate.requested.replicas):
        return None
    if refusal is not None and refusal.use and (lent := ledger.count_lent(environment, pool)):
        refusal = replace(refusal, use=replace(refusal.use, lent=lent))
    if refusal is None or refusal.reason is Refused.POOL_TOO_SMALL or ledger.has_capacity_of(environment, pool):
        return refusal
    return replace(refusal, field=Field.LEDGER)


def can_take_back(candidate: Candidate, ledger: CapacityView, replicas: int) -> bool:
    """Tells whether so many replicas fit once lent replicas of others were taken back, if the request may do this."""
    if not candidate.request.takes_back:
        return False
    priority = candidate.request.deployment.priority
    capacity = ledger.reclaimable_capacity(candidate.environment, candidate.pool, priority)
    return capacity is not None and capacity.count_fitting(replace(candidate.requested, replicas=replicas)) >= replicas


def find_shortage(candidate: Candidate, capacity: PoolCapacity) -> Refusal | None:
    """Returns the refusal if the replicas do not fit; a pool is too small if they would not fit the empty pool either.

    The size of the empty pool follows from its declaration, because unusable nodes are missing only for now.
    """
    share = candidate.requested
    pool = candidate.pool
    fitting = capacity.count_fitting(share)
    if fitting >= share.replicas:
        return None
    reason = Refused.INSUFFICIENT_CAPACITY
    at_most = count_in_empty_pool(pool, share)
    if at_most < share.replicas:
        reason = Refused.POOL_TOO_SMALL
        fitting = at_most
    exclusive = pool.needs_exclusive_node(share.nodes, share.gpus_per_node)
    use = capacity.measure_use(pool)
    return candidate.refuse(Field.REPLICAS, share.replicas, fitting, reason, use=use, exclusive_node=exclusive)


def _check_quota(candidate: Candidate) -> Refusal | None:
    usage = candidate.request.quota_usage if candidate.shape else None
    excess = usage.find_excess(candidate.requested.gpus, candidate.pool.price) if usage else None
    if excess is None:
        return None
    return candidate.refuse(Field.QUOTA, excess.requested, None, choose_quota_reason(excess), quota_usage=excess)


def choose_quota_reason(excess: QuotaUsage) -> Refused:
    return Refused.BUDGET_EXCEEDED if excess.exceeds_budget else Refused.QUOTA_EXCEEDED


def rank_candidate(candidate: Candidate, ledger: CapacityView) -> Rank | None:
    """Returns how a feasible candidate compares with others; None if the first declared pool is preferred."""
    request = candidate.request
    shape = candidate.shape
    price = candidate.pool.price
    prefer = request.deployment.prefer
    if prefer is Preference.DECLARED or shape is None:
        return None
    profile = candidate.profile
    memory_per_gpu = candidate.pool.memory_per_gpu
    required = request.model.vram or (profile.requires.memory_per_gpu or 0) * shape.gpus
    return Rank(
        profile=request.model.profiles.index(profile),
        spare=None if memory_per_gpu is None else memory_per_gpu * shape.gpus - required,
        free_on_fullest_node=ledger.free_capacity(candidate.environment, candidate.pool).count_left_on_fullest(
            candidate.requested
        ),
        cost=price.cost(candidate.requested.gpus) if price and prefer is Preference.CHEAPEST else None,
    )


def refuse_unreadable(environment: Environment) -> Step:
    """Refuses an environment whose spec or pools are invalid or missing."""
    refusal = Refusal(
        reason=Refused.NO_POOL_SATISFIES_REQUIREMENTS,
        field=Field.ENVIRONMENT if environment.broken else Field.NODE_POOLS,
        environment=environment.name,
        actual=environment.broken_pools or None,
    )
    return FIRST_OF_POOL, refusal


def check_ready(environment: Environment) -> Refusal | None:
    if environment.ready:
        return None
    why = environment.ready_message or None
    return Refusal(
        reason=Refused.ENVIRONMENT_NOT_READY,
        field=Field.READY,
        environment=environment.name,
        actual=why,
        is_normal=environment.is_starting,
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    environment: Environment
    counted: tuple[tuple[Placement, ...], frozenset[str]] | None
    verdict: Verdict


class VerdictCache:
    """The verdicts of the latest requests, at most MAX_REQUESTS requests and MAX_VERDICTS verdicts.

    A deployment that fits nowhere is compared with every environment in every call, and nearly every verdict is as
    before. A verdict is valid as long as its inputs are the same: the request (not the deployment that makes it), the
    environment, and the placements that are counted on it (`CapacityView.counted_placements`). Parsed objects are
    cached too, so comparing identities is enough to see that nothing changed.
    """

    def __init__(self) -> None:
        self._requests: list[tuple[SchedulingRequest, dict[str, _Entry]]] = []
        self.stats = CacheStats()

    def make_filter(
        self, request: SchedulingRequest, environments: Sequence[Environment], pause: Callable[[], None] = noop
    ) -> FilterFunc:
        """Returns `filter_environment` with a cache; `pause` is called before each verdict that is not cached."""
        # The key leaves out the fields that no verdict depends on.
        key = replace(
            request, guaranteed_gpus=None, deployment=replace(request.deployment, namespace="", name="", environments=1)
        )
        known: dict[str, _Entry] = next((entries for other, entries in self._requests if other == key), {})
        entries = {e.name: known[e.name] for e in environments if e.name in known}
        others = [each for each in self._requests if each[0] != key][: MAX_REQUESTS - 1]
        while others and len(environments) + sum(len(verdicts) for _, verdicts in others) > MAX_VERDICTS:
            others.pop()
        self._requests = [(key, entries), *others]

        def filter_cached(environment: Environment, ledger: CapacityView) -> Verdict:
            counted = ledger.counted_placements(environment)
            entry = entries.get(environment.name)
            if entry is None or entry.environment is not environment or entry.counted != counted:
                pause()
                entry = _Entry(environment, counted, filter_environment(request, environment, ledger))
                entries[environment.name] = entry
                self.stats.misses += 1
            else:
                self.stats.hits += 1
            return entry.verdict

        return filter_cached
