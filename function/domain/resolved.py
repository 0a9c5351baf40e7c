"""A placement with everything that it refers to."""

from dataclasses import dataclass

from function.domain.cache import CacheEntry, ModelCache
from function.domain.environment import Environment, Pool
from function.domain.model import Model, Profile, Shape
from function.domain.placement import Placement
from function.domain.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPlacement:
    """A placement with everything that it refers to."""

    placement: Placement
    shape: Shape
    model: Model
    profile: Profile
    environment: Environment
    pool: Pool
    cache: ModelCache | None
    settings: Settings
    namespace: str  # on the remote cluster

    @property
    def entry(self) -> CacheEntry | None:
        """What the named ModelCache has on this environment."""
        return self.cache.entry(self.environment.name) if self.cache else None
