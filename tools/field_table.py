"""The reference page of all fields in the spec of the API: from the XRDs, in their order."""

import json
from collections.abc import Iterator

from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from tools.documents import document
from tools.programs import ROOT

_KINDS = {
    "ClusterModel": "The platform, or a user who may share a model with every namespace",
    "Model": "An author, for one namespace",
    "ModelDeployment": "An author",
    "ModelCache": "An author",
    "ModelPlacement": "ModelDeployments; an author may write one by hand",
    "InferenceEnvironment": "The platform",
}


def page() -> str:
    """Return the reference page of all spec fields: from the XRDs, in their order."""
    lines = [
        "# Fields",
        "",
        "Every field that can be set, as `kubectl explain KIND.spec --recursive` shows them.",
        "What a Model or an author may reach on a cluster, and what is the platform's alone: [hardware](hardware.md).",
    ]
    for kind, whose in _KINDS.items():
        definition = document(ROOT / "apis" / f"{kind.lower()}s" / "definition.yaml")
        (version,) = listing(definition, "spec.versions")
        scope = "in a namespace" if get(definition, "spec.scope") == "Namespaced" else "for the whole control plane"
        schema = mapping(version, "schema.openAPIV3Schema")
        lines += ["", f"## {kind}", "", f"{text(schema, 'description')} {whose}; {scope}.", ""]
        lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
        lines += _rows(mapping(schema, "properties.spec"), "spec")
    return "\n".join(lines) + "\n"


def _rows(schema: Manifest, path: str) -> Iterator[str]:
    required = get(schema, "required")
    for name, child in mapping(schema, "properties").items():
        assert isinstance(child, dict)
        items = mapping(child, "items")
        below = f"{path}.{name}{'[]' if items else ''}"
        default = f"`{json.dumps(child['default'])}`" if "default" in child else ""
        must = " **required**" if isinstance(required, list) and name in required else ""
        meaning = text(child, "description").replace("|", "\\|").replace("\n", " ")
        yield f"| `{below}` | {_type(child)}{must} | {default} | {meaning} |"
        yield from _rows(items or child, below)


def _type(schema: Manifest) -> str:
    """Return what a field takes, in words."""
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    choices: JSON = schema.get("enum")
    if isinstance(choices, list):
        # The same word in small letters is accepted as well.
        return ", ".join({str(choice).lower(): f"`{choice}`" for choice in reversed(choices)}.values())
    if items := mapping(schema, "items"):
        return f"list of {_type(items)}"
    if mapping(schema, "additionalProperties"):
        return "map of texts"
    return {"string": "text", "boolean": "true or false", "integer": "whole number"}.get(
        text(schema, "type"), text(schema, "type")
    )
