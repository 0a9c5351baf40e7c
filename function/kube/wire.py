"""How many bytes a manifest takes in a message to Crossplane, where it is a google.protobuf.Struct."""

import marshal

from function.kube.manifests import JSON, Manifest

_TAG = 1
_NUMBER = 8  # a double
# Format 2 of marshal writes each value in full: 1 byte for a boolean, which takes 4 in a list of a Struct, and at least
# 5 for anything else besides the characters of a text, which takes 11 at most.
_FORMAT, _MOST_PER_BYTE = 2, 4


def wire_bytes(manifest: Manifest) -> int:
    """Return the size of a manifest as a Struct, without the field that holds it."""
    total = 0
    for key, value in manifest.items():
        total += _field(_field(len(key.encode())) + _field(_value(value)))
    return total


def most_wire_bytes(manifest: Manifest) -> int:
    """Returns a size that a manifest does not exceed as a Struct; much cheaper than its exact size."""
    return _MOST_PER_BYTE * len(marshal.dumps(manifest, _FORMAT))


def _value(value: JSON) -> int:
    match value:
        case str():
            return _field(len(value.encode()))
        case dict():
            return _field(wire_bytes(value))
        case list():
            return _field(sum(_field(_value(item)) for item in value))
        case None | bool():
            return _TAG + 1
        case _:
            return _TAG + _NUMBER


def _field(size: int) -> int:
    """Return the size of a field with so many bytes of content: its tag, its length and the content."""
    return _TAG + max(1, -(-size.bit_length() // 7)) + size
