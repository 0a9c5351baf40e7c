"""A serialised RunFunctionRequest becomes a `Call`.

**Splitting.** Required resources stay bytes, the rest becomes the SDK's own message: parsing 3,000 items costs ten
times what receiving them does. The reader is protobuf's own, with a schema that says `bytes` where run_function.proto
and struct.proto say message. Both look the same on the wire, and fields that a schema does not name are carried along
unread. Maps (the last of equal keys counts), merged messages, unknown fields and malformed bytes are therefore
handled by protobuf, as in a full parse. The parts, with the numbers from those files:

    message Request   { map<string, Resources> required_resources = 8; }  // RunFunctionRequest
    message Resources { repeated bytes items = 1; }                       // Resources; each item is a Resource
    message Resource  { Fields resource = 1; }                            // Resource
    message Fields    { map<string, bytes> fields = 1; }                  // Struct; each value is a Value
    message Value     { Fields struct_value = 5; }                        // Value

**Identifying.** Parsed items are cached under what identifies their content. Crossplane marshals maps in random order,
so equal items have different bytes. Items from an API server are identified by uid, resourceVersion and size,
which needs no full parse. A file keeps its resourceVersion when it is edited, so from other callers (`crossplane
render`) an item is identified by its content in protobuf's deterministic form.

Nothing here logs: observed resources may hold the copy of a Secret.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from crossplane.function.proto.v1.run_function_pb2 import Resource, RunFunctionRequest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct

from function.contract import Answered, Call, Pause, RequiredResource, noop
from function.kube.manifests import Manifest
from function.wire.structs import read_struct

_PACKAGE = "modelplane.split"
_STRING = FieldDescriptorProto.TYPE_STRING
_BYTES = FieldDescriptorProto.TYPE_BYTES
_REPEATED = FieldDescriptorProto.LABEL_REPEATED
# The list of who wrote which field: often half of an object, changed by every write, and never read here.
_MANAGED_FIELDS = "managedFields"
# The tag and the length of a Value with a text. An absent Value has no bytes, null and the empty text have two. The
# length tells a uid and a version in a row apart from any other two, and no Struct begins as a text does, so that no
# content equals them.
_TEXT_HEAD = 2


class MalformedError(Exception):
    """The bytes are not a request; the message quotes nothing of them."""


class Received(NamedTuple):
    """A request in two parts."""

    rest: RunFunctionRequest  # all except the required resources
    required: Mapping[str, Sequence[bytes]]  # by requirement name; each item is an unparsed Resource


def split_request(data: bytes) -> Received:
    """Returns the parts of a serialised RunFunctionRequest.

    Raises:
        MalformedError: The bytes are not a RunFunctionRequest.
    """
    try:
        outer = _REQUEST.FromString(data)
        # The items are held, not copied: they outlive clearing the map.
        required = {name: resources.items for name, resources in outer.required_resources.items()}
        outer.ClearField("required_resources")
        return Received(RunFunctionRequest.FromString(outer.SerializeToString()), required)
    except DecodeError as error:
        raise MalformedError("The request is no RunFunctionRequest") from error


def read_call(received: Received, pause: Pause = noop, *, trust_versions: bool = False) -> Call:
    """Returns the call of a request; a requirement without an answer is left out of `answers`."""
    request = received.rest
    observed = request.observed.resources
    return Call(
        xr=read_struct(request.observed.composite.resource),
        # Indexing a protobuf map creates missing entries, so only names that it lists are used.
        observed={name: read_struct(observed[name].resource) for name in sorted(observed)},
        desired_by_earlier_steps=frozenset(request.desired.resources),
        answers={
            name: identify_items(items, pause, trust_versions=trust_versions)
            for name, items in received.required.items()
        },
        input=read_struct(request.input),
        context=read_struct(request.context),
        pause=pause,
    )


def identify_items(items: Sequence[bytes], pause: Pause = noop, *, trust_versions: bool = False) -> Answered:
    """Returns items with what identifies their content; `pause` is called before an item is parsed.

    `trust_versions`: the items come from an API server, so uid, resourceVersion and size identify those that have both.
    The size covers changes without a new version: fields that a CRD defaults or prunes. Metadata is parsed instead of
    searched, because labels and annotations are the tenants' and may hold any bytes.
    """
    resources = []
    for index, item in enumerate(items):
        digest, uid = b"", ""
        if trust_versions:
            fields = parse_metadata(item)
            uid_value, version = fields["uid"], fields["resourceVersion"]
            if len(uid_value) > _TEXT_HEAD < len(version):
                digest = uid_value + version + len(item).to_bytes(4, "big")
                # A uid of unexpected form is treated as missing.
                uid = uid_value[_TEXT_HEAD:].decode(errors="replace")
        # The content itself and no hash of it: measured, a hash costs more time than it saves memory.
        digest = digest or _parse_item(item).SerializeToString(deterministic=True)
        resources.append(RequiredResource(digest, partial(_load_item, items, index, pause), uid))
    return tuple(resources)


def parse_metadata(item: bytes) -> Mapping[str, bytes]:
    """Returns the unparsed fields of a Resource's metadata, in a protobuf map whose absent entries are empty.

    Raises:
        MalformedError: The bytes are not a Resource.
    """
    try:
        resource = _RESOURCE.FromString(item).resource
        metadata: Mapping[str, bytes] = _VALUE.FromString(resource.fields["metadata"]).struct_value.fields
    except DecodeError as error:
        raise MalformedError("A required resource is no Resource") from error
    return metadata


def _load_item(items: Sequence[bytes], index: int, pause: Pause) -> Manifest:
    pause()
    # Parsed again for the few that are needed: three thousand copies at a time cost more than they are read for.
    return read_struct(_parse_item(items[index]))


def _parse_item(item: bytes) -> Struct:
    try:
        struct = Resource.FromString(item).resource
    except DecodeError as error:
        raise MalformedError("A required resource is no Resource") from error
    metadata = struct.fields.get("metadata")
    if metadata is not None and _MANAGED_FIELDS in metadata.struct_value.fields:
        del metadata.struct_value.fields[_MANAGED_FIELDS]
    return struct


def _build_messages() -> Any:
    file = FileDescriptorProto(name="modelplane/split.proto", package=_PACKAGE, syntax="proto3")
    _add_map(file.message_type.add(name="Request"), "required_resources", 8, "Resources")
    _add_field(file.message_type.add(name="Resources"), "items", 1, _BYTES, label=_REPEATED)
    _add_field(file.message_type.add(name="Resource"), "resource", 1, "Fields")
    _add_map(file.message_type.add(name="Fields"), "fields", 1, _BYTES)
    _add_field(file.message_type.add(name="Value"), "struct_value", 5, "Fields")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return (GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{m}")) for m in ("Request", "Resource", "Value"))


def _add_map(message: DescriptorProto, name: str, number: int, value: int | str) -> None:
    """Adds a map: on the wire its entries are repeated messages of a key and a value."""
    entry = message.nested_type.add(name="".join(word.title() for word in name.split("_")) + "Entry")
    entry.options.map_entry = True
    _add_field(entry, "key", 1, _STRING)
    _add_field(entry, "value", 2, value)
    _add_field(message, name, number, f"{message.name}.{entry.name}", label=_REPEATED)


def _add_field(
    message: DescriptorProto,
    name: str,
    number: int,
    type_: int | str,
    *,
    label: int = FieldDescriptorProto.LABEL_OPTIONAL,
) -> None:
    field = message.field.add(name=name, number=number, label=label)
    if isinstance(type_, str):
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{type_}"
    else:
        field.type = type_


_REQUEST, _RESOURCE, _VALUE = _build_messages()
