"""Shares of the requests, and the weights that gateways take."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.domain.model_service import Distribution, ModelService
from function.domain.placement import Placement
from function.traffic.shares import MAX_WEIGHT, compute_shares, to_route_weights
from tests.support.traffic_scene import NAMESPACE, serving

EXAMPLE = (serving("stable", "e1", 2), serving("stable", "e2", 1), serving("canary", "e2", 1))


def _service(distribution: Distribution = Distribution.BY_REPLICAS, *order: str, **weights: int) -> ModelService:
    return ModelService(namespace=NAMESPACE, name="chat", backends=weights, distribution=distribution, order=order)


def test_divides_a_deployment_by_ready_replicas() -> None:
    shares = compute_shares(_service(stable=9, canary=1), EXAMPLE)
    assert shares == {"stable-e1": Fraction(6, 10), "stable-e2": Fraction(3, 10), "canary-e2": Fraction(1, 10)}
    assert to_route_weights({"e1": shares["stable-e1"], "e2": shares["stable-e2"] + shares["canary-e2"]}) == {
        "e1": 3,
        "e2": 2,
    }
    assert to_route_weights({name: shares[name] for name in ("stable-e2", "canary-e2")}) == {
        "stable-e2": 3,
        "canary-e2": 1,
    }


def test_divides_evenly() -> None:
    shares = compute_shares(_service(Distribution.EVEN, stable=1), EXAMPLE[:2])
    assert shares == {"stable-e1": Fraction(1, 2), "stable-e2": Fraction(1, 2)}


@pytest.mark.parametrize(
    ("order", "first"), [((), "stable-e1"), (("e2",), "stable-e2"), (("e9", "e2", "e1"), "stable-e2")]
)
def test_failover_gives_everything_to_the_first(order: tuple[str, ...], first: str) -> None:
    shares = compute_shares(_service(Distribution.FAILOVER, *order, stable=1), EXAMPLE[:2])
    assert {name for name, share in shares.items() if share} == {first}
    assert shares[first] == 1


def test_deployment_without_placements_leaves_its_weight_to_the_others() -> None:
    assert compute_shares(_service(stable=9, canary=1), EXAMPLE[2:]) == {"canary-e2": Fraction(1)}


def test_nothing_is_shared_if_all_weights_are_0() -> None:
    assert set(compute_shares(_service(stable=0), EXAMPLE[:2]).values()) == {Fraction(0)}
    assert compute_shares(_service(stable=1), ()) == {}
    assert to_route_weights({}) == {}
    assert to_route_weights({"a": Fraction(0)}) == {"a": 0}


PLACEMENTS = st.lists(
    st.tuples(st.sampled_from(("a", "b", "c")), st.integers(1, 9), st.integers(1, 1000)),
    min_size=1,
    max_size=12,
    unique_by=lambda row: row[:2],
).map(lambda rows: [serving(name, f"e{number}", replicas) for name, number, replicas in rows])
WEIGHTS = st.fixed_dictionaries({name: st.integers(1, MAX_WEIGHT) for name in ("a", "b", "c")})


@given(PLACEMENTS, WEIGHTS, st.sampled_from(Distribution))
def test_shares_add_up_to_1(placements: list[Placement], weights: dict[str, int], distribution: Distribution) -> None:
    shares = compute_shares(_service(distribution, **weights), placements)
    assert sum(shares.values()) == 1
    deployments = {p.deployment for p in placements}
    total = sum(weights[name] for name in deployments)
    for name in deployments:
        of_deployment = sum(shares[p.name] for p in placements if p.deployment == name)
        assert of_deployment == Fraction(weights[name], total)
    if distribution is not Distribution.FAILOVER:
        assert all(shares.values()), "every placement that can serve gets a share"


@given(st.dictionaries(st.integers(), st.fractions(0, 1, max_denominator=10**12), min_size=1, max_size=9))
def test_weights_are_the_smallest_integers_within_the_limit(shares: dict[int, Fraction]) -> None:
    weights = to_route_weights(shares)
    assert max(weights.values()) <= MAX_WEIGHT
    assert math.gcd(*weights.values()) == (1 if any(shares.values()) else 0)
    assert [bool(weight) for weight in weights.values()] == [bool(share) for share in shares.values()]
    largest, heaviest = max(shares.values()), max(weights.values())
    for key, weight in weights.items():
        if largest:
            assert abs(Fraction(weight, heaviest) - shares[key] / largest) <= Fraction(1, MAX_WEIGHT)


@given(st.dictionaries(st.integers(), st.integers(0, MAX_WEIGHT), min_size=1, max_size=9))
def test_weights_are_exact_where_they_fit(numbers: dict[int, int]) -> None:
    total = sum(numbers.values()) or 1
    divisor = math.gcd(*numbers.values()) or 1
    exact = {key: number // divisor for key, number in numbers.items()}
    assert to_route_weights({key: Fraction(number, total) for key, number in numbers.items()}) == exact
