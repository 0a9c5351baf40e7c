"""`make demo`: the real server as a process, from the decision to the service, on one screen."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
LINES, COLUMNS = 50, 123


def demo(folder: Path, *arguments: str) -> str:
    command = (sys.executable, "-m", "tools.demo", "--picture", str(folder / "new" / "demo.svg"), *arguments)
    done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(folder: Path) -> str:
    return demo(folder)


def test_demo_output_fits_a_screen(shown: str) -> None:
    assert len(shown.splitlines()) <= LINES
    assert max(map(len, shown.splitlines())) <= COLUMNS


def test_demo_starts_with_the_decision_and_the_refusals(shown: str) -> None:
    lines = [line for line in shown.splitlines() if line]
    assert lines[0] == "ModelDeployment assistants/kimi-k2: Placed"
    assert lines[2].startswith("Placed on h200-east (profile h200-two-nodes, pool h200, 1 replica of 2 nodes x 8 GPUs)")
    table = lines[3 : next(i for i, line in enumerate(lines) if line.startswith("As a picture: "))]
    assert table[0].split() == ["ENVIRONMENT", "POOL", "REPLICA", "WANTED", "FOUND", "VERDICT"]
    verdicts = {line.split()[0]: line.split()[-1] for line in table[1:]}
    assert verdicts.pop("h200-east") == "placed"
    assert len(verdicts) == 5
    assert set(verdicts.values()) == {"NoPoolSatisfiesRequirements"}


def test_demo_draws_the_picture(shown: str, folder: Path) -> None:
    (line,) = [line for line in shown.splitlines() if line.startswith("As a picture: ")]
    drawn = ROOT / line.partition(": ")[2]
    assert drawn.resolve() == folder / "new" / "demo.svg"
    assert ET.parse(drawn).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_demo_lists_one_service_and_every_name(shown: str) -> None:
    assert "\nh200-east: LLMInferenceService assistants/kimi-k2-4e23e0cb-3fafcaa9 (abridged)\n" in shown
    assert "worker: vllm/vllm-openai:v0.15.0" in shown
    names = " ".join(shown.partition(" manifests came of it")[2].split())
    for kind in ("Namespace", "PersistentVolumeClaim", "Job", "LLMInferenceService"):
        assert f" h200-east: {kind} " in names
    for kind in ("ModelPlacement", "Object", "ClusterProviderConfig"):
        assert f"control plane: {kind} " in names


def test_demo_ends_with_the_command_for_whole_manifests(shown: str, folder: Path) -> None:
    command = shown.splitlines()[-1].partition(": ")[2].split()
    assert command[:3] == [".venv/bin/python", "-m", "tools.demo"]
    whole = demo(folder, *command[3:])
    places = [line.split() for line in whole.splitlines() if line.startswith("# ")]
    assert len(places) == int(shown.partition(" manifests came of it")[0].rsplit("\n", 1)[-1])
    names = set(shown.replace(",", " ").split())
    assert {place[-1].rpartition("/")[2] for place in places} <= names
    assert "storage-initializer" in whole
    assert "storage-initializer" not in shown


def test_demo_shows_no_secret_value(folder: Path) -> None:
    whole = demo(folder, "examples/gemma-one-gpu", "--full")
    assert "kind: Secret" in whole
    assert "\n  data:" not in whole
    assert "\ndata:" not in whole
