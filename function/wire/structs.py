"""A protobuf Struct becomes a manifest, and a manifest is merged into a Struct."""

import sys
from collections.abc import Callable, Mapping
from typing import assert_never

from google.protobuf.struct_pb2 import NULL_VALUE, Struct, Value

from function.kube.manifests import JSON, Manifest

_MAX_FLOAT = sys.float_info.max


def read_struct(struct: Struct) -> Manifest:
    """Returns a manifest with sorted keys and whole numbers as integers, at every depth.

    Protobuf knows only floats, and maps arrive in random order: nothing may depend on either.
    """
    manifest: Manifest = {}
    fields = struct.fields
    for key in sorted(fields):
        value = fields[key]
        kind = value.WhichOneof("kind")
        # Most values are texts, and a function call for each would be a tenth of the time.
        manifest[key] = value.string_value if kind == "string_value" else _READERS[kind](value)
    return manifest


_READERS: Mapping[str | None, Callable[[Value], JSON]] = {
    "string_value": lambda value: value.string_value,
    "struct_value": lambda value: read_struct(value.struct_value),
    "list_value": lambda value: [_READERS[item.WhichOneof("kind")](item) for item in value.list_value.values],
    "number_value": lambda value: int(number) if (number := value.number_value).is_integer() else number,
    "bool_value": lambda value: value.bool_value,
    "null_value": lambda _: None,
    None: lambda _: None,
}


def merge(struct: Struct, manifest: Manifest) -> None:
    """Sets the entries of a manifest that are not null; the rest of the struct stays."""
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
            # An integer that no float holds must not fail the whole response.
            value.number_value = max(-_MAX_FLOAT, min(_MAX_FLOAT, new))
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
