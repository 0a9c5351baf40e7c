"""Every field of every kind, read from the XRDs: a manifest that sets all of them, and functions to change it.

New fields are included without a change here, unless they have a pattern that no sample matches: add one then.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.api.model_cache import parse_model_cache
from function.api.model_deployment import parse_deployment, parse_placement
from function.api.model_service import parse_model_service
from function.api.settings import parse_settings
from function.domain.model import Problem
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, get, listing, mapping
from tools.documents import document

ROOT = Path(__file__).parent.parent.parent
SAMPLES = ("a", "a/b", "s3://bucket/dir", "10m", "0.28.0", "/a", "http://a", "2.50", "EUR", "0 8 * * 1-5", "03:00")
META = ("apiVersion", "kind", "metadata")
Step = str | int


@dataclass(frozen=True)
class Field:
    """A place in a manifest, its schema, and whether the schema above requires it."""

    steps: tuple[Step, ...]
    schema: Manifest
    required: bool

    @property
    def path(self) -> str:
        """The place as users write it."""
        return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in self.steps).removeprefix(".")


@dataclass(frozen=True)
class Kind:
    """A kind with its schema and its parser."""

    name: str
    definition: str
    root: str
    problems: Callable[[Manifest], tuple[Problem, ...]]

    @property
    def schema(self) -> Manifest:
        """The schema of what stands at the root."""
        whole = _load(self.definition)
        if self.root == "spec":
            return mapping(whole, "properties.spec")
        properties = mapping(whole, "properties")
        return whole | {"properties": {k: v for k, v in properties.items() if k not in META}}

    def manifest(self, value: JSON) -> Manifest:
        """Return an object of this kind with a value at its root."""
        return {"kind": self.name, "metadata": {"name": "x", "namespace": "a"}, self.root: value}


@cache
def _load(definition: str) -> Manifest:
    versions = listing(document(ROOT / definition), "spec.versions")
    return mapping(versions[0], "schema.openAPIV3Schema")


def _settings(manifest: Manifest) -> tuple[Problem, ...]:
    return parse_settings(mapping(manifest, "input"), {}).problems


KINDS = (
    Kind("ClusterModel", "apis/clustermodels/definition.yaml", "spec", lambda manifest: parse_model(manifest).problems),
    Kind("Model", "apis/models/definition.yaml", "spec", lambda manifest: parse_model(manifest).problems),
    Kind("InferenceEnvironment", "apis/inferenceenvironments/definition.yaml", "spec",
         lambda manifest: parse_environment(manifest, BUILT_IN).problems),
    Kind("ModelDeployment", "apis/modeldeployments/definition.yaml", "spec",
         lambda manifest: parse_deployment(manifest).problems),
    Kind("ModelPlacement", "apis/modelplacements/definition.yaml", "spec",
         lambda manifest: parse_placement(manifest).problems),
    Kind("ModelCache", "apis/modelcaches/definition.yaml", "spec",
         lambda manifest: parse_model_cache(manifest).problems),
    Kind("ModelService", "apis/modelservices/definition.yaml", "spec",
         lambda manifest: parse_model_service(manifest).problems),
    Kind("Defaults", "package/input/defaults.yaml", "input", _settings),
)  # fmt: skip


def sample(schema: Manifest) -> JSON:
    """Return a value that sets everything a schema knows."""
    if is_quantity(schema):
        return "1Gi"
    if "enum" in schema:
        return values(schema)[0]
    kind = schema["type"]
    if kind == "string":
        return _text(schema)
    if kind == "array":
        return [sample(mapping(schema, "items"))]
    if "additionalProperties" in schema:
        return {"a": sample(mapping(schema, "additionalProperties"))}
    if kind == "object":
        return {key: sample(sub) for key, sub in _properties(schema)}
    return True if kind == "boolean" else schema.get("minimum", 1)


def walk(schema: Manifest, steps: tuple[Step, ...], *, required: bool) -> Iterator[Field]:
    """Yield a field and all fields below it."""
    yield Field(steps, schema, required)
    if "items" in schema:
        yield from walk(mapping(schema, "items"), (*steps, 0), required=False)
    if "additionalProperties" in schema:
        yield from walk(mapping(schema, "additionalProperties"), (*steps, "a"), required=False)
    needed = schema.get("required") or []
    assert isinstance(needed, list)
    for key, sub in _properties(schema):
        yield from walk(sub, (*steps, key), required=key in needed)


def is_quantity(schema: Manifest) -> bool:
    """Tell whether a field is a Kubernetes quantity."""
    return schema.get("x-kubernetes-int-or-string") is True


def values(schema: Manifest) -> tuple[str, ...]:
    """Return the fixed values of a field, as the XRD's enum or CEL rule lists them; empty if it is free."""
    enum = schema.get("enum")
    if isinstance(enum, list):
        return tuple(str(value) for value in enum)
    rules = [str(get(rule, "message")) for rule in listing(schema, "x-kubernetes-validations")]
    listed = next((rule for rule in rules if rule.startswith("must be one of ")), "")
    return tuple(v for v in listed.removeprefix("must be one of ").split(", ") if v and " " not in v)


def put(manifest: Manifest, steps: tuple[Step, ...], value: JSON) -> Manifest:
    """Return a copy of a manifest with another value at a place."""
    changed = copy.deepcopy(manifest)
    holder, last = _holder(changed, steps[:-1]), steps[-1]
    if isinstance(holder, dict):
        holder[str(last)] = value
    elif isinstance(holder, list) and isinstance(last, int):
        holder[last] = value
    return changed


def without(manifest: Manifest, steps: tuple[Step, ...]) -> Manifest:
    """Return a copy of a manifest without the field at a place."""
    changed = copy.deepcopy(manifest)
    holder = _holder(changed, steps[:-1])
    assert isinstance(holder, dict)
    del holder[str(steps[-1])]
    return changed


def as_json(value: JSON) -> str:
    """Return a value as a manifest in JSON would show it."""
    return json.dumps(value, ensure_ascii=False)


def _holder(manifest: JSON, steps: tuple[Step, ...]) -> JSON:
    for step in steps:
        manifest = manifest[step]  # type: ignore[index]  # steps lead through what sample() made
    return manifest


def _properties(schema: Manifest) -> Iterator[tuple[str, Manifest]]:
    properties = mapping(schema, "properties")
    for key in properties:
        yield key, mapping({"of": properties[key]}, "of")


def _text(schema: Manifest) -> str:
    pattern, shortest = schema.get("pattern", ""), schema.get("minLength", 0)
    assert isinstance(pattern, str)
    assert isinstance(shortest, int)
    return next(s for s in SAMPLES if re.search(pattern, s) and len(s) >= shortest)
