"""`plan`: shows every candidate of a deployment and the decision, and with --diff and --set what would change."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from function.api.problems import SPECS, validate
from function.api.settings import parse_settings
from function.cli.advice import list_remarks, list_ways_out
from function.cli.composing import reconcile
from function.cli.gpus import list_usages
from function.cli.inputs import load_inventory
from function.cli.names import complete_names
from function.cli.options import (
    EVERY_FORM,
    SELECTOR,
    Code,
    Form,
    Name,
    Sources,
    examples,
    form,
    is_quiet,
    read_namespaced,
    sources,
)
from function.cli.planning import FITS, Plan, Row, plan_deployments
from function.cli.store import Ref
from function.cli.tables import BAD, GOOD, WAIT, format_costs, format_data, format_table, paint, wrap_lines
from function.composers.model_placement import compute_service_identity
from function.domain.allocation import add_up
from function.kube.manifests import Manifest, get, mapping, text
from function.kube.messages import format_count, join_with_more
from function.kube.selectors import Selector
from function.reasons import Outlook, Refused, Scheduled
from function.remote.composed_kinds import PROVIDER_USAGE_KIND
from function.scheduling.turns import sort_by_turn, sort_turns
from function.scheduling.ways_out import WayOut

_COLUMNS = {
    "VERDICT": "verdict", "ENVIRONMENT": "environment", "POOL": "pool", "PROFILE": "profile", "REPLICA": "replica",
    "WANTED": "required", "FOUND": "available",
}  # fmt: skip
_DATA = {name.lower(): attribute for name, attribute in _COLUMNS.items()} | {"message": "message", "cost": "cost"}
_COLOURS = {"+": GOOD, "-": BAD, "~": WAIT}


@click.command(epilog=examples("plan"))
@click.argument(
    "deployments",
    metavar="[DEPLOYMENT]...",
    type=read_namespaced("ModelDeployment"),
    nargs=-1,
    shell_complete=complete_names("ModelDeployment"),
)
@sources
@SELECTOR
@click.option(
    "--set",
    "sets",
    metavar="ENVIRONMENT/POOL.FIELD=VALUE",
    multiple=True,
    help="Another value, such as us-east/h100.nodeCount=8.",
)
@click.option("--diff", is_flag=True, help="Show what would change against the placements that exist.")
@click.option("--ways-out", is_flag=True, help="List every change after which a refused deployment would fit.")
@form(*EVERY_FORM, Form.SVG)
def plan(  # noqa: PLR0913  # one for each option
    deployments: tuple[Name, ...], *, sources: Sources, selector: Selector | None, sets: tuple[str, ...], diff: bool,
    ways_out: bool, form: Form,
) -> Code:  # fmt: skip
    """Show where deployments would go, and why not elsewhere.

    Reads the files of -f, or the control plane without files, or both with --live. Nothing is changed.
    """
    for name in deployments:
        sources.narrow(name)  # a contradiction of -n; all namespaces are read in any case
    inventory = load_inventory(sources, sets=sets)
    refs = inventory.list_deployments(deployments, selector)
    decided = plan_deployments(inventory, None if inventory.before else refs)
    compared = _compare_plans(plan_deployments(inventory.before), decided) if inventory.before else None
    plans = [decided[ref] for ref in refs]
    diffs: dict[Ref, list[str]] = {}
    if diff:
        compares_live = sources.live and sources.files
        live = plan_deployments(load_inventory(replace(sources, files=()))) if compares_live else {}
        for p in plans:
            restarts = _list_restarts(live[p.ref], p) if p.ref in live else {}
            diffs[p.ref] = [*_list_changes(p), *_describe_restarts(p, restarts)]
    ways = {p.ref: list_ways_out(p) for p in plans if ways_out and not p.is_placed}
    match form:
        case Form.SVG:
            from function.cli.pictures import draw_world  # noqa: PLC0415  # only where a picture is drawn

            click.echo(draw_world(list_usages(inventory.store), plans))
        case Form.JSON | Form.YAML:
            data = [_build_data(p, diffs.get(p.ref), ways.get(p.ref)) for p in plans]
            click.echo(format_data(form, data if compared is None else {"plans": data, "changes": [*compared]}))
        case Form.NAME:
            for manifest in (manifest for p in plans for manifest in p.placements):
                click.echo(f"modelplacement.modelplane.ai/{text(manifest, 'metadata.name')}")
        case _:
            _print_plans(plans, diffs, ways, wide=form is Form.WIDE)
            if compared is not None:
                click.echo(f"\n{_format_changes(compared)}")
    return Code.OK if all(p.is_placed for p in plans) else Code.REFUSED


def _list_changes(plan_: Plan) -> Iterator[str]:
    """Returns a line for each placement or ModelService that is created, deleted or gets another spec."""
    composed = {key: item.manifest for key, item in plan_.outcome.composed.items()}
    before, after = (
        {key: manifest for key, manifest in resources.items() if text(manifest, "kind") != PROVIDER_USAGE_KIND}
        for resources in (plan_.call.observed, composed)
    )
    for key in sorted(before.keys() | after.keys()):
        if key not in before:
            yield f"+ {_describe_composed(after[key])}"
        elif key not in after:
            yield f"- {_describe_composed(before[key])}"
        else:
            old, new = (_complete_spec(m[key]) for m in (before, after))
            for field in sorted(old.keys() | new.keys()):
                if old.get(field) != new.get(field):
                    values = (json.dumps(spec[field]) if field in spec else "unset" for spec in (old, new))
                    yield f"~ {_describe_composed(after[key])} spec.{field}: {' -> '.join(values)}"


def _complete_spec(manifest: Manifest) -> Manifest:
    """Returns the spec of what is composed with the defaults that the API server adds."""
    spec, _ = validate(SPECS[text(manifest, "kind")], manifest.get("spec"), "spec")
    return spec.model_dump(by_alias=True, exclude_none=True, warnings=False)


def _describe_restarts(plan_: Plan, restarts: Mapping[str, str]) -> Iterator[str]:
    """Returns a line for each service that restarts, by its environment, and the order if they change one by one."""
    request = plan_.scheduling.request if plan_.scheduling else None
    order = sorted(restarts)
    rollout = request.deployment.rollout if request else None
    if request and rollout:
        placements = [request.to_placement(assignment) for assignment in plan_.decision.assignments]
        turns = sort_turns(rollout, placements)
        changing = restarts or {p.environment for p in (*turns.changing, *turns.waiting)}
        order = [p.environment for p in sort_by_turn(rollout, placements) if p.environment in changing]
    for name in order if restarts else ():
        yield f"~ LLMInferenceService {restarts[name]} on {name} restarts: pod template changes"
    if rollout and order:
        gate = rollout.gate if len(order) > 1 else None
        condition = f"; after the first, {gate.kind} {gate.name} must have {gate.condition}=True" if gate else ""
        yield f"~ one environment after the other: {', '.join(order)}{condition}{'; paused' if rollout.paused else ''}"


def _describe_composed(manifest: Manifest) -> str:
    if text(manifest, "kind") != "ModelPlacement":
        return str(Ref.of(manifest))
    environment = text(manifest, "spec.inferenceEnvironmentRef.name")
    profile = text(manifest, "spec.profile")
    pool = text(manifest, "spec.pool")
    return f"{Ref.of(manifest)} on {environment} (profile {profile}, pool {pool})"


def _list_restarts(before: Plan, after: Plan) -> dict[str, str]:
    """Returns the services that are in both plans and have another spec digest, by environment."""

    def compute_digests(plan_: Plan) -> Iterator[tuple[tuple[str, str], str]]:
        for manifest in plan_.placements:
            call, _ = reconcile(plan_.store, manifest)
            if service := compute_service_identity(call, parse_settings(call.input, call.context).value):
                name, digest = service
                yield (text(manifest, "spec.inferenceEnvironmentRef.name"), name), digest

    old = dict(compute_digests(before))
    new = dict(compute_digests(after))
    return dict(service for service, digest in sorted(new.items()) if old.get(service, digest) != digest)


def _compare_plans(before: Mapping[Ref, Plan], after: Mapping[Ref, Plan]) -> list[dict[str, Any]]:
    """Returns the deployments for which another decision is made, or whose services restart."""
    changes: list[dict[str, Any]] = []
    for ref, old in before.items():
        new = after[ref]
        was, now = ((p.condition.reason, [manifest["spec"] for manifest in p.placements]) for p in (old, new))
        restarts = [f"{name} on {environment}" for environment, name in _list_restarts(old, new).items()]
        if was != now or restarts:
            change = {"namespace": ref.namespace, "name": ref.name, "rescheduled": was != now}
            for when, p in (("before", old), ("after", new)):
                change[when] = {"reason": p.condition.reason, "message": p.condition.message}
            changes.append({**change, "restarts": restarts})
    return changes


def _format_changes(changes: Sequence[Mapping[str, Any]]) -> str:
    """Returns the changes in lines: `+` for what is placed only now, `-` for what is no longer placed."""
    if not changes:
        return "nothing changes"
    lines = []
    for change in changes:
        was_placed, is_placed = (change[when]["reason"] == Scheduled.PLACED for when in ("before", "after"))
        sign = "~" if was_placed == is_placed else "+" if is_placed else "-"
        lines.append(paint(f"{sign} {Ref('ModelDeployment', change['namespace'], change['name'])}", _COLOURS[sign]))
        for start, when in (("    ", "before"), (" -> ", "after")) if change["rescheduled"] else ():
            lines.append(f"{start}{change[when]['reason']}: {change[when]['message'].partition(chr(10))[0]}")
        lines += [f"    restarts {service}: pod template changes" for service in change["restarts"]]
    rescheduled = sum(change["rescheduled"] for change in changes)
    restarted = sum(len(change["restarts"]) for change in changes)
    sums = [f"{format_count(rescheduled, 'deployment')} would be scheduled differently"] if rescheduled else []
    sums += [f"{format_count(restarted, 'service')} to restart"] if restarted else []
    return "\n".join((*lines, "", ", ".join(sums)))


def _print_plans(
    plans: list[Plan], diffs: Mapping[Ref, list[str]], ways: Mapping[Ref, Sequence[WayOut]], *, wide: bool
) -> None:
    is_priced = any(row.cost for plan_ in plans for row in plan_.rows)
    columns = _COLUMNS | ({"COST": "cost"} if is_priced else {}) | ({"WHY": "message"} if wide else {})
    by_reason = defaultdict[tuple[bool, str], list[str]](list)
    for number, plan_ in enumerate(plans):
        condition = plan_.condition
        colour = GOOD if plan_.is_placed else _choose_colour(condition.reason)
        parts = [f"{plan_.ref}: {paint(condition.reason, colour)}\n{wrap_lines(condition.message, 4)}"]
        if plan_.rows:
            table = format_table([*columns], (_format_cells(row, columns) for row in plan_.rows))
            parts.insert(0, table)
        if plan_.costs:
            parts[-1] += f"\n{format_costs(plan_.costs)}"
        parts += [wrap_lines(f"note: {remark}", 4) for remark in list_remarks(plan_) if not is_quiet()]
        if ways.get(plan_.ref):
            numbered = [wrap_lines(f"{n}. {way.message}", 3) for n, way in enumerate(ways[plan_.ref], 1)]
            parts.append("\n".join(["ways out, cheapest first:", *numbered]))
        elif plan_.ref in ways and not plan_.is_advised:
            parts.append("no single change was found that helps")
        if plan_.ref in diffs:
            lines = [paint(line, _COLOURS[line[0]]) for line in diffs[plan_.ref]]
            parts.append("\n".join(lines) or "nothing changes")
        click.echo(("\n" if number else "") + "\n\n".join(parts))
        by_reason[not plan_.is_placed, str(condition.reason)].append(f"{plan_.ref.namespace}/{plan_.ref.name}")
    if len(plans) > 1:
        click.echo(f"\n{format_count(len(plans), 'deployment')}")
        for (refused, reason), names in sorted(by_reason.items(), key=lambda item: (item[0][0], -len(item[1]))):
            which = f": {join_with_more(names)}" if refused else ""
            click.echo(f"  {len(names)} {paint(reason, BAD if refused else GOOD)}{which}")
        if costs := add_up(cost for plan_ in plans for cost in plan_.costs):
            click.echo(f"  {format_costs(costs)}")


def _choose_colour(reason: str) -> str:
    is_waiting = reason in tuple(Refused) and Refused(reason).outlook is Outlook.CAN_WAIT
    return WAIT if is_waiting else BAD


def _format_cells(row: Row, columns: Mapping[str, str]) -> Iterator[str]:
    colour = GOOD if row.serves else _choose_colour(row.verdict)
    yield row.verdict if row.verdict == FITS else paint(row.verdict, colour)
    yield from (getattr(row, attribute) or "" for header, attribute in columns.items() if header != "VERDICT")


def _build_data(plan_: Plan, diff: list[str] | None, ways: Sequence[WayOut] | None) -> Mapping[str, object]:
    data: dict[str, object] = {
        "namespace": plan_.ref.namespace,
        "name": plan_.ref.name,
        "placed": plan_.is_placed,
        "reason": plan_.condition.reason,
        "message": plan_.condition.message,
        "placements": [
            {
                "name": text(manifest, "metadata.name"),
                "environment": text(manifest, "spec.inferenceEnvironmentRef.name"),
                "profile": text(manifest, "spec.profile"),
                "pool": text(manifest, "spec.pool"),
                "topology": mapping(manifest, "spec.topology"),
                "replicas": get(manifest, "spec.replicas"),
            }
            for manifest in plan_.placements
        ],
        "costs": plan_.costs,
        "candidates": [{name: getattr(row, attribute) for name, attribute in _DATA.items()} for row in plan_.rows],
        "remarks": list_remarks(plan_),
    }
    if ways is not None:
        data["waysOut"] = [
            {"way": str(way.way), "environment": way.refusal.environment, "message": way.message} for way in ways
        ]
    return data if diff is None else {**data, "changes": [*diff]}
