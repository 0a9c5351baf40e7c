"""ModelDeployment and ModelPlacement: what is requested, and what was decided."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from function.domain.adapter import Adapter, find_adapter_obstacle
from function.domain.allocation import Price, Share
from function.domain.cache import CreatedStorage, ModelCache, StorageChoice
from function.domain.environment import Environment, Pool
from function.domain.model import Model, ModelRef, Profile, Shape
from function.domain.records.admission import AdmissionRecord
from function.domain.records.restarts import RestartRecord
from function.domain.records.rollout import RolloutRecord
from function.domain.records.service import ServiceRecord
from function.domain.records.weights import DownloadRecord, WeightsRecord
from function.domain.scaling import LoadScaling
from function.domain.settings import Settings
from function.kube.selectors import Selector, Toleration
from function.reasons import Phase


class Preference(StrEnum):
    """Which of several feasible pools a deployment takes: the first declared, the smallest, or the cheapest."""

    DECLARED = "Declared"
    SMALLEST_SUFFICIENT = "SmallestSufficient"
    CHEAPEST = "Cheapest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """An object in the namespace of a deployment whose condition must be True before the next environment changes."""

    api_version: str
    kind: str
    name: str
    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A rollout of one environment after the other."""

    order: tuple[str, ...] = ()  # environments that come first
    paused: bool = False
    gate: Gate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    namespace: str
    name: str
    model: ModelRef
    environments: int = 1  # at most this many if the replicas are divided
    replicas: int = 1  # on each environment; of all together if they are divided
    divides_replicas: bool = False
    load: LoadScaling | None = None  # None: nothing but a user changes the number of replicas
    fixed_guaranteed: int | None = None  # replicas that nobody takes back if none follow the load; None: all
    priority: int = 0
    preemptible: bool = False  # a higher priority also takes guaranteed replicas
    selector: Selector = Selector()
    tolerations: tuple[Toleration, ...] = ()
    storage_choice: StorageChoice = CreatedStorage()
    adapters: tuple[Adapter, ...] = ()
    prefer: Preference = Preference.DECLARED
    rollout: Rollout | None = None  # None: all environments change at once
    replaces_when_full: bool = False  # pods end before the new ones start, where there is no room for both
    composes_model_service: bool = False  # it composes a ModelService of its name
    priority_name: str = ""  # the name of its priority in the platform settings; empty: it has none

    @property
    def guaranteed(self) -> int | None:
        """The most replicas that nobody takes back, in the meaning of `replicas`; None: all."""
        return max(1, self.load.minimum) if self.load else self.fixed_guaranteed

    @property
    def guaranteed_replicas(self) -> int:
        """Replicas that nobody takes back; the others are lent."""
        return self.replicas if self.guaranteed is None else min(self.guaranteed, self.replicas)


class Stage(IntEnum):
    """How far a placement has come, as its status records it: the later, the more there is to lose."""

    NEW = 0  # nothing was composed for it
    COMPOSED = 1  # something was composed for it, which happens only after it was admitted
    SERVED = 2  # it is or was Ready


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A ModelPlacement: what was decided for one environment, and what its status says of it."""

    namespace: str
    name: str
    deployment: str
    model: ModelRef
    environment: str
    profile: str
    pool: str
    shape: Shape | None  # None: the recorded topology cannot be read
    replicas: int = 1
    guaranteed: int | None = None  # replicas that nobody takes back; None: all
    priority: int = 0
    preemptible: bool = False  # a higher priority also takes guaranteed replicas
    storage_choice: StorageChoice = CreatedStorage()
    adapters: tuple[Adapter, ...] = ()
    uid: str = ""
    generation: int = 0  # of its spec; 0 in a file
    version: str = ""  # metadata.resourceVersion; empty in a file
    created: str = ""  # RFC 3339
    deployment_created: str = ""  # likewise; empty: not recorded
    vram: int | None = None  # bytes that the model required when the shape was computed; None: it was declared
    price: Price | None = None  # of its pool, at the last decision
    has_served: bool = False  # its status records that it was Ready once
    ready: bool = False  # it serves
    unready_since: int | None = None  # since when its service is not Ready, in seconds since 1970; None: not known
    unreachable: bool = False
    deleting: bool = False
    phase: Phase = Phase.PENDING
    obstacle: str = ""  # first condition other than ServiceReady that is not True; the placement may serve all the same
    lists_objects: bool = False  # its spec has an Object in Crossplane's list, which a lost status does not affect
    owner: str = ""  # uid of the ModelDeployment that composed it
    labels: tuple[tuple[str, str], ...] = ()
    status_is_current: bool = True  # its status was written for its current spec
    exclusive_replica_nodes: bool = False  # no two of its replicas share a node
    allowed_digest: str | None = None  # the digest to which its service may change; None: any digest
    replaces_when_full: bool = False  # as of its deployment
    draining: bool = False  # ModelServices stop sending requests, because its deployment is about to delete it
    admission: AdmissionRecord = AdmissionRecord()
    weights: WeightsRecord = WeightsRecord()
    adapter_downloads: tuple[tuple[str, DownloadRecord], ...] = ()  # by the name of the adapter
    service: ServiceRecord = ServiceRecord()
    rollout: RolloutRecord = RolloutRecord()
    restarts: RestartRecord = RestartRecord()
    retry: str = ""  # another value starts a service again that has reached its restart limit

    @property
    def requested(self) -> Share | None:
        """What its spec requests of its pool; None where the topology cannot be read."""
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
        """What its environment should admit: its request, or its allocation if it is held back."""
        return self.service.allocated if self.is_held_back else self.requested

    @property
    def is_held_back(self) -> bool:
        """Tells whether it gets no more than it has: it is over quota, cannot start, or restarted too often."""
        return self.admission.over_quota or self.admission.cannot_start or self.restarts.stopped

    @property
    def guaranteed_replicas(self) -> int:
        """Replicas that nobody takes back; the others are lent."""
        return self.replicas if self.guaranteed is None else min(self.guaranteed, self.replicas)

    @property
    def is_leaving(self) -> bool:
        """Tells whether it is about to end, or has ended: a late list shows the mark, and not yet the deletion."""
        return self.deleting or self.draining

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one replica; 0 where the topology cannot be read."""
        return self.shape.gpus if self.shape else 0

    @property
    def running_replicas(self) -> int:
        """How many of its replicas serve.

        All of them if KServe reports no number for a service that is Ready. While a service grows, KServe can report it
        as not Ready, although its earlier replicas serve.
        """
        reported = 0 if self.unreachable and not self.ready else self.service.ready_replicas
        return min(self.replicas, reported or (self.replicas if self.ready else 0))

    @property
    def stage(self) -> Stage:
        """How far it has come; `has_served` is recorded a moment after `ready`."""
        if self.has_served or self.ready:
            return Stage.SERVED
        return Stage.COMPOSED if self.weights.planned_uri or self.service.serving_uri else Stage.NEW

    @property
    def may_have_resources(self) -> bool:
        """Tells whether anything may have been composed for it, even if its status was lost.

        The author of a placement can write the list of its Objects, so this list must not give it anything that others
        have.
        """
        return self.lists_objects or self.stage > Stage.NEW


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
    def adapter_obstacle(self) -> str:
        """Why its profile cannot serve its adapters; empty if it can."""
        return find_adapter_obstacle(self.placement.adapters, self.profile, self.model.served_name)
