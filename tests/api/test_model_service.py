"""ModelServices: what is parsed, and what is refused with its path."""

import pytest

from function.api.model_service import parse_model_service, parse_service_view
from function.domain.model_service import BackendEntry, Distribution, EndpointEntry, EndpointState, ServiceView
from function.kube.manifests import JSON, Manifest, format_time


def _service(**spec: JSON) -> Manifest:
    return {"metadata": {"name": "chat", "namespace": "team"}, "spec": {"backends": [{"deployment": "a"}], **spec}}


def _problems(**spec: JSON) -> list[str]:
    parsed = parse_model_service(_service(**spec))
    assert parsed.value is None
    return [str(problem) for problem in parsed.problems]


def test_parses_the_least() -> None:
    service = parse_model_service(_service()).value
    assert service
    assert service.backends == {"a": 1}
    assert (service.distribution, service.withdraws_unreachable) == (Distribution.BY_REPLICAS, True)
    assert service.path == "/services/team/chat"


def test_parses_everything() -> None:
    service = parse_model_service(
        _service(
            backends=[{"deployment": "a", "weight": 9}, {"deployment": "b", "weight": 0}],
            distribution="Failover",
            environments=["e2", "e1"],
            onUnreachable="Keep",
            hostnames=["models.example.com", "*.example.org"],
        )
    ).value
    assert service
    assert service.backends == {"a": 9, "b": 0}
    assert service.order == ("e2", "e1")
    assert service.hostnames == ("models.example.com", "*.example.org")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"backends": []}, "spec.backends: [] is not allowed; must be at least 1 long"),
        ({"backends": [{"deployment": "a"}, {"deployment": "a"}]},
         '"a" is not allowed; must be unique, and spec.backends[0] has the same deployment'),
        ({"backends": [{"deployment": "a", "weight": 0}]},
         "spec.backends: [0] is not allowed; must be weights of which one is not 0"),
        ({"backends": [{"deployment": f"a{i}"} for i in range(9)]}, "at most 8 long"),
        ({"backends": [{"deployment": "a", "weight": 1000001}]}, "spec.backends[0].weight: 1000001 is not allowed"),
        ({"environments": ["e1"]},
         'spec.environments: ["e1"] is not allowed; must be left out unless distribution is Failover'),
        ({"hostnames": ["10.0.0.1"]},
         '"10.0.0.1" is not allowed; must be a host name such as models.example.com or *.example.com'),
        ({"hostnames": ["http://a"]}, "spec.hostnames[0]"),
        ({"hostnames": ["a.*.com"]}, "spec.hostnames[0]"),
        ({"distribution": "Random"}, "spec.distribution"),
    ],
)  # fmt: skip
def test_refuses_with_path_and_reason(spec: dict[str, JSON], problem: str) -> None:
    (found,) = _problems(**spec)
    assert problem in found


def test_reports_no_weights_of_invalid_backends() -> None:
    assert len(_problems(backends=[{"deployment": "a", "weight": -1}])) == 1


def test_reads_its_status() -> None:
    row: JSON = {
        "environment": "e1",
        "address": "http://10.0.0.1",
        "state": "Draining",
        "reason": "it is draining",
        "weight": 3,
        "since": "2026-01-01T00:00:05Z",
        "backends": [
            {"deployment": "a", "placement": "a-1", "readyReplicas": 2, "weight": 1, "reason": "r", "since": "?"}
        ],
    }
    service = parse_model_service({**_service(), "status": {"endpoints": [row, {"state": "Lost"}]}}).value
    assert service
    known, unknown = service.entries
    backend = BackendEntry(deployment="a", placement="a-1", ready_replicas=2, weight=1, reason="r")
    assert known == EndpointEntry(
        environment="e1", address="http://10.0.0.1", state=EndpointState.DRAINING, reason="it is draining", weight=3,
        since=1_767_225_605, backends=(backend,),
    )  # fmt: skip
    assert unknown.state is EndpointState.NOT_READY
    assert parse_service_view({**_service(), "status": {"endpoints": [row]}}) == ServiceView(
        name="chat", deployments=frozenset("a"), placements=frozenset(["a-1"])
    )
    assert format_time(1_767_225_605) == "2026-01-01T00:00:05Z"
