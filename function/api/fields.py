"""Fields that a kind does not have. The API server drops them in silence, so a slip in a name goes unnoticed; what a
platform sets in EnvironmentConfigs and the function's input no API server looks at.

The typed models that are generated from the XRDs know every field of a spec.
"""

import types
from collections.abc import Iterator, Mapping
from typing import Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from function.api.problems import join, nearest
from function.domain.problem import Problem
from function.kube.manifests import JSON
from function.schemas import CacheSpec, DeploymentSpec, EnvironmentSpec, ModelSpec, PlacementSpec

SPECS: Mapping[str, type[BaseModel]] = {
    "ClusterModel": ModelSpec,
    "Model": ModelSpec,
    "InferenceEnvironment": EnvironmentSpec,
    "ModelDeployment": DeploymentSpec,
    "ModelPlacement": PlacementSpec,
    "ModelCache": CacheSpec,
}
# What Crossplane keeps beside our own fields.
_CROSSPLANE = "spec.crossplane"


def build_schemas() -> None:
    """Build the models that are built at their first use, so that no call waits for it (35 ms)."""
    for schema in SPECS.values():
        schema.model_rebuild()


def unknown_fields(schema: type[BaseModel], value: JSON, path: str) -> Iterator[Problem]:
    """Return every field at a path and below that the schema does not have, with the nearest that it has."""
    if not isinstance(value, dict) or schema.model_config.get("extra") == "allow":
        return
    known = {field.alias or name: field for name, field in schema.model_fields.items()}
    for key, item in value.items():
        below = join(path, key)
        if key in known:
            yield from _below(known[key], item, below)
        elif below != _CROSSPLANE:
            close = nearest(key, known)
            hint = f"; did you mean {close}?" if close else f"; known are {', '.join(sorted(known))}"
            yield Problem(below, f"is not a field{hint}")


def _below(field: FieldInfo, value: JSON, path: str) -> Iterator[Problem]:
    schema = _schema(field.annotation)
    if schema is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(schema, item, join(path, index))
    else:
        yield from unknown_fields(schema, value, path)


def _schema(annotation: object) -> type[BaseModel] | None:
    """Return the model in an annotation such as `list[Profile] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, list):
        return next((found for found in map(_schema, get_args(annotation)) if found), None)
    return None
