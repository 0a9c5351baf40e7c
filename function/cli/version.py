"""`version`: the releases of this command line and of the function on the control plane."""

from importlib.metadata import version as find_version

import click

from function.cli import options
from function.cli.live import Cluster, connect
from function.cli.options import CliError, Form, Target, examples, form
from function.cli.tables import format_data, warn
from function.kube.manifests import Manifest, listing, text

FUNCTION, CONFIGURATION, PROVIDER = "function-modelplane", "configuration-modelplane", "provider-kubernetes"
_API = "/apis/pkg.crossplane.io/v1"


@click.command(epilog=examples("version"))
@click.option("--client", is_flag=True, help="Only the release of this command line; nothing is read.")
@options.CLUSTER
@form(Form.TABLE, Form.JSON, Form.YAML)
def version(*, client: bool, target: Target, form: Form) -> None:
    """Show the releases of this command line and of the function on the control plane."""
    releases, reason = {"client": read_client_release()}, ""
    if not client:
        try:
            releases["function"] = _read_release(target)
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


def _read_release(target: Target) -> str:
    """Returns the release of the Function's active revision; raises CliError where there is none."""
    cluster = connect(target)
    package = find_package(cluster, "Function", FUNCTION)
    if package is None:
        raise CliError("forbidden to list functions.pkg.crossplane.io. Ask for the rights that docs/cli.md lists")
    if not package:
        raise CliError(f"there is no Function {FUNCTION} on this control plane. Look with 'check control-plane'")
    image = text(find_revision(cluster, "Function", package), "spec.image") or text(package, "spec.package")
    if not parse_tag(image):
        raise CliError(f"the image {image} has no tag, which would tell its release")
    return parse_tag(image)


def read_client_release() -> str:
    """Returns the release of this command line, as packages are tagged."""
    return f"v{find_version(FUNCTION)}"


def find_package(cluster: Cluster, kind: str, name: str) -> Manifest | None:
    """Returns the package of a name, else of a repository so named; empty where none exists, None where forbidden."""
    answer = cluster.fetch(f"{_API}/{kind.lower()}s")
    if answer is None:
        return None
    packages = listing(answer, "items")
    named = (package for package in packages if text(package, "metadata.name") == name)
    alike = (
        package for package in packages if _find_base_name(text(package, "spec.package")).partition(":")[0] == name
    )
    return next(named, next(alike, {}))


def find_revision(cluster: Cluster, kind: str, package: Manifest | None) -> Manifest:
    """Returns the revision of a package that is active; empty where none is, or where it is forbidden."""
    name = text(package, "status.currentRevision")
    return (cluster.fetch(f"{_API}/{kind.lower()}revisions/{name}") if name else None) or {}


def parse_tag(image: str) -> str:
    """Returns the tag of an image; empty if it has none."""
    return _find_base_name(image).partition(":")[2]


def _find_base_name(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2]
