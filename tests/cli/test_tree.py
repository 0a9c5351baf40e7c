"""`tree`: from the deployment down to what the remote objects say of their pods."""

import copy
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

from function.kube.manifests import Manifest, mapping, text
from tests.cli.api import ApiServer
from tests.cli.conftest import Live
from tests.cli.process import ENVIRONMENT, cells, said

REFUSED = "dial tcp 192.0.2.1:6443: i/o timeout"


def unreachable(kimi: list[Manifest], kind: str) -> Manifest:
    """Return the Object of a remote kind as it is while its cluster does not answer."""
    (found,) = [copy.deepcopy(m) for m in kimi if text(m, "spec.forProvider.manifest.kind") == kind]
    mapping(found, "status")["conditions"] = [{"type": "Synced", "status": "False", "message": REFUSED}]
    return found


def test_from_the_deployment_down_to_the_service(live: Live) -> None:
    shown = said("tree", "kimi-k2", *live())
    names = [row[0] for row in cells(shown)]
    assert names[0] == "ModelDeployment/kimi-k2"
    assert names[1].startswith("└─ ModelPlacement/kimi-k2-")
    assert names[1].endswith(" on h200-east")
    kinds = {name.split("/")[0].lstrip(" │├└─") for name in names[2:]}
    assert kinds == {"Namespace", "PersistentVolumeClaim", "Job", "LLMInferenceService"}
    assert {row[1] for row in cells(shown)} == {"True"}


def test_wide_has_the_mirrored_conditions(live: Live) -> None:
    shown = said("tree", "kimi-k2", "-o", "wide", *live())
    for mirrored in ("─ WorkerWorkloadReady ", "─ RouterReady ", "─ PresetsCombined ", "─ Complete "):
        assert mirrored in shown


def test_a_cluster_that_does_not_answer_is_unknown_and_not_false(live: Live, kimi: list[Manifest]) -> None:
    shown = said("tree", "kimi-k2", *live(unreachable(kimi, "LLMInferenceService")))
    (row,) = [row for row in cells(shown) if "LLMInferenceService" in row[0]]
    assert (row[1], row[3], row[4]) == ("Unknown", "Unreachable", REFUSED)


def test_a_condition_that_is_not_true_shows(live: Live, kimi: list[Manifest]) -> None:
    (service,) = [m for m in kimi if text(m, "spec.forProvider.manifest.kind") == "LLMInferenceService"]
    broken = copy.deepcopy(service)
    remote = mapping(broken, "status.atProvider.manifest")
    mapping(remote, "status")["conditions"] = [
        {"type": "PresetsCombined", "status": "True"},
        {"type": "WorkerWorkloadReady", "status": "False", "message": "0 of 1 groups are ready"},
    ]
    shown = said("tree", "kimi-k2", *live(broken))
    assert "0 of 1 groups are ready" in shown
    assert "PresetsCombined" not in shown


def test_json_nests_as_the_tree_does(live: Live) -> None:
    root = json.loads(said("tree", "kimi-k2", "-o", "json", *live()))
    (placement,) = root["children"]
    assert len(placement["children"]) == 4


def test_dot_is_a_graph(live: Live) -> None:
    shown = said("tree", "kimi-k2", "-o", "dot", *live())
    assert shown.startswith("digraph")
    nodes, edges = shown.count("[label="), shown.count(" -> ")
    assert nodes == edges + 1, "a tree has one edge fewer than nodes"


def test_it_works_on_files(kimi: list[Manifest], tmp_path: Path) -> None:
    file = tmp_path / "everything.yaml"
    file.write_text(yaml.safe_dump_all(kimi))
    assert cells(said("tree", "kimi-k2", "-f", str(file)))[0][0] == "ModelDeployment/kimi-k2"


def test_watching_writes_what_has_changed_until_interrupted(
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


def wait_for(output: Path, words: str) -> None:
    deadline = time.monotonic() + 60
    while words not in output.read_text():
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.1)
