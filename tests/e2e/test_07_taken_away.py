"""Scenario 7: environment, model or kubeconfig deleted while serving: the service stays and a condition says so."""

import pytest

from function.kube.manifests import Manifest, condition, get, listing, mapping, text
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.world import World
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM, OTHERS = "bereft", "bereft-too"


@pytest.fixture
def serving(world: World) -> dict[str, str]:
    world.team(TEAM)
    world.kubeconfig("bereft-kubeconfig")
    world.apply(
        environment("bereft", pool("gpus"), secret="bereft-kubeconfig"),
        model("bereft"),
        deployment(TEAM, "bereft", "bereft", on="bereft"),
    )
    world.ready(TEAM, "bereft")
    return world.remote_uids(TEAM)


def _lives_on(world: World, before: dict[str, str], team: str = TEAM) -> None:
    steady("what serves", lambda: world.remote_uids(team) == before, seconds=8)


def test_a_deleted_model_is_named_and_its_service_lives(world: World, serving: dict[str, str]) -> None:
    world.stack.hub.delete("ClusterModel", "bereft")
    found = world.wait("ModelDeployment", "bereft", "ModelResolved", "False/ModelNotFound", TEAM)
    assert "bereft" in text(condition(found, "ModelResolved"), "message")
    _lives_on(world, serving)
    world.apply(model("bereft"))
    world.wait("ModelDeployment", "bereft", "ModelResolved", "True", TEAM)
    world.ready(TEAM, "bereft")


def test_with_a_profile_that_cannot_be_read_fewer_replicas_reach_the_cluster_and_more_wait(
    world: World, serving: dict[str, str]
) -> None:
    """Another profile is valid, so that the deployment decides; its own profile could not run any more."""
    (profile,) = listing(model("bereft"), "spec.serving")
    broken: Manifest = {**profile, "engine": {**mapping(profile, "engine"), "args": ["--tensor-parallel-size=4"]}}
    world.apply(model("bereft", serving=[broken, {**profile, "name": "other"}]))
    placement = text(world.placement(TEAM, "bereft"), "metadata.name")
    world.wait("ModelPlacement", placement, "ReferencesResolved", "False/ModelInvalid", TEAM)
    world.apply(deployment(TEAM, "bereft", "bereft", on="bereft", replicas=2))
    world.wait("ModelDeployment", "bereft", "Scheduled", "False/InvalidProfile", TEAM)
    _lives_on(world, serving)
    assert get(world.service(world.placement(TEAM, "bereft")), "spec.replicas") == 1
    world.apply(deployment(TEAM, "bereft", "bereft", on="bereft", replicas=0))
    world.wait("ModelPlacement", placement, "ServiceReady", "True/ScaledToZero", TEAM)
    until("no replicas", lambda: get(world.service(world.placement(TEAM, "bereft")), "spec.replicas") == 0)
    world.apply(model("bereft"), deployment(TEAM, "bereft", "bereft", on="bereft"))
    world.wait("ModelPlacement", placement, "ServiceReady", "True/Serving", TEAM)
    world.ready(TEAM, "bereft")


def test_a_deleted_kubeconfig_is_told_and_its_service_lives(world: World, serving: dict[str, str]) -> None:
    world.stack.hub.delete("Secret", "bereft-kubeconfig", "modelplane-system")
    found = world.wait("InferenceEnvironment", "bereft", "ClusterReady", "False")
    assert "bereft-kubeconfig" in text(condition(found, "ClusterReady"), "message")
    _lives_on(world, serving)
    world.kubeconfig("bereft-kubeconfig")
    world.wait("InferenceEnvironment", "bereft", "ClusterReady", "True")
    world.ready(TEAM, "bereft")


def test_a_deleted_token_stays_until_nobody_needs_it(world: World) -> None:
    world.team(OTHERS)
    world.secret("bereft-token", {"HF_TOKEN": "hf_not_a_token"})
    private: Manifest = {
        "repo": "example/private",
        "secretRef": {"name": "bereft-token", "namespace": "modelplane-system"},
    }
    world.apply(
        environment("private", pool("gpus")),
        model("private", huggingFace=private),
        deployment(OTHERS, "private", "private", on="private"),
    )
    world.ready(OTHERS, "private")
    before = world.remote_uids(OTHERS)
    assert [key for key in before if key.startswith("Secret")], "its pods read the copy whenever they start"
    world.stack.hub.delete("Secret", "bereft-token", "modelplane-system")
    _lives_on(world, before, OTHERS)
    # provider-kubernetes holds what an Object refers to by a finalizer.
    kept = world.stack.hub.get("Secret", "bereft-token", "modelplane-system")
    assert text(kept, "metadata.deletionTimestamp")
    world.ready(OTHERS, "private")
    world.remove(OTHERS, "private")
    until("the Secret to go", lambda: not world.stack.hub.get("Secret", "bereft-token", "modelplane-system"))


def test_a_deleted_environment_is_told_and_its_service_lives(world: World, serving: dict[str, str]) -> None:
    world.stack.hub.delete("InferenceEnvironment", "bereft")
    placement: Manifest = world.placement(TEAM, "bereft")
    world.wait(
        "ModelPlacement", text(placement, "metadata.name"), "ReferencesResolved", "False/EnvironmentNotFound", TEAM
    )
    _lives_on(world, serving)
    world.apply(environment("bereft", pool("gpus"), secret="bereft-kubeconfig"))
    world.ready(TEAM, "bereft")
    assert world.remote_uids(TEAM) == serving
    world.remove(TEAM, "bereft")
