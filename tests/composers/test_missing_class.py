"""A StorageClass that the cluster does not have refuses what needs a claim of it, and nothing else."""

import pytest

from function.kube.manifests import condition, text
from tests.support.plane import only, plane, said
from tools.world import World

ABSENT = World(absent=frozenset({"StorageClass/shared-fast"}))


@pytest.mark.parametrize(
    ("story", "reason"), [("gemma-one-gpu", "Placed"), ("kimi-k2-two-nodes", "SharedStorageMissing")]
)
def test_missing_class_refuses_only_models_on_claims(story: str, reason: str) -> None:
    control = plane(story, ABSENT, {"storageClassName": "shared-fast"})
    environment, deployment = only(control, "InferenceEnvironment"), only(control, "ModelDeployment")
    assert said(control, environment, "StorageReady") == ("False", "StorageClassNotFound")
    assert said(control, environment, "Ready")[0] == "True"
    scheduled = condition(control.composites[deployment], "Scheduled")
    assert scheduled["reason"] == reason
    missing = "StorageClass shared-fast does not exist on the cluster; create it or name another"
    assert (missing in text(scheduled, "message")) == (reason != "Placed")


def test_places_model_once_its_class_exists() -> None:
    control = plane("kimi-k2-two-nodes", ABSENT)
    control.world = World()
    control.settle()
    assert said(control, only(control, "ModelDeployment"), "Scheduled")[1] == "Placed"


def test_what_serves_stays_when_its_class_goes() -> None:
    control = plane("kimi-k2-two-nodes")
    placement = only(control, "ModelPlacement")
    before = control.rounds[-1].rendered[placement].composed
    control.world = ABSENT
    control.settle()
    assert said(control, only(control, "InferenceEnvironment"), "StorageReady")[1] == "StorageClassNotFound"
    assert control.rounds[-1].rendered[placement].composed == before
    assert said(control, placement, "Ready")[0] == "True"
