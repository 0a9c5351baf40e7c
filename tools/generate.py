"""Writes function/schemas from the XRDs under apis/ and the CRD of the function's input, and Model's XRD.

Only what the function reads is generated: `spec` of each kind, and the input's own fields. ClusterModel's
schema serves Model too, whose XRD is made from ClusterModel's (model_definition.py). Descriptions stay in the
XRDs. Each object becomes a class named after its field; equal objects share a class, and where two differ
under one name the later one takes its parent's name in front. The result depends on the inputs alone, so that
a test can tell when it is stale.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from datamodel_code_generator import InputFileType, generate
from datamodel_code_generator.enums import DataModelType, StrictTypes
from datamodel_code_generator.format import Formatter, PythonVersion
from datamodel_code_generator.parser import LiteralType

from function.kube.manifests import JSON, Manifest, listing, mapping
from tools import model_definition

ROOT = Path(__file__).parent.parent
BOUNDS = ("pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties")
KEPT = ("type", "enum", "default", "required", *BOUNDS)
OBJECT_META = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A module of function/schemas: where its schema stands and what its outermost class is called."""

    module: str
    class_name: str
    manifest: str
    of: str

    def schema(self) -> Manifest:
        """Return the part of the OpenAPI schema that the module is made from."""
        version = listing(yaml.safe_load((ROOT / self.manifest).read_text()), "spec.versions")[0]
        whole = mapping(version, "schema.openAPIV3Schema")
        spec = mapping(whole, "properties.spec")
        if spec:
            return spec
        own: Manifest = {k: v for k, v in mapping(whole, "properties").items() if k not in OBJECT_META}
        return {**whole, "properties": own}


SOURCES = (
    Source(
        module="model",
        class_name="ModelSpec",
        manifest="apis/clustermodels/definition.yaml",
        of="ClusterModel and Model",
    ),
    Source(
        module="environment",
        class_name="EnvironmentSpec",
        manifest="apis/inferenceenvironments/definition.yaml",
        of="InferenceEnvironment",
    ),
    Source(
        module="deployment",
        class_name="DeploymentSpec",
        manifest="apis/modeldeployments/definition.yaml",
        of="ModelDeployment",
    ),
    Source(
        module="placement",
        class_name="PlacementSpec",
        manifest="apis/modelplacements/definition.yaml",
        of="ModelPlacement",
    ),
    Source(module="cache", class_name="CacheSpec", manifest="apis/modelcaches/definition.yaml", of="ModelCache"),
    Source(
        module="defaults",
        class_name="Defaults",
        manifest="package/input/defaults.yaml",
        of="the function's input",
    ),
)


@dataclass(slots=True)
class Classes:
    """The objects met so far, by the name of their class."""

    found: Manifest = field(default_factory=dict)

    def convert(self, node: Manifest, name: str, parent: str) -> Manifest:
        """Return the JSON schema of a node, with every object in it replaced by a reference to its class."""
        kept: Manifest = {k: node[k] for k in KEPT if k in node}
        if node.get("x-kubernetes-int-or-string"):
            # Quantities: one parser judges them, not a pattern here.
            branches: JSON = [{"type": "integer"}, {"type": "string"}]
            return {"anyOf": branches, **_default(kept)}
        if "properties" in node:
            return self._reference(node, kept, name, parent)
        for key, element in (("items", name.removesuffix("s")), ("additionalProperties", name)):
            if key in node:
                kept[key] = self._element(mapping(node, key), element, parent)
        if node.get("x-kubernetes-preserve-unknown-fields"):
            kept["additionalProperties"] = True
        return kept

    def _element(self, node: Manifest, name: str, parent: str) -> Manifest:
        converted = self.convert(node, name, parent)
        # A bounded string in a list or map would become a class of its own, for nothing that a reader gains.
        return {k: v for k, v in converted.items() if k not in BOUNDS}

    def _reference(self, node: Manifest, kept: Manifest, name: str, parent: str) -> Manifest:
        default = _default(kept)
        properties: Manifest = {
            key: self.convert(mapping(node, f"properties.{key}"), key[0].upper() + key[1:], name)
            for key in mapping(node, "properties")
        }
        shape: Manifest = {k: v for k, v in kept.items() if k != "default"} | {"properties": properties}
        if self.found.get(name, shape) != shape:
            name = parent + name
        self.found[name] = shape
        return {"$ref": f"#/$defs/{name}", **default}


def _default(node: Manifest) -> Manifest:
    return {k: v for k, v in node.items() if k == "default"}


def render(source: Source) -> str:
    """Return the text of one module."""
    classes = Classes()
    classes.convert(source.schema(), source.class_name, "")
    root = mapping(classes.found, source.class_name)
    others = {name: shape for name, shape in classes.found.items() if name != source.class_name}
    document = {**root, "title": source.class_name, "$defs": others}
    header = f"Fields of {source.of}, generated by tools/generate.py from {source.manifest}."
    text = generate(
        json.dumps(document),
        input_file_type=InputFileType.JsonSchema,
        output_model_type=DataModelType.PydanticV2BaseModel,
        target_python_version=PythonVersion.PY_311,
        class_name=source.class_name,
        custom_file_header=f'"""{header}"""',
        strict_types=[StrictTypes.str, StrictTypes.int, StrictTypes.bool],
        enum_field_as_literal=LiteralType.All,
        snake_case_field=True,
        strict_nullable=True,
        collapse_root_models=True,
        enable_faux_immutability=True,
        field_constraints=True,
        use_annotated=False,
        use_union_operator=True,
        use_standard_collections=True,
        use_double_quotes=True,
        disable_future_imports=True,
        disable_timestamp=True,
        formatters=[Formatter.BUILTIN],
    )
    return str(text).rstrip() + "\n"


def write(folder: Path) -> None:
    """Write every module below a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(
        '"""Typed models of the API, generated by tools/generate.py; never edited."""\n'
    )
    for source in SOURCES:
        (folder / f"{source.module}.py").write_text(render(source))


if __name__ == "__main__":
    model_definition.write()
    write(ROOT / "function" / "schemas")
