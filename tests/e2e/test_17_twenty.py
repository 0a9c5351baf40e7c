"""Scenario 17: twenty deployments at once on one environment: all become Ready, and how much work that was."""

import time
from collections.abc import Callable

import pytest

from tests.e2e.calls import calls, core_seconds, reconciles
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.world import World

pytestmark = pytest.mark.e2e
TEAM = "twenty"
NAMES = [f"one-of-twenty-{number:02}" for number in range(20)]
# Before environments kept a ledger it was 2,000 (docs/performance.md).
MOST_CALLS = 1_000


def test_twenty_at_once(world: World, record_property: Callable[[str, object], None]) -> None:
    world.team(TEAM)
    world.apply(model("twenty"), environment("twenty", pool("gpus", maxNodeCount=3)))
    world.wait("InferenceEnvironment", "twenty", "Ready", "True")
    before, started = (calls(), reconciles(), core_seconds()), time.monotonic()
    world.apply(*(deployment(TEAM, name, "twenty", on="twenty") for name in NAMES))
    for name in NAMES:
        world.ready(TEAM, name)
    seconds = time.monotonic() - started
    number, ended, busy = (
        now - then for now, then in zip((calls(), reconciles(), core_seconds()), before, strict=True)
    )
    record_property(
        "until all are Ready", f"{number} calls in {ended} reconciles, {busy:.1f} s of core in {seconds:.0f} s"
    )
    assert number <= MOST_CALLS
    world.remove(TEAM, *NAMES)
