"""`capacity`: who uses each pool, what is free, and the largest replica that still fits, by the controller's ledger.

Where nodes are observed, how many of those declared can be used, and why not all; `--suggest` writes the pools that
they would be declared as.
"""

from collections.abc import Sequence

import click

from function.cli.gpus import Usage, format_largest, format_suggestions, format_users, group_by_accelerator, list_usages
from function.cli.inputs import load_inventory
from function.cli.options import EVERY_FORM, CliError, Code, Form, Sources, examples, form, sources
from function.cli.pictures import draw_world
from function.cli.planning import plan_deployments
from function.cli.store import read_environments
from function.cli.tables import BAD, GOOD, format_data, format_table, paint, print_hint
from function.domain.environment import format_unusable
from function.kube.manifests import JSON, Manifest
from function.kube.quantity import gib
from function.status.inference_environment import build_node_facts

_KINDS = ("InferenceEnvironment", "ModelPlacement")
_HEADERS = (
    "ENVIRONMENT", "POOL", "READY", "FREE", "LARGEST", "GPUS", "NODES", "USABLE", "ACCELERATOR", "MEMORY", "NETWORK",
    "MULTINODE", "USED BY",
)  # fmt: skip
_USERS_SHOWN = 2


@click.command(epilog=examples("capacity"))
@sources
@click.option(
    "--suggest", "suggesting", is_flag=True, help="Print the nodePools that the observed nodes would be declared as."
)
@form(*EVERY_FORM, Form.SVG)
def capacity(*, sources: Sources, suggesting: bool, form: Form) -> None:
    """Show environments and pools: who uses them, what is free, and the largest replica that still fits.

    With files the deployments in them count as 'plan' would place them.
    """
    inventory = load_inventory(sources, (*_KINDS, "Object") if suggesting else _KINDS)
    store = inventory.store
    environments = read_environments(store)
    if not environments:
        raise CliError("there is no InferenceEnvironment. Give one with -f", Code.NOT_FOUND)
    if suggesting:
        click.echo(format_suggestions(store, environments), nl=False)
        return
    plans = plan_deployments(inventory, store.refs("ModelDeployment")) if sources.files else []
    usages = list_usages(store)
    match form:
        case Form.TABLE | Form.WIDE:
            _print_tables(usages, wide=form is Form.WIDE)
            print_hint(f"plan{sources.file_options or ' -f FILE --live'}")
        case Form.SVG:
            click.echo(draw_world(usages, plans))
        case Form.NAME:
            for environment in environments:
                click.echo(f"inferenceenvironment.modelplane.ai/{environment.name}")
        case _:
            click.echo(format_data(form, [_build_data(usage) for usage in usages]))


def _print_tables(usages: Sequence[Usage], *, wide: bool) -> None:
    """Prints the pools, then the totals of each accelerator on all clusters, and those of all accelerators."""
    is_observed = any(usage.pool and usage.pool.facts for usage in usages)
    hidden = {*(() if wide else ("MEMORY", "NETWORK", "MULTINODE")), *(() if is_observed else ("USABLE",))}
    headers = [header for header in _HEADERS if header not in hidden]
    rows = (_build_cells(usage, None if wide else _USERS_SHOWN) for usage in usages)
    click.echo(format_table(headers, ([row.get(header) for header in headers] for row in rows)))
    valid = [usage for usage in usages if usage.pool]
    if len(valid) > 1:
        headers = ["ACCELERATOR", "FREE", "LARGEST", "GPUS", "NODES", "ENVIRONMENTS"]
        totals = [_add_up(kind, group) for kind, group in group_by_accelerator(usages)]
        click.echo(f"\n{format_table(headers, [*totals, _add_up('all', valid)] if len(totals) > 1 else totals)}")


def _add_up(name: str, usages: Sequence[Usage]) -> list[object]:
    rooms = [usage.room for usage in usages if usage.room]
    return [
        name,
        sum(usage.free for usage in usages),
        format_largest(max(usages, key=lambda usage: usage.largest[0] * usage.largest[1])),
        f"{sum(usage.used for usage in usages)}/{sum(usage.gpus for usage in usages)}",
        f"{sum(room.nodes_in_use for room in rooms)}/{sum(room.nodes for room in rooms)}",
        len({usage.environment.name for usage in usages}),
    ]


def _build_cells(usage: Usage, users_shown: int | None) -> dict[str, object]:
    environment, pool, room = usage.environment, usage.pool, usage.room
    ready = paint("True", GOOD) if environment.ready else paint("False", BAD)
    if pool is None or room is None:
        which = f"invalid: {usage.invalid.name}" if usage.invalid else "none"
        return {"ENVIRONMENT": environment.name, "READY": ready, "POOL": which}
    reasons = format_unusable(pool.facts.unusable) if pool.facts else ""
    return {
        "ENVIRONMENT": environment.name,
        "READY": ready,
        "POOL": pool.name,
        "ACCELERATOR": pool.accelerator_type,
        "MEMORY": gib(pool.memory_per_gpu) if pool.memory_per_gpu else "",
        "NETWORK": pool.bandwidth or pool.interconnect,
        "MULTINODE": str(pool.multi_node).lower(),
        "NODES": f"{room.nodes_in_use}/{room.nodes}",
        "USABLE": f"{pool.usable_nodes}{f' ({reasons})' if reasons else ''}" if pool.facts else "",
        "GPUS": f"{usage.used}/{usage.gpus}",
        "FREE": usage.free,
        "LARGEST": format_largest(usage),
        "USED BY": format_users(usage.users, users_shown),
    }


def _build_data(usage: Usage) -> Manifest:
    environment, pool, room = usage.environment, usage.pool, usage.room
    nodes: Manifest = {"total": room.nodes, "inUse": room.nodes_in_use} if room else {}
    if pool and pool.facts:
        nodes |= {"usable": pool.usable_nodes, "observed": build_node_facts(pool.facts)}
    users: list[JSON] = [
        {
            "namespace": placement.namespace,
            "deployment": placement.deployment,
            "placement": placement.name,
            "gpus": placement.shape.gpus * placement.replicas,
        }
        for placement in usage.users
        if placement.shape
    ]
    return {
        "environment": environment.name,
        "ready": environment.ready,
        "pool": pool.name if pool else usage.invalid.name if usage.invalid else None,
        "faults": [str(fault) for fault in usage.invalid.problems] if usage.invalid else [],
        "acceleratorType": pool.accelerator_type if pool else None,
        "nodes": nodes or None,
        "gpus": {"total": usage.gpus, "inUse": usage.used, "free": usage.free},
        "largestReplica": format_largest(usage),
        "usedBy": users,
    }
