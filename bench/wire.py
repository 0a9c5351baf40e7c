"""Requests as core sends them: every map in a random order, so that the raw bytes never repeat.

Protobuf's Python library keeps one order of its own, so this encoder of the few messages it takes. The simulator,
which needs the same bytes for the same object, builds its requests from the same parts, without an order.
"""

import struct
from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType

from function.kube.manifests import JSON, Manifest

# Field numbers of RunFunctionRequest, State, Resource, and of a map's entries.
META, OBSERVED, COMPOSITE, RESOURCES, RESOURCE, CONTEXT, REQUIRED, KEY, VALUE = 1, 2, 1, 2, 1, 5, 8, 1, 2
EMPTY: Mapping[str, Manifest] = MappingProxyType({})


def request(
    xr: Manifest, required: Mapping[str, Sequence[Manifest]], order: Random, observed: Mapping[str, Manifest] = EMPTY
) -> bytes:
    """Return a RunFunctionRequest whose maps and lists of required resources stand in a random order."""
    state = field(COMPOSITE, resource(xr, order)) + b"".join(
        entry(RESOURCES, name, resource(observed[name], order)) for name in _shuffled(observed, order)
    )
    return field(OBSERVED, state) + b"".join(
        entry(REQUIRED, name, _resources(required[name], order)) for name in _shuffled(required, order)
    )


def item(payload: bytes) -> bytes:
    """Return one of the items of a message Resources."""
    return field(1, payload)


def entry(number: int, name: str, payload: bytes) -> bytes:
    """Return one entry of a map from names to messages."""
    return field(number, field(KEY, name.encode()) + field(VALUE, payload))


def resource(manifest: Manifest, order: Random | None = None) -> bytes:
    """Return a Resource whose maps stand in a random order, or as they are."""
    return field(RESOURCE, _struct(manifest, order))


def _resources(manifests: Sequence[Manifest], order: Random) -> bytes:
    items = [item(resource(manifest, order)) for manifest in manifests]
    order.shuffle(items)
    return b"".join(items)


def _struct(manifest: Manifest, order: Random | None) -> bytes:
    return b"".join(
        field(1, field(KEY, key.encode()) + field(VALUE, _value(manifest[key], order)))
        for key in _shuffled(manifest, order)
    )


def _shuffled(names: Mapping[str, object], order: Random | None) -> list[str]:
    shuffled = list(names)
    if order:
        order.shuffle(shuffled)
    return shuffled


def _value(value: JSON, order: Random | None) -> bytes:
    match value:
        case None:
            return b"\x08\x00"
        case bool():
            return bytes((0x20, value))
        case int() | float():
            return b"\x11" + struct.pack("<d", value)
        case str():
            return field(3, value.encode())
        case dict():
            return field(5, _struct(value, order))
        case list():
            return field(6, b"".join(field(1, _value(item, order)) for item in value))


def field(number: int, payload: bytes) -> bytes:
    """Return a field of bytes: its number and wire type, the length as a varint, the payload."""
    length = len(payload)
    head = bytearray((number << 3 | 2,))
    while length > 0x7F:  # seven bits to a byte
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + payload
