"""`size` against what the weights of twelve models have, and how far it is off.

Published bytes are `metadata.total_size` of model.safetensors.index.json in the repository that is named (of
DeepSeek-V3 the sum of its files). Parameters are those of its name, or of its card where that says more.
"""

import json
from dataclasses import dataclass

import pytest

from function.kube.quantity import round_up
from tests.cli.process import ROOT, output_of


@dataclass(frozen=True, kw_only=True)
class Case:
    """A repository, what its authors say of its parameters, the bytes of its weights, and the error in percent.

    `holds`: whether the disk that is computed holds the weights.
    """

    id: str
    reason: str
    params: str
    precision: str = "bf16"
    published: int
    error: str
    holds: bool = True


_ROUNDED = "the name is rounded"
CASES = (
    Case(id="mistralai/Mistral-7B-v0.1", reason=_ROUNDED, params="7B", published=14_483_464_192, error="-3.3"),
    Case(id="meta-llama/Llama-3.1-8B", reason=_ROUNDED, params="8B", published=16_060_522_496, error="-0.4"),
    Case(id="google/gemma-3-27b-it", reason=_ROUNDED, params="27B", published=54_864_813_280, error="-1.6"),
    Case(id="Qwen/Qwen3-30B-A3B", reason="of the card", params="30.5B", published=61_064_245_248, error="-0.1"),
    Case(
        id="mistralai/Mixtral-8x7B-v0.1", reason="all experts", params="46.7B", published=93_405_585_408, error="-0.0"
    ),
    Case(id="meta-llama/Llama-3.1-70B", reason=_ROUNDED, params="70B", published=141_107_412_992, error="-0.8"),
    Case(id="Qwen/Qwen2.5-72B", reason="of the card", params="72.7B", published=145_412_407_296, error="-0.0"),
    Case(id="Qwen/Qwen3-235B-A22B", reason="all experts", params="235B", published=470_187_269_120, error="-0.0"),
    Case(id="meta-llama/Llama-3.1-405B", reason=_ROUNDED, params="405B", published=811_706_777_600, error="-0.2"),
    Case(
        id="deepseek-ai/DeepSeek-V3",
        reason="scales, embeddings and a layer that predicts a second token come on top of the 671 billion",
        params="671B",
        precision="fp8",
        published=688_586_727_753,
        error="-2.6",
    ),
    Case(
        id="openai/gpt-oss-120b",
        reason="attention and embeddings stay in BF16, only the experts have 4 bits",
        params="117B",
        precision="mxfp4",
        published=65_248_815_744,
        error="-4.7",
    ),
    Case(
        id="openai/gpt-oss-20b",
        reason="likewise, and they are more of a small model",
        params="21B",
        precision="mxfp4",
        published=13_761_264_768,
        error="-18.9",
        holds=False,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_error_against_published_sizes(case: Case) -> None:
    (found,) = json.loads(output_of("size", "--params", case.params, "--precision", case.precision, "-o", "json"))
    assert f"{100 * (found['weights'] / case.published - 1):+.1f}" == case.error, case.reason
    assert (round_up(found["disk"]) >= case.published) is case.holds, case.reason


def test_docs_list_the_same_errors() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for case in CASES:
        row = f"| {case.id} | {case.params} | {case.precision} | {case.published / 10**9:,.1f} GB | {case.error} % |"
        assert row in page, "of the table of docs/cli.md"
