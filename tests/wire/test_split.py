"""Splitting a request finds what parsing it whole finds: for any bytes, in any order, with any repetition."""

import contextlib
from typing import TypeAlias

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1beta1 import run_function_pb2 as fnv1beta1
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct, Value
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from function.kube.manifests import Manifest
from function.wire.requests import MalformedError, parse_metadata, read_call, split_request
from function.wire.structs import read_struct
from tests.wire.wire import REQUESTS, field

Told: TypeAlias = tuple[Manifest, dict[str, Manifest], set[str], dict[str, list[Manifest]], Manifest, Manifest, bytes]
THOROUGH = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def whole(data: bytes) -> Told:
    """Read a request with protobuf alone."""
    request = fnv1.RunFunctionRequest.FromString(data)
    return (
        read_struct(request.observed.composite.resource),
        {name: read_struct(item.resource) for name, item in sorted(request.observed.resources.items())},
        set(request.desired.resources),
        {
            name: [unsigned(i.resource) for i in found.items]
            for name, found in sorted(request.required_resources.items())
        },
        read_struct(request.input),
        read_struct(request.context),
        _answered(request),
    )


def unsigned(item: Struct) -> Manifest:
    """Return a manifest without the list of who wrote it."""
    found = read_struct(item)
    said = found.get("metadata")
    if isinstance(said, dict):
        said.pop("managedFields", None)
    return found


def parts(data: bytes, *, trust_versions: bool) -> Told:
    """Read a request as the server does, and everything that was left unread."""
    received = split_request(data)
    call = read_call(received, trust_versions=trust_versions)
    return (
        call.xr,
        dict(call.observed),
        set(call.desired_by_earlier_steps),
        {name: [item.load() for item in items] for name, items in sorted(call.answers.items())},
        call.input,
        call.context,
        _answered(received.rest),
    )


def _answered(request: fnv1.RunFunctionRequest) -> bytes:
    """Return what a response is made of besides the outcome."""
    kept = fnv1.RunFunctionRequest(meta=request.meta, desired=request.desired, context=request.context)
    written: bytes = kept.SerializeToString(deterministic=True)
    return written


@pytest.mark.parametrize("trust_versions", [False, True])
@THOROUGH
@given(data=REQUESTS)
def test_split_reads_same_call_as_full_parse(*, trust_versions: bool, data: bytes) -> None:
    assert repr(parts(data, trust_versions=trust_versions)) == repr(whole(data))


@pytest.mark.parametrize("trust_versions", [False, True])
@THOROUGH
@given(data=REQUESTS, at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255) | st.none())
def test_split_refuses_same_bytes_as_full_parse(
    *, trust_versions: bool, data: bytes, at: float, byte: int | None
) -> None:
    place = int(at * len(data))
    broken = data[:place] + (b"" if byte is None else bytes((byte,)) + data[place + 1 :])
    try:
        told = repr(whole(broken))
    except DecodeError:
        # An entry that a later one of its name replaces is read by nobody; all that is left must be whole.
        with contextlib.suppress(MalformedError):
            assert repr(parts(broken, trust_versions=trust_versions)) == repr(whole(left(broken)))
    else:
        assert repr(parts(broken, trust_versions=trust_versions)) == told


def left(data: bytes) -> bytes:
    """Return a request with what is left of it once entries of one name have replaced each other."""
    rest, required = split_request(data)
    entries = (
        field(8, field(1, name.encode()) + field(2, b"".join(field(1, item) for item in items)))
        for name, items in required.items()
    )
    written: bytes = rest.SerializeToString() + b"".join(entries)
    return written


@pytest.mark.parametrize("trust_versions", [False, True])
def test_ignores_replaced_map_entry(*, trust_versions: bool) -> None:
    broken, whole_ = field(8, field(1, b"a") + field(2, field(1, b"\xff"))), field(8, field(1, b"a") + field(2, b""))
    with pytest.raises(MalformedError):
        parts(broken, trust_versions=trust_versions)
    assert parts(broken + whole_, trust_versions=trust_versions) == parts(whole_, trust_versions=trust_versions)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(MalformedError):
        parts(data, trust_versions=True)


def test_does_not_parse_unused_items() -> None:
    nonsense = b"\xff"
    received = split_request(field(8, field(1, b"unasked") + field(2, field(1, nonsense))))
    assert {name: list(items) for name, items in received.required.items()} == {"unasked": [nonsense]}


@pytest.mark.parametrize("proto", [fnv1, fnv1beta1], ids=["v1", "v1beta1"])
def test_field_numbers_match_protocol(proto: object) -> None:
    messages = proto.DESCRIPTOR.message_types_by_name  # type: ignore[attr-defined]  # a module made from run_function.proto
    request, resources, resource = (messages[n] for n in ("RunFunctionRequest", "Resources", "Resource"))
    required = request.fields_by_name["required_resources"]
    assert required.number == 8
    assert required.message_type.fields_by_name["value"].message_type is resources
    assert (resources.fields_by_name["items"].number, resource.fields_by_name["resource"].number) == (1, 1)
    assert Struct.DESCRIPTOR.fields_by_name["fields"].number == 1
    assert Value.DESCRIPTOR.fields_by_name["struct_value"].number == 5
    assert Value.DESCRIPTOR.fields_by_name["string_value"].number == 3


def test_metadata_of_empty_and_malformed_item() -> None:
    assert dict(parse_metadata(b"")) == {}
    with pytest.raises(MalformedError):
        parse_metadata(b"\xff")
