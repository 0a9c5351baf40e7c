"""Advises on a plan: doubtful choices, the reasons for choices, cheaper pools, and ways out of refusals.

Ways out and savings are computed from all known objects, which the controller does not read for one deployment.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from function.api.inference_environment import parse_environment
from function.api.model_deployment import parse_placement
from function.api.settings import parse_settings
from function.capacity.ledger import admit_placements
from function.capacity.quota import namespace_usage
from function.capacity.reclaim import may_lend
from function.cli.gpus import format_users
from function.cli.planning import FITS, PLACED, UNUSED, Plan, Row, decide_deployment, format_spare
from function.cli.references import note_unknown_priority
from function.cli.store import Ref, Store, read_environments, read_placements
from function.composers.model_deployment import Scheduling
from function.domain.allocation import Cost, Grant
from function.domain.environment import Environment
from function.domain.placement import Deployment, Placement, Preference
from function.domain.settings import BUILT_IN
from function.kube.manifests import Manifest, condition, mapping
from function.kube.messages import format_count
from function.reasons import ConditionType, Status
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Rank, RemovalCause, SchedulingRequest
from function.scheduling.ways_out import WayOut, find_ways_out
from function.status.cluster_model import note_insufficient_memory
from function.status.inference_environment import note_missing_plugin, note_tcp_fallback
from function.status.model_deployment import note_missing_prices
from function.status.weights import describe_load, note_costs
from function.weights.claim import estimate_load
from function.weights.faults import find_faults, find_remarks
from function.weights.planner import plan_weights

_HOLDERS_NAMED = 3


class Saving(NamedTuple):
    """The saving if a running placement moves to a cheaper pool."""

    cost: Cost
    message: str


def list_remarks(plan: Plan) -> list[str]:
    """Returns slow, small or doubtful choices, and the rule by which they were chosen."""
    if plan.scheduling is None:
        return [*note_unknown_priority(plan.store, plan.call.xr)]
    without_price = note_missing_prices(plan.scheduling.request.deployment, plan.scheduling.scope.environments)
    prices = [f"placement.prefer {without_price}"] if without_price else []
    chosen = (*prices, *explain_preference(plan.rows), *_explain_order(plan.scheduling, plan.rows))
    savings = (saving.message for saving in find_savings(plan))
    growth = _preview_growth(plan, plan.scheduling.request.deployment)
    return [
        *_note_doubts(plan.scheduling),
        *_note_created_pools(plan),
        *_note_lent_replicas(plan),
        *note_unused_pools(plan),
        *chosen,
        *savings,
        *growth,
        *_name_holders(plan),
    ]


def _note_created_pools(plan: Plan) -> Iterator[str]:
    """Yields the node pools that a cloud creates for the placements, with what they cost if they have a price."""
    for assignment in plan.decision.assignments:
        manifest = plan.store[Ref("InferenceEnvironment", "", assignment.environment)]
        parsed = parse_environment(manifest, BUILT_IN)
        pools = parsed.plan.pools if parsed.plan else ()
        created = next((pool for pool in pools if pool.name == assignment.pool), None)
        if created is None or condition(manifest, ConditionType.CLUSTER_READY).get("status") == Status.TRUE:
            continue
        fewest, most = created.min_nodes, created.max_nodes
        nodes = format_count(most, "node") if fewest == most else f"{fewest} to {format_count(most, 'node')}"
        pool = parsed.value.pool(created.name)
        cost = ""
        if pool and pool.price:
            amount = pool.price.per_gpu_hour * created.accelerators
            cost = f"; {Cost(pool.price.currency, amount)} for each node"
        yield f"GKE creates pool {assignment.environment}/{created.name}: {nodes} of {created.machine_type}{cost}"


def note_unused_pools(plan: Plan) -> Iterator[str]:
    """Yields why divided replicas without a place use no second pool of an environment, and how they could."""
    unused = [row for row in plan.rows if row.verdict == UNUSED]
    if not unused:
        return
    pools = ", ".join(sorted({f"{row.environment}/{row.pool}" for row in unused}))
    reason = "the replicas of a deployment use one pool of each environment"
    remedy = (
        f"create a second ModelDeployment with the {unused[0].required} that have no place, and list both in one "
        "ModelService"
    )
    yield f"room is left on {pools}, but {reason}. To use it, {remedy}"


def _preview_growth(plan: Plan, deployment: Deployment) -> Iterator[str]:
    """Says where the replicas would run if the load asked for `maxReplicas`, and all others stayed as planned."""
    load = deployment.load
    if load is None or deployment.replicas >= load.maximum or not plan.is_placed:
        return
    store = Store(plan.store.values())
    manifest = store[plan.ref]
    fixed: Manifest = {"replicas": load.maximum}
    scaling: Manifest = {**mapping(manifest, "spec.scaling"), "fixed": fixed}
    store.put({**manifest, "spec": {**mapping(manifest, "spec"), "scaling": scaling}})
    assignments = decide_deployment(store, plan.ref).decision.assignments
    where = ", ".join(f"{a.replicas} on {a.environment}/{a.pool}" for a in assignments)
    wanted = load.maximum if deployment.divides_replicas else load.maximum * len(assignments)
    lack = wanted - sum(assignment.replicas for assignment in assignments)
    yield f"at maxReplicas {load.maximum}: {where}{f'; no room now for {lack} of {wanted}' if lack else ''}"


def explain_preference(rows: Iterable[Row]) -> Iterator[str]:
    """Explains the choice of the cheapest or smallest sufficient pool for each new placement."""
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
    return str(rank.cost or format_spare(rank))


def _note_doubts(scheduling: Scheduling) -> Iterator[str]:
    """Returns slow, small or doubtful pools and storage of a decision."""
    environments = {environment.name: environment for environment in scheduling.scope.environments}
    model = scheduling.request.model
    for assignment in scheduling.decision.assignments:
        environment = environments.get(assignment.environment)
        pool = environment.pool(assignment.pool) if environment else None
        if environment is None or pool is None:
            continue
        remarks = [note_tcp_fallback(pool)] if assignment.shape.nodes > 1 else []
        remarks.append(note_insufficient_memory(model, assignment.shape, pool.memory_per_gpu))
        storage = scheduling.storage_request.with_pool(environment, pool, assignment.shape, assignment.replicas)
        profile = scheduling.request.find_profile(assignment.profile)
        if profile and assignment.shape.nodes > 1:
            remarks.append(note_missing_plugin(pool, profile.engine))
        if profile and not find_faults(storage):
            remarks += map(str, (*find_remarks(storage), *note_costs(storage)))
            plan = plan_weights(storage)
            load_time = estimate_load(plan.bytes_on_claim, environment.storage.read_bandwidth)
            remarks += [describe_load(load_time)] if load_time else []
        yield from (f"{environment.name}: {remark}" for remark in remarks if remark)


def _explain_order(scheduling: Scheduling, rows: Sequence[Row]) -> Iterator[str]:
    """Explains which rule chose the environments of new placements where others fit as well."""
    placed = sorted(row.environment for row in rows if row.verdict == PLACED)
    fitting = {row.environment for row in rows if row.verdict in (PLACED, FITS)}
    # After a rejection, each deployment has its own order of environments.
    is_spread = any(dropped.cause is RemovalCause.EVICTED for dropped in scheduling.decision.dropped)
    deployment = scheduling.request.deployment
    scope = scheduling.scope
    if deployment.prefer is not Preference.DECLARED or not placed or len(fitting) == len(placed) or is_spread:
        return
    chosen = [(a.environment, a.pool) for a in scheduling.decision.assignments]
    parts = [f"{', '.join(placed)}: first by name of {len(fitting)} environments that fit"]
    for prefer in (Preference.SMALLEST_SUFFICIENT, Preference.CHEAPEST)[: 2 if any(row.cost for row in rows) else 1]:
        request = replace(scheduling.request, deployment=replace(deployment, prefer=prefer))
        other = schedule(request, scope.environments, [*scope.others, *scope.own])
        differing = [f"{a.environment}/{a.pool}" for a in other.assignments if (a.environment, a.pool) not in chosen]
        alternative = f"would take {', '.join(differing)}" if differing else "would choose the same"
        parts.append(f"placement.prefer: {prefer} {alternative}")
    yield "; ".join(parts)


def _note_lent_replicas(plan: Plan) -> Iterator[str]:
    """Returns whose lent replicas will end for a deployment, and which of its own will end for others."""
    environments = {environment.name: environment for environment in read_environments(plan.store)}
    others = [p for p in read_placements(plan.store) if _find_owner(p) != plan.ref]
    lenders = {(p.namespace, p.name): p for p in others if may_lend(p)}
    taking_back = {assignment.environment for assignment in plan.decision.assignments if assignment.takes_back}
    for manifest in plan.placements:
        placement = parse_placement(manifest).value
        environment = environments.get(placement.environment) if placement else None
        if placement is None or environment is None:
            continue
        kept = _count_kept(environment, others, [placement])
        before = admit_placements(environment, others).grants if placement.environment in taking_back else ()
        for grant in before:
            gives = grant.share.replicas - kept.get(_key(grant), 0)
            if gives > 0 and grant.share.pool == placement.pool and _key(grant) in lenders:
                lender = lenders[_key(grant)]
                many = _count_taken(gives, lender, grant.share.replicas)
                whose = f"{lender.namespace}/{lender.deployment}"
                yield f"{placement.environment}: {many} of {whose} will end to free GPUs for it"
        kept = _count_kept(environment, [placement], others)
        ends = placement.replicas - kept.get((placement.namespace, placement.name), placement.replicas)
        if may_lend(placement) and ends > 0:
            many = _count_taken(ends, placement, placement.replicas)
            of = f"{many} of its {placement.replicas}"
            yield f"{placement.environment}: {of} will end, because other deployments need their GPUs"


def _count_kept(
    environment: Environment, first: Sequence[Placement], then: Sequence[Placement]
) -> dict[tuple[str, str], int]:
    """Returns how many replicas placements keep; on an environment from a file, those that came first have theirs."""
    if not environment.uid:
        environment = replace(environment, admitted=admit_placements(environment, first).grants)
    grants = admit_placements(environment, [*first, *then]).grants
    return {_key(grant): grant.yields.keep if grant.yields else grant.share.replicas for grant in grants}


def _count_taken(replicas: int, placement: Placement, has: int) -> str:
    are_lent = has - replicas >= placement.guaranteed_replicas
    return format_count(replicas, "lent replica" if are_lent else "replica")


def _key(grant: Grant) -> tuple[str, str]:
    return grant.namespace, grant.name


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


def find_savings(plan: Plan) -> Iterator[Saving]:
    """Finds for each kept placement of a deployment a cheaper pool of an environment that it does not use yet."""
    if plan.scheduling is None:
        return
    request = plan.scheduling.request
    assignments = plan.scheduling.decision.assignments
    kept = [(a.cost, a.environment) for a in assignments if a.placement and a.cost and not a.is_rescheduled]
    if not kept:
        return
    used = {a.environment for a in assignments} | {p.environment for p in plan.scheduling.scope.own}
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


def list_ways_out(plan: Plan) -> tuple[WayOut, ...]:
    """Returns the ways out of its refusals given the placements of all others, once all deployments are planned."""
    if plan.scheduling is None:
        return ()
    settings = parse_settings(plan.call.input, plan.call.context).value
    placements = read_placements(plan.store)

    @cache
    def find_request(owner: Ref) -> SchedulingRequest | None:
        other = decide_deployment(plan.store, owner).scheduling if owner in plan.store else None
        usage = namespace_usage(owner.namespace, placements, settings.limits_of(owner.namespace))
        return replace(other.request, quota_usage=usage) if other else None

    others = [placement for placement in placements if _find_owner(placement) != plan.ref]
    world = plan.scheduling.take_snapshot(others, lambda placement: find_request(_find_owner(placement)))
    return find_ways_out(world, plan.scheduling.decision)
