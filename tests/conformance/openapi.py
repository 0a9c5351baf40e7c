"""Kubernetes' own OpenAPI, of the release that the stack runs, read strictly.

A field that it does not know is a fault, and so is a value of another type or a field that is missing: what the API
server would drop in silence, or refuse. Pods of an LLMInferenceService are pods, too. KServe's CRD is checked by
`crossplane resource validate`, which is as strict, with types of another release for what is Kubernetes' own.
"""

import json
from collections.abc import Iterator
from functools import cache

from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from tools import programs

_POD = "io.k8s.api.core.v1.PodSpec"
_TYPES: dict[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "boolean": (bool,), "string": (str,)}
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


@cache
def release() -> str:
    """Return the release of Kubernetes whose OpenAPI it is."""
    return programs.module_dir("kubernetes", "k8s.io/kubernetes").name.partition("@")[2]


@cache
def _definitions() -> Manifest:
    module = programs.module_dir("kubernetes", "k8s.io/kubernetes")
    swagger: Manifest = json.loads((module / "api/openapi-spec/swagger.json").read_text())
    return mapping(swagger, "definitions")


@cache
def _kinds() -> dict[tuple[str, str], str]:
    """Return the definition of every kind, by apiVersion and kind."""
    found: dict[tuple[str, str], str] = {}
    for name, definition in _definitions().items():
        assert isinstance(definition, dict)
        for kind in listing(definition, "x-kubernetes-group-version-kind"):
            group, version = text(kind, "group"), text(kind, "version")
            found[f"{group}/{version}".lstrip("/"), text(kind, "kind")] = name
    return found


def faults(manifest: Manifest) -> list[str]:
    """Return every fault of a manifest; nothing of kinds that Kubernetes does not have, save of the pods in them."""
    who = f"{text(manifest, 'kind')}/{text(manifest, 'metadata.name')}"
    definition = _kinds().get((text(manifest, "apiVersion"), text(manifest, "kind")))
    found = list(_of(manifest, definition, "")) if definition else []
    if text(manifest, "kind") == "LLMInferenceService":
        for part in ("spec.template", "spec.worker"):
            if get(manifest, part) is not None:
                found += _of(mapping(manifest, part), _POD, part)
    return [f"{who}: {fault}" for fault in found]


def _of(value: JSON, definition: str, path: str) -> Iterator[str]:
    if definition == _QUANTITY:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            yield f"{path}: {value!r} is no quantity"
        return
    yield from _check(value, _definitions()[definition], path)


def _check(value: JSON, schema: JSON, path: str) -> Iterator[str]:
    assert isinstance(schema, dict)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield from _of(value, reference.rpartition("/")[2], path)
    elif schema.get("format") == "int-or-string":
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{path}: {value!r} is neither a number nor text"
    elif schema.get("type") == "array":
        yield from _array(value, schema, path)
    elif "properties" in schema or "additionalProperties" in schema:
        yield from _object(value, schema, path)
    elif schema.get("type") in _TYPES:
        wanted = _TYPES[str(schema["type"])]
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            yield f"{path}: {value!r} is no {schema['type']}"


def _array(value: JSON, schema: Manifest, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: {value!r} is no list"
        return
    for index, item in enumerate(value):
        yield from _check(item, schema["items"], f"{path}[{index}]")


def _object(value: JSON, schema: Manifest, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is no map"
        return
    known, rest = mapping(schema, "properties"), schema.get("additionalProperties")
    for key, item in value.items():
        inner = f"{path}.{key}".lstrip(".")
        if key in known:
            yield from _check(item, known[key], inner)
        elif rest is not None:
            yield from _check(item, rest, inner)
        else:
            yield f"{inner}: is not known"
    required = schema.get("required", [])
    assert isinstance(required, list)
    yield from (f"{path}.{key}: is missing".lstrip(".") for key in required if key not in value)
