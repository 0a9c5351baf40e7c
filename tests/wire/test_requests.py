"""Requests are split, identified and read as a full parse with protobuf would."""

import contextlib
import json
import random
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1.run_function_pb2 import Resource, Resources, RunFunctionRequest, State
from crossplane.function.proto.v1beta1 import run_function_pb2 as fnv1beta1
from crossplane.function.resource import dict_to_struct
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct, Value
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench import wire
from function.contract import Call, RequiredResource
from function.kube.manifests import JSON, Manifest
from function.wire import MalformedError, identify_items, parse_metadata, read_call, read_struct, split_request
from tests.wire.wire import REQUESTS, field


def received(request: RunFunctionRequest) -> Call:
    """Read a request as the server does: from bytes."""
    return read_call(split_request(request.SerializeToString()))


def of_composite(manifest: Manifest) -> RunFunctionRequest:
    return RunFunctionRequest(observed=State(composite=Resource(resource=dict_to_struct(manifest))))


@dataclass(frozen=True)
class Number:
    id: str
    reason: str
    sent: JSON
    want: str


NUMBERS = (
    Number("whole", "a whole float was an integer", 3, "3"),
    Number("zero", "zero is whole", 0, "0"),
    Number("negative", "sign does not matter", -2, "-2"),
    Number("fraction", "a fraction stays a float", 0.5, "0.5"),
    Number("large", "2^53 is the last integer that a float holds for certain", 2**53, "9007199254740992"),
    Number("true", "a boolean is no number", True, "true"),
    Number("in-a-map", "at every depth", {"a": {"b": 1}}, '{"a": {"b": 1}}'),
    Number("in-a-list", "in lists of lists too", [[1, 1.5], []], "[[1, 1.5], []]"),
    Number("null", "null is kept", None, "null"),
    Number("text", "text that looks like a number stays text", "3", '"3"'),
    Number("empty-map", "an empty map is a map", {}, "{}"),
)


@pytest.mark.parametrize("case", NUMBERS, ids=lambda c: c.id)
def test_values(case: Number) -> None:
    call = received(of_composite({"spec": {"value": case.sent}}))
    spec = call.xr["spec"]
    assert isinstance(spec, dict)
    assert json.dumps(spec["value"]) == case.want, case.reason


def test_reads_at_most_32_nested_maps() -> None:
    """Protobuf reads 100 levels of messages, and each map takes three: a struct, an entry and a value."""

    def nest(maps: int) -> Manifest:
        return {"a": nest(maps - 1)} if maps > 1 else {"a": 1}

    assert received(of_composite(nest(32))).xr == nest(32)
    with pytest.raises(MalformedError):
        received(of_composite(nest(33)))


def test_reads_every_part_of_request() -> None:
    request = of_composite({"kind": "ModelDeployment"})
    request.observed.resources["job"].resource.CopyFrom(dict_to_struct({"kind": "Object"}))
    request.desired.resources["theirs"].resource.CopyFrom(dict_to_struct({"kind": "ConfigMap"}))
    request.input.CopyFrom(dict_to_struct({"ttl": {"settled": "10m"}}))
    request.context.CopyFrom(dict_to_struct({"key": {"n": 1}}))
    call = received(request)
    assert call.xr == {"kind": "ModelDeployment"}
    assert call.observed == {"job": {"kind": "Object"}}
    assert call.desired_by_earlier_steps == {"theirs"}
    assert call.input == {"ttl": {"settled": "10m"}}
    assert call.context == {"key": {"n": 1}}


def test_empty_request_is_empty_call() -> None:
    assert received(RunFunctionRequest()) == Call(xr={})


def test_reading_does_not_change_request() -> None:
    request = of_composite({"kind": "Model"})
    received = split_request(request.SerializeToString())
    before = received.rest.SerializeToString(deterministic=True)
    read_call(received)
    assert received.rest.SerializeToString(deterministic=True) == before, "indexing a protobuf map would add to it"


def test_requirement_has_three_states() -> None:
    request = RunFunctionRequest(
        required_resources={
            "none": Resources(),
            "some": Resources(items=[Resource(resource=dict_to_struct({"kind": "ClusterModel", "n": 1}))]),
        }
    )
    call = received(request)
    assert call.answers.get("unasked") is None, "absent: not answered yet"
    assert call.answers.get("none") == (), "present without items: answered, none"
    answer = call.answers.get("some")
    assert isinstance(answer, tuple)
    assert [seen.load() for seen in answer] == [{"kind": "ClusterModel", "n": 1}]


def _shuffled(value: JSON, order: random.Random) -> JSON:
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: _shuffled(value[key], order) for key in keys}
    if isinstance(value, list):
        return [_shuffled(item, order) for item in value]
    return value


NESTED: Manifest = {
    "metadata": {"labels": {f"label-{n}": str(n) for n in range(20)}},
    "spec": {"pools": [{"name": "a", "gpus": 8, "labels": {"x": "1", "y": "2", "z": "3"}}, {"name": "b"}]},
}


def test_item_is_identified_by_content_alone() -> None:
    contents = set()
    for seed in range(20):
        manifest = _shuffled(NESTED, random.Random(seed))
        assert isinstance(manifest, dict)
        items = Resources(items=[Resource(resource=dict_to_struct(manifest))])
        (seen,) = received(RunFunctionRequest(required_resources={"all": items})).answers["all"]
        contents.add((seen.digest, json.dumps(seen.load())))
    assert len(contents) == 1, "maps in another order are the same content, and are read in one order"


def test_different_content_has_different_digest() -> None:
    manifests: tuple[Manifest, ...] = ({"a": 1}, {"a": 2}, {"a": "1"}, {"a": [1]}, {"b": 1}, {})
    items = Resources(items=[Resource(resource=dict_to_struct(manifest)) for manifest in manifests])
    answer = received(RunFunctionRequest(required_resources={"all": items})).answers["all"]
    assert len({seen.digest for seen in answer}) == len(manifests)


def test_managed_fields_do_not_change_digest() -> None:
    named: Manifest = {"name": "east", "labels": {"tier": "gold"}}
    manifests: tuple[Manifest, ...] = (
        {"metadata": {**named, "managedFields": [{"manager": "kubectl", "time": "2026-01-01T00:00:00Z"}]}},
        {"metadata": {**named, "managedFields": [{"manager": "core", "time": "2026-01-02T00:00:00Z"}]}},
        {"metadata": named},
    )
    items = Resources(items=[Resource(resource=dict_to_struct(manifest)) for manifest in manifests])
    answer = received(RunFunctionRequest(required_resources={"all": items})).answers["all"]
    assert len({seen.digest for seen in answer}) == 1
    assert [seen.load() for seen in answer] == [{"metadata": named}] * 3


def sent(manifest: Manifest, seed: int = 0) -> bytes:
    """Return a required resource as core sends it, with maps in some order."""
    return wire.resource(manifest, random.Random(seed))


def by_content(item: bytes) -> RequiredResource:
    (found,) = identify_items([item])
    return found


def by_version(item: bytes) -> RequiredResource:
    (found,) = identify_items([item], trust_versions=True)
    return found


def pool(nodes: int, **metadata: JSON) -> Manifest:
    return {"kind": "InferenceEnvironment", "metadata": {"name": "east", **metadata}, "spec": {"maxNodeCount": nodes}}


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    one: Manifest
    other: Manifest
    same: bool


LIVE: Manifest = {"uid": "u-1", "resourceVersion": "100"}
FORGED = b"\x0a\x0fresourceVersion\x12\x05\x1a\x03100".decode()
CASES = (
    Case("same", "nothing changed", pool(8, **LIVE), pool(8, **LIVE), same=True),
    Case("version", "written again", pool(8, **LIVE), pool(9, **{**LIVE, "resourceVersion": "101"}), same=False),
    Case("uid", "created again under its name", pool(8, **LIVE), pool(8, **{**LIVE, "uid": "u-2"}), same=False),
    Case(
        "defaulted",
        "a new schema gives it a field without a new version",
        pool(8, **LIVE),
        {**pool(8, **LIVE), "more": "x"},
        same=False,
    ),
    Case("no-version", "a file: content counts", pool(8, uid="u-1"), pool(9, uid="u-1"), same=False),
    Case("no-uid", "likewise", pool(8, resourceVersion="1"), pool(9, resourceVersion="1"), same=False),
    Case(
        "emptied", "says nothing", pool(8, uid="", resourceVersion=""), pool(9, uid="", resourceVersion=""), same=False
    ),
    Case(
        "no-text",
        "a version is text",
        pool(8, uid=True, resourceVersion=True),
        pool(9, uid=True, resourceVersion=True),
        same=False,
    ),
    Case(
        "labels-named-so",
        "a tenant's labels are no metadata of the server's",
        pool(8, labels=LIVE),
        pool(9, labels=LIVE),
        same=False,
    ),
    Case(
        "forged",
        "nor is text that looks like the wire",
        pool(8, **{**LIVE, "resourceVersion": "101"}, annotations={"a": FORGED}),
        pool(9, **{**LIVE, "resourceVersion": "102"}, annotations={"a": FORGED}),
        same=False,
    ),
    Case(
        "owner",
        "the uid of an owner is another's",
        pool(8, ownerReferences=[LIVE]),
        pool(9, ownerReferences=[LIVE]),
        same=False,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_versions(case: Case) -> None:
    for seed in range(10):
        one, other = by_version(sent(case.one, seed)), by_version(sent(case.other, seed + 1))
        assert (one.digest == other.digest) is case.same, case.reason
        assert (one.load(), other.load()) == (case.one, case.other)


def test_identifies_edited_file_by_content() -> None:
    one, other = sent(pool(8, **LIVE)), sent(pool(9, **LIVE))
    assert len(one) == len(other), "numbers are eight bytes, so that size tells nothing"
    assert by_content(one).digest != by_content(other).digest
    assert by_version(one).digest == by_version(other).digest, "so not for callers that may read files"


def test_returns_uid_of_items_from_api_server() -> None:
    live = {"uid": "0f1d5a3e-6b0c-4f57-9d3a-2c8f7b1e4a90", "resourceVersion": "7"}
    assert by_version(sent(pool(8, **live))).uid == live["uid"]
    assert by_content(sent(pool(8, **live))).uid == "", "the uid is not read"


def test_content_digest_differs_from_version_digest() -> None:
    assert by_content(sent(pool(8, **LIVE))).digest != by_version(sent(pool(8, **LIVE))).digest


def test_ignores_managed_fields() -> None:
    signed = pool(8, **LIVE, managedFields=[{"manager": "kubectl"}])
    assert by_version(sent(signed)).load() == pool(8, **LIVE)
    assert by_content(sent(signed)).digest == by_content(sent(pool(8, **LIVE))).digest


def test_encoder_agrees_with_protobuf() -> None:
    found = Resource.FromString(sent(pool(8, **LIVE)))
    assert found == Resource(resource=dict_to_struct(pool(8, **LIVE)))


Decoded: TypeAlias = tuple[
    Manifest, dict[str, Manifest], set[str], dict[str, list[Manifest]], Manifest, Manifest, bytes
]
THOROUGH = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def whole(data: bytes) -> Decoded:
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


def parts(data: bytes, *, trust_versions: bool) -> Decoded:
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
    """Returns what a response is made of except the outcome."""
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
        decoded = repr(whole(broken))
    except DecodeError:
        # An entry that a later one of its name replaces is not read; all that is left must be whole.
        with contextlib.suppress(MalformedError):
            assert repr(parts(broken, trust_versions=trust_versions)) == repr(whole(left(broken)))
    else:
        assert repr(parts(broken, trust_versions=trust_versions)) == decoded


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


@pytest.mark.parametrize(("name", "length"), [("name", 254), ("namespace", 64)])
def test_refuses_names_that_no_api_server_stores(name: str, length: int) -> None:
    """Each requirement repeats them, so that a request of 300 kB had a response of 1.8 MB."""
    longest: Manifest = {"metadata": {name: "a" * (length - 1)}}
    assert received(of_composite(longest)).xr == longest
    with pytest.raises(MalformedError):
        received(of_composite({"metadata": {name: "a" * length}}))
