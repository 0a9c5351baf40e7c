"""The outer message of a request: what is required stays bytes, the rest becomes the SDK's own message.

The reader is protobuf's own, with a schema of its own that says `bytes` where run_function.proto and struct.proto say
message. A field of bytes and a field of a message look the same on the wire, and what a schema does not name is
carried along unread. Maps (the last of equal keys wins), merged messages, unknown fields and malformed bytes are
therefore protobuf's to judge, as in a full parse. The parts, with the numbers that those files give them:

    message Request   { map<string, Resources> required_resources = 8; }  // RunFunctionRequest
    message Resources { repeated bytes items = 1; }                       // Resources; each item is a Resource
    message Resource  { Fields resource = 1; }                            // Resource
    message Fields    { map<string, bytes> fields = 1; }                  // Struct; each value is a Value
    message Value     { Fields struct_value = 5; }                        // Value
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from crossplane.function.proto.v1.run_function_pb2 import RunFunctionRequest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "modelplane.split"
_STRING = FieldDescriptorProto.TYPE_STRING
_BYTES = FieldDescriptorProto.TYPE_BYTES
_REPEATED = FieldDescriptorProto.LABEL_REPEATED


class MalformedError(Exception):
    """The caller sent what is no request; the message quotes nothing of it."""


class Received(NamedTuple):
    """A request in two parts: `rest` is all but the required resources, whose items are unread Resources."""

    rest: RunFunctionRequest
    required: Mapping[str, Sequence[bytes]]


def split(data: bytes) -> Received:
    """Return the parts of a serialised RunFunctionRequest.

    Raises:
        MalformedError: The bytes are none.
    """
    try:
        outer = _REQUEST.FromString(data)
        # Held, not copied: what a map held outlives its being cleared.
        required = {name: found.items for name, found in outer.required_resources.items()}
        outer.ClearField("required_resources")
        return Received(RunFunctionRequest.FromString(outer.SerializeToString()), required)
    except DecodeError as error:
        raise MalformedError("The request is no RunFunctionRequest") from error


def metadata(item: bytes) -> Mapping[str, bytes]:
    """Return the fields of a Resource's metadata, unread: a map of protobuf, whose absent entries are empty.

    Raises:
        MalformedError: The bytes are no Resource.
    """
    try:
        found: Mapping[str, bytes] = _VALUE.FromString(
            _RESOURCE.FromString(item).resource.fields["metadata"]
        ).struct_value.fields
    except DecodeError as error:
        raise MalformedError("A required resource is no Resource") from error
    return found


def _messages() -> Any:
    file = FileDescriptorProto(name="modelplane/split.proto", package=_PACKAGE, syntax="proto3")
    _map(file.message_type.add(name="Request"), "required_resources", 8, "Resources")
    _field(file.message_type.add(name="Resources"), "items", 1, _BYTES, label=_REPEATED)
    _field(file.message_type.add(name="Resource"), "resource", 1, "Fields")
    _map(file.message_type.add(name="Fields"), "fields", 1, _BYTES)
    _field(file.message_type.add(name="Value"), "struct_value", 5, "Fields")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return (GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{m}")) for m in ("Request", "Resource", "Value"))


def _map(message: DescriptorProto, name: str, number: int, value: int | str) -> None:
    """Add a map: on the wire its entries are repeated messages of a key and a value."""
    entry = message.nested_type.add(name="".join(word.title() for word in name.split("_")) + "Entry")
    entry.options.map_entry = True
    _field(entry, "key", 1, _STRING)
    _field(entry, "value", 2, value)
    _field(message, name, number, f"{message.name}.{entry.name}", label=_REPEATED)


def _field(
    message: DescriptorProto,
    name: str,
    number: int,
    what: int | str,
    *,
    label: int = FieldDescriptorProto.LABEL_OPTIONAL,
) -> None:
    field = message.field.add(name=name, number=number, label=label)
    if isinstance(what, str):
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{what}"
    else:
        field.type = what


_REQUEST, _RESOURCE, _VALUE = _messages()
