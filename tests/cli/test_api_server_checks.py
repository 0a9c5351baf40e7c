"""`validate` reports what the API server refuses and the function's own parser never sees, such as duplicates."""

from pathlib import Path

import pytest

from function.cli.checks import Item, check_items
from function.cli.store import Store
from function.kube.manifests import JSON, Manifest
from tests.cli.process import run, write
from tests.cli.test_validate import ENGINE, EXISTING, MODEL, PROFILE, Case, manifest

TWICE: list[JSON] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
TAINT: Manifest = {"key": "k", "effect": "NoSchedule"}
CASES = (
    Case(
        id="duplicates-in-a-set",
        reason="the API server refuses equal entries of lists of type set",
        given=(
            manifest("ModelDeployment", "run", {"modelRef": {"name": "m"}, "rollout": {"order": ["a", "b", "a"]}}, "t"),
            manifest(
                "ModelService",
                "chat",
                {"backends": [{"deployment": "run"}], "distribution": "Failover", "environments": ["e2", "e2", "e2"]},
                "t",
            ),
            manifest("ModelCache", "kept", {"modelRef": {"name": "m"}, "environments": ["e1", "e1"]}, "t"),
        ),
        want=(
            'error: spec.rollout.order[2]: "a" is not allowed; must be unique, and spec.rollout.order[0] is the same',
            'error: spec.environments[1]: "e2" is not allowed; must be unique, and spec.environments[0] is the same',
            'error: spec.environments[2]: "e2" is not allowed; must be unique, and spec.environments[0] is the same',
            'error: spec.environments[1]: "e1" is not allowed; must be unique, and spec.environments[0] is the same',
        ),
    ),
    Case(
        id="duplicates-in-a-map",
        reason="the API server refuses entries with equal keys, and what the parser reports is reported once",
        given=(
            manifest(
                "ClusterModel",
                "model",
                {**MODEL, "serving": [{**PROFILE, "engine": {**ENGINE, "env": TWICE}}, PROFILE]},
            ),
            manifest("InferenceEnvironment", "east", {**EXISTING, "taints": [TAINT, {**TAINT, "value": "x"}]}),
        ),
        want=(
            (
                'error: spec.serving[0].engine.env[1].name: "A" is not allowed; must be unique, and '
                "spec.serving[0].engine.env[0] has the same name"
            ),
            'error: spec.serving[1].name: "one" is not allowed; must be unique, and spec.serving[0] has the same name',
            (
                'error: spec.taints[1]: {"key": "k", "effect": "NoSchedule"} is not allowed; must be unique, and '
                "spec.taints[0] has the same key and effect"
            ),
        ),
    ),
    Case(
        id="same-key-with-another-effect",
        reason="two keys together identify a taint; entries without one are refused for that alone",
        given=(
            manifest("InferenceEnvironment", "east", {**EXISTING, "taints": [TAINT, {**TAINT, "effect": "NoExecute"}]}),
            manifest("InferenceEnvironment", "west", {**EXISTING, "taints": [{"key": "k"}, {"key": "k"}]}),
        ),
        want=("error: spec.taints[0].effect: is required", "error: spec.taints[1].effect: is required"),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reports_what_the_api_server_refuses(case: Case) -> None:
    found = check_items([Item(m, f"{number}.yaml") for number, m in enumerate(case.given)], Store(), "default")
    assert tuple(f"{fault.level}: {fault.problem}" for fault in found) == case.want, case.reason


def test_traffic_refuses_files_with_duplicates(tmp_path: Path) -> None:
    """The order of a Failover would be ignored."""
    spec: Manifest = {"backends": [{"deployment": "run"}], "distribution": "Failover", "environments": ["e2", "e2"]}
    result = run("traffic", "-f", write(tmp_path, manifest("ModelService", "chat", spec, "team")))
    assert (result.returncode, "spec.environments[0] is the same" in result.stderr) == (1, True)
