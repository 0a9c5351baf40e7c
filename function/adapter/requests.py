"""A RunFunctionRequest becomes a `Call`.

Protobuf knows only floats, so whole ones become integers again, at every depth. Maps arrive in random
order, so their keys are sorted: what is read from a manifest never depends on the wire. What was required
stays unread until someone asks: reading 3,000 items costs ten times what receiving them does, telling that
they are unchanged costs half of it. Nothing here logs: observed resources may hold the copy of a Secret.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from crossplane.function.proto.v1.run_function_pb2 import RunFunctionRequest
from google.protobuf.struct_pb2 import Struct, Value

from function.exchange import Answered, Call, RequiredResource
from function.kube.manifests import Manifest

# Who wrote which field: often half of an object, changed by every writer, and read by nobody here.
_WRITERS = "managedFields"


def read(request: RunFunctionRequest) -> Call:
    """Return the call that Crossplane makes; a requirement without an answer is left out of `answers`."""
    observed = request.observed.resources
    return Call(
        xr=_manifest(request.observed.composite.resource),
        # Indexing a protobuf map creates what is missing, hence only names that it lists itself.
        observed={name: _manifest(observed[name].resource) for name in sorted(observed)},
        foreign=frozenset(request.desired.resources),
        answers={
            name: _answer([item.resource for item in found.items]) for name, found in request.required_resources.items()
        },
        input=_manifest(request.input),
        context=_manifest(request.context),
    )


def _answer(structs: Sequence[Struct]) -> Answered:
    # An API server tells of all objects who wrote them, or of none: one look saves a thousand.
    if structs and _names_writers(structs[0]):
        for struct in filter(_names_writers, structs):
            del struct.fields["metadata"].struct_value.fields[_WRITERS]
    return tuple([_seen(struct) for struct in structs])


def _names_writers(struct: Struct) -> bool:
    metadata = struct.fields.get("metadata")
    return metadata is not None and _WRITERS in metadata.struct_value.fields


def _seen(struct: Struct) -> RequiredResource:
    # The bytes themselves and no hash of them: measured, a hash costs more time than it saves memory.
    return RequiredResource(struct.SerializeToString(deterministic=True), partial(_manifest, struct))


def _manifest(struct: Struct) -> Manifest:
    fields = struct.fields
    return {key: _json(fields[key]) for key in sorted(fields)}


def _json(value: Value) -> Any:
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "struct_value":
            return _manifest(value.struct_value)
        case "list_value":
            return [_json(item) for item in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "bool_value":
            return value.bool_value
    return None
