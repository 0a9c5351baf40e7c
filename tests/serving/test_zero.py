"""No replicas are requested, and there are none: that is ready, whatever KServe waits for meanwhile.

KServe 0.20 reports Ready=True at zero as soon as its routes are accepted, and Ready=False with MainWorkloadReady or
HTTPRoutesReady until then (docs/facts.md, KServe).
"""

import pytest

from function.kube.manifests import JSON
from function.reasons import Status
from tests.support.remote_scene import ONE_NODE, SEVERAL_NODES, Edit, Scene, at_rest, placement, put

NO_ROUTES = "The following HTTPRoutes are not ready"


def waiting(type_: str) -> Edit:
    """Let KServe have combined its presets and wait for something."""
    conditions: list[JSON] = [
        {"type": "PresetsCombined", "status": "True"},
        {"type": type_, "status": "False", "message": NO_ROUTES},
        {"type": "Ready", "status": "False", "message": NO_ROUTES},
    ]

    def edit(scene: Scene) -> None:
        for key, found in scene.observed.items():
            if key.startswith("service-"):
                put(found, "status.atProvider.manifest.status.conditions", conditions)

    return edit


@pytest.mark.parametrize("story", [ONE_NODE, SEVERAL_NODES])
@pytest.mark.parametrize("type_", ["HTTPRoutesReady", "MainWorkloadReady"])
def test_service_at_zero_does_not_wait_for_kserve(story: str, type_: str) -> None:
    scene = at_rest(story).edited(placement("replicas", 0), waiting(type_))
    serving = scene.said("ServiceReady")
    assert (serving.status, serving.reason) == (Status.TRUE, "ScaledToZero")
    assert serving.message == f"No replicas are requested. KServe: {type_}: {NO_ROUTES}"
    outcome = scene.outcome()
    assert all(item.ready for key, item in outcome.composed.items() if key.startswith("service-"))
    assert outcome.ready is None


def test_reports_refused_service_at_zero() -> None:
    def refused(found: Scene) -> None:
        conditions: list[JSON] = [{"type": "PresetsCombined", "status": "False", "message": "no such preset"}]
        for key, manifest in found.observed.items():
            if key.startswith("service-"):
                put(manifest, "status.atProvider.manifest.status.conditions", conditions)

    scene = at_rest(SEVERAL_NODES).edited(placement("replicas", 0), refused)
    assert scene.said("ServiceReady").status is Status.FALSE
    assert not any(item.ready for key, item in scene.outcome().composed.items() if key.startswith("service-"))


@pytest.mark.parametrize("type_", ["HTTPRoutesReady", "MainWorkloadReady"])
def test_service_with_replicas_waits_for_kserve(type_: str) -> None:
    composed = at_rest(SEVERAL_NODES).edited(waiting(type_)).outcome().composed
    assert [item.ready for key, item in composed.items() if key.startswith("service-")] == [False]
