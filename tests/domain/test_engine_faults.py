"""Problems that an engine would only report after the download of its weights."""

from dataclasses import dataclass, replace

import pytest

from function.domain.engines import find_model_faults, find_shape_faults, uses_ray
from function.domain.model import (
    Engine,
    EngineName,
    OciSource,
    Parallelism,
    Problem,
    Shape,
    Source,
    UriSource,
    find_single_file,
)
from tests.support.builders import HUB, shape

OFFICIAL = "vllm/vllm-openai"
ONE, TWO = shape(1, 8), shape(2, 8)
RANKS = shape(2, 8, Parallelism(tensor=1, data=16, data_local=8))
RAY, MP = "--distributed-executor-backend=ray", "--distributed_executor_backend=mp"


def vllm(image: str, *args: str, version: str = "") -> Engine:
    return Engine(name=EngineName.VLLM, image=image, args=args, version=version)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    engine: Engine
    shape: Shape
    want: str = ""


GONE = (
    ", but {} has no Ray, which stock images have before 0.18.0; must be left out or mp, or use a custom image "
    "(engine.version is the version of an image by digest)"
)
CASES = [
    Case("nothing-said", "vLLM finds its nodes itself", vllm(f"{OFFICIAL}:v0.18.0"), TWO),
    Case("ray-there", "this is the last image with Ray", vllm(f"{OFFICIAL}:v0.17.1", RAY), TWO),
    Case("ray-gone", "this is the first image without Ray", vllm(f"{OFFICIAL}:v0.18.0", RAY), TWO,
         f"{RAY}{GONE.format(f'{OFFICIAL}:v0.18.0')}"),
    Case("ray-gone-from-a-mirror", "an image of a mirror has the same content",
         vllm(f"m.example/{OFFICIAL}:v0.18.0", RAY), ONE,
         f"{RAY}{GONE.format(f'm.example/{OFFICIAL}:v0.18.0')}"),
    Case("ray-unknown", "an image with an unknown version counts as the newest, which has no Ray",
         vllm(f"{OFFICIAL}@sha256:00ff", RAY), TWO,
         f"{RAY}{GONE.format(f'{OFFICIAL}@sha256:00ff')}"),
    Case("ray-said", "the version that the author declares applies to a digest",
         vllm(f"{OFFICIAL}@sha256:00ff", RAY, version="0.17.0"),
         TWO),
    Case("ray-of-ones-own", "a custom image is assumed to have Ray", vllm("example/vllm:v0.18.0", RAY), TWO),
    Case("mp", "this is the first version that can span nodes with mp", vllm(f"{OFFICIAL}:v0.11.1", MP), TWO),
    Case("mp-too-old", "this is the last version that cannot span nodes with mp", vllm(f"{OFFICIAL}:v0.11.0", MP), TWO,
         "--distributed-executor-backend=mp spans nodes from vLLM 0.11.1 on; must be left out or ray, or use a "
         "later image"),
    Case("mp-on-one-node", "a replica of one node needs no backend between nodes", vllm(f"{OFFICIAL}:v0.8.0", MP), ONE),
    Case("mp-of-ranks", "each data rank is on one node", vllm(f"{OFFICIAL}:v0.10.0", MP), RANKS),
    Case("other", "this backend cannot reach other nodes",
         vllm(f"{OFFICIAL}:v0.20.0", "--distributed-executor-backend=uni"), TWO,
         "--distributed-executor-backend=uni cannot span nodes; must be left out, ray or mp"),
    Case("other-on-one-node", "on one node, the backend is the choice of the author",
         vllm(f"{OFFICIAL}:v0.20.0", "--distributed-executor-backend=uni"), ONE),
    Case("last-counts", "the last flag counts, as in vLLM's parser", vllm(f"{OFFICIAL}:v0.18.0", RAY, MP), TWO),
    Case("sglang", "SGLang has no flag for the backend",
         Engine(name=EngineName.SGLANG, image="lmsysorg/sglang:v0.5.5", args=(RAY,)),
         TWO),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_checks_the_executor_of_several_nodes(case: Case) -> None:
    want = (Problem("args[0]", case.want),) if case.want else ()
    assert find_shape_faults(case.engine, case.shape, "args") == want, case.reason


def test_checks_the_ranks_of_several_nodes() -> None:
    """With these ranks, vLLM before 0.9.1 fails only after the download."""
    (problem,) = find_shape_faults(vllm(f"{OFFICIAL}:v0.9.0"), RANKS, "spec.serving[0].engine.args")
    assert problem == Problem(
        "spec.serving[0].engine.image",
        f"'{OFFICIAL}:v0.9.0' cannot spread data parallelism over nodes; must be vLLM 0.9.1 or later",
    )
    assert find_shape_faults(vllm(f"{OFFICIAL}:v0.9.1"), RANKS) == ()
    on_one = shape(1, 8, Parallelism(tensor=1, data=8, data_local=8))
    assert find_shape_faults(vllm(f"{OFFICIAL}:v0.9.0"), on_one) == ()


def test_reports_sizes_beside_the_executor() -> None:
    (problem,) = find_shape_faults(vllm(f"{OFFICIAL}:v0.20.0", "-tp=4"), ONE)
    assert problem == Problem("engine.args[0]", "-tp=4 disagrees with the shape of the replica; must be 8")


@pytest.mark.parametrize(
    ("reason", "engine", "want"),
    [
        ("this version has no flags for several nodes", vllm(f"{OFFICIAL}:v0.8.0"), True),
        ("this is the last version without flags for several nodes", vllm(f"{OFFICIAL}:v0.11.0"), True),
        ("this is the first version with flags for several nodes", vllm(f"{OFFICIAL}:v0.11.1"), False),
        ("an unknown version counts as the newest", vllm(f"{OFFICIAL}:latest"), False),
        ("the declared version counts", vllm(f"{OFFICIAL}:latest", version="0.8.0"), True),
        ("the author's word", vllm(f"{OFFICIAL}:v0.15.0", RAY), True),
        ("the author's word", vllm(f"{OFFICIAL}:v0.8.0", MP), False),
    ],
)
def test_uses_ray_where_the_version_needs_it(reason: str, engine: Engine, want: bool) -> None:  # a row of a table
    assert uses_ray(engine) is want, reason


FILE = replace(HUB, file="Q4/kimi.gguf")


@pytest.mark.parametrize(
    ("reason", "image", "source", "refused"),
    [
        ("this is the last version that reads GGUF files", f"{OFFICIAL}:v0.23.0", FILE, False),
        ("this is the first version that cannot read GGUF files", f"{OFFICIAL}:v0.24.0", FILE, True),
        (
            "the extension is compared without regard to case",
            f"{OFFICIAL}:v0.24.0",
            UriSource(uri="s3://models/kimi.GGUF"),
            True,
        ),
        ("with the plugin, perhaps", "example/vllm:v0.24.0", FILE, False),
        ("the source has no GGUF file", f"{OFFICIAL}:v0.24.0", HUB, False),
    ],
)
def test_image_reads_gguf(reason: str, image: str, source: Source, refused: bool) -> None:  # a row of a table
    why = f"'{image}' cannot read GGUF files, which stock images support before 0.24.0"
    allowed = "use an earlier image, or a custom image with vllm-gguf-plugin"
    want = (Problem("engine.image", f"{why}; {allowed}"),) if refused else ()
    assert find_model_faults(vllm(image), source, "kimi", "engine") == want, reason


@pytest.mark.parametrize(
    ("reason", "image", "file", "refused"),
    [
        ("this is the last version that reads only one file", f"{OFFICIAL}:v0.19.1", "a-00001-of-00003.gguf", True),
        (
            "this is the first version that also reads the other parts",
            f"{OFFICIAL}:v0.20.0",
            "a-00001-of-00003.gguf",
            False,
        ),
        ("a file of one part is complete", f"{OFFICIAL}:v0.19.1", "a-00001-of-00001.gguf", False),
        ("with the plugin, perhaps", "example/vllm:v0.19.1", "a-00001-of-00003.gguf", False),
    ],
)
def test_image_reads_split_gguf(reason: str, image: str, file: str, refused: bool) -> None:  # a row of a table
    why = f"'{image}' reads only the first of 3 parts"
    want = (Problem("engine.image", f"{why}; use vLLM 0.20.0 or later, or merge the parts"),) if refused else ()
    assert find_model_faults(vllm(image), replace(HUB, file=file), "kimi", "engine") == want, reason


@pytest.mark.parametrize(
    ("source", "want"),
    [
        (FILE, "Q4/kimi.gguf"),
        (HUB, ""),
        (UriSource(uri="s3://models/a/kimi.gguf"), "kimi.gguf"),
        (UriSource(uri="s3://models/kimi.gguf/"), ""),
        (UriSource(uri="s3://models/kimi"), ""),
        (UriSource(uri="https://models/a/kimi.gguf?download=true&as=b/c"), "kimi.gguf"),
        (UriSource(uri="https://models/a?file=kimi.gguf"), ""),
        (OciSource(image="models/kimi.gguf"), ""),
    ],
)
def test_finds_the_only_file_that_the_engine_reads(source: Source, want: str) -> None:
    assert find_single_file(source) == want
