"""`why`: explains why a deployment is not placed or not ready, and why an endpoint gets no requests.

If a deployment of a control plane is refused, the other objects are read as well, to find all ways out as `plan
--ways-out` does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import groupby

import click

from function.cli import tables
from function.cli.advice import list_ways_out
from function.cli.inputs import load_inventory
from function.cli.names import complete_names
from function.cli.options import (
    SELECTOR,
    WATCH,
    CliError,
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
from function.cli.planning import compose_files, list_subjects, plan_deployments
from function.cli.reports import (
    Reason,
    Report,
    add_ways_out,
    build_plan_report,
    read_deployment_report,
    read_service_report,
)
from function.kube.manifests import JSON, Manifest, text
from function.kube.messages import MAX_ITEMS, format_count, join_with_more
from function.kube.selectors import Selector

_KINDS = ("ModelDeployment", "ModelPlacement", "ModelService")
_NAMES = 4  # environments that a group names


@click.command(epilog=examples("why"))
@click.argument(
    "subject",
    metavar="[DEPLOYMENT]",
    type=read_namespaced("ModelDeployment", "ModelService"),
    required=False,
    shell_complete=complete_names("ModelDeployment", "ModelService"),
)
@sources
@SELECTOR
@click.option("--all", "show_all", is_flag=True, help="Every environment; more than five are grouped otherwise.")
@WATCH
@form(Form.TABLE, Form.JSON, Form.YAML)
def why(
    subject: Name | None, *, sources: Sources, selector: Selector | None, show_all: bool, watch: bool, form: Form
) -> Code:
    """Say why a deployment is not placed or not ready, and what to change. Exits 1 where it is not placed.

    Without files it shows what the controller reports, and reads only deployments, placements and ModelServices of the
    namespace. If the deployment is not placed, it also reads all environments, models and placements, where it may, to
    list the ways out. A name that no deployment has may be that of a ModelService: then it says why endpoints get no
    requests. With -A and without a name, it shows every deployment.
    """
    is_list = subject is None and sources.all_namespaces

    def build() -> list[Report]:
        inventory = load_inventory(sources.narrow(subject), _KINDS, one_namespace=not sources.files)
        refs = list_subjects(inventory, subject, selector, all_namespaces=sources.all_namespaces)
        if [ref.kind for ref in refs] == ["ModelService"]:
            if sources.files:
                compose_files(inventory)
            return [read_service_report(inventory.store[ref]) for ref in refs]
        if sources.files:
            plans = plan_deployments(inventory, refs)
            return [build_plan_report(plan, list_ways_out(plan)) for plan in plans.values()]
        return _find_ways_out([read_deployment_report(inventory.store, ref) for ref in refs], sources)

    def render(reports: Sequence[Report]) -> str:
        if form is Form.TABLE:
            return "\n\n".join("\n".join(_list_lines(report, show_all=show_all)) for report in reports)
        data = [_build_data(report) for report in reports]
        return tables.format_data(form, data if is_list else data[0])

    if watch:
        tables.print_watched(lambda: render(build()), watch=watch)
    reports = build()
    click.echo(render(reports))
    return Code.OK if all(report.is_placed for report in reports) else Code.REFUSED


def _build_data(report: Report) -> Manifest:
    reasons: list[JSON] = [asdict(reason) for reason in (*report.unready, *report.refusals)]
    data: Manifest = {"namespace": report.ref.namespace, "name": report.ref.name}
    return {**data, "conditions": [*report.conditions], "reasons": reasons}


def _find_ways_out(reports: Sequence[Report], sources: Sources) -> list[Report]:
    """Returns reports with the ways out under their environments, or with a note if the caller may not read them."""
    refused = [report.ref for report in reports if report.refusals]
    if not refused:
        return [*reports]
    try:
        plans = plan_deployments(load_inventory(sources), refused)
        ways_out = {ref: list_ways_out(plan) for ref, plan in plans.items()}
    except CliError as error:
        note = f"note: only what the controller found is shown, without placements to move: {error.message}"
        is_noted = not is_quiet()
        return [replace(r, notes=(*r.notes, note)) if r.refusals and is_noted else r for r in reports]
    return [add_ways_out(r, ways_out[r.ref], plans[r.ref]) if r.refusals else r for r in reports]


def _list_lines(report: Report, *, show_all: bool) -> Iterator[str]:
    """Returns the conditions, then a block per reason; many environments are grouped by reason unless `show_all`."""
    yield f"{report.ref}: {tables.paint(report.verdict, tables.GOOD if report.is_placed else tables.BAD)}"
    for each in report.conditions:
        yield tables.format_condition(each, _shorten(text(each, "message")))
    is_grouped = len(report.refusals) > MAX_ITEMS and not show_all
    reasons = (*report.unready, *(() if is_grouped else report.refusals))
    for number, reason in enumerate(reasons, 1):
        outlook = f" {tables.paint(f'({reason.outlook})', tables.DIM)}" if reason.outlook else ""
        title = f"{reason.subject}: {tables.paint(reason.reason, tables.BAD)}{outlook}"
        yield from _list_block(number, title, reason)
    notes = [tables.wrap_lines(f"  {note}", 4) for note in report.notes]
    if notes and not report.refusals:
        yield from notes
    if is_grouped:
        groups = groupby(report.refusals, key=lambda refusal: refusal.reason)
        for number, (reason, group) in enumerate(groups, len(reasons) + 1):
            nearest, *others = group
            names = (member.subject.partition(",")[0] for member in (nearest, *others))
            count = format_count(1 + len(others), "environment")
            title = f"{count}: {tables.paint(reason, tables.BAD)} ({nearest.outlook})"
            yield from _list_block(number, title, nearest, [join_with_more([*names], _NAMES)], f"{nearest.subject}: ")
    if notes and report.refusals:
        yield ""  # a note is about no single environment
        yield from notes
    if is_grouped:
        yield "\nEvery environment: --all"


def _shorten(message: str) -> str:
    """Returns the first line of a message with its notes; the lines between are shown as reasons."""
    first, _, others = message.partition("\n")
    _, is_noted, notes = others.rpartition(". Note: ")
    return f"{first} Note: {notes}" if is_noted else first


def _list_block(number: int, title: str, reason: Reason, lines: Sequence[str] = (), subject: str = "") -> Iterator[str]:
    yield f"\n{tables.wrap_lines(f'{number}. {title}', 3)}"
    words = ("do", *["or"] * len(reason.remedies))
    remedies = (f"{tables.paint(word, tables.GOOD)}: {r}" for word, r in zip(words, reason.remedies, strict=False))
    for line in (*lines, *(f"- {subject}{fault}" for fault in reason.faults), *remedies):
        yield tables.wrap_lines(f"   {line}", 5)
