"""From an outcome to the wire: manners in a pipeline, readiness, conditions, events, requirements."""

import random
from dataclasses import dataclass

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.resource import dict_to_struct, struct_to_dict
from google.protobuf.json_format import MessageToDict

from function.contract import Composed, Condition, Event, Outcome, Requirement
from function.kube.manifests import JSON, Manifest
from function.reasons import ConditionType, Phase, Status
from function.wire import refuse_request, write_response

JOB: Manifest = {"apiVersion": "batch/v1", "kind": "Job"}


def earlier(status: Manifest | None = None, **resources: Manifest) -> fnv1.RunFunctionRequest:
    """Build the request of a pipeline in which another function has run already."""
    request = fnv1.RunFunctionRequest(meta=fnv1.RequestMeta(tag="the tag"))
    if status is not None:
        request.desired.composite.resource.CopyFrom(dict_to_struct({"status": status}))
    for name, manifest in resources.items():
        request.desired.resources[name].resource.CopyFrom(dict_to_struct(manifest))
        request.desired.resources[name].ready = fnv1.READY_TRUE
    return request


def status_of(response: fnv1.RunFunctionResponse) -> object:
    return struct_to_dict(response.desired.composite.resource).get("status")


@dataclass(frozen=True)
class Merge:
    id: str
    reason: str
    theirs: Manifest | None
    ours: Manifest
    want: Manifest | None


MERGES = (
    Merge("alone", "our status is written", None, {"gpus": 8}, {"gpus": 8}),
    Merge("nothing-to-say", "an empty status writes nothing", None, {}, None),
    Merge("survives", "what others wrote stays", {"theirs": 1}, {}, {"theirs": 1}),
    Merge("side-by-side", "fields of both stay", {"theirs": 1}, {"ours": 2}, {"theirs": 1, "ours": 2}),
    Merge("deep", "also within a map", {"m": {"a": 1}}, {"m": {"b": 2}}, {"m": {"a": 1, "b": 2}}),
    Merge("ours-wins", "the later function decides", {"a": 1}, {"a": 2}, {"a": 2}),
    Merge("lists-whole", "lists are replaced, not joined", {"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    Merge("emptied-list", "an empty list is a value", {"a": [1]}, {"a": []}, {"a": []}),
    Merge("other-type", "a map replaces a text", {"a": "x"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    Merge("null", "None is left out and keeps what was there", {"a": 1}, {"a": None, "b": None}, {"a": 1}),
)


@pytest.mark.parametrize("case", MERGES, ids=lambda c: c.id)
def test_status(case: Merge) -> None:
    response = write_response(earlier(status=case.theirs), Outcome(status=case.ours))
    assert status_of(response) == case.want, case.reason


@dataclass(frozen=True)
class Written:
    id: str
    reason: str
    given: JSON
    want: object


WRITTEN = (
    Written("integer", "numbers are floats on the wire", 3, 3.0),
    Written("boolean", "true is not 1", True, True),
    Written("enum", "a reason is text", Phase.READY, "Ready"),
    Written("empty-map", "an empty map is a map", {}, {}),
    Written("empty-list", "an empty list is a list", [], []),
    Written("nested", "at every depth", [{"a": [1, "b"]}], [{"a": [1.0, "b"]}]),
    Written("null-in-map", "an absent entry", {"a": None, "b": 1}, {"b": 1.0}),
    Written("null-in-list", "leaving it out would shift the others", [None, 1], [None, 1.0]),
)


@pytest.mark.parametrize("case", WRITTEN, ids=lambda c: c.id)
def test_values(case: Written) -> None:
    composed = {"x": Composed(manifest={"spec": {"value": case.given}})}
    response = write_response(fnv1.RunFunctionRequest(), Outcome(composed=composed))
    sent = fnv1.RunFunctionResponse.FromString(response.SerializeToString())
    assert struct_to_dict(sent.desired.resources["x"].resource) == {"spec": {"value": case.want}}, case.reason


def test_keeps_resources_of_earlier_steps() -> None:
    response = write_response(earlier(theirs=JOB), Outcome(composed={"ours": Composed(manifest=JOB, ready=False)}))
    assert sorted(response.desired.resources) == ["ours", "theirs"]
    assert struct_to_dict(response.desired.resources["theirs"].resource) == JOB
    assert response.desired.resources["theirs"].ready == fnv1.READY_TRUE
    assert response.meta.tag == "the tag"


def test_own_resource_replaces_one_of_same_name() -> None:
    response = write_response(
        earlier(job={"kind": "Other", "spec": {}}), Outcome(composed={"job": Composed(manifest=JOB)})
    )
    assert struct_to_dict(response.desired.resources["job"].resource) == JOB


def test_passes_context_on() -> None:
    request = fnv1.RunFunctionRequest(context=dict_to_struct({"key": "value"}))
    assert struct_to_dict(write_response(request, Outcome()).context) == {"key": "value"}


@dataclass(frozen=True)
class Readiness:
    id: str
    reason: str
    ready: bool | None
    want: fnv1.Ready


READINESS = (
    Readiness("unset", "Crossplane derives it and names what is not ready", None, fnv1.READY_UNSPECIFIED),
    Readiness("false", "fewer placements than asked for", False, fnv1.READY_FALSE),
    Readiness("true", "said so", True, fnv1.READY_TRUE),
)


@pytest.mark.parametrize("case", READINESS, ids=lambda c: c.id)
def test_ready_of_the_composite(case: Readiness) -> None:
    assert write_response(fnv1.RunFunctionRequest(), Outcome(ready=case.ready)).desired.composite.ready == case.want, (
        case.reason
    )


def test_ready_is_set_for_each_composed_resource() -> None:
    composed = {"up": Composed(manifest=JOB, ready=True), "down": Composed(manifest=JOB, ready=False)}
    resources = write_response(fnv1.RunFunctionRequest(), Outcome(composed=composed)).desired.resources
    assert (resources["up"].ready, resources["down"].ready) == (fnv1.READY_TRUE, fnv1.READY_FALSE)


def test_conditions_keep_order_and_have_target() -> None:
    conditions = (
        Condition(type=ConditionType.SCHEDULED, status=Status.TRUE, reason="Placed"),
        Condition(type=ConditionType.MODEL_RESOLVED, status=Status.FALSE, reason="ModelNotFound", message="No model"),
        Condition(type=ConditionType.PLACEMENTS_READY, status=Status.UNKNOWN, reason="Unreachable"),
    )
    response = write_response(fnv1.RunFunctionRequest(), Outcome(conditions=conditions))
    assert MessageToDict(response)["conditions"] == [
        {"type": "Scheduled", "status": "STATUS_CONDITION_TRUE", "reason": "Placed", "target": "TARGET_COMPOSITE"},
        {
            "type": "ModelResolved",
            "status": "STATUS_CONDITION_FALSE",
            "reason": "ModelNotFound",
            "message": "No model",
            "target": "TARGET_COMPOSITE",
        },
        {
            "type": "PlacementsReady",
            "status": "STATUS_CONDITION_UNKNOWN",
            "reason": "Unreachable",
            "target": "TARGET_COMPOSITE",
        },
    ]


def test_events_have_severity_and_reason() -> None:
    events = (Event(reason="Placed", message="On a"), Event(reason="PoolTooSmall", message="No", warning=True))
    response = write_response(fnv1.RunFunctionRequest(), Outcome(events=events))
    assert [(r.severity, r.reason, r.message) for r in response.results] == [
        (fnv1.SEVERITY_NORMAL, "Placed", "On a"),
        (fnv1.SEVERITY_WARNING, "PoolTooSmall", "No"),
    ]


@dataclass(frozen=True)
class Selected:
    id: str
    reason: str
    requirement: Requirement
    want: dict[str, str]


SELECTED = (
    Selected(
        "by-name",
        "a name without a namespace is cluster-scoped",
        Requirement(api_version="g/v1", kind="ClusterModel", name="kimi"),
        {"apiVersion": "g/v1", "kind": "ClusterModel", "matchName": "kimi"},
    ),
    Selected(
        "by-name-and-namespace",
        "a namespaced object",
        Requirement(api_version="g/v1", kind="Model", name="kimi", namespace="team"),
        {"apiVersion": "g/v1", "kind": "Model", "matchName": "kimi", "namespace": "team"},
    ),
    Selected(
        "all",
        "neither name nor labels matches every object of the kind",
        Requirement(api_version="g/v1", kind="InferenceEnvironment"),
        {"apiVersion": "g/v1", "kind": "InferenceEnvironment"},
    ),
)


@pytest.mark.parametrize("case", SELECTED, ids=lambda c: c.id)
def test_requirements(case: Selected) -> None:
    response = write_response(fnv1.RunFunctionRequest(), Outcome(requirements={"it": case.requirement}))
    assert MessageToDict(response)["requirements"] == {"resources": {"it": case.want}}, case.reason


def test_ttl() -> None:
    assert write_response(fnv1.RunFunctionRequest(), Outcome(ttl_seconds=600)).meta.ttl.seconds == 600


def test_same_outcome_gives_same_bytes() -> None:
    names = [f"resource-{n}" for n in range(30)]
    answers = set()
    for seed in range(10):
        random.Random(seed).shuffle(names)
        outcome = Outcome(
            composed={name: Composed(manifest={n: n for n in names}) for name in names},
            status={name: name for name in names},
            requirements={name: Requirement(api_version="v1", kind="Pod", name=name) for name in names},
        )
        # As gRPC sends it, not only in protobuf's own deterministic form.
        answers.add(write_response(fnv1.RunFunctionRequest(), outcome).SerializeToString())
    assert len(answers) == 1, "maps are filled in one order"


def test_fatal_response_keeps_resources_of_earlier_steps() -> None:
    response = refuse_request(earlier(theirs=JOB), "Internal error")
    assert [(r.severity, r.message) for r in response.results] == [(fnv1.SEVERITY_FATAL, "Internal error")]
    assert list(response.desired.resources) == ["theirs"]


@pytest.mark.parametrize(("number", "want"), [(10**400, 1.7976931348623157e308), (-(10**400), -1.7976931348623157e308)])
def test_writes_largest_float_for_larger_number(number: int, want: float) -> None:
    answer = write_response(fnv1.RunFunctionRequest(), Outcome(status={"number": number}))
    assert struct_to_dict(answer.desired.composite.resource)["status"]["number"] == want


def test_status_has_version_that_it_follows_from() -> None:
    response = write_response(fnv1.RunFunctionRequest(), Outcome(status={"phase": "Ready"}, version="41"))
    assert struct_to_dict(response.desired.composite.resource) == {
        "metadata": {"resourceVersion": "41"},
        "status": {"phase": "Ready"},
    }
