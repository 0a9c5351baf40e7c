"""Scenario 6: the remote API server is away for two minutes, then each program is killed: nothing is lost or
made again.

One deployment serves and one downloads throughout: its Job's pod waits for a node that only the end
provides.
"""

import time
from collections.abc import Iterator

import pytest

from function.kube.manifests import Manifest, condition, mapping, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.stack import layout
from tools.stack.processes import Program
from tools.stack.waiting import listens, until

pytestmark = pytest.mark.e2e
TEAM = "outage"
AWAY_SECONDS = 120


@pytest.fixture(scope="module")
def before(world: World) -> dict[str, str]:
    world.team(TEAM)
    wide = pool("gpus", maxNodeCount=4)
    held: Manifest = {"storageClassName": "shared-vast", "download": {"nodeSelector": {"e2e-hold": "released"}}}
    world.apply(
        environment("fast", wide),
        environment("slow", wide, storage=held),
        model("outage", profile=spanning(2, 8)),
        deployment(TEAM, "serving", "outage", on="fast"),
        deployment(TEAM, "downloading", "outage", on="slow"),
    )
    world.ready(TEAM, "serving")
    name = world.wait_placed(TEAM, "downloading")
    world.wait("ModelPlacement", name, "StorageReady", "False/Downloading", TEAM)
    return world.remote_uids(TEAM)


@pytest.fixture
def untouched(world: World, before: dict[str, str]) -> Iterator[None]:
    """Nothing remote may be gone or made again, whatever the test does, and both sides converge after it."""
    yield
    assert before.items() <= world.remote_uids(TEAM).items()
    world.ready(TEAM, "serving")


@pytest.mark.usefixtures("untouched")
def test_the_remote_api_server_is_away_for_two_minutes(world: World) -> None:
    placed = world.wait_placed(TEAM, "serving")
    pools = mapping(world.stack.hub.get("InferenceEnvironment", "fast"), "status")["pools"]
    killed = world.stack.processes.kill("remote-apiserver")
    gone = time.monotonic()
    found = world.wait("ModelPlacement", placed, "ServiceReady", "Unknown/Unreachable", TEAM, seconds=AWAY_SECONDS)
    assert text(condition(found, "ServiceReady"), "message")
    # Nodes are looked at as well: what was last known of them counts on.
    found = world.wait(
        "InferenceEnvironment", "fast", "HardwareAsDeclared", "Unknown/Unreachable", seconds=AWAY_SECONDS
    )
    assert mapping(found, "status")["pools"] == pools
    while time.monotonic() - gone < AWAY_SECONDS:
        assert len(world.placements(TEAM, "serving")) == 1
        time.sleep(2)
    world.stack.processes.start(killed)
    until("the remote API server", lambda: listens(layout.REMOTE) and world.stack.remote.ready())
    world.wait("ModelPlacement", placed, "ServiceReady", "True/Serving", TEAM)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("name", ["function-modelplane", "provider-kubernetes", "core"])
def test_a_program_is_killed_and_restarted(name: str, world: World) -> None:
    killed: Program = world.stack.processes.kill(name)
    world.apply(deployment(TEAM, f"during-{name}"[:20].rstrip("-"), "outage", on="nowhere"))
    time.sleep(5)
    world.stack.processes.start(killed)
    late = f"during-{name}"[:20].rstrip("-")
    world.wait("ModelDeployment", late, "Scheduled", "False/NoEnvironmentMatches", TEAM)
    world.remove(TEAM, late)


@pytest.mark.usefixtures("untouched")
def test_the_download_then_ends_as_if_nothing_had_been(world: World) -> None:
    world.stack.remote.patch("Node", "cpu-7-0", {"metadata": {"labels": {"e2e-hold": "released"}}})
    world.ready(TEAM, "downloading")


def test_clean_up(world: World) -> None:
    world.stack.remote.patch("Node", "cpu-7-0", {"metadata": {"labels": {"e2e-hold": None}}})
    world.remove(TEAM, "serving", "downloading")
    until("its services to go", lambda: not world.stack.remote.find("LLMInferenceService", TEAM))
