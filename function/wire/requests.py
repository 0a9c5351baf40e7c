"""A serialised RunFunctionRequest becomes a `Call`.

**Splitting.** Required resources stay bytes, the rest becomes the SDK's own message: parsing 3,000 items costs ten
times what receiving them does. The reader is protobuf's own, with a schema that says `bytes` where run_function.proto
and struct.proto say message: both look the same on the wire, so that malformed bytes and repeated keys are handled as
in a full parse.

**Identifying.** Parsed items are cached under what identifies their content. Crossplane marshals maps in random order,
so equal items have different bytes. Items from an API server are identified by uid, resourceVersion and size,
which needs no full parse. A file keeps its resourceVersion when it is edited, so from other callers (`crossplane
render`) an item is identified by its content in protobuf's deterministic form.

Nothing here logs: observed resources may hold the copy of a Secret.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from crossplane.function.proto.v1.run_function_pb2 import Resource, RunFunctionRequest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct

from function.contract import Answered, Call, Pause, RequiredResource, noop
from function.kube.manifests import Manifest, text
from function.wire.structs import read_struct

# With the numbers of run_function.proto (Request, Resources, Resource) and struct.proto (Fields is Struct, and Value).
_SCHEMA = """
  name: "split.proto"  package: "split"  syntax: "proto3"
  message_type {
    name: "Request"
    field { name: "required_resources" number: 8 label: LABEL_REPEATED type_name: "Request.RequiredResourcesEntry" }
    nested_type {
      name: "RequiredResourcesEntry"  options { map_entry: true }
      field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
      field { name: "value" number: 2 type_name: "Resources" label: LABEL_OPTIONAL }
    }
  }
  message_type { name: "Resources" field { name: "items" number: 1 type: TYPE_BYTES label: LABEL_REPEATED } }
  message_type { name: "Resource" field { name: "resource" number: 1 type_name: "Fields" label: LABEL_OPTIONAL } }
  message_type {
    name: "Fields"
    field { name: "fields" number: 1 type_name: "Fields.FieldsEntry" label: LABEL_REPEATED }
    nested_type {
      name: "FieldsEntry"  options { map_entry: true }
      field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
      field { name: "value" number: 2 type: TYPE_BYTES label: LABEL_OPTIONAL }
    }
  }
  message_type { name: "Value" field { name: "struct_value" number: 5 type_name: "Fields" label: LABEL_OPTIONAL } }
"""
_POOL = DescriptorPool()
_POOL.AddSerializedFile(text_format.Parse(_SCHEMA, FileDescriptorProto()).SerializeToString())
_REQUEST, _RESOURCE, _VALUE = (
    GetMessageClass(_POOL.FindMessageTypeByName(f"split.{name}")) for name in ("Request", "Resource", "Value")
)
# The list of who wrote which field: often half of an object, changed by every write, and never read here.
_MANAGED_FIELDS = "managedFields"
# The tag and the length of a Value with a text. An absent Value has no bytes, null and the empty text have two. The
# length tells a uid and a version in a row apart from any other two, and no Struct begins as a text does, so that no
# content equals them.
_TEXT_HEAD = 2
# Those of Kubernetes. Requirements and composed resources repeat the names of the composite.
_NAME_LIMITS = {"metadata.name": 253, "metadata.namespace": 63}


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


def read_call(received: Received, pause: Pause = noop, *, now: float = 0, trust_versions: bool = False) -> Call:
    """Returns the call of a request; a requirement without an answer is left out of `answers`.

    Raises:
        MalformedError: The composite has a name that no API server stores.
    """
    request = received.rest
    observed = request.observed.resources
    xr = read_struct(request.observed.composite.resource)
    for field, limit in _NAME_LIMITS.items():
        if len(text(xr, field)) > limit:
            raise MalformedError(f"{field} of the composite is longer than {limit} characters")
    return Call(
        xr=xr,
        # Indexing a protobuf map creates missing entries, so only names that it lists are used.
        observed={name: read_struct(observed[name].resource) for name in sorted(observed)},
        desired_by_earlier_steps=frozenset(request.desired.resources),
        answers={
            name: identify_items(items, pause, trust_versions=trust_versions)
            for name, items in received.required.items()
        },
        input=read_struct(request.input),
        context=read_struct(request.context),
        now=now,
        pause=pause,
    )


def identify_items(items: Sequence[bytes], pause: Pause = noop, *, trust_versions: bool = False) -> Answered:
    """Returns items with what identifies their content; `pause` is called before an item is parsed.

    `trust_versions`: the items come from an API server. Their size covers changes without a new version: fields that a
    CRD defaults or prunes. Metadata is parsed instead of searched: labels are the tenants', and may hold any bytes.
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
