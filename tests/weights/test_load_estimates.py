"""How long weights take to load."""

from dataclasses import dataclass, replace

import pytest

from function.domain.model import OciSource, PvcSource
from function.status.weights import _format_duration, build_load_status, describe_load
from function.weights.claim import LoadEstimate, estimate_load
from function.weights.planner import plan_weights
from function.weights.request import WeightsRequest
from tests.support.weights_requests import GIB, MULTI, SINGLE, model


def loads(request: WeightsRequest, bandwidth: int | None = 10**9) -> LoadEstimate | None:
    return estimate_load(plan_weights(request).bytes_on_claim, bandwidth)


@dataclass(frozen=True)
class Bound:
    id: str
    reason: str
    request: WeightsRequest
    want: int | None


BOUNDS = (
    Bound(
        "disk",
        "the disk of the model bounds the weights if it is less than the GPU memory of 16 x 141Gi",
        replace(MULTI, model=model(disk=900 * GIB)),
        900 * GIB,
    ),
    Bound(
        "two-copies",
        "the GPU memory bounds the weights if it is less than the disk of the model",
        replace(MULTI, model=model(disk=9000 * GIB)),
        16 * 141 * GIB,
    ),
    Bound(
        "two-copies-and-vram",
        "the VRAM of the model bounds the weights if it is less than its disk",
        replace(MULTI, model=model(disk=900 * GIB, vram=500 * GIB)),
        500 * GIB,
    ),
    Bound(
        "vram",
        "the VRAM of the model bounds the weights if it is less than the GPU memory of 16 x 141Gi",
        replace(MULTI, model=model(vram=810 * GIB)),
        810 * GIB,
    ),
    Bound("gpus", "the GPU memory bounds the weights", MULTI, 16 * 141 * GIB),
    Bound(
        "nothing",
        "without any figure, the weights have no bound",
        replace(MULTI, gpu_memory=None, model=model(PvcSource(claim="c"))),
        None,
    ),
)


@pytest.mark.parametrize("case", BOUNDS, ids=lambda c: c.id)
def test_computes_upper_bound_of_weights(case: Bound) -> None:
    assert plan_weights(case.request).bound == case.want, case.reason


@pytest.mark.parametrize(
    ("request_", "bandwidth", "reason"),
    [
        (SINGLE, 10**9, "each pod fetches its own copy to its node's disk"),
        (
            replace(MULTI, model=model(OciSource(image="r/m@sha256:1"))),
            10**9,
            "an image is on the node and not on a claim",
        ),
        (MULTI, None, "without a bandwidth of the storage, there is no estimate"),
        (
            replace(MULTI, gpu_memory=None, model=model(PvcSource(claim="c"))),
            10**9,
            "without a size of the weights, there is no estimate",
        ),
    ],
)
def test_estimates_no_load_without_size_or_speed(request_: WeightsRequest, bandwidth: int | None, reason: str) -> None:
    assert loads(request_, bandwidth) is None, reason
    assert build_load_status(loads(request_, bandwidth)) == {}


KIMI = replace(MULTI, model=model(disk=960 * GIB))
SMALL = replace(MULTI, model=model(disk=55 * GIB))


def test_describes_load() -> None:
    found = loads(KIMI, 2 * 10**9)
    assert found is not None
    assert build_load_status(found) == {"loadTime": "8m36s"}, "the weights load in 960 x 2^30 / 2e9 = 515.4 s"
    assert describe_load(found) == "weights of at most 960Gi load in 8m36s at 2 GB/s"
    assert build_load_status(loads(SMALL)) == {"loadTime": "1m0s"}, "the weights load in 55 x 2^30 / 1e9 = 59.06 s"


@pytest.mark.parametrize(
    ("seconds", "written"), [(1, "1s"), (59, "59s"), (60, "1m0s"), (3599, "59m59s"), (3600, "1h0m"), (3661, "1h2m")]
)
def test_formats_durations(seconds: int, written: str) -> None:
    assert _format_duration(seconds) == written
