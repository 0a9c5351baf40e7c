"""How the weights of a deployment reach its pods (the `modelCache` block), and caches that outlive it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from function.domain.environment import Environment
from function.domain.model import ModelRef
from function.kube.selectors import Selector
from function.reasons import Phase


class CacheType(StrEnum):
    """A claim of our own, or none."""

    PVC = "PVC"
    EMPTY_DIR = "EmptyDir"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCache:
    """Weights that a ModelCache keeps."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserClaim:
    """A claim that the user owns on the remote cluster: written under models/<key>, never changed."""

    claim: str
    preload: bool = True
    retry: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedCache:
    """Where nothing is said: EmptyDir on one node, a managed claim on several. `size` in bytes."""

    type: CacheType | None = None
    size: int | None = None
    class_name: str | None = None
    access_mode: str | None = None
    preload: bool = True
    retain: bool = False
    retry: str = ""


CacheChoice: TypeAlias = NamedCache | UserClaim | ManagedCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Hydration:
    """A download that was seen complete: which bytes, on which claim, and when (RFC 3339, empty: it was not)."""

    claim: str = ""
    path: str = ""
    namespace: str = ""
    completed_at: str = ""
    claim_uid: str = ""
    retry: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """What a ModelCache last reported of one environment. `access_mode`: empty where it is not known."""

    environment: str
    phase: Phase = Phase.PENDING
    unreachable: bool = False
    access_mode: str = ""
    message: str = ""
    hydration: Hydration = Hydration()

    @property
    def claim(self) -> str:
        """The claim that holds the bytes."""
        return self.hydration.claim

    @property
    def path(self) -> str:
        """Their directory within the claim."""
        return self.hydration.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A placement that reads from a ModelCache. `uri`: where its service reads, empty where that is not known."""

    name: str
    environment: str
    uri: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCache:
    """A ModelCache. `environments` None: the selector decides. `preload` and `retry` stand in `choice`."""

    namespace: str
    name: str
    uid: str = ""
    model: ModelRef
    environments: tuple[str, ...] | None = None
    selector: Selector = Selector()
    choice: UserClaim | ManagedCache = ManagedCache()
    entries: tuple[CacheEntry, ...] = ()
    readers: tuple[Reader, ...] = ()
    deleting: bool = False

    def entry(self, environment: str) -> CacheEntry | None:
        """Return what was last reported of an environment, if anything was."""
        return next((e for e in self.entries if e.environment == environment), None)

    def selects(self, environment: Environment) -> bool:
        """Tell whether an environment shall have the bytes."""
        if self.environments is not None:
            return environment.name in self.environments
        return not self.selector.find_unmet(dict(environment.labels))
