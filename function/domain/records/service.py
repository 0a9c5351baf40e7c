"""The service of a placement: `status.service`, `status.gateway` and `status.readyReplicas`."""

from dataclasses import dataclass

from function.domain.allocation import Share
from function.domain.model_service import Gateway
from function.domain.records.shares import build_share, parse_share
from function.kube.manifests import JSON, Manifest, format_time, get, integer, mapping, parse_time, prune, strings, text
from function.kube.urls import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord:
    name: str = ""  # of the LLMInferenceService
    namespace: str = ""  # on the cluster
    url: str = ""
    serving_uri: str = (
        ""  # of the weights that the service uses, or used when it was last ready; if it never was, in its spec
    )
    applied_uri: str = ""  # of the weights in the applied spec, where the service is not Ready on them yet
    allocated: Share | None = None  # what the service has of a pool
    backend_service_name: str = ""  # Kubernetes Service of its pods; empty: not known
    inference_pool: str = ""  # that requests may go to; empty: there is none, or none of its pickers is ready
    pool_unused_since: int | None = None  # seconds since 1970, where a picker is not requested any more
    traits: tuple[tuple[str, str], ...] = ()  # what clients can notice of it, as far as known
    gateway: Gateway | None = None  # of its cluster; None: not known, or there is none
    ready_replicas: int = 0  # as KServe last reported


def parse_service(status: Manifest, *, exclusive_replica_nodes: bool) -> ServiceRecord:
    """Returns what the status of a placement records; `exclusive_replica_nodes` is of the placement."""
    block = mapping(status, "service")
    share = parse_share(block, exclusive_replica_nodes=exclusive_replica_nodes)
    return ServiceRecord(
        name=text(block, "name"),
        namespace=text(block, "namespace"),
        url=text(block, "url"),
        serving_uri=text(block, "uri"),
        applied_uri=text(block, "appliedUri"),
        allocated=share if share.pool else None,
        backend_service_name=text(block, "workload"),
        inference_pool=text(block, "inferencePool"),
        pool_unused_since=parse_time(text(block, "poolUnusedSince")),
        traits=tuple(sorted(strings(block, "traits").items())),
        gateway=_parse_gateway(mapping(status, "gateway")),
        ready_replicas=integer(status, "readyReplicas"),
    )


def build_service_record(record: ServiceRecord) -> Manifest:
    """Returns `status.service` and `status.gateway`, as far as they are known."""
    allocated = record.allocated
    block = prune(
        {
            "name": record.name or None,
            "namespace": record.namespace or None,
            "url": record.url or None,
            "uri": record.serving_uri or None,
            "appliedUri": record.applied_uri or None,
            "workload": record.backend_service_name or None,
            "inferencePool": record.inference_pool or None,
            "poolUnusedSince": None if record.pool_unused_since is None else format_time(record.pool_unused_since),
            "traits": dict[str, JSON](record.traits) or None,
            **(build_share(allocated) if allocated else {}),
        }
    )
    return prune({"service": block or None, "gateway": _build_gateway(record.gateway) if record.gateway else None})


def build_ready_replicas(service: Manifest) -> Manifest:
    """Returns `status.readyReplicas` as the status of an LLMInferenceService has it; empty where it has none."""
    return prune({"readyReplicas": get(service, "status.workloads.primary.readyReplicas")})


def _parse_gateway(block: Manifest) -> Gateway | None:
    """Returns the gateway; None if a field that is needed to reach it is missing."""
    scheme, host, port = text(block, "scheme"), text(block, "host"), integer(block, "port")
    name, namespace, config = (text(block, path) for path in ("ref.name", "ref.namespace", "providerConfigRef.name"))
    if scheme not in {"http", "https"} or not (host and port and name and namespace and config):
        return None
    return Gateway(
        origin=Origin(scheme, host, port),
        name=name,
        namespace=namespace,
        provider_config=config,
        tls_hostname=text(block, "tls.hostname"),
        ca_config_map=text(block, "tls.caConfigMapName"),
    )


def _build_gateway(gateway: Gateway) -> Manifest:
    origin = gateway.origin
    tls = {"hostname": gateway.tls_hostname or None, "caConfigMapName": gateway.ca_config_map or None}
    return prune(
        {
            "scheme": origin.scheme,
            "host": origin.host,
            "port": origin.port,
            "ref": {"name": gateway.name, "namespace": gateway.namespace},
            "providerConfigRef": {"name": gateway.provider_config},
            "tls": prune(tls) or None,
        }
    )
