"""Services as the tree wrote them before engines had versions (issue 12): each is written again exactly as it runs.

A file under `before` has what a placement was given and the service that came of it. That service was made by that
tree and is never made anew: a release that would write it differently must still leave it alone, with its wish and,
as services of an earlier release have none, without.
"""

import copy
from pathlib import Path
from typing import Any

import pytest

from function.composers import requirements
from function.kube.manifests import Manifest, listing, mapping
from function.kube.names import MANAGED_BY
from function.lifecycle.object_writer import API_VERSION
from function.serving.spread import keeps_pods_apart
from tests.lifecycle.scene import Scene, only
from tools.documents import document

BEFORE = sorted((Path(__file__).parent / "before").glob("*.yaml"))
POOL: Manifest = {
    "name": "h100",
    "acceleratorType": "nvidia-h100-80gb",
    "acceleratorCount": 8,
    "maxNodeCount": 4,
    "labels": {"example.com/pool": "h100"},
    "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
    "capabilities": {"memoryPerGpu": "80Gi", "multiNodeCapable": True, "interNodeBandwidth": "ib-400g"},
}


def scene_of(case: dict[str, Any]) -> Scene:
    """Return the placement of a case, whose service has served."""
    key = f"service-{mapping(case, 'service.metadata').get('name')}"
    return Scene(
        xr={
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelPlacement",
            "metadata": {"name": "chat-env", "namespace": "team"},
            "spec": {
                "modelRef": {"kind": "ClusterModel", "name": "model"},
                "deploymentRef": {"name": "chat"},
                "inferenceEnvironmentRef": {"name": "env"},
                "profile": "default",
                "pool": "h100",
                "topology": case["topology"],
                "replicas": 1,
                "modelCache": case.get("modelCache", {}),
            },
            "status": {"served": True},
        },
        observed={
            key: {
                "apiVersion": API_VERSION,
                "kind": "Object",
                "metadata": {"name": key, "namespace": "team", "labels": {**MANAGED_BY}},
                "spec": {"forProvider": {"manifest": copy.deepcopy(case["service"])}},
            }
        },
        answers={
            requirements.MODEL: {
                "apiVersion": "modelplane.ai/v1alpha1",
                "kind": "ClusterModel",
                "metadata": {"name": "model"},
                "spec": case["model"],
            },
            requirements.ENVIRONMENT: {
                "apiVersion": "modelplane.ai/v1alpha1",
                "kind": "InferenceEnvironment",
                "metadata": {"name": "env"},
                "spec": {
                    "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig"}}},
                    "nodePools": [POOL],
                    "storage": {"storageClassName": "shared", **case.get("storage", {})},
                },
            },
            **({requirements.CACHE: case["cache"]} if "cache" in case else {}),
        },
    )


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: path.stem)
def test_what_runs_is_written_as_it_runs(path: Path) -> None:
    case = document(path)
    assert only(scene_of(case)) == case["service"], case["reason"]


def test_what_is_said_now_is_taken() -> None:
    case = document(BEFORE[0].parent / "ray-none.yaml")
    placement = case["model"]["serving"][0]["replicaTopology"]["placement"]
    placement["podsAcrossNodes"] = "required"
    changed = only(scene_of(case))
    assert keeps_pods_apart(mapping(changed, "spec.worker")), "somebody wants the pods apart"
    assert "--distributed-executor-backend=mp" in str(changed), "and everything is as it would be written now"
    placement["podsAcrossNodes"] = "none"
    back = only(scene_of({**case, "service": changed}))
    assert not keeps_pods_apart(mapping(back, "spec.worker")), "a word that was once the default counts"
    del placement["podsAcrossNodes"]
    apart = only(scene_of({**case, "service": back}))
    assert keeps_pods_apart(mapping(apart, "spec.worker")), "so does its absence"
    unmarked = copy.deepcopy(apart)
    del mapping(unmarked, "metadata")["annotations"]
    mapping(listing(unmarked, "spec.template.containers")[0], "startupProbe")["failureThreshold"] = 99
    assert only(scene_of({**case, "service": unmarked}))["spec"] == unmarked["spec"], (
        "and what was apart without a wish"
    )
    placement["podsAcrossNodes"] = "none"
    shared = only(scene_of({**case, "service": apart}))
    assert not keeps_pods_apart(mapping(shared, "spec.worker")), "until somebody says otherwise"


# Of a release before wishes, and of 0.11.1 and 0.11.2 with Ray, nobody knows any more who chose Ray.
@pytest.mark.parametrize("path", [p for p in BEFORE if p.stem != "ray-none"], ids=lambda path: path.stem)
def test_without_a_wish_it_is_only_marked(path: Path) -> None:
    case = document(path)
    unmarked = copy.deepcopy(case)
    del unmarked["service"]["metadata"]["annotations"]
    assert only(scene_of(unmarked))["spec"] == case["service"]["spec"], case["reason"]
