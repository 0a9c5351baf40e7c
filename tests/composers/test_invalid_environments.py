"""A fault in an environment's spec changes nothing that was observed of it, and asks for no more than before."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from function.cli.store import Ref
from function.composers import compose
from function.contract import Call, Outcome
from function.kube.manifests import JSON, Manifest, condition, get, listing, mapping, text
from function.parts import requirements
from tests.composers.test_nodes import COLLECTION, H200, another, at_rest, four, pools, show
from tests.support.nodes import POOL, node
from tests.support.plane import change, only, reconciled, said
from tools.control_plane import ControlPlane

CORDONED = four(gpu3=node("gpu3", H200, cordoned=True))
FACTS: Manifest = {
    "nodes": 4,
    "usable": 3,
    "gpusPerNode": 8,
    "unusable": [{"reason": "Cordoned", "count": 1, "nodes": ["gpu3"]}],
}


def _invalidate(key: str, value: JSON) -> Callable[[ControlPlane], None]:
    """Return an edit that gives a field of every pool an invalid value."""

    def edit(control: ControlPlane) -> None:
        ref = only(control, "InferenceEnvironment")
        edited: list[JSON] = [{**pool, key: value} for pool in listing(control.composites[ref], "spec.nodePools")]
        change(control, ref, "spec.nodePools", edited)

    return edit


def _set(path: str, value: JSON) -> Callable[[ControlPlane], None]:
    return lambda control: change(control, only(control, "InferenceEnvironment"), path, value)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A fault of the spec; `condition` reports it."""

    id: str
    fault: Callable[[ControlPlane], None]
    condition: tuple[str, str, str]


CASES = (
    Case(
        id="pool",
        fault=_invalidate("capabilities", {"memoryPerGpu": "141 gigs"}),
        condition=("PoolsValid", "False", "InvalidPool"),
    ),
    Case(id="pool-name", fault=_invalidate("name", 5), condition=("PoolsValid", "False", "InvalidPool")),
    Case(id="no-list", fault=_set("spec.nodePools", "h200"), condition=("PoolsValid", "False", "InvalidPool")),
    Case(id="storage", fault=_set("spec.storage", "shared"), condition=("StorageReady", "False", "NotConfigured")),
    Case(
        id="hardware",
        fault=_set("spec.hardware", {"observe": "Sometimes"}),
        condition=("HardwareAsDeclared", "False", "NotObserved"),
    ),
    Case(
        id="cluster",
        fault=_set("spec.cluster.existing.secretRef", "kubeconfig"),
        condition=("ClusterReady", "False", "KubeconfigMissing"),
    ),
)


def answer(control: ControlPlane, environment: Manifest, *, nodes: bool = True) -> Outcome:
    """Return the outcome of an environment's reconcile; without `nodes` Crossplane has not listed those yet."""
    first = Call(xr=environment, observed=control.store.owned(only(control, "InferenceEnvironment")))
    call, outcome = reconciled(first, (control.store[ref] for ref in control.store))
    if nodes:
        return outcome
    return compose(replace(call, answers={k: v for k, v in call.answers.items() if k != requirements.NODES}))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_keeps_node_facts_while_the_spec_is_invalid(case: Case) -> None:
    control = at_rest()
    show(control, CORDONED)
    ref = only(control, "InferenceEnvironment")
    composed, spec = control.store.owned(ref).keys(), mapping(control.store[COLLECTION], "spec")
    assert [get(pool, "observed") for pool in pools(control)] == [FACTS]
    case.fault(control)
    control.settle()
    type_, *want = case.condition
    assert said(control, ref, type_) == tuple(want)
    assert control.store.owned(ref).keys() == composed
    assert mapping(control.store[COLLECTION], "spec") == spec
    assert [(pool["name"], pool["observed"]) for pool in pools(control)] == [("h200", FACTS)]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_knows_unusable_nodes_as_soon_as_the_spec_is_corrected(case: Case) -> None:
    control = at_rest()
    show(control, CORDONED)
    ref = only(control, "InferenceEnvironment")
    before = control.composites[ref]
    case.fault(control)
    control.settle()
    corrected = {**control.composites[ref], "spec": before["spec"]}
    outcome = answer(control, corrected, nodes=False)
    assert outcome.status == {k: v for k, v in mapping(before, "status").items() if k != "conditions"}
    control.composites[ref] = corrected
    control.apply([another("late")])
    control.settle()
    late = Ref("ModelDeployment", "assistants", "late")
    # Two of four nodes are in use and one is cordoned; a replica takes two.
    assert said(control, late, "Scheduled") == ("False", "InsufficientCapacity")
    assert "3 usable (gpu3 is cordoned)" in text(condition(control.composites[late], "Scheduled"), "message")


def test_reports_why_no_nodes_are_compared_while_no_pool_is_valid() -> None:
    control = at_rest()
    show(control, CORDONED)
    CASES[0].fault(control)
    control.settle()
    found = condition(control.composites[only(control, "InferenceEnvironment")], "HardwareAsDeclared")
    assert (found["status"], found["reason"], found["message"]) == (
        "Unknown",
        "NotObserved",
        "No pool is valid, see PoolsValid; what is known of the nodes is kept until then",
    )


def test_observes_nodes_while_one_of_two_pools_is_valid() -> None:
    """The selector of the collection is made of the labels of all pools, and one pool cannot be read."""
    control = at_rest()
    ref = only(control, "InferenceEnvironment")
    (h200,) = listing(control.composites[ref], "spec.nodePools")
    h100: Manifest = {**h200, "name": "h100", "labels": {POOL: "h100"}}
    change(control, ref, "spec.nodePools", [h200, h100])
    control.settle()
    show(control, [*CORDONED, node("small1", {POOL: "h100"}, cordoned=True)])
    spec, rows = mapping(control.store[COLLECTION], "spec"), pools(control)
    assert [(row["name"], get(row, "observed.usable")) for row in rows] == [("h200", 3), ("h100", 0)]
    change(control, ref, "spec.nodePools", [{**h200, "capabilities": {"memoryPerGpu": "141 gigs"}}, h100])
    control.settle()
    assert mapping(control.store[COLLECTION], "spec") == spec
    kept = {key: rows[0][key] for key in ("name", "nodeSelector", "gpuResource")}
    assert pools(control) == [rows[1], {**kept, "observed": FACTS}]


def test_forgets_a_pool_that_the_user_removed() -> None:
    control = at_rest()
    show(control, CORDONED)
    change(control, only(control, "InferenceEnvironment"), "spec.nodePools", [])
    control.settle()
    assert COLLECTION not in control.store
    (row,) = pools(control)
    assert row.keys() == {"name", "nodeSelector", "gpuResource", "observed"}, (
        "the placement has no other pool, and stays"
    )
    control.delete(only(control, "ModelDeployment"))
    control.settle()
    assert pools(control) == []


def test_observes_no_nodes_if_turned_off_while_a_pool_is_invalid() -> None:
    control = at_rest()
    show(control, CORDONED)
    CASES[0].fault(control)
    change(control, only(control, "InferenceEnvironment"), "spec.hardware", {"observe": "Never"})
    control.settle()
    assert COLLECTION not in control.store
