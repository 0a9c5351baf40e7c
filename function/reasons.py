"""Every condition type and reason that users can read.

A class with the name of a condition type has the reasons of this condition. Where kinds give different reasons for one
type, each has a class (`PlacementStorage`, `EnvironmentStorageReady`); `Refused` has further reasons of Scheduled.

The order of `Refused` has a meaning: it runs from furthest to nearest, so that the condition of a deployment can name
the environment that came closest.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Self


class Status(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class CallFailure(StrEnum):
    """Why a call failed."""

    INTERNAL_ERROR = "InternalError"
    TOO_LONG = "TookTooLong"
    TOO_LARGE = "ResponseTooLarge"


class ConditionType(StrEnum):
    """The condition types of this function; Ready, Synced, Healthy, UpToDate and Responsive are Crossplane's."""

    MODEL_VALID = "ModelValid"
    CLUSTER_READY = "ClusterReady"
    POOLS_VALID = "PoolsValid"
    STORAGE_READY = "StorageReady"
    HARDWARE_AS_DECLARED = "HardwareAsDeclared"
    DRAINED = "Drained"
    MODEL_RESOLVED = "ModelResolved"
    SCHEDULED = "Scheduled"
    SCALED_AS_REQUESTED = "ScaledAsRequested"
    AUTOSCALED = "Autoscaled"
    PLACEMENTS_READY = "PlacementsReady"
    ROLLED_OUT = "RolledOut"
    REFERENCES_RESOLVED = "ReferencesResolved"
    ADMITTED = "Admitted"
    SERVICE_ACCEPTED = "ServiceAccepted"
    SERVICE_READY = "ServiceReady"
    HYDRATED = "Hydrated"
    BACKENDS_RESOLVED = "BackendsResolved"
    ENDPOINTS_READY = "EndpointsReady"
    ROUTE_READY = "RouteReady"
    BACKENDS_ALIKE = "BackendsAlike"


# The conditions that each kind owns, in the order in which a composite comes to them.
OWNED: Mapping[str, tuple[ConditionType, ...]] = {
    "ClusterModel": (ConditionType.MODEL_VALID,),
    "Model": (ConditionType.MODEL_VALID,),
    "InferenceEnvironment": (
        ConditionType.CLUSTER_READY,
        ConditionType.POOLS_VALID,
        ConditionType.STORAGE_READY,
        ConditionType.HARDWARE_AS_DECLARED,
        ConditionType.DRAINED,
    ),
    "ModelDeployment": (
        ConditionType.MODEL_RESOLVED,
        ConditionType.SCHEDULED,
        ConditionType.SCALED_AS_REQUESTED,
        ConditionType.AUTOSCALED,
        ConditionType.PLACEMENTS_READY,
        ConditionType.ROLLED_OUT,
    ),
    "ModelPlacement": (
        ConditionType.REFERENCES_RESOLVED,
        ConditionType.ADMITTED,
        ConditionType.STORAGE_READY,
        ConditionType.SERVICE_ACCEPTED,
        ConditionType.SERVICE_READY,
    ),
    "ModelCache": (ConditionType.MODEL_RESOLVED, ConditionType.HYDRATED),
    "ModelService": (
        ConditionType.BACKENDS_RESOLVED,
        ConditionType.ENDPOINTS_READY,
        ConditionType.ROUTE_READY,
        ConditionType.BACKENDS_ALIKE,
    ),
}

# Conditions that an object has only once they apply. While they cannot be evaluated, they keep their last value.
OPTIONAL = frozenset(
    {ConditionType.AUTOSCALED, ConditionType.DRAINED, ConditionType.ROLLED_OUT, ConditionType.SCALED_AS_REQUESTED}
)


class Outlook(Enum):
    """Tells whether waiting can help."""

    NEVER = "never"
    CAN_WAIT = "not now"


_PLURALS = {"has": "have", "is": "are", "lacks": "lack", "rejects": "reject"}


class Refused(StrEnum):
    """Why a deployment is not placed, from furthest to nearest: the reason, and what it says of one environment."""

    phrase: str
    outlook: Outlook

    def __new__(cls, value: str, phrase: str = "", outlook: Outlook = Outlook.NEVER) -> Self:
        """Makes the member that is equal to its reason."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.phrase, member.outlook = phrase, outlook
        return member

    INVALID_DEPLOYMENT = "InvalidDeployment", "rejects the settings of the deployment"
    NO_ENVIRONMENTS = "NoEnvironments", "is no environment"
    NO_ENVIRONMENT_MATCHES = "NoEnvironmentMatches", "is not selected"
    INVALID_PROFILE = "InvalidProfile", "has no valid profile"
    NO_POOL_SATISFIES_REQUIREMENTS = "NoPoolSatisfiesRequirements", "has no pool that satisfies the requirements"
    ROUTING_NOT_SUPPORTED = "RoutingNotSupported", "has no endpoint picker"
    ADAPTERS_NOT_SUPPORTED = "AdaptersNotSupported", "has no profile that allows the adapters"
    SHARED_STORAGE_MISSING = "SharedStorageMissing", "has no shared storage"
    STORAGE_TOO_SMALL = "StorageTooSmall", "has too little storage"
    CACHE_NOT_ON_ENVIRONMENT = "CacheNotOnEnvironment", "lacks the cache", Outlook.CAN_WAIT
    POOL_TOO_SMALL = "PoolTooSmall", "is too small"
    ENVIRONMENT_TAINTED = "EnvironmentTainted", "is tainted"
    POOL_UNSCHEDULABLE = "PoolUnschedulable", "is unschedulable"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity", "has insufficient capacity", Outlook.CAN_WAIT
    POOL_NOT_CREATED = "PoolNotCreated", "is not created yet", Outlook.CAN_WAIT
    ENVIRONMENT_NOT_READY = "EnvironmentNotReady", "is not Ready", Outlook.CAN_WAIT
    BUDGET_EXCEEDED = "BudgetExceeded", "is beyond the namespace budget", Outlook.CAN_WAIT
    QUOTA_EXCEEDED = "QuotaExceeded", "is beyond the namespace quota", Outlook.CAN_WAIT

    def describe(self, environments: int) -> str:
        """Returns the reason for a number of environments, for example `2 are not selected`."""
        verb, _, rest = self.phrase.partition(" ")
        return f"{environments} {verb if environments == 1 else _PLURALS[verb]} {rest}"

    @property
    def rank(self) -> int:
        """Position from furthest (0) to nearest."""
        return tuple(Refused).index(self)


class ModelValid(StrEnum):
    VALID = "Valid"
    INVALID_SOURCE = "InvalidSource"
    INVALID_PROFILE = "InvalidProfile"


class ClusterReady(StrEnum):
    CONNECTED = "Connected"
    CONNECTING = "Connecting"
    KUBECONFIG_MISSING = "KubeconfigMissing"
    KSERVE_MISSING = "KServeMissing"
    UNREACHABLE = "Unreachable"
    SYNC_FAILED = "SyncFailed"  # Unknown: the provider failed, which says nothing about the cluster
    PROVISIONING = "Provisioning"  # Unknown: the cluster is being created
    PROVISIONING_FAILED = "ProvisioningFailed"
    PROVIDER_MISSING = "ProviderMissing"  # of the cloud


class PoolsValid(StrEnum):
    VALID = "Valid"
    NO_GPU_POOLS = "NoGpuPools"
    INVALID_POOL = "InvalidPool"
    POOL_IN_USE = "PoolInUse"
    NODE_POOL_FAILED = "NodePoolFailed"


class EnvironmentStorageReady(StrEnum):
    """Reasons of StorageReady on an InferenceEnvironment."""

    STORAGE_CLASS_FOUND = "StorageClassFound"
    DEFAULT_CLASS = "DefaultClass"
    STORAGE_CLASS_NOT_FOUND = "StorageClassNotFound"
    NOT_CONFIGURED = "NotConfigured"
    CONNECTING = "Connecting"  # Unknown: the cluster has not answered about its class yet


class HardwareAsDeclared(StrEnum):
    """Reasons of HardwareAsDeclared on an InferenceEnvironment; of several faults, the first in this order counts."""

    NO_NODES = "NoNodes"
    NODES_OVERLAP = "NodesOverlap"
    DRIFTED = "Drifted"
    NODES_UNUSABLE = "NodesUnusable"
    NO_NODES_YET = "NoNodesYet"
    AS_DECLARED = "AsDeclared"
    OBSERVING = "Observing"  # Unknown, like all reasons below
    NOT_OBSERVED = "NotObserved"
    FORBIDDEN = "Forbidden"
    UNREACHABLE = "Unreachable"


class Drained(StrEnum):
    NOT_DRAINING = "NotDraining"
    DRAINING = "Draining"
    DRAINED = "Drained"


class Scheduled(StrEnum):
    """Reasons of Scheduled in addition to every `Refused`."""

    PLACED = "Placed"
    PARTIALLY_PLACED = "PartiallyPlaced"


class PlacementsReady(StrEnum):
    READY = "Ready"
    STARTING = "Starting"
    NOTHING_PLACED = "NothingPlaced"
    UNREACHABLE = "Unreachable"


class ScaledAsRequested(StrEnum):
    SCALED = "Scaled"
    SCALING = "Scaling"  # all have GPUs, and some do not run yet
    LIMITED = "Limited"  # not all have GPUs


class Autoscaled(StrEnum):
    FOLLOWS_LOAD = "FollowsLoad"
    PREPARING = "Preparing"  # KEDA has not reported yet
    NOT_AVAILABLE = "NotAvailable"  # the platform has nothing that follows the load
    CANNOT_WAKE_UP = "CannotWakeUp"  # nothing counts requests while there are no replicas
    LOAD_UNKNOWN = "LoadUnknown"  # KEDA cannot read the load, and the replicas stay
    FIXED = "Fixed"  # Unknown: the number of replicas no longer follows the load


class RolledOut(StrEnum):
    UP_TO_DATE = "UpToDate"
    ROLLING = "Rolling"
    PAUSED = "Paused"
    STOPPED = "Stopped"
    WAITING_FOR_GATE = "WaitingForGate"
    ALL_AT_ONCE = "AllAtOnce"  # Unknown: environments do not change one by one


class ReferencesResolved(StrEnum):
    """Reasons of ReferencesResolved on a ModelPlacement, and of ModelResolved on ModelDeployment and ModelCache."""

    RESOLVED = "Resolved"
    MODEL_NOT_FOUND = "ModelNotFound"
    MODEL_INVALID = "ModelInvalid"
    ENVIRONMENT_NOT_FOUND = "EnvironmentNotFound"
    POOL_NOT_FOUND = "PoolNotFound"
    CACHE_NOT_FOUND = "CacheNotFound"
    INVALID_PLACEMENT = "InvalidPlacement"
    INVALID_SETTINGS = "InvalidSettings"  # also of ClusterReady
    RESOLVING = "Resolving"


class Admitted(StrEnum):
    ADMITTED = "Admitted"
    WAITING = "Waiting"
    REJECTED = "Rejected"
    LABEL_MISSING = "LabelMissing"
    QUOTA_EXCEEDED = "QuotaExceeded"
    CANNOT_START = "CannotStart"
    RESTART_LIMIT_REACHED = "RestartLimitReached"


class PlacementStorage(StrEnum):
    """Reasons of StorageReady on a ModelPlacement."""

    NOT_NEEDED = "NotNeeded"
    CLAIM_PENDING = "ClaimPending"
    CLAIM_NOT_FOUND = "ClaimNotFound"
    CLAIM_NOT_SHARED = "ClaimNotShared"
    STORAGE_TOO_SMALL = "StorageTooSmall"
    TOKEN_MISSING = "TokenMissing"  # noqa: S105  # a reason, not a token
    NO_POD = "NoPod"
    DOWNLOADING = "Downloading"
    DOWNLOAD_FAILED = "DownloadFailed"
    HYDRATED = "Hydrated"
    PRESTAGED = "Prestaged"
    NOT_PRELOADED = "NotPreloaded"
    UNREACHABLE = "Unreachable"  # Unknown: the cluster does not answer
    SYNC_FAILED = "SyncFailed"  # Unknown: the provider failed, which says nothing about the weights


class ServiceAccepted(StrEnum):
    ACCEPTED = "Accepted"
    WAITING_FOR_ADMISSION = "WaitingForAdmission"
    WAITING_FOR_STORAGE = "WaitingForStorage"
    REJECTED = "Rejected"
    APPLYING = "Applying"


class ServiceReady(StrEnum):
    SERVING = "Serving"
    SCALED_TO_ZERO = "ScaledToZero"
    STARTING = "Starting"
    DEGRADED = "Degraded"
    STOPPED = "Stopped"  # its restarts have reached the limit of its profile
    UNREACHABLE = "Unreachable"
    SYNC_FAILED = "SyncFailed"  # Unknown: the provider failed, which says nothing about the service


class Hydrated(StrEnum):
    HYDRATED = "Hydrated"
    DOWNLOADING = "Downloading"
    PARTIALLY_HYDRATED = "PartiallyHydrated"
    DOWNLOAD_FAILED = "DownloadFailed"
    CLAIM_NOT_FOUND = "ClaimNotFound"
    ENVIRONMENT_NOT_FOUND = "EnvironmentNotFound"
    NO_ENVIRONMENT_MATCHES = "NoEnvironmentMatches"
    RESPONSE_TOO_LARGE = "ResponseTooLarge"
    UNREACHABLE = "Unreachable"  # Unknown: a cluster does not answer
    SYNC_FAILED = "SyncFailed"  # Unknown: the provider failed, which says nothing about the weights
    INVALID_CACHE = "InvalidCache"


class BackendsResolved(StrEnum):
    RESOLVED = "Resolved"
    NO_PLACEMENTS = "NoPlacements"
    INVALID_SERVICE = "InvalidService"


class EndpointsReady(StrEnum):
    READY = "Ready"
    PARTIALLY_READY = "PartiallyReady"
    NONE_READY = "NoneReady"


class RouteReady(StrEnum):
    ACCEPTED = "Accepted"
    APPLYING = "Applying"
    REJECTED = "Rejected"
    GATEWAY_NOT_CONFIGURED = "GatewayNotConfigured"
    GATEWAY_NOT_FOUND = "GatewayNotFound"


class BackendsAlike(StrEnum):
    ALIKE = "Alike"
    DIFFERENT = "Different"


class Phase(StrEnum):
    """The phase of a ModelPlacement, and of a ModelCache on one environment."""

    PENDING = "Pending"
    DOWNLOADING = "Downloading"
    STARTING = "Starting"
    READY = "Ready"
    FAILED = "Failed"
