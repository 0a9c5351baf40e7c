"""`validate` reports what the API server refuses and the function's own parser never sees, such as duplicates."""

import json
from pathlib import Path

import pytest

from function.cli.store import Store
from function.cli.validation import Item, check_items
from function.kube.manifests import JSON, Manifest
from tests.cli.process import run, write
from tests.cli.test_validate import ENGINE, EXISTING, MODEL, PROFILE, Case, manifest
from tests.cli.test_validate import POOL as DECLARED

POOL: Manifest = {**DECLARED, "maxNodeCount": 1}
WITH_POOL: Manifest = {**EXISTING, "nodePools": [POOL]}
TWICE: list[JSON] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
TAINT: Manifest = {"key": "k", "effect": "NoSchedule"}
LONG_NAME, LONG_NAMESPACE = f'"{"n" * 59}…', f'"{"t" * 59}…'
NAME_FORM = "is not allowed; must be lower-case letters, digits, - and ."
NAMESPACE_FORM = "is not allowed; must be lower-case letters, digits and -, 63 at most"
LABEL_VALUE = "the value of a label, at most 63 letters, digits, dots, dashes and underscores"
NESTED: Manifest = {
    "cluster": {
        "source": "Existing",
        "existing": {"secretRef": {"name": "s"}, "nodePools": [POOL | {"labels": {"e": "y z"}}]},
    }
}


def described(**metadata: JSON) -> Manifest:
    return {**manifest("ModelDeployment", "", {"modelRef": {"name": "m"}}), "metadata": metadata}


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
            manifest("InferenceEnvironment", "east", {**WITH_POOL, "taints": [TAINT, {**TAINT, "value": "x"}]}),
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
        id="names",
        reason="Crossplane's CRDs limit names of composites to 63 characters, and namespaces are DNS labels",
        given=(
            manifest("ModelDeployment", "n" * 64, {"modelRef": {"name": "m"}}, "t" * 64),
            manifest("ModelDeployment", "n" * 63, {"modelRef": {"name": "m"}}, "t" * 63),
            manifest("ModelDeployment", "a", {"modelRef": {"name": "m"}}, "Team_X"),
            described(name=123, namespace=4),
            described(),
            described(),
            manifest("EnvironmentConfig", "n" * 64, {}, version="apiextensions.crossplane.io/v1beta1"),
            manifest("EnvironmentConfig", "n" * 254, {}, version="apiextensions.crossplane.io/v1beta1"),
        ),
        want=(
            f"error: metadata.name: {LONG_NAME} {NAME_FORM}, 63 at most",
            f"error: metadata.namespace: {LONG_NAMESPACE} {NAMESPACE_FORM}",
            'error: metadata.namespace: "Team_X" is not allowed; must be lower-case letters, digits and -, 63 at most',
            "error: metadata.name: 123 is not allowed; must be text, in quotes",
            "error: metadata.namespace: 4 is not allowed; must be text, in quotes",
            "error: metadata.name: is required",
            "error: metadata.name: is required",
            f"error: metadata.name: {LONG_NAME} {NAME_FORM}, 253 at most",
        ),
    ),
    Case(
        id="labels",
        reason="the API server refuses them, on objects and on nodes",
        given=(
            described(name="a", labels={"tier": 1, "a b": "x", "c": "y z", "example.org/good": "", "0": "v"}),
            described(name="b", labels=["tier"]),
            manifest("InferenceEnvironment", "east", {**EXISTING, "nodePools": [POOL | {"labels": {"c d": "x"}}]}),
            manifest("InferenceEnvironment", "west", NESTED),
        ),
        want=(
            'error: metadata.labels[a b]: "a b" is not allowed; must be the key of a label, [prefix/]name',
            f'error: metadata.labels[c]: "y z" is not allowed; must be {LABEL_VALUE}',
            "error: metadata.labels[tier]: 1 is not allowed; must be text, in quotes",
            'error: metadata.labels: ["tier"] is not allowed; must be a map',
            'error: spec.nodePools[0].labels[c d]: "c d" is not allowed; must be the key of a label, [prefix/]name',
            f'error: spec.cluster.existing.nodePools[0].labels[e]: "y z" is not allowed; must be {LABEL_VALUE}',
        ),
    ),
    Case(
        id="same-key-with-another-effect",
        reason="two keys together identify a taint; entries without one are refused for that alone",
        given=(
            manifest(
                "InferenceEnvironment", "east", {**WITH_POOL, "taints": [TAINT, {**TAINT, "effect": "NoExecute"}]}
            ),
            manifest("InferenceEnvironment", "west", {**WITH_POOL, "taints": [{"key": "k"}, {"key": "k"}]}),
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


@pytest.mark.parametrize("name", ["n" * 64, "Team_X", "a..b"])
def test_init_refuses_names_that_no_composite_can_have(name: str) -> None:
    result = run("init", "environment", name)
    want = f"error: NAME: {json.dumps(name)[:60]}"
    assert (result.returncode, result.stderr.startswith(want), "63 at most" in result.stderr) == (2, True, True)


def test_names_the_line_of_the_first_of_two_objects(tmp_path: Path) -> None:
    both = write(tmp_path, *[manifest("ModelDeployment", "a", {"modelRef": {"name": "m"}}, "team")] * 2)
    twice = f"metadata.name: ModelDeployment team/a is given twice, in {both}:4 too"
    assert run("validate", "-q", both).stdout == f"error: {both}:13: ModelDeployment team/a: {twice}\n"


@pytest.mark.parametrize(("others", "found"), [((), 0), ((manifest("InferenceEnvironment", "east", EXISTING),), 1)])
def test_warns_of_a_missing_environment_in_the_order_of_a_rollout(others: tuple[Manifest, ...], found: int) -> None:
    """Files that hold no environment at all are only a part of the objects."""
    deployment = manifest("ModelDeployment", "run", {"modelRef": {"name": "m"}, "rollout": {"order": ["eats"]}}, "team")
    faults = check_items([Item(each) for each in (deployment, *others)], Store(), "")
    want = "spec.rollout.order[0]: there is no InferenceEnvironment eats; did you mean east?"
    assert [(f.level, str(f.problem)) for f in faults if "order" in f.problem.path] == [("warning", want)] * found
