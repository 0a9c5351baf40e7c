"""Which endpoints get which part of the requests now, and what is prepared, kept or dropped.

An endpoint enters in this order: the route on the cluster is ready, the Service and the EndpointSlice are observed, and
after `settle` the control plane's route names the endpoint. An endpoint leaves in the opposite order: first the control
plane's route drops it. What is composed for the endpoint is dropped only `settle` seconds after the gateway has seen
this route without the endpoint. The time is needed because a gateway reports a change before it applies the change.

A placement gets requests only while the status lists it. The status lists the placement until no gateway can send
requests to it. A deployment may therefore delete a placement that no ModelService lists.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from function.domain.model_service import BackendEntry, Distribution, EndpointEntry, EndpointState, ModelService
from function.domain.placement import Placement
from function.domain.settings import PlatformGateway
from function.kube.manifests import Manifest, parse_time, text
from function.kube.messages import join_with_more, truncate_middle
from function.kube.urls import Origin
from function.remote.composed_kinds import assess
from function.traffic.routes import GATEWAY_SERVICE, MAX_BACKENDS, ROUTE, SLICE, TLS, refuses_pools
from function.traffic.shares import (
    choose_placements,
    compute_shares,
    find_failover_environment,
    find_served,
    find_surplus,
    keep_last_weights,
    limit_to_backends,
    to_route_weights,
)
from function.traffic.sites import Site, find_obstacle, gather_sites

_ENTERING = {EndpointState.SERVING, EndpointState.WARMING, EndpointState.UNREACHABLE}
_MAX_CAUSE = 256  # bytes of what a gateway or the provider says; each placement behind a gateway repeats it
_DRAINING = "it is draining"
_DELETING = "its routes and its Service are being deleted"
_WITHDRAWING = "waiting until the gateways have applied a route without it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What is decided for one gateway, or for the placements of an environment without a gateway."""

    entry: EndpointEntry
    site: Site | None = None  # None: there is no gateway
    service_weights: Mapping[str, int] = field(default_factory=dict)  # weights on the cluster; none: it is not composed
    pools: Mapping[str, str] = field(default_factory=dict)  # InferencePools, by Kubernetes Service
    leaving: bool = False  # what is composed stays as observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    endpoints: tuple[Endpoint, ...]  # by environment
    weights: Mapping[Origin, int]  # of gateways, on the control plane
    wake_in: int | None  # seconds until the next step; None: nothing settles


@dataclass(frozen=True, slots=True)
class _Clock:
    now: float  # seconds since 1970
    settle: int  # seconds that a gateway is given to apply what it has seen

    def time_of(self, recorded: int | None) -> int:
        """Returns the recorded time of an event; now if there is none, or if it lies in the future."""
        now = math.ceil(self.now)
        return now if recorded is None or recorded > now else recorded

    def has_settled(self, since: int | None) -> bool:
        return since is not None and self.now >= since + self.settle


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The inputs from which endpoints are decided."""

    service: ModelService
    clock: _Clock
    obstacles: Mapping[str, str]  # why a placement cannot serve, by its name; empty: it can
    candidates: Mapping[str, Sequence[Placement]]  # placements that can serve, by key of the site
    entered: Mapping[str, int | None]  # when everything was first seen in place, by key of the site
    may_enter_route: Collection[str]  # keys of the sites that the control plane's route may name
    shares: Mapping[str, Fraction]  # by placement
    weights: Mapping[str, int]  # on the control plane, by key of the site
    surplus: Collection[str]  # placements for which the routes have no room


def plan_traffic(
    service: ModelService,
    placements: Iterable[Placement],
    observed: Mapping[str, Manifest],
    platform: PlatformGateway,
    now: float,
    *,
    serves_tls: bool = True,
) -> Traffic:
    """Decides which endpoints of a ModelService get which part of the requests, and when that changes next.

    It first finds the placements that can serve, and the sites that the control plane's route may name. Then it
    computes the shares of the chosen placements, and from the shares the weights of the sites. At last it decides what
    becomes of each site.

    `placements`: the placements of its backends. `observed`: what the ModelService has composed. `now`: seconds since
    1970. `serves_tls`: whether the control plane serves BackendTLSPolicies.
    """
    ordered = sorted(placements, key=lambda p: (p.environment, p.name))
    sites = {site.key: site for site in gather_sites(service, ordered, observed)}
    obstacles = {p.name: _find_obstacle(p, sites, platform, serves_tls=serves_tls) for p in ordered}
    if not any(_has_requests_for(service, p, sites, obstacles) for p in ordered):
        # Nothing else can serve, so draining placements that can serve get requests again. The status then lists them,
        # and their deployment keeps them. It deletes the other draining placements.
        ordered = [replace(p, draining=p.draining and not _can_serve(service, p, obstacles)) for p in ordered]
        sites = {site.key: site for site in gather_sites(service, ordered, observed)}
    candidates = {
        key: [p for p in site.members if not obstacles[p.name] and _may_get_requests(p, site)]
        for key, site in sites.items()
    }
    clock = _Clock(now, platform.settle)
    entered = {key: _find_entered_at(site, clock) for key, site in sites.items()}
    may_enter_route = {key for key, site in sites.items() if _may_name(site, entered[key], clock)}
    in_route = {key: candidates[key] for key in sites if key in may_enter_route}
    in_route |= _find_previous_sites(ordered, sites, obstacles, in_route)
    route = observed.get(ROUTE, {})
    chosen = choose_placements(service, sites, in_route, route)
    shares = compute_shares(service, chosen)
    surplus = find_surplus(sites, in_route, shares, find_served(sites, chosen))
    if surplus:
        shares = compute_shares(service, [p for p in chosen if shares[p.name] and p.name not in surplus])
    site_shares = {key: _add_shares(shares, placements) for key, placements in in_route.items()}
    weights = {key: weight for key, weight in to_route_weights(site_shares).items() if weight}
    if chosen and all(p.unreachable for p in chosen):
        keys = [key for key, placements in in_route.items() if any(p in chosen for p in placements)]
        weights = keep_last_weights(sites, keys, route) or weights
    plan = _Plan(
        service=service,
        clock=clock,
        obstacles=obstacles,
        candidates=candidates,
        entered=entered,
        may_enter_route=may_enter_route,
        shares=shares,
        weights=weights,
        surplus=surplus,
    )
    decided = [_decide(site, plan) for site in sites.values()]
    endpoints = [*filter(None, decided), *_list_without_gateway(ordered, obstacles)]
    return Traffic(
        endpoints=tuple(sorted(endpoints, key=lambda e: (e.entry.environment, e.entry.address))),
        weights={origin: weight for key, weight in weights.items() if (origin := sites[key].origin)},
        wake_in=_find_wake(endpoints, clock),
    )


def _find_obstacle(
    placement: Placement, sites: Mapping[str, Site], platform: PlatformGateway, *, serves_tls: bool
) -> str:
    site = sites.get(placement.service.gateway.key) if placement.service.gateway else None
    return find_obstacle(placement, site, platform, serves_tls=serves_tls)


def _may_name(site: Site, entered_at: int | None, clock: _Clock) -> bool:
    """Tells whether the control plane's route may name a site."""
    return site.has_local_resources and (site.in_route or clock.has_settled(entered_at))


def _add_shares(shares: Mapping[str, Fraction], placements: Iterable[Placement]) -> Fraction:
    """Returns the share of some placements together; those that were not chosen have none."""
    return sum((shares.get(p.name, Fraction(0)) for p in placements), Fraction(0))


def _has_requests_for(
    service: ModelService, placement: Placement, sites: Mapping[str, Site], obstacles: Mapping[str, str]
) -> bool:
    """Tells whether a placement serves requests of the service, or will as soon as its site is prepared."""
    if placement.service.gateway is None or not _can_serve(service, placement, obstacles):
        return False
    if placement.unreachable and service.withdraws_unreachable:
        return False  # its endpoint is withdrawn if another placement can serve
    return not placement.draining or _may_get_requests(placement, sites[placement.service.gateway.key])


def _can_serve(service: ModelService, placement: Placement, obstacles: Mapping[str, str]) -> bool:
    return not obstacles[placement.name] and service.backends[placement.deployment] > 0


def _may_get_requests(placement: Placement, site: Site) -> bool:
    """Tells whether a placement that can serve may get requests now.

    A draining placement may get requests only while it already gets some, because its deployment deletes it once it is
    not listed. A new placement behind a gateway in use may get requests only once the status lists it.
    """
    is_known = site.is_listed(placement) or site.is_routed(placement)
    return (is_known and site.in_route) if placement.draining else (is_known or not site.in_route)


def _find_previous_sites(
    placements: Iterable[Placement], sites: Mapping[str, Site], obstacles: Mapping[str, str], in_route: Collection[str]
) -> dict[str, list[Placement]]:
    """Returns the placements of sites whose gateway got another address, until the route may name the new address."""
    waiting = [
        p for p in placements if p.service.gateway and not obstacles[p.name] and p.service.gateway.key not in in_route
    ]
    vacated = {
        key: site for key, site in sites.items() if site.in_route and site.has_local_resources and not site.members
    }
    previous = {key: [p for p in waiting if site.is_listed(p)] for key, site in vacated.items()}
    return {key: moved for key, moved in previous.items() if moved}


def _find_entered_at(site: Site, clock: _Clock) -> int | None:
    """Returns when everything was first seen in place; None if the route names the site, or something is missing."""
    if site.in_route or not site.prepared:
        return None
    recorded = clock.time_of(site.entry.since if site.entry.state in _ENTERING else None)
    # The status may be older than the parts: one of them may have been deleted and composed again since. The API server
    # rounds the time of a creation down to seconds.
    parts = (site.observed.get(key) for key in (GATEWAY_SERVICE, SLICE, TLS))
    created = [parse_time(text(part, "metadata.creationTimestamp")) for part in parts]
    return max([recorded, *(time + 1 for time in created if time is not None and time <= clock.now)])


def _decide(site: Site, plan: _Plan) -> Endpoint | None:
    """Decides what becomes of a site; None if nothing is there."""
    weight = plan.weights.get(site.key, 0)
    if weight and not site.members:
        return Endpoint(site=site, entry=replace(site.entry, weight=weight), leaving=True)
    if weight or any(not p.draining for p in plan.candidates[site.key]):
        return _serve_or_prepare(site, plan)
    return _withdraw(site, plan)


def _serve_or_prepare(site: Site, plan: _Plan) -> Endpoint:
    candidates = plan.candidates[site.key]
    weight = plan.weights.get(site.key, 0)
    shares = {p.name: plan.shares[p.name] for p in candidates if plan.shares.get(p.name)}
    if not shares:
        prepared = [p for p in candidates if not p.draining]
        shares = {name: share or Fraction(1) for name, share in compute_shares(plan.service, prepared).items()}
        shares = {p.name: shares[p.name] for p in limit_to_backends(site, prepared, shares)}
    weights = to_route_weights(shares)
    workloads = {p.service.backend_service_name: weights[p.name] for p in candidates if p.name in weights}
    shown = [p for p in site.members if not p.draining or (p.name in weights and weight)]
    is_applied = site.has_seen_only(workloads) or (site.withdrawn and not weight)
    rows = [_build_row(p, weights.get(p.name, 0), _explain(p, site, plan)) for p in shown]
    rows += _list_withdrawn(site, plan, {p.name for p in shown}, is_applied=is_applied)
    entry = _build_entry(site, rows, weight, _find_state(site, plan, candidates), plan.entered[site.key])
    pools = {p.service.backend_service_name: p.service.inference_pool for p in candidates if p.service.inference_pool}
    return Endpoint(
        site=site,
        entry=entry,
        service_weights=workloads,
        pools={} if entry.pools_refused else {name: pool for name, pool in pools.items() if name in workloads},
    )


def _withdraw(site: Site, plan: _Plan) -> Endpoint | None:
    """Keeps what is composed for a site without requests, until the gateways have applied its withdrawal.

    The observed status and route may be older than a route that was written since, and that names the site. So the time
    starts anew if the site leaves for another reason than the recorded one, or if a service was Ready since.
    """
    shown = [p for p in site.members if not p.draining]
    state = EndpointState.NOT_READY if shown else EndpointState.DRAINING
    recorded = site.entry.since if site.entry.state is state else None
    others = _list_withdrawn(site, plan, {p.name for p in shown}, is_applied=False)
    is_left = bool(site.observed or others)
    changed = [p.unready_since for p in shown if p.unready_since is not None and p.unready_since <= plan.clock.now]
    since = max([plan.clock.time_of(recorded), *changed]) if is_left and site.withdrawn else None
    # A site without an address has no EndpointSlice that gets requests, and no entry that keeps the time.
    is_gone = not is_left or plan.clock.has_settled(since) or (site.withdrawn and site.origin is None)
    rows = [_build_row(p, 0, plan.obstacles[p.name]) for p in shown]
    if not is_gone:
        rows += others
    if not rows and not site.observed:
        return None
    return Endpoint(site=site, entry=_build_entry(site, rows, 0, state, since), leaving=not is_gone)


def _list_withdrawn(site: Site, plan: _Plan, shown: set[str], *, is_applied: bool) -> list[BackendEntry]:
    """Returns the rows of placements that get no more requests, but that a gateway may still know."""
    rows = []
    for row in site.entry.backends:
        since = plan.clock.time_of(row.since) if is_applied else None
        if row.placement not in shown and not plan.clock.has_settled(since):
            rows.append(replace(row, ready_replicas=0, weight=0, reason=_WITHDRAWING, since=since))
    return rows


def _list_without_gateway(placements: Sequence[Placement], obstacles: Mapping[str, str]) -> list[Endpoint]:
    by_environment: dict[str, list[BackendEntry]] = {}
    for p in placements:
        if p.service.gateway is None and not p.draining:
            by_environment.setdefault(p.environment, []).append(_build_row(p, 0, obstacles[p.name]))
    return [
        Endpoint(entry=EndpointEntry(environment=name, reason=_join_reasons(rows), backends=tuple(rows)))
        for name, rows in by_environment.items()
    ]


def _build_entry(
    site: Site, rows: Sequence[BackendEntry], weight: int, state: EndpointState, since: int | None
) -> EndpointEntry:
    names = sorted({p.environment for p in site.members})
    return EndpointEntry(
        environment=", ".join(names) or site.entry.environment,
        address=str(site.origin) if site.origin else "",
        state=state,
        reason="" if weight else _join_reasons(rows) or _DELETING,
        weight=weight,
        since=since,
        pools_refused=_are_pools_refused(site),
        backends=tuple(rows),
    )


def _are_pools_refused(site: Site) -> bool:
    """Tells whether a gateway does not know InferencePools, as far as a route has shown since they were switched on.

    A route without pools no longer shows it.
    """
    are_leaving = any(p.service.pool_unused_since is not None for p in site.members)
    return (site.entry.pools_refused and not are_leaving) or refuses_pools(site.remote.manifest)


def _build_row(placement: Placement, weight: int, reason: str) -> BackendEntry:
    return BackendEntry(
        deployment=placement.deployment,
        placement=placement.name,
        ready_replicas=placement.service.ready_replicas,
        weight=weight,
        reason=reason,
    )


def _join_reasons(rows: Sequence[BackendEntry]) -> str:
    reasons = sorted({row.reason for row in rows if row.reason})
    if len(reasons) == 1:
        return reasons[0]
    return join_with_more([f"{row.placement}: {row.reason}" for row in rows if row.reason], separator="; ")


def _find_state(site: Site, plan: _Plan, candidates: Sequence[Placement]) -> EndpointState:
    if all(p.unreachable for p in candidates):
        return EndpointState.UNREACHABLE
    if all(p.draining for p in candidates):
        return EndpointState.DRAINING
    return EndpointState.SERVING if site.key in plan.may_enter_route else EndpointState.WARMING


def _explain(placement: Placement, site: Site, plan: _Plan) -> str:
    """Returns why a placement gets no requests, or that it is draining; empty if it simply serves."""
    if plan.obstacles[placement.name]:
        return plan.obstacles[placement.name]
    if plan.shares.get(placement.name) and plan.weights.get(site.key):
        return _DRAINING if placement.draining else ""
    if placement.unreachable:
        return "its cluster does not answer, and other endpoints serve meanwhile"
    if not plan.service.backends[placement.deployment]:
        return f"the weight of {placement.deployment} is 0"
    if site.in_route and not site.is_listed(placement):
        return "it gets requests as soon as the status lists it"
    if site.key not in plan.may_enter_route:
        return _explain_warming(site)
    if placement.name in plan.surplus:
        return f"a route names at most {MAX_BACKENDS} backends, and others come first"
    serving = [p for ps in plan.candidates.values() for p in ps if plan.shares.get(p.name)]
    first = find_failover_environment(plan.service, [p for p in serving if p.deployment == placement.deployment])
    return f"{Distribution.FAILOVER}: {first} comes first"


def _explain_warming(site: Site) -> str:
    if not site.has_local_resources:
        return "its Service and EndpointSlice are not observed yet"
    if site.being_deleted:
        return _DELETING
    if not site.prepared:
        message = site.remote.problem or assess(site.remote.manifest).message
        return f"the route on the cluster is not ready: {truncate_middle(message, _MAX_CAUSE)}"
    return "waiting until the gateways have applied its routes"


def _find_wake(endpoints: Iterable[Endpoint], clock: _Clock) -> int | None:
    """Returns the seconds until the next change settles."""
    entries = [endpoint.entry for endpoint in endpoints]
    dates = [entry.since for entry in entries] + [row.since for entry in entries for row in entry.backends]
    waits = [wait for since in dates if since is not None and (wait := since + clock.settle - clock.now) > 0]
    return max(1, math.ceil(min(waits))) if waits else None
