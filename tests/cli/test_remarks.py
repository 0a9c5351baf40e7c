"""`plan` on the storage of what it would place: too small for it, too small by name only, and how long it takes."""

import copy
import json
from pathlib import Path

from function.kube.manifests import JSON, Manifest, mapping
from tests.cli.conftest import example
from tests.cli.process import cells, run, said, write


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


def test_a_shared_claim_that_cannot_hold_the_weights_is_refused(tmp_path: Path) -> None:
    done = run("plan", *kimi(tmp_path, SHARED))
    assert done.returncode == 1
    assert cells(done.stdout)[0][-3:] == ["960Gi of disk", "a Shared claim of 500Gi", "StorageTooSmall"]
    assert REFUSED in done.stdout
    assert "Raise spec.storage.sharedClaim.size of InferenceEnvironment h200-east, or set" in done.stdout


def test_so_is_a_size_of_ones_own(tmp_path: Path) -> None:
    files = kimi(tmp_path, {}, {"type": "PVC", "size": "500Gi"})
    done = run("plan", *files)
    assert "StorageTooSmall" in done.stdout
    wanted = "spec.modelCache.size: 500Gi is less than the model's spec.resources.disk of 960Gi"
    assert wanted in done.stdout
    assert "Raise spec.modelCache.size, or correct the model's spec.resources.disk" in done.stdout
    validated = run("validate", files[1])
    assert (validated.returncode, wanted in validated.stdout) == (1, True)


def test_storage_that_ignores_sizes_takes_it_with_a_remark(tmp_path: Path) -> None:
    (plan,) = json.loads(said("plan", *kimi(tmp_path, {**SHARED, "sizeEnforced": False}), "-o", "json"))
    assert plan["reason"] == "Placed"
    assert plan["remarks"][-1] == f"h200-east: {REFUSED}"


def test_weights_beyond_the_gpus_of_the_pool(tmp_path: Path) -> None:
    """Whatever the profile asks for: 16 GPUs of 141Gi of which nine tenths are for use: 2030.4Gi, in whole Gi."""
    (plan,) = json.loads(said("plan", *kimi(tmp_path, {}, disk="2100Gi"), "-o", "json"))
    wanted = "16 GPUs of 141Gi hold 2031Gi of weights at most, and spec.resources.disk is 2100Gi"
    assert plan["remarks"] == [f"h200-east: {wanted}"]


def test_the_expected_time_to_load(tmp_path: Path) -> None:
    (plan,) = json.loads(said("plan", *kimi(tmp_path, {"readBandwidth": 2.5}), "-o", "json"))
    # 960 x 2^30 / 2.5e9 = 412.3 s.
    assert plan["remarks"][-1].startswith(
        "h200-east: weights of at most 960Gi load in 6m53s at 2.5 GB/s; engine.args --l"
    )
