"""A route on a cluster names InferencePools for inference requests only, and Services where a gateway refuses pools."""

from dataclasses import replace

from function.kube.manifests import listing
from tests.support.builders import with_service
from tests.support.traffic_scene import SETTLE, at_rest, backends, gateway, serving

PLACEMENT = serving("stable", "e1", 2, inference_pool="stable-pool")
SERVICE, POOL = ("Service", "stable-e1-workload"), ("InferencePool", "stable-pool")
ROOT = "/services/team/chat"
# What the endpoint picker answers (docs/facts.md); it answers 400 to anything else.
INFERENCE = [f"{ROOT}/v1/{path}" for path in ("chat/completions", "completions", "messages", "responses")]


def test_only_inference_requests_go_to_the_pool() -> None:
    plane = at_rest(backends(stable=1), PLACEMENT)
    assert plane.remote_backends("10.0.0.1") == {**{path: [POOL] for path in INFERENCE}, ROOT: [SERVICE]}
    assert plane.route() == {"10.0.0.1": 1}


def test_placements_with_and_without_a_pool_share_a_route() -> None:
    plane = at_rest(backends(stable=1, canary=1), PLACEMENT, serving("canary", "e1", 2))
    other = "Service", "canary-e1-workload"
    found = plane.remote_backends("10.0.0.1")
    assert found == {**{path: [other, POOL] for path in INFERENCE}, ROOT: [other, SERVICE]}


def test_requests_go_round_robin_as_soon_as_no_picker_answers() -> None:
    plane = at_rest(backends(stable=1), PLACEMENT)
    plane.replace(with_service(PLACEMENT, inference_pool=""))
    plane.step()
    assert plane.remote_backends("10.0.0.1") == {ROOT: [SERVICE]}
    plane.replace(PLACEMENT)
    plane.step()
    assert plane.remote_backends("10.0.0.1")[INFERENCE[0]] == [POOL]


def test_a_gateway_that_does_not_know_pools_gets_services_from_then_on() -> None:
    plane = at_rest(backends(stable=1), with_service(PLACEMENT, inference_pool=""))
    plane.knows_pools = False
    plane.replace(PLACEMENT)
    plane.settle()
    assert plane.remote_backends("10.0.0.1") == {ROOT: [SERVICE]}
    assert plane.rows()["e1"]["inferencePoolsRefused"] is True
    (condition,) = (c for c in plane.outcome.conditions if c.type == "EndpointsReady")
    assert condition.message == (
        "1 of 1 endpoints get requests. No endpoint picker divides the requests on e1, as its gateway does not know "
        "InferencePools (ResolvedRefs is InvalidKind)"
    )
    for pool in ("", "stable-pool"):  # the pickers restart
        plane.replace(with_service(PLACEMENT, inference_pool=pool))
        plane.settle()
        assert plane.rows()["e1"]["inferencePoolsRefused"] is True
        assert plane.remote_backends("10.0.0.1") == {ROOT: [SERVICE]}
    since = int(plane.now)
    plane.replace(with_service(PLACEMENT, inference_pool="", pool_unused_since=since))  # kserve.scheduler is false
    plane.settle()
    assert "inferencePoolsRefused" not in plane.rows()["e1"]


def test_only_the_very_paths_of_inference_go_to_the_pool() -> None:
    """A picker answers 400 to a request without a model, such as POST /v1/responses/{id}/cancel."""
    plane = at_rest(backends(stable=1), PLACEMENT)
    rules = plane.remote_rules("10.0.0.1")
    assert [listing(rule, "matches")[0] for rule in rules] == [
        *({"path": {"type": "Exact", "value": path}} for path in INFERENCE),
        {"path": {"type": "PathPrefix", "value": ROOT}},
    ]
    assert [listing(rule, "filters")[0]["urlRewrite"] for rule in rules] == [
        *({"path": {"type": "ReplaceFullPath", "replaceFullPath": path.removeprefix(ROOT)}} for path in INFERENCE),
        {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
    ]


def test_the_route_to_a_pool_stays_until_the_gateways_have_forgotten_the_placement() -> None:
    plane = at_rest(backends(stable=1), PLACEMENT, serving("stable", "e2"))
    plane.replace(replace(PLACEMENT, draining=True))
    plane.step()
    assert list(plane.route()) == ["10.0.0.2"], "it gets no new requests"
    steps = 0
    route = f"{gateway().key}/route"
    while route in plane.outcome.composed:
        assert plane.remote_backends("10.0.0.1")[INFERENCE[0]] == [POOL]
        plane.step()
        steps += 1
        assert steps < 60
    assert steps >= SETTLE
