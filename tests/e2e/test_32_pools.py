"""Scenario 32: a pool is renamed and relabelled while a model serves on it: the model does not notice (decision 41)."""

import pytest

from function.kube.manifests import Manifest, condition, get, mapping, text
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.rest import wait_for_rest
from tests.e2e.world import World
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM = NAME = "pools"


def _pool_in_use(world: World, problem: str) -> str:
    """Waits until PoolsValid names a problem of a pool in use; returns the message."""

    def message() -> str:
        found = world.wait("InferenceEnvironment", NAME, "PoolsValid", "False/PoolInUse")
        said = text(condition(found, "PoolsValid"), "message")
        return said if problem in said else ""

    return until(f"the problem {problem}", message)


def _describe(world: World) -> Manifest:
    """Returns what must not change: the service and its pods."""
    service = world.service(world.placement(TEAM, NAME))
    pods = sorted(text(pod, "metadata.uid") for pod in world.pods(service))
    return {"uid": text(service, "metadata.uid"), "spec": mapping(service, "spec"), "pods": [*pods]}


def test_edits_of_a_pool_in_use_change_nothing(world: World) -> None:
    world.team(TEAM)
    world.apply(environment(NAME, pool("gpus")), model(NAME), deployment(TEAM, NAME, NAME, on=NAME))
    world.ready(TEAM, NAME)
    wait_for_rest(world)
    before = _describe(world)
    placement = text(world.placement(TEAM, NAME), "metadata.name")
    for edited, problem in (
        (pool("gpus", labels={"modelplane.ai/pool": "medium"}), "cannot change while"),
        (pool("renamed"), "select nodes of pool gpus"),
    ):
        world.apply(environment(NAME, edited))
        assert f"{TEAM}/{placement}" in _pool_in_use(world, f"spec.nodePools[0].labels: {problem}")
        wait_for_rest(world)
        assert _describe(world) == before
        assert get(world.placement(TEAM, NAME), "spec.pool") == "gpus"
    world.apply(deployment(TEAM, "another", NAME, on=NAME))
    world.wait("ModelDeployment", "another", "Scheduled", "False/NoPoolSatisfiesRequirements", TEAM)
    assert _describe(world) == before


def test_the_pool_is_free_once_its_placements_are_gone(world: World) -> None:
    world.remove(TEAM, NAME)
    world.wait("InferenceEnvironment", NAME, "PoolsValid", "True/Valid")
    world.ready(TEAM, "another")
    assert get(world.placement(TEAM, "another"), "spec.pool") == "renamed"
    world.remove(TEAM, "another")
