"""`version`: the releases of this command line and of the function on the control plane."""

import click

from function.cli.live import Cluster, connect
from function.cli.options import CLUSTER, CliError, Form, Sources, examples, form
from function.cli.packages import PACKAGES, find_package, find_revision, read_client_release, split_image
from function.cli.tables import format_data, warn
from function.kube.manifests import text


@click.command(epilog=examples("version"))
@click.option("--client", is_flag=True, help="Only the release of this command line; nothing is read.")
@CLUSTER
@form(Form.TABLE, Form.JSON, Form.YAML)
def version(*, client: bool, sources: Sources, form: Form) -> None:
    """Show the releases of this command line and of the function on the control plane."""
    releases = {"client": read_client_release()}
    reason = ""  # why the release of the function is not known
    if not client:
        try:
            releases["function"] = _read_function_release(connect(sources))
        except CliError as error:
            releases["function"] = ""
            reason = error.message
    if form is Form.TABLE:
        for name, release in releases.items():
            click.echo(f"{name.title()} Version: {release or 'unknown'}")
    else:
        click.echo(format_data(form, {f"{name}Version": release for name, release in releases.items()}))
    if reason:
        warn(reason)
    elif releases.get("function", releases["client"]) != releases["client"]:
        warn("the releases differ, and this command line may decide otherwise than the controller. Install the same")


def _read_function_release(cluster: Cluster) -> str:
    """Returns the release of the Function's active revision; raises CliError where there is none."""
    package = find_package(cluster, "Function")
    if package is None:
        raise CliError("forbidden to list functions.pkg.crossplane.io. Ask for the rights that docs/cli.md lists")
    if not package:
        missing = f"there is no Function {PACKAGES['Function']} on this control plane"
        raise CliError(f"{missing}. Look with 'check control-plane'")
    image = text(find_revision(cluster, package), "spec.image") or text(package, "spec.package")
    _, tag = split_image(image)
    if not tag:
        raise CliError(f"the image {image} has no tag, which would tell its release")
    return tag
