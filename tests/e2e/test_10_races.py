"""Scenarios 10 and 12: two deployments race for one slot, ten times at once: one wins and the other is told.

Then ten of the twenty serve, ten are refused, and nothing may be written for two minutes, by anybody; calls
of the function are counted.
"""

import re
import urllib.request
from collections.abc import Callable

import pytest

from function.kube.manifests import condition, text
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.rest import require_rest
from tests.e2e.world import World
from tools.stack import layout
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM = "races"
RACES = [f"race-{number}" for number in range(10)]
SETTLED_SECONDS = 120
_OURS = ("ModelDeployment", "ModelPlacement", "InferenceEnvironment", "ClusterModel")


@pytest.fixture(scope="module", autouse=True)
def _started(world: World) -> None:
    world.team(TEAM)
    one = pool("one", acceleratorCount=1, maxNodeCount=1)
    world.apply(model("racer"), *(environment(race, one) for race in RACES))
    for race in RACES:
        world.wait("InferenceEnvironment", race, "Ready", "True")
    world.apply(*(deployment(TEAM, f"{race}-{side}", "racer", on=race) for race in RACES for side in ("a", "b")))


def _reason(world: World, name: str) -> str:
    found = world.deployment(TEAM, name)
    ready, scheduled = condition(found, "Ready"), condition(found, "Scheduled")
    return "Ready" if ready.get("status") == "True" else text(scheduled, "reason")


@pytest.mark.parametrize("race", RACES)
def test_one_of_two_wins(race: str, world: World) -> None:
    def decided() -> bool:
        return {_reason(world, f"{race}-{side}") for side in ("a", "b")} == {"Ready", "InsufficientCapacity"}

    until("one winner and one refusal", decided)
    until("one placement", lambda: sum(len(world.placements(TEAM, f"{race}-{side}")) for side in "ab") == 1)


def test_what_has_settled_is_left_alone(world: World, record_property: Callable[[str, object], None]) -> None:
    xrs = sum(len(world.stack.hub.find(kind)) for kind in _OURS)
    calls = require_rest(world, SETTLED_SECONDS, _calls)
    record_property("calls of the function", f"{calls} for {xrs} XRs in {SETTLED_SECONDS} s")
    assert calls <= 5 * xrs


def _calls() -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{layout.CORE_METRICS}/metrics") as response:
        metrics = response.read().decode()
    return sum(
        int(float(n)) for n in re.findall(r"^function_run_function_request_total\{.*\} (\S+)$", metrics, re.MULTILINE)
    )
