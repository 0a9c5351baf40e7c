"""The shape of one replica: declared, or computed from GPU memory (docs/concepts.md, "The shape of a replica")."""

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
    Case("one-gpu", "55Gi fit on one GPU of 80Gi", "55Gi", pool(), shape(1, 1)),
    Case("exactly-one-gpu", "80Gi need exactly one GPU of 80Gi", "80Gi", pool(), shape(1, 1)),
    Case(
        "next-power-of-two",
        "200Gi need 3 GPUs of 80Gi, which are rounded up to 4, the next power of two",
        "200Gi",
        pool(),
        shape(1, 4),
    ),
    Case(
        "power-of-two-beyond-the-node",
        "400Gi need 5 GPUs; 8 exceed the 6 GPUs of the node, so the replica takes the whole node",
        "400Gi",
        pool(gpus=6),
        shape(1, 6),
    ),
    Case("exactly-one-node", "640Gi need exactly one node of 8 x 80Gi", "640Gi", pool(), shape(1, 8)),
    Case(
        "llama-405b",
        "810Gi need 11 GPUs of 80Gi, so 2 nodes of 8 (the example of the design)",
        "810Gi",
        pool(),
        shape(2, 8),
    ),
    Case(
        "kimi-k2.6-on-a100",
        "1200Gi need 15 GPUs of 80Gi, so 4 nodes of 4 (the example of the design)",
        "1200Gi",
        pool(gpus=4),
        shape(4, 4),
    ),
    Case(
        "decimal-vram-rounds-up", "81G are 75.4Gi, which need two GPUs of 75Gi", "81G", pool(memory="75Gi"), shape(1, 2)
    ),
    Case(
        "pool-without-memory",
        "without the memory of the pool, no shape can be computed",
        "80Gi",
        pool(memory=None),
        None,
    ),
    Case("model-without-vram", "without the vram of the model, no shape can be computed", None, pool(), None),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_shape_from_gpu_memory(case: Case) -> None:
    vram = None if case.vram is None else round_up(case.vram)
    assert compute_shape(profile(), vram, case.pool) == case.want, case.reason


def test_a_declared_shape_is_taken_as_it_is() -> None:
    """The shape does not depend on the pool: the checks refuse a pool that is too small."""
    assert compute_shape(profile(shape=shape(2, 16)), None, pool(memory=None)) == shape(2, 16)
