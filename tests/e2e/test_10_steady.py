"""Scenarios 10 and 12: races for one slot end with one winner, and what has settled is left alone.

Ten pairs race for ten slots at once while twenty deployments run beside them; then nothing may be written
for two minutes, by anybody, and calls of the function are counted.
"""

import re
import time
import urllib.request

import pytest

from function.kube.manifests import condition, text
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.world import World
from tools.stack import layout
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
RACES = [f"race-{number}" for number in range(10)]
CROWD = [f"crowd-{number}" for number in range(20)]
QUIET_SECONDS = 8
SETTLED_SECONDS = 120
_WATCHED = ("ModelDeployment", "ModelPlacement", "InferenceEnvironment", "ClusterModel", "Object", "Event")
_WATCHED_REMOTELY = ("LLMInferenceService", "Deployment", "LeaderWorkerSet", "PersistentVolumeClaim", "Job")


@pytest.fixture(scope="module", autouse=True)
def _started(world: World) -> None:
    world.team("races")
    world.team("crowd")
    one = pool("one", acceleratorCount=1, maxNodeCount=1)
    world.apply(
        model("crowd"),
        environment("crowd", pool("gpus", maxNodeCount=8)),
        *(environment(race, one) for race in RACES),
    )
    world.apply(*(deployment("crowd", name, "crowd", on="crowd") for name in CROWD))
    for race in RACES:
        world.wait("InferenceEnvironment", race, "Ready", "True", seconds=90)
    world.apply(*(deployment("races", f"{race}-{side}", "crowd", on=race) for race in RACES for side in ("a", "b")))


def _reason(world: World, name: str) -> str:
    found = world.deployment("races", name)
    ready, scheduled = condition(found, "Ready"), condition(found, "Scheduled")
    return "Ready" if ready.get("status") == "True" else text(scheduled, "reason")


@pytest.mark.parametrize("race", RACES)
def test_one_of_two_wins(race: str, world: World) -> None:
    def decided() -> bool:
        return {_reason(world, f"{race}-{side}") for side in ("a", "b")} == {"Ready", "InsufficientCapacity"}

    # The first race waits until all forty deployments have started, on two processors.
    until("one winner and one refusal", decided, seconds=300)
    until("one placement", lambda: sum(len(world.placements("races", f"{race}-{side}")) for side in "ab") == 1)


def test_what_has_settled_is_left_alone(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for name in CROWD:
        world.ready("crowd", name, seconds=300)
    until("everything to come to rest", lambda: _rests(world), seconds=90)
    before, calls = _versions(world), _calls()
    time.sleep(SETTLED_SECONDS)
    after = _versions(world)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    made = _calls() - calls
    xrs = sum(kind.split()[0] in _WATCHED[:4] for kind in after)
    with capsys.disabled():
        print(f"\n{made} calls of the function for {xrs} XRs in {SETTLED_SECONDS} s")  # noqa: T201  # the measurement
    assert not sorted(changed)
    assert made <= 5 * xrs


def _rests(world: World) -> bool:
    before = _versions(world)
    time.sleep(QUIET_SECONDS)
    return _versions(world) == before


def _versions(world: World) -> dict[str, str]:
    found = [(each, world.stack.hub.find(each)) for each in _WATCHED]
    found += [(each, world.stack.remote.find(each)) for each in _WATCHED_REMOTELY]
    return {
        f"{kind} {text(each, 'metadata.namespace')}/{text(each, 'metadata.name')}": text(
            each, "metadata.resourceVersion"
        )
        for kind, items in found
        for each in items
    }


def _calls() -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{layout.CORE_METRICS}/metrics") as response:
        metrics = response.read().decode()
    return sum(
        int(float(n)) for n in re.findall(r"^function_run_function_request_total\{.*\} (\S+)$", metrics, re.MULTILINE)
    )
