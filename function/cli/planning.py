"""Decides deployments with the composer that the controller runs, and lists their candidates.

A candidate is an environment with a profile and a pool, judged by the rules that decide. Nothing is carried out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from function.capacity.ledger import CapacityView
from function.cli.composing import apply_placements, compose_up, publish_ledger, reconcile
from function.cli.inputs import Inventory
from function.cli.options import CliError, Code, Name
from function.cli.store import Ref, Store, find_invalid_pools, is_ours, refuse_unknown
from function.composers.model_deployment import Scheduling
from function.contract import Call, Condition, Outcome
from function.domain.allocation import Cost, add_up, format_replica
from function.domain.environment import Environment
from function.domain.model import Problem, Shape
from function.kube.manifests import Manifest, text
from function.kube.messages import format_count
from function.kube.quantity import gib
from function.kube.selectors import Selector
from function.reasons import ConditionType, Refused, Status
from function.scheduling.filters import Candidate, filter_candidates, rank_candidate
from function.scheduling.refusals import Refusal, join_messages
from function.scheduling.verdicts import Assignment, Decision, Rank

# The verdicts on candidates that are not refused.
PLACED = "placed"
STAYS = "stays"
FITS = "fits"
UNUSED = "unused"  # it has room, and divided replicas use another pool of its environment


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
        """Tells whether the deployment runs on this candidate."""
        return self.verdict in (PLACED, STAYS)

    @property
    def message(self) -> str:
        """All refusals of the candidate."""
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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The decision on one deployment, with its inputs."""

    ref: Ref
    call: Call
    outcome: Outcome
    store: Store
    known_placements: list[Manifest]  # of all deployments, before it was decided

    @property
    def condition(self) -> Condition:
        """The condition with the result of the decision."""
        return find_condition(self.outcome)

    @property
    def is_placed(self) -> bool:
        """Tells whether it has all placements that it requests."""
        return self.condition.status is Status.TRUE

    @property
    def placements(self) -> list[Manifest]:
        """The placements that would exist."""
        composed = (item.manifest for _, item in sorted(self.outcome.composed.items()))
        return [manifest for manifest in composed if text(manifest, "kind") == "ModelPlacement"]

    @property
    def scheduling(self) -> Scheduling | None:
        """The scheduler's decision with its inputs; None: something that it needs is missing or invalid."""
        explanation = self.outcome.explanation
        return explanation if isinstance(explanation, Scheduling) else None

    @property
    def decision(self) -> Decision:
        """The scheduler's decision; an empty one where it made none."""
        return self.scheduling.decision if self.scheduling else Decision()

    @property
    def costs(self) -> tuple[Cost, ...]:
        """What its placements would cost, by currency, as far as their pools have prices."""
        return add_up(assignment.cost for assignment in self.decision.assignments if assignment.cost)

    @cached_property
    def rows(self) -> list[Row]:
        """Every candidate, the nearest first."""
        return sorted(_list_rows(self), key=lambda row: row.sort_key)

    @property
    def is_advised(self) -> bool:
        """Tells whether the decision says what to do even where no way out is found."""
        return not self.decision.unresolved or any(infeasible.remedy for infeasible in self.decision.unresolved)


def find_condition(outcome: Outcome) -> Condition:
    """Returns Scheduled, or ModelResolved where that stands in its way."""
    by_type = {condition.type: condition for condition in outcome.conditions}
    resolved = by_type[ConditionType.MODEL_RESOLVED]
    scheduled = by_type[ConditionType.SCHEDULED]
    return resolved if scheduled.status is Status.UNKNOWN and resolved.status is not Status.TRUE else scheduled


def plan_deployments(inventory: Inventory, refs: Iterable[Ref] | None = None) -> dict[Ref, Plan]:
    """Decides all deployments and returns the plans of some, or of all; the store then holds the placements of all.

    A ModelCache from a file that has no status counts as it would report once its downloads are complete.
    """
    store = inventory.store
    plans: dict[Ref, Plan] = {}
    for ref in sorted(inventory.edited):
        publish_ledger(store, ref)
    for ref in store.refs("ModelCache"):
        if ref in inventory.from_files and not store[ref].get("status"):
            compose_up(store, ref)
    shown = store.refs("ModelDeployment") if refs is None else list(refs)
    outdated: list[Plan] = []
    for ref in store.by_creation("ModelDeployment"):
        plan = decide_deployment(store, ref)
        apply_placements(store, ref, plan.outcome.composed)
        if plan.outcome.composed:
            outdated = [other for other in plans.values() if not other.is_placed]
        if ref in shown:
            plans[ref] = plan
    for plan in outdated:
        # As the controller does in the end, given the placements of all others.
        _withdraw(plan)
        plans[plan.ref] = decide_deployment(store, plan.ref)
        apply_placements(store, plan.ref, plans[plan.ref].outcome.composed)
    return {ref: plans[ref] for ref in shown}


def decide_deployment(store: Store, ref: Ref) -> Plan:
    """Decides a deployment given all that the store holds, and leaves the store as it is."""
    known = store.all("ModelPlacement")
    call, outcome = reconcile(store, store[ref])
    return Plan(ref=ref, call=call, outcome=outcome, store=store, known_placements=known)


def _withdraw(plan: Plan) -> None:
    """Restores the placements of a deployment from before its decision."""
    store = plan.store
    before = plan.call.observed
    planned = store.owned(plan.ref)
    for key in planned.keys() - before.keys():
        store.drop(Ref.of(planned[key]))
    for manifest in before.values():
        store.put(manifest)
    for name in {text(m, "spec.inferenceEnvironmentRef.name") for m in (*planned.values(), *before.values())}:
        publish_ledger(store, Ref("InferenceEnvironment", "", name))


def find_subject(inventory: Inventory, subject: Name | None, selector: Selector | None) -> Ref:
    """Returns the object that is named, or the only deployment.

    A name without a kind is that of a deployment, or of a ModelService if no deployment has it.
    """
    kinds = [] if subject is None else [subject.kind] if subject.kind else _list_kinds(inventory, subject)
    if kinds == ["ModelService"]:
        return find_service(inventory, subject)
    return inventory.find_deployment(subject, selector)


def list_subjects(
    inventory: Inventory, subject: Name | None, selector: Selector | None, *, all_namespaces: bool
) -> list[Ref]:
    """Returns the object that is named, or the only deployment; of all namespaces, every deployment."""
    if subject is None and all_namespaces:
        return inventory.list_deployments((), selector)
    return [find_subject(inventory, subject, selector)]


def _list_kinds(inventory: Inventory, subject: Name) -> list[str]:
    return [ref.kind for ref in inventory.list_named(subject, "ModelDeployment", "ModelService")]


def list_services(inventory: Inventory) -> list[Ref]:
    """Returns the ModelServices that are in scope."""
    refs = [ref for ref in inventory.store.refs("ModelService") if inventory.in_scope(ref)]
    if not refs:
        advice = inventory.describe_empty_namespace() or "Give one with -f"
        raise CliError(f"there is no ModelService. {advice}", Code.NOT_FOUND)
    return refs


def find_service(inventory: Inventory, name: Name | None) -> Ref:
    """Returns the ModelService of a name, or the only one."""
    refs = [ref for ref in inventory.store.refs("ModelService") if inventory.in_scope(ref)]
    matching = inventory.list_named(name, "ModelService") if name else refs
    if len(matching) != 1:
        message = f"there is no ModelService {name}" if name and not matching else "name a ModelService"
        advice = inventory.describe_empty_namespace()
        raise refuse_unknown(message, name.name if name else "", [ref.name for ref in refs], advice)
    return matching[0]


def compose_files(inventory: Inventory) -> dict[Ref, Outcome]:
    """Decides all deployments, then composes all composites from files once with all of it up.

    Returns the outcomes of the composites from files, and of the placements that they compose.
    """
    plan_deployments(inventory, ())
    store = inventory.store
    outcomes: dict[Ref, Outcome] = {}
    for ref in sorted(filter(inventory.in_scope, inventory.from_files & store.keys())):
        if ref.kind == "ModelDeployment":
            outcomes |= compose_deployment(store, ref)
        elif ref not in outcomes:
            outcomes[ref] = compose_up(store, ref)
    return outcomes


def compose_deployment(store: Store, ref: Ref) -> dict[Ref, Outcome]:
    """Composes the placements of a deployment that was decided, and the deployment once more with all of them up."""
    # Placements before the ModelService, which sends requests to them.
    composites = sorted(map(Ref.of, filter(is_ours, store.owned(ref).values())))
    outcomes = {owned: compose_up(store, owned) for owned in composites}
    return outcomes | {ref: reconcile(store, store[ref])[1]}


def _list_rows(plan: Plan) -> Iterator[Row]:
    if plan.scheduling is None:
        return
    scope = plan.scheduling.scope
    ledger = CapacityView(scope.others, scope.own)
    for environment in sorted(scope.environments, key=lambda e: e.name):
        if environment.deleting:
            yield Row(environment=environment.name, verdict="deleted", available="being deleted")
            continue
        yield from _list_candidates(plan, plan.scheduling, environment, ledger)
        for pool in find_invalid_pools(plan.store, environment):
            first, *others = pool.problems
            yield Row(
                environment=environment.name,
                pool=pool.name,
                verdict="invalid",
                required=first.path,
                available=first.message + _count_more(len(others)),
                faults=pool.problems,
            )


def _list_candidates(
    plan: Plan, scheduling: Scheduling, environment: Environment, ledger: CapacityView
) -> Iterable[Row]:
    """Returns the candidates of an environment, with the verdict of the decision on those that it chose."""
    rows: dict[tuple[str, str], Row] = {}
    for candidate, refusals in filter_candidates(scheduling.request, environment, ledger):
        if refusals:
            row = _describe_refused(environment, refusals)
        else:
            assert candidate is not None  # only candidates with a pool can have no refusal
            row = _describe_fitting(candidate, ledger)
        if candidate and candidate.shape:
            price = candidate.pool.price
            cost = price.cost(candidate.requested.gpus) if price else None
            row = replace(row, replica=_format_replica(candidate.shape), cost=cost)
        rows[row.profile, row.pool] = row
    observed = {text(manifest, "metadata.name") for manifest in plan.call.observed.values()}
    for assignment in scheduling.decision.assignments:
        if assignment.environment == environment.name:
            key = (assignment.profile, assignment.pool)
            rows[key] = _mark_chosen(rows.get(key), assignment, observed, is_divided=scheduling.decision.is_divided)
    rows |= {(row.profile, row.pool): row for row in _list_unused(scheduling, environment, ledger)}
    return rows.values()


def _list_unused(scheduling: Scheduling, environment: Environment, ledger: CapacityView) -> Iterator[Row]:
    """Yields the pools beside the one that divided replicas use, if replicas have no place and could run there."""
    decision, deployment = scheduling.decision, scheduling.request.deployment
    left = deployment.replicas - sum(assignment.replicas for assignment in decision.assignments)
    used = next((a for a in decision.assignments if a.environment == environment.name and a.replicas), None)
    if used is None or left <= 0 or not decision.is_divided:
        return
    for candidate, refusals in filter_candidates(scheduling.request.with_replicas(1), environment, ledger):
        if candidate and candidate.shape and not refusals and candidate.pool.name != used.pool:
            price = candidate.pool.price
            row = _describe_fitting(candidate, ledger)
            yield replace(
                row,
                verdict=UNUSED,
                required=format_count(left, "replica"),
                available=f"{row.available.partition(',')[0]}, but one pool for each environment: {used.pool}",
                replica=_format_replica(candidate.shape),
                cost=price.cost(candidate.requested.gpus) if price else None,
            )


def _describe_refused(environment: Environment, refusals: tuple[Refusal, ...]) -> Row:
    first = refusals[0]
    required, available = first.columns
    return Row(
        environment=environment.name,
        profile=first.profile,
        pool=first.pool,
        verdict=first.reason,
        required=required,
        available=available + _count_more(len(refusals) - 1),
        refusals=refusals,
    )


def _describe_fitting(candidate: Candidate, ledger: CapacityView) -> Row:
    rank = rank_candidate(candidate, ledger)
    room = ledger.free_capacity(candidate.environment, candidate.pool)
    as_many_as_possible = replace(candidate.requested, replicas=room.nodes * room.gpus_per_node)
    available = f"room for {room.count_fitting(as_many_as_possible)}"
    return Row(
        environment=candidate.environment.name,
        profile=candidate.profile.name,
        pool=candidate.pool.name,
        verdict=FITS,
        required=format_count(candidate.requested.replicas, "replica"),
        available=available + (f", {format_spare(rank)}" if rank else ""),
        rank=rank,
    )


def _mark_chosen(row: Row | None, assignment: Assignment, observed: set[str], *, is_divided: bool) -> Row:
    """Returns the row of a chosen candidate; it stays if its placement is observed, and is placed otherwise.

    If replicas are divided, the row has those of this candidate, and not the sum of all. One may be kept that has no
    row: its pool or profile cannot be read, or its labels are not admitted any more.
    """
    placement = assignment.placement
    is_kept = placement is not None and placement.name in observed
    verdict = STAYS if is_kept else PLACED
    if row is not None and is_divided:
        required = format_count(assignment.replicas, "replica")
        return replace(row, verdict=verdict, required=required, cost=assignment.cost)
    if row is not None and assignment.takes_back:
        row = replace(row, available="room once replicas of others have ended", refusals=())
    if row is not None:
        return replace(row, verdict=verdict)
    return Row(
        environment=assignment.environment,
        profile=assignment.profile,
        pool=assignment.pool,
        replica=_format_replica(assignment.shape),
        verdict=verdict,
        cost=assignment.cost,
    )


def _count_more(number: int) -> str:
    return f" (+{number} more)" if number else ""


def _format_replica(shape: Shape) -> str:
    return format_replica(shape.nodes, shape.gpus_per_node)


def format_spare(rank: Rank) -> str:
    if rank.spare is None:
        return "memoryPerGpu not declared"
    return f"{gib(rank.spare)} unused" if rank.spare >= 0 else f"{gib(-rank.spare)} too little"
