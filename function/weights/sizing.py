"""How large a claim must be, and how long its weights take to load.

The strongest statement wins: the size asked for, the model's `disk`, its `vram`, the GPU memory of one replica (which
bounds weights that must fit it). Sizes are whole Gi, rounded up. A request never shrinks, and it stays as it is while
the capacity of the volume suffices: classes round up, and the API server refuses a request below the capacity.
"""

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from function.domain.engine_args import get_last_value
from function.domain.engine_spec import Ability, has_ability
from function.domain.model import Model, Profile, find_single_file
from function.kube import manifests, quantity
from function.kube.manifests import Manifest

_LONG_LOAD_SECONDS = 300  # above this, flags that load faster are worth advice
_STREAM, _PREFETCH = ("--load-format", "runai_streamer"), ("--safetensors-load-strategy", "prefetch")


class SizeFrom(StrEnum):
    """Where a size comes from, strongest first."""

    EXPLICIT = "Explicit"
    DISK = "Disk"
    VRAM = "Vram"
    GPU_MEMORY = "GpuMemory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a claim."""

    amount: int  # bytes, in whole Gi
    source: SizeFrom

    @property
    def is_stated(self) -> bool:
        """Whether a user states it for these bytes; other sizes are bounds that drift with pools and profiles."""
        return self.source in (SizeFrom.EXPLICIT, SizeFrom.DISK)


def compute_size(explicit: int | None, model: Model, gpu_memory: int | None) -> Size | None:
    """Computes how large the weights' claim must be; None where nothing states or bounds it."""
    candidates = (
        (explicit, SizeFrom.EXPLICIT),
        (model.disk, SizeFrom.DISK),
        (model.vram, SizeFrom.VRAM),
        (gpu_memory, SizeFrom.GPU_MEMORY),
    )
    return next((Size(amount=round_up(amount), source=source) for amount, source in candidates if amount), None)


def round_up(amount: int) -> int:
    """Rounds bytes up to whole Gi."""
    return -(-amount // quantity.GIB) * quantity.GIB


def format_request(size: int, observed: Manifest) -> str:
    """Formats the storage request of a claim; `observed` is empty while the claim does not exist."""
    current = manifests.text(observed, "spec.resources.requests.storage")
    capacity = manifests.text(observed, "status.capacity.storage")
    suffices = current and max(parse_observed(current), parse_observed(capacity)) >= size
    return current if suffices else quantity.gib(size)


def parse_observed(text: str) -> int:
    """Parses an observed quantity into bytes; 0 where it cannot be read."""
    with suppress(ValueError):
        return quantity.parse_observed(text)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEstimate:
    """How engines read weights from a claim whose speed was measured.

    The time is that of one pod that reads all weights: the nodes of a replica read at the same time, each for itself.
    """

    weights: int  # bytes
    bandwidth: int  # bytes per second at which a pod reads them
    flags: tuple[str, ...] = ()  # flags of the engine that would make it faster

    @property
    def seconds(self) -> int:
        """The time that loading takes, rounded up."""
        return load_seconds(self.weights, self.bandwidth)


def load_seconds(weights: int, bandwidth: int) -> int:
    """Computes how many seconds a pod reads these bytes at this many bytes per second, rounded up."""
    return -(-weights // bandwidth)


def estimate_load(weights: int | None, bandwidth: int | None, model: Model, profile: Profile) -> LoadEstimate | None:
    """Estimates how weights load from a claim; None where their size or the speed of the storage is unknown."""
    if not (weights and bandwidth):
        return None
    is_long = load_seconds(weights, bandwidth) > _LONG_LOAD_SECONDS
    return LoadEstimate(weights=weights, bandwidth=bandwidth, flags=_suggest_flags(model, profile) if is_long else ())


def _suggest_flags(model: Model, profile: Profile) -> tuple[str, ...]:
    """Suggests flags of this engine that load faster, unless the profile sets one or there are no safetensors."""
    engine = profile.engine
    is_set = any(get_last_value(engine.args, name) is not None for name, _ in (_STREAM, _PREFETCH))
    if is_set or find_single_file(model.source):
        return ()
    return tuple(
        "=".join(flag)
        for ability, flag in ((Ability.STREAM, _STREAM), (Ability.PREFETCH, _PREFETCH))
        if has_ability(engine, ability)
    )
