"""Decides deployments with the composer that the controller runs, and lists their candidates, with advice.

A candidate is an environment with a profile and a pool, judged by the rules that decide. Ways out of a refusal, and
what moving placements to cheaper pools would save, are decided from all that is known, which the controller does not
read for one deployment. Nothing is carried out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

from function.api.model_deployment import parse_placement
from function.api.settings import parse_settings
from function.cli.composing import apply_placements, compose_up, publish_ledger, reconcile
from function.cli.gpus import format_users
from function.cli.inputs import Inventory
from function.cli.store import Ref, Store, find_invalid_pools, read_environments, read_placements
from function.composers.model_deployment import Considered, decide
from function.contract import Call, Condition, Outcome
from function.domain.allocation import Cost, add_up, format_replica
from function.domain.environment import Environment
from function.domain.model import Problem, Shape
from function.domain.placement import Placement, Preference
from function.kube.manifests import Manifest, text
from function.kube.messages import format_count
from function.kube.quantity import gib
from function.kube.selectors import Selector
from function.reasons import ConditionType, Refused, Status
from function.scheduling.filters import filter_candidates, rank_candidate
from function.scheduling.ledger import Ledger
from function.scheduling.quota import namespace_usage
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Decision, DropCause, Rank, Refusal, SchedulingRequest, join_messages
from function.scheduling.ways_out import WayOut, find_ways_out
from function.status.cluster_model import note_insufficient_memory
from function.status.inference_environment import note_tcp_fallback
from function.status.weights import describe_load, note_costs
from function.weights.claim import estimate_load
from function.weights.faults import find_faults, find_remarks
from function.weights.planner import plan_weights

_HOLDERS_NAMED = 3
PLACED, STAYS, FITS = "placed", "stays", "fits"  # the verdicts on candidates that are not refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    environment: str
    profile: str = ""
    pool: str = ""
    replica: str = ""
    verdict: str  # a refused candidate has the reason
    required: str = ""
    available: str = ""
    refusals: tuple[Refusal, ...] = ()
    faults: tuple[Problem, ...] = ()  # of an invalid pool
    rank: Rank | None = None  # of a candidate that fits, where the cheapest or the smallest pool is preferred
    cost: Cost | None = None  # of all replicas; None: the pool has no price, or no replica has a shape

    @property
    def serves(self) -> bool:
        """Tells whether the deployment runs there."""
        return self.verdict in (PLACED, STAYS)

    @property
    def message(self) -> str:
        """Everything that refuses it."""
        return join_messages([*(refusal.message for refusal in self.refusals), *map(str, self.faults)])

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Sorts the nearest to the front; what fits by the order of choice, where that is not as declared."""
        preferred = self.rank.sort_key if self.rank else ()
        if self.serves:
            return -2, *preferred
        if self.faults:
            return (len(Refused) + 1,)
        return (len(Refused) - self.refusals[0].reason.rank,) if self.refusals else (-1, *preferred)


class Saving(NamedTuple):
    """What moving a placement that runs to a cheaper pool would save."""

    cost: Cost
    message: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The decision on one deployment, and what it was made from."""

    ref: Ref
    call: Call
    outcome: Outcome
    store: Store
    known_placements: list[Manifest]  # of all deployments, before it was decided

    @property
    def decision(self) -> Condition:
        return find_decision(self.outcome)

    @property
    def is_placed(self) -> bool:
        """Tells whether it has all placements that it requests."""
        return self.decision.status is Status.TRUE

    @property
    def placements(self) -> list[Manifest]:
        """The placements that would exist."""
        composed = (item.manifest for _, item in sorted(self.outcome.composed.items()))
        return [manifest for manifest in composed if text(manifest, "kind") == "ModelPlacement"]

    @cached_property
    def considered(self) -> Considered | None:
        """The scheduler's decision with its inputs; None: something that it needs is missing or invalid."""
        considered = decide(self.call, parse_settings(self.call.input, self.call.context).value)
        return considered if isinstance(considered, Considered) else None

    @property
    def scheduled(self) -> Decision:
        """The scheduler's decision; an empty one where it made none."""
        return self.considered.decision if self.considered else Decision()

    @property
    def costs(self) -> tuple[Cost, ...]:
        """What its placements would cost, by currency, as far as their pools have prices."""
        return add_up(assignment.cost for assignment in self.scheduled.assignments if assignment.cost)

    @cached_property
    def rows(self) -> list[Row]:
        """Every candidate, the nearest first."""
        return sorted(_list_rows(self), key=lambda row: row.sort_key)

    @property
    def remarks(self) -> list[str]:
        """What is slow, too small or doubtful about the chosen places, and by which rule they were chosen."""
        if self.considered is None:
            return []
        chosen = (*explain_preference(self.rows), *_explain_order(self.considered, self.rows))
        savings = (saving.message for saving in self.savings)
        return [*_list_remarks(self.considered), *chosen, *savings, *_name_holders(self)]

    @property
    def savings(self) -> list[Saving]:
        return [*_find_savings(self, self.considered)] if self.considered else []

    @property
    def ways_out(self) -> tuple[WayOut, ...]:
        """The ways out of its refusals given the placements of all others, once all deployments are planned."""
        return _find_ways_out(self, self.considered) if self.considered else ()

    @property
    def is_advised(self) -> bool:
        """Tells whether the decision says what to do even where no way out is found."""
        return not self.scheduled.unresolved or any(infeasible.remedy for infeasible in self.scheduled.unresolved)


def find_decision(outcome: Outcome) -> Condition:
    """Returns Scheduled, or ModelResolved where that stands in its way."""
    by_type = {condition.type: condition for condition in outcome.conditions}
    resolved, scheduled = by_type[ConditionType.MODEL_RESOLVED], by_type[ConditionType.SCHEDULED]
    return resolved if scheduled.status is Status.UNKNOWN and resolved.status is not Status.TRUE else scheduled


def plan_deployments(inventory: Inventory, refs: Iterable[Ref] | None = None) -> dict[Ref, Plan]:
    """Decides all deployments and returns the plans of some, or of all; the store then holds the placements of all.

    A ModelCache from a file that has no status counts as it would report once its downloads are complete.
    """
    store, plans = inventory.store, dict[Ref, Plan]()
    for ref in sorted(inventory.edited):
        publish_ledger(store, ref)
    for ref in store.refs("ModelCache"):
        if ref in inventory.from_files and not store[ref].get("status"):
            compose_up(store, ref)
    shown = store.refs("ModelDeployment") if refs is None else list(refs)
    outdated: list[Plan] = []
    for ref in store.by_creation("ModelDeployment"):
        plan = _decide(store, ref)
        apply_placements(store, ref, plan.outcome.composed)
        if plan.outcome.composed:
            outdated = [other for other in plans.values() if not other.is_placed]
        if ref in shown:
            plans[ref] = plan
    for plan in outdated:
        # As the controller does in the end, given the placements of all others.
        _withdraw(plan)
        plans[plan.ref] = _decide(store, plan.ref)
        apply_placements(store, plan.ref, plans[plan.ref].outcome.composed)
    return {ref: plans[ref] for ref in shown}


def _decide(store: Store, ref: Ref) -> Plan:
    known = store.all("ModelPlacement")
    call, outcome = reconcile(store, store[ref])
    return Plan(ref=ref, call=call, outcome=outcome, store=store, known_placements=known)


def _withdraw(plan: Plan) -> None:
    """Makes the placements of a deployment what they were before it was decided."""
    store, before, planned = plan.store, plan.call.observed, plan.store.owned(plan.ref)
    for key in planned.keys() - before.keys():
        store.drop(Ref.of(planned[key]))
    for manifest in before.values():
        store.put(manifest)
    for name in {text(m, "spec.inferenceEnvironmentRef.name") for m in (*planned.values(), *before.values())}:
        publish_ledger(store, Ref("InferenceEnvironment", "", name))


def find_subject(inventory: Inventory, name: str | None, selector: Selector | None) -> Ref:
    """Returns the deployment of a name, or the only one; or the ModelService of a name that no deployment has."""
    refs = [ref for ref in inventory.store.refs("ModelDeployment", "ModelService") if inventory.in_scope(ref)]
    named = [ref for ref in refs if ref.name == name]
    is_service = [ref.kind for ref in named] == ["ModelService"]
    return named[0] if is_service else inventory.find_deployment(name, selector)


def compose_files(inventory: Inventory) -> dict[Ref, Outcome]:
    """Decides all deployments, then composes all composites from files once with all of it up.

    Returns the outcomes of the composites from files, and of the placements that they compose.
    """
    plan_deployments(inventory, ())
    store, outcomes = inventory.store, dict[Ref, Outcome]()
    for ref in sorted(filter(inventory.in_scope, inventory.from_files & store.keys())):
        if ref.kind == "ModelDeployment":
            outcomes |= compose_deployment(store, ref)
        elif ref not in outcomes:
            outcomes[ref] = compose_up(store, ref)
    return outcomes


def compose_deployment(store: Store, ref: Ref) -> dict[Ref, Outcome]:
    """Composes the placements of a deployment that was decided, and the deployment once more with all of them up."""
    # Placements before the ModelService, which sends requests to them.
    outcomes = {owned: compose_up(store, owned) for owned in sorted(map(Ref.of, store.owned(ref).values()))}
    return outcomes | {ref: reconcile(store, store[ref])[1]}


def _list_rows(plan: Plan) -> Iterator[Row]:
    if plan.considered is None:
        return
    scope = plan.considered.scope
    ledger = Ledger(scope.others, scope.own)
    for environment in sorted(scope.environments, key=lambda e: e.name):
        if environment.deleting:
            yield Row(environment=environment.name, verdict="deleted", available="being deleted")
            continue
        yield from _list_candidates(plan, plan.considered, environment, ledger)
        for pool in find_invalid_pools(plan.store, environment):
            first, *others = pool.problems
            row = Row(environment=environment.name, pool=pool.name, verdict="invalid", faults=pool.problems)
            yield replace(row, required=first.path, available=first.message + _count_more(len(others)))


def _list_candidates(plan: Plan, considered: Considered, environment: Environment, ledger: Ledger) -> Iterable[Row]:
    request, name, rows = considered.request, environment.name, dict[tuple[str, str], Row]()
    for candidate, refusals in filter_candidates(request, environment, ledger):
        if refusals:
            first = refusals[0]
            row = Row(environment=name, profile=first.profile, pool=first.pool, verdict=first.reason, refusals=refusals)
            required, available = first.columns
            available += _count_more(len(refusals) - 1)
        else:
            assert candidate is not None  # only a pool can be without a refusal
            rank, room = rank_candidate(candidate, ledger), ledger.room(environment, candidate.pool)
            profile, pool = candidate.profile.name, candidate.pool.name
            row = Row(environment=name, profile=profile, pool=pool, verdict=FITS, rank=rank)
            fitting = room.count_fitting(replace(candidate.requested, replicas=room.nodes * room.gpus_per_node))
            required = format_count(request.deployment.replicas, "replica")
            available = f"room for {fitting}" + (f", {_format_spare(rank)}" if rank else "")
        if candidate and candidate.shape:
            price = candidate.pool.price
            cost = price.cost(candidate.requested.gpus) if price else None
            row = replace(row, replica=_format_replica(candidate.shape), cost=cost)
        rows[row.profile, row.pool] = replace(row, required=required, available=available)
    observed = {text(manifest, "metadata.name") for manifest in plan.call.observed.values()}
    for assigned in (assigned for assigned in considered.decision.assignments if assigned.environment == name):
        is_kept = assigned.placement is not None and assigned.placement.name in observed
        verdict, replica = STAYS if is_kept else PLACED, _format_replica(assigned.shape)
        profile, pool = assigned.profile, assigned.pool
        # One may be kept although its pool or profile cannot be read, or its labels are not admitted any more.
        unlisted = Row(environment=name, profile=profile, pool=pool, verdict="", replica=replica, cost=assigned.cost)
        rows[profile, pool] = replace(rows.get((profile, pool), unlisted), verdict=verdict)
    return rows.values()


def _count_more(number: int) -> str:
    return f" (+{number} more)" if number else ""


def _format_replica(shape: Shape) -> str:
    return format_replica(shape.nodes, shape.gpus_per_node)


def _format_spare(rank: Rank) -> str:
    if rank.spare is None:
        return "memoryPerGpu not declared"
    return f"{gib(rank.spare)} unused" if rank.spare >= 0 else f"{gib(-rank.spare)} too little"


def explain_preference(rows: Iterable[Row]) -> Iterator[str]:
    """Explains for each new placement why the cheapest or the smallest pool that suffices was chosen."""
    ranked = [(row, row.rank) for row in rows if row.rank]
    for row, best in ranked:
        if row.verdict != PLACED:
            continue
        which = "the cheapest" if best.cost else "the smallest"
        reason = f"{row.environment}: of what fits profile {row.profile}, pool {row.pool} is {which}"
        others = [(o, other) for o, other in ranked if o.verdict == FITS and o.profile == row.profile]
        following = [f"next {o.environment}/{o.pool} ({_format_rank(other)})" for o, other in others]
        parts = [f"{reason} ({_format_rank(best)})", *following[:1]]
        currencies = sorted({rank.cost.currency for _, rank in ((row, best), *others) if rank.cost})
        if len(currencies) > 1:
            parts.append(
                f"and costs in {' and '.join(currencies)} are not compared: those in {currencies[0]} come first"
            )
        yield ", ".join(parts)


def _format_rank(rank: Rank) -> str:
    return str(rank.cost or _format_spare(rank))


def _list_remarks(considered: Considered) -> Iterator[str]:
    """Returns what is slow, too small or doubtful about the pools and the storage of a decision."""
    environments, model = {e.name: e for e in considered.scope.environments}, considered.request.model
    for assignment in considered.decision.assignments:
        environment = environments.get(assignment.environment)
        pool = environment.pool(assignment.pool) if environment else None
        if environment is None or pool is None:
            continue
        remarks = [note_tcp_fallback(pool)] if assignment.shape.nodes > 1 else []
        remarks.append(note_insufficient_memory(model, assignment.shape, pool.memory_per_gpu))
        storage = considered.weights.with_pool(environment, pool, assignment.shape, assignment.replicas)
        profile = considered.request.find_profile(assignment.profile)
        if profile and not find_faults(storage):
            remarks += map(str, (*find_remarks(storage), *note_costs(storage)))
            plan = plan_weights(storage)
            load_time = estimate_load(plan.bytes_on_claim, environment.storage.read_bandwidth, model, profile)
            remarks += [describe_load(load_time)] if load_time else []
        yield from (f"{environment.name}: {remark}" for remark in remarks if remark)


def _explain_order(considered: Considered, rows: Sequence[Row]) -> Iterator[str]:
    """Explains which rule chose the environments of new placements where others fit as well."""
    placed = sorted(row.environment for row in rows if row.verdict == PLACED)
    fitting = {row.environment for row in rows if row.verdict in (PLACED, FITS)}
    # After a rejection the order of environments is another one for each deployment.
    is_spread = any(dropped.cause is DropCause.EVICTED for dropped in considered.decision.dropped)
    deployment, scope = considered.request.deployment, considered.scope
    if deployment.prefer is not Preference.DECLARED or not placed or len(fitting) == len(placed) or is_spread:
        return
    chosen = [(a.environment, a.pool) for a in considered.decision.assignments]
    parts = [f"{', '.join(placed)}: first by name of {len(fitting)} environments that fit"]
    for prefer in (Preference.SMALLEST_SUFFICIENT, Preference.CHEAPEST)[: 2 if any(row.cost for row in rows) else 1]:
        request = replace(considered.request, deployment=replace(deployment, prefer=prefer))
        other = schedule(request, scope.environments, [*scope.others, *scope.own])
        differing = [f"{a.environment}/{a.pool}" for a in other.assignments if (a.environment, a.pool) not in chosen]
        alternative = f"would take {', '.join(differing)}" if differing else "would choose the same"
        parts.append(f"placement.prefer: {prefer} {alternative}")
    yield "; ".join(parts)


def _name_holders(plan: Plan) -> Iterator[str]:
    """Names the other deployments that hold the GPUs of pools without room."""
    full = sorted({(row.environment, row.pool) for row in plan.rows for refusal in row.refusals if refusal.use})
    parsed = (parse_placement(manifest).value for manifest in plan.known_placements if full)
    others = [placement for placement in parsed if placement and _find_owner(placement) != plan.ref]
    for environment, pool in full:
        users = Counter[str]()
        for p in others:
            if p.shape and (p.environment, p.pool) == (environment, pool):
                users[f"{p.namespace}/{p.deployment or p.name}"] += p.shape.gpus * p.replicas
        if users:
            yield f"{environment}: GPUs of pool {pool} are held by {format_users(users, _HOLDERS_NAMED)}"


def _find_owner(placement: Placement) -> Ref:
    return Ref("ModelDeployment", placement.namespace, placement.deployment)


def _find_savings(plan: Plan, considered: Considered) -> Iterator[Saving]:
    """Finds for each kept placement of a deployment a cheaper pool of an environment that it does not use yet."""
    request, assignments = considered.request, considered.decision.assignments
    kept = [(a.cost, a.environment) for a in assignments if a.placement and a.cost and not a.is_rescheduled]
    if not kept:
        return
    used = {a.environment for a in assignments} | {p.environment for p in considered.scope.own}
    unused = [environment for environment in read_environments(plan.store) if environment.name not in used]
    others = [placement for placement in read_placements(plan.store) if _find_owner(placement) != plan.ref]
    cheapest = replace(request, deployment=replace(request.deployment, environments=1, prefer=Preference.CHEAPEST))
    for cost, environment in sorted(kept, reverse=True):
        comparable = [
            replace(e, pools=tuple(p for p in e.pools if p.price and p.price.currency == cost.currency)) for e in unused
        ]
        for to in schedule(cheapest, comparable, others).assignments:
            if to.cost and to.cost < cost:
                unused = [e for e in unused if e.name != to.environment]
                saved = Cost(cost.currency, cost.amount - to.cost.amount)
                where = f"{environment}: costs {cost}, on {to.environment}/{to.pool} {to.cost}"
                yield Saving(saved, f"{where}: moving it would save {saved}; what runs does not move for money")


def _find_ways_out(plan: Plan, considered: Considered) -> tuple[WayOut, ...]:
    settings = parse_settings(plan.call.input, plan.call.context).value
    placements = read_placements(plan.store)

    @cache
    def find_request(owner: Ref) -> SchedulingRequest | None:
        other = _decide(plan.store, owner).considered if owner in plan.store else None
        usage = namespace_usage(owner.namespace, placements, settings.limits_of(owner.namespace))
        return replace(other.request, quota_usage=usage) if other else None

    others = [placement for placement in placements if _find_owner(placement) != plan.ref]
    world = considered.build_world(others, lambda placement: find_request(_find_owner(placement)))
    return find_ways_out(world, considered.decision)
