"""A deployment composes a ModelService, and deletes no placement to which one sends requests."""

import pytest

from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, condition, flag, get, listing, mapping, text
from tests.support.plane import change, only, plane, said
from tools.control_plane import ControlPlane

STORY = "two-environments"
SETTINGS: Manifest = {"gateway": {"name": "models", "url": "https://models.example.com"}}


def _list(control: ControlPlane, *placements: str) -> None:
    """Write a ModelService of another deployment's author, which lists placements."""
    rows: list[JSON] = [{"placement": name} for name in placements]
    deployment = only(control, "ModelDeployment")
    service: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelService",
        "metadata": {"name": "front", "namespace": deployment.namespace},
        "spec": {"backends": [{"deployment": deployment.name}]},
        "status": {"endpoints": [{"backends": rows}]},
    }
    control.store[Ref.of(service)] = service


def _render(control: ControlPlane) -> Manifest:
    """Compose the deployment alone, and return it."""
    ref = only(control, "ModelDeployment")
    (made,) = control.renderer.render(control.store, [ref])
    control.store[ref] = {**control.store[ref], "status": made.composite["status"]}
    for manifest in made.composed.values():
        key = Ref.of(manifest)
        if manifest["kind"] != "ProviderConfigUsage":
            control.store[key] = {**control.store[key], "spec": manifest["spec"]}
    for gone in set(control.all("ModelPlacement")) - {Ref.of(m) for m in made.composed.values()}:
        control.store.drop(gone)
    return control.store[ref]


def test_deployment_without_services_marks_before_it_deletes() -> None:
    control = plane(STORY)
    before = control.all("ModelPlacement")
    assert len(before) == 2
    change(control, only(control, "ModelDeployment"), "spec.environments", 1)
    _render(control)
    assert control.all("ModelPlacement") == before
    _render(control)
    (left,) = control.all("ModelPlacement")
    assert not flag(control.store[left], "spec.draining")


def test_placement_drains_before_it_is_deleted() -> None:
    control = plane(STORY)
    kept, dropped = sorted(
        control.all("ModelPlacement"), key=lambda ref: text(control.store[ref], "spec.inferenceEnvironmentRef.name")
    )
    _list(control, kept.name, dropped.name)
    change(control, only(control, "ModelDeployment"), "spec.environments", 1)
    for _ in range(2):
        deployment = _render(control)
        assert flag(control.store[dropped], "spec.draining")
        assert not flag(control.store[kept], "spec.draining")
        environment = text(control.store[dropped], "spec.inferenceEnvironmentRef.name")
        message = f"Kept on {environment} until ModelService front sends it no requests any more"
        assert message.lower() in text(condition(deployment, "Scheduled"), "message").lower()
        assert len(listing(deployment, "status.placements")) == 2
    _list(control, kept.name)
    _render(control)
    assert control.all("ModelPlacement") == [kept]


@pytest.mark.parametrize("status", [None, {}, {"endpoints": "edited"}])
def test_placement_is_kept_while_a_service_with_a_route_has_lost_its_status(status: JSON) -> None:
    control = plane(STORY)
    refs = control.all("ModelPlacement")
    _list(control, *(ref.name for ref in refs))
    change(control, only(control, "ModelDeployment"), "spec.environments", 1)
    _render(control)
    service = only(control, "ModelService")
    refs_of_route: JSON = [{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "name": "front"}]
    change(control, service, "spec.crossplane", {"resourceRefs": refs_of_route})
    control.store[service] = {**control.store[service], "status": status}
    for _ in range(2):
        _render(control)
        assert control.all("ModelPlacement") == refs


def test_placement_that_stays_after_all_serves_again() -> None:
    control = plane(STORY)
    refs = control.all("ModelPlacement")
    _list(control, *(ref.name for ref in refs))
    change(control, only(control, "ModelDeployment"), "spec.environments", 1)
    _render(control)
    change(control, only(control, "ModelDeployment"), "spec.environments", 2)
    _render(control)
    assert not any(flag(control.store[ref], "spec.draining") for ref in refs)


def test_deployment_composes_a_service_of_its_name() -> None:
    control = plane(STORY, settings=SETTINGS)
    ref = only(control, "ModelDeployment")
    change(control, ref, "spec.service", {"distribution": "Even"})
    control.settle()
    service = control.store[only(control, "ModelService")]
    assert mapping(service, "spec") == {"backends": [{"deployment": ref.name}], "distribution": "Even"}
    url = f"https://models.example.com/services/{ref.namespace}/{ref.name}"
    assert get(service, "status.url") == url
    assert get(control.store[ref], "status.url") == url
    change(control, ref, "spec.service", None)
    control.settle()
    assert control.all("ModelService") == []


def test_service_of_another_owner_is_not_adopted() -> None:
    control = plane(STORY)
    ref = only(control, "ModelDeployment")
    foreign: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelService",
        "metadata": {"name": ref.name, "namespace": ref.namespace},
        "spec": {"backends": [{"deployment": "other"}]},
    }
    control.apply([foreign])
    change(control, ref, "spec.service", {})
    control.settle()
    assert said(control, ref, "Scheduled") == ("False", "InvalidDeployment")
    message = text(condition(control.store[ref], "Scheduled"), "message")
    assert message.startswith(f"spec.service: ModelService {ref.name} exists and is not composed by this deployment")
    assert mapping(control.store[only(control, "ModelService")], "spec") == foreign["spec"]
    assert len(control.all("ModelPlacement")) == 2
