"""An environment: one remote cluster, its GPU pools with their observed nodes, and its storage."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from function.domain.allocation import Free, Grant, Price, Share
from function.domain.model_service import GatewayAccess
from function.domain.pods import InterNode, PodAdditions, PullSecret
from function.domain.settings import Download, Kserve
from function.kube.manifests import JSON, Manifest
from function.kube.messages import join_with_more
from function.kube.selectors import Taint

GPU_RESOURCE = "nvidia.com/gpu"
# Resources of which a pod can use only one: slices of MIG, and shares of time or of MPS (docs/facts.md, Kubernetes).
_PARTS_OF_GPUS = re.compile(r"nvidia\.com/(mig-.+|.+\.shared)")
MAX_NODE_NAMES = 3  # names of nodes in status; the others are only counted


class UnusableReason(StrEnum):
    """Reasons why a node cannot be used, the most severe first."""

    DELETING = "Deleting"
    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    TAINTED = "Tainted"
    NO_GPUS = "NoGPUs"
    TOO_FEW_GPUS = "TooFewGPUs"


class DriftField(StrEnum):
    """Fields of a pool that can differ from its nodes."""

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
    """Nodes that cannot be used for one reason."""

    reason: UnusableReason
    detail: str = ""  # the taint, or the number of GPUs of the declared number
    count: int
    nodes: tuple[str, ...]  # the first of them by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A difference between the declaration of a pool and its nodes."""

    field: DriftField
    declared: str
    observed: str
    nodes: tuple[str, ...] = ()  # the first nodes with the observed value, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """Observed nodes of a pool. It has no times or counters, so that it only changes when the nodes do."""

    nodes: int
    usable: int
    unusable: tuple[Unusable, ...] = ()
    gpus_per_node: int | None = None  # the fewest of any node; None: no node has a label for it
    product: str = ""  # empty: no node has a label for it
    memory_per_gpu: int | None = None  # bytes, the least of any GPU; None: no node has a label for it
    drift: tuple[Drift, ...] = ()


BEING_CREATED = "Google Cloud creates it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool of identical nodes. None: not declared. Names of hardware are in lower case."""

    name: str
    gpus_per_node: int
    max_nodes: int
    count_field: str = "maxNodeCount"  # the field that declares `max_nodes`
    node_count: int = 0  # nodes that exist without an autoscaler; more than `max_nodes` do not count
    accelerator_type: str = ""
    gpu_resource: str = GPU_RESOURCE
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Manifest, ...] = ()
    memory_per_gpu: int | None = None  # bytes
    interconnect: str | None = None
    precision: tuple[str, ...] | None = None
    multi_node: bool = False
    bandwidth: str | None = None
    nvlink_domain: int | None = None
    pod: PodAdditions = PodAdditions()
    inter_node: InterNode | None = None
    autoscaled: bool = False  # an autoscaler adds nodes up to `max_nodes`
    unschedulable: bool = False  # nothing new is placed, and nothing grows
    unschedulable_reason: str = ""
    not_created: str = ""  # BEING_CREATED, or why a cloud has not created it; empty: it exists, or others create it
    price: Price | None = None  # of one GPU
    facts: PoolFacts | None = None  # None: nodes are not observed and count as declared

    @property
    def usable_nodes(self) -> int:
        """Number of nodes that can be used now or that an autoscaler would add; at most `max_nodes`."""
        if self.facts is None:
            return self.max_nodes
        added = max(0, self.max_nodes - self.facts.nodes) if self.autoscaled else 0
        return min(self.max_nodes, self.facts.usable + added)

    def may_start_on(self, other: "Pool") -> bool:
        """Tells whether pods of this pool may start on nodes of another pool.

        They may if these nodes have the labels and the GPU resource of this pool, and only taints that the pods
        tolerate.
        """
        is_found = set(self.labels) <= set(other.labels) and self.gpu_resource == other.gpu_resource
        return is_found and all(taint in _declared_taints(self) for taint in _declared_taints(other))

    @property
    def has_parts_of_gpus(self) -> bool:
        """Tells whether its GPU resource is a slice or a share of a GPU."""
        return is_part_of_gpu(self.gpu_resource)

    def needs_several_parts(self, gpus: int) -> bool:
        """Tells whether a pod would get several slices or shares of GPUs: a CUDA process sees only one slice."""
        return gpus > 1 and self.has_parts_of_gpus

    @property
    def tolerated_taints(self) -> tuple[str, ...]:
        """The keys of taints that every pod tolerates: its GPU resource, and the vendor's key for all its GPUs."""
        vendor, _, _ = self.gpu_resource.partition("/")
        return tuple(dict.fromkeys((self.gpu_resource, f"{vendor}/gpu")))

    def pod_overrides(self, nodes: int) -> PodAdditions:
        """Returns the additions to the pods of a replica over this number of nodes."""
        inter_node = self.inter_node_settings(nodes)
        return inter_node.merged if inter_node else self.pod

    def needs_exclusive_node(self, nodes: int, gpus: int) -> bool:
        """Tells whether a pod prevents other pods from using the remaining GPUs of its node.

        Two pods would use the same ports of the host network, or more network devices than the node has.
        """
        inter_node = self.inter_node_settings(nodes)
        uses_all_devices = inter_node is not None and inter_node.whole_node
        return gpus < self.gpus_per_node and bool(self.pod_overrides(nodes).host_network or uses_all_devices)

    def inter_node_settings(self, nodes: int) -> InterNode | None:
        """Returns the settings for a replica over this number of nodes; None if there are none."""
        return self.inter_node if nodes > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentStorage:
    class_name: str | None = None  # None: not configured; "": the default class of the cluster
    missing_class: str = ""  # the class that the cluster was last seen not to have
    access_mode: str = "ReadWriteMany"
    is_shared: bool = False  # all models of a namespace have one claim; otherwise each placement has its own
    shared_claim: str = "model-cache"
    shared_size: int = 100 * 2**30
    size_enforced: bool = True
    read_bandwidth: int | None = None  # bytes per second of one pod; None: not measured
    download: Download = Download()


class Observe(StrEnum):
    AUTO = "Auto"
    ALWAYS = "Always"
    NEVER = "Never"


class PodObservation(StrEnum):
    """What the platform lets users read of the pods of a service that is not Ready."""

    NEVER = "Never"
    RESTARTS = "Restarts"  # how often their containers restarted, and how they ended
    MESSAGES = "Messages"  # also what they wrote last


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An InferenceEnvironment, with the published ledger of its GPUs."""

    name: str
    uid: str = ""  # empty: read from a file, without a ledger
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    pools: tuple[Pool, ...] = ()
    broken_pools: tuple[str, ...] = ()  # names of pools with problems, which are left out of `pools`
    refused_pools: tuple[str, ...] = ()  # of these, those whose only problem are the nodes of a pool in use
    broken: bool = False  # problems outside the pools: no new placements, running ones stay
    storage: EnvironmentStorage = EnvironmentStorage()
    observe: Observe = Observe.AUTO  # its nodes
    node_selector: Manifest | None = None  # of observed nodes; None: derived from the labels of the pools
    pull_secrets: tuple[PullSecret, ...] = ()
    kserve: Kserve = Kserve()
    gateway: GatewayAccess = GatewayAccess()
    provider_config: str = ""
    pod_monitors: bool = False  # each placement gets a PodMonitor
    pod_observation: PodObservation = PodObservation.NEVER
    ready: bool = False  # its Ready condition
    ready_message: str = ""  # why it is not Ready
    is_starting: bool = False  # it is not Ready, and its cluster has not answered yet, or answers well
    paused: bool = False  # Crossplane does not reconcile it: waiting does not make it Ready
    deleting: bool = False
    free: Mapping[str, Free] = field(default_factory=dict)  # by pool, as far as published
    lends: bool = False  # it publishes lent replicas that can be taken back
    admitted: tuple[Grant, ...] = ()
    rejected: frozenset[tuple[str, str]] = frozenset()  # uid and pool of placements without room

    def pool(self, name: str) -> Pool | None:
        """Returns the valid pool of this name; None if there is none."""
        return next((p for p in self.pools if p.name == name), None)

    def find_grants(self, uid: str) -> tuple[Grant, ...]:
        """Returns the grants of a placement: two while it moves within the environment."""
        return tuple(grant for grant in self.admitted if uid and grant.uid == uid)

    def count_admitted(self, uid: str, request: Share) -> int | None:
        """Returns how many replicas of a size a placement is admitted for; None: it has no grant of that size."""
        return max(
            (g.share.replicas for g in self.find_grants(uid) if g.share.has_same_pool_and_size(request)), default=None
        )


def is_part_of_gpu(resource: str) -> bool:
    """Tells whether an extended resource is a slice or a share of a GPU."""
    return bool(_PARTS_OF_GPUS.fullmatch(resource))


def format_unusable(rows: Sequence[Unusable]) -> str:
    parts = []
    for row in rows:
        more = row.count - len(row.nodes)
        is_, has = ("is", "has") if row.count == 1 else ("are", "have")
        why = {
            UnusableReason.DELETING: f"{is_} being deleted",
            UnusableReason.NOT_READY: f"{is_} NotReady",
            UnusableReason.CORDONED: f"{is_} cordoned",
            UnusableReason.TAINTED: f"{has} taint {row.detail}",
            UnusableReason.NO_GPUS: f"{has} no {row.detail} yet",
            UnusableReason.TOO_FEW_GPUS: f"{has} {row.detail}",
        }
        parts.append(", ".join(row.nodes) + (f" and {more} more " if more > 0 else " ") + why[row.reason])
    return join_with_more(parts)


def tolerations(pool: Pool) -> list[JSON]:
    """Returns the tolerations of the pods of a pool: for the taints of its GPUs, and for its declared taints."""
    of_gpus: list[JSON] = [{"key": key, "operator": "Exists"} for key in pool.tolerated_taints]
    declared = _declared_taints(pool)
    return [*of_gpus, *({**taint, "operator": "Equal" if "value" in taint else "Exists"} for taint in declared)]


def _declared_taints(pool: Pool) -> list[Manifest]:
    """Returns the taints of a pool that its pods tolerate only because the pool declares them."""
    return [taint for taint in own_taints(pool) if taint.get("key") not in pool.tolerated_taints]


def own_taints(pool: Pool) -> tuple[Manifest, ...]:
    """Returns the taints of a pool without empty fields, and without the taint for its GPU resource.

    The spec digest includes them. Pods tolerate some of them without a declaration (`Pool.tolerated_taints`).
    """
    own = (taint for taint in pool.taints if taint.get("key") != pool.gpu_resource)
    return tuple({key: taint[key] for key in ("key", "value", "effect") if taint.get(key)} for taint in own)
