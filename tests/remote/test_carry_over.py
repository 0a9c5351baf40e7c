"""Carrying over desires the fields of the observed resource that a function may set, and no other fields."""

import pytest

from function.kube.manifests import JSON, Manifest, get, mapping
from function.remote.composed_kinds import OBJECT_VERSION
from function.remote.object_writer import ManagementPolicy, ObjectWriter, desired_from_observed

OBJECT: Manifest = {"apiVersion": "kubernetes.m.crossplane.io/v1alpha1", "kind": "Object"}
CONFIG: Manifest = {
    "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
    "kind": "ClusterProviderConfig",
    "metadata": {"name": "east", "uid": "1", "annotations": {"crossplane.io/composition-resource-name": "a"}},
}


def test_carries_over_resource_without_spec() -> None:
    kept = desired_from_observed(CONFIG)
    assert kept.manifest == {**CONFIG, "metadata": {"name": "east"}}
    assert kept.ready, "a ClusterProviderConfig has no conditions, so that it is always ready"


def test_drops_data_of_secrets() -> None:
    secret: Manifest = {"kind": "Secret", "data": {"a": "eA=="}, "stringData": {"a": "x"}, "type": "Opaque"}
    observed = ObjectWriter(owner="a", namespace="b", provider_config="east", watch=True, observed={}).compose(
        "token-a", secret, ManagementPolicy.FULL
    )
    assert get(observed.manifest, "spec.watch") is True
    kept = mapping(desired_from_observed(observed.manifest).manifest, "spec.forProvider.manifest")
    assert kept == {"kind": "Secret", "type": "Opaque"}


def test_drops_status_and_crossplane_metadata() -> None:
    ours: Manifest = {"app.kubernetes.io/managed-by": "modelplane"}
    placement: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelPlacement",
        "metadata": {
            "name": "chat-env",
            "namespace": "team",
            "uid": "1",
            "resourceVersion": "7",
            "ownerReferences": [{"uid": "2"}],
            "labels": {**ours, "crossplane.io/composite": "chat"},
            "annotations": {
                "modelplane.ai/vram": "80",
                "crossplane.io/composition-resource-name": "a",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
            },
        },
        "spec": {"pool": "h200", "crossplane": {"resourceRefs": []}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        "data": {"a": "b"},
        "stringData": {"a": "b"},
    }
    kept = desired_from_observed(placement)
    metadata: Manifest = {"name": "chat-env", "namespace": "team", "labels": ours}
    assert kept.manifest == {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelPlacement",
        "metadata": {**metadata, "annotations": {"modelplane.ai/vram": "80"}},
        "spec": {"pool": "h200"},
    }
    assert kept.ready


READY: Manifest = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelPlacement"}
CLAIM: Manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Bound"}}
LOST: JSON = [{"type": "Synced", "status": "False", "message": "dial tcp: i/o timeout"}]


@pytest.mark.parametrize(
    ("manifest", "want", "reason"),
    [
        (
            {**READY, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            False,
            "the resource reports that it is not ready",
        ),
        (READY, False, "a resource without status has not been observed yet"),
        (
            {**READY, "apiVersion": OBJECT_VERSION, "kind": "ObservedObjectCollection"},
            True,
            "a collection is ready whatever its conditions say",
        ),
        ({**OBJECT, "status": {"atProvider": {"manifest": CLAIM}}}, True, "the remote object exists and is up"),
        (
            {**OBJECT, "status": {"atProvider": {"manifest": {**CLAIM, "status": {}}}}},
            False,
            "the remote object exists, but is not up",
        ),
        (
            {**OBJECT, "status": {"atProvider": {"manifest": CLAIM}, "conditions": LOST}},
            False,
            "the cluster does not answer, so that the last observed state does not count",
        ),
        (
            {**OBJECT, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            False,
            "the Ready condition of an Object does not count without an observed remote object",
        ),
    ],
)
def test_carries_over_observed_readiness(manifest: Manifest, *, want: bool, reason: str) -> None:
    assert desired_from_observed(manifest).ready is want, reason
