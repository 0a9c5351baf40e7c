"""The order in which endpoints and placements enter and leave the routes."""

import itertools
import json
from dataclasses import replace

import pytest

from function.domain.placement import Placement
from function.kube.manifests import JSON, Manifest, format_time, listing, mapping, text
from tests.support.builders import with_service
from tests.support.traffic_scene import SETTLE, TrafficPlane, at_rest, backends, gateway, listed, serving, weights

NO_PARENTS = "no Gateway has seen it: its Gateway does not exist, or no controller serves it"
STABLE = (serving("stable", "e1", 2), serving("stable", "e2", 1))


def _state(plane: TrafficPlane, environment: str) -> tuple[str, object, str]:
    row = plane.rows()[environment]
    return str(row["state"]), row["weight"], text(row, "reason")


def test_example_of_two_deployments_on_two_clusters() -> None:
    plane = at_rest(backends(stable=9, canary=1), *STABLE, serving("canary", "e2", 1))
    assert plane.route() == {"10.0.0.1": 3, "10.0.0.2": 2}
    assert plane.remote("10.0.0.1") == {"stable-e1-workload": 1}
    assert plane.remote("10.0.0.2") == {"stable-e2-workload": 3, "canary-e2-workload": 1}
    assert plane.outcome.status["url"] == "https://models.example.com/services/team/chat"
    assert (plane.outcome.status["ready"], plane.outcome.status["total"]) == (2, 2)


def test_endpoint_gets_requests_once_its_routes_have_settled() -> None:
    plane = TrafficPlane(spec=backends(stable=1), placements=[STABLE[0]])
    reasons = []
    while not plane.route() if plane.outcome.composed else True:
        plane.step()
        reasons.append(text(plane.rows()["e1"], "reason"))
    assert reasons[:4] == [
        "its Service and EndpointSlice are not observed yet",
        "the route on the cluster is not ready: not created yet",
        f"the route on the cluster is not ready: {NO_PARENTS}",
        "waiting until the gateways have applied its routes",
    ]
    assert reasons[4:] == [reasons[3]] * (SETTLE - 1) + [""]


def test_wakes_only_while_something_settles() -> None:
    plane = TrafficPlane(spec=backends(stable=1), placements=[STABLE[0]])
    waits = [plane.step().ttl_seconds for _ in range(12)]
    assert waits == [30, 30, 30, 5, 4, 3, 2, 1, 600, 30, 600, 600], (
        "the TTL is 30 s while something is not ready at an unknown time"
    )


def test_two_environments_behind_one_gateway_are_one_endpoint() -> None:
    shared = gateway("http://10.0.0.1", environment="e2")
    plane = at_rest(backends(stable=1), STABLE[0], with_service(STABLE[1], gateway=shared))
    assert plane.route() == {"10.0.0.1": 1}
    assert plane.remote("10.0.0.1") == {"stable-e1-workload": 2, "stable-e2-workload": 1}
    assert list(plane.rows()) == ["e1, e2"]
    plane.placements = [with_service(STABLE[1], gateway=shared)]
    plane.settle()
    manifest = plane.outcome.composed[f"{shared.key}/route"].manifest
    assert text(manifest, "spec.providerConfigRef.name") == "config-e2"


def test_draining_endpoint_leaves_the_route_first_and_the_status_last() -> None:
    plane = at_rest(backends(stable=1), *STABLE)
    plane.replace(replace(STABLE[0], draining=True))
    key = gateway("http://10.0.0.1").key
    steps = 0
    while "stable-e1" in listed(plane):
        assert f"{key}/route" in plane.outcome.composed
        plane.step()
        assert plane.route() == {"10.0.0.2": 1}
        steps += 1
    assert steps == SETTLE + 3, "one step passes until the route is written, and one until the gateway has observed it"
    plane.settle()
    assert listed(plane) == {"stable-e2"}
    assert not any(name.startswith(key) for name in plane.outcome.composed)


def test_draining_placement_serves_until_another_one_of_its_deployment_can() -> None:
    plane = at_rest(backends(stable=9, canary=1), STABLE[0], serving("canary", "e3", 1))
    plane.replace(replace(STABLE[0], draining=True))
    plane.settle()
    assert plane.route() == {"10.0.0.1": 9, "10.0.0.3": 1}
    assert _state(plane, "e1") == ("Draining", 9, "")
    plane.placements.append(STABLE[1])
    while plane.route() == {"10.0.0.1": 9, "10.0.0.3": 1}:
        plane.step()
    assert plane.route() == {"10.0.0.1": 6, "10.0.0.2": 3, "10.0.0.3": 1}, (
        "the new placement serves beside the draining one"
    )
    plane.step()
    assert plane.route() == {"10.0.0.2": 9, "10.0.0.3": 1}, (
        "the draining placement leaves once the observed route names the other one"
    )
    plane.settle()
    assert "stable-e1" not in listed(plane)


def test_draining_first_environment_of_a_failover_serves_until_the_next_one_does() -> None:
    plane = at_rest(
        {**backends(stable=1), "distribution": "Failover", "environments": ["e1"]}, *STABLE, serving("stable", "e3", 1)
    )
    plane.replace(replace(STABLE[0], draining=True))
    plane.step()
    assert plane.route() == {"10.0.0.1": 1, "10.0.0.2": 1}
    assert _state(plane, "e3") == ("Serving", 0, "Failover: e2 comes first")
    plane.step()
    assert plane.route() == {"10.0.0.2": 1}


def test_draining_placement_serves_until_another_one_behind_its_gateway_does() -> None:
    shared = gateway("http://10.0.0.1", environment="e2")
    plane = at_rest(backends(stable=1), STABLE[0])
    plane.placements = [replace(STABLE[0], draining=True), with_service(STABLE[1], gateway=shared)]
    routes: list[dict[str, int]] = []
    while plane.step() and len(routes) < 5:
        routes.append(plane.remote("10.0.0.1"))
    both = {"stable-e1-workload": 2, "stable-e2-workload": 1}
    assert routes[:2] == [{"stable-e1-workload": 1}, both], (
        "both placements serve until the observed route names the new one"
    )
    assert routes[-1] == {"stable-e2-workload": 1}


def test_placement_leaves_a_gateway_that_serves_another_one() -> None:
    plane = at_rest(backends(stable=9, canary=1), STABLE[1], serving("canary", "e2", 1), serving("canary", "e1", 1))
    plane.replace(replace(serving("canary", "e2", 1), draining=True))
    plane.step()
    assert plane.remote("10.0.0.2") == {"stable-e2-workload": 1}
    steps = 1
    while "canary-e2" in listed(plane):
        assert plane.step()
        steps += 1
    assert steps == SETTLE + 3
    plane.settle()
    assert plane.remote("10.0.0.2") == {"stable-e2-workload": 1}


def test_listing_comes_before_requests() -> None:
    plane = at_rest(backends(stable=9, canary=1), STABLE[0])
    plane.placements.append(serving("canary", "e1", 1))
    plane.step()
    assert plane.remote("10.0.0.1") == {"stable-e1-workload": 1}
    (_, row) = sorted(listing(plane.rows()["e1"], "backends"), key=lambda r: text(r, "deployment"), reverse=True)
    assert text(row, "reason") == "it gets requests as soon as the status lists it"
    plane.step()
    assert plane.remote("10.0.0.1") == {"stable-e1-workload": 9, "canary-e1-workload": 1}


@pytest.mark.parametrize("part", ["route", "service", "slice"])
def test_endpoint_that_comes_back_while_a_part_is_deleted_gets_no_requests(part: str) -> None:
    """The endpoint was dropped and its cluster deletes slowly, so that its objects will be deleted soon."""
    plane = at_rest(backends(stable=1), *STABLE)
    plane.replace(with_service(STABLE[0], ready_replicas=0))
    plane.settle()
    plane.replace(STABLE[0])
    name = f"{gateway('http://10.0.0.1').key}/{part}"
    for _ in range(2 * SETTLE):
        if name in plane.observed:
            mapping(plane.observed[name], "metadata")["deletionTimestamp"] = format_time(int(plane.now))
        plane.step()
        assert plane.route() == {"10.0.0.2": 1}
    assert text(plane.rows()["e1"], "reason") == "its routes and its Service are being deleted"
    mapping(plane.observed[name], "metadata").pop("deletionTimestamp", None)
    plane.settle()
    assert plane.route() == {"10.0.0.1": 2, "10.0.0.2": 1}


def test_lost_pods_leave_the_route_and_come_back() -> None:
    plane = at_rest(backends(stable=1), *STABLE)
    plane.replace(with_service(STABLE[0], ready_replicas=0))
    plane.step()
    assert plane.route() == {"10.0.0.2": 1}
    assert _state(plane, "e1") == ("NotReady", 0, "no replica is ready")
    plane.settle()
    assert not any(name.startswith(gateway("http://10.0.0.1").key) for name in plane.outcome.composed)
    plane.replace(with_service(STABLE[0], ready_replicas=1))
    plane.settle()
    assert plane.route() == {"10.0.0.1": 1, "10.0.0.2": 1}


def test_endpoint_that_comes_back_in_time_keeps_its_routes() -> None:
    plane = at_rest(backends(stable=1), *STABLE)
    plane.replace(with_service(STABLE[0], ready_replicas=0))
    for _ in range(3):
        plane.step()
    plane.replace(STABLE[0])
    plane.settle()
    assert plane.route() == {"10.0.0.1": 2, "10.0.0.2": 1}


def test_placement_that_is_gone_leaves_at_once() -> None:
    plane = at_rest(backends(stable=1), *STABLE)
    plane.placements = [STABLE[1]]
    plane.step()
    assert plane.route() == {"10.0.0.2": 1}
    assert _state(plane, "e1") == ("Draining", 0, "waiting until the gateways have applied a route without it")
    assert plane.rows()["e1"]["address"] == "http://10.0.0.1"
    plane.settle()
    assert list(plane.rows()) == ["e2"]


def test_nothing_able_leaves_a_route_without_backends() -> None:
    plane = at_rest(backends(stable=1), replace(STABLE[0], deleting=True), serving("stable", "e2", gateway=None))
    assert plane.route() == {}
    assert _state(plane, "e1") == ("NotReady", 0, "it is being deleted")
    assert _state(plane, "e2")[2].startswith(
        "InferenceEnvironment e2 has no gateway: its kserve.gateway is false, or KServe"
    )
    assert "address" not in plane.rows()["e2"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"backend_service_name": ""}, "KServe has not reported the Kubernetes Service of its pods yet"),
        (
            {"gateway": gateway("http://models.example.com:443")},
            (
                "http://models.example.com:443 is the control plane's own gateway; "
                "set spec.gateway.url of InferenceEnvironment e1"
            ),
        ),
        (
            {"gateway": gateway("https://10.0.0.1")},
            "https://10.0.0.1 has no host name to verify; set spec.gateway.tls.hostname of InferenceEnvironment e1",
        ),
    ],
)
def test_says_what_keeps_a_placement_from_serving(fields: dict[str, object], reason: str) -> None:
    plane = at_rest(backends(stable=1), with_service(STABLE[0], **fields))
    assert _state(plane, "e1") == ("NotReady", 0, reason)


def test_placement_in_another_namespace_than_the_route_gets_nothing() -> None:
    other = serving("canary", "e1", namespace="prefix-team")
    plane = at_rest(backends(stable=1, canary=1), STABLE[0], other)
    rows = {text(row, "deployment"): text(row, "reason") for row in listing(plane.rows()["e1"], "backends")}
    assert sorted(filter(None, rows.values())) == ["it runs in namespace team, but the route is in prefix-team"]
    assert len(plane.remote("10.0.0.1")) == 1


def test_https_needs_a_policy() -> None:
    secure = with_service(STABLE[0], gateway=gateway("https://gw.example.com:8443", ca="gateway-ca"))
    plane = at_rest(backends(stable=1), secure)
    (policy,) = (item.manifest for key, item in plane.outcome.composed.items() if key.endswith("/tls"))
    (service,) = (item.manifest for key, item in plane.outcome.composed.items() if key.endswith("/service"))
    assert policy["spec"] == {
        "targetRefs": [{"group": "", "kind": "Service", "name": text(service, "metadata.name")}],
        "validation": {
            "hostname": "gw.example.com",
            "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "gateway-ca"}],
        },
    }
    plane.replace(with_service(STABLE[0], gateway=gateway("https://gw.example.com:8443", tls="name.example.com")))
    plane.settle()
    (policy,) = (item.manifest for key, item in plane.outcome.composed.items() if key.endswith("/tls"))
    validation = policy["spec"]["validation"]  # type: ignore[index,call-overload]  # as above
    assert validation == {"hostname": "name.example.com", "wellKnownCACertificates": "System"}


@pytest.mark.parametrize("versions", [(), ("v1alpha3",)], ids=["none", "earlier"])
def test_https_waits_where_the_control_plane_serves_no_policies(versions: tuple[str, ...]) -> None:
    """If the function composed a kind that does not exist, the ModelService would lose its status and all endpoints."""
    secure = with_service(STABLE[0], gateway=gateway("https://gw.example.com:8443"))
    plane = TrafficPlane(spec=backends(stable=1), placements=[secure, STABLE[1]], tls_versions=versions)
    plane.settle()
    assert not any(key.endswith("/tls") for key in plane.outcome.composed)
    assert plane.route() == {"10.0.0.2": 1}, "an endpoint that needs no policy serves"
    message = next(c.message for c in plane.outcome.conditions if c.type == "EndpointsReady")
    assert "does not serve BackendTLSPolicy v1, which https needs; install Gateway API 1.4 or later" in message
    plane.tls_versions = ("v1",)
    plane.settle()
    assert any(key.endswith("/tls") for key in plane.outcome.composed)
    assert plane.route() == {"gw.example.com": 2, "10.0.0.2": 1}, "the endpoints share the requests by their replicas"
    plane.tls_versions = ()
    plane.settle()
    assert plane.route() == {"gw.example.com": 2, "10.0.0.2": 1}, (
        "an observed policy stays, although the kind is no longer served"
    )


def test_failover_keeps_the_other_endpoint_prepared() -> None:
    plane = at_rest({**backends(stable=1), "distribution": "Failover", "environments": ["e2"]}, *STABLE)
    assert plane.route() == {"10.0.0.2": 1}
    assert _state(plane, "e1") == ("Serving", 0, "Failover: e2 comes first")
    plane.replace(with_service(STABLE[1], ready_replicas=0))
    plane.step()
    assert plane.route() == {"10.0.0.1": 1}, "the prepared endpoint serves at once"


def test_weight_0_is_prepared_and_gets_nothing() -> None:
    plane = at_rest(backends(stable=1, canary=0), STABLE[0], serving("canary", "e2", 1))
    assert plane.route() == {"10.0.0.1": 1}
    assert _state(plane, "e2") == ("Serving", 0, "the weight of canary is 0")
    assert plane.remote("10.0.0.2") == {"canary-e2-workload": 1}


def test_unreachable_endpoint_is_withdrawn_while_another_one_serves() -> None:
    plane = at_rest(backends(stable=1), *STABLE)
    plane.silent = {"e1"}
    plane.replace(replace(STABLE[0], unreachable=True))
    plane.step()
    assert plane.route() == {"10.0.0.2": 1}
    assert _state(plane, "e1") == ("Unreachable", 0, "its cluster does not answer, and other endpoints serve meanwhile")
    plane.silent = {"e1", "e2"}
    plane.replace(replace(STABLE[1], unreachable=True))
    for _ in range(20):
        plane.step()
        assert plane.route() == {"10.0.0.2": 1}, "the last weights stay while no cluster answers"
    plane.silent = set()
    plane.replace(*STABLE)
    plane.settle()
    assert plane.route() == {"10.0.0.1": 2, "10.0.0.2": 1}


def test_unreachable_endpoints_together_keep_their_weights() -> None:
    plane = at_rest(backends(stable=1), *STABLE)
    plane.silent = {"e1", "e2"}
    plane.replace(*(replace(p, unreachable=True) for p in STABLE))
    for _ in range(3):
        plane.step()
        assert plane.route() == {"10.0.0.1": 2, "10.0.0.2": 1}


@pytest.mark.parametrize("policy", ["Withdraw", "Keep"])
def test_endpoint_without_pods_leaves_although_the_other_cluster_does_not_answer(policy: str) -> None:
    plane = at_rest({**backends(stable=1), "onUnreachable": policy}, *STABLE)
    plane.silent = {"e1"}
    plane.replace(replace(STABLE[0], unreachable=True), with_service(STABLE[1], ready_replicas=0))
    plane.step()
    assert plane.route() == {"10.0.0.1": 2}
    assert f"{gateway('http://10.0.0.2').key}/service" in plane.outcome.composed, (
        "the Service stays until the gateways have applied the route without it"
    )


def test_weight_of_0_counts_although_no_cluster_answers() -> None:
    plane = at_rest(backends(stable=1, canary=1), STABLE[0], serving("canary", "e2", 1))
    plane.silent = {"e1", "e2"}
    plane.replace(*(replace(p, unreachable=True) for p in plane.placements))
    plane.spec = backends(stable=1, canary=0)
    plane.step()
    assert set(plane.route()) == {"10.0.0.1"}


def test_differences_between_backends_stop_nothing() -> None:
    canary = serving("canary", "e1", 1, traits=(("contextLength", "8192"),))
    plane = at_rest(backends(stable=1, canary=1), serving("stable", "e2", 1, traits=(("contextLength", "1"),)), canary)
    assert [c.type for c in plane.outcome.conditions if c.status != "True"] == ["BackendsAlike"]
    assert plane.outcome.ready is None, "the ModelService is ready if all of its resources are"
    assert plane.route() == {"10.0.0.1": 1, "10.0.0.2": 1}


@pytest.mark.parametrize("spec", [{"backends": []}, backends(stable=0)], ids=["no-backends", "no-weights"])
def test_invalid_spec_keeps_everything(spec: Manifest) -> None:
    plane = at_rest(backends(stable=1), *STABLE)
    composed = {key: item.manifest["spec"] for key, item in plane.outcome.composed.items() if "spec" in item.manifest}
    plane.spec = spec
    plane.step()
    kept = {key: item.manifest["spec"] for key, item in plane.outcome.composed.items() if "spec" in item.manifest}
    assert kept == composed


def test_keep_keeps_an_unreachable_endpoint() -> None:
    plane = at_rest({**backends(stable=1), "onUnreachable": "Keep"}, *STABLE)
    plane.silent = {"e1"}
    plane.replace(replace(STABLE[0], unreachable=True))
    for _ in range(3):
        plane.step()
        assert plane.route() == {"10.0.0.1": 2, "10.0.0.2": 1}
    assert _state(plane, "e1") == ("Unreachable", 2, "")


def test_draining_placement_stays_while_its_cluster_cannot_take_it_out() -> None:
    plane = at_rest(backends(stable=9, canary=1), STABLE[1], serving("canary", "e2", 1), serving("canary", "e1", 1))
    plane.silent = {"e2"}
    plane.replace(replace(serving("canary", "e2", 1), draining=True))
    for _ in range(20):
        plane.step()
    assert "canary-e2" in listed(plane)


def test_endpoint_without_its_service_leaves_the_route() -> None:
    plane = at_rest(backends(stable=1), *STABLE)
    del plane.observed[f"{gateway('http://10.0.0.1').key}/slice"]
    plane.step()
    assert plane.route() == {"10.0.0.2": 1}
    plane.settle()
    assert plane.route() == {"10.0.0.1": 2, "10.0.0.2": 1}


def test_placement_that_lost_its_labels_keeps_its_requests() -> None:
    plane = at_rest(backends(stable=1), *STABLE)
    plane.unlabelled = {STABLE[0].name}
    plane.step()
    assert plane.route() == {"10.0.0.1": 2, "10.0.0.2": 1}


@pytest.mark.parametrize("address", ["http://10.0.0.9", "http://10.0.0.1:8080"])
@pytest.mark.parametrize("unreachable", [False, True])
def test_gateway_with_a_new_address_keeps_the_old_one_until_the_new_one_serves(
    address: str, *, unreachable: bool
) -> None:
    plane = at_rest(backends(stable=1), STABLE[0])
    old, new = gateway("http://10.0.0.1").key, gateway(address).key
    plane.replace(replace(with_service(STABLE[0], gateway=gateway(address)), unreachable=unreachable))
    keys: list[list[str]] = []
    names: set[str] = set()
    for _ in range(20):
        plane.step()
        composed = {key: item.manifest for key, item in plane.outcome.composed.items()}
        (name,) = weights(composed["route"])
        serving = [key for key in (old, new) if text(composed.get(f"{key}/service"), "metadata.name") == name]
        keys.append(serving)
        names |= {text(composed[f"{key}/route"], "spec.forProvider.manifest.metadata.name") for key in serving}
    assert [key for key, _ in itertools.groupby(keys)] == [[old], [new]]
    assert len(names) == 2, "the new route has another name, so that deleting the old one does not delete it"
    assert {key.partition("/")[0] for key in composed} == {"route", new}


def test_old_address_whose_service_is_gone_leaves_the_route() -> None:
    plane = at_rest(backends(stable=1), STABLE[0])
    del plane.observed[f"{gateway('http://10.0.0.1').key}/service"]
    plane.replace(replace(with_service(STABLE[0], gateway=gateway("http://10.0.0.9")), unreachable=True))
    plane.step()
    assert weights(plane.outcome.composed["route"].manifest) == {}


def test_route_that_is_not_observed_names_what_it_did() -> None:
    plane = at_rest(backends(stable=1), *STABLE)
    del plane.observed["route"]
    plane.step()
    assert plane.route() == {"10.0.0.1": 2, "10.0.0.2": 1}


def test_reason_repeats_little_of_what_a_gateway_says() -> None:
    plane = TrafficPlane(spec=backends(stable=1), placements=[STABLE[0]])
    for _ in range(3):
        plane.step()
    remote = mapping(plane.observed[f"{gateway('http://10.0.0.1').key}/route"], "status.atProvider.manifest")
    generation = mapping(remote, "metadata")["generation"]
    refused: JSON = {"type": "Accepted", "status": "False", "observedGeneration": generation, "message": "x" * 32_768}
    mapping(remote, "status")["parents"] = [{"conditions": [refused]}]
    plane.step()
    assert "Accepted is False" in _state(plane, "e1")[2]
    assert len(json.dumps(plane.outcome.status)) < 2000


def test_endpoint_whose_slice_was_replaced_settles_again_whatever_an_old_status_says() -> None:
    plane = TrafficPlane(spec=backends(stable=1), placements=[STABLE[0]])
    while not (old := plane.rows().get("e1", {})).get("since"):
        plane.step()
    plane.now += SETTLE
    # A slice that was created at the end of this second has the same time, so it counts from the next second.
    created, counted = format_time(int(plane.now) - 1), format_time(int(plane.now))
    mapping(plane.observed[f"{gateway('http://10.0.0.1').key}/slice"], "metadata")["creationTimestamp"] = created
    plane.step(SETTLE - 1)
    assert plane.rows()["e1"]["since"] == counted > str(old["since"])
    plane.step()
    assert plane.route() == {}
    plane.step()
    assert plane.route() == {"10.0.0.1": 1}


@pytest.mark.parametrize("draining", [True, False], ids=["draining", "not-ready"])
def test_old_view_from_before_it_served_drops_no_endpoint(*, draining: bool) -> None:
    """The status and the route lag behind what was written, and the placement does not (found by history 511476)."""
    plane = at_rest(backends(stable=1), *STABLE)
    plane.replace(serving("stable", "e2", 0))
    for _ in range(3):
        plane.step()
    assert plane.route() == {"10.0.0.1": 1}
    assert "since" in plane.rows()["e2"]
    old = plane.status, plane.observed["route"]
    plane.replace(STABLE[1])
    for _ in range(SETTLE + 3):
        plane.step()
    assert plane.route() == {"10.0.0.1": 2, "10.0.0.2": 1}
    gone = replace(serving("stable", "e2", 0), unready_since=int(plane.now))
    plane.replace(replace(STABLE[1], draining=True) if draining else gone)
    plane.status, plane.observed["route"] = old
    key = gateway("http://10.0.0.2").key
    parts = {name for name in plane.observed if name.startswith(key)}
    for second in range(SETTLE):
        assert parts <= plane.step().composed.keys(), f"gateways may send requests to it in second {second}"
    plane.settle()
    assert listed(plane) == ({"stable-e1"} if draining else {"stable-e1", "stable-e2"})
    assert not any(name.startswith(key) for name in plane.outcome.composed)


def test_clock_that_was_ahead_delays_nothing_for_ever() -> None:
    plane = TrafficPlane(spec=backends(stable=1), placements=[STABLE[0]])
    for _ in range(5):
        plane.step()
    plane.now -= 10_000
    plane.settle()
    assert plane.route() == {"10.0.0.1": 1}


def test_lost_status_stops_nothing() -> None:
    plane = at_rest(backends(stable=9, canary=1), *STABLE, serving("canary", "e2", 1))
    plane.status = {}
    for _ in range(3):
        plane.step()
        assert set(plane.route()) == {"10.0.0.1", "10.0.0.2"}


def _many(count: int, **fields: object) -> list[Placement]:
    return [serving("stable", f"e{number}", number, **fields) for number in range(1, count + 1)]


def test_route_names_the_16_endpoints_with_the_largest_shares() -> None:
    plane = at_rest(backends(stable=1), *_many(18))
    assert plane.route() == {f"10.0.0.{number}": number for number in range(3, 19)}, (
        "the shares among the 16 endpoints are exact"
    )
    reason = "a route names at most 16 backends, and others come first"
    assert [_state(plane, name) for name in ("e1", "e2")] == [("Serving", 0, reason)] * 2
    assert (plane.outcome.status["ready"], plane.outcome.status["total"]) == (16, 18)


def test_endpoint_that_serves_stays_in_a_full_route() -> None:
    plane = at_rest(backends(stable=1), *_many(16))
    plane.placements.append(serving("stable", "e17", 99))
    plane.settle()
    assert plane.route() == {f"10.0.0.{number}": number for number in range(1, 17)}
    plane.replace(serving("stable", "e4", 0))
    plane.step()
    assert "10.0.0.4" not in plane.route()
    assert plane.route()["10.0.0.17"] == 99, "the endpoint serves at once, because it is prepared"


def test_deployment_that_nothing_serves_comes_first_where_there_is_room() -> None:
    plane = TrafficPlane(spec=backends(stable=99, canary=1), placements=[*_many(17), serving("canary", "e18", 1)])
    plane.settle()
    assert "10.0.0.18" in plane.route()
    assert len(plane.route()) == 16


def test_endpoints_change_places_in_a_full_route() -> None:
    others = [serving("other", f"e{number}", 1) for number in range(2, 17)]
    plane = at_rest(backends(stable=1, other=1), serving("stable", "e1", 1), *others, serving("other", "e18", 9))
    before = {*plane.route()}
    assert len(before) == 16
    plane.placements.append(serving("stable", "e17", 1))
    plane.replace(replace(serving("stable", "e1", 1), draining=True))
    plane.settle()
    assert {*plane.route()} == before - {"10.0.0.1"} | {"10.0.0.17"}
    assert "stable-e1" not in listed(plane)


def test_route_on_a_cluster_names_at_most_16_placements() -> None:
    shared = gateway("http://10.0.0.1", environment="e1")
    plane = TrafficPlane(spec=backends(stable=1), placements=_many(18, gateway=shared))
    plane.step()
    assert len(plane.remote("10.0.0.1")) == 16, "the route names at most 16 placements also before it gets requests"
    plane.settle()
    names = plane.remote("10.0.0.1")
    assert len(names) == 16
    rows = {text(row, "placement"): row for row in listing(next(iter(plane.rows().values())), "backends")}
    idle = {name for name, row in rows.items() if not row["weight"]}
    assert len(idle) == 2
    assert {text(rows[name], "reason") for name in idle} == {"a route names at most 16 backends, and others come first"}
    plane.replace(*(serving("stable", name.partition("-")[2], 99, gateway=shared) for name in idle))
    plane.settle()
    assert plane.remote("10.0.0.1").keys() == names.keys(), "placements that serve stay in the route"


def test_unreachable_cluster_does_not_delay_the_others() -> None:
    plane = at_rest(backends(stable=9, canary=1), *STABLE, serving("stable", "e3", 1))
    plane.silent = {"e1"}
    plane.replace(replace(STABLE[0], unreachable=True))
    plane.placements += [serving("canary", "e2", 1), serving("canary", "e4", 1)]
    plane.replace(replace(serving("stable", "e3", 1), draining=True))
    plane.settle()
    assert plane.route() == {"10.0.0.2": 19, "10.0.0.4": 1}
    assert plane.remote("10.0.0.2") == {"stable-e2-workload": 18, "canary-e2-workload": 1}
    assert "stable-e3" not in listed(plane)
    assert _state(plane, "e1")[0] == "Unreachable"


def test_service_takes_no_requests_of_another_namespace() -> None:
    plane = at_rest({**backends(stable=1), "hostnames": ["models.example.com"]}, STABLE[0])
    matches = []
    for item in plane.outcome.composed.values():
        route = mapping(item.manifest, "spec.forProvider.manifest") or item.manifest
        if text(route, "kind") == "HTTPRoute":
            matches += [match for rule in listing(route, "spec.rules") for match in listing(rule, "matches")]
            assert text(route, "metadata.namespace") == "team"
    assert matches == [{"path": {"type": "PathPrefix", "value": "/services/team/chat"}}] * 2
    assert all(requirement.namespace == "team" for requirement in plane.outcome.requirements.values())
