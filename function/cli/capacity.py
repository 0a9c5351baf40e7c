"""`capacity`: who uses each pool, what is free, and the largest replica that still fits, by the controller's ledger.

Where nodes are observed, how many of those declared can be used, and why not all; `--suggest` writes the pools that
they would be declared as.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import click

from function.cli.gpus import Usage, format_largest, format_suggestions, format_users, group_by_accelerator, list_usages
from function.cli.inputs import load_inventory
from function.cli.options import EVERY_FORM, SELECTOR, WATCH, CliError, Code, Form, Sources, examples, form, sources
from function.cli.pictures import draw_world
from function.cli.planning import plan_deployments
from function.cli.store import Ref, Store, read_environments
from function.cli.tables import BAD, GOOD, format_columns, format_data, format_table, paint, print_hint, print_watched
from function.domain.allocation import Share
from function.domain.environment import Environment, format_unusable
from function.domain.placement import Placement
from function.kube.manifests import JSON, Manifest, list_texts, listing, text
from function.kube.quantity import gib
from function.kube.selectors import Selector
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
@click.option("--by", type=click.Choice(("namespace", "model", "accelerator")), help="Add up, and show who uses what.")
@SELECTOR
@WATCH
@form(*EVERY_FORM, Form.SVG)
def capacity(
    *, sources: Sources, suggesting: bool, by: str | None, selector: Selector | None, watch: bool, form: Form
) -> None:
    """Show environments and pools: who uses them, what is free, and the largest replica that still fits.

    With files the deployments in them count as 'plan' would place them. --selector selects environments.
    """
    if by and (suggesting or form in (Form.NAME, Form.SVG)):
        raise CliError("--by adds up: leave out --suggest, and choose another --output")

    def render() -> str:
        inventory = load_inventory(sources, (*_KINDS, "Object") if suggesting else _KINDS)
        store = inventory.store
        environments = _select_environments(store, selector)
        if suggesting:
            return format_suggestions(store, environments).rstrip("\n")
        plans = plan_deployments(inventory, store.refs("ModelDeployment")) if sources.files else []
        names = {environment.name for environment in environments}
        usages = [usage for usage in list_usages(store) if usage.environment.name in names]
        if by:
            return _format_sums(by, _add_up_users(by, usages), form)
        match form:
            case Form.TABLE | Form.WIDE:
                return _format_tables(usages, wide=form is Form.WIDE)
            case Form.SVG:
                return draw_world(usages, plans)
            case Form.NAME:
                return "\n".join(f"inferenceenvironment.modelplane.ai/{name}" for name in sorted(names))
            case _:
                return format_data(form, [_build_data(usage) for usage in usages])

    print_watched(render, watch=watch)
    if form.for_people and not suggesting:
        print_hint(f"plan{sources.file_options or ' -f FILE --live'}")


def _select_environments(store: Store, selector: Selector | None) -> list[Environment]:
    every = read_environments(store)
    if not every:
        raise CliError("there is no InferenceEnvironment. Give one with -f", Code.NOT_FOUND)
    selected = [e for e in every if store.is_selected(Ref("InferenceEnvironment", "", e.name), selector)]
    if not selected:
        raise CliError(f"there is no InferenceEnvironment with {selector}", Code.NOT_FOUND)
    return selected


@dataclass(frozen=True, slots=True)
class _Holding:
    """What one placement is granted of a pool."""

    placement: Placement
    usage: Usage
    share: Share

    def find_key(self, by: str) -> str:
        """Returns what it is added up by; a Model has the name of its namespace before its own."""
        model, namespace = self.placement.model, self.placement.namespace
        if by == "namespace":
            return namespace
        if by == "model":
            return model.name if model.kind == "ClusterModel" else f"{namespace}/{model.name}"
        return self.usage.pool.accelerator_type if self.usage.pool else ""


def _add_up_users(by: str, usages: Sequence[Usage]) -> list[Manifest]:
    """Returns what is used by each namespace, model or accelerator, most first, and by which deployments."""
    holdings = [
        _Holding(users[grant.namespace, grant.name], usage, grant.share)
        for usage in usages
        for users in [{(p.namespace, p.name): p for p in usage.users}]
        for grant in usage.grants
        if (grant.namespace, grant.name) in users
    ]
    groups = defaultdict[str, list[_Holding]](list)
    if by == "accelerator":  # those that nothing uses have free GPUs
        groups |= {accelerator: [] for accelerator, _ in group_by_accelerator(usages)}
    for holding in holdings:
        groups[holding.find_key(by)].append(holding)
    rows: list[Manifest] = []
    for key, group in sorted(groups.items(), key=lambda item: (-sum(h.share.gpus for h in item[1]), item[0])):
        users = Counter[str]()
        for holding in group:
            name = holding.placement.deployment or holding.placement.name
            users[f"{holding.placement.namespace}/{name}"] += holding.share.gpus
        row: Manifest = {
            by: key,
            "gpus": users.total(),
            "replicas": sum(holding.share.replicas for holding in group),
            "environments": [*sorted({holding.usage.environment.name for holding in group})],
            "usedBy": [{"deployment": user, "gpus": gpus} for user, gpus in users.most_common()],
        }
        if by == "accelerator":
            row["free"] = sum(usage.free for usage in usages if usage.pool and usage.pool.accelerator_type == key)
        rows.append(row)
    return rows


def _format_sums(by: str, rows: Sequence[Manifest], form: Form) -> str:
    if not form.for_people:
        return format_data(form, [*rows])
    if not rows:
        return "no GPU is in use"
    columns = (by, "gpus", "free", "replicas", "environments", "usedBy")
    headers = {"USED BY" if column == "usedBy" else column.upper(): column for column in columns if column in rows[0]}
    limit = None if form is Form.WIDE else _USERS_SHOWN
    return format_columns(headers, (_shorten(row, limit) for row in rows))


def _shorten(row: Manifest, limit: int | None) -> Manifest:
    """Returns a row for people: lists in a cell, of the users some."""
    users = [f"{text(user, 'deployment')} ({user['gpus']})" for user in listing(row, "usedBy")]
    more = f" +{len(users) - limit} more" if limit and len(users) > limit else ""
    return {**row, "environments": len(list_texts(row, "environments")), "usedBy": ", ".join(users[:limit]) + more}


def _format_tables(usages: Sequence[Usage], *, wide: bool) -> str:
    """Returns the pools, then the totals of each accelerator on all clusters, and those of all accelerators."""
    is_observed = any(usage.pool and usage.pool.facts for usage in usages)
    hidden = {*(() if wide else ("MEMORY", "NETWORK", "MULTINODE")), *(() if is_observed else ("USABLE",))}
    headers = [header for header in _HEADERS if header not in hidden]
    rows = (_build_cells(usage, None if wide else _USERS_SHOWN) for usage in usages)
    tables = [format_table(headers, ([row.get(header) for header in headers] for row in rows))]
    valid = [usage for usage in usages if usage.pool]
    if len(valid) > 1:
        headers = ["ACCELERATOR", "FREE", "LARGEST", "GPUS", "NODES", "ENVIRONMENTS"]
        totals = [_add_up(kind, group) for kind, group in group_by_accelerator(usages)]
        tables.append(format_table(headers, [*totals, _add_up("all", valid)] if len(totals) > 1 else totals))
    return "\n\n".join(tables)


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
