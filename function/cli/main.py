"""The entry point of `kubectl-modelplane` and `modelplane`; a command's module is loaded when it is used."""

import importlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click
from click.shell_completion import get_completion_class

from function.cli.options import CliError, Code, add_output_options, examples, read_starter

COMMANDS = {
    "plan": "Where a deployment would go, and why not elsewhere",
    "render": "Every manifest that would finally exist, on the control plane and on the clusters",
    "why": "Why a deployment is not placed or not ready, and what to change",
    "tree": "A deployment, its placements and their remote objects, with state and message",
    "traffic": "Which endpoints of a ModelService get which part of the requests, and why not",
    "capacity": "Environments and pools: who uses them, what is free, what still fits",
    "ui": "A page with the fleet, the deployments and the ModelServices, for a browser",
    "validate": "Check files: fields, rules, references. Made for CI",
    "explain": "A kind or a field: type, default, limits and meaning",
    "schema": "The JSON schema of all manifests, for editors",
    "size": "What a model needs: weights, disk, GPUs and nodes, with the arithmetic",
    "check": "What a GPU cluster, or the control plane, has of what it needs",
    "cache": "List, preload and clear ModelCaches",
    "drain": "Move everything from an environment to others",
    "cordon": "Place nothing new on an environment",
    "uncordon": "Remove the taints of drain and cordon",
    "init": "A manifest to start from, with comments, or of a cluster's nodes",
    "version": "The releases of this command line and of the function on the control plane",
    "completion": "The script by which a shell, or kubectl, completes commands",
}
# Commands whose module has another name.
_MODULES = {
    "check": "prerequisites",
    **dict.fromkeys(("drain", "cordon", "uncordon"), "maintenance"),
    "completion": "main",
}
# Commands of kubectl, and what does here what they are tried for.
ELSEWHERE = {
    "apply": "check with 'validate' and 'plan --diff', then use 'kubectl apply -f FILE'",
    "get": "use 'plan', 'capacity' or 'cache list', or 'kubectl get modeldeployments'",
    "describe": "use 'why DEPLOYMENT' or 'tree DEPLOYMENT'",
    "logs": "use 'tree DEPLOYMENT' for the state of the pods, and 'kubectl logs' on the GPU cluster",
}
DEBUG = "MODELPLANE_DEBUG"


class _LazyGroup(click.Group):
    """Knows its commands by name and help; loads the one that is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, others = super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            if advice := ELSEWHERE.get(args[0]):
                raise click.UsageError(f"There is no command {args[0]}: {advice}", ctx) from error
            raise
        if name:
            command = getattr(importlib.import_module(f"function.cli.{_MODULES.get(name, name)}"), name)
        return name, command, others


@click.group(
    cls=_LazyGroup,
    commands=[click.Command(name, short_help=line) for name, line in COMMANDS.items()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Example: modelplane plan -f examples/kimi-k2-two-nodes",
)
@click.version_option(package_name="function-modelplane", message="%(version)s")
def cli() -> None:
    """See a placement before, during and after it is made.

    Works on files without a cluster (-f), and on a live control plane with your kubeconfig.
    """


@click.command(epilog=examples("completion"))
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")), required=False)
@click.option(
    "--kubectl", is_flag=True, help="The script kubectl_complete-modelplane, for any shell that completes kubectl."
)
@add_output_options
def completion(*, shell: str | None, kubectl: bool) -> None:
    """Write the script by which a shell, or kubectl, completes commands and options."""
    if kubectl:
        # kubectl 1.26 and later runs it with the words after `modelplane`, and reads what cobra's programs answer:
        # values line by line, then 4 for no files, 0 for files as well.
        click.echo(read_starter("kubectl_complete.sh"), nl=False)
        return
    if shell is None:
        raise CliError("name a shell: bash, zsh or fish; or give --kubectl")
    generator = get_completion_class(shell)
    assert generator is not None
    click.echo(generator(cli, {}, "modelplane", "_MODELPLANE_COMPLETE").source(), nl=False)


def main() -> None:
    signal.signal(signal.SIGINT, interrupt)
    sys.exit(_run())


def interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  # as a signal calls it
    """Ends the command at once: with Python's own handler asyncio only cancels, which a library may swallow."""
    raise KeyboardInterrupt


def _run() -> int:
    # kubectl runs a plugin by its file name, but people type `kubectl modelplane`.
    file = os.path.basename(sys.argv[0])  # noqa: PTH119  # pathlib alone costs a tenth of the time that --help may take
    program = "kubectl modelplane" if file.startswith("kubectl-") else "modelplane"
    # None: colours where the output is a terminal.
    colour = False if os.environ.get("NO_COLOR") else None
    try:
        code = cli.main(prog_name=program, standalone_mode=False, color=colour)
    except click.exceptions.Abort:
        return Code.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return Code.OK
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else program
        message = error.format_message()
        _print_error(f"{message}{'' if message[-1] in '.?)' else '.'} See '{command} --help'")
        return Code.USAGE
    except click.ClickException as error:
        _print_error(error.format_message())
        return error.code if isinstance(error, CliError) else Code.USAGE
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        _print_error(
            f"internal error ({type(error).__name__}: {error}). Set {DEBUG}=1, run again and report what it prints"
        )
        return Code.BUG
    return code if isinstance(code, int) else Code.OK


def _print_error(message: str) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)
