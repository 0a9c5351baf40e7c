"""A placement with everything that it refers to, or the condition that says what is missing."""

from dataclasses import dataclass

from function.composers import resolve
from function.domain.cache import CacheEntry, ModelCache, NamedCache
from function.domain.environment import Environment, Pool
from function.domain.model import Model, Profile, Shape
from function.domain.placement import Placement
from function.domain.settings import Settings
from function.exchange import Call, Condition
from function.kube.names import named
from function.reasons import ConditionType
from function.report import references
from function.serving.service import identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
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
        return f"{self.settings.remote_namespace_prefix or ''}{self.placement.namespace}"

    @property
    def service(self) -> str:
        """The service's name: another group is another object, since KServe refuses to change its size."""
        placement = self.placement
        return named(placement.name, placement.namespace, placement.name, *identity(self.shape))

    @property
    def entry(self) -> CacheEntry | None:
        """What the named ModelCache has on this environment."""
        return self.cache.entry(self.environment.name) if self.cache else None


def gather(call: Call, placement: Placement, settings: Settings) -> Task | Condition:
    """Return the placement with its model, profile, environment, pool and cache, or what does not resolve."""
    if placement.shape is None:
        return references.unreadable_topology()
    model = resolve.model(call, placement.model, placement.namespace, ConditionType.REFERENCES_RESOLVED, settings)
    if isinstance(model, Condition):
        return model
    environment = resolve.environment(call, placement.environment, settings)
    if isinstance(environment, Condition):
        return environment
    cache = _cache(call, placement)
    if isinstance(cache, Condition):
        return cache
    profile = next((p for p in model.profiles if p.name == placement.profile), None)
    if profile is None:
        return references.profile_not_found(placement.model, model, placement.profile)
    pool = environment.pool(placement.pool)
    if pool is None:
        return references.pool_not_found(environment.name, placement.pool)
    return Task(
        placement=placement,
        shape=placement.shape,
        model=model,
        profile=profile,
        environment=environment,
        pool=pool,
        cache=cache,
        settings=settings,
    )


def _cache(call: Call, placement: Placement) -> ModelCache | Condition | None:
    if not isinstance(placement.cache, NamedCache):
        return None
    return resolve.cache(call, placement.cache.name, placement.namespace)
