"""Scenario 38: endpoint pickers come and go beside running engines, as KServe's real controller composes them.

The gateway is played: it accepts InferencePools, unless the namespace says that it does not know them.
"""

from functools import partial

import pytest

from function.kube.manifests import JSON, Manifest, condition, get, listing, mapping, text
from function.serving.picker import PICKERS, WITHDRAWAL_SECONDS
from tests.e2e.objects import VLLM, deployment, environment, model, pool, spanning
from tests.e2e.world import World, running
from tools.stack.players import REFUSES_POOLS
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM, ABLE = "pickers", "able"
KEY, VALUE = REFUSES_POOLS.split("=")
CLAIM: Manifest = {"type": "PVC"}
FEW: Manifest = {"replicaTopology": {"nodes": 1, "gpusPerNode": 1}, "engine": {"name": "vLLM", "image": VLLM}}
TWO_NODES: Manifest = {**spanning(2, 2), "engine": {"name": "vLLM", "image": VLLM}}


def _environment(*, scheduler: bool) -> Manifest:
    return environment(ABLE, pool("gpus"), kserve={"scheduler": scheduler})


def _model(name: str, profile: Manifest, routing: str) -> Manifest:
    return model(name, profile={**profile, "routing": routing}, resources={"disk": "60Gi"})


def _accepts_pools(world: World, *, accepts: bool) -> None:
    labels: JSON = {KEY: None if accepts else VALUE}
    world.stack.remote.patch("Namespace", TEAM, {"metadata": {"labels": labels}})


def _uids(world: World, name: str) -> list[str]:
    pods = world.pods(world.service(world.placement(TEAM, name)))
    return sorted(text(pod, "metadata.uid") for pod in pods if running(pod) and not _is_picker(pod))


def _is_picker(pod: Manifest) -> bool:
    return "router-scheduler" in text(pod, "metadata.name")


def _pool(world: World, name: str) -> str:
    return text(world.placement(TEAM, name), "status.service.inferencePool")


def _has_picker(world: World, name: str) -> bool:
    return get(world.service(world.placement(TEAM, name)), "spec.router.scheduler") is not None


def test_an_environment_without_pickers_is_refused(world: World) -> None:
    world.team(TEAM)
    world.apply(
        _environment(scheduler=False),
        _model("few", FEW, "PrefixAware"),
        deployment(TEAM, "few", "few", on=ABLE, modelCache=CLAIM),
    )
    found = world.wait("ModelDeployment", "few", "Scheduled", "False/RoutingNotSupported", TEAM)
    assert "kserve.scheduler of the environment is false" in text(condition(found, "Scheduled"), "message")


def test_a_service_has_a_picker_from_the_start(world: World) -> None:
    world.apply(_environment(scheduler=True))
    world.ready(TEAM, "few")
    pool = until("the InferencePool to be recorded", partial(_pool, world, "few"))
    (found,) = (each for each in world.stack.remote.find("InferencePool", TEAM) if text(each, "metadata.name") == pool)
    service = text(world.placement(TEAM, "few"), "status.service.name")
    assert mapping(found, "spec.selector.matchLabels")["app.kubernetes.io/name"] == service
    (pickers,) = (d for d in world.stack.remote.find("Deployment", TEAM) if "router-scheduler" in str(d["metadata"]))
    assert get(pickers, "spec.replicas") == PICKERS
    arguments = str(listing(pickers, "spec.template.spec.containers"))
    assert "--ha-enable-leader-election" in arguments
    assert not listing(pickers, "spec.template.spec.initContainers"), "its pods download no weights"


def test_replicas_of_several_nodes_have_one_too(world: World) -> None:
    world.apply(_model("wide", TWO_NODES, "PrefixAware"), deployment(TEAM, "wide", "wide", on=ABLE))
    world.ready(TEAM, "wide")
    until("the InferencePool to be recorded", partial(_pool, world, "wide"))
    world.remove(TEAM, "wide")


def test_a_gateway_that_accepts_no_pool_is_named_and_nothing_uses_the_pool(world: World) -> None:
    world.apply(_model("few", FEW, "Default"))
    until("the picker to be removed", lambda: not _has_picker(world, "few"), seconds=WITHDRAWAL_SECONDS + 120)
    before = _uids(world, "few")
    assert before
    _accepts_pools(world, accepts=False)
    world.apply(_model("few", FEW, "PrefixAware"))
    placed = text(world.placement(TEAM, "few"), "metadata.name")
    found = world.wait("ModelPlacement", placed, "ServiceReady", "False", TEAM)
    until("the condition to name the pool", partial(_names_pool, world, placed))
    assert not text(found, "status.service.inferencePool")
    _accepts_pools(world, accepts=True)
    until("the InferencePool to be recorded", partial(_pool, world, "few"))
    world.ready(TEAM, "few")
    assert _uids(world, "few") == before, "no engine has restarted"


def _names_pool(world: World, placed: str) -> bool:
    message = text(condition(world.stack.hub.get("ModelPlacement", placed, TEAM) or {}, "ServiceReady"), "message")
    if "InferencePoolReady" not in message:
        raise LookupError(message)
    return True


def test_the_pool_is_withdrawn_before_the_picker_goes(world: World) -> None:
    before = _uids(world, "few")
    assert before
    world.apply(_environment(scheduler=False))
    until("the InferencePool to be withdrawn", lambda: not _pool(world, "few"))
    assert _has_picker(world, "few")
    until("the picker to be removed", lambda: not _has_picker(world, "few"), seconds=WITHDRAWAL_SECONDS + 120)
    message = text(condition(world.placement(TEAM, "few"), "ServiceReady"), "message")
    assert "Routing PrefixAware has no effect: kserve.scheduler of the environment is false" in message
    assert _uids(world, "few") == before, "no engine has restarted"
    until("the InferencePool to go", lambda: not world.stack.remote.find("InferencePool", TEAM))
    world.ready(TEAM, "few")
    world.remove(TEAM, "few")
