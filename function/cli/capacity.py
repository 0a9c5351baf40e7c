"""`capacity`: who uses each pool, what is free, and the largest replica that still fits, by the scheduler's ledger.

Where nodes are looked at, how many of those declared can be used, and why not all; `--suggest` writes the pools that
they would be declared as.
"""

from collections.abc import Sequence

import click

from function.api.model_placement import parse_placement
from function.cli import nodes
from function.cli.inputs import find_invalid_pools, gather, warn_of_invalid
from function.cli.options import EVERY_FORM, Form, Sources, examples, form, sources
from function.cli.pictures import draw_capacity
from function.cli.store import read_environments
from function.cli.tables import BAD, GOOD, hint, paint, structured, table
from function.cli.usage import Usage, by_accelerator, format_users, list_usages
from function.domain.environment import Pool
from function.kube.manifests import Manifest
from function.kube.quantity import gib
from function.scheduling.pool_capacity import PoolCapacity
from function.status.hardware import observed

_KINDS = ("InferenceEnvironment", "ModelPlacement")
_USERS_SHOWN = 2


@click.command(
    epilog=examples(
        "modelplane capacity",
        "modelplane capacity -o wide",
        "modelplane capacity -f fleet/",
        "modelplane capacity -o svg > capacity.svg",
    )
)
@sources
@click.option(
    "--suggest", "suggesting", is_flag=True, help="Print the nodePools that the observed nodes would be declared as."
)
@form(*EVERY_FORM, Form.SVG)
def capacity(*, sources: Sources, suggesting: bool, form: Form) -> None:
    """Show environments and pools: who uses them, what is free, and the largest replica that still fits."""
    store = gather(sources, (*_KINDS, "Object") if suggesting else _KINDS).store
    known = read_environments(store)
    if suggesting:
        click.echo(nodes.format_suggestions(store, known), nl=False)
        return
    parsed = (parse_placement(manifest) for manifest in store.all("ModelPlacement"))
    invalid = find_invalid_pools(store, known)
    usages = list_usages(known, [p.value for p in parsed if p.value], invalid)
    warn_of_invalid(store, _KINDS)
    match form:
        case Form.TABLE | Form.WIDE:
            click.echo(_build_table(usages, wide=form is Form.WIDE) if usages else "There is no InferenceEnvironment")
            if sum(usage.pool is not None for usage in usages) > 1:
                click.echo(f"\n{_build_totals(usages)}")
            hint(f"plan{sources.again or ' -f FILE --live'}")
        case Form.SVG:
            click.echo(draw_capacity(usages))
        case Form.NAME:
            for environment in known:
                click.echo(f"inferenceenvironment.modelplane.ai/{environment.name}")
        case _:
            click.echo(structured(form, [_build_data(usage) for usage in usages]))


def _build_table(usages: list[Usage], *, wide: bool) -> str:
    headers = ["ENVIRONMENT", "READY", "POOL", "ACCELERATOR", "NODES", "GPUS", "FREE", "LARGEST", "USED BY"]
    looked = any(usage.usable for usage in usages)
    headers[5:5] = ["USABLE"] if looked else []
    if wide:
        headers[4:4] = ["MEMORY", "NETWORK", "MULTINODE"]
    return table(headers, (_build_cells(usage, wide=wide, looked=looked) for usage in usages))


def _build_totals(usages: Sequence[Usage]) -> str:
    """Return what there is of each accelerator on all clusters, and below it of all of them."""
    headers = ["ACCELERATOR", "ENVIRONMENTS", "POOLS", "NODES", "GPUS", "FREE", "LARGEST"]
    rows = [_add_up(kind, group) for kind, group in by_accelerator(usages)]
    every = _add_up("all", [usage for usage in usages if usage.pool])
    return table(headers, [*rows, every] if len(rows) > 1 else rows)


def _add_up(name: str, usages: Sequence[Usage]) -> list[object]:
    rooms = [usage.room for usage in usages if usage.room]
    total, free = sum(usage.gpus for usage in usages), sum(usage.free for usage in usages)
    largest = max(usages, key=lambda usage: usage.largest_gpus)
    return [
        name,
        len({usage.environment.name for usage in usages}),
        len(usages),
        f"{sum(room.nodes_in_use for room in rooms)}/{sum(room.nodes for room in rooms)}",
        f"{sum(usage.used for usage in usages)}/{total}",
        free,
        largest.largest,
    ]


def _build_cells(usage: Usage, *, wide: bool, looked: bool) -> list[object]:
    environment, pool, room = usage.environment, usage.pool, usage.room
    ready = paint("True", GOOD) if environment.ready else paint("False", BAD)
    if pool is None or room is None:
        which = f"invalid: {usage.invalid.name}" if usage.invalid else "none"
        return [environment.name, ready, which, *[""] * (6 + 3 * wide + looked)]
    memory = gib(pool.memory_per_gpu) if pool.memory_per_gpu else ""
    extra = [memory, pool.bandwidth or pool.interconnect, str(pool.multi_node).lower()] if wide else []
    return [
        environment.name,
        ready,
        pool.name,
        pool.accelerator_type,
        *extra,
        f"{room.nodes_in_use}/{room.nodes}",
        *([usage.usable] if looked else []),
        f"{usage.used}/{usage.gpus}",
        usage.free,
        usage.largest,
        format_users(usage.users, None if wide else _USERS_SHOWN),
    ]


def _count_nodes(pool: Pool, room: PoolCapacity) -> Manifest:
    counted: Manifest = {"total": room.nodes, "inUse": room.nodes_in_use}
    return counted if pool.facts is None else {**counted, "usable": pool.usable_nodes, "observed": observed(pool.facts)}


def _build_data(usage: Usage) -> Manifest:
    environment, pool, room = usage.environment, usage.pool, usage.room
    return {
        "environment": environment.name,
        "ready": environment.ready,
        "pool": pool.name if pool else usage.invalid.name if usage.invalid else None,
        "faults": [str(fault) for fault in usage.invalid.faults] if usage.invalid else [],
        "acceleratorType": pool.accelerator_type if pool else None,
        "nodes": _count_nodes(pool, room) if pool and room else None,
        "gpus": {"total": usage.gpus, "inUse": usage.used, "free": usage.free},
        "largestReplica": usage.largest,
        "usedBy": [
            {
                "namespace": p.namespace,
                "deployment": p.deployment,
                "placement": p.name,
                "gpus": p.shape.gpus * p.replicas,
            }
            for p in usage.users
            if p.shape
        ],
    }
