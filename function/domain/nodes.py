"""What the nodes of a pool were observed to be. No times, no counters: it changes when a fact does."""

from dataclasses import dataclass
from enum import StrEnum

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
