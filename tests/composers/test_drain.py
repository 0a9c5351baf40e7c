"""The condition Drained of an InferenceEnvironment, and how deployments leave an environment that is drained."""

from collections.abc import Sequence

import pytest

from function.cli.composing import reconcile
from function.cli.store import Ref
from function.composers import compose
from function.contract import Call
from function.kube.manifests import JSON, Manifest, condition, get, listing, mapping, text
from function.kube.names import LABEL_ENVIRONMENT
from tests.support.plane import change, only, plane, remote
from tools.control_plane import ControlPlane

OSLO, TOKYO = "a100-oslo", "h100-tokyo"
DRAIN: Manifest = {"key": "modelplane.ai/drain", "effect": "NoExecute", "reason": "new switch"}
REFUSED = "1/2 environments can run llama-3.3-70b-anywhere (2 desired): 1 is tainted"
MARKED = "serves until no ModelService sends it requests; see Scheduled of its deployment"
RESERVED: Manifest = {"key": "team", "value": "a", "effect": "NoSchedule"}


def on_one(environments: int = 1) -> ControlPlane:
    """Return a control plane with two environments, the first of which serves a deployment."""
    control = plane("two-environments")
    change(control, only(control, "ModelDeployment"), "spec.environments", environments)
    control.settle()
    assert places(control) == [OSLO, TOKYO][:environments]
    return control


def site(control: ControlPlane, name: str) -> Ref:
    """Return an environment."""
    (found,) = (ref for ref in control.all("InferenceEnvironment") if ref.name == name)
    return found


def taint(control: ControlPlane, *taints: Manifest) -> None:
    """Set the taints of the first environment."""
    entries: list[JSON] = [*taints]
    change(control, site(control, OSLO), "spec.taints", entries or None)


def places(control: ControlPlane) -> Sequence[str]:
    """Return the environments with a placement."""
    return sorted(
        text(control.store[ref], "spec.inferenceEnvironmentRef.name") for ref in control.all("ModelPlacement")
    )


def drained(control: ControlPlane) -> tuple[str, str, str]:
    """Return the condition Drained of the first environment."""
    found = condition(control.composites[site(control, OSLO)], "Drained")
    return text(found, "status"), text(found, "reason"), text(found, "message")


def test_environment_that_never_had_a_taint_has_no_condition() -> None:
    assert drained(on_one()) == ("", "", "")


def test_no_schedule_moves_nothing_and_condition_stays() -> None:
    control = on_one()
    want = ("False", "NotDraining", "The environment has no NoExecute taint")
    taint(control, RESERVED)
    control.settle()
    assert (places(control), drained(control)) == ([OSLO], want)
    taint(control)
    control.settle()
    assert (places(control), drained(control)) == ([OSLO], want)


def test_moves_and_serves_all_the_time() -> None:
    control = on_one()
    taint(control, DRAIN)
    seen = [drained(control)[1:]]
    for _ in range(20):
        control.advance()
        if drained(control)[1:] != seen[-1]:
            seen.append(drained(control)[1:])
        serving = [r for r in control.all("ModelPlacement") if get(control.store[r], "status.phase") == "Ready"]
        assert any(remote(control, ref, "service-") for ref in serving), "nothing serves"
    assert seen == [
        ("", ""),
        ("Draining", "1 placement left: search/llama is about to move"),
        ("Draining", f"1 placement left: search/llama serves until {TOKYO} is Ready"),
        ("Draining", f"1 placement left: search/llama {MARKED}"),
        ("Drained", "Nothing is left to move"),
    ]
    assert places(control) == [TOKYO]
    taint(control)
    control.settle()
    assert (places(control), drained(control)[1]) == ([TOKYO], "NotDraining"), (
        "placements do not move back after uncordon"
    )


def test_says_that_model_services_hold_a_placement() -> None:
    control = on_one()
    taint(control, DRAIN)
    change(control, only(control, "ModelPlacement"), "spec.draining", True)
    control.advance()
    assert drained(control)[1:] == ("Draining", f"1 placement left: search/llama {MARKED}")


def test_names_what_cannot_move_and_keeps_it() -> None:
    control = on_one(environments=2)
    taint(control, DRAIN)
    control.settle()
    assert places(control) == [OSLO, TOKYO]
    assert drained(control) == (
        "False",
        "Draining",
        f"1 placement left: search/llama cannot move: PartiallyPlaced ({REFUSED})",
    )


def test_what_tolerates_the_taint_stays_and_does_not_count() -> None:
    control = on_one()
    change(control, only(control, "ModelDeployment"), "spec.tolerations", [{"operator": "Exists"}])
    taint(control, DRAIN)
    control.settle()
    assert (places(control), drained(control)) == (
        [OSLO],
        ("True", "Drained", "Nothing is left to move. Staying, because they tolerate the taint: search/llama"),
    )


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"spec.environments": "two"}, "cannot move: its deployment is invalid"),
        ({"status": {}}, "cannot move yet: its deployment has no condition Scheduled"),
    ],
    ids=["invalid", "unanswered"],
)
def test_says_what_is_wrong_with_the_deployment(edit: Manifest, why: str) -> None:
    control = on_one()
    for path, value in edit.items():
        change(control, only(control, "ModelDeployment"), path, value)
    taint(control, DRAIN)
    control.advance()
    assert drained(control)[1:] == ("Draining", f"1 placement left: search/llama {why}")


@pytest.mark.parametrize(
    ("ref", "name", "why"),
    [
        (None, "by-hand", "was not written by a deployment, so nothing moves it"),
        ({"name": "gone"}, "gone", "is being deleted with its deployment"),
    ],
)
def test_placement_without_its_deployment_is_left(ref: JSON, name: str, why: str) -> None:
    control = on_one()
    placement = only(control, "ModelPlacement")
    change(control, placement, "spec.deploymentRef", ref)
    change(control, placement, "metadata.ownerReferences", None)
    if ref is None:
        name = placement.name
    taint(control, DRAIN)
    control.advance()
    assert drained(control)[1:] == ("Draining", f"1 placement left: search/{name} {why}")


def test_placements_that_hold_nothing_do_not_count() -> None:
    """Users can create any number of placements. Without admission, they have no resources to move."""
    control = on_one()
    running = control.composites[only(control, "ModelPlacement")]
    spec: Manifest = {**mapping(running, "spec"), "deploymentRef": {"name": "none"}, "replicas": 1000}
    control.apply(
        {
            "apiVersion": running["apiVersion"],
            "kind": "ModelPlacement",
            "metadata": {"name": f"by-hand-{number}", "namespace": "other", "labels": {LABEL_ENVIRONMENT: OSLO}},
            "spec": spec,
        }
        for number in range(2)
    )
    taint(control, DRAIN)
    control.advance()
    assert drained(control)[1:] == ("Draining", "1 placement left: search/llama is about to move")
    outcome = reconcile(control.store, control.composites[site(control, OSLO)])[1]
    deployments = {wanted.name for wanted in outcome.requirements.values() if wanted.kind == "ModelDeployment"}
    assert deployments == {"llama"}


def test_says_that_a_placement_is_being_deleted() -> None:
    """The deletion can take long, for example while the cluster does not answer."""
    control = on_one()
    change(control, only(control, "ModelPlacement"), "metadata.deletionTimestamp", "2026-01-01T00:00:00Z")
    taint(control, DRAIN)
    control.advance()
    assert drained(control)[1:] == ("Draining", "1 placement left: search/llama is being deleted")


def test_condition_is_unknown_until_everything_is_answered() -> None:
    control = on_one()
    taint(control, DRAIN)
    outcome = compose(Call(xr=control.composites[site(control, OSLO)], observed={}, answers={}, input={}, context={}))
    (found,) = (c for c in outcome.conditions if c.type == "Drained")
    assert (found.status, found.reason) == ("Unknown", "Draining")
    assert listing(control.composites[site(control, OSLO)], "status.pools")
