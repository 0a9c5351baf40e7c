"""Command line: `up` keeps a stack running, `down` ends it, `test` runs the scenarios on a fresh one.

Everything below `test` and `up` runs inside the stack's network namespace; this file crosses into it.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from tools.stack import stack
from tools.stack.layout import SOURCE, Home
from tools.stack.namespace import holder, inside
from tools.stack.needs import KEPT, kept
from tools.stack.processes import Processes
from tools.stack.shell import environment

# Side by side: each mostly waits. Scenarios chosen by arguments for pytest need no second one.
_STACKS = 2
HOME_VARIABLE = "MODELPLANE_STACK"


@click.group()
def cli() -> None:
    """Run the whole stack as processes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@cli.command()
def up() -> None:
    """Bring a stack up and keep it; print how to talk to it."""
    if taken := kept():
        raise click.ClickException(taken)
    home = Home(KEPT)
    shutil.rmtree(home.root, ignore_errors=True)
    stack.prepare()
    prefix = _bring_up(home)
    for who in ("hub", "remote"):
        print(f"{who + ':':8}{' '.join(prefix)} env KUBECONFIG={home.kubeconfig(who)} bash")
    print(f"\nkubeconfigs: {home.kubeconfig('hub')}\n             {home.kubeconfig('remote')}")
    print("They work inside the stack's network namespace, which these commands enter, and make e2e-shell.")
    print("End: make e2e-down")


@cli.command()
def shell() -> None:
    """Open a shell inside the stack that `up` keeps, with kubectl and modelplane."""
    home = Home(KEPT)
    processes = Processes(home)
    if not home.records.exists() or not processes.records():
        raise click.ClickException("no stack is kept: make e2e-up")
    command = (*inside(holder(home, processes)), "bash")
    code = subprocess.run(command, env=os.environ | environment(home), check=False).returncode
    # Of one who types it says how the last command ended.
    sys.exit(0 if sys.stdin.isatty() else code)


@cli.command()
def down() -> None:
    """End the stack that `up` keeps, and remove its folder."""
    Processes(Home(KEPT)).stop_all()
    shutil.rmtree(KEPT, ignore_errors=True)


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def test(pytest_arguments: tuple[str, ...]) -> None:
    """Run scenarios on stacks of their own, which end whatever happens; the logs of a failure are kept.

    Each stack takes the next file of scenarios when it is done with one.
    """
    homes = [
        Home(Path(tempfile.mkdtemp(prefix="function-modelplane-e2e-")))
        for _ in range(1 if pytest_arguments else _STACKS)
    ]
    code = 1
    try:
        stack.prepare()
        with ThreadPoolExecutor() as threads:
            prefixes = tuple(threads.map(_bring_up, homes))
        code = _pytest(homes, prefixes, pytest_arguments or ("tests/e2e",))
    finally:
        for home in homes:
            Processes(home).stop_all()
            if not code:
                shutil.rmtree(home.root, ignore_errors=True)
        if code:
            print("failed; logs are in", *(home.logs for home in homes), file=sys.stderr)
    sys.exit(code)


def _pytest(homes: Sequence[Home], prefixes: Sequence[tuple[str, ...]], arguments: Sequence[str]) -> int:
    """Run pytest with a worker inside each stack's network namespace."""
    workers = (
        f"--tx=popen//python={shlex.join((*prefix, sys.executable))}//env:{HOME_VARIABLE}={home.root}"
        for home, prefix in zip(homes, prefixes, strict=True)
    )
    order = ("--dist=loadfile", "--no-loadscope-reorder")
    command = (sys.executable, "-m", "pytest", "-m", "e2e", "-v", "--durations=10", *order, *workers, *arguments)
    return subprocess.run(command, cwd=SOURCE, check=False).returncode


@cli.command(hidden=True)
def bring_up() -> None:
    """Bring the stack up from inside its network namespace."""
    stack.up(Home(Path(os.environ[HOME_VARIABLE])))


def _bring_up(home: Home) -> tuple[str, ...]:
    home.create()
    processes = Processes(home)
    try:
        prefix = inside(holder(home, processes))
    except ChildProcessError as error:
        raise click.ClickException(str(error)) from error
    command = (*prefix, sys.executable, "-m", "tools.stack", "bring-up")
    done = subprocess.run(command, cwd=SOURCE, env=_environment(home), check=False)
    if done.returncode:
        processes.stop_all()
        raise click.ClickException(f"the stack did not come up; logs are in {home.logs}")
    memory = processes.memory()
    print(f"{home.root.name}: {sum(memory.values())} MiB in {len(memory)} programs", flush=True)
    return prefix


def _environment(home: Home) -> dict[str, str]:
    return os.environ | {HOME_VARIABLE: str(home.root)}


if __name__ == "__main__":
    cli()
