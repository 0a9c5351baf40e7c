"""The strongest statement about size wins, and a request that exists only ever grows."""

from dataclasses import dataclass

import pytest

from function.kube.manifests import Manifest
from function.weights.claim import Size, SizeFrom, compute_size, format_request
from tests.support.weights_requests import GIB, model


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    explicit: int | None
    disk: int | None
    vram: int | None
    gpu_memory: int | None
    want: Size | None


CASES = (
    Case("explicit", "the explicit size takes precedence", 5, 4, 3, 2, Size(amount=GIB, source=SizeFrom.EXPLICIT)),
    Case(
        "disk",
        "the disk of the model takes precedence over its VRAM",
        None,
        4 * GIB,
        3,
        2,
        Size(amount=4 * GIB, source=SizeFrom.DISK),
    ),
    Case(
        "vram",
        "the weights are no larger than the VRAM of the model",
        None,
        None,
        3 * GIB,
        2,
        Size(amount=3 * GIB, source=SizeFrom.VRAM),
    ),
    Case(
        "gpu-memory-in-whole-gi",
        "one byte more than 2Gi needs 3Gi",
        None,
        None,
        None,
        2 * GIB + 1,
        Size(amount=3 * GIB, source=SizeFrom.GPU_MEMORY),
    ),
    Case("nothing", "without any figure, the size is unknown", None, None, None, None, None),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_computes_size(case: Case) -> None:
    found = compute_size(case.explicit, model(disk=case.disk, vram=case.vram), case.gpu_memory)
    assert found == case.want, case.reason


def claim(request: str, capacity: str = "") -> Manifest:
    status: Manifest = {"capacity": {"storage": capacity}} if capacity else {}
    return {"spec": {"resources": {"requests": {"storage": request}}}, "status": status}


@dataclass(frozen=True)
class RequestCase:
    id: str
    reason: str
    wanted: int
    observed: Manifest
    want: str


REQUESTS = (
    RequestCase("new", "a new claim requests the wanted size", 720 * GIB, {}, "720Gi"),
    RequestCase(
        "grows", "a claim grows if more than its capacity is wanted", 900 * GIB, claim("720Gi", "720Gi"), "900Gi"
    ),
    RequestCase(
        "never-shrinks",
        "a claim never shrinks, because the API server refuses it",
        10 * GIB,
        claim("720Gi", "720Gi"),
        "720Gi",
    ),
    RequestCase(
        "capacity-suffices",
        "a claim does not grow while its capacity suffices",
        900 * GIB,
        claim("720Gi", "1Ti"),
        "720Gi",
    ),
    RequestCase(
        "beyond-capacity",
        "a claim grows once its capacity does not suffice",
        1025 * GIB,
        claim("720Gi", "1Ti"),
        "1025Gi",
    ),
    RequestCase("as-written", "an equal request keeps its spelling", GIB, claim("1024Mi"), "1024Mi"),
    RequestCase("unreadable", "a request that cannot be parsed is replaced", GIB, claim("many"), "1Gi"),
)


@pytest.mark.parametrize("case", REQUESTS, ids=lambda c: c.id)
def test_formats_request(case: RequestCase) -> None:
    assert format_request(case.wanted, case.observed) == case.want, case.reason
