"""How much the placements of one namespace may take, and what they take where that is too much."""

from dataclasses import dataclass, replace


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
class QuotaUsage:
    """Why there is no room in the quota of a namespace: the limits, what is taken, and by whom (name, GPUs), most
    first. `wanted`: GPUs beyond what it has.
    """

    namespace: str
    limits: Limits
    placements: int
    gpus: int
    wanted: int
    holders: tuple[tuple[str, int], ...]

    @property
    def exceeds_limit(self) -> bool:
        """Whether more is wanted than the namespace may ever take."""
        return bool(self.limits.gpus and self.wanted > self.limits.gpus)

    def of(self, gpus: int) -> "QuotaUsage | None":
        """Return why there is no room for one more placement, of so many GPUs, where there is none."""
        many = self.limits.placements and self.placements >= self.limits.placements
        if many or (self.limits.gpus and self.gpus + gpus > self.limits.gpus):
            return replace(self, wanted=gpus)
        return None

    def beside(self, name: str, gpus: int) -> "QuotaUsage":
        """Return what is taken beside one more."""
        holders = sorted((*self.holders, (name, gpus)), key=lambda holder: (-holder[1], holder[0]))
        return replace(self, placements=self.placements + 1, gpus=self.gpus + gpus, holders=tuple(holders))
