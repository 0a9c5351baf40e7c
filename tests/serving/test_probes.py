"""How long an engine may take to start, and what it is asked."""

from dataclasses import dataclass

import pytest

from function.kube.manifests import get
from tests.support.builders import GIB
from tests.support.serving_requests import ONE_GPU, PIPELINE, SGLANG, VLLM_OLD, build_pods, engine, get_main, request


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    weights: int | None
    nodes: int
    want: int
    bandwidth: int | None = None


CASES = [
    Case("nothing-to-load", "600 s for the engine, every 10 s", 0, 1, 60),
    Case("one-byte", "counts as 1Gi: 608 s", 1, 1, 61),
    Case("gemma", "600 s + 55 x 8 s = 1040 s", 55 * GIB, 1, 104),
    Case("unknown", "one hour", None, 1, 360),
    Case("unknown-group", "one hour and half an hour", None, 2, 540),
    Case("kimi", "600 s + 960 x 8 s + 1800 s = 10080 s", 960 * GIB, 2, 1008),
    Case("measured", "600 s + 4 x 960 x 2^30 / 2e9 = 4 x 516 s = 2664 s", 960 * GIB, 1, 267, 2 * 10**9),
    Case("slow", "600 s + 4 x 10e9 / 10e6 = 4 x 1000 s + 1800 s", 10**10, 2, 640, 10**7),
    Case("speed-of-nothing", "without a size the speed says nothing", None, 1, 360, 2 * 10**9),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_startup_budget_grows_with_weights(case: Case) -> None:
    shape = ONE_GPU if case.nodes == 1 else PIPELINE
    asked = request(shape, weights=case.weights, bandwidth=case.bandwidth)
    assert get(get_main(build_pods(asked)[0]), "startupProbe.failureThreshold") == case.want, case.reason


def test_preset_container_gets_only_the_startup_budget() -> None:
    (pod,) = build_pods(request(weights=0))
    assert get_main(pod)["startupProbe"] == {"failureThreshold": 60}
    assert not {"ports", "readinessProbe", "livenessProbe"} & get_main(pod).keys()


@pytest.mark.parametrize(
    ("image", "path", "seconds", "reason"),
    [
        (VLLM_OLD, "/health", 5, "503 when the engine is dead, at once otherwise"),
        (SGLANG, "/health_generate", 25, "makes a token, for which it takes up to 20 s"),
    ],
)
def test_own_server_is_probed_in_plain_http(image: str, path: str, seconds: int, reason: str) -> None:
    check = {
        "httpGet": {"path": path, "port": 8000, "scheme": "HTTP"},
        "timeoutSeconds": seconds,
        "periodSeconds": 10,
    }
    main = get_main(build_pods(request(PIPELINE, engine(image=image), weights=0))[0])
    assert {key: main[key] for key in main if key == "ports" or key.endswith("Probe")} == {
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
        "startupProbe": {**check, "failureThreshold": 240},
        "readinessProbe": {**check, "failureThreshold": 3},
        "livenessProbe": {**check, "failureThreshold": 30},
    }, reason
