"""`why`: explains why a deployment is not placed or not ready, and why an endpoint of a ModelService gets no requests.

On a live control plane this is what the controller wrote into the status of the deployment and its placements. If the
deployment is refused, the other objects are read as well, to find all ways out as `plan --ways-out` does. From files
the deployment is decided, which also tells what to do about each refusal.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

import click

from function.cli import tables
from function.cli.advice import explain_preference, list_ways_out
from function.cli.composing import list_conditions
from function.cli.inputs import Inventory, load_inventory
from function.cli.options import (
    SELECTOR,
    WATCH,
    CliError,
    Code,
    Form,
    Sources,
    examples,
    form,
    is_quiet,
    read_subject,
    sources,
)
from function.cli.planning import compose_files, find_subject, plan_deployments
from function.cli.store import Ref, Store, is_ours, read_conditions
from function.kube.manifests import JSON, Manifest, condition, get, listing, text
from function.kube.messages import MAX_ITEMS, format_count, join_with_more
from function.kube.selectors import Selector
from function.reasons import Outlook, Refused, ScaledAsRequested, Scheduled, Status
from function.scheduling.ways_out import WayOut

_KINDS = ("ModelDeployment", "ModelPlacement", "ModelService")
_NAMES = 4  # environments that a group names
_ENVIRONMENT = re.compile(r"\bInferenceEnvironment ([a-z0-9.-]*[a-z0-9])")
_RANKS = {str(reason): reason.rank for reason in Refused}  # nearest last; a later release may have other reasons
_OUTLOOKS = {Outlook.NEVER: "unschedulable", Outlook.CAN_WAIT: "waiting"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """The reason why one environment or placement does not serve."""

    subject: str  # the deployment, an environment with its profile, or a placement
    reason: str  # a reason of the API
    outlook: str = ""  # whether waiting can help; of a placement its phase
    faults: tuple[str, ...]
    remedies: tuple[str, ...] = ()  # alternative changes that each clear the reason, the cheapest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    ref: Ref
    conditions: tuple[Manifest, ...]
    refusals: tuple[Reason, ...]  # by environments, nearest first
    unready: tuple[Reason, ...]  # the deployment itself where it has a fault; placements and endpoints not ready
    notes: tuple[str, ...] = ()

    @property
    def is_placed(self) -> bool:
        """Tells whether the deployment has all placements that it requests, or every endpoint may get requests."""
        statuses = {c["type"]: c["status"] for c in self.conditions}
        types = ("Scheduled",) if self.ref.kind == "ModelDeployment" else ("EndpointsReady", "RouteReady")
        return all(statuses.get(type_) == Status.TRUE for type_ in types)

    @property
    def verdict(self) -> str:
        if any(c["reason"] in {Scheduled.PARTIALLY_PLACED, ScaledAsRequested.LIMITED} for c in self.conditions):
            return "partially placed"
        words = "placed" if self.ref.kind == "ModelDeployment" else "serving on all endpoints"
        return words if self.is_placed else f"not {words}"


@click.command(epilog=examples("why"))
@click.argument("subject", metavar="[DEPLOYMENT]", type=read_subject, required=False)
@sources
@SELECTOR
@click.option("--all", "show_all", is_flag=True, help="Every environment; more than five are grouped otherwise.")
@WATCH
@form(Form.TABLE, Form.JSON, Form.YAML)
def why(
    subject: tuple[str, str] | None,
    *,
    sources: Sources,
    selector: Selector | None,
    show_all: bool,
    watch: bool,
    form: Form,
) -> Code:
    """Say why a deployment is not placed or not ready, and what to change. Exits 1 where it is not placed.

    Without files it shows what the controller reports, and reads only deployments, placements and ModelServices of the
    namespace. If the deployment is not placed, it also reads all environments, models and placements, where it may, to
    list the ways out. A name that no deployment has may be that of a ModelService: then it says why endpoints get no
    requests.
    """

    def build() -> Report:
        inventory = load_inventory(sources, _KINDS, one_namespace=not sources.files)
        ref = find_subject(inventory, subject, selector)
        if ref.kind == "ModelService":
            if sources.files:
                compose_files(inventory)
            return _read_service_report(inventory.store[ref])
        if sources.files:
            return _decide_report(inventory, ref)
        report = _read_deployment_report(inventory.store, ref)
        return _add_ways_out(report, sources) if report.refusals else report

    def render(report: Report) -> str:
        if form is Form.TABLE:
            return "\n".join(_list_lines(report, show_all=show_all))
        reasons: list[JSON] = [asdict(reason) for reason in (*report.unready, *report.refusals)]
        data: Manifest = {"namespace": report.ref.namespace, "name": report.ref.name}
        return tables.format_data(form, {**data, "conditions": [*report.conditions], "reasons": reasons})

    if watch:
        tables.print_watched(lambda: render(build()), watch=watch)
    report = build()
    click.echo(render(report))
    return Code.OK if report.is_placed else Code.REFUSED


def _read_service_report(service: Manifest) -> Report:
    """Reads what the controller wrote into the status of a ModelService: a reason for each endpoint and placement."""
    unready = []
    for row in listing(service, "status.endpoints"):
        rows = [row] if not get(row, "weight") else listing(row, "backends")
        unready += [
            Reason(
                subject=" on ".join(filter(None, (text(each, "placement"), text(row, "environment")))),
                reason=text(row, "state"),
                faults=(text(each, "reason"),),
            )
            for each in rows
            if text(each, "reason")
        ]
    return Report(ref=Ref.of(service), conditions=read_conditions(service), refusals=(), unready=tuple(unready))


def _read_deployment_report(store: Store, ref: Ref) -> Report:
    """Reads what the controller wrote into the status of a deployment and its placements."""
    conditions = read_conditions(store[ref])
    refusals = [
        Reason(
            subject=text(row, "environment"),
            reason=text(row, "reason"),
            outlook=_OUTLOOKS[Refused(text(row, "reason")).outlook] if text(row, "reason") in _RANKS else "",
            faults=(text(row, "message"),),
        )
        for row in listing(store[ref], "status.unplaced")
    ]
    environments = {refusal.subject for refusal in refusals}
    scheduled = text(condition(store[ref], "Scheduled"), "message").splitlines()[1:]
    notes = [line for line in scheduled if line.partition(":")[0] not in environments]
    advice = {line: match[1] for line in notes if (match := _ENVIRONMENT.search(line)) and match[1] in environments}
    refusals = [
        replace(refusal, remedies=tuple(line for line, environment in advice.items() if environment == refusal.subject))
        for refusal in refusals
    ]
    notes = [line for line in notes if line not in advice]
    if not conditions:
        notes = ["the controller has not reported anything yet: check that Crossplane and the function run"]
    return Report(
        ref=ref,
        conditions=conditions,
        refusals=tuple(sorted(refusals, key=lambda each: (-_RANKS.get(each.reason, -1), each.subject))),
        unready=tuple(_find_unready(store, ref)),
        notes=tuple(notes),
    )


def _add_ways_out(report: Report, sources: Sources) -> Report:
    """Returns the report with the ways out under their environments, or with a note if the caller may not read them."""
    try:
        inventory = load_inventory(sources)
        ways_out = list_ways_out(plan_deployments(inventory, [report.ref])[report.ref])
    except CliError as error:
        note = f"note: only what the controller found is shown, without placements to move: {error.message}"
        return report if is_quiet() else replace(report, notes=(*report.notes, note))
    refusals = tuple(
        replace(refusal, remedies=_select_remedies(ways_out, refusal.subject) or refusal.remedies)
        for refusal in report.refusals
    )
    return replace(report, refusals=refusals, notes=(*report.notes, *_note_cheapest(ways_out, refusals)))


def _select_remedies(ways_out: Iterable[WayOut], environment: str) -> tuple[str, ...]:
    return tuple(way.message for way in ways_out if way.refusal.environment == environment)


def _note_cheapest(ways_out: Sequence[WayOut], refusals: Iterable[Reason]) -> list[str]:
    """Returns the cheapest way out, if the nearest environment that has one has only others."""
    first = next((remedy for refusal in refusals for remedy in refusal.remedies), "")
    return [f"cheapest: {ways_out[0].message}"] if ways_out and ways_out[0].message != first else []


def _decide_report(inventory: Inventory, ref: Ref) -> Report:
    """Decides a deployment and returns every refusal with what to do about it."""
    plan = plan_deployments(inventory, [ref])[ref]
    decision = plan.decision
    ways_out = list_ways_out(plan)
    refusals = tuple(
        Reason(
            subject=", profile ".join(filter(None, (infeasible.environment, infeasible.refusals[0].profile))),
            reason=infeasible.reason,
            faults=tuple(refusal.message for refusal in infeasible.refusals),
            # The ways out of the refusal, else what to do about it.
            remedies=_select_remedies(ways_out, infeasible.environment) or tuple(filter(None, [infeasible.remedy])),
            outlook=_OUTLOOKS[infeasible.outlook],
        )
        for infeasible in decision.unresolved
    )
    refusal = decision.general_refusal
    faults = [Reason(subject=str(ref), reason=refusal.reason, faults=(refusal.message,))] if refusal else []
    return Report(
        ref=ref,
        conditions=tuple(list_conditions(plan.outcome)),
        refusals=refusals,
        unready=(*faults, *_find_unready(inventory.store, ref)),
        notes=(
            *_note_cheapest(ways_out, refusals),
            *(() if is_quiet() else (f"note: {remark}" for remark in explain_preference(plan.rows))),
        ),
    )


def _find_unready(store: Store, ref: Ref) -> Iterator[Reason]:
    """Returns what a deployment composed with the conditions that are not True; planned placements have none yet."""
    for manifest in filter(is_ours, store.owned(ref).values()):
        owned = Ref.of(manifest)
        environment = text(manifest, "spec.inferenceEnvironmentRef.name")
        faults = [c for c in read_conditions(manifest) if c["status"] != Status.TRUE]
        if faults:
            yield Reason(
                subject=f"{owned.name} on {environment}" if environment else str(owned),
                reason=text(faults[0], "reason"),
                faults=tuple(f"{c['type']} is {c['status']}: {c['message']}" for c in faults),
                outlook=text(manifest, "status.phase"),
            )


def _list_lines(report: Report, *, show_all: bool) -> Iterator[str]:
    """Returns the conditions, then a block per reason; many environments are grouped by reason unless `show_all`."""
    yield f"{report.ref}: {tables.paint(report.verdict, tables.GOOD if report.is_placed else tables.BAD)}"
    for each in report.conditions:
        yield tables.format_condition(each, text(each, "message").partition("\n")[0])
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


def _list_block(number: int, title: str, reason: Reason, lines: Sequence[str] = (), subject: str = "") -> Iterator[str]:
    yield f"\n{tables.wrap_lines(f'{number}. {title}', 3)}"
    words = ("do", *["or"] * len(reason.remedies))
    remedies = (f"{tables.paint(word, tables.GOOD)}: {r}" for word, r in zip(words, reason.remedies, strict=False))
    for line in (*lines, *(f"- {subject}{fault}" for fault in reason.faults), *remedies):
        yield tables.wrap_lines(f"   {line}", 5)
