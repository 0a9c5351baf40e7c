"""`validate` proposes the network preset of a provider for a pool that declares RDMA (docs/hardware.md)."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, listing, mapping
from tests.cli.conftest import example, find_manifest
from tests.cli.process import run, write


def _validate(folder: Path, provider: str, network: str, inter_node: Manifest | None = None) -> str:
    pool: Manifest = {
        "name": "big",
        "acceleratorType": "nvidia-h100-80gb",
        "acceleratorCount": 8,
        "nodeCount": 2,
        "labels": {"modelplane.ai/pool": "big"},
        "capabilities": {"memoryPerGpu": "80Gi", "multiNodeCapable": True, "interNodeBandwidth": network},
    }
    pool |= {"interNode": inter_node} if inter_node else {}
    cluster: Manifest = {
        "source": "Existing",
        **({"provider": provider} if provider else {}),
        "existing": {"secretRef": {"name": "kubeconfig"}},
    }
    environment: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceEnvironment",
        "metadata": {"name": "east"},
        "spec": {"cluster": cluster, "nodePools": [pool]},
    }
    return run("validate", write(folder, environment)).stdout


@pytest.mark.parametrize(
    ("provider", "network", "preset"),
    [
        ("coreweave", "ib-400g", "coreweave-infiniband"),
        ("CoreWeave", "roce-400g", "coreweave-roce"),
        ("eks", "efa-400g", "eks-efa"),
    ],
)
def test_proposes_the_preset_of_the_provider(tmp_path: Path, provider: str, network: str, preset: str) -> None:
    wanted = f"pool big has {network}, for which provider {provider} has the preset {preset}; set interNode.preset\n"
    assert wanted in _validate(tmp_path, provider, network)


def test_proposes_none_where_none_is_known_or_needed(tmp_path: Path) -> None:
    assert "has the preset" not in _validate(tmp_path, "on-premises", "ib-400g")
    assert "has the preset" not in _validate(tmp_path, "coreweave", "eth-100g")
    assert "has the preset" not in _validate(tmp_path, "coreweave", "ib-400g", {"preset": "coreweave-infiniband"})


def test_a_provider_is_taken_for_its_usual_preset(tmp_path: Path) -> None:
    assert "(did you mean coreweave-infiniband?)" in _validate(tmp_path, "", "ib-400g", {"preset": "coreweave"})


IMAGE = "vllm/vllm-openai:v0.15.0"


@pytest.mark.parametrize(
    ("image", "fail_closed", "nodes", "is_noted"),
    [
        (IMAGE, True, 2, True),
        (f"mirror.example.com/{IMAGE}", True, 2, True),
        ("registry.example.com/team/vllm-efa:v0.15.0", True, 2, False),
        (IMAGE, False, 2, False),
        (IMAGE, True, 1, False),
    ],
)
def test_says_that_the_stock_image_cannot_start_with_efa_alone(
    tmp_path: Path, image: str, *, fail_closed: bool, nodes: int, is_noted: bool
) -> None:
    """The image contains no aws-ofi-nccl, and failClosed lets NCCL use nothing else."""
    manifests = copy.deepcopy(example("kimi-k2-two-nodes"))
    (pool,) = listing(find_manifest(manifests, "InferenceEnvironment"), "spec.nodePools")
    capabilities = {**mapping(pool, "capabilities"), "interNodeBandwidth": "efa-400g", "memoryPerGpu": "288Gi"}
    preset: Manifest = {"preset": "eks-efa", "with": {"instanceType": "p5en.48xlarge", "ncclNet": "Libfabric"}}
    pool |= {"capabilities": capabilities, "interNode": {**preset, "failClosed": fail_closed}}
    (profile, *_) = listing(find_manifest(manifests, "ClusterModel"), "spec.serving")
    mapping(profile, "engine")["image"] = image
    topology = mapping(profile, "replicaTopology")
    mapping(topology, "requires").pop("multiNodeBandwidth")
    topology["nodes"] = nodes
    mapping(topology, "parallelism")["pipeline"] = nodes
    file = write(tmp_path, *manifests)
    note = (
        f"pool h200 has preset eks-efa with failClosed, and {image} contains no aws-ofi-nccl, so replicas of several "
        "nodes cannot start; use an image with libfabric and aws-ofi-nccl, or set interNode.failClosed: false, which "
        "uses TCP"
    )
    validated = run("validate", file).stdout
    assert (f"spec.modelRef: InferenceEnvironment h200-east: {note}\n" in validated) == is_noted, validated
    (plan,) = json.loads(run("plan", "-f", file, "-o", "json").stdout)
    assert (f"h200-east: {note}" in plan["remarks"]) == is_noted, plan
