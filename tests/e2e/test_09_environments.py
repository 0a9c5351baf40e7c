"""Scenario 9: a deployment or a ModelCache on two environments of one cluster, one of which is left or deleted."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from function.kube.manifests import condition, get, listing, mapping, text
from tests.e2e.objects import GROUP, cache, deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.stack import layout
from tools.stack.processes import Program
from tools.stack.waiting import listens, steady, until

pytestmark = pytest.mark.e2e
TEAM, KEEPERS, MOVERS = "both", "keepers", "movers"
AWAY_SECONDS = 15


def test_the_second_placement_stays_when_the_first_environment_goes(world: World) -> None:
    world.team(TEAM)
    east, west = (environment(f"both-{side}", pool("gpus")) for side in ("east", "west"))
    for each in (east, west):
        each["metadata"] = {"name": get(each, "metadata.name"), "labels": {"e2e": "both"}}
    world.apply(east, west, model("both"), deployment(TEAM, "both", "both", on="both", environments=2))
    until("two placements", lambda: get(world.deployment(TEAM, "both"), "status.environments.ready") == 2)
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
    until("both again", lambda: get(world.deployment(TEAM, "both"), "status.environments.ready") == 2)
    assert world.remote_uids(TEAM) == before
    world.remove(TEAM, "both")


def _claims(world: World) -> list[str]:
    found = world.stack.remote.find("PersistentVolumeClaim", KEEPERS)
    return sorted(text(claim, "metadata.name") for claim in found)


def test_a_cache_that_leaves_one_of_them_takes_nothing_from_the_other(world: World) -> None:
    """Both are of one cluster, and in one namespace of it."""
    world.team(KEEPERS)
    world.apply(
        *(environment(f"keeps-{side}", pool("gpus")) for side in ("east", "west")),
        model("kept", resources={"disk": "1Gi"}),
        cache(KEEPERS, "both", "kept", ["keeps-east", "keeps-west"]),
    )
    found = world.wait("ModelCache", "both", "Hydrated", "True", KEEPERS)
    claims = {text(row, "name"): text(row, "claimName") for row in listing(found, "status.environments")}
    assert _claims(world) == sorted(claims.values())
    assert len({*claims.values()}) == 2
    kept = claims["keeps-west"]
    uid = get(world.stack.remote.get("PersistentVolumeClaim", kept, KEEPERS), "metadata.uid")
    world.apply(cache(KEEPERS, "both", "kept", ["keeps-west"]))
    until("the other claim to go", lambda: _claims(world) == [kept])
    steady("what is kept", lambda: _claims(world) == [kept], seconds=8)
    assert get(world.stack.remote.get("PersistentVolumeClaim", kept, KEEPERS), "metadata.uid") == uid
    world.wait("ModelCache", "both", "Hydrated", "True", KEEPERS)
    world.delete_cache(KEEPERS, "both")
    until("all of it to go", lambda: _claims(world) == [])


@pytest.fixture(params=["quickly", "slowly", "later"])
def deletions(request: pytest.FixtureRequest, world: World) -> Iterator[str]:
    """How the provider deletes, which must not decide what is left on a cluster."""
    if request.param != "slowly":
        yield request.param
        return
    usual = _kill_provider(world)
    world.stack.processes.start(replace(usual, argv=(*usual.argv, "--max-reconcile-rate=4")))
    yield request.param
    _kill_provider(world)
    world.stack.processes.start(usual)


def _kill_provider(world: World) -> Program:
    killed = world.stack.processes.kill("provider-kubernetes")
    until("the provider's port to be free", lambda: not listens(layout.PROVIDER_HEALTH))
    return killed


def test_what_moved_from_a_deleted_environment_is_deleted_there(world: World, deletions: str) -> None:
    """The provider needs the ClusterProviderConfig of the environment until the last Object is deleted."""
    world.team(MOVERS)
    first, second = (environment(f"moves-{side}", pool("gpus", maxNodeCount=3)) for side in ("east", "west"))
    for each in (first, second):
        mapping(each, "metadata")["labels"] = {"e2e": "moves"}
    models = {"one": model("moves-one"), "two": model("moves-two", profile=spanning(2, 8))}
    world.apply(first, *models.values(), *(deployment(MOVERS, n, f"moves-{n}", on="moves") for n in models))
    for name in models:
        world.ready(MOVERS, name)
    before = [text(world.placement(MOVERS, name), "metadata.name") for name in models]

    world.apply(second)
    world.wait("InferenceEnvironment", "moves-west", "Ready", "True")
    world.stack.hub.delete("InferenceEnvironment", "moves-east")
    if deletions == "later":
        until("a placement to be deleted", lambda: any(_is_leaving(world, name) for name in before))
        killed = _kill_provider(world)
        time.sleep(AWAY_SECONDS)  # the garbage collector deletes the usages of Objects meanwhile
        world.stack.processes.start(killed)

    def left() -> bool:
        objects = world.stack.hub.find("Object", MOVERS)
        deleting = [text(each, "metadata.name") for each in objects if text(each, "metadata.deletionTimestamp")]
        remaining = [name for name in before if world.stack.hub.get("ModelPlacement", name, MOVERS)]
        if deleting or remaining:
            raise LookupError(f"{remaining}, {deleting}")
        return True

    until("what moved to be deleted where it was", left)
    for name in models:
        world.ready(MOVERS, name)
        assert text(world.placement(MOVERS, name), "spec.inferenceEnvironmentRef.name") == "moves-west"
    services = {text(each, "metadata.name") for each in world.stack.remote.find("LLMInferenceService", MOVERS)}
    assert len(services) == len(models), "nothing of the first environment is left"
    until("the config of the deleted environment to go", lambda: not _configs(world, "moves-east"))
    world.remove(MOVERS, *models)
    world.stack.hub.delete("InferenceEnvironment", "moves-west")


def _is_leaving(world: World, name: str) -> bool:
    found = world.stack.hub.get("ModelPlacement", name, MOVERS)
    return not found or bool(text(found, "metadata.deletionTimestamp"))


def _configs(world: World, environment_name: str) -> list[str]:
    listed = world.stack.kubectl("get", "clusterproviderconfigs.kubernetes.m.crossplane.io", "-o", "name").split()
    return [name for name in listed if f"/{environment_name}-" in name]
