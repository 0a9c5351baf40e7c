"""How large a claim must be.

The strongest statement wins: the size asked for, the model's `disk`, its `vram`, the GPU memory of one
replica (which bounds weights that must fit it). Whole Gi, rounded up. A request never shrinks, and it stays
as it is while what the class really gave suffices: classes round up, and a request below the capacity is
refused by the API server for ever.
"""

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from function.domain.model import Model
from function.kube import manifests, quantity
from function.kube.manifests import Manifest


class SizeFrom(StrEnum):
    """Where a size comes from, strongest first."""

    EXPLICIT = "Explicit"
    DISK = "Disk"
    VRAM = "Vram"
    GPU_MEMORY = "GpuMemory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """An amount of bytes in whole Gi, and who said so."""

    amount: int
    source: SizeFrom

    @property
    def stated(self) -> bool:
        """Whether somebody stated it of these bytes, so that it is no bound that drifts with pools and profiles."""
        return self.source in (SizeFrom.EXPLICIT, SizeFrom.DISK)


def size(explicit: int | None, model: Model, gpu_memory: int | None) -> Size | None:
    """Return how large the weights' claim must be, None where nothing says so."""
    stated = (
        (explicit, SizeFrom.EXPLICIT),
        (model.disk, SizeFrom.DISK),
        (model.vram, SizeFrom.VRAM),
        (gpu_memory, SizeFrom.GPU_MEMORY),
    )
    found = next(((amount, source) for amount, source in stated if amount), None)
    return Size(amount=whole_gib(found[0]), source=found[1]) if found else None


def whole_gib(amount: int) -> int:
    """Return the amount rounded up to whole Gi."""
    return -(-amount // quantity.GIB) * quantity.GIB


def request(wanted: int, observed: Manifest) -> str:
    """Return the request of a claim of which this much is observed; empty = it does not exist yet."""
    current = manifests.text(observed, "spec.resources.requests.storage")
    given = manifests.text(observed, "status.capacity.storage")
    return current if current and max(amount(current), amount(given)) >= wanted else quantity.gib(wanted)


def amount(text: str) -> int:
    """Return an observed quantity in bytes, 0 where it cannot be read."""
    with suppress(ValueError):
        return quantity.parse_observed(text)
    return 0
