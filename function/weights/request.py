"""What is known when weights are planned, and which row of the case table applies.

The case follows only from the source, the deployment's choice and the environment. KServe's own initializer downloads
only for replicas on one node without a requested claim, and only for the schemes that KServe accepts. KServe serves the
root of the download, so a model in a folder of its repository needs a claim.

The cache key identifies the bytes. It is the first 16 hex digits of the SHA-256 of the normalised source: a JSON array
of the URI without revision, the revision ("" where the source has none), the allow and the ignore patterns, each sorted
and without repetition, and the model's folder if it has one, in the compact form and in this order. Names, tokens and
mirrors are not part of the key: the same bytes have the same key for every model that points to them. Another revision,
pattern or folder gives another key. An adapter's key also identifies the model that it was verified against, and the
highest rank: an adapter that is complete for one model is not complete for another.
"""

import hashlib
import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import assert_never

from function.domain.adapter import Adapter
from function.domain.cache import (
    CacheEntry,
    CacheType,
    CreatedStorage,
    ModelCache,
    ModelCacheChoice,
    StorageChoice,
    UserClaim,
)
from function.domain.environment import Environment, Pool
from function.domain.model import (
    DownloadedSource,
    HuggingFaceSource,
    Model,
    OciSource,
    PvcSource,
    Shape,
    Source,
    UriSource,
)
from function.kube.names import LABEL_CACHE_KEY, LABEL_MODEL, clean_label_value
from function.weights.claim import READ_WRITE_MANY, Size, SizeFrom, compute_size

_ON_CLAIM = "pvc://"  # how KServe names weights on a claim


class StorageType(StrEnum):
    """The rows of the case table, as `status.storage.type` shows them."""

    EMPTY_DIR = "EmptyDir"
    OCI = "OCI"
    PRESTAGED = "Prestaged"
    MODEL_CACHE = "ModelCache"
    USER_CLAIM = "UserClaim"
    SHARED = "Shared"
    RETAINED = "RetainedPVC"
    MANAGED = "PVC"


CREATED_CLAIM = (StorageType.SHARED, StorageType.RETAINED, StorageType.MANAGED)  # the cases in which a claim is created


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRequest:
    """Weights on one environment, for one placement or one ModelCache.

    Scheduling and planning make the same request. The request of a deployment has no environment before `with_pool`.
    """

    model: Model
    choice: StorageChoice
    environment: Environment = Environment(name="")
    # Excluded from equality: requests that differ only here have the same faults, which are cached.
    namespace: str = field(compare=False)  # on the remote cluster
    owner: str = field(compare=False)  # name of the placement or ModelCache, unique in the namespace
    shape_nodes: int = 1
    replicas: int = 1
    gpu_memory: int | None = None  # bytes of one replica; None: unknown
    pool: Pool | None = None  # where the weights are read; None: unknown
    named_cache: ModelCache | None = None  # that the deployment names; None: no ModelCache has the name
    for_cache: bool = False  # a ModelCache requests them, and no placement
    adapters: tuple[Adapter, ...] = ()  # of the deployment
    adapter: Adapter | None = None  # what is requested, beside the weights and on their claim; None: the weights
    # What is observed; nothing where an environment is only considered.
    observed_access_mode: str = ""  # of the claim that the weights are on; empty: unknown, or it does not exist
    user_claim_capacity: int | None = None  # bytes; None: unknown, or the claim is ours
    write_refused: bool = False  # a download could not write to its directory
    service_exists: bool = False  # faults that are newer than the service do not concern it

    def with_pool(self, environment: Environment, pool: Pool, shape: Shape, replicas: int) -> "WeightsRequest":
        """Returns the request for this many replicas of a shape on a pool."""
        memory = pool.memory_per_gpu
        return replace(
            self,
            environment=environment,
            shape_nodes=shape.nodes,
            replicas=replicas,
            gpu_memory=None if memory is None else memory * shape.gpus,
            pool=pool,
        )

    @property
    def source(self) -> Source:
        return self.adapter.source if self.adapter else self.model.source

    @property
    def downloads_adapters(self) -> bool:
        return any(isinstance(adapter.source, DownloadedSource) for adapter in self.adapters)

    @property
    def named_cache_entry(self) -> CacheEntry | None:
        """What the named ModelCache last reported of the environment; None where it has not."""
        return self.named_cache.entry(self.environment.name) if self.named_cache else None

    @property
    def pod_count(self) -> int:
        """The pods that mount the weights at once, each on a node of its own."""
        return self.shape_nodes * max(1, self.replicas)

    @property
    def created_storage(self) -> CreatedStorage:
        """The options for a claim that is created; the defaults where another way was chosen."""
        return self.choice if isinstance(self.choice, CreatedStorage) else CreatedStorage()

    @property
    def retry(self) -> str:
        """The value whose change starts the download again."""
        if self.adapter:
            return self.adapter.retry
        return "" if isinstance(self.choice, ModelCacheChoice) else self.choice.retry

    @property
    def storage_type(self) -> StorageType:
        match self.model.source, self.choice:
            case OciSource(), _:
                return StorageType.OCI
            case PvcSource(), _:
                return StorageType.PRESTAGED
            case _, ModelCacheChoice():
                return StorageType.MODEL_CACHE
            case _, UserClaim():
                return StorageType.USER_CLAIM
        uri = self.model.source.uri if isinstance(self.model.source, UriSource) else ""
        is_refused_by_kserve = bool(uri) and not uri.startswith("s3://")
        is_in_folder = isinstance(self.model.source, HuggingFaceSource) and bool(self.model.source.path)
        # In these cases, the initializer of a pod cannot fetch the weights, or cannot fetch them to the folder that
        # engines open, whatever the options are.
        needs_claim = self.for_cache or self.shape_nodes > 1 or is_refused_by_kserve or is_in_folder
        needs_claim |= self.downloads_adapters
        if not needs_claim and self.created_storage.type is not CacheType.PVC:
            return StorageType.EMPTY_DIR
        if self.environment.storage.is_shared:
            return StorageType.SHARED
        return StorageType.RETAINED if self.created_storage.retain else StorageType.MANAGED

    @property
    def class_name(self) -> str | None:
        """The class of the deployment or the environment; None: not set, "": the cluster's default class."""
        own = self._own_options.class_name
        return self.environment.storage.class_name if own is None else own

    @property
    def access_mode(self) -> str:
        """The access mode of a new claim: the deployment's, then the environment's; empty for a user's claim."""
        if self.storage_type is StorageType.USER_CLAIM:
            return ""
        return self._own_options.access_mode or self.environment.storage.access_mode

    @property
    def claim_size(self) -> Size | None:
        """The size of a claim that is created; None if no claim is created, or nothing states or bounds its size."""
        if self.storage_type not in CREATED_CLAIM:
            return None
        return compute_size(self._own_options.size, self.model, self.gpu_memory)

    @property
    def node_local_pool(self) -> Pool | None:
        """The pool on whose nodes the download must run; None where the claim is mounted by several nodes."""
        mode = self.observed_access_mode or self.access_mode or READ_WRITE_MANY
        return self.pool if mode != READ_WRITE_MANY else None

    @property
    def stated_capacity(self) -> int | None:
        """The bytes of the claim if they do not follow from the weights; None if they do, or if they are unknown."""
        if self.storage_type is StorageType.USER_CLAIM:
            return self.user_claim_capacity
        size = self.claim_size
        return size.amount if size and size.source is SizeFrom.EXPLICIT else None

    @property
    def weights_upper_bound(self) -> int | None:
        """The best known upper bound of the weights' bytes: some files may be copies that engines do not load."""
        bounds = (self.model.disk or self.stated_capacity, self.model.vram, self.gpu_memory)
        return min((amount for amount in bounds if amount), default=None)

    @property
    def _own_options(self) -> CreatedStorage:
        # Only the environment decides on a claim that all models of a namespace share: all of them must agree on it.
        is_shared = self.storage_type is StorageType.SHARED
        return CreatedStorage(size=self.environment.storage.shared_size) if is_shared else self.created_storage


def build_cache_request(model: Model, cache: ModelCache, environment: Environment, namespace: str) -> WeightsRequest:
    """Builds the request for what a ModelCache keeps on an environment, in a remote namespace."""
    return WeightsRequest(
        model=model,
        choice=cache.choice,
        environment=environment,
        namespace=namespace,
        owner=cache.name,
        shape_nodes=max((p.shape.nodes for p in model.profiles if p.shape), default=1),
        for_cache=True,
    )


def get_download(request: WeightsRequest) -> DownloadedSource:
    """Returns what a request downloads; it is of a source that is downloaded."""
    assert isinstance(request.source, DownloadedSource)
    return request.source


def cache_key(source: DownloadedSource) -> str:
    if isinstance(source, HuggingFaceSource):
        parts = [f"hf://{source.repo}", source.revision, sorted({*source.allow}), sorted({*source.ignore})]
        parts += [source.path] if source.path else []
    else:
        parts = [source.uri.rstrip("/"), "", [], []]
    if source.base:
        parts += ["adapter", source.base.key, str(source.base.max_rank)]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()[:16]


def label_weights(source: DownloadedSource) -> dict[str, str]:
    """Returns the labels by which the weights of a source are found on a cluster, once nothing else names them.

    Only the source decides: several models with the same bytes share a retained claim, and would else take the label
    from each other for ever. Of a URI, only the last part counts, because a query may hold a signature.
    """
    if isinstance(source, HuggingFaceSource):
        name = source.repo
    else:
        name = source.uri.partition("?")[0].rstrip("/").rpartition("/")[2]
    key = cache_key(source)
    return {LABEL_MODEL: clean_label_value(name) or key, LABEL_CACHE_KEY: key}


def source_uri(source: Source) -> str:
    """Returns the URI of a source: what the storage-initializer downloads, or KServe mounts as it is."""
    match source:
        case HuggingFaceSource():
            return f"hf://{source.repo}:{source.revision}"
        case UriSource():
            return source.uri
        case OciSource():
            return f"oci://{source.image}"
        case PvcSource():
            return claim_uri(source.claim, source.path.strip("/"))
        case other:
            assert_never(other)


def claim_uri(claim: str, path: str) -> str:
    return f"{_ON_CLAIM}{claim}/{path}".rstrip("/")


def parse_claim_uri(uri: str) -> tuple[str, str] | None:
    """Returns the claim that a URI reads from, and the path on it; None where it reads from none."""
    claim, _, path = uri.removeprefix(_ON_CLAIM).partition("/")
    return (claim, path) if uri.startswith(_ON_CLAIM) else None


def serving_path(source: DownloadedSource, directory: str) -> str:
    """Returns the folder that engines open, for a download into this directory of a claim."""
    folder = source.path if isinstance(source, HuggingFaceSource) else ""
    return f"{directory}/{folder}".rstrip("/")


def model_directory(source: DownloadedSource) -> str:
    """Returns the directory of the bytes on a claim: never its root, which all models share."""
    return f"models/{cache_key(source)}"
