"""Scenario 27: the control plane has no Gateway API, then no right to it: models are placed, and services say why.

Whatever a ModelService lacks never holds back a placement, since it is composed by itself.
"""

from collections.abc import Callable, Iterator

import pytest

from function.kube.manifests import condition, get, text
from tests.e2e.fleet import reset_gateway, set_gateway
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.world import World
from tools.stack import gateways, upstream
from tools.stack.layout import SOURCE
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM = "no-gateway"
ROLE = "modelplane:gateway-aggregate-to-crossplane"


@pytest.fixture(scope="module", autouse=True)
def _configured(world: World, empty: None) -> Iterator[None]:  # noqa: ARG001  # it comes first
    """Name a Gateway in the platform settings, and declare an environment whose gateway is played."""
    set_gateway(world)
    world.team(TEAM)
    world.apply(model("alone"), environment("alone", pool("gpus"), gateway={"url": "http://10.99.1.1"}))
    yield
    world.clear()
    reset_gateway(world)


def _deploy(world: World, name: str) -> None:
    """Deploy a model with a service of its own, and wait until its placement is Ready."""
    world.apply(deployment(TEAM, name, "alone", on="alone", service={}))
    placed = world.wait_placed(TEAM, name)
    world.wait("ModelPlacement", placed, "Ready", "True", TEAM)


def _said(world: World, name: str, words: str) -> str:
    """Wait until a condition or an event of a deployment's service has these words, and return its message."""

    def found() -> str:
        messages = list(_messages(world, name))
        if match := next((message for message in messages if words in message), ""):
            return match
        raise LookupError(str(messages))

    return until(f"{name} to say {words}", found)


def _messages(world: World, name: str) -> Iterator[str]:
    service = world.stack.hub.get("ModelService", name, TEAM) or {}
    for type_ in ("Synced", "RouteReady"):
        yield f"{type_}: {text(condition(service, type_), 'message')}"
    # Once core has waited two minutes for what it may not read, the condition says only that.
    for event in world.stack.hub.find("Event", TEAM):
        if get(event, "involvedObject.kind") == "ModelService" and get(event, "involvedObject.name") == name:
            yield f"Event: {text(event, 'message')}"


def test_without_gateway_api_models_are_placed(world: World, record_property: Callable[[str, object], None]) -> None:
    _deploy(world, "without-kinds")
    record_property("without Gateway API", _said(world, "without-kinds", "HTTPRoute"))


def test_without_rights_models_are_placed(world: World, record_property: Callable[[str, object], None]) -> None:
    """The right is given again afterwards, and what waited for it goes on by itself."""
    world.stack.hub.delete("ClusterRole", ROLE)
    gateways.install_gateway_api(world.stack.home)
    try:
        _deploy(world, "without-rights")
        record_property("without rights", _said(world, "without-rights", "forbidden"))
    finally:
        world.apply(*upstream.read(SOURCE / "install/gateway-rbac.yaml"))
    for name in ("without-rights", "without-kinds"):
        record_property("with rights and without a controller", _said(world, name, "no controller serves it"))
