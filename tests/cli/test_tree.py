"""`tree`: from the deployment down to what the remote objects say of their pods."""

import asyncio
import contextlib
import copy
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from function.cli.main import interrupt
from function.kube.manifests import Manifest, mapping, text
from tests.cli.api import ApiServer
from tests.cli.conftest import Live, example, find_manifest
from tests.cli.process import ENVIRONMENT, KIMI, cells, output_of, write

REFUSED = "dial tcp 192.0.2.1:6443: i/o timeout"


def unreachable(kimi: list[Manifest], kind: str) -> Manifest:
    """Return the Object of a remote kind as it is while its cluster does not answer."""
    (found,) = [copy.deepcopy(m) for m in kimi if text(m, "spec.forProvider.manifest.kind") == kind]
    mapping(found, "status")["conditions"] = [{"type": "Synced", "status": "False", "message": REFUSED}]
    return found


def test_shows_the_deployment_down_to_the_service(live: Live) -> None:
    shown = output_of("tree", "kimi-k2", *live())
    names = [row[0] for row in cells(shown)]
    assert names[0] == "ModelDeployment/kimi-k2"
    assert names[1].startswith("└─ ModelPlacement/kimi-k2-")
    assert names[1].endswith(" on h200-east")
    kinds = {name.split("/")[0].lstrip(" │├└─") for name in names[2:]}
    assert kinds == {"Namespace", "PersistentVolumeClaim", "Job", "LLMInferenceService"}
    assert {row[1] for row in cells(shown)} == {"True"}


def test_wide_shows_mirrored_conditions(live: Live) -> None:
    shown = output_of("tree", "kimi-k2", "-o", "wide", *live())
    for mirrored in ("─ WorkerWorkloadReady ", "─ RouterReady ", "─ PresetsCombined ", "─ Complete "):
        assert mirrored in shown


def test_unreachable_cluster_is_unknown_and_not_false(live: Live, kimi: list[Manifest]) -> None:
    shown = output_of("tree", "kimi-k2", *live(unreachable(kimi, "LLMInferenceService")))
    (row,) = [row for row in cells(shown) if "LLMInferenceService" in row[0]]
    assert (row[1], row[3], row[4]) == ("Unknown", "Unreachable", REFUSED)


def test_shows_conditions_that_are_not_true(live: Live, kimi: list[Manifest]) -> None:
    (service,) = [m for m in kimi if text(m, "spec.forProvider.manifest.kind") == "LLMInferenceService"]
    broken = copy.deepcopy(service)
    remote = mapping(broken, "status.atProvider.manifest")
    mapping(remote, "status")["conditions"] = [
        {"type": "PresetsCombined", "status": "True"},
        {"type": "WorkerWorkloadReady", "status": "False", "message": "0 of 1 groups are ready"},
    ]
    shown = output_of("tree", "kimi-k2", *live(broken))
    assert "0 of 1 groups are ready" in shown
    assert "PresetsCombined" not in shown


def test_json_nests_like_the_tree(live: Live) -> None:
    root = json.loads(output_of("tree", "kimi-k2", "-o", "json", *live()))
    (placement,) = root["children"]
    assert len(placement["children"]) == 4


def test_dot_is_a_graph(live: Live) -> None:
    shown = output_of("tree", "kimi-k2", "-o", "dot", *live())
    assert shown.startswith("digraph")
    nodes, edges = shown.count("[label="), shown.count(" -> ")
    assert nodes == edges + 1, "a tree has one edge fewer than nodes"


def test_dot_of_files_shows_planned_objects() -> None:
    shown = output_of("tree", "-f", KIMI, "-o", "dot")
    assert '\\nPlanned", color=gray];' in shown


def test_shows_statuses_from_files(kimi: list[Manifest], tmp_path: Path) -> None:
    file = tmp_path / "everything.yaml"
    file.write_text(yaml.safe_dump_all(kimi))
    assert cells(output_of("tree", "kimi-k2", "-f", str(file)))[0][0] == "ModelDeployment/kimi-k2"


def test_watch_prints_changes_until_interrupted(
    live: Live, server: ApiServer, kimi: list[Manifest], tmp_path: Path
) -> None:
    output = tmp_path / "seen"
    program = str(Path(sys.executable).with_name("modelplane"))
    with output.open("w") as out:
        watching = subprocess.Popen(
            (program, "tree", "kimi-k2", "--watch", "-o", "json", *live()), stdout=out, env=ENVIRONMENT
        )
    try:
        wait_for(output, "LLMInferenceService")
        server.put([unreachable(kimi, "LLMInferenceService")])
        wait_for(output, REFUSED)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 130
    finally:
        watching.kill()
        watching.wait()
    assert output.read_text().count('"name": "ModelDeployment/kimi-k2"') == 2, "what has not changed is not repeated"


async def _stubborn() -> str:
    """Take no notice of being cancelled, as a library may that closes a connection."""
    os.kill(os.getpid(), signal.SIGINT)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(10)
    return "went on"


def test_interrupts_are_never_swallowed() -> None:
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with asyncio.Runner() as runner, pytest.raises(KeyboardInterrupt):
            runner.run(_stubborn())
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for(output: Path, words: str) -> None:
    deadline = time.monotonic() + 60
    while words not in output.read_text():
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.1)


def test_marks_objects_from_files_as_planned() -> None:
    shown = output_of("tree", "-f", KIMI)
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in shown.splitlines()[1:]]
    names = [row[0].lstrip(" │├└─") for row in rows]
    assert names[:2] == ["ModelDeployment/kimi-k2", "ModelPlacement/kimi-k2-4e23e0cb on h200-east"]
    assert [name.partition("/")[0] for name in names[2:]] == [
        "PersistentVolumeClaim",
        "Job",
        "Namespace",
        "LLMInferenceService",
    ]
    assert rows[0][3:] == [
        "Placed",
        "Placed on h200-east (profile h200-two-nodes, pool h200, 1 replica of 2 nodes x 8 GPUs)",
    ]
    assert rows[1][3:] == ["Planned", "profile h200-two-nodes, pool h200, 1 replica of 2 nodes x 8 GPUs"]
    assert {tuple(row[1:]) for row in rows[2:]} == {("-", "-", "Planned", "-")}, "no state is made up"


def test_keeps_the_state_of_existing_objects(live: Live, kimi: list[Manifest], tmp_path: Path) -> None:
    environment, *_ = [m for m in example("kimi-k2-two-nodes") if m["kind"] == "InferenceEnvironment"]
    deployment = find_manifest(example("kimi-k2-two-nodes"), "ModelDeployment")
    other: Manifest = {**environment, "metadata": {**mapping(environment, "metadata"), "name": "h200-west"}}
    broken = unreachable(kimi, "LLMInferenceService")
    wider: Manifest = {**deployment, "spec": {**mapping(deployment, "spec"), "environments": 2}}
    root = json.loads(output_of("tree", "-f", write(tmp_path, other, wider), "--live", "-o", "json", *live(broken)))
    states = {child["name"].partition(" on ")[2]: (child["ready"], child["state"]) for child in root["children"]}
    (east,) = [child for child in root["children"] if child["name"].endswith("h200-east")]
    assert {(c["name"].partition("/")[0], c["ready"]) for c in east["children"]} == {
        ("Namespace", "True"),
        ("PersistentVolumeClaim", "True"),
        ("Job", "True"),
        ("LLMInferenceService", "Unknown"),
    }
    assert states == {"h200-east": ("True", "Ready"), "h200-west": ("", "Planned")}


def test_shows_why_files_are_refused(tmp_path: Path) -> None:
    manifests = [m for m in example("kimi-k2-two-nodes") if m["kind"] != "InferenceEnvironment"]
    root = json.loads(output_of("tree", "-f", write(tmp_path, *manifests), "-o", "json"))
    assert (root["ready"], root["state"], root["children"]) == ("False", "NoEnvironments", [])
