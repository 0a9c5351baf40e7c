"""What to serve: a model, where its weights come from, in which shapes it can run, and which hardware it needs."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from function.kube.manifests import Manifest
from function.kube.messages import mask_tokens
from function.kube.selectors import Selector


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    path: str  # for example `spec.serving[0].engine.image`
    message: str  # the sentence after the path, with the value found and what is allowed

    def __post_init__(self) -> None:
        """Masks tokens that a user typed into a wrong field: messages end up in logs and in status."""
        object.__setattr__(self, "path", mask_tokens(self.path))
        object.__setattr__(self, "message", mask_tokens(self.message))

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


# Default requests of an engine pod.
CPU, MEMORY = "4", "16Gi"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """One key of a Secret on the control plane."""

    name: str
    namespace: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterBase:
    """The model that an adapter is verified against when it is downloaded."""

    key: str  # cache key of the model's weights
    path: str  # of their folder on the claim, which the adapter is downloaded to as well; empty: it is not there
    max_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceSource:
    repo: str  # owner/name
    revision: str = "main"
    secret: SecretKey | None = None
    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    file: str = ""  # the only file that the engine reads; empty: all
    path: str = ""  # the folder with the model; empty: the repository's root
    base: AdapterBase | None = None  # None: a model, and no adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class OciSource:
    """An image with weights under /models."""

    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UriSource:
    """Another address that the storage-initializer downloads, such as s3://, gs:// or https://."""

    uri: str
    secret: SecretKey | None = None
    base: AdapterBase | None = None  # None: a model, and no adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class PvcSource:
    """Weights on an existing claim of the remote cluster, in the namespace of the deployment."""

    claim: str
    path: str = ""


DownloadedSource: TypeAlias = HuggingFaceSource | UriSource
Source: TypeAlias = DownloadedSource | OciSource | PvcSource
GGUF = ".gguf"  # suffix of a file that engines read as a complete model
PART = re.compile(r"-([0-9]{5})-of-([0-9]{5})\.gguf$", re.ASCII)  # llama.cpp's names; engines open the first


def parse_part(file: str) -> tuple[int, int]:
    """Returns which part of how many a split GGUF file is; (1, 1) for a file that is not split."""
    match = PART.search(file)
    return (int(match[1]), int(match[2])) if match else (1, 1)


def find_single_file(source: Source) -> str:
    """Returns the path of the only file that the engine reads, relative to the mount; empty for a directory."""
    match source:
        case HuggingFaceSource():
            return source.file
        case UriSource():
            # KServe names the file after the path of the address, without query and fragment.
            path = re.split("[?#]", source.uri, maxsplit=1)[0]
            return path.rpartition("/")[2] if path.lower().endswith(GGUF) else ""
        case _:
            return ""


def find_model_path(source: Source) -> str:
    """Returns the folder or file of a download that the engine opens; empty for all of it."""
    folder = source.path if isinstance(source, HuggingFaceSource) else ""
    return folder or find_single_file(source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """Parallelism of one replica, in pipeline mode or in data mode."""

    tensor: int
    pipeline: int = 1
    data: int | None = None  # None: pipeline mode
    data_local: int | None = None  # None: pipeline mode
    expert: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """Every size by its field; 1 in place of None."""
        return {name: getattr(self, name) or 1 for name in ("tensor", "pipeline", "data", "data_local")}


class Mode(StrEnum):
    """How one replica is spread over pods."""

    SINGLE = "single"
    PIPELINE = "pipeline"
    DATA = "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    nodes: int  # distinct nodes
    gpus_per_node: int
    parallelism: Parallelism

    @property
    def mode(self) -> Mode:
        if self.nodes == 1:
            return Mode.SINGLE
        return Mode.PIPELINE if self.parallelism.data is None else Mode.DATA

    @property
    def gpus(self) -> int:
        """Number of GPUs of one replica."""
        return self.nodes * self.gpus_per_node


# Network speeds. RDMA at the same speed gains more over plain Ethernet than the next speed does, so every `eth` entry
# is below every RDMA entry.
LADDER = (
    "eth-10g", "eth-25g", "eth-50g", "eth-100g", "eth-200g", "eth-400g", "eth-800g",
    "roce-100g", "efa-100g", "ib-100g",
    "roce-200g", "efa-200g", "ib-200g",
    "roce-400g", "efa-400g", "ib-400g",
    "roce-800g", "efa-800g", "ib-800g",
)  # fmt: skip
OR_BETTER = "-or-better"
PRECISIONS = (
    "fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4",
    "mxfp8", "mxfp6", "mxfp4", "nvfp4", "int8", "int4",
)  # fmt: skip
# Each interconnect with the interconnects that it can stand in for.
INTERCONNECTS = {
    "pcie": ("pcie",),
    "nvlink": ("pcie", "nvlink"),
    "nvswitch": ("pcie", "nvlink", "nvswitch"),
    "xgmi": ("pcie", "xgmi"),
}


# Percent that `resources.disk` has beyond the files: for a revision that is a little larger, partial files of an
# interrupted download, and what the file system itself takes. A claim has the size of `disk`, without more.
DISK_HEADROOM = 10


def add_disk_headroom(files: int) -> int:
    """Returns the disk for files of this size, in bytes."""
    return -(-files * (100 + DISK_HEADROOM) // 100)


def usable_memory(memory: int) -> int:
    """Returns the GPU memory that engines use for weights and caches, in bytes: nine tenths.

    vLLM's gpu-memory-utilization is 0.9 up to version 0.19 and 0.92 since (docs/facts.md, Engines).
    """
    return memory * 9 // 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthRequirement:
    rung: str  # an entry of LADDER
    or_better: bool
    field: str = "interNodeBandwidth"  # the name that was used: the requirement has two names

    def is_met_by(self, rung: str) -> bool:
        """Tells whether a declared speed meets the requirement."""
        return rung == self.rung or (self.or_better and LADDER.index(rung) > LADDER.index(self.rung))

    def __str__(self) -> str:
        return self.rung + (OR_BETTER if self.or_better else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requires:
    """Requirements of a profile on a pool; None: no requirement. Names are in lower case."""

    memory_per_gpu: int | None = None  # bytes
    interconnect: str | None = None
    bandwidth: BandwidthRequirement | None = None
    precision: tuple[str, ...] = ()
    nvlink_domain: int | None = None
    accelerator_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    kind: str  # ClusterModel, or Model in the same namespace
    name: str


class Spread(StrEnum):
    """How strictly pods are spread over distinct nodes."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    NONE = "none"


class Routing(StrEnum):
    """How requests reach the pods of a service."""

    DEFAULT = "Default"  # round robin
    PREFIX_AWARE = "PrefixAware"  # by an endpoint picker


class EngineName(StrEnum):
    VLLM = "vLLM"
    SGLANG = "SGLang"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResources:
    """Requests of an engine pod, as quantities; empty: the default of the model or of KServe."""

    cpu: str = ""
    memory: str = ""
    ephemeral_storage: str = ""
    shm: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    name: EngineName
    image: str
    args: tuple[str, ...] = ()
    env: tuple[Manifest, ...] = ()  # Kubernetes EnvVars
    version: str = ""  # empty: the version in the tag of the image
    resources: EngineResources = EngineResources()
    pull_secrets: tuple[SecretKey, ...] = ()  # of the control plane


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """What a profile allows of LoRA adapters."""

    max_adapters: int
    max_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    name: str
    engine: Engine
    shape: Shape | None = None  # None: computed for each pool from its GPU memory
    selector: Selector = Selector()
    requires: Requires = Requires()
    pods_across_nodes: Spread | None = None  # None: not set
    replicas_across_nodes: Spread = Spread.NONE
    routing: Routing = Routing.DEFAULT
    lora: Lora | None = None  # None: no adapters
    restart_limit: int | None = None  # restarts after which a service that was never Ready stops; None: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenEntry:
    """A profile or pool with problems. The scheduler skips it; its name is kept so that running workloads stay."""

    name: str  # for a pool without a name, its path
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    kind: str  # ClusterModel or Model
    name: str
    served_name: str
    source: Source
    profiles: tuple[Profile, ...]
    broken: tuple[BrokenEntry, ...] = ()
    vram: int | None = None  # bytes of one replica
    disk: int | None = None  # bytes
    cpu: str = CPU  # request of each engine pod
    memory: str = MEMORY  # request of each engine pod
    selector: Selector = Selector()
    generation: int = 0  # of its spec; 0 in a file

    @property
    def weights_bound(self) -> int | None:
        """Most bytes that an engine loads, limited by `disk` and by what `vram` holds; None: neither is declared."""
        bounds = (self.disk, usable_memory(self.vram or 0))
        return min((bound for bound in bounds if bound), default=None)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems of all profiles, sorted by path."""
        return tuple(sorted(p for b in self.broken for p in b.problems))
