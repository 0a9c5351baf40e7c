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
    Case("explicit", "what is written down wins", 5, 4, 3, 2, Size(amount=GIB, source=SizeFrom.EXPLICIT)),
    Case("disk", "disk is meant for it", None, 4 * GIB, 3, 2, Size(amount=4 * GIB, source=SizeFrom.DISK)),
    Case("vram", "weights fit their memory", None, None, 3 * GIB, 2, Size(amount=3 * GIB, source=SizeFrom.VRAM)),
    Case(
        "gpu-memory-in-whole-gi",
        "one byte more than 2Gi needs 3Gi",
        None,
        None,
        None,
        2 * GIB + 1,
        Size(amount=3 * GIB, source=SizeFrom.GPU_MEMORY),
    ),
    Case("nothing", "no number may be invented", None, None, None, None, None),
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
    RequestCase("new", "no claim yet", 720 * GIB, {}, "720Gi"),
    RequestCase("grows", "900Gi is beyond what was given", 900 * GIB, claim("720Gi", "720Gi"), "900Gi"),
    RequestCase("never-shrinks", "the API refuses less", 10 * GIB, claim("720Gi", "720Gi"), "720Gi"),
    RequestCase("capacity-suffices", "the class gave 1Ti for 720Gi", 900 * GIB, claim("720Gi", "1Ti"), "720Gi"),
    RequestCase("beyond-capacity", "only now it must grow", 1025 * GIB, claim("720Gi", "1Ti"), "1025Gi"),
    RequestCase("as-written", "the user's spelling causes no difference", GIB, claim("1024Mi"), "1024Mi"),
    RequestCase("unreadable", "what cannot be read says nothing", GIB, claim("many"), "1Gi"),
)


@pytest.mark.parametrize("case", REQUESTS, ids=lambda c: c.id)
def test_formats_request(case: RequestCase) -> None:
    assert format_request(case.wanted, case.observed) == case.want, case.reason
