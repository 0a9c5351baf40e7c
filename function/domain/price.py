"""Prices of GPUs, and what a number of them costs per hour. Amounts in different currencies are never added."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """An amount of money per hour. Sorts by currency first, since amounts in different ones do not compare."""

    currency: str
    amount: Decimal

    def __str__(self) -> str:
        return f"{self.amount:.2f} {self.currency} per hour"


NO_COST = Cost("", Decimal(0))


def add_up(costs: Iterable[Cost]) -> tuple[Cost, ...]:
    """Returns the sum for each currency, by its name."""
    sums: dict[str, Decimal] = {}
    for cost in costs:
        sums[cost.currency] = sums.get(cost.currency, Decimal(0)) + cost.amount
    return tuple(sorted(Cost(currency, amount) for currency, amount in sums.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of the GPUs of a pool."""

    per_gpu_hour: Decimal
    currency: str
    price_class: str = "OnDemand"  # or Reserved or Spot

    def __str__(self) -> str:
        return f"{self.per_gpu_hour:.2f} {self.currency} {self.price_class}"

    def cost(self, gpus: int) -> Cost:
        """Returns what a number of GPUs costs per hour."""
        return Cost(self.currency, self.per_gpu_hour * gpus)
