"""`init`: a manifest to start from, with comments, on standard output."""

import re
from importlib import resources

import click

from function.cli.options import CliError, examples
from function.cli.tables import hint

_KINDS = ("model", "environment", "deployment")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_FIRST_NAME = re.compile(r"^(metadata:\n  name: )\S+", re.MULTILINE)


@click.command(
    epilog=examples("modelplane init model > model.yaml", "modelplane init environment eu-west > eu-west.yaml")
)
@click.argument("kind", type=click.Choice(_KINDS))
@click.argument("name", required=False)
def init(kind: str, name: str | None) -> None:
    """Write a manifest to start from, with comments. The three fit each other."""
    said = resources.files("function.cli").joinpath("starters", f"{kind}.yaml").read_text()
    if name:
        if _NAME.fullmatch(name) is None:
            raise CliError(f"{name} is not a name: lower-case letters, digits, - and .")
        said = _FIRST_NAME.sub(lambda found: found[1] + name, said, count=1)
    click.echo(said, nl=False)
    hint("validate FILE")
