"""The stack that `make e2e` brought up, checked after every scenario, and its logs where one failed."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.e2e.agreement import wait_for_agreement
from tests.e2e.world import World
from tools.stack.__main__ import FAILURES_VARIABLE, HOME_VARIABLE
from tools.stack.layout import Home
from tools.stack.stack import connect

_TOLD = ("function-modelplane", "core", "provider-kubernetes")
# An empty control plane, then the longest files, so that all stacks end together; then the others by name.
_FIRST = ("test_01_first_deployment", "test_06_outages", "test_10_races", "test_03_examples", "test_04_faults")


@pytest.fixture(scope="session")
def world() -> World:
    """Both clusters and what an administrator set up beforehand: namespaces, kubeconfigs, a token."""
    if HOME_VARIABLE not in os.environ:
        pytest.fail("there is no stack: make e2e")
    world = World(connect(Home(Path(os.environ[HOME_VARIABLE]))))
    world.prepare()
    return world


@pytest.fixture(scope="module", autouse=True)
def empty(world: World) -> None:
    """Every module starts with nothing of ours on the hub."""
    world.clear()


@pytest.fixture(autouse=True)
def in_order(world: World) -> Iterator[None]:
    """During a scenario no program ends by itself; after it the command line plans what the controller decided."""
    yield
    wait_for_agreement(world)
    dead = world.stack.processes.dead()
    assert not dead, "\n".join(f"{name} ended:\n{world.stack.processes.tail(name)}" for name in dead)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files into the order in which stacks take them."""
    places = {name: place for place, name in enumerate(_FIRST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what scenarios measured, and write the files with a failure where the caller wants them."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{report.nodeid}: {name}: {value}")
    if FAILURES_VARIABLE in os.environ:
        failed = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
        files = dict.fromkeys(report.nodeid.partition("::")[0] for report in failed)
        Path(os.environ[FAILURES_VARIABLE]).write_text("\n".join(files))
    if not any(terminalreporter.getreports(outcome) for outcome in ("passed", "failed", "error")):
        # xdist ends with 0 after an internal error of a worker.
        pytest.exit("no scenario ran", returncode=pytest.ExitCode.INTERNAL_ERROR)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of the logs, and what users see, to the report of a failure."""
    report = yield
    world = getattr(item, "funcargs", {}).get("world")
    if call.excinfo and isinstance(world, World):
        for name in _TOLD:
            report.sections.append((f"log of {name}", world.stack.processes.tail(name)))
        report.sections.append(("what users see", world.overview()))
    return report
