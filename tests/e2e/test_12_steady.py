"""Scenario 12: twenty deployments that have settled are left alone for two minutes, and the function nearly so."""

import re
import urllib.request
from collections.abc import Callable

import pytest

from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.rest import QUIET_SECONDS, require_rest
from tests.e2e.world import World
from tools.stack import layout

pytestmark = pytest.mark.e2e
TEAM = "crowd"
CROWD = [f"crowd-{number}" for number in range(20)]
SETTLED_SECONDS = 120
_OURS = ("ModelDeployment", "ModelPlacement", "InferenceEnvironment", "ClusterModel")


@pytest.fixture(scope="module", autouse=True)
def _started(world: World) -> None:
    world.team(TEAM)
    world.apply(model("crowd"), environment("crowd", pool("gpus", maxNodeCount=8)))
    world.apply(*(deployment(TEAM, name, "crowd", on="crowd") for name in CROWD))


def test_what_has_settled_is_left_alone(world: World, record_property: Callable[[str, object], None]) -> None:
    for name in CROWD:
        world.ready(TEAM, name, seconds=300)
    require_rest(world, QUIET_SECONDS)
    before = _calls()
    require_rest(world, SETTLED_SECONDS)
    made = _calls() - before
    xrs = sum(len(world.stack.hub.find(kind)) for kind in _OURS)
    record_property("calls of the function", f"{made} for {xrs} XRs in {SETTLED_SECONDS} s and {QUIET_SECONDS} before")
    assert made <= 5 * xrs


def _calls() -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{layout.CORE_METRICS}/metrics") as response:
        metrics = response.read().decode()
    return sum(
        int(float(n)) for n in re.findall(r"^function_run_function_request_total\{.*\} (\S+)$", metrics, re.MULTILINE)
    )
