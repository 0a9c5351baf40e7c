"""`completion`: writes the scripts by which shells, and kubectl, complete commands."""

from importlib import resources

import click
from click.shell_completion import get_completion_class

from function.cli.options import QUIET, CliError, examples

_VARIABLE = "_MODELPLANE_COMPLETE"


@click.command(epilog=examples("completion"))
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")), required=False)
@click.option(
    "--kubectl", is_flag=True, help="The script kubectl_complete-modelplane, for any shell that completes kubectl."
)
@QUIET
def completion(*, shell: str | None, kubectl: bool) -> None:
    """Write the script by which a shell, or kubectl, completes commands and options."""
    if kubectl:
        # kubectl 1.26 and later runs it with the words after `modelplane`, and reads what cobra's programs answer:
        # values line by line, then 4 for no files, 0 for files as well.
        click.echo(resources.files("function.cli").joinpath("starters", "kubectl_complete.sh").read_text(), nl=False)
        return
    if shell is None:
        raise CliError("name a shell: bash, zsh or fish; or give --kubectl")
    program = click.get_current_context().find_root().command
    generator = get_completion_class(shell)
    assert generator is not None
    click.echo(generator(program, {}, "modelplane", _VARIABLE).source(), nl=False)
