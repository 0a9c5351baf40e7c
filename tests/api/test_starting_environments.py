"""An environment starts as long as it is not Ready and nothing is known to be wrong with its connection."""

import pytest

from function.api.inference_environment import parse_environment
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest
from tests.api import manifests

READY: Manifest = {"type": "Ready", "status": "True", "reason": "Available"}
CREATING: Manifest = {"type": "Ready", "status": "False", "reason": "Creating"}


def connection(status: str, reason: str) -> Manifest:
    """Returns the condition ClusterReady."""
    return {"type": "ClusterReady", "status": status, "reason": reason}


@pytest.mark.parametrize(
    ("conditions", "paused", "starts", "why"),
    [
        ([], False, True, "it was just created"),
        ([CREATING, connection("Unknown", "Connecting")], False, True, "the cluster has not answered yet"),
        ([CREATING, connection("True", "Connected")], False, True, "Crossplane has not reported Ready yet"),
        ([CREATING, connection("False", "KubeconfigMissing")], False, False, "the Secret must be created"),
        ([CREATING, connection("False", "Unreachable")], False, False, "the cluster does not answer"),
        ([READY, connection("True", "Connected")], False, False, "it is Ready"),
        ([], True, False, "Crossplane does not reconcile it"),
    ],
    ids=["new", "connecting", "connected", "no-kubeconfig", "unreachable", "ready", "paused"],
)
def test_an_environment_starts(conditions: list[JSON], why: str, *, paused: bool, starts: bool) -> None:
    manifest = manifests.environment()
    manifest["status"] = {"conditions": conditions}
    if paused:
        manifest["metadata"] = {"name": "east", "annotations": {"crossplane.io/paused": "true"}}
    assert parse_environment(manifest, BUILT_IN).value.is_starting is starts, why
