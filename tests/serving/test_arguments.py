"""Arguments that repeat where the weights come from are dropped; those that name others are refused.

vLLM's `serve` takes the model as its first argument and as `--model`; SGLang takes `--model-path`, also known as
`--model`.
"""

from dataclasses import dataclass

import pytest

from function.domain.model import EngineName, OciSource, Source
from function.domain.problem import Problem
from function.serving.arguments import foreign_weights, last_value, without_weights
from tests.builders import HUB

VLLM, SGLANG = EngineName.VLLM, EngineName.SGLANG
IMAGE = OciSource(image="models/kimi:1")


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    engine: EngineName
    args: tuple[str, ...]
    want: tuple[str, ...]
    source: Source = HUB


CASES = [
    Case("none", "nothing to drop", VLLM, (), ()),
    Case("equals", "the repo is where the weights come from", VLLM, ("--a", "--model=org/kimi", "--b"), ("--a", "--b")),
    Case("apart", "flag and value as two arguments", VLLM, ("--model", "org/kimi", "--b"), ("--b",)),
    Case("positional", "as vllm serve takes it", VLLM, ("org/kimi", "--b"), ("--b",)),
    Case("mount", "where KServe mounts them anyway", VLLM, ("/mnt/models", "--b"), ("--b",)),
    Case("mount-of-image", "whatever the source", VLLM, ("--model=/mnt/models",), (), IMAGE),
    Case("value-of-another-flag", "a later repo belongs to a flag", VLLM, ("--tokenizer", "org/kimi"),
         ("--tokenizer", "org/kimi")),
    Case("positional-of-image", "the name of a model from an image is no place", VLLM, ("org/kimi",), ("org/kimi",),
         IMAGE),
    Case("longer-flag", "only the whole flag counts", VLLM, ("--model-impl=vllm",), ("--model-impl=vllm",)),
    Case("sglang-path", "SGLang's name of the flag", SGLANG, ("--model-path", "org/kimi", "--b"), ("--b",)),
    Case("sglang-short", "and its other one, with underscores too", SGLANG,
         ("--model=org/kimi", "--model_path=org/kimi"), ()),
    Case("vllm-knows-no-path", "an unknown flag passes through", VLLM, ("--model-path=org/kimi",),
         ("--model-path=org/kimi",)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_weights_are_named_once(case: Case) -> None:
    assert without_weights(case.engine, case.source, case.args) == case.want, case.reason
    assert foreign_weights(case.engine, case.source, case.args, "args") == (), case.reason


@dataclass(frozen=True)
class Fault:
    id: str
    reason: str
    args: tuple[str, ...]
    want: Problem
    source: Source = HUB


ELSEWHERE = "must be left out, the model's source has the weights"
FAULTS = [
    Fault("other-repo", "its weights are not there", ("--x", "--model=org/other"),
          Problem("args[1]", f"--model=org/other names 'org/other'; {ELSEWHERE}")),
    Fault("apart", "the flag is where it is said", ("--model", "org/other"),
          Problem("args[0]", f"--model names 'org/other'; {ELSEWHERE}")),
    Fault("no-value", "nothing follows", ("--model",),
          Problem("args[0]", f"--model names ''; {ELSEWHERE}")),
    Fault("repo-of-image", "there is no repo to repeat", ("--model=org/kimi",),
          Problem("args[0]", f"--model=org/kimi names 'org/kimi'; {ELSEWHERE}"), IMAGE),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda c: c.id)
def test_other_weights_are_refused(case: Fault) -> None:
    assert foreign_weights(VLLM, case.source, case.args, "args") == (case.want,), case.reason


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ((), None),
        (("--backend=ray",), "ray"),
        (("--backend", "ray"), "ray"),
        (("--backend=mp", "--backend", "ray"), "ray"),
        (("--backend",), ""),
        (("--backends=ray",), None),
    ],
)
def test_the_last_value_counts(args: tuple[str, ...], want: str | None) -> None:
    assert last_value(args, "--backend") == want
