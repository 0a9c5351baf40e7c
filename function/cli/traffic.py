"""`traffic`: which part of the requests each endpoint of a ModelService gets, and the reason for every zero."""

from dataclasses import asdict

import click

from function.api.model_service import parse_model_service
from function.cli.inputs import Inventory, load_inventory
from function.cli.options import WATCH, CliError, Code, Form, Sources, examples, form, read_name, sources
from function.cli.planning import compose_files
from function.cli.store import Ref, refuse_unknown
from function.cli.tables import STATUS_COLOURS, format_data, format_table, paint, print_watched, wrap_lines
from function.domain.model_service import ModelService
from function.kube.manifests import Manifest, listing, text
from function.status.conditions import OWNED


@click.command(epilog=examples("traffic"))
@click.argument("service", type=read_name("ModelService"), required=False)
@sources
@WATCH
@form(Form.TABLE, Form.JSON, Form.YAML)
def traffic(service: str | None, *, sources: Sources, watch: bool, form: Form) -> None:
    """Show which part of the requests each endpoint of a ModelService gets, and why an endpoint gets none.

    Without files it shows what the controller reports. From files it shows what would be once everything is up.
    """

    def render() -> str:
        kinds = "ModelService", "ModelDeployment", "ModelPlacement"
        inventory = load_inventory(sources, kinds, one_namespace=True)
        if sources.files:
            compose_files(inventory)
        manifest = inventory.store[_find_service(inventory, service)]
        parsed = parse_model_service(manifest)
        if parsed.value is None:
            raise CliError(f"{Ref.of(manifest)}: {'; '.join(map(str, parsed.problems))}", Code.REFUSED)
        if not form.for_people:
            return format_data(form, [asdict(entry) for entry in parsed.value.entries])
        return _format(manifest, parsed.value)

    print_watched(render, watch=watch)


def _find_service(inventory: Inventory, name: str | None) -> Ref:
    refs = [ref for ref in inventory.store.refs("ModelService") if inventory.in_scope(ref)]
    matching = [ref for ref in refs if name in (None, ref.name)]
    if len(matching) != 1:
        message = f"there is no ModelService {name}" if name and not matching else "name a ModelService"
        raise refuse_unknown(message, name or "", [ref.name for ref in refs])
    return matching[0]


def _format(manifest: Manifest, service: ModelService) -> str:
    total = sum(entry.weight for entry in service.entries)
    rows: list[tuple[object, ...]] = []
    for entry in service.entries:
        share = entry.weight / total if total else 0.0
        rows.append((entry.environment, entry.state, _percent(share), "", "", entry.address, entry.reason))
        inside = sum(row.weight for row in entry.backends)
        for row in entry.backends:
            part = _percent(share * row.weight / inside if inside else 0.0)
            reason = "" if row.reason == entry.reason else row.reason
            rows.append((f"  {row.deployment}", "", part, row.ready_replicas, row.placement, "", reason))
    lines = [f"{Ref.of(manifest)}: {text(manifest, 'status.url') or 'no URL yet'}"]
    for condition in listing(manifest, "status.conditions"):
        if text(condition, "type") in OWNED["ModelService"]:
            status = paint(text(condition, "status"), STATUS_COLOURS.get(text(condition, "status"), ""))
            head = f"  {text(condition, 'type')} {status} {text(condition, 'reason')}"
            lines.append(wrap_lines(f"{head}: {text(condition, 'message')}".rstrip(": "), 4))
    headers = ("ENDPOINT", "STATE", "SHARE", "READY", "PLACEMENT", "ADDRESS", "REASON")
    return "\n".join([*lines, "", format_table(headers, rows)])


def _percent(share: float) -> str:
    return f"{share:.1%}"
