"""What is observed of one gateway: its placements, what is composed for it, and whether the route names it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from function.domain.model_service import EndpointEntry, Gateway, ModelService, find_gateway_key
from function.domain.placement import Placement
from function.domain.settings import PlatformGateway
from function.kube.manifests import Manifest, integer, is_deleting, list_texts, listing, text
from function.kube.urls import Origin, parse_origin
from function.remote.health import is_programmed
from function.remote.object_writer import CLUSTER_SEPARATOR
from function.remote.observed_object import ObservedObject, is_up, read_object, read_written
from function.traffic.routes import (
    GATEWAY_SERVICE,
    REMOTE_ROUTE,
    ROUTE,
    SLICE,
    TLS,
    lacks_tls_name,
    name_gateway_service,
    read_route_weights,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A gateway with its placements and what is composed for it."""

    key: str
    members: tuple[Placement, ...]  # by environment and name; none: its placements are gone
    observed: Mapping[str, Manifest]  # what is composed for it, by name without the key
    origin: Origin | None  # of the gateway
    entry: EndpointEntry  # of the status; empty: it lists none
    in_route: bool  # the observed route has this gateway; if no route is observed, the status gives it a weight
    withdrawn: bool  # the control plane's gateway has seen a route without it

    @property
    def remote(self) -> ObservedObject:
        """The route on the cluster."""
        return read_object(self.observed.get(REMOTE_ROUTE))

    @property
    def has_local_resources(self) -> bool:
        """Tells whether everything on the control plane that the route would name is observed."""
        needs_tls = self.gateway is not None and self.gateway.origin.scheme == "https"
        return self.observed.keys() >= {GATEWAY_SERVICE, SLICE, *({TLS} if needs_tls else ())}

    @property
    def being_deleted(self) -> bool:
        """Tells whether an observed object of the site is being deleted, after the site was dropped."""
        return any(map(is_deleting, self.observed.values()))

    @property
    def prepared(self) -> bool:
        """Tells whether requests from the control plane's gateway reach a pod, and no object on the way goes."""
        return self.has_local_resources and is_up(self.remote) and not self.being_deleted

    @property
    def remote_namespace(self) -> str:
        """The namespace of the route on the cluster: where it was created, else where the first placement runs."""
        started = text(read_written(self.observed.get(REMOTE_ROUTE)), "metadata.namespace")
        return started or next((p.service.namespace for p in self.members), "")

    @property
    def gateway(self) -> Gateway | None:
        """The gateway whose kubeconfig the remote route uses, else the first gateway; None: its placements are gone."""
        gateways = [p.service.gateway for p in self.members if p.service.gateway]
        config = text(self.observed.get(REMOTE_ROUTE), "spec.providerConfigRef.name")
        return next((g for g in gateways if g.provider_config == config), next(iter(gateways), None))

    def is_listed(self, placement: Placement) -> bool:
        """Tells whether the status lists a placement here."""
        return any(row.placement == placement.name for row in self.entry.backends)

    def is_routed(self, placement: Placement) -> bool:
        """Tells whether the route on the cluster, as last written, names a placement."""
        written = read_written(self.observed.get(REMOTE_ROUTE))
        return placement.service.backend_service_name in read_route_weights(written)

    def sends_to(self, placement: Placement) -> bool:
        """Tells whether the observed routes name a placement, on the control plane and on the cluster."""
        return self.in_route and placement.service.backend_service_name in read_route_weights(self.remote.manifest)

    def has_seen_only(self, workloads: Iterable[str]) -> bool:
        """Tells whether the cluster's gateway has seen a route that names only these Kubernetes Services."""
        route = self.remote.manifest
        return self.remote.present and read_route_weights(route).keys() <= set(workloads) and is_programmed(route)


def gather_sites(
    service: ModelService, placements: Iterable[Placement], observed: Mapping[str, Manifest]
) -> tuple[Site, ...]:
    """Returns the sites of a service by key: the gateways of placements, and those for which anything is composed.

    `placements`: the placements of its backends, by environment and name.
    """
    members: dict[str, list[Placement]] = {}
    for placement in placements:
        if placement.service.gateway:
            members.setdefault(placement.service.gateway.key, []).append(placement)
    composed: dict[str, dict[str, Manifest]] = {}
    for name, manifest in observed.items():
        key, _, part = name.partition(CLUSTER_SEPARATOR)
        if part:
            composed.setdefault(key, {})[part] = manifest
    entries = {find_gateway_key(entry.address): entry for entry in service.entries if entry.address}
    route = observed.get(ROUTE, {})
    named = read_route_weights(route)
    sites = []
    for key in sorted(members.keys() | composed.keys()):
        entry = entries.get(key, EndpointEntry(environment=""))
        parts = composed.get(key, {})
        origins = (p.service.gateway.origin for p in members.get(key, ()) if p.service.gateway)
        origin = next(origins, None) or parse_origin(entry.address) or _find_origin(key, parts)
        name = name_gateway_service(service, origin) if origin else text(parts.get(GATEWAY_SERVICE), "metadata.name")
        sites.append(
            Site(
                key=key,
                members=tuple(members.get(key, ())),
                observed=parts,
                origin=origin,
                entry=entry,
                in_route=name in named or (not route and entry.weight > 0),
                withdrawn=bool(route) and name not in named and is_programmed(route),
            )
        )
    return tuple(sites)


def _find_origin(key: str, parts: Mapping[str, Manifest]) -> Origin | None:
    """Returns the address of a gateway without placements that the status does not list, from its EndpointSlice."""
    endpoint = next(iter(listing(parts.get(SLICE), "endpoints")), {})
    host = next(iter(list_texts(endpoint, "addresses")), "")
    port = next((integer(port, "port") for port in listing(parts.get(SLICE), "ports")), 0)
    origins = (Origin(scheme, host, port) for scheme in ("http", "https"))
    return next((origin for origin in origins if find_gateway_key(str(origin)) == key), None)


def find_obstacle(placement: Placement, site: Site | None, platform: PlatformGateway, *, serves_tls: bool) -> str:
    """Returns why a placement cannot serve requests of a ModelService; empty if it can."""
    gateway = placement.service.gateway
    environment = f"InferenceEnvironment {placement.environment}"
    if placement.deleting:
        return "it is being deleted"
    if placement.service.ready_replicas < 1:
        return "no replica is ready"
    if gateway is None or site is None:
        return f"{environment} has no gateway: its kserve.gateway is false, or KServe has not reported one yet"
    if not placement.service.backend_service_name:
        return "KServe has not reported the Kubernetes Service of its pods yet"
    if (gateway.origin.host, gateway.origin.port) == (platform.origin.host, platform.origin.port):
        return f"{gateway.origin} is the control plane's own gateway; set spec.gateway.url of {environment}"
    if lacks_tls_name(gateway):
        return f"{gateway.origin} has no host name to verify; set spec.gateway.tls.hostname of {environment}"
    if gateway.origin.scheme == "https" and not serves_tls:
        needed = "the control plane does not serve BackendTLSPolicy v1, which https needs"
        return f"{needed}; install Gateway API 1.4 or later, or set spec.gateway.url of {environment} to http"
    if placement.service.namespace != site.remote_namespace:
        return f"it runs in namespace {placement.service.namespace}, but the route is in {site.remote_namespace}"
    return ""
