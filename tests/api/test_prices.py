"""Prices of pools: as declared, and without one where it cannot be read, so that a pool never depends on its price."""

from decimal import Decimal

import pytest

from function.api.inference_environment import parse_environment
from function.domain.allocation import Cost, Price, add_up
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest
from tests.api import manifests
from tests.api.manifests import pool


def test_reads_a_price() -> None:
    price: JSON = {"perGpuHour": "2.50", "currency": "EUR", "class": "Spot"}
    parsed = parse_environment(manifests.environment(pool(price=price)), BUILT_IN)
    expected = Price(per_gpu_hour=Decimal("2.50"), currency="EUR", price_class="Spot")
    assert [p.price for p in parsed.value.pools] == [expected]
    assert parsed.problems == ()


@pytest.mark.parametrize(
    ("price", "problem"),
    [
        ({"perGpuHour": "-1", "currency": "EUR"}, 'perGpuHour: "-1" is not allowed; must be a decimal number such as'),
        (
            {"perGpuHour": "1e3", "currency": "EUR"},
            'perGpuHour: "1e3" is not allowed; must be a decimal number such as',
        ),
        ({"perGpuHour": 2.5, "currency": "EUR"}, "perGpuHour: 2.5 is not allowed; must be text"),
        (
            {"perGpuHour": "2.5", "currency": "eur"},
            'currency: "eur" is not allowed; must be three capital letters of ISO 4217',
        ),
        (
            {"perGpuHour": "2.5", "currency": "dollar"},
            'currency: "dollar" is not allowed; must be three capital letters of ISO 4217, such as USD, at most 3',
        ),
        ({"perGpuHour": "2.5"}, "currency: is required"),
        ({"perGpuHour": "2.5", "currency": "EUR", "class": "Free"}, 'class: "Free" is not known; must be one of'),
    ],
    ids=str,
)
def test_pool_with_a_bad_price_has_none_and_still_counts(price: JSON, problem: str) -> None:
    parsed = parse_environment(manifests.environment(pool(price=price)), BUILT_IN)
    assert [p.price for p in parsed.value.pools] == [None]
    assert str(parsed.problems[0]).startswith(f"spec.nodePools[0].price.{problem}")
    assert parsed.pool_problems == parsed.problems
    assert (parsed.value.broken, parsed.value.broken_pools, parsed.other_problems) == (False, (), ())


def test_price_that_is_no_block_is_a_problem_of_the_price() -> None:
    parsed = parse_environment(manifests.environment(pool(price="2.50 EUR")), BUILT_IN)
    assert [p.path for p in parsed.pool_problems] == ["spec.nodePools[0].price"]
    assert [p.price for p in parsed.value.pools] == [None]


@pytest.mark.parametrize("cluster", ["existing", "gke"])
def test_bad_price_of_a_pool_below_its_cluster_is_a_problem_of_the_price(cluster: str) -> None:
    spec: Manifest = {"nodePools": [pool(price={"perGpuHour": "2.50"})], "secretRef": {"name": "east"}}
    source = {"existing": "Existing", "gke": "GKE"}[cluster]
    parsed = parse_environment({"spec": {"cluster": {"source": source, cluster: spec}}}, BUILT_IN)
    assert [p.path for p in parsed.pool_problems] == [f"spec.cluster.{cluster}.nodePools[0].price.currency"]
    assert [p.price for p in parsed.value.pools] == [None]


_LIKE_A_PRICE = "nodePools[0].price"


def test_invalid_key_of_a_pool_that_reads_like_a_price_makes_the_pool_invalid() -> None:
    parsed = parse_environment(manifests.environment(pool(labels={_LIKE_A_PRICE: 3})), BUILT_IN)
    assert parsed.value.broken_pools == ("h100",)
    assert parsed.value.pools == ()


def test_invalid_key_elsewhere_that_reads_like_a_price_makes_the_environment_broken() -> None:
    download: JSON = {"resources": {"limits": {_LIKE_A_PRICE: "much"}}}
    parsed = parse_environment(manifests.environment(storage={"download": download}), BUILT_IN)
    assert parsed.value.broken
    assert parsed.other_problems == parsed.problems != ()


def test_pool_with_another_problem_is_invalid_with_all_of_them() -> None:
    parsed = parse_environment(manifests.environment(pool(maxNodeCount=-1, price={"currency": "EUR"})), BUILT_IN)
    assert parsed.value.broken_pools == ("h100",)
    assert len(parsed.pool_problems) == 2


def test_adds_up_each_currency_by_itself() -> None:
    costs = [Cost("USD", Decimal("1.50")), Cost("EUR", Decimal(2)), Cost("USD", Decimal("0.25"))]
    assert list(map(str, add_up(costs))) == ["2.00 EUR per hour", "1.75 USD per hour"]
