"""`why`: every refusal, nearest first, with what to do; and what a placement waits for."""

import copy
import json
from pathlib import Path

from function.kube.manifests import Manifest, listing, mapping
from tests.cli.conftest import Live, example
from tests.cli.process import ELSEWHERE, KIMI, run, said, told, write


def two_short_environments(folder: Path) -> list[str]:
    """Return files of Kimi K2 with one environment that lacks shared storage and one that lacks labels."""
    manifests = example("kimi-k2-two-nodes")
    (environment,) = [m for m in manifests if m["kind"] == "InferenceEnvironment"]
    other = copy.deepcopy(environment)
    mapping(other, "metadata").update({"name": "unlabelled", "labels": {}})
    del mapping(environment, "spec")["storage"]
    return ["-f", write(folder, *manifests, other)]


def test_nearest_first_with_what_to_do(tmp_path: Path) -> None:
    done = run("why", "kimi-k2", *two_short_environments(tmp_path))
    shown = done.stdout
    first, second = shown.index("1. h200-east, profile h200-two-nodes: SharedStorageMissing"), shown.index("2. unlabel")
    assert first < second
    assert "multi-node model requires shared storage on the inference environment." in shown
    assert "do: Give InferenceEnvironment h200-east a spec.storage with a ReadWriteMany class" in shown
    assert done.stderr.splitlines()[-1].startswith("Next: modelplane capacity -f ")


def test_json(tmp_path: Path) -> None:
    found = json.loads(said("why", "kimi-k2", *two_short_environments(tmp_path), "-o", "json"))
    assert [r["reason"] for r in found["reasons"]] == ["SharedStorageMissing", "NoEnvironmentMatches"]
    assert found["reasons"][0]["outlook"] == "never as things are"
    scheduled = {c["type"]: c for c in found["conditions"]}["Scheduled"]
    assert (scheduled["status"], scheduled["reason"]) == ("False", "SharedStorageMissing")


def test_nothing_stands_in_the_way() -> None:
    shown = said("why", "kimi-k2", "-f", KIMI, *ELSEWHERE)
    assert "Scheduled True Placed" in shown
    assert "1. " not in shown


def test_a_placement_that_is_not_ready_says_what_it_waits_for(live: Live, kimi: list[Manifest]) -> None:
    (placement,) = [copy.deepcopy(m) for m in kimi if m["kind"] == "ModelPlacement"]
    status = mapping(placement, "status")
    status["phase"] = "Failed"
    for condition in listing(status, "conditions"):
        if condition["type"] == "StorageReady":
            condition.update({"status": "False", "reason": "DownloadFailed", "message": "the token was refused"})
    shown = said("why", "kimi-k2", *live(placement))
    assert "on h200-east: DownloadFailed (Failed)" in shown
    assert "StorageReady is False: the token was refused" in shown


def test_a_model_that_is_missing_is_named() -> None:
    done = run("why", "kimi-k2", "-f", "examples/kimi-k2-two-nodes/deployment.yaml")
    assert (done.returncode, told(done)) == (0, [])
    assert "ModelResolved False ModelNotFound" in done.stdout


def test_a_placement_without_replicas_that_cannot_grow_is_told(live: Live, kimi: list[Manifest]) -> None:
    (placement,) = [copy.deepcopy(m) for m in kimi if m["kind"] == "ModelPlacement"]
    other = copy.deepcopy(placement)
    mapping(placement, "spec")["replicas"] = 0
    mapping(other, "metadata").update({"name": "other", "uid": "other", "ownerReferences": [], "annotations": {}})
    mapping(other, "spec").update({"deploymentRef": {"name": "other"}, "replicas": 2})
    shown = said("why", "kimi-k2", *live(placement, other))
    assert "Scheduled False InsufficientCapacity" in shown
    assert "1. h200-east, profile h200-two-nodes: InsufficientCapacity (not now)" in shown
    assert "pool h200 has no room now: 1 replica of 2 nodes x 8 GPUs wanted, room for 0" in shown
    assert "do: Wait until others leave pool h200" in shown
