"""What comes out of a decision, as plain records.

A refusal is data: the reason, what was compared, what was wanted and what was found (None = not declared).
Sentences are made of it in `report`. Everything that users read about a decision (the header, the lines,
the reason of the condition, `status.unplaced`) comes from the refusals in the one `Decision`, so that the
decision and its explanation cannot disagree.

What goes into a decision besides environments and placements.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from function.domain.allocation import QuotaUsage
from function.domain.environment import Environment, Pool, Unusable
from function.domain.hardware import BandwidthRequirement
from function.domain.model import Model, Problem, Profile, Shape
from function.domain.placement import Deployment, Placement
from function.kube.selectors import Requirement
from function.reasons import Outlook, Refused
from function.weights.faults import StorageFault


class Field(StrEnum):
    """What was compared, by the name that users know it by."""

    ENVIRONMENTS = "environments"
    DEPLOYMENT_SELECTOR = "deployment's environmentSelector"
    MODEL_SELECTOR = "model's environmentSelector"
    PROFILE_SELECTOR = "profile's environmentSelector"
    PROFILE = "profile"
    VRAM = "spec.resources.vram"
    ENGINE_ARGS = "engine.args"
    INTER_NODE = "interNode"
    TLS = "kserve.tls"
    ENVIRONMENT = "environment"
    NODE_POOLS = "nodePools"
    MULTI_NODE = "multiNodeCapable"
    GPUS_PER_NODE = "acceleratorCount"
    MEMORY_PER_GPU = "memoryPerGpu"
    NVLINK_DOMAIN = "nvlinkDomainSize"
    INTERCONNECT = "interconnect"
    ACCELERATOR_TYPE = "acceleratorType"
    BANDWIDTH = "interNodeBandwidth"
    PRECISION = "precisionSupport"
    STORAGE = "storage"
    REPLICAS = "replicas"
    LEDGER = "ledger"
    READY = "Ready"
    QUOTA = "limits"


Value: TypeAlias = (
    int
    | str
    | BandwidthRequirement
    | tuple[str, ...]
    | tuple[Requirement, ...]
    | tuple[Problem, ...]
    | tuple[tuple[str, str], ...]
    | None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUse:
    """How full a pool is without the deployment that asks; `nodes_in_use` have a GPU taken.

    `lost`: nodes of those declared that cannot be used now, and why, where that is known.
    """

    nodes: int
    nodes_in_use: int
    placements: int
    unusable_nodes: int = 0
    unusable: tuple[Unusable, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One no. `found` None: not declared. `shape` and `use` stand where nodes and capacity count, `storage` where it is
    the planner's, `excess` where it is the quota's. `whole`: GPUs that a replica leaves on its nodes are nobody's.
    """

    reason: Refused
    field: Field
    environment: str = ""
    profile: str = ""
    pool: str = ""
    wanted: Value = None
    found: Value = None
    shape: Shape | None = None
    use: PoolUse | None = None
    exclusive_node: bool = False
    storage: StorageFault | None = None
    quota_usage: QuotaUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """How a fit compares with others where the smallest is preferred: less is better, field by field.

    `profile`: its position among those declared. `spare`: GPU memory of one replica, in bytes, beyond what is asked
    for, less than nothing where the pool has not that much; None where it does not declare its memory. `left`: free
    GPUs on the fullest node that would be used.
    """

    profile: int
    spare: int | None
    left: int

    @property
    def size(self) -> tuple[int, int, int]:
        """Sorts by profile, then by spare memory: enough of it, then too little, then nobody knows."""
        if self.spare is None:
            return self.profile, 2, 0
        return self.profile, int(self.spare < 0), abs(self.spare)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasible:
    """A pool that satisfies everything. `vram` in bytes where VRAM maths made the shape; `rank` where one counts."""

    environment: str
    profile: str
    pool: str
    shape: Shape
    vram: int | None = None
    rank: Rank | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """Every refusal of one environment's nearest pool, in the order of the checks; `step` says how far that
    came, in the order of `Refused` and finer.

    `keeps`: replicas that run there all the same, where a placement cannot grow.
    """

    environment: str
    refusals: tuple[Refusal, ...]
    failed_at: int = 0
    current_replicas: int | None = None

    @property
    def reason(self) -> Refused:
        """The first failing check's."""
        return self.refusals[0].reason

    @property
    def outlook(self) -> Outlook:
        """What the reason leaves to hope for, save that a quota which is too small is never had room in."""
        excess = self.refusals[0].quota_usage
        return Outlook.NEVER if excess is not None and excess.exceeds_limit else self.reason.outlook


Verdict: TypeAlias = Feasible | Infeasible


class DropCause(StrEnum):
    """Why a placement goes."""

    SCALED_DOWN = "ScaledDown"
    REPLACED = "Replaced"
    EVICTED = "Evicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A placement that shall go."""

    placement: Placement
    cause: DropCause


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One environment that shall serve. `placement`: the existing one, kept or updated in place."""

    environment: str
    profile: str
    pool: str
    shape: Shape
    replicas: int
    vram: int | None = None
    placement: Placement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Where a deployment shall run.

    `assignments` are desired and count as placed. `carried` stay as they were observed and do not count,
    save for those on the `unreadable` environments, whose recorded topology cannot be read. `refusals` name
    every environment that was looked at in vain, and those whose placement cannot grow; looking ends when
    enough are placed. `fault` rules out any environment. `candidates`: how many environments there are.
    """

    assignments: tuple[Assignment, ...] = ()
    carried: tuple[Placement, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    refusals: tuple[Infeasible, ...] = ()
    fault: Refusal | None = None
    unreadable: frozenset[str] = frozenset()
    candidates: int = 0
    wanted: int = 1

    @property
    def placed(self) -> int:
        """Environments that count as placed."""
        return len(self.assignments) + len(self.unreadable)


StorageCheck: TypeAlias = Callable[[Environment, Pool, Shape, int], tuple[StorageFault, ...]]
ServingCheck: TypeAlias = Callable[[Profile, Shape, Pool], tuple[Problem, ...]]


def _storable(*_: object) -> tuple[StorageFault, ...]:
    return ()


def _servable(*_: object) -> tuple[Problem, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRequest:
    """What shall run. `unstorable` is the planner's word on the weights: why so many replicas of a shape cannot have
    them on a pool. `unservable` is the word on the service: why a profile cannot run on what a pool gives its pods.
    `excess` is what the namespace takes of its quota, where that has refused what would be chosen first.
    """

    deployment: Deployment
    model: Model
    storage_check: StorageCheck = _storable
    serving_check: ServingCheck = _servable
    quota_usage: QuotaUsage | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels that every environment has on which this can be placed: what all selectors ask to be equal."""
        profiles = [profile.selector.equalities for profile in self.model.profiles]
        shared = {pair for pair in profiles[0].items() if all(pair in p.items() for p in profiles)} if profiles else ()
        return {**dict(shared), **self.model.selector.equalities, **self.deployment.selector.equalities}
