"""The JSON schema for editors is current, and refuses what `validate` refuses as far as a JSON schema can."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from function.api.problems import SPECS, find_unknown_fields
from function.kube.manifests import JSON, Manifest, text
from tests.cli.process import ROOT, output_of, run
from tools import manifest_schema
from tools.documents import documents

SCHEMA = json.loads(manifest_schema.TARGET.read_text())
VALIDATOR = Draft7Validator(SCHEMA)
MANIFESTS = [
    (f"{path.parent.name}/{path.name}-{manifest['kind']}", manifest)
    for folder in ("examples", "tests/acceptance")
    for path in sorted((ROOT / folder).rglob("*.yaml"))
    for manifest in documents(path)
]
OURS = [(name, manifest) for name, manifest in MANIFESTS if text(manifest, "apiVersion").startswith("modelplane.ai/")]
MISSPELT = "Misspelt"


def _deployment(**spec: JSON) -> Manifest:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "chat", "namespace": "team"},
        "spec": {"modelRef": {"name": "m"}, **spec},
    }


def _find_errors(manifest: Manifest) -> str:
    """Returns the messages about a manifest, each on a line; empty if it is valid."""
    return "\n".join(error.message for error in VALIDATOR.iter_errors(manifest))


def test_generated_schema_is_current(tmp_path: Path) -> None:
    manifest_schema.write(tmp_path)
    assert manifest_schema.TARGET.read_text() == (tmp_path / "manifests.json").read_text(), "run make generate"


def test_is_a_json_schema_of_every_kind() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert sorted(SCHEMA["definitions"]) == sorted([*SPECS, manifest_schema.SETTINGS])


@pytest.mark.parametrize("manifest", [pytest.param(manifest, id=name) for name, manifest in MANIFESTS])
def test_every_example_validates(manifest: Manifest) -> None:
    assert _find_errors(manifest) == ""


def _misspell(value: JSON) -> Iterator[JSON]:
    """Yields copies of a value, each with another field misspelt."""
    if isinstance(value, dict):
        for key in value:
            yield {f"{name}{MISSPELT}" if name == key else name: item for name, item in value.items()}
            yield from ({**value, key: item} for item in _misspell(value[key]))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in _misspell(item))


@pytest.mark.parametrize("manifest", [pytest.param(manifest, id=name) for name, manifest in OURS])
def test_refuses_the_misspelt_fields_that_validate_refuses(manifest: Manifest) -> None:
    kind = str(manifest["kind"])
    refused = 0
    for spec in _misspell(manifest["spec"]):
        problems = [*find_unknown_fields(SPECS[kind], spec, "spec")]
        assert bool(_find_errors({**manifest, "spec": spec})) is bool(problems), spec
        refused += bool(problems)
    assert refused, "labels and the like are open, other objects are not"


def test_names_the_misspelt_field() -> None:
    assert "'scalng' was unexpected" in _find_errors(_deployment(scalng={}))
    assert "'specs' was unexpected" in _find_errors({**_deployment(), "specs": {}})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"environments": "2"}, "'2' is not of type 'integer'"),
        ({"environments": 0}, "0 is less than the minimum of 1"),
        ({"placement": {"prefer": "cheap"}}, "'cheap' is not one of"),
        ({"modelCache": {"size": "80GB"}}, "'80GB' does not match"),
        ({"rollout": {"order": ["a", "a"]}}, "has non-unique elements"),
        ({"modelRef": {}}, "'name' is a required property"),
    ],
)
def test_refuses_values_that_the_xrd_refuses(spec: Manifest, message: str) -> None:
    assert message in _find_errors(_deployment(**spec))


def test_accepts_what_kubernetes_and_crossplane_add() -> None:
    manifest = _deployment(crossplane={"compositionRef": {"name": "ours"}}, modelCache={"size": 85899345920})
    metadata: Manifest = {"name": "chat", "uid": "0", "labels": {"a": "b"}}
    status: Manifest = {"conditions": [{"type": "Ready", "observedGeneration": 2}], "others": 1}
    assert _find_errors({**manifest, "metadata": metadata, "status": status}) == ""


def test_knows_the_kinds_of_its_group_alone() -> None:
    assert "'ModelDeploymet' is not one of" in _find_errors({**_deployment(), "kind": "ModelDeploymet"})
    assert "'modelplane.ai/v1' is not one of" in _find_errors({**_deployment(), "apiVersion": "modelplane.ai/v1"})
    other = _deployment(anything=1)
    assert _find_errors({**other, "apiVersion": "example.com/v1"}) == ""
    assert _find_errors({**other, "apiVersion": "modelplane.ai.example.com/v1"}) == ""


def test_schema_comes_with_the_command_line() -> None:
    assert output_of("schema") == manifest_schema.TARGET.read_text()
    assert run("schema", "modeldeployment").returncode == 2
