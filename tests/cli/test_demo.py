"""`make demo`: the real server as a process, from the decision to the service."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shown() -> str:
    done = subprocess.run(
        (sys.executable, "-m", "tools.demo"), capture_output=True, check=False, cwd=ROOT, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_first_where_it_goes_then_why_not_elsewhere(shown: str) -> None:
    lines = [line for line in shown.splitlines() if line]
    assert lines[0] == "ModelDeployment assistants/kimi-k2: Placed"
    assert lines[2].startswith("Placed on h200-east (profile h200-two-nodes, pool h200, 1 replica of 2 nodes x 8 GPUs)")
    table = lines[3 : lines.index("Every manifest that came of it")]
    assert table[0].split() == ["ENVIRONMENT", "POOL", "REPLICA", "WANTED", "FOUND", "VERDICT"]
    verdicts = {line.split()[0]: line.split()[-1] for line in table[1:]}
    assert verdicts.pop("h200-east") == "placed"
    assert len(verdicts) == 5
    assert set(verdicts.values()) == {"NoPoolSatisfiesRequirements"}


def test_then_every_manifest_down_to_the_service(shown: str) -> None:
    kinds = ["ModelPlacement", "Namespace", "PersistentVolumeClaim", "Job", "LLMInferenceService"]
    for kind in kinds:
        assert f"\nkind: {kind}\n" in shown, kind
    assert "\n# h200-east: LLMInferenceService assistants/kimi-k2-" in shown


def test_no_value_of_a_secret_is_shown() -> None:
    done = subprocess.run(
        (sys.executable, "-m", "tools.demo", "examples/gemma-one-gpu"),
        capture_output=True,
        check=True,
        cwd=ROOT,
        text=True,
        timeout=120,
    )
    assert "kind: Secret" in done.stdout
    assert "\n  data:" not in done.stdout
    assert "\ndata:" not in done.stdout
