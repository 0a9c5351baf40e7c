"""The reference page of all fields of the API: each kind with an example, from the XRDs, in their order."""

import json
from collections.abc import Iterator

import yaml

from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from tools.documents import document, documents
from tools.programs import ROOT

# Who sets the spec of a kind, and a file under examples/ that has one.
_KINDS = {
    "ClusterModel": ("the platform team, or a user who may share a model with every namespace", "gemma-one-gpu/model"),
    "Model": ("an author, for one namespace", "private-model/model"),
    "ModelDeployment": ("an author", "gemma-one-gpu/deployment"),
    "ModelCache": ("an author", "model-cache/cache"),
    "ModelService": ("an author, or the function for a ModelDeployment with `spec.service`", ""),
    "ModelPlacement": ("the function, for a ModelDeployment; an author may write one by hand", ""),
    "InferenceEnvironment": ("the platform team", "gemma-one-gpu/environment"),
}
# Of kinds that no file under examples/ has.
_WRITTEN = {
    "ModelService": """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata:
  name: gemma
  namespace: chat
spec:
  backends:
  - deployment: gemma
""",
    "ModelPlacement": """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelPlacement
metadata:
  name: gemma-by-hand
  namespace: chat
  labels:
    modelplane.ai/environment: h100-west
spec:
  modelRef:
    name: gemma-3-27b
  inferenceEnvironmentRef:
    name: h100-west
  profile: one-gpu
  pool: h100
  topology:
    gpusPerNode: 1
""",
}
_INTRODUCTION = """\
# Fields

Every field of every kind, as `kubectl explain KIND --recursive` shows them too. `spec` is what people set, and `status`
is what the function reports; nobody else writes it. What a Model or an author may reach on a cluster, and what is the
platform team's alone, is listed [here](reference.md#who-may-set-what)."""
# Objects with fewer fields than this are spelt out wherever they occur.
_LARGE = 3


def page() -> str:
    """Return the reference page of all fields."""
    lines = [_INTRODUCTION]
    for kind, (author, example) in _KINDS.items():
        definition = document(ROOT / "apis" / f"{kind.lower()}s" / "definition.yaml")
        (version,) = listing(definition, "spec.versions")
        scope = "in a namespace" if get(definition, "spec.scope") == "Namespaced" else "for the whole control plane"
        schema = mapping(version, "schema.openAPIV3Schema")
        lines += ["", f"## {kind}", "", f"{text(schema, 'description')} Set by {author}; {scope}.", ""]
        lines += ["```yaml", _example(kind, example), "```"]
        for part, title in (("spec", "fields"), ("status", "status, set by the function")):
            fields = mapping(schema, f"properties.{part}")
            if mapping(fields, "properties"):
                lines += ["", f"### {kind} {title}", "", "| field | type | default | meaning |", "|---|---|---|---|"]
                lines += _rows(fields, part, _find_large(fields, part))
    return "\n".join(lines) + "\n"


def _example(kind: str, name: str) -> str:
    if not name:
        return _WRITTEN[kind].rstrip()
    found = (each for each in documents(ROOT / "examples" / f"{name}.yaml") if each["kind"] == kind)
    return yaml.safe_dump(next(found), sort_keys=False).rstrip()


def _find_large(schema: Manifest, path: str) -> dict[str, str]:
    """Returns the path nearest to the root of each large object, by its fields."""
    found: dict[str, str] = {}
    level = [(schema, path)]
    while level:
        children = [(each, below) for parent, above in level for each, below, _ in _children(parent, above)]
        for child, below in children:
            if len(mapping(child, "properties")) >= _LARGE:
                found.setdefault(json.dumps(child["properties"]), below)
        level = children
    return found


def _children(schema: Manifest, path: str) -> Iterator[tuple[Manifest, str, Manifest]]:
    """Yields what holds the fields of each field, its path, and its own schema."""
    for name, child in mapping(schema, "properties").items():
        assert isinstance(child, dict)
        items = mapping(child, "items")
        yield items or child, f"{path}.{name}{'[]' if items else ''}", child


def _rows(schema: Manifest, path: str, large: dict[str, str]) -> Iterator[str]:
    """Yields a row for each field; the fields of a large object are spelt out where `large` has its path."""
    required = get(schema, "required")
    for holder, below, child in _children(schema, path):
        default = f"`{json.dumps(child['default'])}`" if "default" in child else ""
        must = " **required**" if isinstance(required, list) and below.split(".")[-1].rstrip("[]") in required else ""
        meaning = text(child, "description").replace("|", "\\|").replace("\n", " ")
        spelt_out = large.get(json.dumps(mapping(holder, "properties")), below)
        same = "" if spelt_out == below else f" The fields are those of `{spelt_out}`."
        yield f"| `{below}` | {_type(child)}{must} | {default} | {meaning}{same} |"
        if not same:
            yield from _rows(holder, below, large)


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
    word = {"string": "text", "boolean": "true or false", "integer": "whole number"}.get(
        text(schema, "type"), text(schema, "type")
    )
    least, most = schema.get("minimum"), schema.get("maximum")
    bounds = {
        (True, True): f", {least} to {most}",
        (True, False): f", at least {least}",
        (False, True): f", at most {most}",
    }
    return word + bounds.get((least is not None, most is not None), "")
