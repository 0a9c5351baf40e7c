"""What is applied over what is there, and which conditions keep their time."""

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from bench.simulator import writes
from bench.simulator.objects import Version
from function.cli.store import Ref
from function.kube.manifests import Manifest, mapping

XR = Version(Ref("Parent", "team", "xr"), {"apiVersion": "v1", "kind": "Parent", "metadata": {"uid": "xr-uid"}}, 1)


def _wanted(labels: Manifest, spec: Manifest) -> Manifest:
    manifest: Manifest = {"apiVersion": "v1", "kind": "Child", "metadata": {"labels": labels}, "spec": spec}
    return writes.composed(XR, "key", Ref("Child", "team", "a"), manifest)


def test_what_is_left_out_goes_and_what_others_wrote_stays() -> None:
    before = _wanted({"a": "1", "b": "1"}, {"size": 1})
    metadata = mapping(before, "metadata")
    written: Manifest = {**metadata, "labels": {"a": "1", "b": "1", "user": "x"}, "uid": "u"}
    core: Manifest = {"compositionRef": {"name": "c"}}
    spec: Manifest = {"size": 1, "crossplane": core}
    there: Manifest = {**before, "metadata": written, "spec": spec, "status": {"ready": True}}
    now = writes.applied(there, _wanted({"a": "2"}, {"size": 2}), before)
    labels: Manifest = {"a": "2", "user": "x", "crossplane.io/composite": "xr"}
    grown: Manifest = {"size": 2, "crossplane": core}
    assert now == {**there, "metadata": {**metadata, "labels": labels, "uid": "u"}, "spec": grown}


def test_a_condition_that_says_the_same_keeps_its_time() -> None:
    said: list[Manifest] = [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "True"}]
    first = writes.with_conditions({}, said, "then")
    other: list[Manifest] = [{"type": "Ready", "status": "False"}]
    assert writes.with_conditions(first, other, "now")["status"] == {
        "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": "now"},
            {"type": "Synced", "status": "True", "lastTransitionTime": "then"},
        ]
    }
    assert writes.with_conditions(first, said, "now") == first


def test_a_composite_is_ready_when_all_that_it_composed_is() -> None:
    response = fnv1.RunFunctionResponse()
    response.desired.resources["a"].ready = fnv1.READY_TRUE
    response.desired.resources["b"].ready = fnv1.READY_FALSE
    *_, ready = writes.conditions(response, 3, [])
    assert ready == {
        "type": "Ready",
        "status": "False",
        "reason": "Creating",
        "message": "Unready resources: b",
        "observedGeneration": 3,
    }
