"""The outcome of each kind keeps within its bounds, for any input of authors and clusters."""

import copy
import json
from functools import partial

import pytest

from function.composers import compose
from function.contract import Answer, Call, Outcome, RequiredResource
from function.kube.manifests import JSON, Manifest, listing, mapping, text
from function.kube.messages import LIMIT
from function.reasons import ConditionType
from tests.support.plane import fetched, only, plane

STORY = "kimi-k2-two-nodes"
LONG = "ü" * 60


def _one(kind: str) -> Manifest:
    control = plane(STORY)
    return copy.deepcopy(control.composites[only(control, kind)])


def _answer(*manifests: Manifest) -> Answer:
    return tuple(RequiredResource(json.dumps(m).encode(), partial(copy.deepcopy, m)) for m in manifests)


def _message(outcome: Outcome, type_: ConditionType) -> str:
    (found,) = (c for c in outcome.conditions if c.type is type_)
    return found.message


def _bounded(outcome: Outcome) -> bool:
    said = [c.message for c in outcome.conditions] + [e.message for e in outcome.events]
    return all(len(message.encode()) <= LIMIT for message in said)


@pytest.mark.parametrize("environments", [40, 100])
def test_bounds_message_of_waiting_placements(environments: int) -> None:
    environment, deployment, placement = map(_one, ("InferenceEnvironment", "ModelDeployment", "ModelPlacement"))
    mapping(deployment, "spec")["environments"] = environments
    del deployment["status"]
    there, observed = [], {}
    for number in range(environments):
        name = f"an-environment-with-a-long-name-{number:03}".ljust(63, "x")
        there.append({**environment, "metadata": {**mapping(environment, "metadata"), "name": name}})
        made = copy.deepcopy(placement)
        mapping(made, "metadata")["name"] = f"placement-{number}".ljust(253, "x")
        mapping(made, "spec.inferenceEnvironmentRef")["name"] = name
        made["status"] = {"phase": "Failed"}
        observed[f"placement-{name}"] = made
    model = _one("ClusterModel")
    first = Call(xr=deployment, observed=observed)
    outcome = compose(fetched(first, (model, *there, *observed.values())))
    assert f"0 of {environments} placements are ready" in _message(outcome, ConditionType.PLACEMENTS_READY)
    assert _bounded(outcome)
    assert len(listing(outcome.status, "placements")) == environments
    nowhere = compose(fetched(Call(xr=deployment), (model, *_full(there))))
    assert _bounded(nowhere)
    assert len(listing(nowhere.status, "unplaced")) <= 100


def _full(environments: list[Manifest]) -> list[Manifest]:
    full = copy.deepcopy(environments)
    for environment in full:
        mapping(environment, "metadata").pop("uid")
        for pool in listing(environment, "spec.nodePools"):
            pool["maxNodeCount"] = 1
    return full


def test_bounds_message_of_invalid_pools() -> None:
    environment = _one("InferenceEnvironment")
    pool = listing(environment, "spec.nodePools")[0]
    bad: list[JSON] = [
        {**pool, "name": LONG, "acceleratorCount": -1, "nodeCount": LONG, "capabilities": {"memoryPerGpu": LONG}}
        for _ in range(32)
    ]
    mapping(environment, "spec")["nodePools"] = bad
    del environment["status"]
    outcome = compose(Call(xr=environment, answers={"placements": ()}))
    assert "spec.nodePools[0]" in _message(outcome, ConditionType.POOLS_VALID)
    assert _bounded(outcome)
    assert outcome.events


def test_bounds_message_of_invalid_profiles() -> None:
    model = _one("ClusterModel")
    profile = listing(model, "spec.serving")[0]
    mapping(profile, "engine")["args"] = [f"--{LONG}{{{{" for _ in range(128)]
    mapping(model, "spec")["serving"] = [{**copy.deepcopy(profile), "name": f"p{n}"} for n in range(8)]
    del model["status"]
    outcome = compose(Call(xr=model))
    assert "spec.serving[0].engine.args[0]" in _message(outcome, ConditionType.MODEL_VALID)
    assert _bounded(outcome)
    rows = listing(outcome.status, "profiles")
    assert [text(row, "name") for row in rows] == [f"p{n}" for n in range(8)]
    assert all(0 < len(text(row, "message").encode()) <= LIMIT for row in rows)


def test_bounds_messages_of_provider() -> None:
    control = plane(STORY)
    ref = only(control, "ModelPlacement")
    observed = copy.deepcopy(control.store.owned(ref))
    said = "denied the request: " + LONG * 20_000
    failed: Manifest = {"conditions": [{"type": "Synced", "status": "False", "message": said}]}
    for manifest in observed.values():
        manifest["status"] = {**mapping(manifest, "status"), **failed}
    answers = {"model": _answer(_one("ClusterModel")), "environment": _answer(_one("InferenceEnvironment"))}
    outcome = compose(Call(xr=control.composites[ref], observed=observed, answers=answers))
    assert _bounded(outcome)
    assert len(json.dumps(outcome.status)) < 4 * LIMIT
