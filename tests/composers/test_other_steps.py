"""Resources of other steps of the pipeline are never changed, kept or dropped by this function."""

import asyncio
from dataclasses import dataclass

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.resource import dict_to_struct, struct_to_dict

from function.kube.manifests import Manifest
from function.runner import Runner
from tests.support.plane import call
from tests.test_cases import request_of
from tools.cases import read_case

CONFIG: Manifest = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "theirs", "namespace": "ml-team"},
    "data": {"key": "value"},
}
OBJECT: Manifest = {
    "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
    "kind": "Object",
    "metadata": {"name": "theirs", "labels": {"app.kubernetes.io/managed-by": "another"}},
    "spec": {"forProvider": {"manifest": {"kind": "Namespace"}}},
}
# These resources also use names that this function uses.
THEIRS = {"config": CONFIG, "east/config": CONFIG, "thing": OBJECT, "service-theirs": OBJECT}


@dataclass(frozen=True)
class Case:
    """A composite whose own resources are kept as observed, with the reason."""

    id: str
    reason: str
    story: str
    break_input: bool = True
    crash: bool = False


CASES_ = (
    Case("placement", "the placement is kept as observed, because its model is missing", "ModelPlacement/serving"),
    Case("deployment", "the deployment keeps its resources, because its model is missing", "ModelDeployment/ready"),
    Case(
        "deployment-decided",
        "the deployment is decided, and keeps its unreadable placements",
        "ModelDeployment/ready",
        break_input=False,
    ),
    Case(
        "environment",
        "the environment keeps its resources, because its spec is invalid",
        "InferenceEnvironment/connected",
    ),
    Case("cache", "the ModelCache keeps its resources, because its environments are missing", "ModelCache/hydrated"),
    Case("crash", "all resources are kept after an internal error", "ModelPlacement/serving", crash=True),
)


def _request(case: Case) -> fnv1.RunFunctionRequest:
    story = read_case(case.story)
    if case.break_input:
        story["required"] = {name: [] for name in story.get("required", {})}
        if case.story.startswith("InferenceEnvironment"):
            story["xr"]["spec"]["storage"] = "odd"
    request = request_of(story)
    for name, manifest in THEIRS.items():
        request.observed.resources[name].resource.CopyFrom(dict_to_struct(manifest))
    return request


def _answer(case: Case, request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
    if not case.crash:
        return call(request)

    def crash(_: object) -> None:
        raise ZeroDivisionError

    return asyncio.run(Runner(compose=crash).RunFunction(request.SerializeToString(), None))  # type: ignore[arg-type]  # never returns


@pytest.mark.parametrize("case", CASES_, ids=lambda c: c.id)
def test_keeps_resources_that_other_steps_desire(case: Case) -> None:
    request = _request(case)
    wanted = {"data": {"key": "another value"}}
    for name, manifest in THEIRS.items():
        request.desired.resources[name].resource.CopyFrom(dict_to_struct({**manifest, **wanted}))
    desired = _answer(case, request).desired.resources
    for name, manifest in THEIRS.items():
        assert struct_to_dict(desired[name].resource) == {**manifest, **wanted}, case.reason


@pytest.mark.parametrize("case", CASES_, ids=lambda c: c.id)
def test_drops_resources_that_other_steps_drop(case: Case) -> None:
    desired = _answer(case, _request(case)).desired.resources
    assert not THEIRS.keys() & desired.keys(), case.reason


@pytest.mark.parametrize("case", CASES_, ids=lambda c: c.id)
def test_keeps_own_resources_without_label(case: Case) -> None:
    request = _request(case)
    ours = set(request.observed.resources) - THEIRS.keys()
    for name in ours:
        metadata = request.observed.resources[name].resource.fields["metadata"].struct_value
        metadata.fields.pop("labels", None)
    assert ours
    assert ours <= set(_answer(case, request).desired.resources), case.reason
