"""A deployment is not Ready until it can be scheduled, and counts its Ready placements."""

import copy

from function.composers import compose
from function.contract import Call
from function.kube.manifests import Manifest, get, mapping
from function.reasons import ConditionType, Status
from tests.support.plane import fetched, only, plane


def at_rest() -> tuple[Manifest, Manifest, Manifest, Manifest]:
    """Return model, environment, deployment and its placement, which serves."""
    control = plane("kimi-k2-two-nodes")
    kinds = ("ClusterModel", "InferenceEnvironment", "ModelDeployment", "ModelPlacement")
    model, environment, deployment, placement = (
        copy.deepcopy(control.composites[only(control, kind)]) for kind in kinds
    )
    return model, environment, deployment, placement


def call(model: Manifest, environment: Manifest, deployment: Manifest, placement: Manifest) -> Call:
    first = Call(xr=deployment, observed={"placement-h200-east": placement})
    return fetched(first, (model, environment, placement))


def test_deployment_of_invalid_model_is_not_ready() -> None:
    """The serving placement is kept, but it does not have the spec of the deployment."""
    model, environment, deployment, placement = at_rest()
    mapping(model, "spec")["source"] = "Torrent"
    outcome = compose(call(model, environment, deployment, placement))
    conditions = {condition.type: condition for condition in outcome.conditions}
    assert conditions[ConditionType.MODEL_RESOLVED].reason == "ModelInvalid"
    assert conditions[ConditionType.SCHEDULED].status is Status.UNKNOWN
    assert outcome.ready is False
    assert outcome.composed.keys() == {"placement-h200-east"}


def test_unreachable_placement_is_not_counted() -> None:
    model, environment, deployment, placement = at_rest()
    ready: Manifest = {"type": "Ready", "status": "True"}
    silent: Manifest = {"type": "ServiceReady", "status": "Unknown", "reason": "Unreachable"}
    mapping(placement, "status")["conditions"] = [ready]
    outcome = compose(call(model, environment, deployment, placement))
    assert get(outcome.status, "environments.ready") == 1
    mapping(placement, "status")["conditions"] = [ready, silent]
    outcome = compose(call(model, environment, deployment, placement))
    assert get(outcome.status, "environments") == {"desired": 1, "placed": 1, "ready": 0}


def test_deleted_environment_keeps_its_placements() -> None:
    model, environment, deployment, placement = at_rest()
    mapping(environment, "metadata")["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    mapping(placement, "status")["conditions"] = [{"type": "Ready", "status": "True"}]
    outcome = compose(call(model, environment, deployment, placement))
    assert get(outcome.status, "environments") == {"desired": 1, "placed": 0, "ready": 1}
