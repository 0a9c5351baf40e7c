"""`why`: every refusal, nearest first, with what to do; and what a placement waits for."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, listing, mapping
from tests.cli.conftest import Live, example, find_manifest
from tests.cli.process import ELSEWHERE, KIMI, error_lines, output_of, refused_output_of, run, write


def two_short_environments(folder: Path) -> list[str]:
    """Return files of Kimi K2 with one environment that lacks shared storage and one that lacks labels."""
    manifests = example("kimi-k2-two-nodes")
    environment = find_manifest(manifests, "InferenceEnvironment")
    other = copy.deepcopy(environment)
    mapping(other, "metadata").update({"name": "unlabelled", "labels": {}})
    del mapping(environment, "spec")["storage"]
    return ["-f", write(folder, *manifests, other)]


def test_lists_nearest_first_with_remedies(tmp_path: Path) -> None:
    done = run("why", "kimi-k2", *two_short_environments(tmp_path))
    shown = done.stdout
    first, second = shown.index("1. h200-east, profile h200-two-nodes: SharedStorageMissing"), shown.index("2. unlabel")
    assert first < second
    assert "multi-node model requires shared storage on the inference environment." in shown
    assert "do: Set spec.storage.storageClassName of InferenceEnvironment h200-east to a ReadWriteMany class" in shown
    assert done.returncode == 1


def test_writes_json(tmp_path: Path) -> None:
    found = json.loads(refused_output_of("why", "kimi-k2", *two_short_environments(tmp_path), "-o", "json"))
    assert [r["reason"] for r in found["reasons"]] == ["SharedStorageMissing", "NoEnvironmentMatches"]
    assert found["reasons"][0]["outlook"] == "unschedulable"
    scheduled = {c["type"]: c for c in found["conditions"]}["Scheduled"]
    assert (scheduled["status"], scheduled["reason"]) == ("False", "SharedStorageMissing")


def test_says_where_only_some_placements_exist(tmp_path: Path) -> None:
    manifests = example("kimi-k2-two-nodes")
    mapping(find_manifest(manifests, "ModelDeployment"), "spec")["environments"] = 2
    shown = refused_output_of("why", "kimi-k2", "-f", write(tmp_path, *manifests))
    assert shown.startswith("ModelDeployment assistants/kimi-k2: partially placed\n")


def test_lists_no_reason_when_placed() -> None:
    shown = output_of("why", "kimi-k2", "-f", KIMI, *ELSEWHERE)
    assert "Scheduled True Placed" in shown
    assert "1. " not in shown


def test_explains_placements_that_are_not_ready(live: Live, kimi: list[Manifest]) -> None:
    placement = copy.deepcopy(find_manifest(kimi, "ModelPlacement"))
    status = mapping(placement, "status")
    status["phase"] = "Failed"
    for condition in listing(status, "conditions"):
        if condition["type"] == "StorageReady":
            condition.update({"status": "False", "reason": "DownloadFailed", "message": "the token was refused"})
    shown = output_of("why", "kimi-k2", *live(placement))
    assert "on h200-east: DownloadFailed (Failed)" in shown
    assert "StorageReady is False: the token was refused" in shown


def test_explains_the_service_of_a_deployment(live: Live, kimi: list[Manifest]) -> None:
    placement = find_manifest(kimi, "ModelPlacement")
    message = "No Gateway is configured"
    service: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelService",
        "metadata": {**mapping(placement, "metadata"), "name": "kimi-k2", "uid": "service"},
        "spec": {"backends": [{"deployment": "kimi-k2"}]},
        "status": {
            "conditions": [
                {"type": "RouteReady", "status": "False", "reason": "GatewayNotConfigured", "message": message}
            ]
        },
    }
    shown = output_of("why", "kimi-k2", *live(placement, service))
    assert "1. ModelService assistants/kimi-k2: GatewayNotConfigured" in shown
    assert f"RouteReady is False: {message}" in shown


def test_names_a_missing_model() -> None:
    done = run("why", "kimi-k2", "-f", "examples/kimi-k2-two-nodes/deployment.yaml")
    assert (done.returncode, error_lines(done)) == (1, [])
    assert "ModelResolved False ModelNotFound" in done.stdout


def test_explains_a_placement_that_cannot_grow(live: Live, kimi: list[Manifest]) -> None:
    placement = copy.deepcopy(find_manifest(kimi, "ModelPlacement"))
    other = copy.deepcopy(placement)
    mapping(placement, "spec")["replicas"] = 0
    mapping(other, "metadata").update({"name": "other", "uid": "other", "ownerReferences": [], "annotations": {}})
    mapping(other, "spec").update({"deploymentRef": {"name": "other"}, "replicas": 2})
    # What is held counts, and not what a placement only waits for.
    mapping(placement, "status.service")["replicas"] = 0
    mapping(other, "status.service")["replicas"] = 2
    shown = refused_output_of("why", "kimi-k2", "-f", KIMI, "--live", *live(placement, other))
    assert "Scheduled False InsufficientCapacity" in shown
    assert "1. h200-east, profile h200-two-nodes: InsufficientCapacity (waiting)" in shown
    assert "pool h200 has no capacity now: 1 replica of 2 nodes x 8 GPUs required, 0 fit" in shown
    assert "do: Add 2 nodes to pool h200 of InferenceEnvironment h200-east (maxNodeCount 6)" in shown


LABELLED = 20


@pytest.fixture
def hundred(tmp_path: Path) -> list[str]:
    """A hundred environments that fall short of Kimi K2: by memory, by nodes and by the label."""
    manifests = example("kimi-k2-two-nodes")
    environment = find_manifest(manifests, "InferenceEnvironment")
    many = []
    for number in range(100):
        each = copy.deepcopy(environment)
        metadata, (pool,) = mapping(each, "metadata"), listing(each, "spec.nodePools")
        metadata["name"] = f"e{number:02}"
        if number < LABELLED:
            metadata["labels"] = {}
        elif number < 60:
            mapping(pool, "capabilities")["memoryPerGpu"] = "40Gi" if number < 30 else "80Gi"
        else:
            pool["maxNodeCount"] = 1
        many.append(each)
    return ["-f", write(tmp_path, *[m for m in manifests if m is not environment], *many)]


def test_groups_many_environments_by_reason(hundred: list[str]) -> None:
    shown = refused_output_of("why", *hundred)
    assert (
        shown.partition("\n\n")[2]
        == """\
1. 40 environments: PoolTooSmall (unschedulable)
   e60, e61, e62, e63 and 36 more
   - e60, profile h200-two-nodes: pool h200 is too small: 1 replica of 2 nodes x 8 GPUs required, \
the whole pool (1 node) holds 0
   do: Add 1 node to pool h200 of InferenceEnvironment e60 (maxNodeCount 2)

2. 40 environments: NoPoolSatisfiesRequirements (unschedulable)
   e20, e21, e22, e23 and 36 more
   - e20, profile h200-two-nodes: pool h200 has memoryPerGpu 40Gi, 141Gi required (101Gi missing)

3. 20 environments: NoEnvironmentMatches (unschedulable)
   e00, e01, e02, e03 and 16 more
   - e00: the model's environmentSelector requires modelplane.ai/tier=production (found no such label)

Every environment: --all
"""
    )
    every = refused_output_of("why", *hundred, "--all")
    assert sum(line[0].isdecimal() for line in every.splitlines() if line) == 100
    assert len(json.loads(refused_output_of("why", *hundred, "-o", "json"))["reasons"]) == 100


def test_wraps_long_reasons_on_a_narrow_terminal(tmp_path: Path) -> None:
    short = two_short_environments(tmp_path)
    narrow = refused_output_of("why", *short, COLUMNS="60")
    assert max(map(len, narrow.splitlines())) <= 60
    assert narrow.split() == refused_output_of("why", *short).split(), "the words are the same"


def test_needs_no_name_for_the_only_deployment(tmp_path: Path) -> None:
    assert output_of("why", "-f", KIMI) == output_of("why", "kimi-k2", "-f", KIMI)
    deployment = find_manifest(example("kimi-k2-two-nodes"), "ModelDeployment")
    other: Manifest = {**deployment, "metadata": {"name": "second", "namespace": "assistants"}}
    done = run("why", "-f", KIMI, "-f", write(tmp_path, other))
    assert (done.returncode, done.stdout) == (2, "")
    which = "which ModelDeployment? There are assistants/kimi-k2, assistants/second"
    assert done.stderr == f"error: {which}. Name one, or show all with -A\n"


def test_says_that_there_is_no_environment(tmp_path: Path) -> None:
    manifests = [m for m in example("gemma-one-gpu") if m["kind"] != "InferenceEnvironment"]
    assert "1. ModelDeployment chat/gemma: NoEnvironments\n" in refused_output_of(
        "why", "-f", write(tmp_path, *manifests)
    )


def test_advises_nothing_where_one_change_does_not_suffice(tmp_path: Path) -> None:
    """A pool with two faults was advised to declare the one that its hardware may not have."""
    manifests = example("kimi-k2-two-nodes")
    for manifest in manifests:
        for pool in listing(manifest, "spec.nodePools"):
            pool["capabilities"] = {"multiNodeCapable": False}
    shown = refused_output_of("why", "kimi-k2", "-f", write(tmp_path, *manifests))
    assert "is not multiNodeCapable" in shown
    assert "does not declare memoryPerGpu" in shown
    assert "do:" not in shown
