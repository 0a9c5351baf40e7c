"""Scenario 37: the walk of docs/scale.md, every command of it in order, and what it says that they show.

Unlike in scenario 33, the load is that of real requests, and Prometheus reads it from the engines, which are played.
"""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.pages import run_page
from tests.e2e.world import World
from tools.stack import by_load
from tools.stack.layout import SOURCE

pytestmark = pytest.mark.e2e
_SECTION = "Try it on your machine"
_COMPOSITION, _INPUT = "modeldeployments", "/spec/pipeline/0/input"


@pytest.fixture
def by_load_runs(world: World) -> Iterator[None]:
    """Run what `make e2e-load` adds to a stack."""
    by_load.prepare()
    by_load.up(world.stack.home, world.stack.processes)
    yield
    world.clear()  # KEDA must release its ScaledObjects
    world.stack.hub.patch("Composition", _COMPOSITION, [{"op": "remove", "path": _INPUT}])
    by_load.down(world.stack.home, world.stack.processes)


@pytest.mark.usefixtures("by_load_runs")
def test_every_command_of_the_walk_works_and_shows_what_it_says(
    world: World, record_property: Callable[[str, object], None]
) -> None:
    page = (SOURCE / "docs" / "scale.md").read_text()
    _, _, walk = page.partition(f"## {_SECTION}\n")
    begin = time.monotonic()
    *_, answered, _ = run_page(walk.partition("\n## ")[0], world.stack.home, SOURCE)
    record_property("walk", f"{time.monotonic() - begin:.0f} s")
    counts = [line.split() for line in answered.splitlines() if line.strip()]
    assert [code for _, code in counts] == ["200"], "no request fails"
