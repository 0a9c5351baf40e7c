"""Decisions that stand: a ModelPlacement as ledger and executor see it, and the deployment behind it."""

from dataclasses import dataclass
from enum import StrEnum

from function.domain.allocation import Share
from function.domain.cache import CacheChoice, Hydration, ManagedCache
from function.domain.model import ModelRef, Shape
from function.kube.selectors import Selector
from function.reasons import Phase


class Preference(StrEnum):
    """Which of several pools that satisfy everything a deployment takes: the first declared, or the smallest."""

    DECLARED = "Declared"
    SMALLEST_SUFFICIENT = "SmallestSufficient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A ModelDeployment: this model, on so many environments, with so many replicas on each."""

    namespace: str
    name: str
    model: ModelRef
    environments: int = 1
    replicas: int = 1
    selector: Selector = Selector()
    cache: CacheChoice = ManagedCache()
    prefer: Preference = Preference.DECLARED


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A ModelPlacement. `shape` None: the recorded topology cannot be read. `created` is its RFC 3339 time.

    `served` is latched: it was Ready once. `ready`: it serves. `obstacle`: the first that is not as it shall be
    besides its service, which may serve all the same. `vram` is the model's vram (bytes) at the time of the
    decision, where VRAM maths made it. `planned_uri` is where its service shall read the weights, `serving_uri`
    where it does (empty: it has none yet), `applied_uri` where it was told to and was not seen to (empty: nowhere
    else), `claim_mode` the access mode of the claim that they are on, `takes` what its service takes of a pool.
    `owner` is the uid of the composite that composed it, if any did. `over_quota`: it has said that it takes no
    more than it has, as its namespace may not. `held_back`: it has said that it cannot start, since its own spec or
    what it refers to is missing or invalid. `apart`: no two of its replicas share a node. `acknowledged`: its
    status was written for its present spec.
    """

    namespace: str
    name: str
    deployment: str
    model: ModelRef
    environment: str
    profile: str
    pool: str
    shape: Shape | None
    replicas: int = 1
    cache: CacheChoice = ManagedCache()
    uid: str = ""
    created: str = ""
    vram: int | None = None
    was_ready: bool = False
    ready: bool = False
    unreachable: bool = False
    deleting: bool = False
    phase: Phase = Phase.PENDING
    obstacle: str = ""
    url: str = ""
    planned_uri: str = ""
    serving_uri: str = ""
    applied_uri: str = ""
    hydration: Hydration = Hydration()
    claim_mode: str = ""
    owner: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    allocated: Share | None = None
    over_quota: bool = False
    cannot_start: bool = False
    acknowledged: bool = True
    exclusive_replica_nodes: bool = False

    @property
    def requested(self) -> Share | None:
        """What its spec asks of its pool; None where that cannot be read."""
        if self.shape is None:
            return None
        return Share(
            pool=self.pool,
            nodes=self.shape.nodes,
            gpus_per_node=self.shape.gpus_per_node,
            replicas=max(0, self.replicas),
            exclusive_replica_nodes=self.exclusive_replica_nodes,
        )

    @property
    def effective_request(self) -> Share | None:
        """What it wants of its pool: what it asks for, unless its namespace may not take that or it cannot start."""
        return self.allocated if self.over_quota or self.cannot_start else self.requested

    @property
    def ever_ready(self) -> bool:
        """Whether it ever was Ready; `served` is latched a moment after `ready`."""
        return self.was_ready or self.ready

    @property
    def has_resources(self) -> bool:
        """Whether anything of it was composed, which nothing is before it was admitted."""
        return self.ever_ready or bool(self.planned_uri or self.serving_uri)
