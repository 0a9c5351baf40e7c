"""A placement that keeps its pool is applied with the observed version, so a late observation undoes no decision.

Two views of a placement took turns for ever: each call repeated the pool that it saw over the other's. What a user
writes into a placement is written over again.
"""

import pytest
from google.protobuf.json_format import MessageToDict

from function.kube.manifests import JSON, Manifest, get, listing, text
from tests.support.plane import call, change, only, plane, request_of
from tools.control_plane import ControlPlane

STORY = "gemma-one-gpu"


def _at_version_42() -> ControlPlane:
    control = plane(STORY)
    change(control, only(control, "ModelPlacement"), "metadata.resourceVersion", "42")
    return control


def _composed_placement(control: ControlPlane) -> Manifest:
    response = call(request_of(control, only(control, "ModelDeployment")))
    (resource,) = (r for key, r in response.desired.resources.items() if key.startswith("placement-"))
    manifest: Manifest = MessageToDict(resource.resource)
    return manifest


@pytest.mark.parametrize("replicas", [1, 2])
def test_carried_pool_is_applied_over_observed_version(replicas: int) -> None:
    control = _at_version_42()
    change(control, only(control, "ModelDeployment"), "spec.scaling.fixed.replicas", replicas)
    placement = _composed_placement(control)
    assert get(placement, "spec.replicas") == replicas
    assert text(placement, "metadata.resourceVersion") == "42"


def test_rescheduled_placement_is_applied_over_any_version() -> None:
    control = _at_version_42()
    model = only(control, "ClusterModel")
    serving = [
        {**profile, "replicaTopology": {"nodes": 1, "gpusPerNode": 2}}
        for profile in listing(control.composites[model], "spec.serving")
    ]
    change(control, model, "spec.serving", serving)
    placement = _composed_placement(control)
    assert get(placement, "spec.topology.gpusPerNode") == 2
    assert text(placement, "metadata.resourceVersion") == ""


@pytest.mark.parametrize("ref", [None, {"name": "other"}], ids=["removed", "another"])
def test_restores_deployment_of_its_own_placement_on_a_full_pool(ref: JSON) -> None:
    """What Crossplane observes is its own, whatever a user writes into it: it needs no room beside itself."""
    control = plane("kimi-k2-two-nodes")
    environment, placement = only(control, "InferenceEnvironment"), only(control, "ModelPlacement")
    (pool,) = listing(control.composites[environment], "spec.nodePools")
    change(control, environment, "spec.nodePools", [{**pool, "maxNodeCount": 2}])
    control.settle()
    change(control, placement, "spec.deploymentRef", ref)
    composed = _composed_placement(control)
    assert text(composed, "metadata.name") == placement.name
    assert text(composed, "spec.deploymentRef.name") == only(control, "ModelDeployment").name
