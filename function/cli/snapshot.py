"""Builds the data of the page of `modelplane ui`: the fleet, the deployments and the ModelServices, as one JSON value.

Every number and reason comes from the code of the command that prints it: pools from that of `capacity`, reasons from
`why`, ways out from `plan`, and shares of requests from `traffic`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby

from function.api.model_deployment import parse_placement
from function.api.model_service import parse_model_service
from function.cli import gpus
from function.cli.advice import list_ways_out
from function.cli.inputs import KINDS, Inventory, load_inventory
from function.cli.live import connect
from function.cli.options import Sources
from function.cli.planning import compose_files, plan_deployments
from function.cli.reports import Report, add_ways_out, build_plan_report, read_deployment_report, read_service_report
from function.cli.shares import compute_shares
from function.cli.store import Ref, Store, read_conditions
from function.domain.allocation import Cost, add_up, format_replica
from function.domain.environment import format_unusable
from function.kube.manifests import Manifest, condition, get, is_deleting, text
from function.kube.quantity import gib
from function.reasons import ConditionType, Phase
from function.remote.composed_kinds import PLANNED_TIME

_PLANNED = "Planned"  # the placement exists only in the plan
_DELETING = "Deleting"
_UNREACHABLE = "Unreachable"
# The states of GPUs that no placement uses.
_BLOCKED = "Blocked"  # on nodes that a replica has to itself
_FREE = "Free"
_UNUSABLE = "Unusable"
STATES = (*map(str, Phase), _PLANNED, _DELETING, _UNREACHABLE, _BLOCKED, _FREE, _UNUSABLE)


def build_snapshot(sources: Sources) -> dict[str, object]:
    """Reads files, a control plane, or both, and returns all that the page shows."""
    if not sources.namespace:
        sources = replace(sources, all_namespaces=True)
    inventory = load_inventory(sources, KINDS)
    store = inventory.store
    untouched = replace(inventory, store=Store(store.values()))
    refs = [ref for ref in store.refs("ModelDeployment") if inventory.in_scope(ref)]
    if sources.files:
        plans = plan_deployments(inventory)
        ways = {ref: list_ways_out(plans[ref]) for ref in refs if not plans[ref].is_placed}
        reports = {ref: build_plan_report(plans[ref], ways.get(ref, ())) for ref in refs}
        services = untouched
        if _list_services(services):
            compose_files(services)
    else:
        reports = {ref: read_deployment_report(store, ref) for ref in refs}
        refused = [ref for ref, report in reports.items() if report.refusals or not report.is_placed]
        plans = plan_deployments(untouched, refused) if refused else {}
        found = {ref: list_ways_out(plan) for ref, plan in plans.items()}
        reports |= {ref: add_ways_out(reports[ref], found[ref], plans[ref]) for ref in found if reports[ref].refusals}
        ways = {ref: found[ref] for ref, plan in plans.items() if not plan.is_placed}
        services = inventory
    usages = gpus.list_usages(store)
    return {
        "source": _describe_source(sources),
        "planned": bool(sources.files),
        "totals": _build_totals(usages),
        "states": STATES,
        "environments": [*_list_environments(store, usages)],
        "deployments": [
            _build_deployment(store, report, [way.message for way in ways.get(ref, ())], usages)
            for ref, report in reports.items()
        ],
        "services": [_build_service(services.store[ref]) for ref in _list_services(services)],
    }


def _describe_source(sources: Sources) -> str:
    files = ", ".join("standard input" if file == "-" else file for file in sources.files)
    if sources.files and not sources.live:
        return files
    context = f"context {connect(sources).context}"
    return f"{files} over {context}" if files else context


def _list_services(inventory: Inventory) -> list[Ref]:
    return [ref for ref in inventory.store.refs("ModelService") if inventory.in_scope(ref)]


def _format_costs(costs: Sequence[Cost]) -> list[str]:
    return [*map(str, costs)]


def _list_costs(usages: Sequence[gpus.Usage]) -> Iterator[tuple[gpus.Holding, Cost]]:
    """Yields the cost of each holding whose pool has a price."""
    for usage in usages:
        if usage.pool and usage.pool.price:
            for holding in usage.holdings:
                yield holding, usage.pool.price.cost(holding.share.gpus)


def _build_totals(usages: Sequence[gpus.Usage]) -> Manifest:
    return {
        "environments": len({usage.environment.name for usage in usages}),
        "gpus": {
            "total": sum(usage.gpus for usage in usages),
            "inUse": sum(usage.used for usage in usages),
            "free": sum(usage.free for usage in usages),
        },
        "costs": [*_format_costs(add_up(cost for _, cost in _list_costs(usages)))],
    }


def _list_environments(store: Store, usages: Sequence[gpus.Usage]) -> Iterator[dict[str, object]]:
    """Yields each environment with its pools."""
    for environment, group in groupby(usages, lambda usage: usage.environment):
        rows = [*group]
        manifest = store[Ref("InferenceEnvironment", "", environment.name)]
        yield {
            "name": environment.name,
            "ready": environment.ready,
            "deleting": environment.deleting,
            "message": environment.ready_message,
            "labels": dict(environment.labels),
            "conditions": _list_conditions(manifest, read_conditions(manifest)),
            "pools": [_build_pool(store, usage) for usage in rows if usage.pool or usage.invalid],
        }


def _build_pool(store: Store, usage: gpus.Usage) -> dict[str, object]:
    """Returns what `capacity -o json` prints of a pool, and who uses its GPUs in which state."""
    pool = usage.pool
    data = gpus.build_usage_data(usage)
    del data["environment"], data["ready"], data["pricePerGpuHour"]
    used_by = [
        {
            "namespace": holding.placement.namespace,
            "deployment": holding.placement.deployment,
            "placement": holding.placement.name,
            "gpus": holding.share.gpus,
            "state": _find_state(store[Ref("ModelPlacement", holding.placement.namespace, holding.placement.name)]),
        }
        for holding in usage.holdings
    ]
    costs = add_up(cost for _, cost in _list_costs([usage]))
    return {
        **data,
        "memoryPerGpu": gib(pool.memory_per_gpu) if pool and pool.memory_per_gpu else "",
        "network": (pool.bandwidth or pool.interconnect or "") if pool else "",
        "price": str(pool.price) if pool and pool.price else "",
        "costs": _format_costs(costs),
        "unusable": format_unusable(pool.facts.unusable) if pool and pool.facts else "",
        "usedBy": used_by,
        "segments": _list_segments(usage, used_by),
    }


def _list_segments(usage: gpus.Usage, used_by: Sequence[Mapping[str, object]]) -> list[Manifest]:
    """Returns the GPUs of a pool by namespace and state, and those that no placement uses; they add up to the pool."""
    sums = Counter[tuple[str, str]]()
    for row, holding in zip(used_by, usage.holdings, strict=True):
        sums[str(row["namespace"]), str(row["state"])] += holding.share.gpus
    rest = {_BLOCKED: usage.used - sums.total(), _FREE: usage.free, _UNUSABLE: usage.gpus - usage.used - usage.free}
    segments = sorted((*sums.items(), *((("", state), number) for state, number in rest.items())), key=_sort_segment)
    return [{"namespace": namespace, "state": state, "gpus": n} for (namespace, state), n in segments if n > 0]


def _sort_segment(segment: tuple[tuple[str, str], int]) -> tuple[bool, str, int]:
    (namespace, state), _ = segment
    return not namespace, namespace, STATES.index(state)


def _find_state(placement: Manifest) -> str:
    """Returns the phase of a placement, or what matters more."""
    if is_deleting(placement):
        return _DELETING
    if not placement.get("status"):
        # Crossplane has created it, and the function has not reported yet.
        return str(Phase.PENDING) if _is_created(placement) else _PLANNED
    parsed = parse_placement(placement).value
    return _UNREACHABLE if parsed and parsed.unreachable else text(placement, "status.phase") or str(Phase.PENDING)


def _is_created(manifest: Manifest) -> bool:
    return text(manifest, "metadata.creationTimestamp") not in ("", PLANNED_TIME)


def _list_conditions(manifest: Manifest, conditions: Sequence[Manifest]) -> list[Manifest]:
    """Returns conditions with the times since when they are so."""
    return [
        {**each, "since": text(condition(manifest, text(each, "type")), "lastTransitionTime")} for each in conditions
    ]


def _build_deployment(
    store: Store, report: Report, ways_out: Sequence[str], usages: Sequence[gpus.Usage]
) -> dict[str, object]:
    """Returns a deployment: where it is, since when, why not elsewhere, and what to do about it."""
    ref = report.ref
    manifest = store[ref]
    costs = defaultdict[str, list[Cost]](list)
    for holding, cost in _list_costs(usages):
        placement = holding.placement
        if (placement.namespace, placement.deployment) == (ref.namespace, ref.name):
            costs[placement.name].append(cost)
    placements = [m for m in store.owned(ref).values() if text(m, "kind") == "ModelPlacement"]
    model = text(manifest, "spec.modelRef.name")
    return {
        "namespace": ref.namespace,
        "name": ref.name,
        "model": f"{ref.namespace}/{model}" if text(manifest, "spec.modelRef.kind") == "Model" else model,
        "placed": report.is_placed,
        "verdict": report.verdict,
        "ready": text(condition(manifest, "Ready"), "status"),
        "created": text(manifest, "metadata.creationTimestamp"),
        "costs": _format_costs(add_up(cost for each in costs.values() for cost in each)),
        "conditions": _list_conditions(manifest, report.conditions),
        "reasons": [asdict(reason) for reason in (*report.unready, *report.refusals)],
        "waysOut": [*ways_out],
        "notes": [*report.notes],
        "placements": [_build_placement(m, costs[text(m, "metadata.name")]) for m in placements],
    }


def _build_placement(manifest: Manifest, costs: Sequence[Cost]) -> dict[str, object]:
    storage = condition(manifest, ConditionType.STORAGE_READY)
    nodes, per_node = (get(manifest, f"spec.topology.{key}") for key in ("nodes", "gpusPerNode"))
    return {
        "name": text(manifest, "metadata.name"),
        "environment": text(manifest, "spec.inferenceEnvironmentRef.name"),
        "pool": text(manifest, "spec.pool"),
        "profile": text(manifest, "spec.profile"),
        "replica": format_replica(nodes if isinstance(nodes, int) else 1, per_node)
        if isinstance(per_node, int)
        else "",
        "replicas": get(manifest, "spec.replicas"),
        "readyReplicas": get(manifest, "status.readyReplicas"),
        "state": _find_state(manifest),
        "created": text(manifest, "metadata.creationTimestamp") if _is_created(manifest) else "",
        "url": text(manifest, "status.service.url"),
        "costs": _format_costs(costs),
        "download": {
            "reason": text(storage, "reason"),
            "message": text(storage, "message"),
            "since": text(storage, "lastTransitionTime"),
            "completed": text(manifest, "status.storage.completedAt"),
            "size": text(manifest, "status.storage.size"),
        },
    }


def _build_service(manifest: Manifest) -> dict[str, object]:
    """Returns a ModelService with the part of the requests that each endpoint and placement gets."""
    report = read_service_report(manifest)
    service = parse_model_service(manifest).value
    endpoints = [
        {
            "environment": each.entry.environment,
            "address": each.entry.address,
            "state": each.entry.state,
            "reason": each.entry.reason,
            "weight": each.entry.weight,
            "share": f"{each.share:.1%}",
            "backends": [
                {
                    "deployment": row.deployment,
                    "placement": row.placement,
                    "readyReplicas": row.ready_replicas,
                    "weight": row.weight,
                    "share": f"{share:.1%}",
                    "reason": row.reason,
                }
                for row, share in each.backends
            ],
        }
        for each in (compute_shares(service) if service else ())
    ]
    return {
        "namespace": report.ref.namespace,
        "name": report.ref.name,
        "url": text(manifest, "status.url"),
        "serving": report.is_placed,
        "verdict": report.verdict,
        "created": text(manifest, "metadata.creationTimestamp"),
        "conditions": _list_conditions(manifest, report.conditions),
        "endpoints": endpoints,
    }
