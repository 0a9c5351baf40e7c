"""Dispatch of calls by kind, and faults in the settings that all calls share."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from tests.support.plane import call
from tests.test_cases import request_of
from tools.cases import read_case

STORIES = ("ModelPlacement/serving", "ModelDeployment/ready", "InferenceEnvironment/connected", "ModelCache/hydrated",
           "ClusterModel/valid", "ModelService/serving")  # fmt: skip


def _story(name: str) -> dict[str, Any]:
    return read_case(name)


def _answer(story: dict[str, Any]) -> dict[str, Any]:
    return dict(MessageToDict(call(request_of(story))))


@pytest.mark.parametrize("version", ["example.org/v1alpha1", "modelplane.ai/v2", "v1", ""])
@pytest.mark.parametrize("name", STORIES)
def test_rejects_kind_of_other_group_or_version(name: str, version: str) -> None:
    story = _story(name)
    story["xr"]["apiVersion"] = version
    answer = _answer(story)
    (event,) = answer["results"]
    kind = story["xr"]["kind"]
    assert event["message"].startswith(f"kind {kind} of {version or 'no group'} is not composed by this function")
    assert "modelplane.ai/v1alpha1" in event["message"]
    assert "conditions" not in answer
    assert "requirements" not in answer
    desired = answer.get("desired", {})
    assert set(desired.get("resources", {})) == set(story.get("observed", {})), (
        "the observed resources of this function are kept"
    )
    status = desired.get("composite", {}).get("resource", {}).get("status", {})
    assert bool(status) is (version.startswith("modelplane.ai/") and "status" in story["xr"]), (
        "the status of a foreign kind is not changed"
    )


SLIPS = {"ttl": {"settled": "soon", "pendin": "1m"}}
SAID = (
    "Platform settings: input.ttl.pendin: is not a field; did you mean pending?; "
    'input.ttl.settled: "soon" is not allowed; must be a duration like 30s, 10m or 1h30m'
)


@pytest.mark.parametrize("name", STORIES)
def test_reports_problems_of_settings(name: str) -> None:
    plain, slipped = _story(name), _story(name)
    slipped["input"] = {**plain.get("input", {}), **SLIPS}
    before, after = _answer(plain), _answer(slipped)
    said = [c.get("message", "") for c in after["conditions"]]
    first, *others = [c.get("message", "") for c in before["conditions"]]
    assert said == [f"{first}. {SAID}" if first else SAID, *others]
    assert [(c["status"], c["reason"]) for c in after["conditions"]] == [
        (c["status"], c["reason"]) for c in before["conditions"]
    ], "invalid settings do not change the other conditions"


def test_settings_problems_leave_room_for_condition() -> None:
    story = _story("ModelPlacement/serving")
    story["input"] = {"ttl": {f"field{i}": "ü" * 50 for i in range(100)}}
    message = _answer(story)["conditions"][0]["message"]
    note = "Platform settings: input.ttl.field0: is not a field"
    assert message.startswith(f"Model, environment and pool are known. {note}")
    assert "..." in message, "the middle of a long message is left out"
    assert len(message.encode()) <= 1024
