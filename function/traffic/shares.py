"""Which of the placements that the control plane's route may name get requests, and the share of each.

The share of a deployment is its weight divided by the sum of the weights of all deployments that can serve. The
distribution divides this share among its placements. Shares are exact fractions; the weights of a gateway are the
smallest integers in proportion, at most MAX_WEIGHT.
"""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

from function.domain.model_service import Distribution, ModelService
from function.domain.placement import Placement
from function.kube.manifests import Manifest, text
from function.traffic.routes import GATEWAY_SERVICE, MAX_BACKENDS, read_route_weights
from function.traffic.sites import Site

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
        first = find_failover_environment(service, placements)
        # A draining placement keeps a part until its replacement is in the routes.
        return {p.name: int(p.environment == first or p.draining) for p in placements}
    is_even = service.distribution is Distribution.EVEN
    return {p.name: 1 if is_even else p.service.ready_replicas for p in placements}


def find_failover_environment(service: ModelService, placements: Iterable[Placement]) -> str:
    """Returns the first environment of some placements, in the order of the service, then by name.

    Environments whose placement is draining come last.
    """
    ranks = {name: index for index, name in enumerate(service.order)}
    first = min(placements, key=lambda p: (p.draining, ranks.get(p.environment, len(ranks)), p.environment))
    return first.environment


def to_route_weights(shares: Mapping[K, Fraction]) -> dict[K, int]:
    """Returns the smallest integers in proportion to shares; if one exceeds MAX_WEIGHT, the nearest allowed integers.

    A share that is not 0 is never rounded to 0.
    """
    multiple = math.lcm(*(share.denominator for share in shares.values()))
    weights = {key: share.numerator * (multiple // share.denominator) for key, share in shares.items()}
    largest = max(weights.values(), default=0)
    if largest > MAX_WEIGHT * math.gcd(*weights.values()):
        weights = {k: max(1, (w * MAX_WEIGHT * 2 + largest) // (largest * 2)) if w else 0 for k, w in weights.items()}
    divisor = math.gcd(*weights.values()) or 1
    return {key: weight // divisor for key, weight in weights.items()}


def choose_placements(
    service: ModelService, sites: Mapping[str, Site], in_route: Mapping[str, Sequence[Placement]], route: Manifest
) -> list[Placement]:
    """Chooses the placements that get requests.

    A draining or unreachable placement is left out if others can serve instead. A draining placement is left out once
    the observed routes name another placement of its deployment. If the route is full, the two placements are exchanged
    in one step.
    """
    candidates = [p for placements in in_route.values() for p in placements if service.backends[p.deployment]]
    reachable = [p for p in candidates if not p.unreachable]
    if reachable and service.withdraws_unreachable:
        candidates = reachable
    staying = [p for p in reachable if not p.draining]
    is_full = len(read_route_weights(route)) >= MAX_BACKENDS
    replaced = {p.deployment for p in staying} if is_full else find_served(sites, staying)
    return [p for p in candidates if not (p.draining and p.deployment in replaced)]


def find_served(sites: Mapping[str, Site], placements: Iterable[Placement]) -> set[str]:
    """Returns the deployments of the given placements that the observed routes name."""
    return {p.deployment for p in placements if p.service.gateway and sites[p.service.gateway.key].sends_to(p)}


def find_surplus(
    sites: Mapping[str, Site],
    in_route: Mapping[str, Sequence[Placement]],
    shares: Mapping[str, Fraction],
    served: Collection[str],
) -> set[str]:
    """Returns the placements that get no requests because a rule of a route names at most MAX_BACKENDS.

    Endpoints that the routes name stay. Next comes one endpoint of each deployment that no endpoint serves yet, then
    the endpoints with the largest shares.
    """
    limited = {key: limit_to_backends(sites[key], placements, shares) for key, placements in in_route.items()}
    totals = {key: sum((shares[p.name] for p in placements), Fraction(0)) for key, placements in limited.items()}
    by_size = sorted((key for key, total in totals.items() if total), key=lambda key: (-totals[key], key))
    largest = {p.deployment: key for key in reversed(by_size) for p in limited[key] if p.deployment not in served}
    first = {*largest.values()}
    kept = sorted(by_size, key=lambda key: (not sites[key].in_route, key not in first))[:MAX_BACKENDS]
    return {name for name, share in shares.items() if share} - {p.name for key in kept for p in limited[key]}


def limit_to_backends(site: Site, placements: Iterable[Placement], shares: Mapping[str, Fraction]) -> list[Placement]:
    """Returns the placements with a share for which the cluster's route has room; those that it names come first."""
    sharing = (p for p in placements if shares.get(p.name))
    return sorted(sharing, key=lambda p: (not site.is_routed(p), -shares[p.name], p.name))[:MAX_BACKENDS]


def keep_last_weights(sites: Mapping[str, Site], keys: Iterable[str], route: Manifest) -> dict[str, int]:
    """Returns the weights of the observed route: no cluster answers, but their gateways may still serve."""
    last = read_route_weights(route)
    names = {key: text(sites[key].observed[GATEWAY_SERVICE], "metadata.name") for key in keys}
    return {key: last[name] for key, name in sorted(names.items()) if name in last}
