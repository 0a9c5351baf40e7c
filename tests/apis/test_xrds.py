"""Every XRD is bounded, described, and consistent with itself and with the tables of the code."""

import copy
import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from function.domain.model import INTERCONNECTS, LADDER, OR_BETTER, PRECISIONS
from function.kube.manifests import JSON, Manifest, listing, mapping, text
from function.reasons import ConditionType
from tools import model_definition
from tools.documents import document

ROOT = Path(__file__).parents[2]
DEFINITIONS = sorted((ROOT / "apis").glob("*/definition.yaml"))
# None is built into Kubernetes (`cm`) or widespread, as those of Cluster API (`md`, `mp`, `ms`) or OpenShift (`mc`).
SHORT_NAMES = {
    "ClusterModel": ("Cluster", ["cmdl"]),
    "Model": ("Namespaced", ["mdl"]),
    "InferenceEnvironment": ("Cluster", ["ie"]),
    "ModelDeployment": ("Namespaced", ["mdldep"]),
    "ModelPlacement": ("Namespaced", ["mdlpl"]),
    "ModelCache": ("Namespaced", ["mdlcache"]),
    "ModelService": ("Namespaced", ["mdlsvc"]),
}
QUANTITY = "x-kubernetes-int-or-string"


@functools.cache
def _load(path: Path) -> Manifest:
    loaded: Manifest = document(path)
    return loaded


def _version(path: Path) -> Manifest:
    found = listing(_load(path), "spec.versions")[0]
    assert isinstance(found, dict)
    return found


def _schema(path: Path, part: str = "spec") -> Manifest:
    return mapping(_version(path), f"schema.openAPIV3Schema.properties.{part}")


def _xrd(plural: str) -> Path:
    return ROOT / "apis" / plural / "definition.yaml"


def _inputs() -> Manifest:
    return mapping(_version(ROOT / "package" / "input" / "defaults.yaml"), "schema.openAPIV3Schema")


def _at(schema: Manifest, path: str) -> Manifest:
    """Return the schema of a field; `[]` stands for the items of a list."""
    for step in path.replace("[]", ".[]").split("."):
        schema = mapping(schema, "items") if step == "[]" else mapping(schema, f"properties.{step}")
        assert schema, f"{path}: no {step}"
    return schema


def _walk(schema: Manifest, path: str) -> Iterator[tuple[str, Manifest]]:
    yield path, schema
    for name, child in mapping(schema, "properties").items():
        assert isinstance(child, dict)
        yield from _walk(child, f"{path}.{name}")
    for key, step in (("items", "[]"), ("additionalProperties", "{}")):
        child = schema.get(key)
        if isinstance(child, dict):
            yield from _walk(child, path + step)


def _without(schema: JSON, *keys: str) -> JSON:
    """Return a schema without keys at any depth; a property of such a name stays."""
    if isinstance(schema, list):
        return [_without(item, *keys) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: Manifest = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            kept[key] = {name: _without(child, *keys) for name, child in value.items()}
        elif key not in keys:
            kept[key] = _without(value, *keys)
    return kept


def _same(left: Manifest, right: Manifest) -> bool:
    return _without(left, "description") == _without(right, "description")


def _bounded(schema: Manifest) -> bool:
    match schema.get("type"):
        case "array":
            return "maxItems" in schema
        case "string":
            return "enum" in schema or "maxLength" in schema
        case "integer" | "number":
            return "format" in schema or {"minimum", "maximum"} <= schema.keys()
        case "object":
            return "additionalProperties" not in schema or "maxProperties" in schema
        case "boolean":
            return True
        case _:
            return {QUANTITY, "pattern", "minimum", "maxLength"} <= schema.keys()


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.parent.name)
def test_every_field_has_a_description(definition: Path) -> None:
    silent = [
        path
        for part in ("spec", "status")
        for path, schema in _walk(_schema(definition, part), part)
        if not text(schema, "description") and ("properties" in schema or not path.endswith(("[]", "{}")))
    ]
    assert silent == [], "kubectl explain would show nothing"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.parent.name)
def test_descriptions_name_the_default(definition: Path) -> None:
    silent = [
        path
        for path, schema in _walk(_schema(definition), "spec")
        if isinstance(schema.get("default"), str | int | bool)
        and f"Defaults to {json.dumps(schema['default']).strip(chr(34))}." not in text(schema, "description")
    ]
    assert silent == []


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.parent.name)
def test_every_field_is_bounded(definition: Path) -> None:
    loose = [path for path, schema in _walk(_schema(definition), "spec") if not _bounded(schema)]
    assert loose == [], "CEL's cost is estimated from bounds"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.parent.name)
def test_kinds_have_the_documented_scope_and_short_name(definition: Path) -> None:
    spec = mapping(_load(definition), "spec")
    names = mapping(spec, "names")
    assert (spec["scope"], names["shortNames"]) == SHORT_NAMES[text(names, "kind")]
    assert names["categories"] == ["crossplane", "modelplane"]
    assert text(_load(definition), "metadata.name") == f"{definition.parent.name}.modelplane.ai"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.parent.name)
def test_uses_no_keyword_that_crossplane_drops(definition: Path) -> None:
    assert not _schema(definition).keys() & {"anyOf", "oneOf", "allOf", "not", "default", "additionalProperties"}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.parent.name)
def test_columns_show_existing_fields_and_conditions(definition: Path) -> None:
    columns = listing(_version(definition), "additionalPrinterColumns")
    assert 3 <= len(columns) <= 5
    for column in columns:
        path = text(column, "jsonPath")
        condition = re.fullmatch(r'\.status\.conditions\[\?\(@\.type=="(\w+)"\)\]\.status', path)
        if condition:
            assert condition[1] in set(ConditionType)
        else:
            part, field = path.removeprefix(".").split(".", 1)
            assert text(_at(_schema(definition, part), field), "type") == text(column, "type")


def test_scale_subresource_names_existing_fields() -> None:
    definition = _xrd("modeldeployments")
    paths = mapping(_version(definition), "subresources.scale")
    types = {
        name: text(_at(_schema(definition, part), field), "type")
        for name, path in paths.items()
        for part, field in [str(path).removeprefix(".").split(".", 1)]
    }
    assert types == {"specReplicasPath": "integer", "statusReplicasPath": "integer", "labelSelectorPath": "string"}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.parent.name)
def test_every_kind_has_a_composition(definition: Path) -> None:
    composition = _load(definition.parent / "composition.yaml")
    assert text(composition, "spec.compositeTypeRef.kind") == text(_load(definition), "spec.names.kind")
    assert text(_load(definition), "spec.defaultCompositionRef.name") == text(composition, "metadata.name")
    steps = listing(composition, "spec.pipeline")
    assert [text(step, "functionRef.name") for step in steps] == ["function-modelplane"]


def test_generated_definition_of_model_is_current() -> None:
    assert model_definition.TARGET.read_text() == model_definition.render(), "run make generate"


def test_model_differs_from_cluster_model_only_in_secrets() -> None:
    cluster, own = copy.deepcopy(_schema(_xrd("clustermodels"))), _schema(_xrd("models"))
    for secret in ("huggingFace.secretRef", "uri.secretRef", "serving[].engine.imagePullSecrets[]"):
        assert "namespace" not in mapping(_at(own, secret), "properties")
        del mapping(_at(cluster, secret), "properties")["namespace"]
    assert _same(cluster, own)
    assert _schema(_xrd("clustermodels"), "status") == _schema(_xrd("models"), "status")


@dataclass(frozen=True)
class Twice:
    id: str
    reason: str
    left: Manifest
    right: Manifest


TWICE = [
    Twice(
        "model-cache",
        "a placement records the deployment's choice as it is",
        _at(_schema(_xrd("modeldeployments")), "modelCache"),
        _at(_schema(_xrd("modelplacements")), "modelCache"),
    ),
    Twice(
        "parallelism",
        "a placement records a profile's shape",
        _at(_schema(_xrd("clustermodels")), "serving[].replicaTopology.parallelism"),
        _at(_schema(_xrd("modelplacements")), "topology.parallelism"),
    ),
    Twice(
        "download",
        "the input says for all environments what one may say for itself",
        _at(_schema(_xrd("inferenceenvironments")), "storage.download"),
        _at(_inputs(), "download"),
    ),
    Twice(
        "kserve",
        "the input says for all environments what one may say for itself",
        _at(_schema(_xrd("inferenceenvironments")), "kserve"),
        _at(_inputs(), "kserve"),
    ),
    Twice(
        "pools-of-existing",
        "pools may be listed with the cluster",
        _at(_schema(_xrd("inferenceenvironments")), "nodePools"),
        _at(_schema(_xrd("inferenceenvironments")), "cluster.existing.nodePools"),
    ),
    Twice(
        "pools-of-gke",
        "pools may be listed with the cluster",
        _at(_schema(_xrd("inferenceenvironments")), "nodePools"),
        _at(_schema(_xrd("inferenceenvironments")), "cluster.gke.nodePools"),
    ),
    Twice(
        "selectors",
        "one kind of selector everywhere",
        _at(_schema(_xrd("clustermodels")), "environmentSelector"),
        _at(_schema(_xrd("modelcaches")), "environmentSelector"),
    ),
]


@pytest.mark.parametrize("case", TWICE, ids=lambda case: case.id)
def test_repeated_blocks_are_equal(case: Twice) -> None:
    assert _same(case.left, case.right), case.reason


def test_shapes_have_equal_rules_on_models_and_placements() -> None:
    declared = _at(_schema(_xrd("clustermodels")), "serving[].replicaTopology")
    recorded = _at(_schema(_xrd("modelplacements")), "topology")
    assert declared["x-kubernetes-validations"] == recorded["x-kubernetes-validations"]


def test_environment_of_a_placement_is_immutable() -> None:
    reference = _at(_schema(_xrd("modelplacements")), "inferenceEnvironmentRef")
    assert _rule(reference) == "self == oldSelf"


def test_settings_have_no_defaults_in_the_schema() -> None:
    environment = _schema(_xrd("inferenceenvironments"))
    blocks = [_inputs(), *(_at(environment, path) for path in ("storage.download", "kserve"))]
    blocks += [_at(environment, path) for path in ("storage.storageClassName", "cluster.existing.secretRef.namespace")]
    found = [path for block in blocks for path, schema in _walk(block, "") if "default" in schema]
    assert found == [], "a default would beat the platform's own"


def test_rules_list_the_names_that_the_code_knows() -> None:
    requires = _at(_schema(_xrd("clustermodels")), "serving[].replicaTopology.requires")
    offers = _at(_schema(_xrd("inferenceenvironments")), "nodePools[].capabilities")
    rungs = "|".join(LADDER)
    for name in ("multiNodeBandwidth", "interNodeBandwidth"):
        assert _rule(_at(requires, name)) == f"self.lowerAscii().matches('^({rungs})({OR_BETTER})?$')"
        assert _rule(_at(offers, name)) == f"self.lowerAscii().matches('^({rungs})$')"
    for block in (requires, offers):
        assert _rule(_at(block, "interconnect")) == f"self.lowerAscii() in {list(INTERCONNECTS)}"
        assert _rule(_at(block, "precisionSupport[]")) == f"self.lowerAscii() in {list(PRECISIONS)}"


def _rule(schema: Manifest) -> str:
    return text(listing(schema, "x-kubernetes-validations")[0], "rule")
