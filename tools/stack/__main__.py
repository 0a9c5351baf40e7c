"""Command line: `up` keeps a stack running, `down` ends it, `test` runs the scenarios on a fresh one.

Everything below `test` and `up` runs inside the stack's network namespace; this file crosses into it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from tools.stack import stack
from tools.stack.layout import SOURCE, Home
from tools.stack.namespace import holder, inside
from tools.stack.processes import Processes

# Where the second stack takes over: both halves take equally long.
_SECOND = "test_08"
_KEPT = Path(tempfile.gettempdir()) / "function-modelplane-stack"
HOME_VARIABLE = "MODELPLANE_STACK"


@click.group()
def cli() -> None:
    """Run the whole stack as processes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@cli.command()
def up() -> None:
    """Bring a stack up and keep it; print how to talk to it."""
    home = Home(_KEPT)
    if home.records.exists() and Processes(home).records():
        raise click.ClickException(f"{home.root} is in use: make e2e-down")
    shutil.rmtree(home.root, ignore_errors=True)
    prefix = _bring_up(home)
    for who in ("hub", "remote"):
        print(f"{who + ':':8}{' '.join(prefix)} env KUBECONFIG={home.kubeconfig(who)} bash")
    print(f"\nkubeconfigs: {home.kubeconfig('hub')}\n             {home.kubeconfig('remote')}")
    print("They work inside the stack's network namespace, which these commands enter. End: make e2e-down")


@cli.command()
def down() -> None:
    """End the stack that `up` keeps, and remove its folder."""
    Processes(Home(_KEPT)).stop_all()
    shutil.rmtree(_KEPT, ignore_errors=True)


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def test(pytest_arguments: tuple[str, ...]) -> None:
    """Run scenarios on stacks of their own, which end whatever happens; the logs of a failure are kept.

    All of them are shared out between two stacks side by side, since each mostly waits. Where scenarios are chosen
    by arguments for pytest, one stack is enough.
    """
    sys.exit(_test(pytest_arguments) if pytest_arguments else _test_all())


def _test_all() -> int:
    stack.prepare()
    scenarios = sorted(str(path) for path in SOURCE.glob("tests/e2e/test_*.py"))
    here, there = ([path for path in scenarios if (Path(path).name < _SECOND) is first] for first in (True, False))
    print(f"{len(there)} files of scenarios run beside {len(here)}, and are told at the end", flush=True)
    with tempfile.TemporaryFile("w+") as told:
        command = (sys.executable, "-m", "tools.stack", "test", *there)
        beside = subprocess.Popen(command, cwd=SOURCE, stdout=told, stderr=subprocess.STDOUT)
        try:
            code = _test(here)
        except BaseException:
            beside.terminate()
            raise
        finally:
            code_beside = beside.wait()
            told.seek(0)
            print(told.read(), flush=True)
    return code or code_beside


def _test(pytest_arguments: Sequence[str]) -> int:
    home = Home(Path(tempfile.mkdtemp(prefix="function-modelplane-e2e-")))
    code = 1
    try:
        prefix = _bring_up(home)
        command = (
            *prefix,
            sys.executable,
            "-m",
            "pytest",
            "-m",
            "e2e",
            "--durations=10",
            *pytest_arguments,
        )
        code = subprocess.run(command, cwd=SOURCE, env=_environment(home), check=False).returncode
    finally:
        Processes(home).stop_all()
        if code:
            print(f"failed; logs are in {home.logs}", file=sys.stderr)
        else:
            shutil.rmtree(home.root, ignore_errors=True)
    return code


@cli.command(hidden=True)
def bring_up() -> None:
    """Bring the stack up from inside its network namespace."""
    stack.up(Home(Path(os.environ[HOME_VARIABLE])))


def _bring_up(home: Home) -> tuple[str, ...]:
    stack.prepare()
    home.create()
    processes = Processes(home)
    prefix = inside(holder(home, processes))
    command = (*prefix, sys.executable, "-m", "tools.stack", "bring-up")
    done = subprocess.run(command, cwd=SOURCE, env=_environment(home), check=False)
    if done.returncode:
        processes.stop_all()
        raise click.ClickException(f"the stack did not come up; logs are in {home.logs}")
    memory = processes.memory()
    print(f"{sum(memory.values())} MiB in {len(memory)} programs")
    return prefix


def _environment(home: Home) -> dict[str, str]:
    return os.environ | {HOME_VARIABLE: str(home.root)}


if __name__ == "__main__":
    cli()
