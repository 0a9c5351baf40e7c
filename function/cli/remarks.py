"""Remarks on a decision: about the chosen places, the rule that chose them, and who has the GPUs that are missing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from function.cli.candidates import Row, Verdict
from function.cli.gpus import format_users
from function.cli.store import Ref, Store, read_placements
from function.composers.model_deployment import Considered
from function.domain.placement import Preference
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import DropCause
from function.status.cluster_model import note_insufficient_memory
from function.status.inference_environment import note_tcp_fallback
from function.status.weights import describe_load, note_costs
from function.weights.claim import estimate_load
from function.weights.planner import plan_weights

_HOLDERS_NAMED = 3


def list_remarks(considered: Considered) -> Iterator[str]:
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
        plan = plan_weights(storage).accept(claim_exists=False, weights_exist=False)
        profile = considered.request.find_profile(assignment.profile)
        if plan and profile:
            remarks += map(str, (*(remark.problem for remark in plan.remarks), *note_costs(storage)))
            load_time = estimate_load(plan.bytes_on_claim, environment.storage.read_bandwidth, model, profile)
            remarks += [describe_load(load_time)] if load_time else []
        yield from (f"{environment.name}: {remark}" for remark in remarks if remark)


def explain_order(considered: Considered, rows: Sequence[Row]) -> Iterator[str]:
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


def name_holders(store: Store, ref: Ref, rows: Iterable[Row]) -> Iterator[str]:
    """Names the other deployments that hold the GPUs of pools without room."""
    for environment, pool in sorted({(row.environment, row.pool) for row in rows for r in row.refusals if r.use}):
        users = Counter[str]()
        for p in read_placements(store):
            is_other = (p.namespace, p.deployment) != (ref.namespace, ref.name)
            if is_other and p.shape and (p.environment, p.pool) == (environment, pool):
                users[f"{p.namespace}/{p.deployment or p.name}"] += p.shape.gpus * p.replicas
        if users:
            yield f"{environment}: GPUs of pool {pool} are held by {format_users(users, _HOLDERS_NAMED)}"
