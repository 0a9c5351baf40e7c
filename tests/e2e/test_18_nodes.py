"""Scenario 18: nodes are cordoned, lose GPUs, or are not there at all, and the kubeconfig may not look at them.

What serves stays whatever becomes of its nodes, and what is new goes where nodes can be used.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import JSON, Manifest, condition, get, is_deleting, listing, mapping, text
from tests.e2e.calls import calls
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.rest import wait_for_rest
from tests.e2e.world import World
from tools.stack import layout, upstream
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM, PLACE = "nodes", "nodes"
FIRST, SECOND, LACKING = "l40s-5-0", "l40s-5-1", "medium-0-3"
HONEST = {FIRST, SECOND, *(f"medium-0-{number}" for number in range(4)), *(f"frontier-1-{n}" for n in range(8))}
LABEL = "modelplane.ai/pool"
OTHERS = tuple(
    pool(name, nodeCount=count, maxNodeCount=count, labels={LABEL: name})
    for name, count in (("medium", 4), ("frontier", 8))
)
# provider-kubernetes polls every 20 seconds here; its collection, then its Objects.
_POLL_SECONDS, _NEWS_SECONDS = 20, 120
# `make e2e-long`: five minutes of heartbeats, and a thousand nodes that no pool declares.
_LONG = "E2E_LONG" in os.environ
_BEATS, _STRAYS = (15, 1_000) if _LONG else (3, 100)


def l40s(name: str = "l40s", **more: JSON) -> Manifest:
    """Return the pool of the two nodes with two GPUs each, which has no autoscaler."""
    base: Manifest = {
        "acceleratorType": "nvidia-l40s",
        "acceleratorCount": 2,
        "nodeCount": 2,
        "labels": {LABEL: "l40s"},
    }
    return pool(name, **{**base, **more})


def hardware(world: World, name: str, want: str) -> str:
    """Wait for HardwareAsDeclared to read so, and return its message."""
    found = world.wait("InferenceEnvironment", name, "HardwareAsDeclared", want, seconds=_NEWS_SECONDS)
    return text(condition(found, "HardwareAsDeclared"), "message")


def observed(world: World, name: str) -> Manifest:
    """Return what was observed of the first pool of an environment."""
    return mapping(listing(world.stack.hub.get("InferenceEnvironment", name), "status.pools")[0], "observed")


def scheduled(world: World, name: str, want: str) -> str:
    found = world.wait("ModelDeployment", name, "Scheduled", want, TEAM, seconds=_NEWS_SECONDS)
    return text(condition(found, "Scheduled"), "message")


def cordon(world: World, node: str, *, unschedulable: bool) -> None:
    world.stack.remote.patch("Node", node, {"spec": {"unschedulable": unschedulable or None}})


@pytest.fixture(scope="module", autouse=True)
def before(world: World) -> Iterator[dict[str, str]]:
    """Let one deployment serve from one of the nodes, and return what it has on the cluster."""
    world.team(TEAM)
    world.apply(
        model("small", profile=spanning(1, 2)),
        model("wide", profile=spanning(2, 2)),
        environment(PLACE, l40s(), *OTHERS),
        deployment(TEAM, "serves", "small", on=PLACE),
    )
    world.ready(TEAM, "serves")
    yield world.remote_uids(TEAM)
    world.remove(TEAM, "serves")


@pytest.fixture(autouse=True)
def untouched(world: World, before: dict[str, str]) -> Iterator[None]:
    """Nothing on the cluster may be gone, made again or added, whatever a test does."""
    yield
    # What is deleted before the provider has created it, the provider creates first.
    until("Objects of a test to go", lambda: not any(map(is_deleting, world.stack.hub.find("Object", TEAM))))
    until("what a test brought to go", lambda: world.remote_uids(TEAM) == before)
    steady("what runs", lambda: world.remote_uids(TEAM) == before, seconds=6)
    world.ready(TEAM, "serves")


def test_three_honest_pools_are_as_declared(world: World, record_property: Callable[[str, object], None]) -> None:
    assert hardware(world, PLACE, "True/AsDeclared") == "14 nodes, all usable and as declared"
    pools = listing(world.stack.hub.get("InferenceEnvironment", PLACE), "status.pools")
    assert [get(pool, "observed") for pool in pools] == [
        {"nodes": 2, "usable": 2, "gpusPerNode": 2},
        {"nodes": 4, "usable": 4, "gpusPerNode": 8},
        {"nodes": 8, "usable": 8, "gpusPerNode": 8},
    ]
    (collection,) = world.stack.hub.find("ObservedObjectCollection", "modelplane-system")
    name = text(collection, "metadata.name")
    members = world.stack.hub.find(
        "Object", "modelplane-system", f"kubernetes.crossplane.io/owned-by-collection={name}"
    )
    assert {text(m, "status.atProvider.manifest.metadata.name") for m in members} == HONEST
    record_property("bytes of a node's Object", max(len(str(member)) for member in members))


def test_heartbeats_wake_nobody_but_the_environment(
    world: World, record_property: Callable[[str, object], None]
) -> None:
    """Calls there are, and not one write: nothing that moves is in the status."""
    hardware(world, PLACE, "True/AsDeclared")
    before, number = _at_rest(world), calls()
    for _ in range(_BEATS):
        for name in sorted(HONEST):
            beat: Manifest = {"metadata": {"annotations": {"e2e-beat": str(time.monotonic_ns())}}}
            world.stack.remote.patch("Node", name, beat)
        time.sleep(_POLL_SECONDS)
    said = f"calls in {_BEATS * _POLL_SECONDS} seconds of polls, with a heartbeat of each node before each"
    record_property(said, calls() - number)
    assert _versions(world) == before


def _at_rest(world: World) -> dict[str, str]:
    """Waits until nothing is written any more, and return the versions that stay."""
    wait_for_rest(world)
    return _versions(world)


def _versions(world: World) -> dict[str, str]:
    kinds = ("InferenceEnvironment", "ModelDeployment", "ModelPlacement")
    found = [(kind, m) for kind in kinds for m in world.stack.hub.find(kind)]
    return {f"{kind} {text(m, 'metadata.name')}": text(m, "metadata.resourceVersion") for kind, m in found}


def test_nodes_of_nobody_change_nothing(world: World) -> None:
    """Nodes that no pool declares are not even looked at, however many there are."""
    before = _at_rest(world)
    nodes = [f"stray-{number}" for number in range(_STRAYS)]
    for name in nodes:
        world.stack.remote.apply(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"e2e": "x"}}}
        )
    steady("the environment", lambda: _versions(world) == before, seconds=2 * _POLL_SECONDS)
    for name in nodes:
        world.stack.remote.delete("Node", name)


def test_pools_as_the_command_line_suggests_them(world: World) -> None:
    """Always looks at every node; what it prints is pasted into an environment, which is as declared."""
    chosen: Manifest = {"observe": "Always", "selector": {"matchLabels": {LABEL: "l40s"}}}
    world.apply(environment("nodes-suggested", l40s(labels={}, acceleratorCount=1), hardware=chosen))
    hardware(world, "nodes-suggested", "True/AsDeclared")
    kubeconfig = str(world.stack.home.kubeconfig("hub"))
    program = (str(Path(sys.executable).with_name("modelplane")), "capacity", "--suggest", "--kubeconfig", kubeconfig)
    printed = subprocess.run(program, capture_output=True, check=True, text=True, timeout=300).stdout
    mine = printed.partition("# spec of InferenceEnvironment nodes-suggested, of 2 nodes\n")[2].partition("# spec of ")[
        0
    ]
    pools = yaml.safe_load(mine)["nodePools"]
    want: Manifest = {"name": "l40s", "acceleratorCount": 2, "nodeCount": 2, "labels": {LABEL: "l40s"}}
    assert pools == [want]
    world.apply(environment("nodes-pasted", *pools))
    hardware(world, "nodes-pasted", "True/AsDeclared")


def test_what_is_new_waits_for_a_cordoned_node(
    world: World, before: dict[str, str], record_property: Callable[[str, object], None]
) -> None:
    world.apply(environment("nodes-wide", l40s()))
    hardware(world, "nodes-wide", "True/AsDeclared")
    cordon(world, SECOND, unschedulable=True)
    said = hardware(world, "nodes-wide", "False/NodesUnusable")
    assert said == f"pool l40s: {SECOND} is cordoned"
    world.apply(deployment(TEAM, "late", "wide", on="nodes-wide"))
    assert f"2 nodes declared, 1 usable ({SECOND} is cordoned)" in scheduled(
        world, "late", "False/InsufficientCapacity"
    )
    world.ready(TEAM, "serves")
    cordon(world, SECOND, unschedulable=False)
    began = time.monotonic()
    scheduled(world, "late", "True/Placed")
    record_property("seconds from uncordon to placed", round(time.monotonic() - began, 1))
    # Removed before anything of it is there, it could still appear while `untouched` looks.
    until("what is new on the cluster", lambda: world.remote_uids(TEAM) != before)
    world.remove(TEAM, "late")


def test_a_label_that_no_node_has(world: World) -> None:
    chosen: Manifest = {"selector": {"matchLabels": {LABEL: "l40s"}}}
    world.apply(environment("nodes-mislabelled", l40s(labels={LABEL: "l40"}), hardware=chosen))
    said = hardware(world, "nodes-mislabelled", "False/NoNodes")
    assert said == f"pool l40s: no node has {LABEL}=l40; the nearest, {FIRST}, has {LABEL}=l40s"
    world.apply(deployment(TEAM, "lost", "small", on="nodes-mislabelled"))
    assert "2 nodes declared, 0 usable" in scheduled(world, "lost", "False/InsufficientCapacity")
    world.remove(TEAM, "lost")


def test_a_node_with_a_gpu_less(world: World) -> None:
    """With 7 of 8 GPUs it is of no use to a pool of eight on each node, and as good as any to a pool of four."""
    nodes, gpus = 4, {"nodes-eight": 8, "nodes-four": 4}
    for name, each in gpus.items():
        declared = l40s(nodeCount=nodes, maxNodeCount=nodes, acceleratorCount=each, labels={LABEL: "medium"})
        world.apply(environment(name, declared), model(name, profile=spanning(nodes, each)))
        hardware(world, name, "True/AsDeclared")
    _allocatable(world, LACKING, 7)
    said = hardware(world, "nodes-eight", "False/NodesUnusable")
    assert said == f"pool l40s: {LACKING} has 7 of 8 nvidia.com/gpu"
    until("the fewest", lambda: observed(world, "nodes-four").get("gpusPerNode") == 7, seconds=_NEWS_SECONDS)
    hardware(world, "nodes-four", "True/AsDeclared")
    world.apply(*(deployment(TEAM, name, name, on=name) for name in gpus))
    said = scheduled(world, "nodes-eight", "False/InsufficientCapacity")
    assert f"4 nodes declared, 3 usable ({LACKING} has 7 of 8 nvidia.com/gpu), 0 in use" in said
    scheduled(world, "nodes-four", "True/Placed")
    _allocatable(world, LACKING, 8)
    scheduled(world, "nodes-eight", "True/Placed")
    world.remove(TEAM, *gpus)


def _allocatable(world: World, node: str, gpus: int) -> None:
    body: Manifest = {"status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}}
    world.stack.remote.patch("Node", node, body, part="status")


def test_an_autoscaled_pool_at_zero(world: World) -> None:
    empty = l40s(nodeCount=0, labels={LABEL: "not-yet"})
    world.apply(environment("nodes-zero", empty), deployment(TEAM, "grows", "small", on="nodes-zero"))
    hardware(world, "nodes-zero", "True/NoNodesYet")
    scheduled(world, "grows", "True/Placed")
    world.remove(TEAM, "grows")


def test_without_the_right_to_look(world: World) -> None:
    rbac = upstream.read(layout.SOURCE / "install/remote-rbac.yaml")
    role = next(manifest for manifest in rbac if manifest["kind"] == "ClusterRole")
    rules: list[JSON] = [rule for rule in listing(role, "rules") if get(rule, "resources") != ["nodes"]]
    world.stack.remote.patch("ClusterRole", text(role, "metadata.name"), {"rules": rules})
    said = hardware(world, PLACE, "Unknown/Forbidden")
    assert "install/remote-rbac.yaml" in said
    assert "nodes" in said
    assert observed(world, PLACE) == {"nodes": 2, "usable": 2, "gpusPerNode": 2}
    world.wait("InferenceEnvironment", PLACE, "ClusterReady", "True")
    world.stack.remote.patch("ClusterRole", text(role, "metadata.name"), {"rules": [*listing(role, "rules")]})
    hardware(world, PLACE, "True/AsDeclared")
