"""The entry point of `kubectl-modelplane` and `modelplane`; a command's module is loaded when it is used."""

import importlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from function.cli.options import CliError, Code

COMMANDS = {
    "plan": "Where a deployment would go, and why not elsewhere",
    "render": "Every manifest that would finally exist, on the control plane and on the clusters",
    "why": "Why a deployment is not placed or not ready, and what to change",
    "tree": "A deployment, its placements and their remote objects, with state and message",
    "capacity": "Environments and pools: who uses them, what is free, what still fits",
    "validate": "Check files: fields, rules, references. Made for CI",
    "size": "What a model needs: weights, disk, GPUs and nodes, with the arithmetic",
    "check-cluster": "What a GPU cluster has of what it needs, before an environment names it",
    "cache": "List, preload and clear ModelCaches",
    "init": "A manifest to start from, with comments",
}
DEBUG = "MODELPLANE_DEBUG"


class Lazy(click.Group):
    """Knows its commands by name and one line each."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the commands in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """Load a command."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"function.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """Write the list of commands without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Example: modelplane plan -f examples/kimi-k2-two-nodes",
)
@click.version_option(package_name="function-modelplane", message="%(version)s")
def cli() -> None:
    """See a placement before, during and after it is made.

    Works on files without a cluster (-f), and on a live control plane with your kubeconfig.
    """


def main() -> None:
    """Run a command; whatever goes wrong is told in one line."""
    signal.signal(signal.SIGINT, interrupt)
    sys.exit(_run())


def interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  # as a signal calls it
    """End what runs, at once: with Python's own handler asyncio only cancels, which a library may swallow."""
    raise KeyboardInterrupt


def _run() -> int:
    try:
        done = cli.main(prog_name=_find_program_name(), standalone_mode=False, color=_choose_colour())
    except click.exceptions.Abort:
        return Code.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return Code.OK
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else _find_program_name()
        _print_error(f"{error.format_message()} See '{command} --help'")
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
    return done if isinstance(done, int) else Code.OK


def _find_program_name() -> str:
    # kubectl runs a plugin by its file name; people know it by the words they typed.
    name = os.path.basename(sys.argv[0])  # noqa: PTH119  # pathlib alone costs a tenth of the time that --help may take
    return "kubectl modelplane" if name.startswith("kubectl-") else "modelplane"


def _choose_colour() -> bool | None:
    """Return False where colours are unwanted, None to leave it to whether a terminal reads the output."""
    return False if os.environ.get("NO_COLOR") else None


def _print_error(message: str) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)
