"""The storage's speed: what a new service is given for its start, what is said of it, and what it leaves alone."""

from function.kube.manifests import listing, mapping
from tests.support.remote_scene import (
    ONE_NODE,
    SEVERAL_NODES,
    Scene,
    composed_service,
    edit_environment,
    edit_model,
    load_scene,
)

FAST = edit_environment("storage.readBandwidth", 2)
# The example's model says 1000Gi: 600 + 1000 x 8 + 1800 = 10400 s; 600 + 4 x 537 + 1800 = 4548 s, in whole tens.
UNMEASURED, MEASURED = 1040, 455


def patience(found: Scene) -> object:
    (main,) = listing(mapping(mapping(composed_service(found), "spec"), "template"), "containers")
    return mapping(main, "startupProbe")["failureThreshold"]


def new(story: str = SEVERAL_NODES) -> Scene:
    """Return a placement whose weights are there, and whose service is not."""
    found = load_scene(story).edited()
    for key in [key for key in found.observed if key.startswith("service-")]:
        found.observed.pop(key)
    return found


def test_startup_budget_follows_load_time() -> None:
    assert patience(new().edited(edit_model("resources.disk", "1000Gi"))) == UNMEASURED
    assert patience(new().edited(edit_model("resources.disk", "1000Gi"), FAST)) == MEASURED


def test_keeps_running_service_when_bandwidth_changes() -> None:
    before = load_scene(SEVERAL_NODES)
    assert before.edited(FAST).composed() == before.composed()


def test_reports_load_time() -> None:
    said = mapping(
        load_scene(SEVERAL_NODES).edited(edit_model("resources.disk", "1000Gi"), FAST).outcome().status, "storage"
    )
    assert said["loadTime"] == "8m57s", "the weights load in 1000 x 2^30 / 2e9 = 536.9 s"
    without = mapping(load_scene(SEVERAL_NODES).outcome().status, "storage")
    assert "loadTime" not in without


def test_estimates_no_load_for_empty_dir() -> None:
    assert patience(new(ONE_NODE).edited(FAST)) == patience(new(ONE_NODE))
    assert "loadTime" not in mapping(load_scene(ONE_NODE).edited(FAST).outcome().status, "storage")
