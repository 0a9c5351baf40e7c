"""Priorities by name: the command line resolves them as the controller does, from the platform settings that it has."""

import json
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, mapping
from tests.cli.conftest import example, find_manifest
from tests.cli.process import output_of, run, write
from tests.cli.test_silent_mistakes import _compose

NAMES: Manifest = {"priorities": {"critical": 100, "batch": -10}}
REFUSED = '"critcal" is not a name of limits.priorities in the platform settings; '
NEAREST = "must be one of batch, critical (did you mean critical?)"
UNKNOWN = (
    "spec.priorityName: what critcal means is not known, because the Composition of ModelDeployments with "
    "limits.priorities is not among the files; give it with -f"
)


def _write(folder: Path, name: str, **limits: object) -> str:
    """Writes the example with the name of a priority, and with the platform settings if there are some."""
    manifests = example("gemma-one-gpu")
    mapping(find_manifest(manifests, "ModelDeployment"), "spec")["priorityName"] = name
    settings = [_compose("ModelDeployment", limits={**limits})] if limits else []  # type: ignore[dict-item]  # JSON
    return write(folder, *manifests, *settings)


def test_plans_with_the_priority_of_the_settings(tmp_path: Path) -> None:
    (plan,) = json.loads(output_of("plan", "-f", _write(tmp_path, "batch", **NAMES), "-o", "json"))
    assert plan["reason"] == "Placed"
    path = _write(tmp_path, "critical", **NAMES, maxPriority=10)
    (plan,) = json.loads(output_of("plan", "-f", path, "-o", "json"))
    assert plan["message"].endswith(
        "Note: spec.priorityName: critical (100) counts as 10, as the platform allows no more (limits.maxPriority)"
    )


@pytest.mark.parametrize("command", ["validate", "plan", "why"])
def test_refuses_a_name_that_the_settings_do_not_have(command: str, tmp_path: Path) -> None:
    done = run(command, "-f", _write(tmp_path, "critcal", **NAMES))
    assert done.returncode == 1
    where = "ModelDeployment chat/gemma: spec.priorityName"
    assert f"{where}: {REFUSED}{NEAREST}" in done.stdout + done.stderr


def test_says_that_names_need_the_settings(tmp_path: Path) -> None:
    """Without the platform settings, the name cannot be checked, and nothing can be planned."""
    path = _write(tmp_path, "critcal")
    done = run("validate", path)
    assert (done.returncode, done.stderr) == (0, "")
    done = run("plan", "-f", path, "-o", "json")
    (plan,) = json.loads(done.stdout)
    assert (done.returncode, plan["reason"], plan["remarks"]) == (1, "InvalidDeployment", [UNKNOWN])
    assert plan["message"] == f"spec.priorityName: {REFUSED}there are no names, so set priority"
    assert UNKNOWN.replace("spec.", "note: spec.") in " ".join(run("plan", "-f", path).stdout.split())
    assert UNKNOWN in " ".join(run("why", "-f", path).stdout.split())


def test_explains_the_fields() -> None:
    assert "FIELD: priorityName <string>" in output_of("explain", "modeldeployment.spec.priorityName")
    assert "FIELD: priorities <map[string]integer>" in output_of("explain", "settings.limits.priorities")
