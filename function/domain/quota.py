"""How much the placements of one namespace may take, and what they take where that is too much."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a platform allows each namespace; 0 is no limit."""

    placements: int = 0
    gpus: int = 0

    @property
    def any(self) -> bool:
        """Whether anything is limited."""
        return bool(self.placements or self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """Why there is no room in the quota of a namespace: the limits, what is taken, and by whom (name, GPUs), most
    first. `wanted`: GPUs beyond what it has.
    """

    namespace: str
    limits: Limits
    placements: int
    gpus: int
    wanted: int
    holders: tuple[tuple[str, int], ...]
