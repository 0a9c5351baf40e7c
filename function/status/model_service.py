"""Status and conditions of a ModelService: its URL, its endpoints, and why an endpoint gets no traffic."""

from collections.abc import Iterable, Sequence
from functools import partial

from function.contract import Condition
from function.domain.model_service import EndpointEntry, EndpointState, ModelService
from function.domain.placement import Placement
from function.domain.settings import PlatformGateway
from function.kube.manifests import JSON, Manifest, format_time, listing, prune
from function.kube.messages import join_with_more
from function.kube.urls import Origin
from function.reasons import BackendsAlike, BackendsResolved, ConditionType, EndpointsReady, RouteReady, Status
from function.remote.composed_kinds import assess
from function.remote.health import Level
from function.traffic.endpoints import Traffic

_endpoints_ready = partial(Condition, ConditionType.ENDPOINTS_READY)
_route_ready = partial(Condition, ConditionType.ROUTE_READY)
_TRAITS = {
    "model": "served name",
    "contextLength": "context length",
    "weights": "weights",
    "engine": "engine",
    "adapters": "LoRA adapters",
}
_DEFAULTS = {"adapters": "none"}  # of a service with traits that does not record this one


def build_backends_resolved(service: ModelService, placements: Iterable[Placement]) -> Condition:
    placed = {placement.deployment for placement in placements}
    missing = [name for name in service.backends if name not in placed]
    if missing:
        message = f"No placement of {join_with_more(missing)} exists; create the deployment, or see its Scheduled"
        return Condition(ConditionType.BACKENDS_RESOLVED, Status.FALSE, BackendsResolved.NO_PLACEMENTS, message)
    message = f"Every deployment has placements: {join_with_more(sorted(placed))}"
    return Condition(ConditionType.BACKENDS_RESOLVED, Status.TRUE, BackendsResolved.RESOLVED, message)


def build_endpoints_ready(traffic: Traffic) -> Condition:
    """Returns EndpointsReady: how many endpoints get requests, and why not all of them.

    An endpoint that could serve at once, but is not meant to, is not a fault: its weight is 0, or it is the next
    endpoint of Failover.
    """
    entries = [endpoint.entry for endpoint in traffic.endpoints]
    idle = [entry for entry in entries if not entry.weight]
    serving = len(entries) - len(idle)
    message = f"{serving} of {len(entries)} endpoints get requests"
    if idle:
        reasons = join_with_more([f"{e.environment}: {e.state}, {e.reason}" for e in idle], separator="; ")
        message = f"{message}. {reasons}"
    if refusing := sorted(entry.environment for entry in entries if entry.pools_refused):
        why = "as its gateway does not know InferencePools (ResolvedRefs is InvalidKind)"
        message = f"{message}. No endpoint picker divides the requests on {join_with_more(refusing)}, {why}"
    if not serving:
        return _endpoints_ready(Status.FALSE, EndpointsReady.NONE_READY, message)
    if any(entry.state is not EndpointState.SERVING for entry in idle):
        return _endpoints_ready(Status.FALSE, EndpointsReady.PARTIALLY_READY, message)
    return _endpoints_ready(Status.TRUE, EndpointsReady.READY, message)


def build_route_ready(route: Manifest | None, gateway: PlatformGateway | None) -> Condition:
    if gateway is None:
        message = "The platform settings name no gateway; set gateway.name and gateway.url"
        return _route_ready(Status.FALSE, RouteReady.GATEWAY_NOT_CONFIGURED, message)
    name = f"Gateway {gateway.namespace}/{gateway.name}"
    if route is None:
        return _route_ready(Status.FALSE, RouteReady.APPLYING, "The route is being created")
    health = assess(route)
    if health.up:
        return _route_ready(Status.TRUE, RouteReady.ACCEPTED, f"{name} has accepted the route")
    if not listing(route, "status.parents"):
        return _route_ready(Status.FALSE, RouteReady.GATEWAY_NOT_FOUND, f"{name}: {health.message}")
    reason = RouteReady.REJECTED if health.level is Level.FAILED else RouteReady.APPLYING
    return _route_ready(Status.FALSE, reason, f"{name}: {health.message}")


def build_backends_alike(service: ModelService, placements: Sequence[Placement]) -> Condition:
    """Returns BackendsAlike: whether clients notice which placement answers; it never stops anything.

    The weights are compared only within a deployment: another version has other weights.
    """
    differences = []
    placements = sorted(placements, key=lambda p: (p.deployment, p.environment))
    for trait, word in _TRAITS.items():
        groups = [placements]
        if trait == "weights":
            groups = [[p for p in placements if p.deployment == name] for name in service.backends]
        for group in groups:
            known = ((p, {**_DEFAULTS, **dict(p.service.traits)}) for p in reversed(group) if p.service.traits)
            values = {traits[trait]: p for p, traits in known if trait in traits}
            if len(values) > 1:
                shown = join_with_more([f"{value} ({p.deployment} on {p.environment})" for value, p in values.items()])
                differences.append(f"{word}: {shown}")
    if differences:
        message = f"Clients notice which placement answers. {'; '.join(differences)}"
        return Condition(ConditionType.BACKENDS_ALIKE, Status.FALSE, BackendsAlike.DIFFERENT, message)
    return Condition(ConditionType.BACKENDS_ALIKE, Status.TRUE, BackendsAlike.ALIKE)


def build_status(service: ModelService, gateway: PlatformGateway, traffic: Traffic) -> Manifest:
    """Returns the status; endpoints and placements are parsed again in the next call."""
    entries = [endpoint.entry for endpoint in traffic.endpoints]
    rows: list[JSON] = [_build_row(entry) for entry in entries]
    return {
        "url": build_url(service, gateway),
        "ready": sum(entry.weight > 0 for entry in entries),
        "total": len(entries),
        "endpoints": rows,
    }


def build_url(service: ModelService, gateway: PlatformGateway) -> str:
    """Returns the URL for clients: the first host name without a wildcard, else the URL of the Gateway."""
    origin = gateway.origin
    hosts = [host for host in service.hostnames if not host.startswith("*")]
    return f"{Origin(origin.scheme, hosts[0], origin.port) if hosts else origin}{service.path}"


def _build_row(entry: EndpointEntry) -> Manifest:
    backends: list[JSON] = [
        prune(
            {
                "deployment": backend.deployment,
                "placement": backend.placement,
                "readyReplicas": backend.ready_replicas,
                "weight": backend.weight,
                "reason": backend.reason or None,
                "since": None if backend.since is None else format_time(backend.since),
            }
        )
        for backend in entry.backends
    ]
    return prune(
        {
            "environment": entry.environment,
            "address": entry.address or None,
            "state": entry.state,
            "reason": entry.reason or None,
            "weight": entry.weight,
            "since": None if entry.since is None else format_time(entry.since),
            "inferencePoolsRefused": entry.pools_refused or None,
            "backends": backends,
        }
    )
