"""Which placements get requests, of those that the control plane's route may name."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction

from function.domain.model_service import ModelService
from function.domain.placement import Placement
from function.kube.manifests import Manifest, text
from function.traffic.routes import MAX_BACKENDS, SERVICE, read_weights
from function.traffic.sites import Site


def choose(
    service: ModelService, sites: Mapping[str, Site], in_route: Mapping[str, Sequence[Placement]], route: Manifest
) -> list[Placement]:
    """Chooses the placements that get requests.

    A draining or unreachable placement is left out if others can serve instead. A draining one is left out once the
    observed routes name another placement of its deployment; if the route is full, the two are exchanged in one step.
    """
    candidates = [p for placements in in_route.values() for p in placements if service.backends[p.deployment]]
    reachable = [p for p in candidates if not p.unreachable]
    if reachable and service.withdraws_unreachable:
        candidates = reachable
    staying = [p for p in reachable if not p.draining]
    is_full = len(read_weights(route)) >= MAX_BACKENDS
    replaced = {p.deployment for p in staying} if is_full else find_served(sites, staying)
    return [p for p in candidates if not (p.draining and p.deployment in replaced)]


def find_served(sites: Mapping[str, Site], placements: Iterable[Placement]) -> set[str]:
    """Returns the deployments of which the observed routes name one of some placements."""
    return {p.deployment for p in placements if p.gateway and sites[p.gateway.key].sends_to(p)}


def find_surplus(
    sites: Mapping[str, Site],
    in_route: Mapping[str, Sequence[Placement]],
    shares: Mapping[str, Fraction],
    served: Collection[str],
) -> set[str]:
    """Returns the placements that get no requests because a rule of a route names at most MAX_BACKENDS.

    What the routes name stays. One endpoint of each deployment that nothing serves comes next, then the largest shares.
    """
    limited = {key: take_first(sites[key], placements, shares) for key, placements in in_route.items()}
    totals = {key: sum((shares[p.name] for p in placements), Fraction(0)) for key, placements in limited.items()}
    by_size = sorted((key for key, total in totals.items() if total), key=lambda key: (-totals[key], key))
    largest = {p.deployment: key for key in reversed(by_size) for p in limited[key] if p.deployment not in served}
    first = {*largest.values()}
    kept = sorted(by_size, key=lambda key: (not sites[key].named, key not in first))[:MAX_BACKENDS]
    return {name for name, share in shares.items() if share} - {p.name for key in kept for p in limited[key]}


def take_first(site: Site, placements: Iterable[Placement], shares: Mapping[str, Fraction]) -> list[Placement]:
    """Returns the placements with a share for which the route on the cluster has room: those that it names, first."""
    sharing = (p for p in placements if shares.get(p.name))
    return sorted(sharing, key=lambda p: (not site.is_routed(p), -shares[p.name], p.name))[:MAX_BACKENDS]


def keep_last_weights(sites: Mapping[str, Site], keys: Iterable[str], route: Manifest) -> dict[str, int]:
    """Returns the weights of the observed route: no cluster answers, and their gateways may serve nevertheless."""
    last = read_weights(route)
    names = {key: text(sites[key].observed[SERVICE], "metadata.name") for key in keys}
    return {key: last[name] for key, name in sorted(names.items()) if name in last}
