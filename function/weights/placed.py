"""One way to ask the planner for the weights of a placement or a ModelCache, whoever asks."""

from dataclasses import dataclass, field

from function.domain.cache import CacheChoice, ModelCache
from function.domain.environment import Environment, Pool
from function.domain.model import Model, Shape
from function.domain.settings import Settings
from function.weights.faults import StorageFault, find_faults
from function.weights.request import NamedCacheFacts, StorageRequest
from function.weights.volume_claim import READ_WRITE_MANY


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedWeights:
    """The weights of one deployment, wherever it may run: what decides and what carries out ask with the same words.

    `cache` is the ModelCache that is named, None where there is none. `namespace` is the remote one.
    """

    model: Model
    choice: CacheChoice
    cache: ModelCache | None
    settings: Settings
    # What there is no storage for depends on neither.
    namespace: str = field(compare=False)
    owner: str = field(compare=False)
    # What was said of which environment: a decision asks the same of many pools and profiles of one.
    _said: dict[tuple[object, ...], tuple[Environment, tuple[StorageFault, ...]]] = field(
        default_factory=dict, compare=False, repr=False, init=False
    )

    def __call__(self, environment: Environment, pool: Pool, shape: Shape, replicas: int) -> tuple[StorageFault, ...]:
        """Return why there would be no storage for so many replicas; equal weights say the same."""
        key = (environment.name, pool.memory_per_gpu, shape.nodes, shape.gpus, replicas)
        said = self._said.get(key)
        if said is None or said[0] is not environment:
            self._said[key] = said = environment, find_faults(self.on(environment, pool, shape, replicas))
        return said[1]

    def on(self, environment: Environment, pool: Pool, shape: Shape, replicas: int) -> StorageRequest:
        """Return the request for weights of so many replicas of a shape on a pool."""
        memory = pool.memory_per_gpu
        return StorageRequest(
            model=self.model,
            choice=self.choice,
            environment=environment.storage,
            download=environment.storage.download,
            default_class=self.settings.storage_class,
            namespace=self.namespace,
            owner=self.owner,
            pull_secrets=environment.pull_secrets,
            shape_nodes=shape.nodes,
            replicas=replicas,
            pool=pool,
            gpu_memory=None if memory is None else memory * shape.gpus,
            named=self._named(environment),
        )

    def _named(self, environment: Environment) -> NamedCacheFacts | None:
        if self.cache is None:
            return None
        entry = self.cache.entry(environment.name)
        return NamedCacheFacts(
            model=self.cache.model,
            claim=entry.claim if entry else "",
            path=entry.path if entry else "",
            # One that an earlier release reported says nothing of the mode.
            access_mode=(entry.access_mode if entry else "") or READ_WRITE_MANY,
            expected=self.cache.selects(environment),
        )


def cached_weights(
    model: Model, cache: ModelCache, environment: Environment, settings: Settings, namespace: str
) -> StorageRequest:
    """Returns the request for what a ModelCache keeps on an environment, in a remote namespace."""
    return StorageRequest(
        model=model,
        choice=cache.choice,
        environment=environment.storage,
        download=environment.storage.download,
        default_class=settings.storage_class,
        namespace=namespace,
        owner=cache.name,
        pull_secrets=environment.pull_secrets,
        shape_nodes=max((p.shape.nodes for p in model.profiles if p.shape), default=1),
        for_cache=True,
        scope=environment.name,
    )
