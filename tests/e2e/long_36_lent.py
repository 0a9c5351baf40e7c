"""Scenario 36: lent replicas go back to their owner, under constant requests and streams, and none of them fails."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from function.kube.manifests import JSON, Manifest, condition, get, integer, listing, mapping, text
from tests.e2e.fleet import Fleet, open_fleet, small_environment
from tests.e2e.load import Load, constant_load
from tests.e2e.objects import deployment, model, spanning
from tests.e2e.world import World, running
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM, LENDER, OWNER = "lent", "lender", "owner"
_COMPOSITION, _INPUT = "modeldeployments", "/spec/pipeline/0/input"
_PREEMPTION: JSON = {
    "apiVersion": "modelplane.fn.crossplane.io/v1beta1",
    "kind": "Defaults",
    "limits": {"maxPriority": 10, "preemption": "LowerPriority"},
}
_SETTLED_SECONDS = 10  # of load after each step


@dataclass(frozen=True)
class Scene:
    fleet: Fleet
    load: Load
    lines: list[str] = field(default_factory=list)

    @property
    def world(self) -> World:
        return self.fleet.world

    def message(self, name: str, type_: str) -> str:
        return text(condition(self.world.deployment(TEAM, name), type_), "message")

    def runs(self, name: str) -> dict[str, int]:
        """Returns how many pods of a deployment run on each cluster."""
        found: dict[str, int] = {}
        for placement in self.world.placements(TEAM, name):
            cluster = text(placement, "spec.inferenceEnvironmentRef.name")
            found[cluster] = sum(map(running, self.fleet.pods(name, cluster)))
        return {cluster: count for cluster, count in found.items() if count}

    def wait(self, name: str, **pods: int) -> None:
        """Waits until so many pods of a deployment run on each cluster, and its status says so."""
        begin = time.monotonic()

        def arrived() -> bool:
            if (found := self.runs(name)) != pods:
                raise LookupError(f"{name}: {found}; {self.message(name, 'Scheduled')}")
            return True

        until(f"{pods} pods of {name}", arrived, seconds=180)
        self.lines.append(f"{name} {pods} after {time.monotonic() - begin:.1f} s")

    def granted(self) -> int:
        """Returns the GPUs that the environment `east` has granted, of 32."""
        return integer(self.world.stack.hub.get("InferenceEnvironment", "east") or {}, "status.gpus.inUse")

    def keeps(self) -> list[int]:
        rows = listing(self.world.stack.hub.get("InferenceEnvironment", "east") or {}, "status.admitted")
        return [integer(row, "yields.keep") for row in rows if "yields" in row]

    def end_step(self) -> None:
        time.sleep(_SETTLED_SECONDS)
        assert (self.load.failed, self.load.cut) == ([], []), (self.lines, str(self.load))


def _lender(model_name: str, replicas: int, *, divided: bool = False) -> Manifest:
    """Returns a deployment of which one replica is guaranteed, on the east or divided over both clusters."""
    labels: Manifest = {"fleet": "both"} if divided else {"e2e": "east"}
    scaling: Manifest = {
        "replicaScheduling": "Divided" if divided else "Duplicated",
        "fixed": {"replicas": replicas, "guaranteed": 1},
    }
    made = deployment(TEAM, LENDER, model_name, environmentSelector={"matchLabels": labels}, service={})
    mapping(made, "spec")["scaling"] = scaling
    return made


def _owner(replicas: int, priority: int = 0) -> Manifest:
    made = deployment(TEAM, OWNER, "node", on="east", replicas=replicas)
    mapping(made, "spec")["priority"] = priority
    return made


@pytest.fixture(scope="module")
def scene(world: World, empty: None) -> Iterator[Scene]:  # noqa: ARG001  # it comes first
    with open_fleet(world, TEAM) as fleet:
        world.apply(small_environment("east", 4, "dallas-kubeconfig"), small_environment("west", 2, "west-kubeconfig"))
        world.apply(model("node", profile=spanning(1, 8)), model("group", profile=spanning(2, 8)), _lender("node", 4))
        world.ready(TEAM, LENDER)
        fleet.wait_weights(LENDER, {"east": 1})
        with constant_load(fleet.url(LENDER), pace=20) as load:
            yield Scene(fleet, load)


def test_the_owner_gets_its_gpus_and_no_request_fails(
    scene: Scene, record_property: Callable[[str, object], None]
) -> None:
    """Each replica takes one of four nodes: of four lent ones, the owner needs two."""
    scene.wait(LENDER, east=4)
    begin = time.monotonic()
    scene.world.apply(_owner(2))
    until("the lender to be told", scene.keeps, seconds=60)
    scene.lines.append(f"told after {time.monotonic() - begin:.1f} s")
    assert scene.keeps() == [2]
    said = until(
        "the reason", lambda: "lent replicas" in (text_ := scene.message(LENDER, "ScaledAsRequested")) and text_
    )
    assert "the GPUs of 2 lent replicas of pool gpus go to lent/owner (priority 0), which has needed 16 GPUs" in str(
        said
    )
    (waiting,) = scene.world.placements(TEAM, OWNER)
    record_property("Admitted of the owner", text(condition(waiting, "Admitted"), "message"))
    scene.wait(LENDER, east=2)
    scene.wait(OWNER, east=2)
    scene.world.ready(TEAM, OWNER)
    scene.lines.append(f"the owner is Ready after {time.monotonic() - begin:.1f} s")
    assert scene.granted() == 32
    steady("nothing else to change", lambda: scene.runs(LENDER) == {"east": 2}, seconds=20)
    scene.end_step()
    record_property("steps", scene.lines)


def test_the_lender_gets_them_back(scene: Scene) -> None:
    scene.world.remove(TEAM, OWNER)
    scene.wait(LENDER, east=4)
    scene.end_step()


def test_an_owner_that_goes_half_way_takes_no_more(scene: Scene) -> None:
    scene.world.apply(_owner(3))
    until("the lender to be told", scene.keeps, seconds=60)
    scene.world.remove(TEAM, OWNER)
    until("nothing to be given back", lambda: not scene.keeps(), seconds=60)
    scene.wait(LENDER, east=4)
    scene.end_step()


def test_divided_replicas_move_to_where_there_is_room(scene: Scene) -> None:
    """The owner needs three of four nodes in the east, and the west has two."""
    scene.world.apply(_lender("node", 4, divided=True))
    steady("the replicas to stay", lambda: scene.runs(LENDER) == {"east": 4}, seconds=15)
    scene.world.apply(_owner(3))
    lowest = 4

    def has_moved() -> bool:
        nonlocal lowest
        # What starts in the west while this reads is not missed, because the east is read first.
        east, west = (sum(map(running, scene.fleet.pods(LENDER, cluster))) for cluster in ("east", "west"))
        lowest = min(lowest, east + west)
        if (east, west) != (1, 2):
            raise LookupError(f"{east} + {west}; {scene.message(LENDER, 'ScaledAsRequested')}")
        return True

    until("the lender to have moved", has_moved, seconds=180)
    assert lowest == 3, "a replica ended before another one ran in its place"
    scene.wait(OWNER, east=3)
    assert "asked for 4 replicas, 3 granted" in scene.message(LENDER, "ScaledAsRequested")
    scene.end_step()
    scene.world.remove(TEAM, OWNER)
    until("all four replicas", lambda: sum(scene.runs(LENDER).values()) == 4, seconds=180)
    scene.end_step()


def test_a_group_of_nodes_is_given_back_as_a_whole(
    scene: Scene, record_property: Callable[[str, object], None]
) -> None:
    """Two groups of two nodes run, and the owner needs one node."""
    scene.load.end()
    scene.world.remove(TEAM, LENDER)
    scene.world.apply(_lender("group", 2))
    scene.world.ready(TEAM, LENDER)
    scene.wait(LENDER, east=4)
    scene.fleet.wait_weights(LENDER, {"east": 1})
    with constant_load(scene.fleet.url(LENDER), pace=20) as load:
        scene.world.apply(_owner(1))
        scene.wait(LENDER, east=2)
        scene.wait(OWNER, east=1)
        time.sleep(_SETTLED_SECONDS)
        assert (load.failed, load.cut) == ([], []), str(load)
    (placement,) = scene.world.placements(TEAM, LENDER)
    assert (get(placement, "spec.replicas"), get(placement, "spec.guaranteedReplicas")) == (1, 1)
    record_property("steps", scene.lines)


def test_guaranteed_replicas_serve_until_they_serve_elsewhere(
    scene: Scene, record_property: Callable[[str, object], None]
) -> None:
    """The platform allows preemption: the owner takes all four nodes of the east, and the west has room for two."""
    hub = scene.world.stack.hub
    hub.patch("Composition", _COMPOSITION, [{"op": "add", "path": _INPUT, "value": _PREEMPTION}])
    try:
        scene.world.remove(TEAM, OWNER)
        scene.world.remove(TEAM, LENDER)
        selector: Manifest = {"matchLabels": {"fleet": "both"}}
        scene.world.apply(deployment(TEAM, LENDER, "node", replicas=2, environmentSelector=selector, service={}))
        scene.world.ready(TEAM, LENDER)
        scene.wait(LENDER, east=2)
        scene.fleet.wait_weights(LENDER, {"east": 1})
        with constant_load(scene.fleet.url(LENDER), pace=20) as load:
            scene.world.apply(_owner(4, priority=10))
            scene.wait(LENDER, west=2)
            scene.wait(OWNER, east=4)
            time.sleep(_SETTLED_SECONDS)
            assert (load.failed, load.cut) == ([], []), str(load)
    finally:
        hub.patch("Composition", _COMPOSITION, [{"op": "remove", "path": _INPUT}])
    record_property("steps", scene.lines)
