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

    @property
    def namespace(self) -> str:
        """The namespace on the remote cluster."""
        return f"{self.settings.remote_namespace_prefix}{self.placement.namespace}"

    @property
    def entry(self) -> CacheEntry | None:
        """What the named ModelCache has on this environment."""
        return self.cache.entry(self.environment.name) if self.cache else None
