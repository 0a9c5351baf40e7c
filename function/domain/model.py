"""What to serve: a model, where its weights come from, and the shapes in which it can run."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from function.domain.hardware import BandwidthRequirement
from function.kube.manifests import Manifest
from function.kube.selectors import Selector


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault. `path` is the field (`spec.serving[0].engine.image`), `message` the rest of the sentence."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


# What each engine pod requests where a model says nothing.
CPU, MEMORY = "4", "16Gi"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """One key of a Secret on the control plane."""

    name: str
    namespace: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceSource:
    """A repository of the hub; `repo` is exactly `owner/name`, `file` is all that the engine reads, if set."""

    repo: str
    revision: str = "main"
    secret: SecretKey | None = None
    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OciSource:
    """Weights under /models in an image."""

    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UriSource:
    """Whatever else the storage-initializer downloads: s3://, gs://, https://."""

    uri: str
    secret: SecretKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PvcSource:
    """Weights that are staged already on a claim of the remote cluster, in the deployment's namespace."""

    claim: str
    path: str = ""


Source: TypeAlias = HuggingFaceSource | OciSource | UriSource | PvcSource
GGUF = ".gguf"  # weights that are one file, and that engines read as such
PART = re.compile(r"-([0-9]{5})-of-([0-9]{5})\.gguf$", re.ASCII)  # llama.cpp's names; engines open the first


def parse_part(file: str) -> tuple[int, int]:
    """Return which part of how many a GGUF file is, as its name tells; (1, 1) for a whole one."""
    found = PART.search(file)
    return (int(found[1]), int(found[2])) if found else (1, 1)


def find_single_file(source: Source) -> str:
    """Return the path of the one file that the engine reads, below where weights are mounted; empty for a directory."""
    match source:
        case HuggingFaceSource():
            return source.file
        case UriSource():
            # KServe names a file after the path of its address; a query, or what follows #, is no part of that.
            path = re.split("[?#]", source.uri, maxsplit=1)[0]
            return path.rpartition("/")[2] if path.lower().endswith(GGUF) else ""
        case _:
            return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """How one replica is split. Pipeline mode leaves `data` None; data mode sets `data` and `data_local`."""

    tensor: int
    pipeline: int = 1
    data: int | None = None
    data_local: int | None = None
    expert: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of one replica: `gpus_per_node` GPUs on each of `nodes` distinct nodes."""

    nodes: int
    gpus_per_node: int
    parallelism: Parallelism

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Requires:
    """What a profile asks of a pool; memory in bytes per GPU, names in lower case."""

    memory_per_gpu: int | None = None
    interconnect: str | None = None
    bandwidth: BandwidthRequirement | None = None
    precision: tuple[str, ...] = ()
    nvlink_domain: int | None = None
    accelerator_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """Which model: a ClusterModel, or a Model of the same namespace."""

    kind: str
    name: str


class Spread(StrEnum):
    """How strictly pods are kept on distinct nodes."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    NONE = "none"


class EngineName(StrEnum):
    """The inference engines we know how to start."""

    VLLM = "vLLM"
    SGLANG = "SGLang"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResources:
    """What each pod of an engine requests, as quantities; empty where the model's own counts, or nothing is said."""

    cpu: str = ""
    memory: str = ""
    ephemeral_storage: str = ""
    shm: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engine's container. `env` entries are Kubernetes EnvVars and pass through; no `version`: the tag says it.

    `pull_secrets` are Secrets of the control plane with which its image is pulled.
    """

    name: EngineName
    image: str
    args: tuple[str, ...] = ()
    env: tuple[Manifest, ...] = ()
    version: str = ""
    resources: EngineResources = EngineResources()
    pull_secrets: tuple[SecretKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One way to serve. `shape` None: the GPU memory decides it per pool. `pods_across_nodes` None: nobody said."""

    name: str
    engine: Engine
    shape: Shape | None = None
    selector: Selector = Selector()
    requires: Requires = Requires()
    pods_across_nodes: Spread | None = None
    replicas_across_nodes: Spread = Spread.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenProfile:
    """A profile with static faults: skipped when deciding, yet known, so that what runs on it stays."""

    name: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A ClusterModel or Model. `vram` and `disk` in bytes; `cpu` and `memory` as each engine pod requests."""

    kind: str
    name: str
    namespace: str
    served_name: str
    source: Source
    profiles: tuple[Profile, ...]
    broken: tuple[BrokenProfile, ...] = ()
    vram: int | None = None
    disk: int | None = None
    cpu: str = CPU
    memory: str = MEMORY
    selector: Selector = Selector()

    @property
    def ref(self) -> ModelRef:
        """How others refer to it."""
        return ModelRef(kind=self.kind, name=self.name)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every fault of every profile, sorted by path."""
        return tuple(sorted(p for b in self.broken for p in b.problems))
