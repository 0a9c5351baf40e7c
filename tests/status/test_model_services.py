"""Conditions of a ModelService."""

from dataclasses import replace

import pytest

from function.domain.model_service import EndpointEntry, EndpointState, ModelService
from function.domain.settings import PlatformGateway
from function.kube.manifests import JSON, Manifest
from function.kube.urls import Origin
from function.reasons import BackendsAlike, BackendsResolved, EndpointsReady, RouteReady, Status
from function.status.model_service import (
    build_backends_alike,
    build_backends_resolved,
    build_endpoints_ready,
    build_route_ready,
    build_url,
)
from function.traffic.endpoints import Endpoint, Traffic
from tests.support.builders import with_service
from tests.support.traffic_scene import serving

GATEWAY = PlatformGateway(name="models", namespace="infra", origin=Origin("https", "models.example.com", 8443))
SERVICE = ModelService(namespace="team", name="chat", backends={"a": 1, "b": 1})
TRAITS = (("contextLength", "32768"), ("engine", "vllm:v1"), ("model", "org/kimi"), ("weights", "models/1"))


def _traffic(*entries: EndpointEntry) -> Traffic:
    endpoints = tuple(Endpoint(entry=entry) for entry in entries)
    return Traffic(endpoints=endpoints, weights={}, wake_in=None)


SERVING = EndpointEntry(environment="e1", state=EndpointState.SERVING, weight=1)
STANDBY = EndpointEntry(environment="e3", state=EndpointState.SERVING, reason="Failover: e1 comes first")
IDLE = EndpointEntry(environment="e2", reason="no replica is ready")


@pytest.mark.parametrize(
    ("entries", "status", "reason", "message"),
    [
        ((), Status.FALSE, EndpointsReady.NONE_READY, "0 of 0 endpoints get requests"),
        ((IDLE,), Status.FALSE, EndpointsReady.NONE_READY,
         "0 of 1 endpoints get requests. e2: NotReady, no replica is ready"),
        ((SERVING, IDLE), Status.FALSE, EndpointsReady.PARTIALLY_READY,
         "1 of 2 endpoints get requests. e2: NotReady, no replica is ready"),
        ((SERVING, STANDBY), Status.TRUE, EndpointsReady.READY,
         "1 of 2 endpoints get requests. e3: Serving, Failover: e1 comes first"),
        ((SERVING,), Status.TRUE, EndpointsReady.READY, "1 of 1 endpoints get requests"),
    ],
)  # fmt: skip
def test_counts_endpoints_that_get_requests(
    entries: tuple[EndpointEntry, ...], status: Status, reason: EndpointsReady, message: str
) -> None:
    condition = build_endpoints_ready(_traffic(*entries))
    assert (condition.status, condition.reason, condition.message) == (status, reason, message)


def test_names_deployments_without_placements() -> None:
    condition = build_backends_resolved(SERVICE, [serving("a", "e1")])
    assert (condition.status, condition.reason) == (Status.FALSE, BackendsResolved.NO_PLACEMENTS)
    assert condition.message == "No placement of b exists; create the deployment, or see its Scheduled"
    assert build_backends_resolved(SERVICE, [serving("a", "e1"), serving("b", "e1")]).status is Status.TRUE


def _route(*conditions: JSON) -> Manifest:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"generation": 1},
        "status": {"parents": [{"conditions": [*conditions]}] if conditions else []},
    }


def _condition(type_: str, status: str, generation: int = 1) -> JSON:
    return {"type": type_, "status": status, "reason": "NotAllowedByListeners", "observedGeneration": generation}


@pytest.mark.parametrize(
    ("route", "status", "reason", "message"),
    [
        (None, Status.FALSE, RouteReady.APPLYING, "The route is being created"),
        (_route(), Status.FALSE, RouteReady.GATEWAY_NOT_FOUND,
         "Gateway infra/models: no Gateway has seen it: its Gateway does not exist, or no controller serves it"),
        (_route(_condition("Accepted", "False")), Status.FALSE, RouteReady.REJECTED,
         "Gateway infra/models: Accepted is False: NotAllowedByListeners, without a message"),
        (_route(_condition("Accepted", "True", 0)), Status.FALSE, RouteReady.APPLYING,
         "Gateway infra/models: its Gateway has not observed the latest change yet"),
        (_route(_condition("Accepted", "True"), _condition("ResolvedRefs", "True")), Status.TRUE, RouteReady.ACCEPTED,
         "Gateway infra/models has accepted the route"),
    ],
)  # fmt: skip
def test_says_what_the_gateway_makes_of_the_route(
    route: Manifest | None, status: Status, reason: RouteReady, message: str
) -> None:
    condition = build_route_ready(route, GATEWAY)
    assert (condition.status, condition.reason, condition.message) == (status, reason, message)


def test_compares_what_clients_notice() -> None:
    first, second, canary = (
        serving("a", "e1", traits=TRAITS),
        serving("a", "e2", traits=TRAITS),
        serving("b", "e1", traits=(*TRAITS[:3], ("weights", "models/2"))),
    )
    assert build_backends_alike(SERVICE, [first, second, canary, serving("b", "e2")]).status is Status.TRUE
    other_weights = with_service(second, traits=(*TRAITS[:3], ("weights", "models/2")))
    shorter = with_service(canary, traits=(("contextLength", "8192"), *TRAITS[1:]))
    condition = build_backends_alike(SERVICE, [first, other_weights, shorter])
    assert (condition.status, condition.reason) == (Status.FALSE, BackendsAlike.DIFFERENT)
    assert condition.message == (
        "Clients notice which placement answers. context length: 8192 (b on e1), 32768 (a on e1); "
        "weights: models/2 (a on e2), models/1 (a on e1)"
    )
    assert build_backends_alike(SERVICE, [shorter, other_weights, first]) == condition, (
        "the order of the backends does not matter"
    )


def test_url_is_that_of_the_gateway_or_of_a_host_name() -> None:
    assert build_url(SERVICE, GATEWAY) == "https://models.example.com:8443/services/team/chat"
    named = replace(SERVICE, hostnames=("*.example.org", "chat.example.org"))
    assert build_url(named, GATEWAY) == "https://chat.example.org:8443/services/team/chat"
