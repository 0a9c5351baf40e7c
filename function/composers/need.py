"""What a deployment needs of an environment's storage, asked of the planner that will later plan its weights.

The decision knows no storage; it is told in advance which replicas will need a claim of ours, so that both agree.
"""

from function.domain.cache import CacheType, ManagedCache, ModelCache, NamedCache
from function.domain.environment import EnvironmentStorage
from function.domain.model import Model
from function.domain.placement import Deployment
from function.domain.settings import Download, Settings
from function.scheduling.request import StorageNeed
from function.storage.checks import EXCLUSIVE, OWN_CLAIM
from function.storage.request import StorageRequest


def storage_need(deployment: Deployment, model: Model, settings: Settings, cache: ModelCache | None) -> StorageNeed:
    """Return what the weights ask for; `cache` is the named ModelCache, None where there is none by that name."""
    choice = deployment.cache
    if isinstance(choice, NamedCache):
        here = (e.environment for e in cache.entries if e.path) if cache else ()
        return StorageNeed(cache_environments=frozenset(here), cache_name=choice.name)
    wishes = choice if isinstance(choice, ManagedCache) else ManagedCache()
    several = _needs_claim(deployment, model, nodes=2)
    exclusive = wishes.type is CacheType.EMPTY_DIR or wishes.access_mode in EXCLUSIVE
    return StorageNeed(
        class_name=wishes.class_name,
        default_class=settings.storage_class,
        access_mode=wishes.access_mode,
        multi_node_claim=several,
        single_node_claim=_needs_claim(deployment, model, nodes=1),
        single_node_only=several and exclusive,
    )


def _needs_claim(deployment: Deployment, model: Model, *, nodes: int) -> bool:
    order = StorageRequest(
        model=model,
        choice=deployment.cache,
        environment=EnvironmentStorage(),
        download=Download(),
        namespace=deployment.namespace,
        owner=deployment.name,
        shape_nodes=nodes,
    )
    return order.case in OWN_CLAIM
