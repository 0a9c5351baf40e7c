"""A pool in use whose labels or name change: nothing that serves moves, and nothing new gets its GPUs (decision 41)."""

import copy
from collections.abc import Callable

import pytest

from function.kube.manifests import Manifest, condition, listing, mapping, text
from tests.support.plane import change, manifests, only, plane, said
from tools.control_plane import ControlPlane

STORY, POOLS = "kimi-k2-two-nodes", "spec.nodePools"
OTHER: Manifest = {"modelplane.ai/pool": "other"}

Change = Callable[[Manifest], list[Manifest]]
CHANGES: dict[str, Change] = {
    "relabelled": lambda pool: [{**pool, "labels": OTHER}],
    "renamed": lambda pool: [{**pool, "name": "new"}],
    "renamed and its name reused": lambda pool: [{**pool, "labels": OTHER}, {**pool, "name": "new"}],
}


def _describe(control: ControlPlane) -> dict[str, object]:
    """Returns what must not change: the specs of the placement's Objects, the placement, and its grant."""
    specs: dict[str, object] = {
        ref.name: mapping(m, "spec") for ref, m in control.store.items() if ref.kind in {"Object", "ModelPlacement"}
    }
    return {**specs, "admitted": listing(control.composites[only(control, "InferenceEnvironment")], "status.admitted")}


@pytest.mark.parametrize("declare", CHANGES.values(), ids=CHANGES)
def test_placements_stay_and_nothing_new_is_placed(declare: Change) -> None:
    control = plane(STORY)
    environment = only(control, "InferenceEnvironment")
    (pool,) = listing(control.composites[environment], POOLS)
    before = _describe(control)
    change(control, environment, POOLS, declare(copy.deepcopy(pool)))
    control.settle()
    after = _describe(control)
    assert {key: after.get(key) for key in before} == before
    assert said(control, environment, "PoolsValid") == ("False", "PoolInUse")
    message = text(condition(control.composites[environment], "PoolsValid"), "message")
    assert "assistants/kimi-k2-" in message
    assert "serves" in message

    (deployment,) = (m for m in manifests(STORY) if m["kind"] == "ModelDeployment")
    second: Manifest = {**deployment, "metadata": {"name": "second", "namespace": "assistants"}}
    control.apply([second])
    control.settle()
    new = next(ref for ref in control.all("ModelDeployment") if ref.name == "second")
    assert said(control, new, "Scheduled") == ("False", "NoPoolSatisfiesRequirements")
    assert {key: _describe(control).get(key) for key in before} == before

    first = next(ref for ref in control.all("ModelDeployment") if ref.name != "second")
    control.delete(first)
    control.settle()
    assert said(control, environment, "PoolsValid") == ("True", "Valid"), "nothing serves there any more"
    assert said(control, new, "Scheduled") == ("True", "Placed")


def test_restored_pool_is_valid_again() -> None:
    control = plane(STORY)
    environment = only(control, "InferenceEnvironment")
    declared = copy.deepcopy(listing(control.composites[environment], POOLS))
    before = _describe(control)
    for pools in (CHANGES["renamed"](declared[0]), declared):
        change(control, environment, POOLS, pools)
        control.settle()
    assert said(control, environment, "PoolsValid") == ("True", "Valid")
    assert _describe(control) == before
