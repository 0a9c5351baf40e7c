"""The ledger of an environment over its lifetime, and the resources that a placement composes by it."""

import copy
from dataclasses import replace

import pytest

from function.cli.store import Ref
from function.composers import compose
from function.contract import Call, Outcome
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.reasons import ConditionType
from tests.support.plane import change, fetched, only, plane, said
from tools.control_plane import ControlPlane

STORY = "kimi-k2-two-nodes"
LEDGER = ("pools", "gpus", "admitted", "rejected")


def _environment(control: ControlPlane) -> Manifest:
    return copy.deepcopy(control.composites[only(control, "InferenceEnvironment")])


def _looked(control: ControlPlane, environment: Manifest) -> Outcome:
    """Return what an environment makes of all that stands on the control plane."""
    ref = only(control, "InferenceEnvironment")
    first = Call(xr=environment, observed=control.store.owned(ref))
    return compose(fetched(first, control.composites.values()))


def _ledger(outcome: Outcome) -> Manifest:
    return {key: outcome.status[key] for key in LEDGER}


def _placement(control: ControlPlane, environment: Manifest | None = None) -> Outcome:
    """Return what the placement makes of an environment as it is, or as given."""
    ref = only(control, "ModelPlacement")
    there = [m for m in control.composites.values() if m["kind"] != "InferenceEnvironment"]
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref))
    return compose(fetched(first, [*there, environment or _environment(control)]))


def _reason(outcome: Outcome, type_: ConditionType) -> str:
    (found,) = (c for c in outcome.conditions if c.type is type_)
    return found.reason


def _by_hand(control: ControlPlane, **spec: JSON) -> Ref:
    """Creates a placement by hand next to the placement that a deployment composed."""
    found = copy.deepcopy(control.composites[only(control, "ModelPlacement")])
    mine: Manifest = {key: found[key] for key in ("apiVersion", "kind", "spec")}
    labels: Manifest = {"modelplane.ai/environment": text(found, "spec.inferenceEnvironmentRef.name")}
    mine["metadata"] = {"name": "by-hand", "namespace": text(found, "metadata.namespace"), "labels": labels}
    mapping(mine, "spec").update(spec)
    mapping(mine, "spec").pop("deploymentRef")
    control.apply([mine])
    return Ref.of(mine)


def test_environment_with_ledger_requires_only_its_own_placements() -> None:
    control = plane(STORY)
    environment = _environment(control)
    assert _looked(control, environment).requirements["placements-on-h200-east"].labels == {
        "modelplane.ai/environment": "h200-east"
    }
    del environment["status"]
    assert _looked(control, environment).requirements["placements"].labels == {}


@pytest.mark.parametrize("lost", ["status", "uid and status", "labels", "labels and status"])
def test_running_placement_keeps_its_gpus(lost: str) -> None:
    """An upgrade from a release without ledgers, one made again, a wiped status, a label that a user removed."""
    control = plane(STORY)
    environment, before = _environment(control), _ledger(_looked(control, _environment(control)))
    assert listing(before, "admitted")
    if "status" in lost:
        del environment["status"]
    if "uid" in lost:
        mapping(environment, "metadata")["uid"] = "another"
    if "labels" in lost:
        change(control, only(control, "ModelPlacement"), "metadata.labels", {})
    assert _ledger(_looked(control, environment)) == before


def test_deleted_placement_releases_its_gpus() -> None:
    control = plane(STORY)
    environment = _environment(control)
    del control.composites[only(control, "ModelPlacement")]
    found = _ledger(_looked(control, environment))
    assert (found["admitted"], get(found, "gpus.inUse")) == ([], 0)


def test_keeps_ledger_of_invalid_environment() -> None:
    control = plane(STORY)
    environment = _environment(control)
    mapping(environment, "spec")["storage"] = {"accessMode": "Sometimes"}
    before = _ledger(_looked(control, _environment(control)))
    assert _ledger(_looked(control, environment)) == before


def test_writes_ledger_only_over_observed_version() -> None:
    control = plane(STORY)
    environment = _environment(control)
    mapping(environment, "metadata")["resourceVersion"] = "41"
    assert _looked(control, environment).version == "41"
    ref = only(control, "ModelPlacement")
    assert _placement(control).version == "", "a placement from a file has no version"
    change(control, ref, "metadata.resourceVersion", "42")
    assert _placement(control).version == "42", (
        "the status is written only over the observed version, so that no record is lost"
    )
    for key in control.store.owned(ref):
        if key.startswith("service-"):
            del control.store[Ref.of(control.store.owned(ref)[key])]
    assert _placement(control).version == "", "the composed resources change, so Crossplane reconciles again at once"


@pytest.mark.parametrize("gone", ["uid", "status", "published"])
def test_carries_over_until_placement_is_readmitted(gone: str) -> None:
    control = plane(STORY)
    environment, ref = _environment(control), only(control, "ModelPlacement")
    if gone == "uid":
        mapping(environment, "metadata")["uid"] = "another"
    mapping(environment, "status").update({"admitted": [], "rejected": []})
    if gone == "status":
        del environment["status"]
    change(control, ref, "spec.replicas", 2)
    outcome = _placement(control, environment)
    assert _reason(outcome, ConditionType.ADMITTED) == "Waiting"
    assert outcome.composed.keys() == control.store.owned(ref).keys()
    (service,) = (item for key, item in outcome.composed.items() if key.startswith("service-"))
    assert get(service.manifest, "spec.forProvider.manifest.spec.replicas") == 1, (
        "a replica that is not admitted is not started"
    )


def test_composes_nothing_for_placement_that_does_not_fit() -> None:
    """72 nodes of 4: it was served beside what was there (issue 13)."""
    control = plane(STORY)
    mine = _by_hand(control, replicas=36)
    control.settle()
    assert said(control, mine, "Admitted") == ("False", "Waiting")
    assert control.store.owned(mine) == {}
    theirs = only_composed(control)
    assert said(control, theirs, "ServiceReady") == ("True", "Serving")


def test_placement_by_hand_starts_when_capacity_is_free() -> None:
    control = plane(STORY)
    mine = _by_hand(control, replicas=2)
    control.settle()
    assert said(control, mine, "Admitted") == ("False", "Waiting")
    control.delete(only(control, "ModelDeployment"))
    control.settle()
    assert said(control, mine, "Admitted") == ("True", "Admitted")
    assert said(control, mine, "ServiceReady") == ("True", "Serving")


def test_starts_nothing_without_label() -> None:
    control = plane(STORY)
    mine = _by_hand(control)
    change(control, mine, "metadata.labels", {})
    control.settle()
    assert said(control, mine, "Admitted") == ("False", "LabelMissing")
    assert control.store.owned(mine) == {}


def only_composed(control: ControlPlane) -> Ref:
    """Return the placement that a deployment composed."""
    (found,) = (
        ref for ref in control.all("ModelPlacement") if text(control.composites[ref], "spec.deploymentRef.name")
    )
    return found


@pytest.mark.parametrize("name", ["environments", "placements", "selected-environments", "placements-on-h200-east"])
def test_ignores_answers_that_were_not_required(name: str) -> None:
    control = plane(STORY)
    ref = only(control, "ModelDeployment")
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref))
    call = fetched(first, control.composites.values())
    assert compose(replace(call, answers={**call.answers, name: ()})) == compose(call)


def _admitted(control: ControlPlane) -> list[str]:
    return [text(row, "name") for row in listing(_environment(control), "status.admitted")]


def test_placement_of_missing_model_holds_no_gpus() -> None:
    control = plane(STORY)
    mine = _by_hand(control, modelRef={"kind": "ClusterModel", "name": "later"})
    control.settle()
    assert "by-hand" not in _admitted(control)
    assert said(control, mine, "Admitted") == ("False", "CannotStart")
    model = copy.deepcopy(control.composites[only(control, "ClusterModel")])
    model["metadata"] = {"name": "later"}
    model.pop("status", None)
    control.apply([model])
    control.settle()
    assert "by-hand" in _admitted(control)
    assert said(control, mine, "ServiceReady") == ("True", "Serving")


@pytest.mark.parametrize(("path", "wrong"), [("spec.replicas", 10**9), ("spec.topology", {"nodes": 2})])
def test_invalid_placement_holds_no_gpus(path: str, wrong: object) -> None:
    control = plane(STORY)
    mine = _by_hand(control)
    right = copy.deepcopy(get(control.composites[mine], path))
    change(control, mine, path, wrong)
    control.settle()
    assert "by-hand" not in _admitted(control)
    assert said(control, mine, "Admitted") == ("False", "CannotStart")
    change(control, mine, path, right)
    control.settle()
    assert said(control, mine, "ServiceReady") == ("True", "Serving")


def test_serving_placement_keeps_gpus_when_model_is_deleted() -> None:
    control = plane(STORY)
    before = _admitted(control)
    del control.composites[only(control, "ClusterModel")]
    control.settle()
    assert before
    assert _admitted(control) == before
    assert said(control, only(control, "ModelPlacement"), "Admitted")[1] != "CannotStart"
