"""The configuration of the real Envoy as a gateway that knows InferencePools, built of what a GPU cluster has.

Requests to a pool pass through its picker (`ext_proc`), which names the pod; where no picker is ready, Envoy has no one
to ask. Only what routes of this project and of KServe use is understood; a rule with any other reference answers 500,
as Gateway API wants it. `envoy_controller.py` reads the cluster and runs Envoy.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from function.kube.manifests import JSON, Manifest, get, integer, list_texts, listing, mapping, text

_CLOSED_PORT = 1
_POOL_GROUP = "inference.networking.k8s.io"
_DESTINATION = "x-gateway-destination-endpoint"  # where a picker names the pod
_PICKER = "picker"
ROUTES, CLUSTERS = "routes", "clusters"
_TYPES = "type.googleapis.com/"
_FILTERS = f"{_TYPES}envoy.extensions.filters"
_POLICIES = "envoy.extensions.load_balancing_policies"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What requests can be sent to: the pods of a Service or of an InferencePool, or the pickers of a pool."""

    name: str
    endpoints: tuple[tuple[str, int], ...]
    picker: str = ""  # the cluster of the pickers, if this is a pool
    is_picker: bool = False


@dataclass(slots=True)
class View:
    """The objects of a GPU cluster that decide."""

    routes: Sequence[Manifest]
    slices: Sequence[Manifest]
    pools: Sequence[Manifest]
    pods: Sequence[Manifest]
    picker_ports: Mapping[str, int] = field(default_factory=dict)  # by the address of the pod
    refuses_without_picker: bool = False  # whether a connection is tried, and refused, while no picker is ready

    def find_cluster(self, namespace: str, reference: Manifest) -> Iterator[Cluster]:
        """Yields the cluster of a reference in a route, and that of its pickers; nothing for an unknown kind."""
        name, port = text(reference, "name"), integer(reference, "port")
        group, kind = text(reference, "group"), text(reference, "kind") or "Service"
        if (group, kind) == ("", "Service"):
            yield Cluster(f"{namespace}_{name}", tuple((each, port) for each in self._find_ready(namespace, name)))
        if (group, kind) == (_POOL_GROUP, "InferencePool"):
            yield from self._find_pool(namespace, name)

    def _find_pool(self, namespace: str, name: str) -> Iterator[Cluster]:
        for pool in self.pools:
            if (text(pool, "metadata.namespace"), text(pool, "metadata.name")) != (namespace, name):
                continue
            service, picker = text(pool, "spec.endpointPickerRef.name"), f"{namespace}_{name}_picker"
            ready = (each for each in self._find_ready(namespace, service) if each in self.picker_ports)
            endpoints = tuple(("127.0.0.1", self.picker_ports[each]) for each in ready)
            if self.refuses_without_picker and not endpoints:
                endpoints = (("127.0.0.1", _CLOSED_PORT),)
            port = next((integer(each, "number") for each in listing(pool, "spec.targetPorts")), 0)
            yield Cluster(f"{namespace}_{name}", tuple((each, port) for each in self._find_pods(pool)), picker)
            yield Cluster(picker, endpoints, is_picker=True)

    def _find_pods(self, pool: Manifest) -> Iterator[str]:
        wanted = mapping(pool, "spec.selector.matchLabels").items()
        for pod in self.pods:
            in_namespace = text(pod, "metadata.namespace") == text(pool, "metadata.namespace")
            if in_namespace and wanted <= mapping(pod, "metadata.labels").items() and text(pod, "status.podIP"):
                yield text(pod, "status.podIP")

    def _find_ready(self, namespace: str, service: str) -> Iterator[str]:
        for part in self.slices:
            labels = mapping(part, "metadata.labels")
            if text(part, "metadata.namespace") != namespace or labels.get("kubernetes.io/service-name") != service:
                continue
            for endpoint in listing(part, "endpoints"):
                if get(endpoint, "conditions.ready"):
                    yield from list_texts(endpoint, "addresses")


def build_routes(view: View) -> tuple[list[Manifest], list[Cluster]]:
    """Returns the routes of Envoy, the most specific first, and the clusters that they name."""
    clusters: dict[str, Cluster] = {}
    routes: list[tuple[bool, int, Manifest]] = []
    for route in view.routes:
        for rule in listing(route, "spec.rules"):
            action = _build_action(view, text(route, "metadata.namespace"), rule, clusters)
            for match in listing(rule, "matches"):
                path, is_exact = text(match, "path.value"), text(match, "path.type") == "Exact"
                built = {"match": _build_match(path, match, is_exact=is_exact), **_build_rewrite(rule, path, action)}
                routes.append((is_exact, len(path) + 1000 * len(listing(match, "headers")), built))
    routes.sort(key=lambda each: each[:2], reverse=True)
    return [route for _, _, route in routes], list(clusters.values())


def _build_action(view: View, namespace: str, rule: Manifest, clusters: dict[str, Cluster]) -> Manifest:
    weighted: list[JSON] = []
    for reference in listing(rule, "backendRefs"):
        found = list(view.find_cluster(namespace, reference))
        if not found:
            return {"direct_response": {"status": 500}}
        clusters.update({each.name: each for each in found})
        entry: Manifest = {"name": found[0].name, "weight": integer(reference, "weight", 1)}
        if found[0].picker:
            entry["typed_per_filter_config"] = {_PICKER: _build_override(found[0].picker)}
        weighted.append(entry)
    timeout = text(rule, "timeouts.request") or "15s"
    return {"route": {"weighted_clusters": {"clusters": weighted}, "timeout": timeout}}


def _build_match(path: str, match: Manifest, *, is_exact: bool) -> Manifest:
    where: Manifest = {"path": path} if is_exact else {"prefix": "/"}
    if not is_exact and path != "/":
        where = {"path_separated_prefix": path}
    headers: list[JSON] = [
        {"name": text(each, "name"), "string_match": {"exact": text(each, "value")}}
        for each in listing(match, "headers")
    ]
    return {**where, **({"headers": headers} if headers else {})}


def _build_rewrite(rule: Manifest, path: str, action: Manifest) -> Manifest:
    for each in listing(rule, "filters"):
        whole, prefix = (text(each, f"urlRewrite.path.{key}") for key in ("replaceFullPath", "replacePrefixMatch"))
        if (whole or prefix) and "route" in action:
            regex = "^.*$" if whole else f"^{re.escape(path)}" + ("/*" if prefix == "/" else "")
            rewrite: Manifest = {"pattern": {"regex": regex}, "substitution": whole or prefix}
            return {"route": {**mapping(action, "route"), "regex_rewrite": rewrite}}
    return action


def _build_override(picker: str) -> Manifest:
    return {
        "@type": f"{_FILTERS}.http.ext_proc.v3.ExtProcPerRoute",
        "overrides": {"grpc_service": {"envoy_grpc": {"cluster_name": picker, "authority": "picker"}}},
    }


def build_cluster(cluster: Cluster, folder: Path) -> Manifest:
    built: Manifest = {
        "@type": f"{_TYPES}envoy.config.cluster.v3.Cluster",
        "name": cluster.name,
        "type": "EDS",
        "connect_timeout": "2s",
        "eds_cluster_config": {"eds_config": _watch(folder / f"{cluster.name}.json")},
    }
    if cluster.picker:
        built["load_balancing_policy"] = _build_picked_policy()
    if cluster.is_picker:  # it serves gRPC with a certificate of its own making
        options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
        built["typed_extension_protocol_options"] = {
            options: {"@type": _TYPES + options, "explicit_http_config": {"http2_protocol_options": {}}}
        }
        built["transport_socket"] = {
            "name": "tls",
            "typed_config": {
                "@type": f"{_TYPES}envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                "common_tls_context": {"alpn_protocols": ["h2"]},
            },
        }
    return built


def _build_picked_policy() -> Manifest:
    """The pod that the picker names, and any where it has named none."""
    any_pod: Manifest = {"@type": f"{_TYPES}{_POLICIES}.round_robin.v3.RoundRobin"}
    picked: Manifest = {
        "@type": f"{_TYPES}{_POLICIES}.override_host.v3.OverrideHost",
        "override_host_sources": [{"header": _DESTINATION}],
        "fallback_policy": {"policies": [{"typed_extension_config": {"name": "any", "typed_config": any_pod}}]},
    }
    return {"policies": [{"typed_extension_config": {"name": "picked", "typed_config": picked}}]}


def build_endpoints(cluster: Cluster) -> Manifest:
    """Returns the endpoints of a cluster, as Envoy reads them from a file."""
    endpoints: list[JSON] = [{"endpoint": {"address": build_address(*each)}} for each in sorted(cluster.endpoints)]
    return {
        "@type": f"{_TYPES}envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": cluster.name,
        "endpoints": [{"lb_endpoints": endpoints}],
    }


def build_route_table(routes: Iterable[Manifest]) -> Manifest:
    """Returns the routes, as Envoy reads them from a file."""
    return {
        "@type": f"{_TYPES}envoy.config.route.v3.RouteConfiguration",
        "name": ROUTES,
        "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [*routes]}],
    }


def build_bootstrap(address: str, port: int, admin: int, folder: Path) -> Manifest:
    """Returns what Envoy starts with: a listener, and where it finds everything else."""
    manager: Manifest = {
        "@type": f"{_FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http",
        "rds": {"route_config_name": ROUTES, "config_source": _watch(folder / f"{ROUTES}.json")},
        "http_filters": [
            {"name": _PICKER, "disabled": True, "typed_config": _build_picker_filter()},
            {"name": "router", "typed_config": {"@type": f"{_FILTERS}.http.router.v3.Router"}},
        ],
    }
    chain: Manifest = {"filters": [{"name": "http", "typed_config": manager}]}
    return {
        "node": {"id": "gateway", "cluster": "gateway"},
        "admin": {"address": build_address("127.0.0.1", admin)},
        "dynamic_resources": {"cds_config": _watch(folder / f"{CLUSTERS}.json")},
        "static_resources": {
            "listeners": [{"name": "http", "address": build_address(address, port), "filter_chains": [chain]}]
        },
    }


def _build_picker_filter() -> Manifest:
    """The settings of the gateways that know pools; routes to a pool name its picker, all others are not filtered."""
    modes = {f"{way}_{part}_mode": "SEND" for way in ("request", "response") for part in ("header", "trailer")}
    bodies = {f"{way}_body_mode": "FULL_DUPLEX_STREAMED" for way in ("request", "response")}
    return {
        "@type": f"{_FILTERS}.http.ext_proc.v3.ExternalProcessor",
        "failure_mode_allow": True,  # the pools of KServe say FailOpen
        "grpc_service": {"envoy_grpc": {"cluster_name": "none"}},
        "processing_mode": {**modes, **bodies},
        "message_timeout": "30s",
    }


def _watch(path: Path) -> Manifest:
    return {"path_config_source": {"path": str(path)}, "resource_api_version": "V3"}


def build_address(host: str, port: int) -> Manifest:
    """Returns an address in Envoy's words."""
    return {"socket_address": {"address": host, "port_value": port}}
