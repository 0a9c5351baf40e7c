"""`capacity`: the users, the free GPUs and the largest replica of each pool that could be placed, by the ledger.

Where nodes are observed, how many of those declared can be used, and why not all; `--suggest` writes the pools that
they would be declared as.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from function.cli import gpus
from function.cli.advice import find_savings
from function.cli.guarantees import describe_guarantees, find_guarantees
from function.cli.inputs import load_inventory
from function.cli.names import complete_names
from function.cli.options import (
    EVERY_FORM,
    SELECTOR,
    WATCH,
    CliError,
    Code,
    Form,
    Sources,
    examples,
    form,
    read_name,
    sources,
)
from function.cli.pictures import draw_world
from function.cli.planning import Plan, plan_deployments
from function.cli.store import Ref, Store, read_environments
from function.cli.tables import BAD, GOOD, format_columns, format_costs, format_data, format_table, paint, print_watched
from function.domain.allocation import add_up
from function.domain.environment import Environment, format_unusable
from function.kube.quantity import gib
from function.kube.selectors import Selector

_KINDS = ("InferenceEnvironment", "ModelPlacement")
_HEADERS = (
    "ENVIRONMENT", "POOL", "READY", "NOT SCHEDULABLE", "FREE", "LENT", "LARGEST", "GPUS", "NODES", "USABLE",
    "ACCELERATOR", "MEMORY", "NETWORK", "MULTINODE", "PRICE", "LOCAL QUEUE", "USED BY",
)  # fmt: skip
_USERS_SHOWN = 2


@click.command(epilog=examples("capacity"))
@click.argument(
    "names",
    nargs=-1,
    metavar="[ENVIRONMENT]...",
    type=read_name("InferenceEnvironment"),
    shell_complete=complete_names("InferenceEnvironment"),
)
@sources
@click.option(
    "--suggest", "suggesting", is_flag=True, help="Print the nodePools that the observed nodes would be declared as."
)
@click.option("--by", type=click.Choice(("namespace", "model", "accelerator")), help="Add up, and show who uses what.")
@SELECTOR
@WATCH
@form(*EVERY_FORM, Form.SVG)
def capacity(  # noqa: PLR0913  # one for each option
    names: tuple[str, ...],
    *,
    sources: Sources,
    suggesting: bool,
    by: str | None,
    selector: Selector | None,
    watch: bool,
    form: Form,
) -> None:
    """Show environments and pools: who uses them, what is free, and the largest replica that could be placed.

    With files the deployments in them count as 'plan' would place them. Names and --selector select environments.
    """
    if by and (suggesting or form in (Form.NAME, Form.SVG)):
        raise CliError("--by adds up: leave out --suggest, and choose another --output")

    def render() -> str:
        inventory = load_inventory(sources, (*_KINDS, "Object") if suggesting else _KINDS)
        store = inventory.store
        environments = _select_environments(store, names, selector)
        if suggesting:
            return gpus.format_suggestions(store, environments).rstrip("\n")
        plans = [*plan_deployments(inventory).values()] if sources.files else []
        shown = {environment.name for environment in environments}
        all_usages = gpus.list_usages(store)
        usages = [usage for usage in all_usages if usage.environment.name in shown]
        guarantees = find_guarantees(store) if form.for_people or by == "namespace" else {}
        total = describe_guarantees(guarantees, sum(usage.gpus for usage in all_usages))
        if by:
            rows = _add_up_users(by, usages)
            if by == "namespace":
                rows = _add_guarantees(rows, guarantees)
            if by == "namespace" and any("costs" in row for row in rows):
                all_plans = plans if sources.files else plan_deployments(load_inventory(sources)).values()
                _add_up_savings(rows, all_plans)
            return _format_sums(by, rows, form, total if by == "namespace" else "")
        match form:
            case Form.TABLE | Form.WIDE:
                table = _format_table(usages, wide=form is Form.WIDE)
                return "\n\n".join(filter(None, [table, total, _describe_queues(usages)]))
            case Form.SVG:
                return draw_world(usages, plans)
            case Form.NAME:
                return "\n".join(f"inferenceenvironment.modelplane.ai/{each.name}" for each in environments)
            case _:
                return format_data(form, [gpus.build_usage_data(usage) for usage in usages])

    print_watched(render, watch=watch)


def _select_environments(store: Store, names: Sequence[str], selector: Selector | None) -> list[Environment]:
    for name in names:
        store.require(Ref("InferenceEnvironment", "", name))
    environments = [
        environment
        for environment in read_environments(store)
        if (not names or environment.name in names)
        and store.is_selected(Ref("InferenceEnvironment", "", environment.name), selector)
    ]
    if not environments:
        which = f" with {selector}" if selector else ""
        raise CliError(f"there is no InferenceEnvironment{which}. Give one with -f", Code.NOT_FOUND)
    return environments


def _add_up_users(by: str, usages: Sequence[gpus.Usage]) -> list[dict[str, Any]]:
    """Returns the GPUs in use by namespace, model or accelerator with their deployments, the largest first."""
    groups = defaultdict[str, list[tuple[gpus.Usage, gpus.Holding]]](list)
    for usage in usages:
        accelerator = usage.pool.accelerator_type if usage.pool else ""
        if by == "accelerator" and usage.pool:
            groups[accelerator] += []  # an unused accelerator has free GPUs
        for holding in usage.holdings:
            model = holding.placement.model
            namespace = holding.placement.namespace
            # A Model has the name of its namespace before its own.
            model_name = model.name if model.kind == "ClusterModel" else f"{namespace}/{model.name}"
            keys = {"namespace": namespace, "model": model_name, "accelerator": accelerator}
            groups[keys[by]].append((usage, holding))
    rows: list[dict[str, Any]] = []
    for key, group in groups.items():
        users = gpus.add_up_users(holding for _, holding in group)
        row: dict[str, Any] = {
            by: key,
            "gpus": users.total(),
            "replicas": sum(holding.share.replicas for _, holding in group),
            "environments": [*sorted({usage.environment.name for usage, _ in group})],
            "usedBy": [{"deployment": user, "gpus": gpus} for user, gpus in users.most_common()],
        }
        priced = ((usage.pool.price, holding) for usage, holding in group if usage.pool and usage.pool.price)
        if costs := add_up(price.cost(holding.share.gpus) for price, holding in priced):
            row["costs"] = costs
        if by == "accelerator":
            row["free"] = sum(usage.free for usage in usages if usage.pool and usage.pool.accelerator_type == key)
        rows.append(row)
    return sorted(rows, key=lambda row: (-row["gpus"], row[by]))


def _add_up_savings(rows: Sequence[dict[str, Any]], plans: Iterable[Plan]) -> None:
    """Adds to the row of each namespace the savings if its placements move to cheaper pools."""
    for row in rows:
        savings = (saving for plan in plans if plan.ref.namespace == row["namespace"] for saving in find_savings(plan))
        if saved := add_up(saving.cost for saving in savings):
            row["savings"] = saved


def _add_guarantees(rows: Iterable[dict[str, Any]], guarantees: Mapping[str, int]) -> list[dict[str, Any]]:
    """Returns the rows of namespaces with the GPUs that these are guaranteed; those that use none come last."""
    used = {row["namespace"]: row for row in rows}
    unused = {
        name: {"namespace": name, "gpus": 0, "replicas": 0, "environments": [], "usedBy": []} for name in guarantees
    }
    found = {**used, **{name: row for name, row in unused.items() if name not in used}}
    return [{**row, "guaranteed": guarantees[name]} if name in guarantees else row for name, row in found.items()]


def _format_sums(by: str, rows: Sequence[Mapping[str, Any]], form: Form, guaranteed: str) -> str:
    if not form.for_people:
        return format_data(form, rows)
    if not rows:
        return "no GPU is in use"
    columns = (by, "gpus", "guaranteed", "free", "replicas", "environments", "costs", "savings", "usedBy")
    titles = {"usedBy": "USED BY", "costs": "COST", "savings": "MOVING SAVES"}
    shown_columns = [column for column in columns if any(column in row for row in rows)]
    headers = {titles.get(column, column.upper()): column for column in shown_columns}
    shown = []
    for row in rows:
        users = {user["deployment"]: user["gpus"] for user in row["usedBy"]}
        used_by = gpus.format_users(users, None if form is Form.WIDE else _USERS_SHOWN)
        costs = {field: ", ".join(map(str, row.get(field, ()))) for field in ("costs", "savings")}
        shown.append({**row, **costs, "environments": len(row["environments"]), "usedBy": used_by})
    table = format_columns(headers, shown)
    total = add_up(cost for row in rows for cost in row.get("costs", ()))
    sums = [f"total {format_costs(total)}" if len(rows) > 1 and total else "", guaranteed]
    return "\n\n".join(filter(None, [table, "\n".join(filter(None, sums))]))


def _format_table(usages: Sequence[gpus.Usage], *, wide: bool) -> str:
    rows = [_build_cells(usage, None if wide else _USERS_SHOWN) for usage in usages]
    optional = ("NOT SCHEDULABLE", "LENT", "USABLE", "PRICE", "LOCAL QUEUE")
    hidden = {header for header in optional if not any(row.get(header) for row in rows)}
    hidden |= set() if wide else {"MEMORY", "NETWORK", "MULTINODE"}
    headers = [header for header in _HEADERS if header not in hidden]
    return format_table(headers, ([row.get(header) for header in headers] for row in rows))


def _describe_queues(usages: Iterable[gpus.Usage]) -> str:
    """Returns what the ledger cannot know of pools whose pods Kueue admits; empty if there are none."""
    if not any(usage.pool and usage.pool.pod.queue for usage in usages):
        return ""
    return (
        "note: Kueue admits the pods of pools with a LOCAL QUEUE; its quota is not counted here, so that it may hold "
        "pods of placements that have GPUs, and of those that FREE has room for"
    )


def _build_cells(usage: gpus.Usage, users_shown: int | None) -> dict[str, object]:
    environment, pool, capacity = usage.environment, usage.pool, usage.capacity
    ready = paint("True", GOOD) if environment.ready else paint("False", BAD)
    if pool is None or capacity is None:
        which = f"invalid: {usage.invalid.name}" if usage.invalid else "none"
        return {"ENVIRONMENT": environment.name, "READY": ready, "POOL": which}
    reasons = format_unusable(pool.facts.unusable) if pool.facts else ""
    return {
        "ENVIRONMENT": environment.name,
        "READY": ready,
        "NOT SCHEDULABLE": paint("; ".join(usage.obstacles), BAD) if usage.obstacles else "",
        "POOL": pool.name,
        "ACCELERATOR": pool.accelerator_type,
        "MEMORY": gib(pool.memory_per_gpu) if pool.memory_per_gpu else "",
        "NETWORK": pool.bandwidth or pool.interconnect,
        "MULTINODE": str(pool.multi_node).lower(),
        "NODES": f"{capacity.nodes_in_use}/{capacity.nodes}",
        "USABLE": f"{pool.usable_nodes}{f' ({reasons})' if reasons else ''}" if pool.facts else "",
        "GPUS": f"{usage.used}/{usage.gpus}",
        "FREE": usage.free,
        "LENT": usage.lent or "",
        "PRICE": pool.price or "",
        "LOCAL QUEUE": pool.pod.queue,
        "LARGEST": usage.largest,
        "USED BY": gpus.format_users(gpus.add_up_users(usage.holdings), users_shown),
    }
