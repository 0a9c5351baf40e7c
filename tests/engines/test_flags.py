"""What engines make of flags, where this function relies on it (docs/facts.md, Engines)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines.asking import Answers, ask
from tests.engines.replica import Group
from tools.engines import Release, list_releases

pytestmark = pytest.mark.engines
Matrix = Callable[[Release], tuple[dict[str, Group], Answers]]
VLLM = list_releases("vllm")


@pytest.mark.parametrize("release", VLLM, ids=lambda release: release.version)
def test_gpu_memory_utilization_grew_in_0_20(matrix: Matrix, release: Release) -> None:
    ((_, answer),) = matrix(release)[0]["one-gpu"]
    assert answer is not None
    assert answer.args["gpu_memory_utilization"] == (0.92 if release.number >= (0, 20) else 0.9)


def test_last_of_two_flags_counts_in_vllm(model: Path) -> None:
    flags = ("--tensor_parallel_size=2", "--tensor-parallel-size", "4", "-tp=8")
    (answer,) = ask(VLLM[-1], [("serve", "/mnt/models", *flags)], model, gpus=8).answers
    assert answer.args["tensor_parallel_size"] == 8, "dashes equal underscores"


def test_last_of_two_flags_counts_in_sglang(model: Path) -> None:
    start = ("-m", "sglang.launch_server", "--model-path=/mnt/models", "--tp-size=2")
    flags = [("--tensor-parallel-size=4", "--tp=8"), ("--tp_size=4",)]
    newest = list_releases("sglang")[-1]
    last, underscore = ask(newest, [(*start, *more) for more in flags], model, gpus=8).answers
    assert last.args["tp_size"] == 8
    assert "--tp_size=4" in underscore.error, "SGLang knows no underscores"
