"""An environment asks for its own placements, and for those of all namespaces only before its first ledger."""

import pytest

from function.contract import Call, Outcome, Requirement
from function.kube.manifests import JSON, Manifest, listing, mapping
from function.kube.names import LABEL_ENVIRONMENT, VERSION
from tests.support.plane import change, only, plane, reconciled
from tools.control_plane import ControlPlane

STORY = "kimi-k2-two-nodes"
NAME = "h200-east"
ALL = {"placements": Requirement(api_version=VERSION, kind="ModelPlacement")}
LABELLED = {
    f"placements-on-{NAME}": Requirement(api_version=VERSION, kind="ModelPlacement", labels={LABEL_ENVIRONMENT: NAME})
}
INVALID: Manifest = {"memoryPerGpu": "141 gigs"}


def outcome(control: ControlPlane, environment: Manifest) -> Outcome:
    """Return the outcome of a reconcile of the environment, with all that it asks for answered."""
    first = Call(xr=environment, observed=control.store.owned(only(control, "InferenceEnvironment")))
    return reconciled(first, (control.store[ref] for ref in control.store))[1]


def requested(found: Outcome) -> dict[str, Requirement]:
    """Return what is asked for of placements."""
    return {name: asked for name, asked in found.requirements.items() if asked.kind == "ModelPlacement"}


def with_spec(environment: Manifest, pools: list[JSON]) -> Manifest:
    return {**environment, "spec": {**mapping(environment, "spec"), "nodePools": pools}}


def with_status(environment: Manifest, status: Manifest) -> Manifest:
    return {**environment, "status": status}


def invalid(environment: Manifest) -> Manifest:
    """Return the environment with a fault in its only pool."""
    (pool,) = listing(environment, "spec.nodePools")
    return with_spec(environment, [{**pool, "capabilities": INVALID}])


def without_label(control: ControlPlane) -> None:
    """Take away the label by which the environment finds its placement, as after a restored backup."""
    change(control, only(control, "ModelPlacement"), "metadata.labels", None)


@pytest.fixture
def control() -> ControlPlane:
    return plane(STORY)


@pytest.fixture
def environment(control: ControlPlane) -> Manifest:
    """Return the environment at rest."""
    return control.composites[only(control, "InferenceEnvironment")]


@pytest.mark.parametrize("pools", ["invalid", "none", "no-gpus"])
def test_requires_its_own_placements_while_no_pool_is_valid(
    environment: Manifest, pools: str, control: ControlPlane
) -> None:
    (pool,) = listing(environment, "spec.nodePools")
    found: dict[str, list[JSON]] = {
        "invalid": [{**pool, "capabilities": INVALID}],
        "none": [],
        "no-gpus": [{**pool, "acceleratorCount": 0}],
    }
    edited = with_spec(environment, found[pools])
    for _ in range(3):
        result = outcome(control, edited)
        assert requested(result) == LABELLED
        edited = with_status(edited, dict(result.status))


def test_requires_its_own_placements_if_no_pool_was_ever_valid(control: ControlPlane, environment: Manifest) -> None:
    assert requested(outcome(control, with_status(invalid(environment), {}))) == LABELLED


def test_requires_all_placements_before_first_ledger(control: ControlPlane, environment: Manifest) -> None:
    assert requested(outcome(control, with_status(environment, {}))) == ALL


def test_requires_all_placements_before_first_ledger_of_new_pool(control: ControlPlane, environment: Manifest) -> None:
    """A placement that runs may name the pool already, be it by hand or since the pool was invalid."""
    (pool,) = listing(environment, "spec.nodePools")
    edited = with_spec(environment, [pool, {**pool, "name": "added", "labels": {"pool": "added"}}])
    first = outcome(control, edited)
    assert requested(first) == ALL
    assert requested(outcome(control, with_status(edited, dict(first.status)))) == LABELLED


def test_keeps_grants_while_pool_is_invalid(control: ControlPlane, environment: Manifest) -> None:
    without_label(control)
    granted = listing(environment, "status.admitted")
    assert len(granted) == 1
    broken = invalid(environment)
    for _ in range(3):
        result = outcome(control, broken)
        assert listing(result.status, "admitted") == granted
        broken = with_status(broken, dict(result.status))
    corrected = outcome(control, with_status(environment, mapping(broken, "status")))
    assert listing(corrected.status, "admitted") == granted


def test_finds_unlabelled_placement_after_status_was_lost(control: ControlPlane, environment: Manifest) -> None:
    """A restored backup has no status. The pool is corrected later, and what runs there must not be given away."""
    without_label(control)
    broken = with_status(invalid(environment), {})
    for _ in range(3):
        broken = with_status(broken, dict(outcome(control, broken).status))
    status = mapping(broken, "status")
    for _ in range(3):
        result = outcome(control, with_status(environment, status))
        status = dict(result.status)
    (pool,) = listing(status, "pools")
    assert pool["gpusInUse"] == 16
    assert [grant["name"] for grant in listing(status, "admitted")] == [only(control, "ModelPlacement").name]
