"""Storage of the weights of a deployment (the `modelCache` block), and ModelCaches that outlive deployments."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from function.domain.environment import Environment
from function.domain.model import ModelRef
from function.domain.records.weights import DownloadRecord
from function.kube.selectors import Selector
from function.reasons import Phase


class CacheType(StrEnum):
    """Storage that this function creates: a claim, or a volume that lives as long as the pod."""

    PVC = "PVC"
    EMPTY_DIR = "EmptyDir"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCacheChoice:
    """Use of the weights of a ModelCache in the same namespace."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserClaim:
    """A claim of the user on the remote cluster. Weights are written below models/; the claim is never changed."""

    claim: str
    preload: bool = True
    retry: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedStorage:
    type: CacheType | None = None  # None: EmptyDir for replicas on one node, else PVC
    size: int | None = None  # bytes
    class_name: str | None = None
    access_mode: str | None = None
    preload: bool = True
    retain: bool = False
    retry: str = ""


StorageChoice: TypeAlias = ModelCacheChoice | UserClaim | CreatedStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """Status of a ModelCache on one environment."""

    environment: str
    phase: Phase = Phase.PENDING  # the last known phase while the cluster is unreachable
    unreachable: bool = False  # the cluster gives no answer
    access_mode: str = ""  # empty: unknown
    message: str = ""
    download: DownloadRecord = DownloadRecord()

    def is_mountable_from(self, namespace: str) -> bool:
        """Tells whether pods of a remote namespace can mount the claim, as far as the claim's namespace is known."""
        return self.download.namespace in ("", namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A placement that reads from a ModelCache."""

    name: str
    environment: str
    uri: str = ""  # empty: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCache:
    namespace: str
    name: str
    model: ModelRef
    environments: tuple[str, ...] | None = None  # None: `selector` selects them
    selector: Selector = Selector()
    choice: UserClaim | CreatedStorage = CreatedStorage()
    entries: tuple[CacheEntry, ...] = ()
    consumers: tuple[Consumer, ...] = ()

    def entry(self, environment: str) -> CacheEntry | None:
        """Returns the status of one environment; None if there is none yet."""
        return next((e for e in self.entries if e.environment == environment), None)

    def selects(self, environment: Environment) -> bool:
        if self.environments is not None:
            return environment.name in self.environments
        return not self.selector.find_unmet(dict(environment.labels))
