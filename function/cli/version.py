"""`version`: the releases of this command line and of the function on the control plane."""

import click

from function.cli import options
from function.cli.live import connect
from function.cli.options import CliError, Form, Sources, examples, form
from function.cli.prerequisites import FUNCTION, find_package, find_revision, parse_tag, read_client_release
from function.cli.tables import format_data, warn
from function.kube.manifests import text


@click.command(epilog=examples("version"))
@click.option("--client", is_flag=True, help="Only the release of this command line; nothing is read.")
@options.CLUSTER
@form(Form.TABLE, Form.JSON, Form.YAML)
def version(*, client: bool, sources: Sources, form: Form) -> None:
    """Show the releases of this command line and of the function on the control plane."""
    releases, reason = {"client": read_client_release()}, ""
    if not client:
        try:
            releases["function"] = _read_release(sources)
        except CliError as error:
            releases["function"], reason = "", error.message
    if form is Form.TABLE:
        click.echo(f"Client Version: {releases['client']}")
        if not client:
            click.echo(f"Function Version: {releases['function'] or 'unknown'}")
    else:
        click.echo(format_data(form, {f"{name}Version": release for name, release in releases.items()}))
    if reason:
        warn(reason)
    elif releases.get("function", releases["client"]) != releases["client"]:
        warn("the releases differ, and this command line may decide otherwise than the controller. Install the same")


def _read_release(sources: Sources) -> str:
    """Returns the release of the Function's active revision; raises CliError where there is none."""
    cluster = connect(sources)
    package = find_package(cluster, "Function", FUNCTION)
    if package is None:
        raise CliError("forbidden to list functions.pkg.crossplane.io. Ask for the rights that docs/cli.md lists")
    if not package:
        raise CliError(f"there is no Function {FUNCTION} on this control plane. Look with 'check control-plane'")
    image = text(find_revision(cluster, "Function", package), "spec.image") or text(package, "spec.package")
    if not parse_tag(image):
        raise CliError(f"the image {image} has no tag, which would tell its release")
    return parse_tag(image)
