"""Scenario 26: an edit on one node of a full pool, which Kubernetes cannot roll out, is reported as it is written."""

from functools import partial

import pytest

from function.kube.manifests import Manifest, condition, get, listing, text
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.world import World, main_container, running
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM = "rolling"
OLD, NEW = "vllm/vllm-openai:v0.15.0", "vllm/vllm-openai:v0.16.0"
# The remote cluster has two nodes of this label, with two GPUs each: what two replicas take.
FULL = pool(
    "l40s", acceleratorType="nvidia-l40s", acceleratorCount=2, nodeCount=2, labels={"modelplane.ai/pool": "l40s"}
)


def _on(image: str) -> Manifest:
    shape: Manifest = {"nodes": 1, "gpusPerNode": 2}
    return model("rolling", profile={"replicaTopology": shape, "engine": {"name": "vLLM", "image": image}})


def _pods(world: World) -> dict[bool, set[str]]:
    """Return the images of the pods that are there, by whether they run."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for pod in world.pods(world.service(world.placement(TEAM, "rolling"))):
        found[running(pod)].add(text(main_container(pod), "image"))
    return found


def _runs(world: World, images: set[str]) -> bool:
    return _pods(world) == {True: images, False: set()}


def _said(world: World) -> list[str]:
    name = text(world.placement(TEAM, "rolling"), "metadata.name")
    events = (e for e in world.stack.hub.find("Event", TEAM) if get(e, "involvedObject.name") == name)
    return [text(event, "message") for event in events if event.get("reason") == "RolloutNeedsRoom"]


def test_an_edit_that_has_no_room_is_told_and_arrives_once_replicas_were_none(world: World) -> None:
    world.team(TEAM)
    world.apply(
        environment("rolling", FULL), _on(OLD), deployment(TEAM, "rolling", "rolling", on="rolling", replicas=2)
    )
    world.ready(TEAM, "rolling")
    assert _runs(world, {OLD})

    world.apply(_on(NEW))
    until("the new pod to wait for a GPU", lambda: _pods(world) == {True: {OLD}, False: {NEW}})
    steady("the old pods", lambda: _pods(world) == {True: {OLD}, False: {NEW}}, seconds=5)
    placement = world.placement(TEAM, "rolling")
    assert {text(c, "status") for c in listing(placement, "status.conditions")} == {"True"}, "KServe says Ready"
    assert condition(world.service(placement), "Ready").get("status") == "True"
    (note,) = _said(world)
    assert "pool l40s of rolling has no room for 1 replica of 1 node x 2 GPUs" in note

    for replicas, images in ((0, set[str]()), (2, {NEW})):
        world.apply(deployment(TEAM, "rolling", "rolling", on="rolling", replicas=replicas))
        until(f"{replicas} replicas", partial(_runs, world, images))
    world.ready(TEAM, "rolling")
