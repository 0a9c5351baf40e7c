"""`traffic`: shows which part of the requests each endpoint of a ModelService gets, and the reason for every zero."""

from dataclasses import asdict

import click

from function.api.model_service import parse_model_service
from function.cli import tables
from function.cli.inputs import load_inventory
from function.cli.names import complete_names
from function.cli.options import WATCH, CliError, Code, Form, Name, Sources, examples, form, read_namespaced, sources
from function.cli.planning import compose_files, find_service, list_services
from function.cli.shares import compute_shares
from function.cli.store import Ref, read_conditions
from function.domain.model_service import ModelService
from function.kube.manifests import Manifest, text

_KINDS = ("ModelDeployment", "ModelPlacement", "ModelService")


@click.command(epilog=examples("traffic"))
@click.argument(
    "service", type=read_namespaced("ModelService"), required=False, shell_complete=complete_names("ModelService")
)
@sources
@WATCH
@form(Form.TABLE, Form.JSON, Form.YAML)
def traffic(service: Name | None, *, sources: Sources, watch: bool, form: Form) -> None:
    """Show which part of the requests each endpoint of a ModelService gets, and why an endpoint gets none.

    Without files it shows what the controller reports. From files it shows what would be once everything is up. With
    -A and without a name, it shows every ModelService.
    """

    def render() -> str:
        inventory = load_inventory(sources.narrow(service), _KINDS, one_namespace=not sources.files)
        if sources.files:
            compose_files(inventory)
        if service is None and sources.all_namespaces:
            parsed = {ref: _parse(inventory.store[ref]) for ref in list_services(inventory)}
            if form.for_people:
                return "\n\n".join(_format_traffic(inventory.store[ref], each) for ref, each in parsed.items())
            rows = [
                {"namespace": ref.namespace, "name": ref.name, "endpoints": [asdict(entry) for entry in each.entries]}
                for ref, each in parsed.items()
            ]
            return tables.format_data(form, rows)
        manifest = inventory.store[find_service(inventory, service)]
        found = _parse(manifest)
        if form.for_people:
            return _format_traffic(manifest, found)
        return tables.format_data(form, [asdict(entry) for entry in found.entries])

    tables.print_watched(render, watch=watch)


def _parse(manifest: Manifest) -> ModelService:
    parsed = parse_model_service(manifest)
    if parsed.value is None:
        raise CliError(f"{Ref.of(manifest)}: {'; '.join(map(str, parsed.problems))}", Code.REFUSED)
    return parsed.value


def _format_traffic(manifest: Manifest, service: ModelService) -> str:
    rows: list[tuple[object, ...]] = []
    for endpoint in compute_shares(service):
        entry = endpoint.entry
        rows.append((entry.environment, entry.state, f"{endpoint.share:.1%}", "", "", entry.address, entry.reason))
        for row, part in endpoint.backends:
            reason = "" if row.reason == entry.reason else row.reason
            rows.append((f"  {row.deployment}", "", f"{part:.1%}", row.ready_replicas, row.placement, "", reason))
    lines = [f"{Ref.of(manifest)}: {text(manifest, 'status.url') or 'no URL yet'}"]
    lines += [tables.format_condition(each, text(each, "message")).rstrip(": ") for each in read_conditions(manifest)]
    headers = ("ENDPOINT", "STATE", "SHARE", "READY", "PLACEMENT", "ADDRESS", "REASON")
    return "\n".join([*lines, "", tables.format_table(headers, rows)])
