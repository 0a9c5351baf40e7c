"""An endpoint picker comes and goes without a change of what engines see, and without a lost request."""

from dataclasses import replace

import pytest

from function.kube.manifests import JSON, Manifest, get, mapping, text
from function.remote.composed_kinds import find_gpu_cluster_kind
from function.serving.picker import find_inference_pool
from tests.serving.test_rollouts import free, replicas
from tests.support.remote_scene import (
    ONE_NODE,
    SEVERAL_NODES,
    Edit,
    Scene,
    composed_service,
    edit_environment,
    edit_model,
    edit_observed,
    load_scene,
    observed_service,
    set_field,
)

ASKED = edit_model("serving.0.routing", "PrefixAware")
ABLE = edit_environment("kserve.scheduler", True)
MIRRORED = "status.atProvider.manifest"
POOL = "kimi-inference-pool"
NOW = 1_800_000_000


def _with_picker(service: Manifest) -> Manifest:
    return {
        **service,
        "spec": {**mapping(service, "spec"), "router": {"gateway": {}, "route": {}, "scheduler": {"replicas": 2}}},
    }


def test_a_running_service_gets_a_picker_and_no_other_change() -> None:
    scene = load_scene(SEVERAL_NODES)
    assert composed_service(scene.edited(ASKED, ABLE)) == _with_picker(observed_service(scene))


@pytest.mark.parametrize(
    ("story", "edits", "obstacle"),
    [
        (SEVERAL_NODES, (ASKED,), "kserve.scheduler of the environment is false"),
        (ONE_NODE, (ASKED, ABLE), "the weights are not on a claim; set modelCache.type: PVC"),
        (SEVERAL_NODES, (ABLE,), ""),
    ],
)
def test_a_service_without_a_picker_says_why(story: str, edits: tuple[Edit, ...], obstacle: str) -> None:
    scene = load_scene(story)
    assert composed_service(scene.edited(*edits)) == observed_service(scene)
    message = scene.condition("ServiceReady").message
    note = f". Routing PrefixAware has no effect: {obstacle}" if obstacle else ""
    assert scene.edited(*edits).condition("ServiceReady").message == message + note


def test_a_service_that_has_not_served_waits_with_its_picker() -> None:
    scene = load_scene(SEVERAL_NODES).edited(ASKED, ABLE, lambda s: set_field(s.xr, "status.served", None))
    assert get(composed_service(scene), "spec.router.scheduler") is None, "a gateway may accept no pool at all"
    written = scene.edited(
        edit_observed("service-", "spec.forProvider.manifest.spec.router.scheduler", {"replicas": 2})
    )
    assert get(composed_service(written), "spec.router.scheduler") == {"replicas": 2}


def test_a_picker_that_the_cluster_refuses_can_be_taken_back() -> None:
    denied: JSON = [{"type": "Synced", "status": "False", "message": "admission webhook denied the request"}]
    scene = load_scene(SEVERAL_NODES).edited(
        edit_observed("service-", "spec.forProvider.manifest.spec.router.scheduler", {"replicas": 2}),
        edit_observed("service-", "status.conditions", denied),
    )
    first = replace(scene, now=NOW).outcome().status
    assert get(first, "service.poolUnusedSince") == "2027-01-15T08:00:00Z"
    later = scene.edited(lambda s: set_field(s.xr, "status.service", mapping(first, "service")))
    assert get(composed_service(replace(later, now=NOW + 60)), "spec.router.scheduler") is None


def test_the_time_to_withdraw_does_not_run_while_the_cluster_does_not_answer() -> None:
    silent: JSON = [{"type": "Synced", "status": "False", "message": "dial tcp 10.0.0.1:443: i/o timeout"}]
    scene = load_scene(SEVERAL_NODES).edited(
        ASKED, _reported(2), _recorded(POOL), edit_observed("service-", "status.conditions", silent)
    )
    assert get(replace(scene, now=NOW).outcome().status, "service.poolUnusedSince") is None


def test_without_a_gateway_the_router_goes_after_the_pool() -> None:
    edits = ASKED, ABLE, edit_environment("kserve.gateway", False), _reported(2), _recorded(POOL)
    scene = replace(load_scene(SEVERAL_NODES).edited(*edits), now=NOW)
    assert get(composed_service(scene), "spec.router.scheduler") == {"replicas": 2}
    assert get(scene.outcome().status, "service.poolUnusedSince") == "2027-01-15T08:00:00Z"
    assert get(composed_service(replace(scene.edited(_withdrawn), now=NOW + 60)), "spec.router") is not None
    done = scene.edited(_withdrawn, _recorded(None))
    assert get(composed_service(replace(done, now=NOW + 60)), "spec.router") is None


def test_without_a_gateway_there_is_no_picker() -> None:
    edits = ASKED, ABLE, edit_environment("kserve.gateway", False)
    scene = load_scene(SEVERAL_NODES).edited(*edits)
    assert get(composed_service(scene), "spec.router") is None
    assert scene.condition("ServiceReady").message.endswith(
        "Routing PrefixAware has no effect: kserve.gateway of the environment is false"
    )


def _reported(pickers: int, pool_ready: str = "True", ready: str = "True") -> Edit:
    """Returns the edit of what KServe reports of a service with a picker."""

    def edit(scene: Scene) -> None:
        def put(path: str, value: JSON) -> None:
            edit_observed("service-", path, value)(scene)

        put("spec.forProvider.manifest.spec.router.scheduler", {"replicas": 2})
        put(f"{MIRRORED}.spec.router", {"scheduler": {"replicas": 2}})
        put(f"{MIRRORED}.status.router.scheduler", {"inferencePool": {"kind": "InferencePool", "name": POOL}})
        put(f"{MIRRORED}.status.workloads.scheduler", {"readyReplicas": pickers})
        for type_, status in (("Ready", ready), ("InferencePoolReady", pool_ready)):
            for manifest in scene.observed.values():
                conditions = get(manifest, f"{MIRRORED}.status.conditions")
                if get(manifest, f"{MIRRORED}.kind") == "LLMInferenceService" and isinstance(conditions, list):
                    others = [c for c in conditions if isinstance(c, dict) and c["type"] != type_]
                    message = "no Gateway controller has accepted it yet"
                    conditions[:] = [*others, {"type": type_, "status": status, "message": message}]

    return edit


def _recorded(value: JSON) -> Edit:
    return lambda scene: set_field(scene.xr, "status.service.inferencePool", value)


def _withdrawn(scene: Scene) -> None:
    set_field(scene.xr, "status.service.poolUnusedSince", "2027-01-15T08:00:00Z")  # `NOW`


@pytest.mark.parametrize(
    ("reported", "recorded", "expected"),
    [
        (_reported(2), None, POOL),
        (_reported(1), None, POOL),
        (_reported(-1), None, None),
        (_reported(0), POOL, None),  # a gateway refuses requests while no picker answers
        (_reported(2, pool_ready="False", ready="False"), None, None),  # the gateway has not accepted it yet
        (_reported(2, pool_ready="False", ready="False"), POOL, None),
        (_reported(2, ready="False"), None, None),
        (_reported(2, ready="False"), POOL, POOL),  # pods of the engine restart
    ],
)
def test_requests_may_go_to_the_pool_while_a_picker_answers(
    reported: Edit, recorded: JSON, expected: str | None
) -> None:
    scene = load_scene(SEVERAL_NODES).edited(ASKED, ABLE, reported, _recorded(recorded))
    assert get(scene.outcome().status, "service.inferencePool") == expected


@pytest.mark.parametrize(("pickers", "expected"), [(0, None), (1, POOL)])
def test_a_placement_whose_model_is_missing_does_not_keep_a_pool_without_a_picker(
    pickers: int, expected: str | None
) -> None:
    scene = load_scene(SEVERAL_NODES).edited(ASKED, ABLE, _reported(pickers), _recorded(POOL))
    recorded = get(scene.xr, "status.service")
    scene.answers.pop("model")
    service = mapping(
        {**scene.xr, "status": {**mapping(scene.xr, "status"), **scene.outcome().status}}, "status.service"
    )
    assert isinstance(recorded, dict)
    assert service == {
        **{k: v for k, v in recorded.items() if k != "inferencePool"},
        **({"inferencePool": expected} if expected else {}),
    }


def test_previews_show_the_pool() -> None:
    """KServe names it after the service; `modelplane render` follows a service until all that exists is there."""
    service = composed_service(load_scene(SEVERAL_NODES).edited(ASKED, ABLE))
    kind = find_gpu_cluster_kind(service)
    assert kind
    name = text(service, "metadata.name")
    assert find_inference_pool({**service, **kind.report_up(service)}, service, "") == f"{name}-inference-pool"


def test_conditions_of_the_picker_are_told_with_their_words() -> None:
    scene = load_scene(SEVERAL_NODES).edited(ASKED, ABLE, _reported(2, pool_ready="False", ready="False"))
    message = scene.condition("ServiceReady").message
    assert "InferencePoolReady: no Gateway controller has accepted it yet" in message


def test_a_picker_goes_a_minute_after_its_pool_was_withdrawn() -> None:
    scene = replace(load_scene(SEVERAL_NODES).edited(ASKED, _reported(2), _recorded(POOL)), now=NOW)
    plain = observed_service(load_scene(SEVERAL_NODES))
    first = scene.outcome().status
    assert composed_service(scene) == _with_picker(plain), "ModelServices still name the pool"
    assert (get(first, "service.inferencePool"), get(first, "service.poolUnusedSince")) == (
        None,
        "2027-01-15T08:00:00Z",
    )
    later = scene.edited(lambda s: set_field(s.xr, "status.service", mapping(first, "service")))
    assert replace(later, now=NOW + 1).outcome().ttl_seconds == 30, "it is looked at again when it may go"
    for seconds, expected in ((1, _with_picker(plain)), (59, _with_picker(plain)), (60, plain)):
        assert composed_service(replace(later, now=NOW + seconds)) == expected
        assert get(replace(later, now=NOW + seconds).outcome().status, "service.poolUnusedSince")
    gone = later.edited(edit_observed("service-", f"{MIRRORED}.spec.router", {}))
    assert get(replace(gone, now=NOW + 61).outcome().status, "service.poolUnusedSince") is None


def test_a_picker_that_is_asked_for_again_stays() -> None:
    scene = load_scene(SEVERAL_NODES).edited(ASKED, ABLE, _reported(2), _withdrawn)
    found = replace(scene, now=NOW + 3600)
    assert composed_service(found) == _with_picker(observed_service(load_scene(SEVERAL_NODES)))
    assert get(found.outcome().status, "service.inferencePool") == POOL
    assert get(found.outcome().status, "service.poolUnusedSince") is None


def test_a_picker_that_goes_replaces_no_pod_of_a_full_pool() -> None:
    written = edit_observed("service-", "spec.forProvider.manifest.spec.router.scheduler", {"replicas": 2})
    scene = load_scene(ONE_NODE).edited(replicas(1), free(), written, _withdrawn)
    scene = replace(scene, now=NOW + 60)
    assert get(composed_service(scene), "spec.router.scheduler") is None
    assert scene.outcome().events == ()
