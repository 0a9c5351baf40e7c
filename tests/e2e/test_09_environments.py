"""Scenario 9: a deployment on two environments, one of which is deleted."""

import pytest

from function.kube.manifests import condition, get, text
from tests.e2e.objects import GROUP, deployment, environment, model, pool
from tests.e2e.world import World
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM = "both"


def test_the_second_placement_stays_when_the_first_environment_goes(world: World) -> None:
    world.team(TEAM)
    east, west = (environment(f"both-{side}", pool("gpus")) for side in ("east", "west"))
    for each in (east, west):
        each["metadata"] = {"name": get(each, "metadata.name"), "labels": {"e2e": "both"}}
    world.apply(east, west, model("both"), deployment(TEAM, "both", "both", on="both", environments=2))
    until(
        "two placements",
        lambda: get(world.deployment(TEAM, "both"), "status.environments.ready") == 2,
    )
    assert world.deployment(TEAM, "both")["apiVersion"] == GROUP
    assert not text(world.deployment(TEAM, "both"), "status.url")
    before = world.remote_uids(TEAM)

    world.stack.hub.delete("InferenceEnvironment", "both-east")
    found = world.wait("ModelDeployment", "both", "Scheduled", "False/PartiallyPlaced", TEAM)
    assert get(found, "status.environments.desired") == 2
    assert get(found, "status.environments.placed") == 1
    assert "both-east" in text(condition(found, "Scheduled"), "message")
    steady("what serves", lambda: before.items() <= world.remote_uids(TEAM).items(), seconds=8)

    world.apply(east)
    until(
        "both again",
        lambda: get(world.deployment(TEAM, "both"), "status.environments.ready") == 2,
    )
    assert world.remote_uids(TEAM) == before
    world.remove(TEAM, "both")
