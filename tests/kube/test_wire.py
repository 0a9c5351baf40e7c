"""The computed size is the size that protobuf writes."""

import pytest
from google.protobuf.struct_pb2 import Struct

from function.kube.manifests import JSON, Manifest, max_wire_bytes, wire_bytes
from function.wire import merge

# 127 and 16,383 are the largest lengths of one and of two bytes.
MANIFESTS: dict[str, Manifest] = {
    "empty": {},
    "every type": {"a": True, "b": 1, "c": 1.5, "d": "x", "e": [], "f": {}, "g": [1, [None], {"h": "i"}]},
    "not ascii": {"größe": "ä" * 100},
    **{f"{size} bytes": {"a": {"b": ["x" * size]}} for size in (0, 100, 115, 121, 127, 128, 16_383, 16_384, 2_100_000)},
}


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_size_is_the_size_of_the_message(manifest: Manifest) -> None:
    struct = Struct()
    merge(struct, manifest)
    assert wire_bytes(manifest) == struct.ByteSize()
    assert max_wire_bytes(manifest) >= wire_bytes(manifest)


@pytest.mark.parametrize("value", [True, None, 0, 2**40, 0.5, "", [], {}], ids=repr)
def test_upper_bound_holds_for_repeated_values(value: JSON) -> None:
    manifest: Manifest = {"": [value] * 10_000}
    assert max_wire_bytes(manifest) >= wire_bytes(manifest)
    nested: Manifest = {"": value}
    for _ in range(90):
        nested = {"": [nested]}
    assert max_wire_bytes(nested) >= wire_bytes(nested)
