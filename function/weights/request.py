"""What is known when weights are planned, and which row of the case table it selects.

The case follows from the source, the choice and the environment alone. Only one node without any wish for a
claim is left to KServe's own initializer, and only for the schemes that KServe accepts.
"""

from dataclasses import dataclass
from enum import StrEnum

from function.domain.cache import CacheChoice, CacheType, ManagedCache, NamedCache, UserClaim
from function.domain.environment import EnvironmentStorage, Pool, StorageMode
from function.domain.model import Model, ModelRef, OciSource, PvcSource, UriSource
from function.domain.pods import PullSecret
from function.domain.settings import Download
from function.weights import sizing
from function.weights.volume_claim import READ_WRITE_MANY


class Case(StrEnum):
    """The rows of the case table, as `status.storage.type` shows them."""

    INITIALIZER = "EmptyDir"
    OCI = "OCI"
    PRESTAGED = "Prestaged"
    MODEL_CACHE = "ModelCache"
    USER_CLAIM = "UserClaim"
    SHARED = "Shared"
    RETAINED = "RetainedPVC"
    MANAGED = "PVC"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCacheFacts:
    """What a ModelCache of this model keeps on an environment; no path: nothing yet. `expected`: it shall."""

    model: ModelRef
    claim: str = ""
    path: str = ""
    access_mode: str = READ_WRITE_MANY
    expected: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRequest:
    """Weights for one placement, or for one ModelCache (`for_cache`) on one environment.

    `owner`, the placement's or cache's name, is unique in `namespace`, the remote one; a cache's is so on each
    environment, which is its `scope`: two of them may be of one cluster. `gpu_memory` of one replica in bytes, None
    where it is not known. `named` None: there is no ModelCache of the name that was chosen. `existing` are the claims
    that are there already, which keep the names they were given. `pull_secrets` are the environment's. `prepared`: the
    download could not write without. `pool`: where the weights are read, None where nobody knows. `claim_mode`: the
    access mode of the claim that is there, if one is. `running`: there is a service already, which what is refused
    since then does not concern. `held`: what a claim of the user's holds, in bytes, None where that is not known.
    `fetched`: the bytes are there, or on their way. `claimed`: their claim is there, whatever would be asked of a new
    one.
    """

    model: Model
    choice: CacheChoice
    environment: EnvironmentStorage
    download: Download
    namespace: str
    owner: str
    default_class: str | None = None
    shape_nodes: int = 1
    replicas: int = 1
    gpu_memory: int | None = None
    named: NamedCacheFacts | None = None
    for_cache: bool = False
    scope: str = ""
    existing: frozenset[str] = frozenset()
    pull_secrets: tuple[PullSecret, ...] = ()
    running: bool = False
    prepared: bool = False
    held: int | None = None
    fetched: bool = False
    claimed: bool = False
    pool: Pool | None = None
    claim_mode: str = ""

    @property
    def pods(self) -> int:
        """How many pods mount the weights at once, each on a node of its own."""
        return self.shape_nodes * max(1, self.replicas)

    @property
    def wishes(self) -> ManagedCache:
        """What is asked of a claim of our own; nothing where another way was chosen."""
        return self.choice if isinstance(self.choice, ManagedCache) else ManagedCache()

    @property
    def case(self) -> Case:
        """The row that applies."""
        match self.model.source, self.choice:
            case OciSource(), _:
                return Case.OCI
            case PvcSource(), _:
                return Case.PRESTAGED
            case _, NamedCache():
                return Case.MODEL_CACHE
            case _, UserClaim():
                return Case.USER_CLAIM
            case _:
                return self._managed(self.wishes)

    def _managed(self, wishes: ManagedCache) -> Case:
        if not self.needs_claim and wishes.type is not CacheType.PVC:
            return Case.INITIALIZER
        if self.environment.mode is StorageMode.SHARED:
            return Case.SHARED
        return Case.RETAINED if wishes.retain else Case.MANAGED

    @property
    def alone(self) -> bool:
        """Whether one pod at a time reads the weights."""
        return self.shape_nodes == 1 and self.replicas <= 1

    @property
    def needs_claim(self) -> bool:
        """Whether an initializer in each pod will not do, whatever is asked for."""
        return self.for_cache or self.shape_nodes > 1 or self.foreign

    @property
    def foreign(self) -> bool:
        """Whether KServe would refuse the source's scheme."""
        source = self.model.source
        return isinstance(source, UriSource) and not source.uri.startswith("s3://")

    @property
    def class_name(self) -> str | None:
        """Deployment, environment, defaults; None = nobody names one, "" = the cluster's default class."""
        stated = (self._own.class_name, self.environment.class_name, self.default_class)
        return next((name for name in stated if name is not None), None)

    @property
    def access_mode(self) -> str:
        """Deployment, then environment."""
        return self._own.access_mode or self.environment.access_mode

    @property
    def near(self) -> Pool | None:
        """The pool on whose nodes the download must run: that of the pods, where the claim is of one node at a time."""
        asked = "" if self.case is Case.USER_CLAIM else self.access_mode
        return self.pool if (self.claim_mode or asked or READ_WRITE_MANY) != READ_WRITE_MANY else None

    @property
    def explicit_size(self) -> int | None:
        """The size that somebody wrote down for this claim."""
        return self.environment.shared_size if self.case is Case.SHARED else self._own.size

    @property
    def claim_size(self) -> int | None:
        """What the claim is said to hold; None where that follows from the weights, or is not known."""
        if self.case is Case.USER_CLAIM:
            return self.held
        size = self.explicit_size if self.case in (Case.SHARED, Case.RETAINED, Case.MANAGED) else None
        return sizing.whole_gib(size) if size else None

    @property
    def bound(self) -> int | None:
        """The best known bound of the weights' bytes: what the model says, else the least of what must hold them."""
        known = (self.claim_size, self.model.vram, self.gpu_memory)
        return self.model.disk or min((amount for amount in known if amount), default=None)

    @property
    def _own(self) -> ManagedCache:
        # A claim that all models of a namespace share is the environment's alone: its users must agree on it.
        return ManagedCache() if self.case is Case.SHARED else self.wishes
