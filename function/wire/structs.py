"""A protobuf Struct and a manifest: what core sends, and what it is sent."""

import sys
from collections.abc import Callable, Mapping
from typing import assert_never

from google.protobuf.struct_pb2 import NULL_VALUE, Struct, Value

from function.kube.manifests import JSON, Manifest

_LARGEST = sys.float_info.max


def manifest(struct: Struct) -> Manifest:
    """Return a manifest with sorted keys and whole numbers as integers, at every depth."""
    found: Manifest = {}
    fields = struct.fields
    for key in sorted(fields):
        value = fields[key]
        kind = value.WhichOneof("kind")
        # Most of them: a call for each would be a tenth of the time.
        found[key] = value.string_value if kind == "string_value" else _READERS[kind](value)
    return found


def _number(value: Value) -> int | float:
    number = value.number_value
    return int(number) if number.is_integer() else number


def _list(value: Value) -> list[JSON]:
    return [_READERS[item.WhichOneof("kind")](item) for item in value.list_value.values]


_READERS: Mapping[str | None, Callable[[Value], JSON]] = {
    "string_value": lambda value: value.string_value,
    "struct_value": lambda value: manifest(value.struct_value),
    "list_value": _list,
    "number_value": _number,
    "bool_value": lambda value: value.bool_value,
    "null_value": lambda _: None,
    None: lambda _: None,
}


def merge(struct: Struct, manifest: Manifest) -> None:
    """Set what a manifest has and is not null; the rest of the struct stays."""
    for key in sorted(manifest):
        value = manifest[key]
        if value is not None:
            _set(struct.fields[key], value)


def _set(value: Value, new: JSON) -> None:
    match new:
        case None:
            value.null_value = NULL_VALUE
        case bool():
            value.bool_value = new
        case str():
            value.string_value = new
        case int():
            # What no float holds must not fail the whole response.
            value.number_value = max(-_LARGEST, min(_LARGEST, new))
        case float():
            value.number_value = new
        case dict():
            value.struct_value.SetInParent()  # an empty map is a map
            merge(value.struct_value, new)
        case list():
            value.list_value.Clear()
            value.list_value.SetInParent()
            for item in new:
                _set(value.list_value.values.add(), item)
        case _:
            assert_never(new)
