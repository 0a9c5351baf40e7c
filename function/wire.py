"""The only protobuf: a serialised RunFunctionRequest becomes a `Call`, an `Outcome` becomes a RunFunctionResponse.

**Splitting.** Required resources stay bytes, and the rest becomes the SDK's own message, because to parse 3,000 items
costs ten times as much as to receive them. The reader is protobuf's own, with a schema that says `bytes` where
run_function.proto and struct.proto say message. Both look the same on the wire, so malformed bytes and repeated keys
are handled as in a full parse.

**Identifying.** Parsed items are cached by a key that identifies their content. Crossplane marshals maps in random
order, so equal items have different bytes. Items from an API server are identified by uid, resourceVersion and size,
which needs no full parse. A file keeps its resourceVersion when it is edited, so from other callers (`crossplane
render`) an item is identified by its content in protobuf's deterministic form.

**Responding.** A pipeline may hold other functions, so the response starts from what they desire: their resources,
status and context stay, and ours are added. If both wrote a status field, ours counts. Entries that are None are left
out, because for Kubernetes null and absent are the same while schemas refuse null. The composite's `ready` stays unset
unless the outcome sets it, because users would lose the list of unready resources that Crossplane gives them.

Nothing here logs: observed resources may hold the copy of a Secret.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple, assert_never

from crossplane.function import response
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import NULL_VALUE, Struct, Value

from function.contract import RESPONSE_BYTES, Answer, Call, Outcome, Pause, RequiredResource, noop
from function.kube.manifests import JSON, Manifest, text
from function.reasons import Status

# The field numbers are those of run_function.proto (Request, Resources, Resource) and struct.proto (Fields is Struct,
# and Value).
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
# This list of who wrote which field is often half of an object, changes with every write, and is never read here.
_MANAGED_FIELDS = "managedFields"
# The bytes before the text of a Value: its tag and its length. An absent Value has no bytes; null and the empty text
# have only these two. Because of the lengths, two pairs of uid and version never have the same bytes, and because of
# the tag, no serialised Struct has the bytes of such a pair.
_TEXT_HEAD = 2
# The limits of Kubernetes. Requirements and composed resources repeat the names of the composite.
_NAME_LIMITS = {"metadata.name": 253, "metadata.namespace": 63}
_STATUS = {
    Status.TRUE: fnv1.STATUS_CONDITION_TRUE,
    Status.FALSE: fnv1.STATUS_CONDITION_FALSE,
    Status.UNKNOWN: fnv1.STATUS_CONDITION_UNKNOWN,
}
_READY = {True: fnv1.READY_TRUE, False: fnv1.READY_FALSE}
_MAX_FLOAT = sys.float_info.max


class MalformedError(Exception):
    """The bytes are not a request; the message does not quote them."""


class Received(NamedTuple):
    rest: fnv1.RunFunctionRequest  # all except the required resources
    required: Mapping[str, Sequence[bytes]]  # by requirement name; each item is an unparsed Resource


def split_request(data: bytes) -> Received:
    """Returns the parts of a serialised RunFunctionRequest.

    Raises:
        MalformedError: The bytes are not a RunFunctionRequest.
    """
    try:
        outer = _REQUEST.FromString(data)
        # The items are held, not copied: they remain after the map is cleared.
        required = {name: resources.items for name, resources in outer.required_resources.items()}
        outer.ClearField("required_resources")
        return Received(fnv1.RunFunctionRequest.FromString(outer.SerializeToString()), required)
    except DecodeError as error:
        raise MalformedError("The request is not a RunFunctionRequest") from error


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


def identify_items(items: Sequence[bytes], pause: Pause = noop, *, trust_versions: bool = False) -> Answer:
    """Returns items with what identifies their content; `pause` is called before an item is parsed.

    `trust_versions`: the items come from an API server. Their size covers changes without a new version: fields that a
    CRD defaults or prunes. Metadata is parsed instead of searched, because tenants set the labels, which may hold any
    bytes.
    """
    resources = []
    for index, item in enumerate(items):
        digest = b""
        uid = ""
        if trust_versions:
            fields = parse_metadata(item)
            uid_value = fields["uid"]
            version = fields["resourceVersion"]
            if len(uid_value) > _TEXT_HEAD < len(version):
                digest = uid_value + version + len(item).to_bytes(4, "big")
                # A uid of unexpected form is treated as missing.
                uid = uid_value[_TEXT_HEAD:].decode(errors="replace")
        # The digest is the content itself and not a hash: measured, a hash costs more time than the saved memory is
        # worth.
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
        raise MalformedError("A required resource is not a Resource") from error
    return metadata


def _load_item(items: Sequence[bytes], index: int, pause: Pause) -> Manifest:
    pause()
    # The item is parsed again: few items are needed, and to keep three thousand parsed copies would cost more.
    return read_struct(_parse_item(items[index]))


def _parse_item(item: bytes) -> Struct:
    try:
        struct = fnv1.Resource.FromString(item).resource
    except DecodeError as error:
        raise MalformedError("A required resource is not a Resource") from error
    metadata = struct.fields.get("metadata")
    if metadata is not None and _MANAGED_FIELDS in metadata.struct_value.fields:
        del metadata.struct_value.fields[_MANAGED_FIELDS]
    return struct


class TooLargeError(Exception):
    """A response is larger than what Crossplane reads; the text has both sizes."""

    def __init__(self, size: int) -> None:
        super().__init__(f"It has {size:,} bytes; Crossplane reads at most {RESPONSE_BYTES:,}")
        self.size = size


def write_response(request: fnv1.RunFunctionRequest, outcome: Outcome) -> fnv1.RunFunctionResponse:
    """Returns what the pipeline desires so far plus the outcome.

    Raises:
        TooLargeError: Crossplane would not read it.
    """
    answer = response.to(request, ttl=timedelta(seconds=outcome.ttl_seconds))
    desired = answer.desired
    if outcome.status:
        merge(desired.composite.resource, {"status": outcome.status})
    if outcome.version:
        # Crossplane applies the status as written here, and an API server takes a version as a precondition.
        merge(desired.composite.resource, {"metadata": {"resourceVersion": outcome.version}})
    if outcome.ready is not None:
        desired.composite.ready = _READY[outcome.ready]
    for name, composed in sorted(outcome.composed.items()):
        resource = fnv1.Resource(ready=_READY[composed.ready])
        merge(resource.resource, composed.manifest)
        desired.resources[name].CopyFrom(resource)
    for name, requirement in sorted(outcome.requirements.items()):
        # With neither name nor labels the selector matches every object of the kind (docs/facts.md, Crossplane).
        selector = fnv1.ResourceSelector(
            api_version=requirement.api_version,
            kind=requirement.kind,
            match_name=requirement.name,
            match_labels=fnv1.MatchLabels(labels=requirement.labels) if requirement.labels else None,
            namespace=requirement.namespace,
        )
        answer.requirements.resources[name].CopyFrom(selector)
    for condition in outcome.conditions:
        answer.conditions.add(
            type=condition.type,
            status=_STATUS[condition.status],
            reason=condition.reason,
            message=condition.message or None,
            target=fnv1.TARGET_COMPOSITE,
        )
    for event in outcome.events:
        answer.results.add(
            severity=fnv1.SEVERITY_WARNING if event.warning else fnv1.SEVERITY_NORMAL,
            message=event.message,
            reason=event.reason,
            target=fnv1.TARGET_COMPOSITE,
        )
    size = answer.ByteSize()
    if size > RESPONSE_BYTES:
        raise TooLargeError(size)
    return answer


def refuse_request(request: fnv1.RunFunctionRequest, message: str) -> fnv1.RunFunctionResponse:
    """Returns a fatal response: Crossplane retries, and neither applies nor deletes anything."""
    answer = response.to(request)
    response.fatal(answer, message)
    return answer


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
