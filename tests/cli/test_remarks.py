"""Remarks of `plan`: storage and memory that are too small, the time to load, why the smallest pool was chosen."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import example, find_manifest
from tests.cli.process import cells, output_of, run, write


def kimi(folder: Path, storage: Manifest, cache: JSON = None, disk: str = "960Gi") -> tuple[str, ...]:
    """Return files of Kimi K2 with this storage of its environment, and this modelCache."""
    manifests = copy.deepcopy(example("kimi-k2-two-nodes"))
    by_kind = {str(m["kind"]): mapping(m, "spec") for m in manifests if m["kind"] != "Namespace"}
    mapping(by_kind["InferenceEnvironment"], "storage").update(storage)
    mapping(by_kind["ClusterModel"], "resources")["disk"] = disk
    if cache:
        by_kind["ModelDeployment"]["modelCache"] = cache
    return "-f", write(folder, *manifests)


SHARED: Manifest = {"mode": "Shared", "sharedClaim": {"name": "team", "size": "500Gi"}}
REFUSED = "spec.storage.sharedClaim.size: 500Gi is less than the model's spec.resources.disk of 960Gi"


def test_refuses_a_shared_claim_that_is_too_small(tmp_path: Path) -> None:
    """Every environment refuses it, so the files are at fault; one of several is a row of the plan."""
    files = kimi(tmp_path, SHARED)
    done = run("plan", *files)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {files[1]}:")
    assert REFUSED in done.stderr
    other = copy.deepcopy(find_manifest(example("kimi-k2-two-nodes"), "InferenceEnvironment"))
    mapping(other, "metadata")["name"] = "h200-west"
    shown = output_of("plan", *files, "-f", write(tmp_path, other))
    assert [row[1] for row in cells(shown)] == ["h200-west", "h200-east"]
    assert cells(shown)[1][0] == "StorageTooSmall"
    assert cells(shown)[1][-2:] == ["960Gi of disk", "a Shared claim of 500Gi"]


def test_refuses_a_size_that_is_too_small(tmp_path: Path) -> None:
    files = kimi(tmp_path, {}, {"type": "PVC", "size": "500Gi"})
    wanted = "spec.modelCache.size: 500Gi is less than the model's spec.resources.disk of 960Gi"
    for done in (run("plan", *files), run("validate", *files)):
        assert (done.returncode, wanted in done.stderr + done.stdout) == (1, True)


def test_remarks_on_sizes_that_storage_ignores(tmp_path: Path) -> None:
    (plan,) = json.loads(output_of("plan", *kimi(tmp_path, {**SHARED, "sizeEnforced": False}), "-o", "json"))
    assert plan["reason"] == "Placed"
    assert plan["remarks"][-1] == f"h200-east: {REFUSED}"


def test_remarks_on_weights_beyond_gpu_memory(tmp_path: Path) -> None:
    """Whatever the profile asks for: 16 GPUs of 141Gi of which nine tenths are for use: 2030.4Gi, in whole Gi."""
    (plan,) = json.loads(output_of("plan", *kimi(tmp_path, {}, disk="2100Gi"), "-o", "json"))
    wanted = "16 GPUs of 141Gi can hold 2031Gi of weights, and spec.resources.disk is 2100Gi"
    assert plan["remarks"] == [f"h200-east: {wanted}; if engines do not load all of it, set spec.resources.vram"]


def test_remarks_on_the_expected_load_time(tmp_path: Path) -> None:
    (plan,) = json.loads(output_of("plan", *kimi(tmp_path, {"readBandwidth": 2.5}), "-o", "json"))
    # 960 x 2^30 / 2.5e9 = 412.3 s.
    assert plan["remarks"][-1] == "h200-east: weights of at most 960Gi load in 6m53s at 2.5 GB/s"


EMPTY_DIR = (
    "spec.modelCache: is EmptyDir: every pod start of each of 3 replicas downloads the weights again; set type: PVC "
    "for a claim that all replicas read"
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """Gemma, which asks for GPUs of 80Gi, where the H200 come first by name of environment."""
    manifests = copy.deepcopy(example("gemma-one-gpu"))
    h100 = next(m for m in manifests if m["kind"] == "InferenceEnvironment")
    h200: Manifest = copy.deepcopy(h100)
    mapping(h200, "metadata")["name"] = "a-h200"
    (pool,) = listing(h200, "spec.nodePools")
    pool.update({"name": "h200", "acceleratorType": "nvidia-h200-141gb"})
    mapping(pool, "capabilities")["memoryPerGpu"] = "141Gi"
    return "-f", write(tmp_path, *manifests, h200), "-n", "chat"


@pytest.fixture
def smallest(files: tuple[str, ...]) -> tuple[str, ...]:
    file = Path(files[1])
    file.write_text(file.read_text().replace("scaling:", "placement: {prefer: SmallestSufficient}\n  scaling:"))
    return files


def test_declared_order_chooses_the_first_pool(files: tuple[str, ...]) -> None:
    rows = [(row[1], row[-1], row[0]) for row in cells(output_of("plan", *files))]
    assert rows == [("a-h200", "room for 8", "placed"), ("h100-west", "room for 8", "fits")]


def test_names_the_rule_where_several_environments_fit(files: tuple[str, ...]) -> None:
    rule = "a-h200: first by name of 2 environments that fit; placement.prefer: SmallestSufficient"
    (plan,) = json.loads(output_of("plan", *files, "-o", "json"))
    assert plan["remarks"] == [f"a-h200: {EMPTY_DIR}", f"{rule} would take h100-west/h100"]
    file = Path(files[1])
    file.write_text(file.read_text().replace("name: a-h200", "name: z-h200"))
    (plan,) = json.loads(output_of("plan", *files, "-o", "json"))
    assert plan["remarks"][1:] == [f"{rule.replace('a-h200', 'h100-west')} would choose the same"]
    file.write_text(file.read_text().replace("scaling:", "environments: 2\n  scaling:"))
    (plan,) = json.loads(output_of("plan", *files, "-o", "json"))
    assert plan["remarks"] == [f"{name}: {EMPTY_DIR}" for name in ("h100-west", "z-h200")]


def test_smallest_pool_is_chosen_and_explained(smallest: tuple[str, ...]) -> None:
    shown = output_of("plan", *smallest)
    rows = [(row[1], row[-1], row[0]) for row in cells(shown)]
    # 1 x 80Gi - 80Gi and 1 x 141Gi - 80Gi.
    assert rows == [("h100-west", "room for 8, 0Gi unused", "placed"), ("a-h200", "room for 8, 61Gi unused", "fits")]
    smallest_is = "of what fits profile one-gpu, pool h100 is the smallest (0Gi unused)"
    note = f"h100-west: {smallest_is}, next a-h200/h200 (61Gi unused)"
    assert f"note: {note}" in shown
    assert f"note: {note}" in output_of("why", "gemma", *smallest)
    (plan,) = json.loads(output_of("plan", *smallest, "-o", "json"))
    assert plan["remarks"] == [f"h100-west: {EMPTY_DIR}", note]
