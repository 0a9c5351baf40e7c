"""The command line as users run it, on files or against an API server on loopback: in this process, through click's
own runner, or as a process of its own where that is what is tested.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest import mock

import click
import yaml
from click.testing import CliRunner, Result

from function.cli.main import main
from function.kube.manifests import Manifest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
# Those with kinds of ours.
_OF_OTHERS = {"ai-gateway", "bring-your-own-cluster"}
STORIES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name not in _OF_OTHERS)
KIMI = "examples/kimi-k2-two-nodes"
# Where Kimi K2 does not fit, each for another reason.
ELSEWHERE = ("-f", "examples/two-environments/environment.yaml", "-f", "examples/kimi-k26-vram/environment.yaml")
# Nothing of the tester's own control planes, tokens or colours.
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": "/nonexistent/config"}


class _Installed(click.Command):
    """The program as its script calls it: without arguments, which it finds where Python keeps them."""

    def main(self, args: Sequence[str], **_: object) -> None:  # type: ignore[override]  # all that the runner passes
        """Run it; it ends with SystemExit."""
        with mock.patch.object(sys, "argv", [str(self.name), *args]):
            main()


def run(
    *arguments: str, stdin: str | bytes = "", program: str = "modelplane", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in this process."""
    done = _invoke(program, arguments, stdin, variables, terminal=False)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def on_a_terminal(*arguments: str, **variables: str) -> str:
    """Return what a command in this process shows to one who looks at a terminal."""
    return _invoke("modelplane", arguments, "", variables, terminal=True).stdout


def _invoke(
    program: str, arguments: Sequence[str], stdin: str | bytes, variables: Mapping[str, str], *, terminal: bool
) -> Result:
    environment = {**dict.fromkeys(os.environ), **ENVIRONMENT, **variables}
    with contextlib.chdir(ROOT):
        return CliRunner(catch_exceptions=False).invoke(
            _Installed(program), arguments, stdin, environment, color=terminal
        )


def start(*arguments: str, program: str = "modelplane", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end as a process of its own."""
    return subprocess.run(
        (str(Path(sys.executable).with_name(program)), *arguments),
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**ENVIRONMENT, **variables},
        text=True,
        timeout=120,
    )


def output_of(*arguments: str, **variables: str) -> str:
    """Run a command that succeeds and return what it wrote."""
    done = run(*arguments, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused_output_of(*arguments: str, **variables: str) -> str:
    """Run a command that answers no (exit code 1) and return what it wrote."""
    done = run(*arguments, **variables)
    assert done.returncode == 1, done.stderr
    return done.stdout


def error_lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines on standard error."""
    return done.stderr.splitlines()


def write(folder: Path, *manifests: Manifest) -> str:
    """Write manifests to a file of their own and return its name."""
    file = folder / f"{len(list(folder.iterdir()))}.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    return str(file)


def cells(table: str) -> list[list[str]]:
    """Return the rows of a table without its header; columns are two spaces apart or more."""
    lines = table.partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[1:]]
