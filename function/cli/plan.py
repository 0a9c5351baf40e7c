"""`plan`: shows every candidate of a deployment and the decision, and with --diff and --set what would change."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import click

from function.api.settings import parse_settings
from function.cli.composing import reconcile
from function.cli.gpus import list_usages
from function.cli.inputs import Inventory, load_inventory
from function.cli.options import EVERY_FORM, SELECTOR, Code, Form, Name, Sources, examples, form, sources
from function.cli.planning import Plan, Row, Verdict, plan_deployments
from function.cli.store import Ref
from function.cli.tables import BAD, GOOD, WAIT, format_data, format_table, paint, print_hint, wrap_lines
from function.composers.model_placement import compute_service_identity
from function.kube.manifests import JSON, Manifest, get, mapping, text
from function.kube.messages import format_count, join_with_more
from function.kube.selectors import Selector
from function.reasons import Outlook, Refused

_COLUMNS = {
    "VERDICT": "verdict", "ENVIRONMENT": "environment", "POOL": "pool", "PROFILE": "profile", "REPLICA": "replica",
    "WANTED": "required", "FOUND": "available",
}  # fmt: skip
_DATA = {name.lower(): attribute for name, attribute in _COLUMNS.items()} | {"message": "message"}
_COLOURS = {"+": GOOD, "-": BAD, "~": WAIT}


@click.command(epilog=examples("plan"))
@click.argument("deployments", metavar="[DEPLOYMENT]...", type=Name("ModelDeployment"), nargs=-1)
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
@form(*EVERY_FORM, Form.SVG)
def plan(
    deployments: tuple[str, ...], *, sources: Sources, selector: Selector | None, sets: tuple[str, ...], diff: bool,
    form: Form,
) -> Code:  # fmt: skip
    """Show where deployments would go, and why not elsewhere.

    Reads the files of -f, or the control plane without files, or both with --live. Nothing is changed.
    """
    inventory = load_inventory(sources, sets=sets)
    refs = inventory.list_deployments(deployments, selector)
    decided = _plan_all(inventory) if inventory.before else plan_deployments(inventory, refs)
    changes = _compare_plans(_plan_all(inventory.before), decided) if inventory.before else None
    plans = [plan_ for ref in refs for plan_ in decided if plan_.ref == ref]
    diffs: dict[Ref, list[str]] = {}
    if diff:
        compares_live = sources.live and sources.files
        live = _plan_all(load_inventory(replace(sources, files=()))) if compares_live else []
        for p in plans:
            restarts = [service for before in live if before.ref == p.ref for service in _list_restarts(before, p)]
            lines = (f"~ LLMInferenceService {service} restarts: pod template changes" for service in restarts)
            diffs[p.ref] = [*_list_changes(p), *lines]
    match form:
        case Form.SVG:
            from function.cli.pictures import draw_world  # noqa: PLC0415  # only where a picture is drawn

            click.echo(draw_world(list_usages(inventory.store), plans))
        case Form.JSON | Form.YAML:
            data: list[JSON] = [_build_data(p, diffs.get(p.ref)) for p in plans]
            compared: list[JSON] = [change.build_data() for change in changes or ()]
            click.echo(format_data(form, data if changes is None else {"plans": data, "changes": compared}))
        case Form.NAME:
            for manifest in (manifest for p in plans for manifest in p.placements):
                click.echo(f"modelplacement.modelplane.ai/{text(manifest, 'metadata.name')}")
        case _:
            _print_plans(plans, diffs, wide=form is Form.WIDE)
            if changes is None:  # no other command takes --set
                print_hint(_choose_next(plans, sources))
            else:
                click.echo(f"\n{_format_comparison(changes)}")
    return Code.OK if all(p.is_placed for p in plans) else Code.REFUSED


def _plan_all(inventory: Inventory) -> list[Plan]:
    return plan_deployments(inventory, inventory.store.refs("ModelDeployment"))


def _list_changes(plan_: Plan) -> Iterator[str]:
    """Returns a line for each placement that is created, deleted or gets another spec."""
    before, after = plan_.before, {key: item.manifest for key, item in plan_.outcome.composed.items()}
    for key in sorted(before.keys() | after.keys()):
        if key not in before:
            yield f"+ {_describe_placement(after[key])}"
        elif key not in after:
            yield f"- {_describe_placement(before[key])}"
        else:
            old, new = (dict(_flatten(m[key].get("spec"), "spec")) for m in (before, after))
            for path in sorted(old.keys() | new.keys()):
                if old.get(path) != new.get(path) and not path.startswith("spec.crossplane"):
                    values = f"{old.get(path, 'unset')} -> {new.get(path, 'unset')}"
                    yield f"~ {_describe_placement(after[key])} {path}: {values}"


def _describe_placement(manifest: Manifest) -> str:
    environment = text(manifest, "spec.inferenceEnvironmentRef.name")
    profile, pool = text(manifest, "spec.profile"), text(manifest, "spec.pool")
    return f"{Ref.of(manifest)} on {environment} (profile {profile}, pool {pool})"


def _flatten(value: JSON, path: str) -> Iterator[tuple[str, JSON]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flatten(item, f"{path}.{key}")
    else:
        yield path, value


def _list_restarts(before: Plan, after: Plan) -> list[str]:
    """Returns the services that are in both plans and have another spec digest, as `NAME on ENVIRONMENT`."""
    old, new = _compute_digests(before), _compute_digests(after)
    return [service for service, digest in sorted(new.items()) if old.get(service, digest) != digest]


def _compute_digests(plan_: Plan) -> dict[str, str]:
    """Returns the spec digest of each service, by `NAME on ENVIRONMENT`."""
    digests: dict[str, str] = {}
    for manifest in plan_.placements:
        call, _ = reconcile(plan_.store, manifest)
        service = compute_service_identity(call, parse_settings(call.input, call.context).value)
        if service:
            name, digest = service
            digests[f"{name} on {text(manifest, 'spec.inferenceEnvironmentRef.name')}"] = digest
    return digests


@dataclass(frozen=True, slots=True)
class Change:
    """A deployment for which another decision is made, or whose services restart."""

    before: Plan
    after: Plan
    restarts: list[str]  # services, as `NAME on ENVIRONMENT`

    @property
    def is_rescheduled(self) -> bool:
        """Whether the decision differs."""
        old, new = ((p.decision.reason, [m["spec"] for m in p.placements]) for p in (self.before, self.after))
        return old != new

    def build_data(self) -> Manifest:
        """Returns the change as JSON."""
        data: Manifest = {"namespace": self.after.ref.namespace, "name": self.after.ref.name}
        for name, p in (("before", self.before), ("after", self.after)):
            data[name] = {"reason": str(p.decision.reason), "message": p.decision.message}
        return {**data, "restarts": [*self.restarts]}

    def format(self) -> str:
        """Returns the change in lines: `+` for what is placed only now, `-` for what is no longer placed."""
        was_placed, is_placed = self.before.is_placed, self.after.is_placed
        sign = "~" if was_placed == is_placed else "+" if is_placed else "-"
        lines = [paint(f"{sign} {self.after.ref}", _COLOURS[sign])]
        if self.is_rescheduled:
            decisions = (p.decision for p in (self.before, self.after))
            old, new = (f"{decision.reason}: {decision.message.partition(chr(10))[0]}" for decision in decisions)
            lines += [f"    {old}", f" -> {new}"]
        return "\n".join([*lines, *(f"    restarts {service}: pod template changes" for service in self.restarts)])


def _compare_plans(before: Iterable[Plan], after: Iterable[Plan]) -> list[Change]:
    """Returns what differs between two decisions on the same deployments."""
    changes = (Change(old, new, _list_restarts(old, new)) for old, new in zip(before, after, strict=True))
    return [change for change in changes if change.is_rescheduled or change.restarts]


def _format_comparison(changes: list[Change]) -> str:
    if not changes:
        return "nothing changes"
    rescheduled = sum(change.is_rescheduled for change in changes)
    restarted = sum(len(change.restarts) for change in changes)
    sums = [f"{format_count(rescheduled, 'deployment')} would be scheduled differently"] if rescheduled else []
    sums += [f"{format_count(restarted, 'service')} to restart"] if restarted else []
    return "\n".join((*(change.format() for change in changes), "", ", ".join(sums)))


def _print_plans(plans: list[Plan], diffs: Mapping[Ref, list[str]], *, wide: bool) -> None:
    for number, plan_ in enumerate(plans):
        decision = plan_.decision
        colour = GOOD if plan_.is_placed else WAIT if _is_waiting(decision.reason) else BAD
        parts = [f"{plan_.ref}: {paint(decision.reason, colour)}\n{wrap_lines(decision.message, 4)}"]
        if plan_.rows:
            columns = _COLUMNS | ({"WHY": "message"} if wide else {})
            rows = ({**_build_cells(row, columns), "VERDICT": _paint_verdict(row)} for row in plan_.rows)
            parts.insert(0, format_table([*columns], (row.values() for row in rows)))
        parts += [wrap_lines(f"note: {remark}", 4) for remark in plan_.remarks]
        if plan_.ref in diffs:
            lines = [paint(line, _COLOURS[line[0]]) for line in diffs[plan_.ref]]
            parts.append("\n".join(lines) or "nothing changes")
        click.echo(("\n" if number else "") + "\n\n".join(parts))
    if len(plans) > 1:
        _print_summary(plans)


def _print_summary(plans: list[Plan]) -> None:
    by_reason: dict[tuple[bool, str], list[str]] = defaultdict(list)
    for p in plans:
        by_reason[not p.is_placed, str(p.decision.reason)].append(f"{p.ref.namespace}/{p.ref.name}")
    click.echo(f"\n{format_count(len(plans), 'deployment')}")
    for (refused, reason), names in sorted(by_reason.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1])):
        which = f": {join_with_more(names)}" if refused else ""
        click.echo(f"  {len(names)} {paint(reason, BAD if refused else GOOD)}{which}")


def _choose_next(plans: list[Plan], sources: Sources) -> str:
    options = sources.file_options + (" --live" if sources.live else "")
    refused = next((p for p in plans if not p.is_placed), None)
    if refused:
        return f"why {refused.ref.name} -n {refused.ref.namespace}{options}"
    return f"render{options}" if options else f"tree {plans[0].ref.name} -n {plans[0].ref.namespace}"


def _is_waiting(reason: str) -> bool:
    return reason in tuple(Refused) and Refused(reason).outlook is Outlook.NOT_NOW


def _build_cells(row: Row, columns: Mapping[str, str]) -> Manifest:
    return {name: getattr(row, attribute) for name, attribute in columns.items()}


def _paint_verdict(row: Row) -> str:
    colour = GOOD if row.serves else WAIT if _is_waiting(row.verdict) else BAD
    return row.verdict if row.verdict == Verdict.FITS else paint(row.verdict, colour)


def _build_data(plan_: Plan, diff: list[str] | None) -> JSON:
    data: Manifest = {
        "namespace": plan_.ref.namespace,
        "name": plan_.ref.name,
        "placed": plan_.is_placed,
        "reason": plan_.decision.reason,
        "message": plan_.decision.message,
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
        "candidates": [_build_cells(row, _DATA) for row in plan_.rows],
        "remarks": [*plan_.remarks],
    }
    return data if diff is None else {**data, "changes": [*diff]}
