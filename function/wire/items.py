"""What identifies a required resource, and how it is read when somebody asks for it.

Content always does, in protobuf's deterministic form: core marshals maps in random order, so raw bytes never repeat,
and raw bytes cannot be hashed either. But to serialise 3,000 items in that form they must be parsed, which costs more
than an echo of the request. Whoever has its items from an API server has a cheaper name for a content: uid,
resourceVersion and size. Files have not: an exported manifest that is edited keeps its version, so for `crossplane
render` such a name would answer with what the file said before. Which caller it is, main.py knows.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from crossplane.function.proto.v1.run_function_pb2 import Resource
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct

from function.contract import Answered, Pause, RequiredResource, noop
from function.kube.manifests import Manifest
from function.wire.split import MalformedError, metadata
from function.wire.structs import manifest

Identify: TypeAlias = Callable[[Sequence[bytes], Pause], Answered]

# Who wrote which field: often half of an object, changed by every writer, and read by nobody here.
_WRITERS = "managedFields"
# A Value that is absent has no bytes, null and the empty text have two. Those of a text begin with its length, so that
# two in a row are told apart from any other two; and no Struct begins as a text does, so that no content is one either.
_SAYS_NOTHING = 2


def by_content(items: Sequence[bytes], pause: Pause = noop) -> Answered:
    """Return items under their content, whoever sent them; who wrote its fields is no content. `pause`: as below."""
    return tuple([_with_content(items, index, item, pause) for index, item in enumerate(items)])


def by_version(items: Sequence[bytes], pause: Pause = noop) -> Answered:
    """Return items under uid, resourceVersion and size where they have both; only for items of an API server.

    The size stands for what an API server changes without a new version: fields that a CRD defaults or prunes.
    Metadata is parsed, not searched for the words: labels and annotations may hold any bytes, and are tenants'.
    `pause` is called before an item is taken out.
    """
    found = []
    for index, item in enumerate(items):
        fields = metadata(item)
        uid, version = fields["uid"], fields["resourceVersion"]
        if len(uid) > _SAYS_NOTHING < len(version):
            digest = uid + version + len(item).to_bytes(4, "big")
            # Of another length than a uid has, or no text at all, it is merely none.
            told = uid[_SAYS_NOTHING:].decode(errors="replace")
            found.append(RequiredResource(digest, partial(_load, items, index, pause), told))
        else:
            found.append(_with_content(items, index, item, pause))
    return tuple(found)


def _with_content(items: Sequence[bytes], index: int, item: bytes, pause: Pause) -> RequiredResource:
    # The bytes themselves and no hash of them: measured, a hash costs more time than it saves memory.
    content = _struct(item).SerializeToString(deterministic=True)
    return RequiredResource(content, partial(_load, items, index, pause))


def _load(items: Sequence[bytes], index: int, pause: Pause) -> Manifest:
    pause()
    # Taken out again by those few who look: three thousand copies at a time cost more than they are read for.
    return manifest(_struct(items[index]))


def _struct(item: bytes) -> Struct:
    try:
        struct = Resource.FromString(item).resource
    except DecodeError as error:
        raise MalformedError("A required resource is no Resource") from error
    said = struct.fields.get("metadata")
    if said is not None and _WRITERS in said.struct_value.fields:
        del said.struct_value.fields[_WRITERS]
    return struct
