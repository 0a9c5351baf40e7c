"""Where to serve: one remote cluster, its GPU pools and their observed nodes, its storage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from function.domain.allocation import Free, Grant, Share
from function.domain.hardware import is_rdma
from function.domain.pods import InterNode, PodAdditions, PullSecret
from function.domain.settings import Download, Kserve
from function.kube.manifests import JSON, Manifest

NAMED = 3  # nodes that are named; of the others there is a number


class Unfit(StrEnum):
    """Why a node cannot be used, gravest first."""

    DELETING = "Deleting"
    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    TAINTED = "Tainted"
    NO_GPUS = "NoGPUs"
    TOO_FEW_GPUS = "TooFewGPUs"


class Drifted(StrEnum):
    """A field of a pool that its nodes contradict."""

    LABELS = "labels"
    OVERLAP = "nodePools"
    NODE_COUNT = "nodeCount"
    GPUS_PER_NODE = "acceleratorCount"
    MEMORY_PER_GPU = "memoryPerGpu"
    ACCELERATOR_TYPE = "acceleratorType"
    NVLINK_DOMAIN = "nvlinkDomainSize"
    TAINTS = "taints"
    MIG = "mig.strategy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """So many nodes that cannot be used for one reason; `nodes` are the first of them by name.

    `detail`: the taint, or how many GPUs of how many.
    """

    reason: Unfit
    detail: str = ""
    count: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One contradiction: what is declared, what was found, and the first nodes where it was, by name."""

    field: Drifted
    declared: str
    observed: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """The nodes of a pool: how many, how many can be used for its GPUs, and what they are. Memory in bytes, the least
    of any; `gpus_per_node` the fewest. None or empty: nobody labels it.
    """

    nodes: int
    usable: int
    unusable: tuple[Unusable, ...] = ()
    gpus_per_node: int | None = None
    product: str = ""
    memory_per_gpu: int | None = None
    drift: tuple[Drift, ...] = ()


GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A group of equal nodes. Memory in bytes per GPU, names in lower case; None = not declared.

    `autoscaled`: somebody adds nodes, up to `max_nodes`. `facts` are what its nodes were last observed to be, None
    where they are not looked at: then all are as declared.
    """

    name: str
    gpus_per_node: int
    max_nodes: int
    accelerator_type: str = ""
    gpu_resource: str = GPU_RESOURCE
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Manifest, ...] = ()
    memory_per_gpu: int | None = None
    interconnect: str | None = None
    precision: tuple[str, ...] | None = None
    multi_node: bool = False
    bandwidth: str | None = None
    nvlink_domain: int | None = None
    pod: PodAdditions = PodAdditions()
    inter_node: InterNode | None = None
    autoscaled: bool = False
    facts: PoolFacts | None = None

    @property
    def usable_nodes(self) -> int:
        """Nodes that can be used now, or that an autoscaler would add: at most those declared."""
        if self.facts is None:
            return self.max_nodes
        if self.autoscaled:
            return max(0, self.max_nodes - (self.facts.nodes - self.facts.usable))
        return min(self.facts.usable, self.max_nodes)

    def pod_overrides(self, nodes: int) -> PodAdditions:
        """Return what the pods of a replica over so many nodes get besides."""
        between = self.inter_node_settings(nodes)
        return between.merged if between else self.pod

    def needs_exclusive_node(self, nodes: int, gpus: int) -> bool:
        """Tell whether a pod with so many GPUs keeps others from the rest of its node's: two would take the same ports
        of its network, or more of its devices than it has.
        """
        between = self.inter_node_settings(nodes)
        return gpus < self.gpus_per_node and bool(
            self.pod_overrides(nodes).host_network or (between and between.whole_node)
        )

    def inter_node_settings(self, nodes: int) -> InterNode | None:
        """Return what counts between the nodes of such a replica, if anything is said of it."""
        return self.inter_node if nodes > 1 else None

    @property
    def unused_rdma(self) -> str:
        """The RDMA network that it declares and gives its pods no way to; empty where there is none."""
        if self.bandwidth is None or not self.multi_node or self.pod_overrides(2).reaches_devices:
            return ""
        return self.bandwidth if is_rdma(self.bandwidth) else ""


class StorageMode(StrEnum):
    """One claim for each model, or one that all models of a namespace share."""

    PER_MODEL = "PerModel"
    SHARED = "Shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentStorage:
    """The cluster's shared file system. `class_name` None = not configured, "" = the cluster's default.

    `read_bandwidth`: bytes per second that one pod reads, None where nobody measured it.
    """

    class_name: str | None = None
    access_mode: str = "ReadWriteMany"
    mode: StorageMode = StorageMode.PER_MODEL
    shared_claim: str = "model-cache"
    shared_size: int = 100 * 2**30
    size_enforced: bool = True
    read_bandwidth: int | None = None
    download: Download = Download()


class Observe(StrEnum):
    """Whether the nodes of a cluster are looked at."""

    AUTO = "Auto"
    ALWAYS = "Always"
    NEVER = "Never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Whether nodes are looked at, and which. `selector`: a LabelSelector, None where the pools' labels tell."""

    observe: Observe = Observe.AUTO
    selector: Manifest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An InferenceEnvironment. `ready` is its observed Ready condition; `ready_message` says why not.

    `broken`: its spec has faults outside its pools. Nothing new is decided there and what runs stays.
    It keeps the ledger of its own GPUs: `free` by pool, as far as it has published it, `admitted`, and in `rejected`
    the placements without room, by uid and pool. One without a uid stands in a file and keeps none.
    """

    name: str
    uid: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    pools: tuple[Pool, ...] = ()
    broken_pools: tuple[str, ...] = ()
    broken: bool = False
    storage: EnvironmentStorage = EnvironmentStorage()
    hardware: Hardware = Hardware()
    pull_secrets: tuple[PullSecret, ...] = ()
    kserve: Kserve = Kserve()
    provider_config: str = ""
    ready: bool = False
    ready_message: str = ""
    deleting: bool = False
    free: Mapping[str, Free] = field(default_factory=dict)
    admitted: tuple[Grant, ...] = ()
    rejected: frozenset[tuple[str, str]] = frozenset()

    def pool(self, name: str) -> Pool | None:
        """Return the valid pool of this name, if there is one."""
        return next((p for p in self.pools if p.name == name), None)

    def find_grants(self, uid: str) -> tuple[Grant, ...]:
        """Return what a placement was admitted for: two while it moves within the environment."""
        return tuple(grant for grant in self.admitted if uid and grant.uid == uid)


def find_pools(share: Share, pools: Sequence[Pool]) -> frozenset[str]:
    """Returns the names of the pools that select the nodes of a share.

    That is the pool of its name, unless the labels of its nodes are another pool's now. Where no pool has the same
    labels, every pool counts that may select some of the nodes, and where there is none, the pool of its name.
    """
    named = next((pool for pool in pools if pool.name == share.pool), None)
    if share.labels is None or (named and dict(named.labels) == dict(share.labels)):
        return frozenset({share.pool})
    labels = set(share.labels)
    same = frozenset(pool.name for pool in pools if set(pool.labels) == labels)
    some = frozenset(pool.name for pool in pools if set(pool.labels) <= labels or labels <= set(pool.labels))
    return same or some or frozenset({share.pool})


def tolerations(pool: Pool) -> list[JSON]:
    """Return what the pool's nodes ask to be tolerated: the key of its GPUs, and its own taints."""
    gpu: Manifest = {"key": pool.gpu_resource, "operator": "Exists"}
    return [gpu, *(_toleration(taint) for taint in own_taints(pool))]


def own_taints(pool: Pool) -> tuple[Manifest, ...]:
    """Return the taints of a pool besides that of its GPUs, which every pod tolerates."""
    return tuple(taint for taint in pool.taints if taint.get("key") != pool.gpu_resource)


def _toleration(taint: Manifest) -> Manifest:
    wanted = {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}
    return {**wanted, "operator": "Equal" if "value" in wanted else "Exists"}
