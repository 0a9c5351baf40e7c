"""Scenario 5: a claim that a user brings: reported while missing, filled when it appears, never touched."""

import pytest

from function.kube.manifests import Manifest, condition, get, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World, claims_mounted
from tools.stack import inventory

pytestmark = pytest.mark.e2e
TEAM = "own-claim"

CLAIM: Manifest = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "mine", "namespace": TEAM},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "user-class",
        "resources": {"requests": {"storage": "2Ti"}},
    },
}


def test_a_missing_claim_is_named(world: World) -> None:
    world.team(TEAM)
    world.apply(
        environment("byo", pool("gpus")),
        model("byo", profile=spanning(2, 8)),
        deployment(TEAM, "byo", "byo", on="byo", modelCache={"claimName": "mine"}),
    )
    name = world.wait_placed(TEAM, "byo")
    found = world.wait("ModelPlacement", name, "StorageReady", "False/ClaimNotFound", TEAM)
    assert "mine" in text(condition(found, "StorageReady"), "message")
    assert not world.stack.remote.find("LLMInferenceService", TEAM)
    assert not world.stack.remote.find("PersistentVolumeClaim", TEAM)


def test_it_goes_on_by_itself_when_the_claim_appears(world: World) -> None:
    for manifest in (*inventory.namespaces(TEAM), CLAIM):
        world.stack.remote.apply(manifest)
    before = world.stack.remote.get("PersistentVolumeClaim", "mine", TEAM)
    world.ready(TEAM, "byo")
    placement = world.placement(TEAM, "byo")
    assert text(placement, "status.storage.claimName") == "mine"
    assert text(placement, "status.storage.path").startswith("models/")
    assert [claims_mounted(pod) for pod in world.pods(world.service(placement))] == [{"mine": True}] * 2
    after = world.stack.remote.get("PersistentVolumeClaim", "mine", TEAM)
    assert get(after, "metadata.uid") == get(before, "metadata.uid")
    assert get(after, "metadata.labels") == get(before, "metadata.labels")
    assert get(after, "spec.resources") == get(before, "spec.resources")


def test_the_claim_outlives_the_deployment(world: World) -> None:
    world.remove(TEAM, "byo")
    assert world.stack.remote.get("PersistentVolumeClaim", "mine", TEAM) is not None
