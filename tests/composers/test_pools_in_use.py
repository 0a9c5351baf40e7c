"""A pool in use whose labels or name change: nothing that serves moves, and nothing new gets its GPUs (decision 41)."""

import copy
from collections.abc import Callable

import pytest

from function.api.inference_environment import parse_environment
from function.domain.settings import BUILT_IN
from function.kube.manifests import Manifest, condition, listing, mapping, text
from function.remote.node_collection import select_nodes
from tests.support.plane import call, change, manifests, only, plane, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

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


def _label(pool: Manifest, value: str, name: str = "h200") -> Manifest:
    return {**pool, "name": name, "labels": {"modelplane.ai/pool": value}}


def _invalidate(pool: Manifest) -> Manifest:
    return {**pool, "capabilities": {**mapping(pool, "capabilities"), "interconnect": "bogus"}}


def _advance_until(control: ControlPlane, phase: str, count: int = 1) -> None:
    for _ in range(30):
        placements = [control.composites[ref] for ref in control.all("ModelPlacement")]
        if sum(text(placement, "status.phase") == phase for placement in placements) >= count:
            return
        control.advance()
    raise AssertionError(f"no placement is {phase}")


def test_corrects_the_labels_of_a_pool_to_which_a_placement_moves() -> None:
    """The placement served on its earlier pool, and its pods wait for nodes that do not exist."""
    control = plane(STORY)
    environment = only(control, "InferenceEnvironment")
    (pool,) = listing(control.composites[environment], POOLS)
    for pools in ([pool, _label(pool, "typo", "c")], [_label(pool, "typo", "c")]):
        change(control, environment, POOLS, pools)
        control.advance()
        control.advance()
    assert text(control.composites[only(control, "ModelPlacement")], "status.service.pool") == "h200"
    change(control, environment, POOLS, [_label(pool, "c", "c")])
    control.advance()
    assert said(control, environment, "PoolsValid") == ("True", "Valid")


def test_placement_without_service_is_not_ready_and_holds_no_labels() -> None:
    """Its download completes while its pool is invalid. It was Ready then, and counted as what serves."""
    control = ControlPlane(renderer=Engine(call, None), world=World())
    control.apply(manifests(STORY))
    environment = only(control, "InferenceEnvironment")
    (pool,) = listing(control.composites[environment], POOLS)
    change(control, environment, POOLS, [_label(pool, "typo")])
    _advance_until(control, "Downloading")
    change(control, environment, POOLS, [_invalidate(_label(pool, "typo"))])
    control.settle()
    assert said(control, only(control, "ModelPlacement"), "Ready")[0] == "False"
    assert said(control, only(control, "ModelDeployment"), "PlacementsReady")[0] != "True"
    change(control, environment, POOLS, [pool])
    control.settle()
    assert said(control, environment, "PoolsValid") == ("True", "Valid")
    assert said(control, only(control, "ModelDeployment"), "PlacementsReady")[0] == "True"


def test_observes_the_nodes_of_a_new_pool_beside_a_refused_one() -> None:
    control = plane(STORY)
    environment = only(control, "InferenceEnvironment")
    (pool,) = listing(control.composites[environment], POOLS)
    collection: Manifest = {"spec": {"observeObjects": {"selector": {"matchLabels": {"modelplane.ai/pool": "h200"}}}}}
    for pools, want in (
        ([_label(pool, "b"), _label(pool, "c", "c")], {"matchLabels": {"modelplane.ai/pool": "c"}}),
        ([_label(pool, "b")], {"matchLabels": {"modelplane.ai/pool": "h200"}}),
        ([_invalidate(pool), _label(pool, "c", "c")], {"matchLabels": {"modelplane.ai/pool": "h200"}}),
    ):
        change(control, environment, POOLS, pools)
        found = parse_environment(control.composites[environment], BUILT_IN).value
        assert select_nodes(found, collection) == want


def test_names_pools_in_use_also_beside_other_faults() -> None:
    control = plane(STORY)
    environment = only(control, "InferenceEnvironment")
    (pool,) = listing(control.composites[environment], POOLS)
    change(control, environment, POOLS, [_label(pool, "b")])
    change(control, environment, "spec.storage", {"sharedClaim": {"size": "bogus"}})
    control.settle()
    assert said(control, environment, "PoolsValid") == ("False", "PoolInUse")
    assert said(control, environment, "StorageReady")[0] == "False"


def test_environment_does_not_change_when_placements_become_ready() -> None:
    """Each change of its status wakes every placement on it."""
    control = plane(STORY)
    environment, ref = only(control, "InferenceEnvironment"), only(control, "ModelPlacement")
    before = mapping(control.composites[environment], "status")
    placement = copy.deepcopy(control.composites[ref])
    for name in ("ServiceReady", "Ready"):
        condition(placement, name)["status"] = "False"
    control.composites[ref] = {**placement, "status": {**mapping(placement, "status"), "readyReplicas": 0}}
    rendered = control.renderer.render(control.store, [environment])[0]
    assert mapping(rendered.composite, "status") == before
