"""How long weights take to load, and what would help."""

from dataclasses import dataclass, replace

import pytest

from function.domain.model import EngineName, HuggingFaceSource, OciSource, PvcSource
from function.status.weights import _format_duration, build_load_status, describe_load
from function.weights.claim import LoadEstimate, estimate_load
from function.weights.planner import plan_weights
from function.weights.request import StorageRequest
from tests.support.builders import engine, profile, shape
from tests.support.weights_requests import GIB, MULTI, SINGLE, model

VLLM_OLD, VLLM_NEW = "vllm/vllm-openai:v0.15.0", "vllm/vllm-openai:v0.18.0"
STREAM, PREFETCH = "--load-format=runai_streamer", "--safetensors-load-strategy=prefetch"


def loads(
    request: StorageRequest, bandwidth: int | None = 10**9, image: str = VLLM_NEW, *args: str
) -> LoadEstimate | None:
    name = EngineName.SGLANG if "sglang" in image else EngineName.VLLM
    planned = plan_weights(request)
    chosen = profile(shape=shape(2), engine=engine(name, *args, image=image))
    return estimate_load(planned.bytes_on_claim, bandwidth, request.model, chosen)


@dataclass(frozen=True)
class Bound:
    id: str
    reason: str
    request: StorageRequest
    want: int | None


BOUNDS = (
    Bound(
        "disk", "what the model says, also above all bounds", replace(MULTI, model=model(disk=9000 * GIB)), 9000 * GIB
    ),
    Bound("vram", "less than the GPUs' 16 x 141", replace(MULTI, model=model(vram=810 * GIB)), 810 * GIB),
    Bound("gpus", "weights fit into them", MULTI, 16 * 141 * GIB),
    Bound("nothing", "nothing is declared", replace(MULTI, gpu_memory=None, model=model(PvcSource(claim="c"))), None),
)


@pytest.mark.parametrize("case", BOUNDS, ids=lambda c: c.id)
def test_computes_upper_bound_of_weights(case: Bound) -> None:
    assert plan_weights(case.request).bound == case.want, case.reason


@pytest.mark.parametrize(
    ("request_", "bandwidth", "reason"),
    [
        (SINGLE, 10**9, "each pod fetches its own copy to its node's disk"),
        (replace(MULTI, model=model(OciSource(image="r/m@sha256:1"))), 10**9, "an image lies on the node"),
        (MULTI, None, "the speed is not declared"),
        (replace(MULTI, gpu_memory=None, model=model(PvcSource(claim="c"))), 10**9, "the size is unknown"),
    ],
)
def test_estimates_no_load_without_size_or_speed(request_: StorageRequest, bandwidth: int | None, reason: str) -> None:
    assert loads(request_, bandwidth) is None, reason
    assert build_load_status(loads(request_, bandwidth)) == {}


KIMI = replace(MULTI, model=model(disk=960 * GIB))
SMALL = replace(MULTI, model=model(disk=55 * GIB))


@dataclass(frozen=True)
class Advice:
    id: str
    reason: str
    loads: LoadEstimate | None
    want: tuple[str, ...] = ()


ADVICE = (
    Advice("long", "960 x 2^30 / 1e9 = 1031 s", loads(KIMI), (STREAM, PREFETCH)),
    Advice("short", "59 s are not worth it", loads(SMALL)),
    Advice("at-most", "five minutes are not above five minutes", loads(replace(MULTI, model=model(disk=300 * 10**9)))),
    Advice("older", "reading ahead came with vLLM 0.18", loads(KIMI, 10**9, VLLM_OLD), (STREAM,)),
    Advice("sglang", "has no such strategy", loads(KIMI, 10**9, "lmsysorg/sglang:v0.5.10"), (STREAM,)),
    Advice("old-sglang", "nor a streamer before 0.5.10", loads(KIMI, 10**9, "lmsysorg/sglang:v0.5.9")),
    Advice("chosen", "the author chose", loads(KIMI, 10**9, VLLM_NEW, "--load-format", "dummy")),
    Advice("chosen-strategy", "likewise", loads(KIMI, 10**9, VLLM_NEW, "--safetensors_load_strategy=eager")),
    Advice("gguf", "there are no safetensors", loads(
        replace(MULTI, model=model(HuggingFaceSource(repo="a/b", file="m.gguf"), disk=960 * GIB)))),
)  # fmt: skip


@pytest.mark.parametrize("case", ADVICE, ids=lambda c: c.id)
def test_suggests_flags_of_the_engine(case: Advice) -> None:
    assert case.loads is not None
    assert case.loads.flags == case.want, case.reason


def test_describes_load() -> None:
    found = loads(KIMI, 2 * 10**9)
    assert found is not None
    helps = f"engine.args {STREAM} or {PREFETCH} may read several times as fast (docs/storage.md)"
    assert build_load_status(found) == {"loadTime": "8m36s", "loadAdvice": helps}, "960 x 2^30 / 2e9 = 515.4 s"
    assert describe_load(found) == f"weights of at most 960Gi load in 8m36s at 2 GB/s; {helps}"
    assert build_load_status(loads(SMALL)) == {"loadTime": "1m0s"}, "55 x 2^30 / 1e9 = 59.06 s"


@pytest.mark.parametrize(
    ("seconds", "written"), [(1, "1s"), (59, "59s"), (60, "1m0s"), (3599, "59m59s"), (3600, "1h0m"), (3661, "1h2m")]
)
def test_formats_durations(seconds: int, written: str) -> None:
    assert _format_duration(seconds) == written
