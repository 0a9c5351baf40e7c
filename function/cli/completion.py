"""`completion`: what a shell evaluates to complete commands, options and names; click's own script."""

import click
from click.shell_completion import get_completion_class

from function.cli.options import examples

_SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog=examples(
        'eval "$(modelplane completion bash)"    # in ~/.bashrc; zsh likewise',
        "modelplane completion fish > ~/.config/fish/completions/modelplane.fish",
    )
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Write the script with which a shell completes commands, options and names."""
    complete = get_completion_class(shell)
    assert complete is not None  # click knows these shells
    group = context.find_root().command
    click.echo(complete(group, {}, "modelplane", "_MODELPLANE_COMPLETE").source(), nl=False)
