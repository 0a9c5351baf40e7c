"""Scenario 28: a ModelService gives deployments on two GPU clusters one URL, through real gateways on all three.

Two clusters serve `stable` with two groups of two nodes each. Requests say which pod answered them.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from function.kube.manifests import JSON, Manifest, condition, integer, listing, mapping, text
from function.remote.node_collection import MEMBERSHIP
from tests.e2e.calls import calls, calls_by_kind, calls_by_name
from tests.e2e.fleet import THROTTLE_SECONDS, Fleet, environments, model_service, open_fleet
from tests.e2e.load import constant_load
from tests.e2e.objects import VLLM, deployment, model, spanning
from tests.e2e.rest import require_rest, wait_for_rest
from tests.e2e.world import World
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM, STABLE, CANARY, CHAT = "one-url", "stable", "canary", "chat"
BOTH: Manifest = {"matchLabels": {"fleet": "both"}}
COMPOSITES = ("ModelDeployment", "ModelPlacement", "ModelService", "InferenceEnvironment", "ClusterModel")
REST_SECONDS = 300 if "E2E_LONG" in os.environ else 30


def _canary(context: int) -> Manifest:
    engine: Manifest = {"name": "vLLM", "image": VLLM, "args": [f"--max-model-len={context}"]}
    return model("canary", profile={**spanning(2, 2), "engine": engine}, model={"name": "example/chat"})


def _on_both(name: str, model_name: str, replicas: int) -> Manifest:
    return deployment(
        TEAM, name, model_name, replicas=replicas, environments=2, environmentSelector=BOTH, modelCache={"type": "PVC"}
    )


@pytest.fixture(scope="module")
def fleet(world: World, empty: None) -> Iterator[Fleet]:  # noqa: ARG001  # it comes first
    with open_fleet(world, TEAM) as fleet:
        world.apply(model("stable", profile=spanning(2, 2), model={"name": "example/chat"}))
        world.apply(_on_both(STABLE, "stable", 2), model_service(TEAM, CHAT, {STABLE: 1}))
        world.ready(TEAM, STABLE)
        fleet.wait_weights(CHAT, {"east": 1, "west": 1})
        yield fleet


def test_requests_follow_ready_replicas(fleet: Fleet, record_property: Callable[[str, object], None]) -> None:
    """With two groups on each cluster half of the requests go to each; once one is lost, its cluster gets a third."""
    assert fleet.ask(CHAT, 300) == {"east": 150, "west": 150}
    fleet.cordon("west", unschedulable=True)
    fleet.kill("west", fleet.leaders(STABLE, "west")[0])
    fleet.wait_weights(CHAT, {"east": 2, "west": 1})
    answers = fleet.answers(CHAT, 300)
    record_property("300 requests at 2 and 1 groups", dict(Counter(each.cluster for each in answers)))
    record_property("pods that answered", dict(Counter(each.pod for each in answers)))
    assert Counter(each.cluster for each in answers) == {"east": 200, "west": 100}
    fleet.cordon("west", unschedulable=False)
    fleet.wait_weights(CHAT, {"east": 1, "west": 1})
    assert fleet.ask(CHAT, 300) == {"east": 150, "west": 150}


def test_a_canary_gets_a_tenth_and_is_promoted_and_rolled_back_by_one_edit(
    world: World, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    world.apply(_canary(8192), _on_both(CANARY, "canary", 1))
    world.ready(TEAM, CANARY)
    parts = []
    for weights in ({STABLE: 9, CANARY: 1}, {STABLE: 0, CANARY: 1}, {STABLE: 9, CANARY: 1}, {STABLE: 1, CANARY: 0}):
        world.apply(model_service(TEAM, CHAT, weights))
        until("the weights to be written", partial(_written, fleet, weights))
        time.sleep(THROTTLE_SECONDS)
        by_pod = Counter(_deployment_of(each.pod) for each in fleet.answers(CHAT, 200))
        parts.append(dict(by_pod))
        total = sum(weights.values())
        assert by_pod == Counter({name: 200 * weight // total for name, weight in weights.items() if weight})
    record_property("of 200 requests at 9:1, promoted, 9:1 and rolled back", parts)
    said = condition(fleet.service(CHAT), "BackendsAlike")
    record_property("BackendsAlike", text(said, "message"))
    assert (text(said, "status"), text(said, "reason")) == ("False", "Different")
    assert "8192" in text(said, "message")
    world.apply(model_service(TEAM, CHAT, {STABLE: 1}))
    world.remove(TEAM, CANARY)
    fleet.wait_weights(CHAT, {"east": 1, "west": 1})


def _written(fleet: Fleet, weights: dict[str, int]) -> bool:
    """Return whether both clusters are reported with these weights inside."""
    positive = {name: weight for name, weight in weights.items() if weight}
    for endpoint in listing(fleet.service(CHAT), "status.endpoints"):
        found = {text(b, "deployment"): integer(b, "weight") for b in listing(endpoint, "backends")}
        if {name: weight for name, weight in found.items() if weight} != positive:
            raise LookupError(str(found))
    return True


def _deployment_of(pod: str) -> str:
    return STABLE if pod.startswith(STABLE) else CANARY


def test_a_cluster_that_loses_all_pods_gets_no_requests_and_comes_back(
    fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    with constant_load(fleet.url(CHAT)) as load:
        time.sleep(2)
        assert not load.failed
        fleet.cordon("west", unschedulable=True)
        lost = time.monotonic()
        fleet.kill("west", *fleet.pods(STABLE, "west"))
        fleet.wait_weights(CHAT, {"east": 1, "west": 0})
        withdrawn, failed = time.monotonic(), list(load.failed)
        before = load.requests
        until("500 more requests", lambda: load.requests >= before + 500)
        assert load.failed == failed
        fleet.cordon("west", unschedulable=False)
        fleet.wait_weights(CHAT, {"east": 1, "west": 1})
        until("500 more requests", lambda: load.requests >= before + 1000)
        assert load.failed == failed
    last = max((when for when, _ in failed), default=lost)
    record_property("seconds to the last failed request", f"{last - lost:.1f}")
    record_property("failed, and how", dict(Counter(how for _, how in failed)))
    record_property("all in all", str(load))
    assert last < withdrawn
    assert fleet.ask(CHAT, 300) == {"east": 150, "west": 150}


def test_an_unreachable_cluster_is_withdrawn_and_the_last_one_is_kept(
    world: World, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    """API servers are down and gateways go on: no request fails."""
    processes = world.stack.processes
    with constant_load(fleet.url(CHAT)) as load:
        west, started = processes.kill("west-apiserver"), time.monotonic()
        fleet.wait_weights(CHAT, {"east": 1, "west": 0})
        record_property("seconds until west is withdrawn", f"{time.monotonic() - started:.0f}")
        assert text(fleet.endpoint(CHAT, "west"), "state") == "Unreachable"
        assert fleet.ask(CHAT, 100) == {"east": 100}
        east = processes.kill("remote-apiserver")
        until("east to be unreachable", lambda: text(fleet.endpoint(CHAT, "east"), "state") == "Unreachable")
        time.sleep(THROTTLE_SECONDS)
        assert fleet.weights(CHAT) == {"east": 1, "west": 0}
        assert fleet.ask(CHAT, 100) == {"east": 100}
        for program in (west, east):
            processes.start(program)
        fleet.wait_weights(CHAT, {"east": 1, "west": 1})
    record_property("all in all", str(load))
    assert (load.failed, load.cut) == ([], [])
    assert fleet.ask(CHAT, 300) == {"east": 150, "west": 150}


def test_what_crossplane_lost_sight_of_is_adopted_and_deleted(world: World, fleet: Fleet) -> None:
    """As after a call that saw an older list of what is composed (decision 14): it would stay for ever."""
    name = "lost-sight"
    world.apply(deployment(TEAM, name, "stable", on="west", modelCache={"type": "PVC"}))
    world.apply(model_service(TEAM, name, {name: 1}))
    world.ready(TEAM, name)
    fleet.wait_weights(name, {"west": 1})
    kinds = Counter({"Object": 1, "Service": 1, "EndpointSlice": 1})
    assert _count_owned(world, name) == kinds
    _pause(world, name, paused=True)
    refs = listing(fleet.service(name), "spec.crossplane.resourceRefs")
    routes: JSON = [ref for ref in refs if ref["kind"] == "HTTPRoute"]
    route: Manifest = {"spec": {"crossplane": {"resourceRefs": routes}}}
    world.stack.hub.patch("ModelService", name, route, TEAM)
    world.remove(TEAM, name)
    assert _count_owned(world, name) == kinds
    _pause(world, name, paused=False)
    until("all of it to be deleted", lambda: not _count_owned(world, name))
    assert [ref["kind"] for ref in listing(fleet.service(name), "spec.crossplane.resourceRefs")] == ["HTTPRoute"]
    world.stack.hub.delete("ModelService", name, TEAM)


def _pause(world: World, name: str, *, paused: bool) -> None:
    """Pause Crossplane for a ModelService, or end that."""
    annotations: Manifest = {"crossplane.io/paused": "true" if paused else None}
    world.stack.hub.patch("ModelService", name, {"metadata": {"annotations": annotations}}, TEAM)


def _count_owned(world: World, service: str) -> Counter[str]:
    """Return how many resources of each kind a ModelService has, besides its route on the control plane."""
    label = f"modelplane.ai/owner={service}"
    kinds = ("Object", "Service", "EndpointSlice")
    return Counter(kind for kind in kinds for _ in world.stack.hub.find(kind, TEAM, label))


def test_one_readiness_change_costs_few_calls(
    world: World, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    """Services of other deployments are not called at all."""
    world.apply(deployment(TEAM, "other", "stable", on="east", modelCache={"type": "PVC"}))
    world.ready(TEAM, "other")
    names = [f"other-{number}" for number in range(10)]
    alone = _count_calls_for_a_lost_group(world, fleet)
    world.apply(*(model_service(TEAM, name, {"other": 1}) for name in names))
    for name in names:
        fleet.wait_weights(name, {"east": 1})
    wait_for_rest(world)
    before = calls_by_name(world.stack.home.logs, "ModelService")
    beside = _count_calls_for_a_lost_group(world, fleet)
    record_property("calls for one lost group of two, alone and beside ten services", [alone, beside])
    # How often this one is called depends on how its changes coincide: 6 to 10 times on a busy machine.
    assert (calls_by_name(world.stack.home.logs, "ModelService") - before).keys() == {CHAT}


@pytest.mark.usefixtures("fleet")
def test_rest_costs_no_calls_but_those_of_observed_nodes(world: World) -> None:
    """An observed node costs its environment a call at each poll of the provider (docs/nodes.md); here none is.

    Core calls every composite again after `ttl.settled`, 600 seconds by default: all are called just before.
    """
    unobserved = environments()
    for each in unobserved:
        mapping(each, "spec")["hardware"] = {"observe": "Never"}
    world.apply(*unobserved)
    until("no node to be observed", lambda: not world.stack.hub.find("Object", labels=MEMBERSHIP))
    for kind in COMPOSITES:
        for each in world.stack.hub.find(kind):
            name, namespace = text(each, "metadata.name"), text(each, "metadata.namespace")
            world.stack.hub.patch(kind, name, {"metadata": {"annotations": {"e2e/called": "now"}}}, namespace)
    assert require_rest(world, REST_SECONDS, calls) == 0


def _count_calls_for_a_lost_group(world: World, fleet: Fleet) -> dict[str, int]:
    """Return the calls of each kind that follow when one of two groups is lost and comes back."""
    wait_for_rest(world)
    before = calls_by_kind()
    fleet.cordon("west", unschedulable=True)
    try:
        fleet.kill("west", fleet.leaders(STABLE, "west")[0])
        fleet.wait_weights(CHAT, {"east": 2, "west": 1})
    finally:
        fleet.cordon("west", unschedulable=False)
    fleet.wait_weights(CHAT, {"east": 1, "west": 1})
    wait_for_rest(world)
    return _difference(before)


def _difference(before: dict[str, int]) -> dict[str, int]:
    return {kind: count - before.get(kind, 0) for kind, count in calls_by_kind().items() if count != before.get(kind)}
