"""No observed resource leaves the desired state without a `Drop` with the reason."""

import copy
from collections.abc import Mapping

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.composers import COMPOSERS, compose
from function.contract import Call, Composed, Drop
from function.kube.manifests import Manifest, get, mapping, text
from function.parts.storage_class import CLASS
from function.remote.adoption import select_own
from function.remote.object_writer import ManagementPolicy, keep_undropped
from function.wire import read_call, split_request
from tests import test_cases
from tests.support.orphans import AtRest
from tests.support.ownership import CASES, STORIES, example_requests
from tests.support.plane import only

SEEN: Mapping[str, Manifest] = {
    key: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key}} for key in ("a", "b", "c")
}


def test_keeps_what_is_neither_composed_nor_dropped() -> None:
    changed = Composed(manifest={"metadata": {"name": "a", "labels": {"new": "yes"}}})
    desired = keep_undropped(SEEN, {"a": changed}, [Drop("b", "nothing needs it")])
    assert desired.keys() == {"a", "c"}
    assert desired["a"] is changed
    assert desired["c"].manifest == SEEN["c"]


def test_refuses_a_drop_without_a_reason() -> None:
    with pytest.raises(ValueError, match="b dropped without a reason"):
        keep_undropped(SEEN, {}, [Drop("b", "")])


def _assert_nothing_is_lost(request: fnv1.RunFunctionRequest) -> None:
    call: Call = read_call(split_request(request.SerializeToString()))
    outcome = compose(call)
    dropped = {drop.key for drop in outcome.drops}
    assert select_own(call, COMPOSERS[text(call.xr, "kind")].names).observed.keys() <= outcome.composed.keys() | dropped
    assert not outcome.composed.keys() & dropped


@pytest.mark.parametrize("name", CASES)
def test_cases_lose_nothing(name: str) -> None:
    _assert_nothing_is_lost(test_cases.request_of(test_cases.load(name)))


@pytest.mark.parametrize("story", STORIES)
def test_examples_lose_nothing(story: str) -> None:
    for request in example_requests(story):
        _assert_nothing_is_lost(request)


@pytest.mark.parametrize("name", CASES)
def test_cases_drop_nothing_while_a_requirement_is_not_answered(name: str) -> None:
    request = test_cases.request_of(test_cases.load(name))
    required = compose(read_call(split_request(request.SerializeToString()))).requirements
    for answer in sorted(required.keys() & request.required_resources.keys()):
        unanswered = fnv1.RunFunctionRequest()
        unanswered.CopyFrom(request)
        del unanswered.required_resources[answer]
        assert compose(read_call(split_request(unanswered.SerializeToString()))).drops == (), answer


def test_environment_observes_its_class_until_its_placements_are_known() -> None:
    scene = AtRest("kimi-k2-two-nodes", "InferenceEnvironment")
    mapping(scene.xr, "spec.storage").pop("storageClassName")
    assert [drop.key for drop in scene.at_rest().drops] == [CLASS]
    (placements,) = (name for name in scene.at_rest().requirements if name.startswith("placements"))
    unanswered = scene.outcome(scene.objects, pending=placements)
    assert (CLASS in unanswered.composed, unanswered.drops) == (True, ())


def test_copy_of_a_secret_leaves_the_cluster_where_a_cache_is_not_selected_any_more() -> None:
    """Claim and Job are shared and stay. The Object of the Secret needs a deletion policy that removes the Secret."""
    scene = AtRest("model-cache", "ModelCache")
    mapping(scene.xr, "spec").update({"environments": ["nowhere"], "environmentSelector": None})
    mapping(scene.xr, "status")["readers"] = []
    read = text(scene.control.composites[only(scene.control, "ModelPlacement")], "spec.inferenceEnvironmentRef.name")
    claim = next(key for key in scene.objects if "/claim-" in key and not key.startswith(read))
    token = f"{claim.partition('/')[0]}/token-weights-0a1b2c3d"
    scene.objects[token] = copy.deepcopy(scene.objects[claim])
    mapping(scene.objects[token], "metadata")["name"] = "token"
    spec = mapping(scene.objects[token], "spec")
    spec["managementPolicies"] = [*ManagementPolicy.RETAIN.value]
    mapping(spec, "forProvider")["manifest"] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}}
    first = scene.at_rest()
    assert claim in {drop.key for drop in first.drops} == scene.objects.keys() - first.composed.keys()
    assert get(first.composed[token].manifest, "spec.managementPolicies") == ["*"]
    second = scene.outcome({token: first.composed[token].manifest})
    assert [drop.key for drop in second.drops] == [token]
