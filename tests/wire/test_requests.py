"""From the wire to a call: numbers, the three states of a requirement, and what identifies an item."""

import json
import random
from dataclasses import dataclass

import pytest
from crossplane.function.proto.v1.run_function_pb2 import Resource, Resources, RunFunctionRequest, State
from crossplane.function.resource import dict_to_struct

from function.contract import Answer, Call
from function.kube.manifests import JSON, Manifest
from function.wire.requests import read_call, split_request


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
    assert call.answer("unasked") is Answer.PENDING, "absent: not answered yet"
    assert call.answer("none") == (), "present without items: answered, none"
    answer = call.answer("some")
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
