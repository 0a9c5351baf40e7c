"""Decides deployments with the composer that the controller runs, and lists their candidates."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from function.api.settings import parse_settings
from function.cli.advice import Saving, find_savings, find_ways_out
from function.cli.candidates import Row, Verdict, count_more, explain_preference, list_candidates
from function.cli.composing import apply_placements, compose_up, publish_ledger, reconcile
from function.cli.gpus import format_users
from function.cli.inputs import Inventory, load_inventory
from function.cli.options import Sources
from function.cli.store import Ref, Store, find_invalid_pools, read_environments, read_placements
from function.composers.model_deployment import Considered, decide
from function.contract import Call, Condition, Outcome
from function.domain.allocation import Cost, add_up
from function.domain.placement import Preference
from function.kube.manifests import Manifest, text
from function.reasons import ConditionType, Status
from function.scheduling.ledger import Ledger
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Decision, DropCause
from function.scheduling.ways_out import WayOut
from function.status.cluster_model import note_insufficient_memory
from function.status.inference_environment import note_tcp_fallback
from function.status.weights import describe_load, note_costs
from function.weights.claim import estimate_load
from function.weights.faults import find_faults, find_remarks
from function.weights.planner import plan_weights

_HOLDERS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The decision on one deployment."""

    ref: Ref
    outcome: Outcome
    before: Mapping[str, Manifest]  # its placements before it was decided
    rows: tuple[Row, ...] = ()
    holders: tuple[str, ...] = ()  # who has the GPUs of pools without room
    store: Store = field(repr=False)
    considered: Considered | None = None  # None: something that it needs is missing or invalid

    @property
    def decision(self) -> Condition:
        """Scheduled, or ModelResolved where that stands in its way."""
        return find_decision(self.outcome)

    @property
    def is_placed(self) -> bool:
        """Tells whether it has all placements that it requests."""
        return self.decision.status is Status.TRUE

    @property
    def remarks(self) -> list[str]:
        """What is slow, too small or doubtful about the chosen places, and by which rule they were chosen."""
        if self.considered is None:
            return []
        chosen = (*explain_preference(self.rows), *_explain_order(self.considered, self.rows))
        return [*_list_remarks(self.considered), *chosen, *(saving.message for saving in self.savings), *self.holders]

    @property
    def savings(self) -> list[Saving]:
        """What moving its placements to cheaper pools would save."""
        if self.considered is None:
            return []
        return [*find_savings(self.considered, read_environments(self.store), read_placements(self.store))]

    @property
    def ways_out(self) -> tuple[WayOut, ...]:
        """The ways out of its refusals, once all deployments are planned."""
        return find_ways_out(self.store, self.ref, self.considered) if self.considered else ()

    @property
    def is_advised(self) -> bool:
        """Tells whether the decision says what to do even where no way out is found."""
        decision = self.considered.decision if self.considered else Decision()
        return not decision.unresolved or any(infeasible.remedy for infeasible in decision.unresolved)

    @property
    def costs(self) -> tuple[Cost, ...]:
        """What its placements would cost, by currency, as far as their pools have prices."""
        assignments = self.considered.decision.assignments if self.considered else ()
        return add_up(assignment.cost for assignment in assignments if assignment.cost)

    @property
    def placements(self) -> list[Manifest]:
        """The placements that would exist."""
        return [item.manifest for _, item in sorted(self.outcome.composed.items())]


def find_decision(outcome: Outcome) -> Condition:
    """Returns Scheduled, or ModelResolved where that stands in its way."""
    by_type = {condition.type: condition for condition in outcome.conditions}
    resolved, scheduled = by_type[ConditionType.MODEL_RESOLVED], by_type[ConditionType.SCHEDULED]
    return resolved if scheduled.status is Status.UNKNOWN and resolved.status is not Status.TRUE else scheduled


def plan_deployments(inventory: Inventory, refs: Iterable[Ref] | None = None) -> list[Plan]:
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
        call, outcome = reconcile(store, store[ref])
        if ref in shown:
            plans[ref] = _build_plan(store, ref, call, outcome)
        apply_placements(store, ref, outcome.composed)
        if outcome.composed:
            outdated = [plan for plan in plans.values() if plan.ref != ref and not plan.is_placed]
    plans |= {plan.ref: _decide_again(plan) for plan in outdated}
    return [plans[ref] for ref in shown]


def _decide_again(plan: Plan) -> Plan:
    """Decides a refused deployment given the placements of all others, as the controller does in the end."""
    store, ref, before = plan.store, plan.ref, plan.before
    planned = store.owned(ref)
    for key in planned.keys() - before.keys():
        store.drop(Ref.of(planned[key]))
    for manifest in before.values():
        store.put(manifest)
    for name in {text(m, "spec.inferenceEnvironmentRef.name") for m in (*planned.values(), *before.values())}:
        publish_ledger(store, Ref("InferenceEnvironment", "", name))
    call, outcome = reconcile(store, store[ref])
    decided = _build_plan(store, ref, call, outcome)
    apply_placements(store, ref, outcome.composed)
    return decided


def _build_plan(store: Store, ref: Ref, call: Call, outcome: Outcome) -> Plan:
    before = store.owned(ref)
    considered = decide(call, parse_settings(call.input, call.context).value)
    plan = Plan(ref=ref, outcome=outcome, before=before, store=store)
    if not isinstance(considered, Considered):
        return plan
    existing = {text(manifest, "metadata.name") for manifest in before.values()}
    ledger = Ledger(considered.scope.others, considered.scope.own)
    rows: list[Row] = []
    for environment in sorted(considered.scope.environments, key=lambda e: e.name):
        if environment.deleting:
            rows.append(Row(environment=environment.name, verdict="deleted", available="being deleted"))
            continue
        rows += list_candidates(considered, environment, ledger, existing)
        for pool in find_invalid_pools(store, environment):
            row = Row(environment=environment.name, pool=pool.name, verdict="invalid", faults=pool.problems)
            available = pool.problems[0].message + count_more(len(pool.problems) - 1)
            rows.append(replace(row, required=pool.problems[0].path, available=available))
    rows.sort(key=lambda row: row.sort_key)
    return replace(plan, rows=tuple(rows), holders=tuple(_name_holders(store, ref, rows)), considered=considered)


def find_traffic(sources: Sources, inventory: Inventory, name: str | None) -> Manifest | None:
    """Returns the ModelService of a name that no deployment has, with its endpoints; None if there is none."""
    if not name or any(ref.name == name for ref in filter(inventory.in_scope, inventory.store.refs("ModelDeployment"))):
        return None
    if not sources.files:
        inventory = load_inventory(sources, ("ModelService",), one_namespace=True)
    refs = [ref for ref in filter(inventory.in_scope, inventory.store.refs("ModelService")) if ref.name == name]
    if len(refs) == 1 and sources.files:
        compose_files(inventory)
    return inventory.store[refs[0]] if len(refs) == 1 else None


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
        storage = considered.weights.build_request(environment, pool, assignment.shape, assignment.replicas)
        profile = considered.request.find_profile(assignment.profile)
        if profile and not find_faults(storage):
            remarks += map(str, (*find_remarks(storage), *note_costs(storage)))
            plan = plan_weights(storage)
            load_time = estimate_load(plan.bytes_on_claim, environment.storage.read_bandwidth, model, profile)
            remarks += [describe_load(load_time)] if load_time else []
        yield from (f"{environment.name}: {remark}" for remark in remarks if remark)


def _explain_order(considered: Considered, rows: Sequence[Row]) -> Iterator[str]:
    """Explains which rule chose the environments of new placements where others fit as well."""
    placed = sorted(row.environment for row in rows if row.verdict == Verdict.PLACED)
    fitting = {row.environment for row in rows if row.verdict in (Verdict.PLACED, Verdict.FITS)}
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


def _name_holders(store: Store, ref: Ref, rows: Iterable[Row]) -> Iterator[str]:
    """Names the other deployments that hold the GPUs of pools without room."""
    for environment, pool in sorted({(row.environment, row.pool) for row in rows for r in row.refusals if r.use}):
        users = Counter[str]()
        for p in read_placements(store):
            is_other = (p.namespace, p.deployment) != (ref.namespace, ref.name)
            if is_other and p.shape and (p.environment, p.pool) == (environment, pool):
                users[f"{p.namespace}/{p.deployment or p.name}"] += p.shape.gpus * p.replicas
        if users:
            yield f"{environment}: GPUs of pool {pool} are held by {format_users(users, _HOLDERS_NAMED)}"
