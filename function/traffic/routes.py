"""The manifests by which requests reach a cluster: two HTTPRoutes, a Service, an EndpointSlice, a BackendTLSPolicy.

The route on the control plane uses only core features of Gateway API, and timeouts: to a route without timeouts, some
gateways apply a default that ends streams (docs/facts.md, Gateway API). The route on a cluster removes the path of the
ModelService from each request, as KServe's own routes do with their paths. It has no host names: clients choose the
host. Where placements have endpoint pickers, it has further rules for inference requests.
"""

from collections.abc import Mapping, Sequence

from function.domain.model_service import Gateway, ModelService
from function.domain.settings import PlatformGateway
from function.kube.manifests import JSON, Manifest, condition, get, integer, listing, mapping, prune, text
from function.kube.names import LABEL_OWNER, MANAGED_BY, build_name, label_value
from function.kube.urls import AddressType, Origin
from function.remote.composed_kinds import ROUTE_VERSION

ROUTE = "route"  # composition-resource-name of the route on the control plane
REMOTE_ROUTE, GATEWAY_SERVICE, SLICE, TLS = "route", "service", "slice", "tls"  # of each gateway, after its key
MAX_BACKENDS = 16  # of a rule, by the CRDs of Gateway API
WORKLOAD_PORT = 8000  # of the Kubernetes Service that KServe creates for the pods
ROUTE_KIND = (ROUTE_VERSION, "HTTPRoute")  # apiVersion and kind
SERVICE_KIND, SLICE_KIND = ("v1", "Service"), ("discovery.k8s.io/v1", "EndpointSlice")
TLS_DEFINITION = "backendtlspolicies.gateway.networking.k8s.io"  # name of its CRD
TLS_KIND = (ROUTE_VERSION, "BackendTLSPolicy")
POOL_GROUP = "inference.networking.k8s.io"  # of InferencePools
# What endpoint pickers answer; they refuse other requests, for example to /tokenize (docs/facts.md, Endpoint picker).
INFERENCE_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")
# Streams last as long as they need, as with KServe's own routes.
_TIMEOUTS: Manifest = {"request": "0s", "backendRequest": "0s"}
_NAME_LIMIT = 63


def name_gateway_service(service: ModelService, origin: Origin) -> str:
    """Returns the name of the Service and of the EndpointSlice of a gateway.

    It contains the address type, which cannot change on an EndpointSlice.
    """
    stem = f"{service.name}-{origin.address_type.lower()}"
    return build_name(stem, "service", service.name, str(origin), limit=_NAME_LIMIT)


def name_route(service: str) -> str:
    """Returns the name of the HTTPRoute of a ModelService on the control plane."""
    return build_name(service, "route", service, limit=_NAME_LIMIT)


def build_route(service: ModelService, gateway: PlatformGateway, weights: Mapping[Origin, int]) -> Manifest:
    """Returns the route on the control plane, with the weights of the gateways of clusters.

    Without weights, the rule has no backends: the gateway answers with an error, and no other route gets the requests.
    """
    parent = {"name": gateway.name, "namespace": gateway.namespace, "sectionName": gateway.section_name or None}
    backends = [
        _refer(name_gateway_service(service, origin), origin.port, weight) for origin, weight in weights.items()
    ]
    backends.sort(key=lambda backend: text(backend, "name"))
    rule: Manifest = {"matches": [_match(service)], "backendRefs": backends, "timeouts": {**_TIMEOUTS}}
    spec: Manifest = {"parentRefs": [prune(parent)], "hostnames": list(service.hostnames) or None, "rules": [rule]}
    return {
        "apiVersion": ROUTE_VERSION,
        "kind": "HTTPRoute",
        "metadata": _metadata(service, name_route(service.name)),
        "spec": prune(spec),
    }


def build_remote_route(
    service: ModelService, gateway: Gateway, namespace: str, weights: Mapping[str, int], pools: Mapping[str, str]
) -> Manifest:
    """Returns the route on a cluster, with the weights of the Kubernetes Services of placements.

    Each gateway has its own route: the route of a new address is created before the route of the earlier address is
    deleted.

    `pools`: the InferencePools of the placements that have one, by Kubernetes Service. They get the inference requests,
    because an endpoint picker answers others with an error.
    """
    backends = [_refer(name, WORKLOAD_PORT, weight) for name, weight in sorted(weights.items())]
    picked = [
        _refer_to_pool(pools[name], weight) if name in pools else _refer(name, WORKLOAD_PORT, weight)
        for name, weight in sorted(weights.items())
    ]
    rules: list[JSON] = [_build_remote_rule(service, path, picked) for path in INFERENCE_PATHS] if pools else []
    rules.append(_build_remote_rule(service, "", backends))
    identity = service.namespace, service.name, str(gateway.origin)
    name = build_name(service.name, "route", *identity, limit=_NAME_LIMIT)
    return {
        "apiVersion": ROUTE_VERSION,
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace, "labels": {**MANAGED_BY}},
        "spec": {"parentRefs": [{"name": gateway.name, "namespace": gateway.namespace}], "rules": rules},
    }


def _build_remote_rule(service: ModelService, path: str, backends: Sequence[JSON]) -> Manifest:
    """Returns the rule for one path below that of the service; empty: for all other paths."""
    rewritten: Manifest = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
    if path:
        rewritten = {"type": "ReplaceFullPath", "replaceFullPath": path}
    return {
        "matches": [_match(service, path)],
        "filters": [{"type": "URLRewrite", "urlRewrite": {"path": rewritten}}],
        "backendRefs": list(backends),
        "timeouts": {**_TIMEOUTS},
    }


def build_local_resources(service: ModelService, gateway: Gateway) -> dict[str, Manifest]:
    """Returns the resources that lead from the control plane to a gateway, by the names of composed resources.

    The endpoints of the Service are those of the EndpointSlice, which has the fields that gateways compare. With https,
    the control plane's gateway verifies the cluster's gateway by the BackendTLSPolicy.
    """
    origin = gateway.origin
    name = name_gateway_service(service, gateway.origin)
    metadata = _metadata(service, name)
    port: Manifest = {"name": "http", "port": origin.port, "protocol": "TCP"}
    resources: dict[str, Manifest] = {
        GATEWAY_SERVICE: {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"ports": [{**port, "targetPort": origin.port}]},
        },
        SLICE: {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {**mapping(metadata, "labels"), "kubernetes.io/service-name": name}},
            "addressType": origin.address_type,
            "endpoints": [{"addresses": [origin.host], "conditions": {"ready": True}}],
            "ports": [port],
        },
    }
    if origin.scheme == "https":
        authority: Manifest = {"wellKnownCACertificates": "System"}
        if gateway.ca_config_map:
            authority = {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": gateway.ca_config_map}]}
        resources[TLS] = {
            "apiVersion": ROUTE_VERSION,
            "kind": "BackendTLSPolicy",
            "metadata": metadata,
            "spec": {
                "targetRefs": [{"group": "", "kind": "Service", "name": name}],
                "validation": {"hostname": gateway.tls_hostname or origin.host, **authority},
            },
        }
    return resources


def lacks_tls_name(gateway: Gateway) -> bool:
    """Tells whether the certificate cannot be verified, because its host name is not known."""
    is_name = gateway.tls_hostname or gateway.origin.address_type is AddressType.FQDN
    return gateway.origin.scheme == "https" and not is_name


def read_route_weights(route: Manifest) -> dict[str, int]:
    """Returns the weights of the Kubernetes Services that a route names; its last rule names all of them."""
    refs = (ref for rule in listing(route, "spec.rules") for ref in listing(rule, "backendRefs"))
    return {text(ref, "name"): integer(ref, "weight", 1) for ref in refs if not text(ref, "group")}


def refuses_pools(route: Manifest) -> bool:
    """Tells whether a gateway does not know the InferencePools that a route names."""
    refs = (ref for rule in listing(route, "spec.rules") for ref in listing(rule, "backendRefs"))
    if not any(text(ref, "group") == POOL_GROUP for ref in refs):
        return False
    generation = get(route, "metadata.generation")
    found = (condition({"status": parent}, "ResolvedRefs") for parent in listing(route, "status.parents"))
    return any(text(c, "reason") == "InvalidKind" and c.get("observedGeneration") == generation for c in found)


def _match(service: ModelService, path: str = "") -> Manifest:
    return {"path": {"type": "Exact" if path else "PathPrefix", "value": service.path + path}}


def _refer_to_pool(name: str, weight: int) -> JSON:
    return {"group": POOL_GROUP, "kind": "InferencePool", "name": name, "port": WORKLOAD_PORT, "weight": weight}


def _refer(name: str, port: int, weight: int) -> JSON:
    return {"kind": "Service", "name": name, "port": port, "weight": weight}


def _metadata(service: ModelService, name: str) -> Manifest:
    labels: Manifest = {**MANAGED_BY, LABEL_OWNER: label_value(service.name)}
    return {"name": name, "namespace": service.namespace, "labels": labels}
