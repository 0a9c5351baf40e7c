"""The collection has a name whose members' names fit, and is known by it whatever stands on it."""

import pytest

from function.kube.manifests import Manifest
from function.remote.adoption import is_own
from function.remote.node_facts import KIND, NODES, build_collection, name_collection, serves_collections
from function.remote.object_writer import API_VERSION, ObjectWriter

_MEMBER = len("-0123456")


@pytest.mark.parametrize("environment", ["east", "e" * 253, "a.b" * 80])
def test_collection_name_leaves_room_for_provider_suffix(environment: str) -> None:
    """The provider's kinds have names of at most 63 characters, and so have the values of labels."""
    assert len(name_collection(environment)) + _MEMBER <= 63


def test_long_collection_names_stay_distinct() -> None:
    assert name_collection("e" * 100) != name_collection("e" * 101)


def test_recognises_relabelled_collection_by_name() -> None:
    labels: Manifest = {"app.kubernetes.io/managed-by": "helm"}
    found: Manifest = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name_collection("east"), "labels": labels},
    }
    assert is_own("east", NODES, found)
    assert not is_own("west", NODES, found)


@pytest.mark.parametrize(("status", "want"), [("True", True), ("False", False), (None, False)])
def test_collections_are_served_once_crd_is_established(status: str | None, want: bool) -> None:  # a table
    conditions: Manifest = {"type": "Established", "status": status}
    assert serves_collections({"status": {"conditions": [conditions] if status else []}}) is want


def test_builds_collection_for_selector() -> None:
    writer = ObjectWriter(owner="h200-east", namespace="team", provider_config="east", watch=True, observed={})
    selector: Manifest = {"matchLabels": {"modelplane.ai/pool": "h200"}}
    made = build_collection(writer, selector)
    assert made.ready, "no environment waits for it"
    assert made.manifest == {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "ObservedObjectCollection",
        "metadata": {
            # As tests/golden/InferenceEnvironment has it: it never changes.
            "name": "h200-east-nodes-b514667e",
            "namespace": "team",
            "labels": {"app.kubernetes.io/managed-by": "modelplane"},
        },
        "spec": {
            "observeObjects": {"apiVersion": "v1", "kind": "Node", "selector": selector},
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "east"},
        },
    }
