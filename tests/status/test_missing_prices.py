"""A deployment that prefers the cheapest pool is told if no pool has a price."""

from dataclasses import replace
from decimal import Decimal

import pytest

from function.domain.allocation import Price
from function.domain.environment import Environment
from function.domain.placement import Preference
from function.status.model_deployment import note_missing_prices
from tests.support import builders

FREE = builders.environment("east", builders.pool())
PRICED = builders.environment("west", replace(builders.pool(), price=Price(per_gpu_hour=Decimal(2), currency="USD")))
NOTE = "is Cheapest, and no pool has a price, so the smallest that suffices is chosen; set price of the pools"


@pytest.mark.parametrize(
    ("prefer", "environments", "want"),
    [
        (Preference.CHEAPEST, (FREE,), NOTE),
        (Preference.CHEAPEST, (FREE, PRICED), ""),
        (Preference.CHEAPEST, (), ""),
        (Preference.SMALLEST_SUFFICIENT, (FREE,), ""),
    ],
    ids=["no price", "one price", "no pools", "other preference"],
)
def test_notes_that_no_pool_has_a_price(prefer: Preference, environments: tuple[Environment, ...], want: str) -> None:
    assert note_missing_prices(builders.deployment(prefer=prefer), environments) == want
