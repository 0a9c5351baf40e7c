"""Flags of parallelism are parsed in every spelling, and those that contradict the shape are refused.

Spellings are those of `vllm serve --help` and of SGLang's server arguments.
"""

from dataclasses import dataclass

import pytest

from function.domain.engines import find_shape_faults, parse_parallel_flags
from function.domain.model import EngineName, Parallelism, Problem, Shape
from tests.support.builders import engine

VLLM, SGLANG = EngineName.VLLM, EngineName.SGLANG
PIPELINE = Shape(nodes=2, gpus_per_node=8, parallelism=Parallelism(tensor=8, pipeline=2))
DATA = Shape(nodes=2, gpus_per_node=8, parallelism=Parallelism(tensor=1, data=16, data_local=8))


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    engine: EngineName
    args: tuple[str, ...]
    want: dict[str, int]


CASES = [
    Case("none", "flags that do not concern parallelism are ignored", VLLM, ("--max-model-len=8", "gemma"), {}),
    Case("vllm-equals", "a flag and its value can be one argument", VLLM,
         ("--tensor-parallel-size=8", "--pipeline-parallel-size=2"), {"tensor": 8, "pipeline": 2}),
    Case("vllm-apart", "a flag and its value can be two arguments", VLLM,
         ("--data-parallel-size", "16", "--data-parallel-size-local", "8"), {"data": 16, "data_local": 8}),
    Case("vllm-short", "vLLM has short flags", VLLM, ("-tp", "8", "-pp=2", "-dp", "4", "-dpl", "2", "-ep"),
         {"tensor": 8, "pipeline": 2, "data": 4, "data_local": 2, "expert": 1}),
    Case("vllm-underscores", "vLLM treats underscores as dashes", VLLM, ("--tensor_parallel_size=4",),
         {"tensor": 4}),
    Case("vllm-expert", "expert parallelism is a switch", VLLM, ("--enable-expert-parallel",), {"expert": 1}),
    Case("vllm-no-expert", "the --no- form turns expert parallelism off",
         VLLM, ("--no-enable-expert-parallel",), {"expert": 0}),
    Case("vllm-disable-expert", "vLLM 0.33 has another flag that turns expert parallelism off",
         VLLM, ("--disable-expert-parallel",), {"expert": 0}),
    Case("last-wins", "the last of several equal flags counts, as in argparse",
         VLLM, ("-tp=2", "-tp=4"), {"tensor": 4}),
    Case("vllm-knows-no-tp", "vLLM does not know the spellings of SGLang", VLLM, ("--tp=4", "--ep-size=8"), {}),
    Case("sglang-short", "SGLang has short spellings", SGLANG, ("--tp", "8", "--pp", "2", "--dp", "2", "--ep", "8"),
         {"tensor": 8, "pipeline": 2, "data": 2, "expert": 1}),
    Case("sglang-size", "SGLang has spellings that end in -size", SGLANG,
         ("--tp-size=8", "--pp-size=2", "--dp-size=2", "--ep-size=1"),
         {"tensor": 8, "pipeline": 2, "data": 2, "expert": 0}),
    Case("sglang-long", "SGLang has long spellings", SGLANG,
         ("--tensor-parallel-size=8", "--pipeline-parallel-size=2", "--data-parallel-size=2",
          "--expert-parallel-size=8"), {"tensor": 8, "pipeline": 2, "data": 2, "expert": 1}),
    Case("sglang-ep-moe", "SGLang had another switch for expert parallelism",
         SGLANG, ("--enable-ep-moe",), {"expert": 1}),
    Case("sglang-dp-attention", "data ranks that share the tensor ranks' GPUs are no size", SGLANG,
         ("--tp=8", "--dp=8", "--enable-dp-attention"), {"tensor": 8}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_parses_flags_of_parallelism(case: Case) -> None:
    flags = parse_parallel_flags(case.engine, case.args)
    assert flags.values == case.want, case.reason
    assert flags.problems == (), case.reason


@dataclass(frozen=True)
class Fault:
    id: str
    reason: str
    args: tuple[str, ...]
    want: Problem
    shape: Shape = PIPELINE


FAULTS = [
    Fault("not-a-number", "a variable cannot be compared", ("--x", "-tp=$(N)"),
          Problem("engine.args[1]", "-tp has '$(N)'; must be a whole number")),
    Fault("no-value", "a flag without a value is refused", ("-tp",),
          Problem("engine.args[0]", "-tp has ''; must be a whole number")),
    Fault("one-argument", "the engine would read the blank as part of the flag", ("-tp 8",),
          Problem("engine.args[0]", "'-tp 8' is one argument; must be -tp=N, or flag and number as two arguments")),
    Fault("switch-with-value", "argparse refuses a switch with a value", ("--enable-expert-parallel=true",),
          Problem("engine.args[0]", "'--enable-expert-parallel=true' must be given without a value")),
    Fault("tensor", "a size must agree with the topology", ("--tensor-parallel-size", "4"),
          Problem("engine.args[0]",
                  "--tensor-parallel-size=4 disagrees with the shape of the replica; must be 8")),
    Fault("pipeline", "the pipeline size must agree with the nodes", ("-pp=1",),
          Problem("engine.args[0]", "-pp=1 disagrees with the shape of the replica; must be 2")),
    Fault("data", "no data parallelism is a size of 1", ("-dp=2",),
          Problem("engine.args[0]", "-dp=2 disagrees with the shape of the replica; must be 1")),
    Fault("data-local", "ranks per node", ("-dpl=4",),
          Problem("engine.args[0]", "-dpl=4 disagrees with the shape of the replica; must be 8"), DATA),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda c: c.id)
def test_reports_sizes_that_contradict_the_shape(case: Fault) -> None:
    assert find_shape_faults(engine(VLLM, *case.args), case.shape) == (case.want,), case.reason


@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [
        (VLLM, ("-tp=8", "-pp=2", "--enable-expert-parallel"), PIPELINE),
        (VLLM, ("-tp=1", "-dp=16", "-dpl=8", "-pp=1"), DATA),
        (VLLM, ("-tp=4", "-tp=8"), PIPELINE),
        (SGLANG, ("--tp=8", "--pp=2", "--dp=8", "--enable-dp-attention", "--ep=8"), PIPELINE),
        (VLLM, (), PIPELINE),
    ],
)
def test_accepts_flags_that_repeat_the_shape(name: EngineName, args: tuple[str, ...], shape: Shape) -> None:
    assert find_shape_faults(engine(name, *args), shape) == ()


def test_problems_have_the_path_of_the_caller() -> None:
    (problem,) = find_shape_faults(engine(VLLM, "-tp=1"), PIPELINE, "spec.serving[0].engine.args")
    assert problem.path == "spec.serving[0].engine.args[0]"
