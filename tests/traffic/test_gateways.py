"""What a placement reports for ModelServices, from what KServe reports and what its environment declares."""

from dataclasses import replace

import pytest

from function.domain.model_service import Gateway, GatewayAccess
from function.domain.settings import Kserve
from function.kube.manifests import JSON, Manifest, get, mapping
from function.kube.urls import Origin
from function.parts import requirements
from function.status.model_placement import find_gateway
from tests.support.builders import environment
from tests.support.remote_scene import ONE_NODE, edit_environment, edit_observed, load_scene

ATTACHED: JSON = [{"name": "kserve-ingress-gateway", "namespace": "kserve", "listeners": ["http"]}]
ROUTER: Manifest = {"gateways": ATTACHED}
SERVICE: Manifest = {
    "metadata": {"namespace": "team"},
    "status": {"url": "http://10.0.0.1/team/chat", "router": ROUTER},
}


def test_gateway_is_the_one_that_kserve_reports() -> None:
    assert find_gateway(SERVICE, environment("e1")) == Gateway(
        origin=Origin("http", "10.0.0.1", 80), name="kserve-ingress-gateway", namespace="kserve", provider_config="e1"
    )


def test_declared_gateway_takes_precedence() -> None:
    access = GatewayAccess(origin=Origin("https", "gw.example.com", 443), tls_hostname="name", ca_config_map="ca")
    gateway = find_gateway(SERVICE, replace(environment("e1"), gateway=access))
    assert gateway
    assert (gateway.origin, gateway.tls_hostname, gateway.ca_config_map) == (access.origin, "name", "ca")


def test_gateway_without_a_namespace_is_in_that_of_the_service() -> None:
    status: Manifest = {**mapping(SERVICE, "status"), "router": {"gateways": [{"name": "own"}]}}
    gateway = find_gateway({**SERVICE, "status": status}, environment("e1"))
    assert gateway
    assert (gateway.name, gateway.namespace) == ("own", "team")


@pytest.mark.parametrize(
    ("status", "kserve"),
    [
        ({"router": ROUTER}, Kserve()),
        ({"url": "http://10.0.0.1/team/chat"}, Kserve()),
        (SERVICE["status"], Kserve(gateway=False)),
    ],
)
def test_there_may_be_no_gateway(status: Manifest, kserve: Kserve) -> None:
    assert find_gateway({**SERVICE, "status": status}, replace(environment("e1"), kserve=kserve)) is None


REPORTED: Manifest = {"primary": {"readyReplicas": 2}, "service": {"name": "kimi-kserve-workload-svc"}}
MIRRORED = "status.atProvider.manifest.status"


def test_placement_reports_how_it_is_reached() -> None:
    scene = load_scene(ONE_NODE).edited(
        edit_observed("service-", f"{MIRRORED}.workloads", REPORTED),
        edit_observed("service-", f"{MIRRORED}.router", {"gateways": ATTACHED}),
        edit_environment("gateway", {"url": "https://gw.example.com:8443", "tls": {"caConfigMapName": "ca"}}),
    )
    status = scene.outcome().status
    assert status["readyReplicas"] == 2
    assert status["gateway"] == {
        "scheme": "https",
        "host": "gw.example.com",
        "port": 8443,
        "ref": {"name": "kserve-ingress-gateway", "namespace": "kserve"},
        "providerConfigRef": {"name": get(scene.answers[requirements.ENVIRONMENT], "status.providerConfigRef.name")},
        "tls": {"caConfigMapName": "ca"},
    }
    service = mapping(status, "service")
    assert service["workload"] == "kimi-kserve-workload-svc"
    assert mapping(service, "traits")["contextLength"]
    composed = {key: item.manifest for key, item in load_scene(ONE_NODE).outcome().composed.items()}
    assert {key: item.manifest for key, item in scene.outcome().composed.items()} == composed, (
        "the rest of the status does not change"
    )


@pytest.mark.parametrize(
    "status", [{}, {"atProvider": {}}, {"conditions": [{"type": "Synced", "status": "False", "message": "dial tcp"}]}]
)
def test_placement_whose_object_lost_its_status_reports_what_it_did(status: Manifest) -> None:
    scene = load_scene(ONE_NODE).edited(
        edit_observed("service-", f"{MIRRORED}.workloads", REPORTED),
        edit_observed("service-", f"{MIRRORED}.router", {"gateways": ATTACHED}),
    )
    before = {key: scene.outcome().status[key] for key in ("readyReplicas", "gateway", "service")}
    scene.xr["status"] = {**mapping(scene.xr, "status"), **before, "served": True}
    lost = scene.edited(edit_observed("service-", "status", status)).outcome()
    assert {key: lost.status[key] for key in before} == before


def test_placement_that_is_held_still_counts_its_replicas() -> None:
    scene = load_scene(ONE_NODE).edited(edit_observed("service-", f"{MIRRORED}.workloads", REPORTED))
    scene.answers.pop(requirements.MODEL)
    assert scene.outcome().status["readyReplicas"] == 2
