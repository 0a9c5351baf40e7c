"""Writes function/schemas/manifests.json from the XRDs: one JSON schema of all manifests, for editors and `explain`.

A JSON schema knows no CEL: the messages of the rules are kept as `x-rules`, which editors ignore and `explain` prints.
In `spec`, fields that the XRD does not have are refused, as `validate` refuses them. `status` stays open: users do not
write it, and Crossplane adds fields.
"""

import json
from pathlib import Path

from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.kube.names import GROUP, VERSION
from tools.documents import document
from tools.programs import ROOT

TARGET = ROOT / "function" / "schemas" / "manifests.json"
_KEPT = (
    "description", "type", "enum", "default", "required", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip
_CONVERTED = {
    "properties", "items", "additionalProperties", "x-kubernetes-int-or-string", "x-kubernetes-list-type",
    "x-kubernetes-validations", "x-kubernetes-preserve-unknown-fields",
}  # fmt: skip
_LEFT_OUT = {"format", "x-kubernetes-list-map-keys"}  # what a JSON schema or an editor does not check
_TEXTS: Manifest = {"type": "object", "additionalProperties": {"type": "string"}}
# Fields that Kubernetes and Crossplane add to those of an XRD.
_METADATA: Manifest = {
    "name": {"type": "string", "description": "Name of the object."},
    "namespace": {"type": "string", "description": "Namespace of the object."},
    "labels": {**_TEXTS, "description": "Labels, by which selectors find the object."},
    "annotations": {**_TEXTS, "description": "Annotations."},
}
_CROSSPLANE: Manifest = {
    "type": "object",
    "description": "Settings of Crossplane for this object, for example compositionRef.",
}
SETTINGS = "Defaults"
_CONDITION = {
    "type": "Type of the condition.",
    "status": "True, False or Unknown.",
    "reason": "Reason, in CamelCase.",
    "message": "Message with details.",
    "lastTransitionTime": "Time of the last change of status.",
}
_CONDITIONS: Manifest = {
    "type": "array",
    "description": "Conditions of the object.",
    "items": {
        "type": "object",
        "description": "A condition.",
        "properties": {name: {"type": "string", "description": meaning} for name, meaning in _CONDITION.items()},
    },
}


def render() -> str:
    """Returns the text of the schema."""
    xrds: list[Manifest] = [document(path) for path in sorted((ROOT / "apis").glob("*/definition.yaml"))]
    definitions: Manifest = {text(xrd, "spec.names.kind"): _build_kind(xrd) for xrd in xrds}
    kinds: list[JSON] = [*definitions]
    is_ours: Manifest = {"pattern": f"^{GROUP.replace('.', '[.]')}/"}
    # Manifests of other API groups may stand beside ours; of our group, only these kinds exist.
    known: Manifest = {"properties": {"apiVersion": {"enum": [VERSION]}, "kind": {"enum": kinds}}}
    rules: list[JSON] = [{"if": _require(apiVersion=is_ours), "then": known}]
    rules += [
        {"if": _require(apiVersion=is_ours, kind={"const": kind}), "then": {"$ref": f"#/definitions/{kind}"}}
        for kind in definitions
    ]
    schema: Manifest = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"Manifests of {GROUP}",
        "type": "object",
        "properties": {  # for editors that propose values
            "apiVersion": {"anyOf": [{"enum": [VERSION]}, {"type": "string"}]},
            "kind": {"anyOf": [{"enum": kinds}, {"type": "string"}]},
        },
        "allOf": rules,
        "definitions": {**definitions, SETTINGS: _build_settings()},
    }
    return json.dumps(schema, indent=1) + "\n"


def write(folder: Path) -> None:
    """Writes the schema into a folder."""
    (folder / TARGET.name).write_text(render())


def _require(**fields: JSON) -> Manifest:
    return {"properties": {**fields}, "required": [*fields]}


def _build_kind(xrd: Manifest) -> Manifest:
    (version,) = listing(xrd, "spec.versions")
    schema = mapping(version, "schema.openAPIV3Schema")
    is_namespaced = get(xrd, "spec.scope") == "Namespaced"
    metadata: Manifest = {name: field for name, field in _METADATA.items() if is_namespaced or name != "namespace"}
    spec = _convert(mapping(schema, "properties.spec"), closed=True)
    spec["properties"] = {**mapping(spec, "properties"), "crossplane": _CROSSPLANE}
    status = _convert(mapping(schema, "properties.status"), closed=False)
    status["properties"] = {**mapping(status, "properties"), "conditions": _CONDITIONS}
    return {
        "type": "object",
        "description": text(schema, "description"),
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Group and version of the API.", "enum": [VERSION]},
            "kind": {"type": "string", "description": "Kind of the object.", "enum": [text(xrd, "spec.names.kind")]},
            "metadata": {"type": "object", "description": "Metadata of Kubernetes objects.", "properties": metadata},
            "spec": spec,
            "status": status,
        },
        "additionalProperties": False,
    }


def _build_settings() -> Manifest:
    """Returns the schema of the function's input, which is part of Compositions."""
    (crd,) = (document(path) for path in (ROOT / "package" / "input").glob("*.yaml"))
    (version,) = listing(crd, "spec.versions")
    return _convert(mapping(version, "schema.openAPIV3Schema"), closed=True)


def _format_rule(rule: Manifest) -> str:
    field, message = text(rule, "fieldPath").removeprefix("."), text(rule, "message")
    return f"{field}: {message}" if field else message


def _convert(node: Manifest, *, closed: bool) -> Manifest:
    """Returns the JSON schema of a part of an OpenAPI schema; if it is closed, no other fields are allowed."""
    if unknown := node.keys() - {*_KEPT} - _CONVERTED - _LEFT_OUT:
        raise ValueError(f"tools/manifest_schema.py does not convert {', '.join(sorted(unknown))}")
    schema: Manifest = {key: node[key] for key in _KEPT if key in node}
    if node.get("x-kubernetes-int-or-string"):
        schema["type"] = ["integer", "string"]
    if node.get("x-kubernetes-list-type") == "set":
        schema["uniqueItems"] = True
    if rules := listing(node, "x-kubernetes-validations"):
        schema["x-rules"] = [*map(_format_rule, rules)]
    if "properties" in node:
        fields = mapping(node, "properties")
        schema["properties"] = {name: _convert(mapping(fields, name), closed=closed) for name in fields}
        if closed and not node.get("x-kubernetes-preserve-unknown-fields"):
            schema["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if key in node:
            schema[key] = _convert(mapping(node, key), closed=closed)
    return schema
