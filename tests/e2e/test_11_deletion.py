"""Scenario 11: what goes with a deployment and what stays."""

import pytest

from function.kube.manifests import Manifest, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM = "leaving"


def test_service_job_and_managed_claim_go_and_the_rest_stays(world: World) -> None:
    world.team(TEAM)
    shared: Manifest = {"storageClassName": "shared-vast", "mode": "Shared"}
    world.apply(
        environment("own", pool("gpus", maxNodeCount=4)),
        environment("shared", pool("gpus", maxNodeCount=4), storage=shared),
        model("leaving", profile=spanning(2, 8)),
        deployment(TEAM, "managed", "leaving", on="own"),
        deployment(TEAM, "common", "leaving", on="shared"),
    )
    for name in ("managed", "common"):
        world.ready(TEAM, name)
    namespace = text(world.stack.remote.get("Namespace", TEAM), "metadata.uid")

    world.remove(TEAM, "managed", "common")
    until("services and groups to go", lambda: not _kinds(world, "LLMInferenceService", "LeaderWorkerSet"))
    until("the managed claim to go", lambda: _names(world, "PersistentVolumeClaim") == ["model-cache"])
    assert text(world.stack.remote.get("Namespace", TEAM), "metadata.uid") == namespace
    until("the hub to be clean", lambda: not world.stack.hub.find("Object", TEAM))
    assert not world.stack.hub.find("ModelPlacement", TEAM)


def _names(world: World, kind: str) -> list[str]:
    return [text(found, "metadata.name") for found in world.stack.remote.find(kind, TEAM)]


def _kinds(world: World, *kinds: str) -> list[str]:
    return [name for kind in kinds for name in _names(world, kind)]
