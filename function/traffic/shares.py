"""The share of the requests that each placement gets, as exact fractions, and the weights that gateways take.

The share of a deployment is its weight divided by the sum of the weights of all deployments that can serve. The
distribution divides this share among its placements. The weights of a gateway are the smallest integers in proportion,
at most MAX_WEIGHT.
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from typing import TypeVar

from function.domain.model_service import Distribution, ModelService
from function.domain.placement import Placement

MAX_WEIGHT = 1_000_000  # of Gateway API
K = TypeVar("K", bound=Hashable)


def compute_shares(service: ModelService, placements: Iterable[Placement]) -> dict[str, Fraction]:
    """Returns the share of each placement that can serve, by name; their sum is 1, or 0 if all weights are 0."""
    by_backend: dict[str, list[Placement]] = {}
    for placement in placements:
        by_backend.setdefault(placement.deployment, []).append(placement)
    weights = {name: weight for name, weight in service.backends.items() if name in by_backend}
    total = sum(weights.values())
    shares: dict[str, Fraction] = {}
    for deployment, weight in weights.items():
        parts = _divide(service, by_backend[deployment])
        for name, part in parts.items():
            shares[name] = Fraction(weight * part, total * sum(parts.values())) if total else Fraction(0)
    return shares


def _divide(service: ModelService, placements: list[Placement]) -> dict[str, int]:
    """Returns the part of each placement of one deployment."""
    if service.distribution is Distribution.FAILOVER:
        first = find_first(service, placements)
        # A draining placement keeps a part until its replacement is in the routes.
        return {p.name: int(p.environment == first or p.draining) for p in placements}
    is_even = service.distribution is Distribution.EVEN
    return {p.name: 1 if is_even else p.ready_replicas for p in placements}


def find_first(service: ModelService, placements: Iterable[Placement]) -> str:
    """Returns the first environment of some placements, in the order of the service, then by name.

    Environments whose placement is draining come last.
    """
    ranks = {name: index for index, name in enumerate(service.order)}
    first = min(placements, key=lambda p: (p.draining, ranks.get(p.environment, len(ranks)), p.environment))
    return first.environment


def to_weights(shares: Mapping[K, Fraction]) -> dict[K, int]:
    """Returns the smallest integers in proportion to shares; where one exceeds MAX_WEIGHT, the nearest that do not.

    A share that is not 0 is never rounded to 0.
    """
    multiple = math.lcm(*(share.denominator for share in shares.values()))
    weights = {key: share.numerator * (multiple // share.denominator) for key, share in shares.items()}
    largest = max(weights.values(), default=0)
    if largest > MAX_WEIGHT * math.gcd(*weights.values()):
        weights = {k: max(1, (w * MAX_WEIGHT * 2 + largest) // (largest * 2)) if w else 0 for k, w in weights.items()}
    divisor = math.gcd(*weights.values()) or 1
    return {key: weight // divisor for key, weight in weights.items()}
