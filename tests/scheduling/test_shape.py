"""One replica's shape: as declared, or from GPU memory (docs/concepts.md, "The shape of a replica")."""

from dataclasses import dataclass

import pytest

from function.capacity.pools import compute_shape
from function.domain.environment import Pool
from function.domain.model import Shape
from function.kube.quantity import round_up
from tests.support.builders import pool, profile, shape


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    vram: str | None
    pool: Pool
    want: Shape | None


CASES = (
    Case("one-gpu", "55Gi fit one GPU of 80Gi", "55Gi", pool(), shape(1, 1)),
    Case("exactly-one-gpu", "80Gi / 80Gi = 1", "80Gi", pool(), shape(1, 1)),
    Case("next-power-of-two", "200Gi / 80Gi = 2.5 -> 3 GPUs -> 4", "200Gi", pool(), shape(1, 4)),
    Case(
        "power-of-two-beyond-the-node",
        "5 x 80Gi = 400Gi -> 5 GPUs -> 8 is more than the 6 of the node, so the whole node",
        "400Gi",
        pool(gpus=6),
        shape(1, 6),
    ),
    Case("exactly-one-node", "640Gi = 8 x 80Gi", "640Gi", pool(), shape(1, 8)),
    Case(
        "llama-405b",
        "the design's example: 810Gi on 8 x 80Gi nodes -> 11 GPUs -> 2 nodes",
        "810Gi",
        pool(),
        shape(2, 8),
    ),
    Case(
        "kimi-k2.6-on-a100",
        "the design's example: 1200Gi on 4 x 80Gi nodes -> 15 GPUs -> 4 nodes x 4",
        "1200Gi",
        pool(gpus=4),
        shape(4, 4),
    ),
    Case("decimal-vram-rounds-up", "81G = 75.4Gi on 75Gi GPUs -> 2", "81G", pool(memory="75Gi"), shape(1, 2)),
    Case("pool-without-memory", "what the pool does not declare cannot be divided by", "80Gi", pool(memory=None), None),
    Case("model-without-vram", "nothing to divide", None, pool(), None),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_shape_from_gpu_memory(case: Case) -> None:
    vram = None if case.vram is None else round_up(case.vram)
    assert compute_shape(profile(), vram, case.pool) == case.want, case.reason


def test_a_declared_shape_is_taken_as_it_is() -> None:
    """It also stands where the pool could not hold it: that is for the checks to say."""
    assert compute_shape(profile(shape=shape(2, 16)), None, pool(memory=None)) == shape(2, 16)
