"""ModelServices: one URL for deployments on many clusters, and the gateways through which they are reached."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from function.kube.names import hash_parts
from function.kube.urls import Origin


class Distribution(StrEnum):
    BY_REPLICAS = "ByReplicas"
    EVEN = "Even"
    FAILOVER = "Failover"


class EndpointState(StrEnum):
    SERVING = "Serving"
    WARMING = "Warming"
    DRAINING = "Draining"
    NOT_READY = "NotReady"
    UNREACHABLE = "Unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAccess:
    """How the control plane reaches the gateway of a cluster, as declared."""

    origin: Origin | None = None  # None: as KServe reports it
    tls_hostname: str = ""  # in its certificate; empty: the host
    ca_config_map: str = ""  # in the namespace of each ModelService; empty: the CAs of the control plane's gateway


def find_gateway_key(address: str) -> str:
    return f"gateway-{hash_parts(address)[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    origin: Origin
    name: str  # of the Gateway on the cluster
    namespace: str
    provider_config: str
    tls_hostname: str = ""
    ca_config_map: str = ""

    @property
    def key(self) -> str:
        """Identifies the gateway: two environments with one origin have one gateway."""
        return find_gateway_key(str(self.origin))


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendEntry:
    """A placement in the status of a ModelService."""

    deployment: str
    placement: str
    ready_replicas: int = 0
    weight: int = 0
    reason: str = ""  # why it gets no traffic
    since: int | None = None  # seconds since 1970, when the gateway was first seen without it


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointEntry:
    """An endpoint in the status of a ModelService."""

    environment: str
    address: str = ""  # of the gateway; empty: not known
    state: EndpointState = EndpointState.NOT_READY
    reason: str = ""
    weight: int = 0
    since: int | None = None  # seconds since 1970, when all was first seen in place, or the route was first without it
    pools_refused: bool = False  # the gateway does not know the InferencePools that placements have
    backends: tuple[BackendEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceView:
    """What a ModelService says of deployments and placements, even if parts of it are invalid."""

    name: str
    deployments: frozenset[str]  # of its spec
    placements: frozenset[str]  # of its status: they may get requests
    unknown: bool = False  # it has composed something, and its status does not say for what


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelService:
    namespace: str
    name: str
    backends: Mapping[str, int]  # weights by the names of deployments
    distribution: Distribution = Distribution.BY_REPLICAS
    order: tuple[str, ...] = ()  # of environments, for Failover
    withdraws_unreachable: bool = True  # endpoints whose cluster does not answer, if another endpoint can serve
    hostnames: tuple[str, ...] = ()
    entries: tuple[EndpointEntry, ...] = ()  # of its status

    @property
    def path(self) -> str:
        """The path at which clients reach it."""
        return f"/services/{self.namespace}/{self.name}"
