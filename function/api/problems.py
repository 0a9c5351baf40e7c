"""What is wrong with an object, in words: field, value found and what is allowed.

The models generated from the XRDs find errors of shape and fields that a kind does not have. The API server drops
unknown fields silently, and does not see what a platform sets in EnvironmentConfigs and the function's input.
"""

import difflib
import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from function.domain.model import Problem
from function.kube.manifests import JSON
from function.schemas import CacheSpec, DeploymentSpec, EnvironmentSpec, ModelSpec, PlacementSpec

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T_co]):
    """`value` is None where a parser may fail and the faults leave nothing; where it is not, there may be faults."""

    value: T_co
    problems: tuple[Problem, ...] = ()


_ALLOWED: Mapping[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a block of fields",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "too_short": "at least {min_length} long",
    "too_long": "at most {max_length} long",
    "string_too_short": "at least {min_length} long",
    "string_too_long": "at most {max_length} long",
    "string_pattern_mismatch": "of the form {pattern}",
}
_LONGEST = 60


def find_shape_problems(schema: type[BaseModel], value: JSON, path: str) -> tuple[Problem, ...]:
    """Return every field of a value at `path` that does not have the shape its schema asks for."""
    try:
        schema.model_validate(value)
    except ValidationError as error:
        return tuple(sorted({_problem(e, value, path) for e in error.errors(include_url=False)}))
    return ()


def invalid_value(path: str, found: JSON, allowed: str) -> Problem:
    """Return the problem of a value that is not what is allowed."""
    return Problem(path, f"{format_value(found)} is not allowed; must be {allowed}")


def not_a_quantity(path: str, found: JSON) -> Problem:
    """Return the problem of a value that cannot be read as an amount."""
    return Problem(path, f"{format_value(found)} is not a quantity; must be like 80Gi, 1.5T or 500m")


def unknown_value(path: str, found: JSON, known: Sequence[str], also: Sequence[str] = ()) -> Problem:
    """Return the problem of a value that is not one of those known, naming the nearest one.

    Those in `also` are too many to list.
    """
    close = find_nearest(found if isinstance(found, str) else format_value(found), (*known, *also))
    hint = f" (did you mean {close}?)" if close else ""
    return Problem(path, f"{format_value(found)} is not known; must be one of {', '.join(known)}{hint}")


def find_nearest(found: str, known: Iterable[str]) -> str:
    """Return the known value that resembles the one found, whatever its case; empty if none does."""
    by_lower = {value.lower(): value for value in known}
    close = difflib.get_close_matches(found.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else ""


def format_value(found: JSON) -> str:
    """Return a value as it stands in a manifest, cut where it is long."""
    text = json.dumps(found, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def join_path(path: str, key: str | int) -> str:
    """Return the path of an entry of what stands at `path`."""
    return f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"


def _problem(error: ErrorDetails, value: JSON, path: str) -> Problem:
    if error["type"] == "missing":
        for key in error["loc"]:
            path = join_path(path, key)
        return Problem(path, "is required")
    path, union = _locate(error, value, path)
    if union:
        return not_a_quantity(path, error["input"])
    context = error.get("ctx", {})
    if error["type"] == "literal_error":
        return unknown_value(path, error["input"], _distinct(re.findall("'([^']*)'", context["expected"])))
    return invalid_value(path, error["input"], _ALLOWED.get(error["type"], "of another kind").format(**context))


def _locate(error: ErrorDetails, value: JSON, path: str) -> tuple[str, bool]:
    """Return the field's path, and whether pydantic's location goes on with a branch of a union.

    Only quantities are unions (a number or text), and pydantic reports each branch.
    """
    for key in error["loc"]:
        if value is error["input"]:
            return path, True
        path = join_path(path, key)
        value = value[key]  # type: ignore[index]  # pydantic has been there
    return path, False


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    """Leave out spellings that differ from an earlier one only in case."""
    spellings: dict[str, str] = {}
    for value in values:
        spellings.setdefault(value.lower(), value)
    return tuple(spellings.values())


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


def find_unknown_fields(schema: type[BaseModel], value: JSON, path: str) -> Iterator[Problem]:
    """Return every field at a path and below that the schema does not have, with the nearest that it has."""
    if not isinstance(value, dict) or schema.model_config.get("extra") == "allow":
        return
    known = {field.alias or name: field for name, field in schema.model_fields.items()}
    for key, item in value.items():
        below = join_path(path, key)
        if key in known:
            yield from _below(known[key], item, below)
        elif below != _CROSSPLANE:
            close = find_nearest(key, known)
            hint = f"; did you mean {close}?" if close else f"; known are {', '.join(sorted(known))}"
            yield Problem(below, f"is not a field{hint}")


def _below(field: FieldInfo, value: JSON, path: str) -> Iterator[Problem]:
    schema = _schema(field.annotation)
    if schema is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_unknown_fields(schema, item, join_path(path, index))
    else:
        yield from find_unknown_fields(schema, value, path)


def _schema(annotation: object) -> type[BaseModel] | None:
    """Return the model in an annotation such as `list[Profile] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, list):
        return next((found for found in map(_schema, get_args(annotation)) if found), None)
    return None
