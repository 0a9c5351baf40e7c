"""Command line: `up` keeps a stack running, `load` adds to it, `down` ends it, `test` runs scenarios on a fresh one.

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
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from tools.stack import by_load, layout, stack
from tools.stack.layout import SOURCE, Home
from tools.stack.namespace import holder, inside
from tools.stack.needs import KEPT, kept
from tools.stack.processes import Processes
from tools.stack.shell import environment

# Stacks run side by side because each mostly waits.
_STACKS = 2
# A flaky scenario must not cost a day; more failures than this are never only that.
_MAX_RERUNS = 2
HOME_VARIABLE = "MODELPLANE_STACK"
FAILURES_VARIABLE = "MODELPLANE_FAILED_FILES"


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
    print("Next: make e2e-shell, or first make e2e-load for docs/scale.md. End: make e2e-down")
    print("The kubeconfigs work inside the stack's network namespace, which make e2e-shell and these commands enter:")
    for who, what in (("hub", "control plane"), ("remote", "GPU cluster")):
        print(f"{what + ':':15}{' '.join(prefix)} env KUBECONFIG={home.kubeconfig(who)} bash")


@cli.command()
def load() -> None:
    """Add KEDA, the autoscaler of Kubernetes and a Prometheus to the stack that `up` keeps (docs/scale.md)."""
    home, processes = _kept()
    if by_load.runs(processes):
        raise click.ClickException("the stack has KEDA and a Prometheus already")
    by_load.prepare()
    _run_inside(home, processes, "add-load")
    print(f"KEDA reads the load from Prometheus at http://127.0.0.1:{layout.PROMETHEUS}. Next: make e2e-shell")


@cli.command()
def shell() -> None:
    """Open a shell inside the stack that `up` keeps, with kubectl and modelplane."""
    home, processes = _kept()
    command, typed = (*inside(holder(home, processes)), "bash"), sys.stdin.isatty()
    prompt = {"PROMPT_COMMAND": r"PS1='(stack) \w\$ '"}
    if typed:
        print("kubectl talks to the control plane. `exit` leaves the stack running; make e2e-down ends it.")
    code = subprocess.run(command, env=os.environ | environment(home) | prompt, check=False).returncode
    # Of one who types it says how the last command ended.
    sys.exit(0 if typed else code)


@cli.command()
def down() -> None:
    """End the stack that `up` keeps, and remove its folder."""
    Processes(Home(KEPT)).stop_all()
    shutil.rmtree(KEPT, ignore_errors=True)


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def test(pytest_arguments: tuple[str, ...]) -> None:
    """Run scenarios on fresh stacks, which are stopped afterwards; the logs of a failed run are kept.

    Without arguments all scenarios run, and each file with a failure runs once more, alone on a fresh stack. Both
    results are printed. The run fails if a file fails twice, or if more than two files would need a second attempt.
    """
    stack.prepare()
    if pytest_arguments:
        sys.exit(_run(1, pytest_arguments).code)
    everything = _run(_STACKS, ("tests/e2e",))
    if not 0 < len(everything.failed_files) <= _MAX_RERUNS:
        sys.exit(everything.code)
    codes = {file: _run(1, (file,)).code for file in everything.failed_files}
    for file, code in codes.items():
        print(f"{file}: failed beside the other scenarios, {'failed again' if code else 'passed'} alone")
    print(f"reruns: {len(codes)} of at most {_MAX_RERUNS}")
    sys.exit(max(codes.values()))


@dataclass(frozen=True, slots=True)
class _Result:
    """Exit code of pytest and the test files with a failure, in the order in which they ran."""

    code: int
    failed_files: tuple[str, ...]


def _run(stacks: int, arguments: Sequence[str]) -> _Result:
    """Run pytest on fresh stacks; each stack takes the next file when it has finished one."""
    homes = [Home(Path(tempfile.mkdtemp(prefix="function-modelplane-e2e-"))) for _ in range(stacks)]
    code = 1
    try:
        with ThreadPoolExecutor() as threads:
            prefixes = tuple(threads.map(_bring_up, homes))
        failures = homes[0].root / "failed-files"
        code = _pytest(homes, prefixes, arguments, failures)
        # Other exit codes mean that pytest itself failed: there is no result that could be compared.
        failed = failures.read_text().split() if code == pytest.ExitCode.TESTS_FAILED else []
    finally:
        for home in homes:
            Processes(home).stop_all()
            if not code:
                shutil.rmtree(home.root, ignore_errors=True)
        if code:
            print("failed; logs are in", *(home.logs for home in homes), file=sys.stderr)
    return _Result(code, tuple(failed))


def _pytest(
    homes: Sequence[Home], prefixes: Sequence[tuple[str, ...]], arguments: Sequence[str], failures: Path
) -> int:
    """Run pytest with a worker in each stack's network namespace; it writes the names of failed files to `failures`."""
    workers = (
        f"--tx=popen//python={shlex.join((*prefix, sys.executable))}//env:{HOME_VARIABLE}={home.root}"
        for home, prefix in zip(homes, prefixes, strict=True)
    )
    order = ("--dist=loadfile", "--no-loadscope-reorder")
    command = (sys.executable, "-m", "pytest", "-m", "e2e", "-v", "--durations=10", *order, *workers, *arguments)
    variables = os.environ | {FAILURES_VARIABLE: str(failures)}
    return subprocess.run(command, cwd=SOURCE, env=variables, check=False).returncode


@cli.command(hidden=True)
def bring_up() -> None:
    """Bring the stack up from inside its network namespace."""
    stack.up(Home(Path(os.environ[HOME_VARIABLE])))


@cli.command(hidden=True)
def add_load() -> None:
    """Start what `load` adds from inside the network namespace of the stack."""
    home = Home(Path(os.environ[HOME_VARIABLE]))
    by_load.up(home, Processes(home))


def _kept() -> tuple[Home, Processes]:
    home = Home(KEPT)
    processes = Processes(home)
    if not home.records.exists() or not processes.records():
        raise click.ClickException("no stack is kept: make e2e-up")
    return home, processes


def _run_inside(home: Home, processes: Processes, command: str) -> None:
    argv = (*inside(holder(home, processes)), sys.executable, "-m", "tools.stack", command)
    if subprocess.run(argv, cwd=SOURCE, env=_environment(home), check=False).returncode:
        raise click.ClickException(f"{command} failed; logs are in {home.logs}")


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
