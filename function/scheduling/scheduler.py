"""The decision for one deployment: retain, scale down, reschedule in place, choose environments, carry over or drop.

A placement that could neither be kept nor rescheduled in place is carried over until enough other placements are Ready.
So neither a move nor a list that is briefly empty removes a running service. The carried placement is charged as long
as it exists, but does not count as placed. The decision does not depend on the order of the inputs.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter

from function.capacity.ledger import CapacityView
from function.capacity.pools import compute_shape
from function.capacity.reclaim import find_kept
from function.domain.allocation import QuotaUsage
from function.domain.environment import Environment, Pool
from function.domain.model_service import ServiceView
from function.domain.placement import Placement, Stage
from function.kube.selectors import NO_EXECUTE, find_untolerated
from function.reasons import Refused
from function.scheduling.candidates import FilterFactory, SchedulingInputs, filter_in_order
from function.scheduling.division import Division, divide
from function.scheduling.filters import (
    FilterFunc,
    check_profile_selector,
    check_selectors,
    filter_environment,
    filter_for_reschedule,
    satisfies_requirements,
)
from function.scheduling.guarantee import limit_to_guarantee, list_guaranteed_numbers, list_guarantees, sort_by_age
from function.scheduling.limits import charge_assignments
from function.scheduling.refusals import Field, Refusal
from function.scheduling.scaling import scale_existing
from function.scheduling.verdicts import (
    Assignment,
    Decision,
    Infeasible,
    Removal,
    RemovalCause,
    SchedulingRequest,
    Verdict,
)
from function.weights.faults import FaultKind, StorageFault

NO_POOL = Pool(name="", gpus_per_node=0, max_nodes=0)


@dataclass(frozen=True, slots=True)
class Retained:
    """The placements of a deployment by what is decided about them; at most one on each environment may stay."""

    # All placements that are in neither of the other two lists. A placement is kept even if its environment is not
    # Ready, its pool's capabilities or storage changed, a better profile became possible, or its pool is overcommitted
    # and it was Ready once. A declaration that cannot be read changes nothing: invalid input removes no running
    # workload.
    kept: list[Placement] = field(default_factory=list)
    # Placements whose environment, pool or profile is deleted, whose shape changed, whose environment is no longer
    # selected or has a NoExecute taint that is not tolerated, whose pool does not suit the new model, or whose new
    # shape has no room. They keep running meanwhile.
    to_reschedule: list[Placement] = field(default_factory=list)
    # Evicted placements, and all but one of several placements on the same environment.
    dropped: list[Removal] = field(default_factory=list)


def retention_order(placement: Placement) -> tuple[bool, bool, bool, bool, str, str]:
    """Returns the sort key of placements by which those that are kept longest come first.

    Placements that are not being deleted come first, then Ready placements, then placements that were Ready, then
    placements that may have resources. Equals are sorted by environment and name.
    """
    return (
        placement.deleting,
        not placement.ready,
        placement.stage < Stage.SERVED,
        not placement.may_have_resources,
        placement.environment,
        placement.name,
    )


def retain(
    request: SchedulingRequest, environments: Mapping[str, Environment], own: Iterable[Placement], ledger: CapacityView
) -> Retained:
    """Decides which placements of a deployment are kept; `environments` has no environment that is being deleted."""
    used: set[str] = set()
    retained = Retained()
    for placement in sorted(own, key=retention_order):
        environment = environments.get(placement.environment)
        if placement.environment in used:
            retained.dropped.append(Removal(placement=placement, cause=RemovalCause.SCALED_DOWN))
        elif environment is not None and _must_evict(environment, placement, ledger):
            retained.dropped.append(Removal(placement=placement, cause=RemovalCause.EVICTED))
        elif environment is not None and _is_still_valid(request, environment, placement):
            retained.kept.append(placement)
        else:
            retained.to_reschedule.append(placement)
        used.add(placement.environment)
    return retained


def _must_evict(environment: Environment, placement: Placement, ledger: CapacityView) -> bool:
    """Tells whether a placement must give up its environment.

    There are two cases. In the first, there is no room for the placement and it was never Ready: two deployments chose
    the same GPUs at the same moment. In the second, it was not admitted, has nothing composed, and the environment is
    no longer schedulable. A placement that has Objects stays, because it may have been Ready before its status was
    lost. In an environment from a file, which admits everything, Objects prove nothing.
    """
    pool = environment.pool(placement.pool)
    if pool is not None and not ledger.may_stay(environment, pool, placement):
        return True
    is_schedulable = environment.ready and not environment.broken
    is_admitted = not environment.uid or environment.find_grants(placement.uid)
    return not (is_schedulable or is_admitted or placement.may_have_resources)


def _is_still_valid(request: SchedulingRequest, environment: Environment, placement: Placement) -> bool:
    requested = placement.requested
    is_rejected = (placement.uid, placement.pool) in environment.rejected
    if requested and is_rejected and environment.count_admitted(placement.uid, requested) is None:
        return False  # it was not admitted for this shape and pool
    if environment.broken:
        return True
    if check_selectors(request, environment):
        return False
    if find_untolerated(environment.taints, request.deployment.tolerations, {NO_EXECUTE}):
        return False
    broken_profiles = {profile.name for profile in request.model.broken}
    if placement.profile in broken_profiles or placement.pool in environment.broken_pools:
        return True
    profile = request.find_profile(placement.profile)
    pool = environment.pool(placement.pool)
    if profile is None or pool is None or check_profile_selector(profile, environment) is not None:
        return False
    if placement.model != request.deployment.model and not satisfies_requirements(request, environment, profile, pool):
        return False
    if profile.shape is None and placement.vram is not None and placement.vram == request.model.vram:
        return True  # the pool's declared memory may have changed since
    shape = compute_shape(profile, request.model.vram, pool)
    return placement.shape is None or shape is None or shape == placement.shape


def schedule(
    request: SchedulingRequest,
    environments: Sequence[Environment],
    placements: Sequence[Placement],
    make_filter: FilterFactory = lambda request: partial(filter_environment, request),
    usage: QuotaUsage | None = None,
    now: float = 0,
) -> Decision:
    """Decides where a deployment runs.

    `placements`: the placements of the deployment, and all other placements on environments where the deployment has a
    placement or that publish no ledger. The capacity of every other environment is what it publishes. `make_filter`
    makes the filter for a request; the filter may return cached verdicts. `usage`: what the namespace has of its quota.
    If a new placement exceeds the quota, a smaller shape is tried. `now`: seconds since 1970; divided replicas that are
    given back stay for a while if others start in their place.
    """
    deployment = request.deployment
    own = [p for p in placements if p.deployment == deployment.name and p.namespace == deployment.namespace]
    others = [p for p in placements if p.deployment != deployment.name or p.namespace != deployment.namespace]
    known = sorted((e for e in environments if not e.deleting), key=attrgetter("name"))
    ledger = CapacityView(others, own)
    by_name = {e.name: e for e in known}
    if any(p.environment in by_name and find_kept(by_name[p.environment], p) for p in own):
        request = replace(request, guarantees=list_guarantees(request, own))
    inputs = SchedulingInputs(request, by_name, ledger, make_filter, usage, now)

    retained = retain(request, inputs.environments, own, ledger)
    if deployment.divides_replicas:
        return _schedule_divided(inputs, retained)
    desired = deployment.environments
    inputs, scaled = _scale_in_turn(inputs, retained.kept)
    stranded = [p for p in retained.kept if p.shape and _is_stranded(*scaled[p.environment])]
    staying = [p for p in retained.kept if p not in stranded][:desired]
    if usage:  # placements that grow are charged before new placements
        growing = (scaled[p.environment][0] for p in staying if p.shape)
        inputs = replace(inputs, usage=charge_assignments(usage, growing))
    general_refusal = _find_general_refusal(request, known)
    limit = 0 if general_refusal else desired
    rescheduled = _reschedule_in_place(inputs, retained.to_reschedule, limit - len(staying))
    rescheduled += _reschedule_to_other_pool(inputs, stranded, limit - len(staying) - len(rescheduled))
    if rescheduled:
        inputs = replace(inputs, request=inputs.request.charge_guaranteed(rescheduled))
    in_place = frozenset(a.environment for a in rescheduled)
    used = in_place.union(p.environment for p in (*staying, *stranded))
    further = max(0, limit - len(staying) - len(rescheduled))
    chosen, refused = _choose_in_turn(inputs, retained, used, len(used) + further)
    # Of the stranded placements, those for which no other place was found stay.
    waiting = [p for p in stranded if p.environment not in in_place]
    kept = [*staying, *waiting[: max(0, desired - len(staying) - len(rescheduled) - len(chosen))]]
    if leaving := [p for p in stranded if p not in kept]:
        still_kept = [p for p in retained.kept if p not in leaving]
        retained = replace(retained, kept=still_kept, to_reschedule=[*retained.to_reschedule, *leaving])
    scaled_here = [scaled[p.environment] for p in kept if p.shape]
    not_scaled = [infeasible for _, infeasible in scaled_here if infeasible is not None]
    assigned = (*(assignment for assignment, _ in scaled_here), *rescheduled, *chosen)
    assignments = tuple(sorted(assigned, key=attrgetter("environment")))
    ready = sum(p.ready and not p.is_leaving for p in kept)
    carried, dropped = _split_carried_and_dropped(retained, kept, assignments, ready, max(0, desired - ready))
    return Decision(
        assignments=assignments,
        carried=carried,
        dropped=dropped,
        refusals=tuple(sorted((*not_scaled, *refused), key=attrgetter("environment"))),
        general_refusal=general_refusal,
        unreadable=frozenset(p.environment for p in kept if p.shape is None),
        candidates=len(inputs.environments),
        desired=desired,
    )


def _is_stranded(assignment: Assignment, infeasible: Infeasible | None) -> bool:
    """Tells whether a placement gets no replica where it is, because others have the GPUs."""
    return not assignment.replicas and infeasible is not None and infeasible.reason is Refused.INSUFFICIENT_CAPACITY


def _choose_in_turn(
    inputs: SchedulingInputs, retained: Retained, used: frozenset[str], limit: int
) -> tuple[tuple[Assignment, ...], tuple[Infeasible, ...]]:
    """Chooses environments for all replicas; then for the guaranteed ones; then where others give back lent replicas.

    A new placement that does not get all replicas gets as many as fit, beside the guaranteed ones, and grows later.
    """
    request = inputs.request
    least = request.deployment.guaranteed_replicas
    chosen, refused = _choose_environments(inputs, retained, used, limit - len(used))
    if len(used) + len(chosen) >= limit:
        return chosen, refused
    if least < request.deployment.replicas:
        usage = inputs.usage and charge_assignments(inputs.usage, chosen)
        smaller = replace(inputs, request=request.with_replicas(least), usage=usage)
        used |= {a.environment for a in chosen}
        more, _ = _choose_environments(smaller, retained, used, limit - len(used))
        chosen += tuple(_enlarge(smaller, more, request.deployment.replicas))
    chosen += _choose_lending_environments(inputs, retained, used, limit, chosen)
    granted = {assignment.environment: assignment.replicas for assignment in chosen}
    return chosen, tuple(
        replace(i, granted_replicas=granted[i.environment]) if i.environment in granted else i
        for i in refused
        if i.environment not in granted or granted[i.environment] < request.deployment.replicas
    )


def _choose_lending_environments(
    inputs: SchedulingInputs, retained: Retained, used: frozenset[str], limit: int, chosen: tuple[Assignment, ...]
) -> tuple[Assignment, ...]:
    """Chooses further environments, for guaranteed replicas: for all of them, or for as many as can be guaranteed."""
    request = inputs.request
    lending = {name for name, each in inputs.environments.items() if inputs.ledger.lends(each)}
    without_lent = frozenset(inputs.environments.keys() - lending)
    further: tuple[Assignment, ...] = ()
    fewest = request.deployment.guaranteed_replicas + 1
    while lending and len(used := used | {a.environment for a in (*chosen, *further)}) < limit:
        claimed = request.charge_guaranteed((*chosen, *further))
        numbers = list_guaranteed_numbers(claimed, [inputs.environments[name] for name in sorted(lending)])
        fewest = max((number for number in numbers if number < fewest), default=0)
        if not fewest:
            break
        usage = inputs.usage and charge_assignments(inputs.usage, (*chosen, *further))
        smaller = replace(
            inputs, request=_guaranteed_request(request, fewest), usage=limit_to_guarantee(claimed, usage)
        )
        more, _ = _choose_environments(smaller, retained, used | without_lent, limit - len(used))
        further += more
    return further


def _enlarge(inputs: SchedulingInputs, assignments: Sequence[Assignment], most: int) -> Iterator[Assignment]:
    """Returns assignments with as many replicas as fit where they are, and as the quota surely allows."""
    usage = inputs.usage and charge_assignments(inputs.usage, assignments)
    for each in assignments:
        request = replace(inputs.request, quota_usage=usage)

        def is_too_much(replicas: int, each: Assignment = each, request: SchedulingRequest = request) -> bool:
            environment = inputs.environments[each.environment]
            verdict = filter_environment(request.with_replicas(replicas), environment, inputs.ledger)
            return isinstance(verdict, Infeasible) or (verdict.profile, verdict.pool) != (each.profile, each.pool)

        numbers = range(each.replicas + 1, most + 1)
        enlarged = replace(each, replicas=each.replicas + bisect_left(numbers, 1, key=is_too_much))
        usage = usage and charge_assignments(usage, [enlarged])
        yield enlarged


def _guaranteed_request(request: SchedulingRequest, replicas: int) -> SchedulingRequest:
    """Returns the request for guaranteed replicas, for which lent replicas of others are taken back."""
    return replace(request.with_replicas(replicas), takes_back=True)


def _scale_in_turn(
    inputs: SchedulingInputs, placements: Iterable[Placement]
) -> tuple[SchedulingInputs, dict[str, tuple[Assignment, Infeasible | None]]]:
    """Scales placements in place, by environment; the older ones come first where not all can be guaranteed."""
    request = inputs.request
    scaled: dict[str, tuple[Assignment, Infeasible | None]] = {}
    for placement in sort_by_age(placements):
        if placement.shape:
            environment = inputs.environments[placement.environment]
            scaled[environment.name] = _scale(request, environment, placement, inputs.ledger)
            request = request.charge_guaranteed([scaled[environment.name][0]])
    return inputs if request is inputs.request else replace(inputs, request=request), scaled


def _scale(
    request: SchedulingRequest, environment: Environment, placement: Placement, ledger: CapacityView
) -> tuple[Assignment, Infeasible | None]:
    """Scales a placement in place; for its guaranteed replicas, lent replicas of others are taken back."""
    assignment, infeasible = scale_existing(request, environment, placement, ledger)
    least = request.count_guaranteed(request.deployment.replicas, assignment.shape)
    if infeasible is None or assignment.replicas >= least:
        return assignment, infeasible
    guaranteed, lacking = scale_existing(_guaranteed_request(request, least), environment, placement, ledger)
    if guaranteed.replicas <= assignment.replicas:
        return assignment, infeasible
    return guaranteed, infeasible if request.deployment.replicas > guaranteed.replicas else lacking


def _find_general_refusal(request: SchedulingRequest, environments: Sequence[Environment]) -> Refusal | None:
    """Returns what rules out every environment at once."""
    storage_fault = find_unsatisfiable_storage(request, environments)
    if storage_fault is not None:
        return Refusal(reason=Refused.INVALID_DEPLOYMENT, field=Field.STORAGE, storage=storage_fault)
    return None if environments else Refusal(reason=Refused.NO_ENVIRONMENTS, field=Field.ENVIRONMENTS)


def find_unsatisfiable_storage(
    request: SchedulingRequest,
    environments: Iterable[Environment],
    reasons: Collection[Refused] = (Refused.INVALID_DEPLOYMENT,),
) -> StorageFault | None:
    """Returns a fault of the deployment's storage if this storage suits no profile on any environment."""
    if request.deployment.divides_replicas:  # each environment may have a single replica
        request = request.with_replicas(min(1, request.deployment.replicas))
    first_fault = None
    for environment in [*environments] or [Environment(name="")]:
        for profile in request.model.profiles:
            if profile.shape is None:
                return None  # its shape depends on the pool
            faults = request.find_storage_faults(environment, NO_POOL, profile.shape)
            # The environment sets the service account, so the storage may suit another environment.
            faults = tuple(f for f in faults if f.reason in reasons and f.kind is not FaultKind.EMPTY_DIR_ACCOUNT)
            if not faults:
                return None
            first_fault = first_fault or faults[0]
    return first_fault


def _reschedule_in_place(
    inputs: SchedulingInputs, placements: Iterable[Placement], limit: int
) -> tuple[Assignment, ...]:
    rescheduled: list[Assignment] = []
    for placement in placements:
        environment = inputs.environments.get(placement.environment)
        if environment is None or len(rescheduled) >= limit:
            continue
        verdict = filter_for_reschedule(inputs.request, environment, inputs.ledger)
        if isinstance(verdict, Assignment):
            rescheduled.append(replace(verdict, placement=placement))
    return tuple(rescheduled)


def _reschedule_to_other_pool(
    inputs: SchedulingInputs, placements: Sequence[Placement], limit: int
) -> tuple[Assignment, ...]:
    """Gives placements that get no replica in their pool another pool of their environment, if one has room."""
    if not placements:
        return ()
    environments = dict(inputs.environments)
    for placement in placements:
        here = environments[placement.environment]
        pools = tuple(pool for pool in here.pools if pool.name != placement.pool)
        environments[placement.environment] = replace(here, pools=pools)
    return _reschedule_in_place(replace(inputs, environments=environments), placements, limit)


def _choose_environments(
    inputs: SchedulingInputs, retained: Retained, used: frozenset[str], limit: int
) -> tuple[tuple[Assignment, ...], tuple[Infeasible, ...]]:
    """Chooses environments until there are enough; an evicted placement may be chosen again, in another shape."""
    if limit <= 0:
        return (), ()
    evicted = {d.placement.environment: d.placement for d in retained.dropped if d.cause is RemovalCause.EVICTED}
    quota = _QuotaFilter(inputs, inputs.usage) if inputs.usage else None
    chosen: list[Assignment] = []
    refused: list[Infeasible] = []
    for unlimited in filter_in_order(inputs, used, after_eviction=bool(evicted)):
        existing = evicted.get(unlimited.environment)
        quota_to_charge = None if existing else quota  # an existing placement is charged already
        verdict = quota_to_charge.limit(unlimited) if quota_to_charge else unlimited
        if isinstance(verdict, Infeasible):
            refused.append(verdict)
            continue
        if quota_to_charge:
            quota_to_charge.charge(verdict)
        chosen.append(replace(verdict, placement=existing))
        if len(chosen) == limit:
            break
    return tuple(chosen), tuple(refused)


class _QuotaFilter:
    """Keeps new placements within the quota of the namespace. Each chosen placement is charged to the quota."""

    def __init__(self, inputs: SchedulingInputs, usage: QuotaUsage) -> None:
        self._inputs = inputs
        self._usage = usage
        self._filter: FilterFunc | None = None  # for the current usage, once it is needed

    def limit(self, verdict: Verdict) -> Verdict:
        """If a verdict exceeds the quota, filters its environment again for a shape that fits the quota."""
        if isinstance(verdict, Infeasible) or not self._usage.find_excess(verdict.gpus, verdict.price):
            return verdict
        if self._filter is None:
            self._filter = self._inputs.make_filter(replace(self._inputs.request, quota_usage=self._usage))
        return self._filter(self._inputs.environments[verdict.environment], self._inputs.ledger)

    def charge(self, assignment: Assignment) -> None:
        self._usage = self._usage.with_more(f"its own on {assignment.environment}", assignment.gpus, assignment.price)
        self._filter = None


def _schedule_divided(inputs: SchedulingInputs, retained: Retained) -> Decision:
    """Decides where the replicas of a deployment run that are divided over its environments."""
    deployment = inputs.request.deployment
    known = list(inputs.environments.values())
    general_refusal = _find_general_refusal(inputs.request, known)
    evicted = {d.placement.environment: d.placement for d in retained.dropped if d.cause is RemovalCause.EVICTED}
    division = divide(inputs, retained.kept, retained.to_reschedule, evicted, may_add=general_refusal is None)
    kept = [p for p in retained.kept if p.shape is None or p.environment in division.assignments]
    surplus = _find_needed_surplus(retained, kept, division)
    assignments = tuple(sorted(division.assignments.values(), key=attrgetter("environment")))
    unreadable = frozenset(p.environment for p in kept if p.shape is None)
    # Placements that must leave stay until as many replicas as requested are Ready elsewhere.
    ready = [p for p in kept if p.ready and not p.is_leaving]
    lacking = deployment.replicas - sum(p.running_replicas for p in kept if not p.is_leaving)
    moving = _find_moving(retained, assignments)
    to_carry = 0
    while to_carry < len(moving) and lacking > 0:
        lacking -= moving[to_carry].running_replicas
        to_carry += 1
    carried, dropped = _split_carried_and_dropped(retained, kept, assignments, len(ready), to_carry)
    return Decision(
        assignments=assignments,
        carried=tuple(sorted((*carried, *surplus), key=lambda p: (p.environment, p.name))),
        dropped=tuple(d for d in dropped if d.placement not in surplus),
        refusals=tuple(sorted(division.refusals.values(), key=attrgetter("environment"))),
        general_refusal=general_refusal,
        unreadable=unreadable,
        candidates=len(known),
        desired=max(1, len(assignments) + len(unreadable)),
        divided_replicas=deployment.replicas,
    )


def _find_needed_surplus(retained: Retained, kept: Sequence[Placement], division: Division) -> list[Placement]:
    """Returns the placements beyond `spec.environments` that stay until the replicas that replace theirs serve."""
    replaced = sum(a.replicas for a in division.assignments.values()) - sum(
        p.running_replicas for p in kept if p.shape and not p.is_leaving
    )
    needed: list[Placement] = []
    for placement in retained.kept:
        if placement not in kept and placement.running_replicas and not placement.deleting and replaced > 0:
            needed.append(placement)
            replaced -= placement.running_replicas
    return needed


def _find_moving(retained: Retained, assignments: tuple[Assignment, ...]) -> list[Placement]:
    """Returns the placements that must leave their environment."""
    reused = [a.placement for a in assignments if a.placement is not None]
    return [p for p in retained.to_reschedule if p not in reused]


def _split_carried_and_dropped(
    retained: Retained, kept: Sequence[Placement], assignments: tuple[Assignment, ...], ready: int, to_carry: int
) -> tuple[tuple[Placement, ...], tuple[Removal, ...]]:
    """Returns the placements that are carried over, and those that go.

    `ready`: how many of the kept placements are Ready. `to_carry`: how many placements that must leave stay for now.
    """
    reused = [a.placement for a in assignments if a.placement is not None]
    moving = _find_moving(retained, assignments)
    surplus = moving[to_carry:]
    dropped = (
        *(d for d in retained.dropped if d.placement not in reused),
        *(Removal(placement=p, cause=RemovalCause.SCALED_DOWN) for p in retained.kept if p not in kept),
        *(Removal(placement=p, cause=RemovalCause.REPLACED) for p in surplus[:ready]),
        *(Removal(placement=p, cause=RemovalCause.SCALED_DOWN) for p in surplus[ready:]),
    )
    carried = (*(p for p in kept if p.shape is None), *moving[:to_carry])
    return (
        tuple(sorted(carried, key=lambda p: (p.environment, p.name))),
        tuple(sorted(dropped, key=lambda d: (d.placement.environment, d.placement.name))),
    )


def drains_first(decision: Decision) -> bool:
    """Tells whether the decision deletes a placement that may serve, with or without a ModelService."""
    return any(map(_may_serve, decision.dropped))


def delay_deletion_while_serving(decision: Decision, services: Sequence[ServiceView] | None) -> Decision:
    """Returns the decision that deletes a placement only once no ModelService of its namespace sends it requests.

    `services`: the ModelServices of the namespace; None while they are not known. A placement is not deleted either
    while it is not yet observed to be draining: a service may be about to list it, and later decisions must not count
    on it.
    """
    draining: list[Removal] = []
    for dropped in filter(_may_serve, decision.dropped):
        placement = dropped.placement
        listings = services or ()
        concerned = [s for s in listings if placement.deployment in s.deployments or placement.name in s.placements]
        holding = [s for s in concerned if placement.name in s.placements or s.unknown or not placement.draining]
        if services is None or holding or not placement.draining:
            draining.append(replace(dropped, held_by=tuple(sorted(s.name for s in holding))))
    held = {d.placement.name for d in draining}
    released = tuple(d for d in decision.dropped if d.placement.name not in held)
    return replace(decision, dropped=released, draining=tuple(draining))


def _may_serve(dropped: Removal) -> bool:
    placement = dropped.placement
    # A placement with Objects that its status does not mention may serve unnoticed.
    is_unrecorded = placement.lists_objects and placement.stage is Stage.NEW
    return (placement.stage is Stage.SERVED or is_unrecorded) and not placement.deleting
