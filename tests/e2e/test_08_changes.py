"""Scenario 8: revision, shape, replicas and profile edited while serving."""

import copy
from functools import partial

import pytest

from function.kube.manifests import Manifest, condition, get, integer, mapping, text
from function.kube.names import COMPOSITION_KEY
from tests.e2e.objects import VLLM, deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM = "changing"
_SECOND: Manifest = {"repo": "example/changing", "revision": "v2"}


@pytest.fixture(scope="module", autouse=True)
def _serving(world: World) -> None:
    world.team(TEAM)
    world.apply(
        environment("changing", pool("gpus", maxNodeCount=8)),
        model("changing", profile=spanning(2, 8)),
        deployment(TEAM, "changing", "changing", on="changing"),
    )
    world.ready(TEAM, "changing")


def _service_uid(world: World) -> str:
    return text(world.service(world.placement(TEAM, "changing")), "metadata.uid")


def test_replicas_up_and_down_keep_the_service(world: World) -> None:
    before = _service_uid(world)
    for replicas in (2, 1):
        world.apply(deployment(TEAM, "changing", "changing", on="changing", replicas=replicas))
        until(f"{2 * replicas} pods", partial(_has_pods, world, 2 * replicas))
        assert _service_uid(world) == before
    world.ready(TEAM, "changing")


def test_no_replicas_are_ready(world: World) -> None:
    """KServe 0.20 itself says Ready at zero, and so do we; the weights stay."""
    before = _service_uid(world)
    world.apply(deployment(TEAM, "changing", "changing", on="changing", replicas=0))
    until("no pods", partial(_has_pods, world, 0))
    name = text(world.placement(TEAM, "changing"), "metadata.name")
    placement = world.wait("ModelPlacement", name, "ServiceReady", "True/ScaledToZero", TEAM)
    until("no GPUs to be held", lambda: get(world.ready(TEAM, "changing"), "status.gpus") == 0)
    for said in ("Ready", "WorkerWorkloadReady"):
        until(f"KServe to say {said}", partial(_says, world, placement, said))  # a moment after the pods are gone
    world.apply(deployment(TEAM, "changing", "changing", on="changing", replicas=1))
    until("pods again", partial(_has_pods, world, 2))
    world.ready(TEAM, "changing")
    assert _service_uid(world) == before


def _says(world: World, placement: Manifest, type_: str) -> bool:
    return condition(world.service(placement), type_).get("status") == "True"


def test_what_is_derived_restarts_nothing(world: World) -> None:
    """More memory means a longer startup budget for pods that start, and no change for pods that serve."""
    before = world.remote_uids(TEAM)
    generation = get(world.service(world.placement(TEAM, "changing")), "metadata.generation")
    world.apply(model("changing", profile=spanning(2, 8), resources={"vram": "3000Gi"}))
    until(
        "the model's new memory",
        lambda: text(world.stack.hub.get("ClusterModel", "changing") or {}, "status.storage.size") == "3000Gi",
    )
    steady("pods and service", lambda: world.remote_uids(TEAM) == before, seconds=5)
    assert get(world.service(world.placement(TEAM, "changing")), "metadata.generation") == generation


def test_an_edited_profile_changes_the_service_in_place(world: World) -> None:
    before = _service_uid(world)
    engine: Manifest = {"name": "vLLM", "image": VLLM, "args": ["--max-model-len=4096"]}
    world.apply(model("changing", profile={**spanning(2, 8), "engine": engine}))
    until(
        "the new argument",
        lambda: "4096" in str(get(world.service(world.placement(TEAM, "changing")), "spec.template")),
    )
    assert _service_uid(world) == before
    world.ready(TEAM, "changing")


def test_a_new_revision_is_downloaded_beside_the_old(world: World) -> None:
    before = world.placement(TEAM, "changing")
    service, old = _service_uid(world), text(before, "status.storage.path")
    world.apply(model("changing", profile=spanning(2, 8), huggingFace=_SECOND))

    def moved() -> bool:
        now = world.placement(TEAM, "changing")
        uri = text(world.service(now), "spec.model.uri")
        return text(now, "status.storage.path") != old and not uri.endswith(old)

    until("the service to move to the new weights", moved)
    assert _service_uid(world) == service
    world.ready(TEAM, "changing")
    claim = text(world.placement(TEAM, "changing"), "status.storage.claimName")
    until(
        "the old claim to go",
        lambda: [text(c, "metadata.name") for c in world.stack.remote.find("PersistentVolumeClaim", TEAM)] == [claim],
    )


def test_a_service_that_crossplane_lost_sight_of_goes_and_the_other_serves_on(world: World) -> None:
    """As after a list that was written from before: an Object of the placement's that is in no list of its."""
    service = _service_uid(world)
    (seen,) = [
        found
        for found in world.stack.hub.find("Object", TEAM)
        if text(found, "spec.forProvider.manifest.kind") == "LLMInferenceService"
    ]
    lost: Manifest = {key: copy.deepcopy(seen[key]) for key in ("apiVersion", "kind", "spec")}
    mapping(lost, "spec.forProvider.manifest.metadata")["name"] = "lost"
    kept = {key: get(seen, f"metadata.{key}") for key in ("namespace", "labels")}
    lost["metadata"] = {**kept, "name": "lost"}
    world.stack.kubectl.apply([lost])
    until("its pods", lambda: sorted(_sizes(world)) == [2, 2])
    owned: Manifest = {
        "annotations": {COMPOSITION_KEY: "service-lost"},
        "ownerReferences": get(seen, "metadata.ownerReferences"),
    }
    world.stack.hub.patch("Object", "lost", {"metadata": owned}, TEAM)
    # Crossplane looks when its TTL ends, or when the placement changes.
    placement = text(world.placement(TEAM, "changing"), "metadata.name")
    world.stack.hub.patch("ModelPlacement", placement, {"metadata": {"annotations": {"look": "again"}}}, TEAM)
    until("its Object to go", lambda: world.stack.hub.get("Object", "lost", TEAM) is None)
    until("its pods to go", lambda: _sizes(world) == [2])
    assert _service_uid(world) == service
    world.ready(TEAM, "changing")


def test_another_group_size_replaces_the_service(world: World) -> None:
    before = _service_uid(world)
    world.apply(model("changing", profile=spanning(4, 8), huggingFace=_SECOND))
    until(
        "four nodes",
        lambda: get(world.placement(TEAM, "changing"), "spec.topology.nodes") == 4 and _service_uid(world) != before,
    )
    until("one group of four, and no other", lambda: _sizes(world) == [4])
    world.ready(TEAM, "changing")
    world.remove(TEAM, "changing")


def _has_pods(world: World, want: int) -> bool:
    return len(world.pods(world.service(world.placement(TEAM, "changing")))) == want


def _sizes(world: World) -> list[int]:
    groups = world.stack.remote.find("LeaderWorkerSet", TEAM)
    return [integer(group, "spec.leaderWorkerTemplate.size") for group in groups]
