"""`capacity`: usage by deployment, free GPUs, and the largest replica that still fits."""

import copy
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import Live, example, find_manifest
from tests.cli.process import EXAMPLES, STORIES, cells, output_of, run, write


def test_shows_usage_of_a_control_plane(live: Live) -> None:
    (row,) = cells(output_of("capacity", *live()))
    # 2 of 4 nodes and 16 of 32 GPUs are Kimi's; the 2 free nodes hold one replica of 2 x 8.
    assert row == [
        *("h200-east", "h200", "True", "16", "2 nodes x 8 GPUs", "16/32", "2/4"),
        *("nvidia-h200-141gb", "assistants/kimi-k2 (16)"),
    ]


def test_shows_unused_pools_from_files() -> None:
    rows = {row[0]: row for row in cells(output_of("capacity", "-f", "examples/two-environments/environment.yaml"))}
    # Neither pool is multiNodeCapable, so one node is the largest replica.
    assert rows["h100-tokyo"][3:7] == ["32", "1 node x 8 GPUs", "0/32", "0/4"]
    assert rows["a100-oslo"][3:7] == ["32", "1 node x 4 GPUs", "0/32", "0/8"]
    assert {row[-1] for row in rows.values()} == {"-"}, "used by none"


def test_says_that_the_quota_of_kueue_is_not_counted(tmp_path: Path) -> None:
    environment = copy.deepcopy(find_manifest(example("gemma-one-gpu"), "InferenceEnvironment"))
    (pool,) = listing(environment, "spec.nodePools")
    path = write(tmp_path, environment)
    assert "LOCAL QUEUE" not in output_of("capacity", "-f", path)
    pool["kueue"] = {"queue": "team-gpus"}
    path = write(tmp_path, environment)
    shown = output_of("capacity", "-f", path)
    (row,) = cells(shown)
    assert "team-gpus" in row
    assert shown.splitlines()[-1].startswith(
        "note: Kueue admits the pods of pools with a LOCAL QUEUE; its quota is not counted here"
    )
    assert json.loads(output_of("capacity", "-f", path, "-o", "json"))[0]["localQueue"] == "team-gpus"


# In one world the ModelCache's model would be given twice, and its environments would be another example's.
WORLDS = [*([story] for story in STORIES), [story for story in STORIES if story != "model-cache"]]


@pytest.mark.parametrize("stories", WORLDS, ids=len)
def test_counts_what_the_same_files_would_place(stories: list[str]) -> None:
    files = [option for story in stories for option in ("-f", str(EXAMPLES / story))]
    placed, free_nodes = Counter[tuple[str, str]](), dict[tuple[str, str], int]()
    for plan in json.loads(output_of("plan", *files, "-o", "json")):
        for placement in plan["placements"]:
            gpus = placement["topology"]["nodes"] * placement["topology"]["gpusPerNode"] * placement["replicas"]
            placed[placement["environment"], placement["pool"]] += gpus
    drawn = output_of("plan", *files, "-o", "svg")
    for environment in drawn.split(' font-weight="600">')[1:]:
        for pool in environment.split('font-size="12">pool ')[1:]:
            place = environment.partition("<")[0], pool.partition(":")[0]
            free_nodes[place] = len(re.findall("<title>free: [0-9]+</title>", pool))
    pools = json.loads(output_of("capacity", *files, "-o", "json"))
    found = {(pool["environment"], pool["pool"]): pool for pool in pools}
    assert {place: pool["gpus"]["inUse"] for place, pool in found.items() if pool["gpus"]["inUse"]} == dict(placed)
    assert {place: pool["nodes"]["total"] - pool["nodes"]["inUse"] for place, pool in found.items()} == free_nodes
    assert output_of("capacity", *files, "-o", "svg") == drawn


def test_shows_partly_free_nodes(kimi: list[Manifest], tmp_path: Path) -> None:
    # One node of 8 with 5 GPUs taken: a replica of 3 GPUs still fits one node.
    environment = copy.deepcopy(find_manifest(kimi, "InferenceEnvironment"))
    placement = copy.deepcopy(find_manifest(kimi, "ModelPlacement"))
    (pool,) = listing(environment, "spec.nodePools")
    pool["maxNodeCount"] = 1
    mapping(placement, "spec")["topology"] = {"nodes": 1, "gpusPerNode": 5}
    for manifest in (environment, placement):
        del manifest["status"]
    (found,) = json.loads(output_of("capacity", "-f", write(tmp_path, environment, placement), "-o", "json"))
    assert found["gpus"] == {"total": 8, "inUse": 5, "free": 3}
    assert found["largestReplica"] == "1 node x 3 GPUs"
    assert [user["gpus"] for user in found["usedBy"]] == [5]


def test_host_network_pods_use_their_node_exclusively(kimi: list[Manifest], tmp_path: Path) -> None:
    # Of two nodes of 8 one has a pod of 4; the other is free, also for one of several nodes, which there is none.
    environment = copy.deepcopy(find_manifest(kimi, "InferenceEnvironment"))
    placement = copy.deepcopy(find_manifest(kimi, "ModelPlacement"))
    (pool,) = listing(environment, "spec.nodePools")
    pool["maxNodeCount"] = 2
    mapping(placement, "spec")["topology"] = {"nodes": 1, "gpusPerNode": 4}
    for manifest in (environment, placement):
        del manifest["status"]
    for block, free, largest in (("pod", 8, "1 node x 8 GPUs"), ("interNode", 12, "1 node x 8 GPUs")):
        pool[block] = {"hostNetwork": True} if block == "pod" else {"pod": {"hostNetwork": True}}
        given = write(tmp_path, environment, placement)
        (found,) = json.loads(output_of("capacity", "-f", given, "-o", "json"))
        assert (found["gpus"]["free"], found["largestReplica"]) == (free, largest)
        assert f"{free} of 16 GPUs free" in output_of("capacity", "-f", given, "-o", "svg")
        del pool[block]


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (
            "spec.taints",
            [{"key": "modelplane.ai/cordon", "effect": "NoSchedule", "reason": "repair on Friday"}],
            "taint modelplane.ai/cordon:NoSchedule (repair on Friday)",
        ),
        ("spec.nodePools.0.unschedulable", True, "unschedulable"),
        (
            "metadata.annotations",
            {"crossplane.io/paused": "true"},
            "not Ready: paused by its annotation crossplane.io/paused",
        ),
    ],
    ids=["cordoned", "pool", "paused"],
)
def test_says_in_every_output_that_nothing_new_is_placed(place: str, value: JSON, why: str, tmp_path: Path) -> None:
    environment = copy.deepcopy(find_manifest(example("kimi-k2-two-nodes"), "InferenceEnvironment"))
    *way, last = place.split(".")
    parent: Any = environment
    for step in way:
        parent = parent[int(step)] if step.isdigit() else parent.setdefault(step, {})
    parent[last] = value
    files = ("-f", write(tmp_path, environment))
    for form in ("table", "wide"):
        (row,) = cells(output_of("capacity", *files, "-o", form))
        assert row[3:6] == [why, "32", "none"]
    (found,) = json.loads(output_of("capacity", *files, "-o", "json"))
    assert (found["notSchedulable"], found["largestReplica"], found["gpus"]["free"]) == ([why], "none", 32)
    assert f"largest replica none; {why}; not used" in output_of("capacity", *files, "-o", "svg")


def test_takes_names_of_environments() -> None:
    files = ("-f", "examples/two-environments")
    assert [row[0] for row in cells(output_of("capacity", "ie/h100-tokyo", *files))] == ["h100-tokyo"]
    assert len(cells(output_of("capacity", "h100-tokyo", "a100-oslo", *files))) == 2
    refused = run("capacity", "h100-tokio", *files)
    assert (refused.returncode, "Did you mean h100-tokyo?" in refused.stderr) == (4, True)


def test_writes_wide_and_names() -> None:
    shown = output_of("capacity", "-f", "examples/kimi-k2-two-nodes", "-o", "wide")
    assert cells(shown)[0][8:11] == ["141Gi", "ib-400g", "true"]
    assert output_of("capacity", "-f", "examples/kimi-k2-two-nodes", "-o", "name") == (
        "inferenceenvironment.modelplane.ai/h200-east\n"
    )


FLEET = ("-f", "examples/two-environments", "-f", "examples/kimi-k2-two-nodes")
# Llama runs with 2 replicas of 4 A100 and with 2 of 2 H100, Kimi with one of 2 nodes of 8 H200.
SUMS = {
    "namespace": [
        ["assistants", "16", "1", "1", "assistants/kimi-k2 (16)"],
        ["search", "12", "4", "2", "search/llama (12)"],
    ],
    "model": [
        ["kimi-k2-instruct", "16", "1", "1", "assistants/kimi-k2 (16)"],
        ["llama-3.3-70b-anywhere", "12", "4", "2", "search/llama (12)"],
    ],
    "accelerator": [
        ["nvidia-h200-141gb", "16", "16", "1", "1", "assistants/kimi-k2 (16)"],
        ["nvidia-a100-80gb", "8", "24", "2", "1", "search/llama (8)"],
        ["nvidia-h100-80gb", "4", "28", "2", "1", "search/llama (4)"],
    ],
}


@pytest.mark.parametrize("by", SUMS)
def test_adds_up_what_is_used(by: str) -> None:
    assert cells(output_of("capacity", *FLEET, "--by", by)) == SUMS[by]


def test_sums_as_data_name_environments_and_users() -> None:
    _, llama = json.loads(output_of("capacity", *FLEET, "--by", "model", "-o", "json"))
    assert llama == {
        "model": "llama-3.3-70b-anywhere",
        "gpus": 12,
        "replicas": 4,
        "environments": ["a100-oslo", "h100-tokyo"],
        "usedBy": [{"deployment": "search/llama", "gpus": 12}],
    }
    assert run("capacity", *FLEET, "--by", "model", "-o", "svg").returncode == 2
    unused = ("capacity", "-f", "examples/two-environments/environment.yaml", "--by")
    assert output_of(*unused, "namespace") == "no GPU is in use\n"
    assert {row[1] for row in cells(output_of(*unused, "accelerator"))} == {"0"}


def test_selects_environments() -> None:
    shown = output_of("capacity", *FLEET, "-l", "modelplane.ai/region=eu", "-o", "name")
    assert shown == "inferenceenvironment.modelplane.ai/a100-oslo\n"
    assert run("capacity", *FLEET, "-l", "gone").returncode == 4


def test_follows_references_to_the_control_plane(live: Live, tmp_path: Path) -> None:
    """Without files it reads only environments and placements; a deployment may name a model of either side."""
    deployment = find_manifest(example("kimi-k2-two-nodes"), "ModelDeployment")
    other = find_manifest(example("gemma-one-gpu"), "ClusterModel")
    second: Manifest = {**deployment, "metadata": {"name": "second", "namespace": "assistants"}}
    (row,) = cells(output_of("capacity", "-f", write(tmp_path, other, second), "--live", *live()))
    assert row[-1] == "assistants/kimi-k2 (16), assistants/second (16)"


def test_picture_has_totals() -> None:
    drawn = output_of("capacity", "-f", "examples/two-environments", "-f", "examples/kimi-k2-two-nodes", "-o", "svg")
    assert "3 environments with 96 GPUs: 28 in use, 68 free" in drawn
    assert "cannot be used" not in drawn


def squares(drawn: str) -> Counter[str | None]:
    """Return how many squares of GPUs have which colour."""
    rects = ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}rect")
    return Counter(rect.get("fill") for rect in rects if rect.get("width") == "9")


def test_picture_shows_the_user_of_every_gpu(live: Live) -> None:
    drawn = output_of("capacity", *live(), "-o", "svg")
    # 16 of 32 GPUs are Kimi's, on two whole nodes; each colour is in the legend once.
    assert squares(drawn) == {"#8b98ad": 16 + 1, "#ffffff": 16 + 1}
    assert drawn.count("<title>assistants/kimi-k2: 8</title>") == 2
    assert "16 of 32 GPUs free, largest replica 2 nodes x 8 GPUs; assistants/kimi-k2 (16)" in drawn


def test_picture_counts_omitted_nodes(tmp_path: Path) -> None:
    environment = copy.deepcopy(find_manifest(example("kimi-k2-two-nodes"), "InferenceEnvironment"))
    (pool,) = listing(environment, "spec.nodePools")
    pool["maxNodeCount"] = 14
    drawn = output_of("capacity", "-f", write(tmp_path, environment), "-o", "svg")
    assert squares(drawn)["#ffffff"] == 12 * 8 + 1, "twelve nodes of eight, and the legend"
    assert ">+2 nodes</text>" in drawn


def test_picture_of_a_fleet_counts_omitted_environments(tmp_path: Path) -> None:
    environment = find_manifest(example("kimi-k2-two-nodes"), "InferenceEnvironment")
    many: list[Manifest] = [{**environment, "metadata": {"name": f"e{number:02}"}} for number in range(50)]
    drawn = output_of("capacity", "-f", write(tmp_path, *many), "-o", "svg")
    assert "50 environments with 1600 GPUs: 0 in use, 1600 free" in drawn
    assert "and 10 pools more" in drawn
    assert squares(drawn)["#ffffff"] == 40 * 32 + 1
