"""Scenario 10: two deployments race for one slot, ten times at once: one wins, the other is told, and both rest."""

import pytest

from function.kube.manifests import condition, text
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.rest import require_rest
from tests.e2e.world import World
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM = "races"
RACES = [f"race-{number}" for number in range(10)]
SETTLED_SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def _started(world: World) -> None:
    world.team(TEAM)
    one = pool("one", acceleratorCount=1, maxNodeCount=1)
    world.apply(model("racer"), *(environment(race, one) for race in RACES))
    for race in RACES:
        world.wait("InferenceEnvironment", race, "Ready", "True", seconds=90)
    world.apply(*(deployment(TEAM, f"{race}-{side}", "racer", on=race) for race in RACES for side in ("a", "b")))


def _reason(world: World, name: str) -> str:
    found = world.deployment(TEAM, name)
    ready, scheduled = condition(found, "Ready"), condition(found, "Scheduled")
    return "Ready" if ready.get("status") == "True" else text(scheduled, "reason")


@pytest.mark.parametrize("race", RACES)
def test_one_of_two_wins(race: str, world: World) -> None:
    def decided() -> bool:
        return {_reason(world, f"{race}-{side}") for side in ("a", "b")} == {"Ready", "InsufficientCapacity"}

    # The first race waits until all twenty deployments have started, on two processors.
    until("one winner and one refusal", decided, seconds=300)
    until("one placement", lambda: sum(len(world.placements(TEAM, f"{race}-{side}")) for side in "ab") == 1)


def test_nothing_flaps_afterwards(world: World) -> None:
    assert require_rest(world, SETTLED_SECONDS)
