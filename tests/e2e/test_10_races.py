"""Scenarios 10 and 12: two deployments race for one slot, ten times at once: one wins and the other is refused.

Then ten of the twenty serve, ten are refused, and nothing may be written for two minutes; calls
of the function are counted. Every event of the remote cluster is looked at from the start: never, for no moment at all,
are there two services for one slot.
"""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest

from function.kube.manifests import Manifest, condition, get, mapping, strings, text
from tests.e2e.calls import calls
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.rest import require_rest
from tests.e2e.world import World
from tools.stack.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e
TEAM = "races"
RACES = [f"race-{number}" for number in range(10)]
SETTLED_SECONDS = 120
_OURS = ("ModelDeployment", "ModelPlacement", "InferenceEnvironment", "ClusterModel")


WATCHED_SECONDS = 900
_LAST = "races/last"


class Slots(threading.Thread):
    """Looks at every event of the services: who holds each slot, and where two did."""

    def __init__(self, world: World) -> None:
        super().__init__(daemon=True)
        self._events = world.stack.remote.watch("LLMInferenceService", TEAM, WATCHED_SECONDS)
        self._holders: dict[str, set[str]] = defaultdict(set)
        self.seen = 0
        self.doubled: list[str] = []
        self._ended = False

    def end(self, world: World) -> None:
        """Let an event of our own be the last: the watch has delivered all events before it, and outlives nothing."""
        service = world.stack.remote.find("LLMInferenceService", TEAM)[0]
        labels: Manifest = {"metadata": {"labels": {_LAST: "true"}}}
        world.stack.remote.patch("LLMInferenceService", text(service, "metadata.name"), labels, TEAM)
        self.join(PATIENCE)
        assert self._ended

    def run(self) -> None:
        """Look until the last event, and let go of the connection: a collector that finds it open warns of it."""
        with contextlib.closing(self._events):
            for kind, service in self._events:
                if _LAST in mapping(service, "metadata.labels"):
                    self._ended = True
                    return
                self._look(kind, service)

    def _look(self, kind: str, service: Manifest) -> None:
        race, _, side = strings(service, "metadata.labels")["modelplane.ai/deployment"].rpartition("-")
        self.seen += 1
        if kind == "DELETED" or get(service, "metadata.deletionTimestamp") is not None:
            self._holders[race].discard(side)
        else:
            self._holders[race].add(side)
        if len(self._holders[race]) > 1:
            self.doubled.append(f"event {self.seen}: both sides of {race}")


@pytest.fixture(scope="module", autouse=True)
def slots(world: World) -> Iterator[Slots]:
    world.team(TEAM)
    watching = Slots(world)
    watching.start()
    one = pool("one", acceleratorCount=1, maxNodeCount=1)
    # Heartbeats of nodes are scenario 18's: here every call counts.
    alone: Manifest = {"observe": "Never"}
    world.apply(model("racer"), *(environment(race, one, hardware=alone) for race in RACES))
    for race in RACES:
        world.wait("InferenceEnvironment", race, "Ready", "True")
    world.apply(*(deployment(TEAM, f"{race}-{side}", "racer", on=race) for race in RACES for side in ("a", "b")))
    yield watching
    watching.end(world)
    assert watching.doubled == []


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


def test_there_were_never_two_services_for_one_slot(slots: Slots) -> None:
    assert slots.seen >= len(RACES), "every service came as an event"
    assert slots.doubled == []


def test_what_has_settled_is_left_alone(world: World, record_property: Callable[[str, object], None]) -> None:
    xrs = sum(len(world.stack.hub.find(kind)) for kind in _OURS)
    number = require_rest(world, SETTLED_SECONDS, calls)
    record_property("calls of the function", f"{number} for {xrs} XRs in {SETTLED_SECONDS} s")
    assert number <= 5 * xrs
