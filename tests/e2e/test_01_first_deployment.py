"""Scenario 1: one file applied to an empty control plane, and what becomes of it on both clusters."""

import pytest

from function.kube.manifests import condition, get, integer, listing, mapping, text
from tests.e2e.objects import deployment, model
from tests.e2e.world import ACCEPTANCE, World, claims_mounted, gpus, running
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM = "research"
ENVIRONMENT = "hgx-dallas"


def test_without_any_environment_a_deployment_says_so(world: World) -> None:
    if world.stack.hub.find("InferenceEnvironment"):
        pytest.fail("this stack is not empty any more: make e2e-down first")
    team = world.team("too-early")
    world.apply(model("early"), deployment(team, "early", "early"))
    world.wait("ModelDeployment", "early", "Scheduled", "False/NoEnvironments", team)
    world.remove(team, "early")


def test_the_environment_becomes_ready(world: World) -> None:
    world.apply_file(ACCEPTANCE / "kimi-k2-two-nodes.yaml")
    for type_, want in (
        ("ClusterReady", "True/Connected"),
        ("PoolsValid", "True/Valid"),
        ("StorageReady", "True/StorageClassFound"),
        ("Ready", "True"),
    ):
        world.wait("InferenceEnvironment", ENVIRONMENT, type_, want)


def test_the_deployment_becomes_ready_with_a_url(world: World) -> None:
    found = world.ready(TEAM, "kimi-k2")
    assert text(found, "status.url").startswith("http")
    assert condition(found, "Scheduled")["reason"] == "Placed"
    assert get(found, "status.environments") == {"desired": 1, "placed": 1, "ready": 1}
    (placed,) = listing(found, "status.placements")
    assert placed["environment"] == ENVIRONMENT
    assert placed["profile"] == "two-h200-nodes"
    assert (placed["pool"], placed["nodes"], placed["gpusPerNode"]) == ("h200-infiniband", 2, 8)
    assert integer(found, "status.gpus") == 16


def test_the_weights_are_in_a_shared_claim_before_the_service_exists(world: World) -> None:
    placement = world.placement(TEAM, "kimi-k2")
    claim_name = text(placement, "status.storage.claimName")
    claim = world.stack.remote.get("PersistentVolumeClaim", claim_name, TEAM)
    assert text(claim, "status.phase") == "Bound"
    assert get(claim, "spec.accessModes") == ["ReadWriteMany"]
    assert text(claim, "spec.storageClassName") == "shared-vast"
    job = world.stack.remote.get("Job", text(placement, "status.storage.job"), TEAM)
    assert condition(job, "Complete")["status"] == "True"
    assert text(job, "status.completionTime") <= text(world.service(placement), "metadata.creationTimestamp")


def test_two_pods_serve_on_different_nodes_of_the_pool(world: World) -> None:
    placement = world.placement(TEAM, "kimi-k2")
    service = world.service(placement)
    assert condition(service, "Ready")["status"] == "True"
    (group,) = world.stack.remote.find("LeaderWorkerSet", TEAM)
    assert integer(group, "spec.leaderWorkerTemplate.size") == 2
    until("both pods", lambda: [running(pod) for pod in world.pods(service)] == [True, True])
    pods = world.pods(service)
    assert len({text(pod, "spec.nodeName") for pod in pods}) == 2
    assert {world.pool_of(pod) for pod in pods} == {"frontier"}
    assert [gpus(pod) for pod in pods] == ["8", "8"]
    claim = text(placement, "status.storage.claimName")
    assert [claims_mounted(pod) for pod in pods] == [{claim: True}, {claim: True}]


def test_kubectl_get_tells_the_story(world: World) -> None:
    shown = world.stack.kubectl("get", "modeldeployment", "kimi-k2", "-n", TEAM)
    url = text(world.deployment(TEAM, "kimi-k2"), "status.url")
    assert url in shown
    assert mapping(world.deployment(TEAM, "kimi-k2"), "status.environments")
    world.remove(TEAM, "kimi-k2")
