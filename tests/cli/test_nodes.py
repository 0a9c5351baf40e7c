"""What the command line shows of nodes: what can be used, what contradicts, and the pools that they would be."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from function.api.inference_environment import parse_environment
from function.cli.suggested_pools import suggest_pools
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, listing, mapping, text
from function.remote.node_collection import MEMBERSHIP, name_collection
from function.remote.nodes import parse_node, summarize_pools
from tests.cli.conftest import Live, find_manifest
from tests.cli.process import cells, output_of, write
from tests.support.nodes import DGX_H100, EKS_A100, GKE_L4, POOL, member, node, taint

EAST = "h200-east"
# Of Kimi's four nodes two are in use, and one of the others is cordoned.
FACTS: Manifest = {
    "nodes": 4,
    "usable": 3,
    "unusable": [{"reason": "Cordoned", "count": 1, "nodes": ["h200-4"]}],
    "gpusPerNode": 8,
}
H200 = [node(f"h200-{number}", {POOL: "h200"}, cordoned=number == 4) for number in (1, 2, 3, 4)]


def looked(kimi: list[Manifest]) -> list[Manifest]:
    """Return Kimi's objects, with an environment that has looked at its nodes, and these."""
    found = copy.deepcopy(kimi)
    environment = find_manifest(found, "InferenceEnvironment")
    (pool,) = listing(environment, "status.pools")
    pool["observed"] = FACTS
    return [*found, *map(shown, H200)]


def shown(manifest: Manifest) -> Manifest:
    """Return the Object of a node of the environment's collection."""
    found = member(manifest)
    found["metadata"] = {**mapping(found, "metadata"), "labels": {MEMBERSHIP: name_collection(EAST)}}
    return found


def test_capacity_counts_usable_nodes(kimi: list[Manifest], tmp_path: Path) -> None:
    files = write(tmp_path, *looked(kimi))
    (row,) = cells(output_of("capacity", "-f", files))
    assert row[3:8] == ["8", "1 node x 8 GPUs", "16/32", "2/4", "3 (h200-4 is cordoned)"]
    (found,) = json.loads(output_of("capacity", "-f", files, "-o", "json"))
    assert found["nodes"] == {"total": 4, "inUse": 2, "usable": 3, "observed": FACTS}
    assert found["gpus"] == {"total": 32, "inUse": 16, "free": 8}


def test_capacity_picture_counts_unusable_nodes(kimi: list[Manifest], tmp_path: Path) -> None:
    drawn = output_of("capacity", "-f", write(tmp_path, *looked(kimi)), "-o", "svg")
    assert drawn.count('fill="url(#lost)"') == 8 + 1, "the GPUs of one node, and the legend"
    assert drawn.count(">cannot be used</text>") == 1
    assert "1 environment with 32 GPUs: 16 in use, 8 free, 8 cannot be used" in drawn


def test_picture_hatches_unusable_nodes(kimi: list[Manifest], tmp_path: Path) -> None:
    drawn = output_of("plan", "-f", write(tmp_path, *looked(kimi)), "-o", "svg")
    assert drawn.count('fill="url(#lost)"') == 8 + 1, "the GPUs of one node, and the legend"
    assert drawn.count(">cannot be used</text>") == 1
    assert "cannot be used: 8" in drawn
    assert "cannot use 1 of 4 nodes (h200-4 is cordoned)" in drawn


def test_validate_compares_a_file_with_the_nodes(live: Live, kimi: list[Manifest], tmp_path: Path) -> None:
    environment = copy.deepcopy(find_manifest(kimi, "InferenceEnvironment"))
    (pool,) = listing(environment, "spec.nodePools")
    pool["labels"] = {POOL: "h2000"}
    pool["autoscaled"] = False
    environment.pop("status")
    faults = json.loads(
        output_of("validate", write(tmp_path, environment), "--live", "-o", "json", *live(*map(shown, H200)))
    )
    found = [(fault["path"], fault["message"]) for fault in faults if "nodePools" in fault["path"]]
    assert found == [
        ("spec.nodePools[h200]", f"pool h200: no node has {POOL}=h2000; the nearest, h200-1, has {POOL}=h200")
    ]


def test_suggests_pools_on_a_control_plane(live: Live) -> None:
    suggested = output_of("capacity", "--suggest", *live(*map(shown, H200)))
    assert suggested.startswith(f"# spec of InferenceEnvironment {EAST}, of 4 nodes\n")
    want: Manifest = {"name": "h200", "acceleratorCount": 8, "nodeCount": 4, "labels": {POOL: "h200"}}
    assert yaml.safe_load(suggested) == {"nodePools": [want]}


def test_suggests_nothing_without_observed_nodes(live: Live) -> None:
    assert output_of("capacity", "--suggest", *live()) == (
        f"# InferenceEnvironment {EAST} shows no nodes: see its HardwareAsDeclared\n"
    )


def test_suggests_no_pools_for_nodes_without_gpus(live: Live) -> None:
    suggested = output_of("capacity", "--suggest", *live(shown(node("cpu", gpus=None))))
    assert yaml.safe_load(suggested) == {"nodePools": []}, "an empty field would be invalid"


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    nodes: tuple[Manifest, ...]
    names: tuple[str, ...]


GPU = taint("nvidia.com/gpu", "present")
CASES = (
    Case("gke", "by GKE's node pools", tuple(
        node(f"gke-{i}", GKE_L4, gpus="2", taints=(GPU,)) for i in range(3)), ("l4",)),
    Case("eks-and-dgx", "each by its own label", (node("a", EKS_A100), node("b", DGX_H100), node("c", DGX_H100)),
         ("a100", "dgx")),
    Case("one-label-two-kinds", "unequal nodes of one label are separated by another label",
         (node("a", {POOL: "x", "size": "8"}), node("b", {POOL: "x", "size": "4"}, gpus="4")), ("x", "x-2")),
    Case("taints", "what all nodes of a pool have belongs to it", (node("a", taints=(taint("dedicated", "ml"),)),),
         ("h100",)),
    Case("no-gpus", "nodes without GPUs are no pool",
         (node("a"), node("cpu", {"kubernetes.io/os": "linux"}, gpus=None)), ("h100",)),
    Case("amd", "GPUs of another maker have another resource",
         (node("a", {POOL: "mi", "amd.com/gpu.product-name": "AMD_Instinct_MI300X"}, resource="amd.com/gpu"),),
         ("mi",)),
    Case("no-name", "where no cloud names a pool, GPUs do", (node("a", {"nvidia.com/gpu.product": "NVIDIA-L4"}),),
         ("NVIDIA-L4",)),
    Case("nothing", "no node, no pool", (), ()),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_suggested_pools_match_their_nodes(case: Case) -> None:
    nodes = list(map(parse_node, case.nodes))
    pools: list[JSON] = [suggestion.pool for suggestion in suggest_pools(nodes)]
    manifest: Manifest = {"metadata": {"name": "east"}, "spec": {"nodePools": pools, "cluster": CLUSTER}}
    parsed = parse_environment(manifest, BUILT_IN)
    assert parsed.problems == ()
    assert tuple(text(pool, "name") for pool in pools) == case.names, case.reason
    facts = summarize_pools(parsed.value, nodes)
    assert [(found.drift, found.unusable) for found in facts.values()] == [((), ())] * len(pools), case.reason
    assert sum(found.usable for found in facts.values()) == sum(bool(n.allocatable) for n in nodes)


CLUSTER: JSON = {"source": "Existing", "existing": {"secretRef": {"name": "s"}}}


def test_groups_nodes_by_gpus_where_no_label_differs() -> None:
    """Two nodes of eight and two of four with one label: all that can be said is what they have in common."""
    labels = {POOL: "x", "nvidia.com/gpu.product": "NVIDIA-L4"}
    nodes = [node(name, labels, gpus=gpus) for name, gpus in (("a", "8"), ("b", "8"), ("c", "4"), ("d", "4"))]
    want: list[JSON] = [{POOL: "x", "nvidia.com/gpu.product": "NVIDIA-L4"}] * 2
    assert [mapping(each.pool, "labels") for each in suggest_pools(map(parse_node, nodes))] == want


def test_prefers_other_labels_to_the_host_name() -> None:
    nodes = [node("a", {POOL: "x", "size": "8"}), node("b", {POOL: "x", "size": "4"}, gpus="4")]
    labels = [mapping(each.pool, "labels") for each in suggest_pools(map(parse_node, nodes))]
    assert labels == [{"size": "4"}, {"size": "8"}]
