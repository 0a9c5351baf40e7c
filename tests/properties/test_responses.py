"""Whatever the input: no traceback, nothing fatal, nothing that runs is lost, and order changes nothing."""

import copy
import random
from functools import cache

import pytest
from crossplane.function import resource
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from function.kube.manifests import Manifest
from function.reasons import OPTIONAL, OWNED
from tests.support.places import list_places, replace_place
from tests.support.plane import call, change, manifests, only, plane, request_of
from tools.control_plane import ControlPlane

QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SCALARS = st.none() | st.booleans() | st.integers(-3, 10**6) | st.floats(allow_nan=False) | st.text(max_size=12)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=8), v, max_size=3))


@pytest.fixture(scope="module")
def serving() -> ControlPlane:
    """Kimi K2 at rest, and a ModelCache beside it."""
    return plane("model-cache")


def _request(control: ControlPlane, kind: str) -> fnv1.RunFunctionRequest:
    """Return the request for the first composite of a kind, every requirement answered."""
    return request_of(control, control.all(kind)[0])


def _check(request: fnv1.RunFunctionRequest, kind: str) -> None:
    response = call(request)
    assert not [r for r in response.results if r.severity == fnv1.SEVERITY_FATAL]
    assert [c.type for c in response.conditions] == [type_ for type_ in OWNED[kind] if type_ not in OPTIONAL]
    assert all(c.reason for c in response.conditions)
    assert "InternalError" not in {c.reason for c in response.conditions}


@pytest.mark.parametrize(
    "kind", ["ClusterModel", "InferenceEnvironment", "ModelDeployment", "ModelPlacement", "ModelCache"]
)
@QUICK
@given(data=st.data())
def test_any_value_anywhere_in_a_spec(serving: ControlPlane, kind: str, data: st.DataObject) -> None:
    request = _request(serving, kind)
    spec: Manifest = resource.struct_to_dict(request.observed.composite.resource)["spec"]
    path = data.draw(st.sampled_from(list_places(spec)))
    broken = replace_place(spec, path, data.draw(VALUES))
    resource.update(request.observed.composite, {"spec": None})
    request.observed.composite.resource.update({"spec": broken})
    _check(request, kind)
    services = {key for key in request.observed.resources if key.startswith("service-")}
    assert services <= set(call(request).desired.resources), "a slip in a spec takes no service down"


@pytest.mark.parametrize(
    ("kind", "requirement"),
    [
        ("ModelDeployment", "model"),
        ("ModelDeployment", "environment-"),
        ("ModelDeployment", "own-placements"),
        ("ModelDeployment", "environments"),
        ("InferenceEnvironment", "placements-on-"),
        ("ModelPlacement", "model"),
        ("ModelPlacement", "environment"),
        ("ModelPlacement", "cache"),
        ("ModelCache", "environments"),
    ],
)
@QUICK
@given(data=st.data())
def test_any_value_anywhere_in_what_is_required(
    serving: ControlPlane, kind: str, requirement: str, data: st.DataObject
) -> None:
    request = _request(_many() if requirement == "environments" and kind == "ModelDeployment" else serving, kind)
    name = next(name for name in request.required_resources if name.startswith(requirement))
    item = request.required_resources[name].items[0]
    manifest: Manifest = resource.struct_to_dict(item.resource)
    paths = [p for p in list_places(manifest) if p[0] in {"spec", "status"}]
    broken = replace_place(manifest, data.draw(st.sampled_from(paths)), data.draw(VALUES))
    item.resource.Clear()
    assert isinstance(broken, dict)
    item.resource.update(broken)
    _check(request, kind)
    kept = {key for key in request.observed.resources if key.startswith(("service-", "placement-"))}
    assert kept <= set(call(request).desired.resources), "another object's slip takes nothing down"


@QUICK
@given(seed=st.integers(0, 10**6))
def test_order_of_environments_and_placements_changes_nothing(seed: int) -> None:
    request = _request(_many(), "ModelDeployment")
    assert len(request.required_resources["environments"].items) > 3, "one that has not all looks at everything"
    wanted = call(request).SerializeToString(deterministic=True)
    shuffled = fnv1.RunFunctionRequest()
    shuffled.CopyFrom(request)
    for found in shuffled.required_resources.values():
        items = list(found.items)
        random.Random(seed).shuffle(items)
        del found.items[:]
        found.items.extend(items)
    assert call(shuffled).SerializeToString(deterministic=True) == wanted


@cache
def _many() -> ControlPlane:
    """Return a plane with several environments that do and do not fit, and a deployment that wants more of them."""
    found = manifests("two-environments")
    environment = next(m for m in found if m["kind"] == "InferenceEnvironment")
    for name in ("x-one", "b-two", "m-three"):
        other = copy.deepcopy(environment)
        other["metadata"] = {"name": name, "labels": {}}
        found.append(other)
    control = ControlPlane(renderer=plane("gemma-one-gpu").renderer)
    control.apply(found)
    change(control, only(control, "ModelDeployment"), "spec.environments", 9)
    control.settle()
    return control
