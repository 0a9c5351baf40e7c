"""`validate`: checks files and prints what every command prints of them before it decides anything."""

from dataclasses import asdict, replace

import click

from function.cli.inputs import KINDS, Inventory, load_inventory, read_files
from function.cli.options import FILES, Code, Form, Sources, examples, form, is_quiet, target
from function.cli.store import Store
from function.cli.tables import GOOD, format_data, paint, warn
from function.cli.validation import check_items, find_code, list_known
from function.kube.manifests import JSON
from function.kube.messages import format_count
from function.kube.names import GROUP


@click.command(epilog=examples("validate"))
@click.argument("paths", metavar="FILE...", nargs=-1, type=click.Path())
@FILES
@click.option(
    "--live", is_flag=True, help="Follow references to the control plane as well, and compare pools with nodes."
)
@target
@click.option("--strict", is_flag=True, help="Exit 1 for a warning, too.")
@form(Form.TABLE, Form.JSON, Form.YAML)
def validate(  # click's options
    *, paths: tuple[str, ...], files: tuple[str, ...], live: bool, sources: Sources, strict: bool, form: Form
) -> Code:
    """Check files: fields, rules across fields, references. Exits 1 where there is a fault.

    What is allowed and most likely not meant is a warning: memory without its unit, weights that the GPUs may not hold.

    Objects of other groups are passed over. FILE is a file, a folder or - for standard input.
    """
    if not paths and not files:
        raise click.UsageError("Missing FILE")
    items = read_files((*paths, *files))
    known = load_inventory(replace(sources, live=True), (*KINDS, "Object")) if live else Inventory(Store(), "")
    faults = [f for f in check_items(items, known.store, sources.namespace or known.namespace) if f.file]
    checked = len(list_known(items, ""))
    is_pointless = not checked and not faults
    if is_pointless:
        warn(f"no object of {GROUP} in what was given: {format_count(len(items), 'other object')} passed over")
    code = find_code(faults) or (Code.REFUSED if strict and (faults or is_pointless) else Code.OK)
    if form is not Form.TABLE:
        data: list[JSON] = [
            {"file": f.file, "line": f.line, **asdict(f.ref), **asdict(f.problem), "level": f.level} for f in faults
        ]
        click.echo(format_data(form, data))
        return code
    for fault in faults:
        if strict or fault.level == "error" or not is_quiet():
            click.echo(str(fault))
    if is_quiet():
        return code
    warnings = sum(fault.level == "warning" for fault in faults)
    errors = len(faults) - warnings
    objects = format_count(checked, "object")
    summary = f"{format_count(errors, 'fault')} in {objects}" if errors else f"{objects} {paint('valid', GOOD)}"
    click.echo(("\n" if faults else "") + summary + (f", {format_count(warnings, 'warning')}" if warnings else ""))
    return code
