"""`validate` proposes the network preset of a provider for a pool that declares RDMA (docs/hardware.md)."""

from pathlib import Path

import pytest

from function.kube.manifests import Manifest
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
