"""Orphans of a ModelService: nothing would ever delete an orphan that is not adopted."""

from dataclasses import replace

import pytest

from function.composers import compose, recover
from function.domain.model_service import Gateway
from function.kube.manifests import Manifest, mapping, text
from tests.support.traffic_scene import NAMESPACE, TrafficPlane, backends, gateway, serving

SECURE = gateway("https://10.0.0.2", environment="e2", tls="models.example.com")
PLAIN = gateway("http://10.0.0.2", environment="e2")
OWNER = {"modelplane.ai/owner": "chat"}


def _plane_without(lost: Gateway) -> TrafficPlane:
    """Returns a plane whose second gateway lost its placement while Crossplane's list and the status were older."""
    kept = serving("stable", "e1")
    plane = TrafficPlane(spec=backends(stable=1), placements=[kept, serving("stable", "e2", gateway=lost)])
    plane.settle()
    plane.placements, plane.status = [kept], {}
    named = {f"{lost.key}/{part}" for part in ("route", "service", "slice")}
    plane.unlisted = {key for key in plane.observed if key in named}
    for key in plane.unlisted:
        mapping(plane.observed[key], "metadata")["resourceVersion"] = "7"
    return plane


@pytest.mark.parametrize("lost", [PLAIN, SECURE], ids=["http", "https"])
def test_adopts_what_crossplane_does_not_list_and_then_deletes_it(lost: Gateway) -> None:
    plane = _plane_without(lost)
    there = {key: plane.observed[key] for key in plane.unlisted}
    assert len(there) == 3, "the route on the cluster, the Service and the EndpointSlice are orphans"
    plane.step()
    for key, manifest in there.items():
        found = plane.outcome.composed[key].manifest
        assert text(found, "metadata.name") == text(manifest, "metadata.name")
        assert text(found, "metadata.resourceVersion") == "7", (
            "an orphan is applied only over the observed resourceVersion"
        )
    plane.unlisted = set()
    plane.settle()
    assert {key.partition("/")[0] for key in plane.outcome.composed} == {"route", gateway("http://10.0.0.1").key}


def test_deletes_what_has_no_address_any_more() -> None:
    plane = _plane_without(PLAIN)
    del plane.observed[f"{PLAIN.key}/slice"]
    plane.unlisted = set()
    plane.settle()
    assert {key.partition("/")[0] for key in plane.outcome.composed} == {"route", gateway("http://10.0.0.1").key}


@pytest.mark.parametrize("spec", [{"backends": []}, {"backends": "none"}])
def test_adopts_while_its_spec_is_invalid(spec: Manifest) -> None:
    plane = _plane_without(PLAIN)
    plane.spec = spec
    assert compose(plane.call()).composed.keys() == plane.observed.keys()


def test_adopts_after_an_internal_error() -> None:
    plane = _plane_without(PLAIN)
    assert recover(plane.call()).composed.keys() == plane.observed.keys()


def test_keeps_its_route_until_it_knows_what_crossplane_does_not_list() -> None:
    plane = _plane_without(PLAIN)
    call = plane.call()
    own = {name for name, required in compose(call).requirements.items() if required.kind != "ModelPlacement"}
    unanswered = replace(call, answers={name: found for name, found in call.answers.items() if name not in own})
    composed = compose(unanswered).composed
    assert composed.keys() == unanswered.observed.keys()
    route = unanswered.observed["route"]
    assert mapping(composed["route"].manifest, "spec") == mapping(route, "spec"), "the route names both endpoints"


def test_requires_gateway_kinds_only_once_it_has_composed_them() -> None:
    """If the control plane lacks a required kind or the right to list it, Crossplane does not call the function."""
    plane = TrafficPlane(spec=backends(stable=1), placements=[serving("stable", "e1")])
    assert _list_required(plane) == {"Object", "ProviderConfigUsage"}, (
        "only kinds that provider-kubernetes installs are required"
    )
    plane.settle()
    assert _list_required(plane) == {"Object", "ProviderConfigUsage", "Service", "EndpointSlice"}
    plane.replace(serving("stable", "e1", gateway=gateway("https://10.0.0.1", tls="models.example.com")))
    plane.settle()
    assert _list_required(plane) == {"Object", "ProviderConfigUsage", "Service", "EndpointSlice", "BackendTLSPolicy"}


def _list_required(plane: TrafficPlane) -> set[str]:
    """Returns the kinds that are required by the label of the service, in its namespace."""
    required = [r for r in compose(plane.call()).requirements.values() if r.kind != "ModelPlacement"]
    assert all((r.namespace, r.labels, r.name) == (NAMESPACE, OWNER, None) for r in required)
    return {r.kind for r in required}
