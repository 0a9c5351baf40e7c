"""Claims: their manifests, their immutable fields, their sizes, and how long weights take to load from them.

Only the size may change on a claim that exists. Class and access mode are written as they are on the cluster: a changed
setting then shows in a condition, and not as an error that the API server repeats for ever. An empty class name stands
for the cluster's default class. The field is then left out, because `""` in a claim means no class at all.

The strongest statement about the size wins: the requested size, the model's `disk`, its `vram`, the GPU memory of one
replica (the weights must fit into it). Sizes are whole Gi, rounded up. A request never shrinks. It stays unchanged
while the capacity of the volume suffices: classes round up, and the API server refuses a request below the capacity.
"""

from dataclasses import dataclass
from enum import StrEnum

from function.domain.model import Model, Problem
from function.kube import manifests, names, quantity
from function.kube.manifests import JSON, Manifest
from function.remote.object_writer import ManagementPolicy

READ_WRITE_MANY = "ReadWriteMany"
READ_ONLY_MANY = "ReadOnlyMany"  # enough for weights that are on the claim already
_REQUESTED, _CAPACITY = "spec.resources.requests.storage", "status.capacity.storage"


class SizeFrom(StrEnum):
    """Where a size comes from, strongest first."""

    EXPLICIT = "Explicit"
    DISK = "Disk"
    VRAM = "Vram"
    GPU_MEMORY = "GpuMemory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    amount: int  # bytes, in whole Gi
    source: SizeFrom

    @property
    def is_stated(self) -> bool:
        """Tells whether a user states it for these bytes; other sizes are bounds that drift with pools and profiles."""
        return self.source in (SizeFrom.EXPLICIT, SizeFrom.DISK)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlan:
    """A claim to compose or to observe; size, class and access mode do not matter for a claim that is only observed."""

    name: str
    namespace: str
    policy: ManagementPolicy
    size: Size | None = None  # None: an existing claim keeps its size
    class_name: str | None = ""  # None: not set any more, so that an existing claim keeps its class
    access_mode: str = ""
    labels: tuple[tuple[str, str], ...] = ()  # of the weights, if the claim is for the weights of one model

    @property
    def is_of_default_class(self) -> bool:
        """Tells whether the cluster chooses the class of a claim that is created."""
        return self.policy is not ManagementPolicy.OBSERVE_ONLY and self.class_name == ""


def build_claim(plan: ClaimPlan, mirrored: Manifest) -> Manifest:
    """Builds the claim, with immutable fields as on the cluster; `mirrored` is empty while the claim does not exist."""
    metadata: Manifest = {"name": plan.name, "namespace": plan.namespace}
    manifest: Manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    if plan.policy is ManagementPolicy.OBSERVE_ONLY:
        return manifest
    modes: list[JSON] = [*_access_modes(mirrored)] or [plan.access_mode]
    keeps_class = mirrored and plan.class_name != ""
    class_name = manifests.text(mirrored, "spec.storageClassName") if keeps_class else plan.class_name
    metadata["labels"] = {**names.MANAGED_BY, **dict(plan.labels)}
    manifest["spec"] = manifests.prune(
        {
            "accessModes": modes,
            "storageClassName": class_name or None,
            "resources": {"requests": {"storage": format_request(plan.size.amount if plan.size else 0, mirrored)}},
        }
    )
    return manifest


def find_immutable_changes(plan: ClaimPlan, mirrored: Manifest) -> tuple[Problem, ...]:
    """Finds settings that only a new claim can have."""
    if not mirrored or plan.policy is ManagementPolicy.OBSERVE_ONLY:
        return ()
    problems = []
    current = manifests.text(mirrored, "spec.storageClassName")
    modes = _access_modes(mirrored)
    if plan.class_name and current and current != plan.class_name:
        message = f"claim {plan.name} is of class {current} and cannot become {plan.class_name}; delete it to move"
        problems.append(Problem("spec.storageClassName", message))
    if modes and plan.access_mode not in modes:
        message = f"claim {plan.name} is {', '.join(modes)} and cannot become {plan.access_mode}; delete it to move"
        problems.append(Problem("spec.accessModes", message))
    return tuple(problems)


def get_access_mode(mirrored: Manifest) -> str:
    """Returns the widest access mode of an observed claim; empty where none is known."""
    modes = _access_modes(mirrored)
    return READ_WRITE_MANY if READ_WRITE_MANY in modes else next(iter(modes), "")


def is_shared(mode: str) -> bool:
    """Tells whether pods of several nodes can read a claim of this access mode; true if it is unknown."""
    return mode in ("", READ_WRITE_MANY, READ_ONLY_MANY)


def get_capacity(mirrored: Manifest) -> int | None:
    """Returns the bytes of an observed claim's volume, or of its request while it has no volume; None if unknown."""
    capacity = manifests.text(mirrored, _CAPACITY)
    return quantity.parse_or_none(capacity or manifests.text(mirrored, _REQUESTED)) or None


def _access_modes(mirrored: Manifest) -> tuple[str, ...]:
    return tuple(sorted(manifests.list_texts(mirrored, "spec.accessModes")))


def compute_size(explicit: int | None, model: Model, gpu_memory: int | None) -> Size | None:
    """Computes how large the weights' claim must be; None where nothing states or bounds it."""
    candidates = (
        (explicit, SizeFrom.EXPLICIT),
        (model.disk, SizeFrom.DISK),
        (model.vram, SizeFrom.VRAM),
        (gpu_memory, SizeFrom.GPU_MEMORY),
    )
    for amount, source in candidates:
        if amount:
            return Size(amount=-(-amount // quantity.GIB) * quantity.GIB, source=source)
    return None


def format_request(size: int, mirrored: Manifest) -> str:
    """Formats the storage request of a claim; `mirrored` is empty while the claim does not exist."""
    current = manifests.text(mirrored, _REQUESTED)
    capacity = manifests.text(mirrored, _CAPACITY)
    largest = max(quantity.parse_or_none(amount) or 0 for amount in (current, capacity))
    return current if current and largest >= size else quantity.gib(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEstimate:
    """How engines read weights from a claim whose speed was measured.

    The time is for one pod that reads all weights: the nodes of a replica read at the same time, each for itself.
    """

    weights_bytes: int
    read_bandwidth: int  # bytes per second at which a pod reads them
    seconds: int  # rounded up


def compute_load_seconds(weights_bytes: int, read_bandwidth: int) -> int:
    """Computes the seconds, rounded up, that a pod takes to read these bytes at this many bytes per second."""
    return -(-weights_bytes // read_bandwidth)


def estimate_load(weights_bytes: int | None, read_bandwidth: int | None) -> LoadEstimate | None:
    """Estimates how weights load from a claim; None where their size or the speed of the storage is unknown."""
    if not (weights_bytes and read_bandwidth):
        return None
    seconds = compute_load_seconds(weights_bytes, read_bandwidth)
    return LoadEstimate(weights_bytes=weights_bytes, read_bandwidth=read_bandwidth, seconds=seconds)
