"""`completion`: writes the scripts by which shells, and kubectl, complete commands."""

import click
from click.shell_completion import get_completion_class

from function.cli.options import QUIET, CliError, examples

_VARIABLE = "_MODELPLANE_COMPLETE"
# kubectl 1.26 and later runs it with the words after `modelplane`, and reads what cobra's programs answer: values line
# by line, then 4 for no files, 0 for files as well.
_PLUGIN = f"""\
#!/bin/sh
# Completes `kubectl modelplane`. Keep it on PATH as kubectl_complete-modelplane.
COMP_WORDS="modelplane $*" COMP_CWORD=$# {_VARIABLE}=bash_complete modelplane | {{
  files=:4
  while IFS=, read -r type value; do
    case $type in
      plain) printf '%s\\n' "$value" ;;
      file | dir) files=:0 ;;
    esac
  done
  echo $files
}}
"""


@click.command(epilog=examples("completion"))
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")), required=False)
@click.option(
    "--kubectl", is_flag=True, help="The script kubectl_complete-modelplane, for any shell that completes kubectl."
)
@QUIET
def completion(*, shell: str | None, kubectl: bool) -> None:
    """Write the script by which a shell, or kubectl, completes commands and options."""
    if kubectl:
        click.echo(_PLUGIN, nl=False)
        return
    if shell is None:
        raise CliError("name a shell: bash, zsh or fish; or give --kubectl")
    program = click.get_current_context().find_root().command
    generator = get_completion_class(shell)
    assert generator is not None
    click.echo(generator(program, {}, "modelplane", _VARIABLE).source(), nl=False)
