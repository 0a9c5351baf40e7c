"""Requests as bytes, of which protobuf's own library would write only some: every way to say the same that it reads."""

import struct

from hypothesis import strategies as st

# Wire types: the three low bits of a tag.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
NAMES = st.sampled_from(["metadata", "uid", "resourceVersion", "managedFields", "a", "b", ""])


def varint(number: int) -> bytes:
    """Return seven bits to a byte, the lowest first."""
    head = bytearray()
    while number > 0x7F:
        head.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*head, number))


def field(number: int, payload: bytes) -> bytes:
    """Return a field of bytes, text or a message."""
    return varint(number << 3 | BYTES) + varint(len(payload)) + payload


def fields(*choices: st.SearchStrategy[bytes], most: int = 4) -> st.SearchStrategy[bytes]:
    """Return fields in any order and number, a message's or a map's; unknown fields among them."""
    return st.lists(st.one_of(*choices, UNKNOWN), max_size=most).map(b"".join)


def entry(number: int, key: st.SearchStrategy[str], value: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Return an entry of a map: mostly a key and a value, sometimes one of them is missing, twice or last."""
    said = key.map(lambda name: field(1, name.encode()))
    known = value.map(lambda payload: field(2, payload))
    usual = st.tuples(said, known).map(b"".join)
    return (usual | usual | fields(said, known, most=3)).map(lambda payload: field(number, payload))


UNKNOWN = st.one_of(
    st.integers(0, 2**63).map(lambda n: varint(1000 << 3 | VARINT) + varint(n)),
    st.binary(min_size=8, max_size=8).map(lambda b: varint(1001 << 3 | FIXED64) + b),
    st.binary(max_size=4).map(lambda b: field(1002, b)),
    st.binary(min_size=4, max_size=4).map(lambda b: varint(1003 << 3 | FIXED32) + b),
)
_SCALARS = st.one_of(
    st.just(b"\x08\x00"),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda n: b"\x11" + struct.pack("<d", n)),
    st.integers(-9, 9).map(lambda n: b"\x11" + struct.pack("<d", n)),
    st.text(max_size=5).map(lambda text: field(3, text.encode())),
    st.booleans().map(lambda b: bytes((0x20, b))),
)


def structs(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Return Structs: maps of names to Values."""
    return fields(entry(1, NAMES, values))


def _deeper(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    inner = structs(values).map(lambda b: field(5, b))
    # A Value that says two things is the last; two maps in a row are one.
    return inner | fields(values.map(lambda b: field(1, b))).map(lambda b: field(6, b)) | fields(inner, _SCALARS)


VALUES = st.recursive(_SCALARS, _deeper, max_leaves=8)
STRUCTS = structs(VALUES)
RESOURCES = fields(STRUCTS.map(lambda b: field(1, b)), most=2)
FOUND = fields(RESOURCES.map(lambda b: field(1, b)))
STATES = fields(RESOURCES.map(lambda b: field(1, b)), entry(2, NAMES, RESOURCES))
REQUESTS = fields(
    st.text(max_size=3).map(lambda tag: field(1, field(1, tag.encode()))),
    STATES.map(lambda b: field(2, b)),
    STATES.map(lambda b: field(3, b)),
    STRUCTS.map(lambda b: field(4, b)),
    STRUCTS.map(lambda b: field(5, b)),
    entry(6, NAMES, FOUND),
    entry(8, NAMES, FOUND),
    entry(8, NAMES, FOUND),
    entry(8, NAMES, FOUND),
    most=8,
)
