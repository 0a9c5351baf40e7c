"""Exponents are those that figures were made with."""

import math

import pytest

from bench.simulator.report import fit


@pytest.mark.parametrize(("with_deployments", "with_environments"), [(0.0, 0.0), (1.0, 0.0), (0.7, 0.65), (-0.1, 2.0)])
def test_fit(with_deployments: float, with_environments: float) -> None:
    sizes = [(d, e) for d in (10, 20, 40, 80, 160) for e in (5, 20, 100)]
    cost = [14 * d**with_deployments * e**with_environments for d, e in sizes]
    points = [(math.log(d), math.log(e), math.log(c)) for (d, e), c in zip(sizes, cost, strict=True)]
    assert fit(points) == pytest.approx((with_deployments, with_environments))
