"""Storage faults: every reason why weights cannot reach the pods, with the messages for each reason.

The scheduler checks each environment with these rules before it places anything. The planner checks placements with the
same rules, and so do ModelCaches and the command line: every placement can therefore be planned. Every rule runs, so
that a user sees all faults at once. The rules do not know whether a user's claim or a Secret exists.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from function.domain.cache import CacheType, ModelCacheChoice, UserClaim
from function.domain.model import DownloadedSource, ModelRef, Problem, PvcSource
from function.kube import quantity
from function.reasons import Refused
from function.weights.claim import READ_WRITE_MANY, is_shared
from function.weights.request import CREATED_CLAIM, StorageType, WeightsRequest, model_directory

# The specification prescribes this sentence, including the full stop.
SHARED_STORAGE = "multi-node model requires shared storage on the inference environment."
_WITHOUT_CLAIM: Mapping[str, str] = {
    StorageType.EMPTY_DIR: "each pod downloads its own copy; set type: PVC for a claim",
    StorageType.OCI: "nodes pull the model's image",
    StorageType.PRESTAGED: "the model's weights are on a claim already",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFault:
    kind: "FaultKind"
    field: str  # path of the field that is at fault
    actual: str = ""
    required: str = ""
    cache: str = ""  # name of the ModelCache that the deployment names
    nodes: int = 1  # of one replica
    replicas: int = 1

    @property
    def reason(self) -> Refused:
        """Why the scheduler refuses the environment."""
        return self.kind.value.reason

    @property
    def message(self) -> str:
        """The fault in words, without the field."""
        return self.kind.value.message(self)

    @property
    def problem(self) -> Problem:
        return Problem(self.field, self.message)

    def describe_on(self, pool: str) -> str:
        """Returns the fault in words as the refusal of a pool, with the field if only this field can be corrected."""
        if self.kind is FaultKind.SIZE:
            undeclared = "neither modelCache.size nor the model's disk or vram says how large a claim to create"
            return f"pool {pool} does not declare memoryPerGpu, and {undeclared}"
        is_of_field = self.reason in (Refused.INVALID_DEPLOYMENT, Refused.STORAGE_TOO_SMALL)
        return str(self.problem) if is_of_field else self.message

    @property
    def columns(self) -> tuple[str, str]:
        """What is required and what was found, short enough for a column."""
        row = self.kind.value
        return row.required.format(fault=self), row.actual.format(fault=self)

    def remedy(self, environment: str) -> str:
        """Returns the one change that clears the fault; empty where there are several."""
        return self.kind.value.remedy.format(fault=self, environment=environment)

    @property
    def pods(self) -> str:
        """The pods that mount the claim: `3 nodes` or `2 replicas`."""
        return f"{self.nodes} nodes" if self.nodes > 1 else f"{self.replicas} replicas"

    @property
    def is_of_cache(self) -> bool:
        """Tells whether a ModelCache requests the weights, and no deployment."""
        return self.field.startswith("spec.storage")


@dataclass(frozen=True, slots=True)
class FaultRow:
    reason: Refused  # says who can correct it: the deployment, the pool, the environment or the ModelCache
    message: Callable[[StorageFault], str]
    required: str  # for a column of `modelplane plan`
    actual: str = "{fault.actual}"
    remedy: str = ""


def _describe_storage_class(fault: StorageFault) -> str:
    owner = "ModelCache" if fault.is_of_cache else "deployment"
    ignored = f" Its claim is Shared, so storageClassName {fault.actual} of the {owner} does not apply"
    if fault.nodes > 1:
        return SHARED_STORAGE + (ignored if fault.actual else "")
    missing = f"a claim is required, and neither {owner}, environment nor defaults name a storage class"
    return f"{missing}.{ignored}" if fault.actual else missing


def _describe_access_mode(fault: StorageFault) -> str:
    modes = f"accessMode is {fault.actual}, {fault.required} required"
    return f"{SHARED_STORAGE} Its {modes}" if fault.nodes > 1 else f"several replicas share a claim; {modes}"


def _describe_empty_dir(fault: StorageFault) -> str:
    if fault.is_of_cache or fault.nodes > 1:
        return f"EmptyDir belongs to one pod; use PVC for {'a ModelCache' if fault.is_of_cache else 'several nodes'}"
    if fault.required == _ADAPTERS:
        return "adapters are downloaded to a claim; use PVC"
    return "KServe cannot download this source into an EmptyDir, only into a claim; use PVC"


def _describe_size(fault: StorageFault) -> str:
    # A ModelCache has no replica, whose GPU memory would bound its weights.
    if fault.is_of_cache:
        return "required where neither the model's disk nor its vram is declared"
    return "required where none of the model's disk, its vram and the pool's memoryPerGpu is declared"


def _describe_small_claim(fault: StorageFault) -> str:
    return f"{fault.actual} is less than the model's spec.resources.disk of {fault.required}"


def _describe_missing_class(fault: StorageFault) -> str:
    missing = f"StorageClass {fault.actual} does not exist on the cluster; create it or name another"
    return f"{SHARED_STORAGE} Its {missing}" if fault.nodes > 1 else f"its {missing}"


_ADAPTERS = "a claim for adapters"
_DOWNLOAD_TO_PVC = "set modelCache.type: PVC"
_ADD_SHARED_CLASS = "Set spec.storage.storageClassName of InferenceEnvironment {environment} to a ReadWriteMany class"


class FaultKind(Enum):
    """One row for each kind of fault."""

    NOTHING_TO_CACHE = FaultRow(
        Refused.INVALID_DEPLOYMENT,
        lambda f: f"model {f.actual} has a source that is not downloaded, so nothing can be cached",
        "a source that is downloaded",
    )
    ADAPTERS_WITHOUT_CLAIM = FaultRow(
        Refused.INVALID_DEPLOYMENT,
        lambda f: (
            f"only source PVC is possible, as the weights of model {f.actual} are not downloaded, so that there is no "
            "claim that adapters could be downloaded to"
        ),
        "adapters on a claim",
        "adapters that are downloaded",
    )
    CLAIM_BESIDE_SOURCE = FaultRow(
        Refused.INVALID_DEPLOYMENT,
        lambda f: f"{f.actual} must be left out, as the model's weights are on the claim {f.required} already",
        "no claimName",
    )
    EMPTY_DIR = FaultRow(Refused.INVALID_DEPLOYMENT, _describe_empty_dir, "type PVC")
    EMPTY_DIR_UNFILLED = FaultRow(
        Refused.INVALID_DEPLOYMENT,
        lambda _: f"false needs a claim; with EmptyDir, each pod downloads the weights; {_DOWNLOAD_TO_PVC}",
        "type PVC",
        "preload: false",
    )
    EMPTY_DIR_ACCOUNT = FaultRow(
        Refused.INVALID_DEPLOYMENT,
        lambda f: (
            f"{f.actual} is not supported with EmptyDir: the engine's pod downloads, and engines do not run as this "
            f"service account; {_DOWNLOAD_TO_PVC}"
        ),
        "type PVC",
        "serviceAccountName {fault.actual}",
    )
    OWN_ACCESS_MODE = FaultRow(
        Refused.INVALID_DEPLOYMENT,
        lambda f: f"{f.actual} serves one replica on one node; {f.pods} need {f.required}",
        "accessMode {fault.required}",
    )
    OTHER_MODEL = FaultRow(
        Refused.INVALID_DEPLOYMENT,
        lambda f: f"ModelCache {f.cache} keeps model {f.actual}, not {f.required}; name a cache of this model",
        "a ModelCache of {fault.required}",
        "one of {fault.actual}",
    )
    SIZE = FaultRow(Refused.NO_POOL_SATISFIES_REQUIREMENTS, _describe_size, "a size for the claim", "not declared")
    STORAGE_CLASS = FaultRow(
        Refused.SHARED_STORAGE_MISSING, _describe_storage_class, "a storage class", "none", _ADD_SHARED_CLASS
    )
    CLASS_NOT_FOUND = FaultRow(
        Refused.SHARED_STORAGE_MISSING,
        _describe_missing_class,
        "a StorageClass that exists",
        remedy="Create StorageClass {fault.actual} on the cluster of InferenceEnvironment {environment}, or name "
        "another in its spec.storage",
    )
    OWN_SIZE = FaultRow(
        Refused.STORAGE_TOO_SMALL,
        _describe_small_claim,
        "{fault.required} of disk",
        "size {fault.actual}",
        "Raise {fault.field}, or correct the model's spec.resources.disk",
    )
    SHARED_SIZE = FaultRow(
        Refused.STORAGE_TOO_SMALL,
        _describe_small_claim,
        "{fault.required} of disk",
        "a Shared claim of {fault.actual}",
        "Raise {fault.field} of InferenceEnvironment {environment}, or set spec.storage.sizeEnforced there to false if "
        "its storage ignores sizes",
    )
    CLAIM_SIZE = FaultRow(
        Refused.STORAGE_TOO_SMALL,
        lambda f: f"the claim has {f.actual}, less than the model's spec.resources.disk of {f.required}",
        "{fault.required} of disk",
        "a claim of {fault.actual}",
    )
    CLAIM_NOT_SHARED = FaultRow(
        Refused.SHARED_STORAGE_MISSING,
        lambda f: f"the existing claim is {f.actual}, and {f.pods} need {f.required}; delete it to get a new one",
        "a claim that is {fault.required}",
    )
    ACCESS_MODE = FaultRow(
        Refused.SHARED_STORAGE_MISSING,
        _describe_access_mode,
        "accessMode {fault.required}",
        remedy="Set {fault.field} of InferenceEnvironment {environment} to {fault.required}, which its storage class "
        "must support",
    )
    CACHE_UNKNOWN = FaultRow(
        Refused.CACHE_NOT_ON_ENVIRONMENT,
        lambda f: f"ModelCache {f.cache} does not exist or is invalid",
        "ModelCache {fault.cache}",
        "missing or invalid",
        "Create ModelCache {fault.cache} in the deployment's namespace, or correct the fault in its conditions",
    )
    CACHE_ABSENT = FaultRow(
        Refused.CACHE_NOT_ON_ENVIRONMENT,
        lambda f: f"ModelCache {f.cache} does not keep the weights there",
        "ModelCache {fault.cache}",
        "not there",
        "Add {environment} to ModelCache {fault.cache}",
    )
    CACHE_PENDING = FaultRow(
        Refused.CACHE_NOT_ON_ENVIRONMENT,
        lambda f: f"ModelCache {f.cache} has not reported these weights there yet",
        "ModelCache {fault.cache}",
        "not reported yet",
    )
    CACHE_NOT_SHARED = FaultRow(
        Refused.SHARED_STORAGE_MISSING,
        lambda f: f"the claim of ModelCache {f.cache} is {f.actual}; {f.pods} need {f.required}",
        "a claim that is {fault.required}",
        remedy="Give ModelCache {fault.cache} a ReadWriteMany claim",
    )


# Ignored once the download of these bytes has started, so that raising the model's disk later does not stop it.
SIZE_FAULTS = frozenset({FaultKind.OWN_SIZE, FaultKind.SHARED_SIZE, FaultKind.CLAIM_SIZE})
# Ignored once the claim exists, because the claim cannot be changed any more.
NEW_CLAIM_FAULTS = frozenset(
    {
        FaultKind.SIZE,
        FaultKind.STORAGE_CLASS,
        FaultKind.CLASS_NOT_FOUND,
        FaultKind.ACCESS_MODE,
        FaultKind.OWN_ACCESS_MODE,
    }
)


def find_faults(request: WeightsRequest) -> tuple[StorageFault, ...]:
    """Finds every fault, in the order of the rules."""
    return (
        *_check_source(request),
        *_check_empty_dir(request),
        *_check_access_mode(request),
        *_check_size(request),
        *_check_storage_class(request),
        *_check_named_cache(request),
    )


def list_remaining_faults(
    faults: Iterable[StorageFault], *, claim_exists: bool, weights_exist: bool
) -> tuple[StorageFault, ...]:
    """Lists the faults that still count where the claim, or the weights on it, exist."""
    new_claim_faults = NEW_CLAIM_FAULTS if claim_exists else frozenset()
    size_faults = SIZE_FAULTS if weights_exist else frozenset()
    return tuple(fault for fault in faults if fault.kind not in new_claim_faults | size_faults)


def find_faults_for_existing_claim(
    faults: tuple[StorageFault, ...], mode: str, nodes: int, replicas: int
) -> tuple[StorageFault, ...]:
    """Finds the faults that count if the weights exist; `mode` is the access mode of their claim, if they have one."""
    remaining = list_remaining_faults(faults, claim_exists=True, weights_exist=True)
    if is_shared(mode) or nodes * replicas <= 1:
        return remaining
    fault = StorageFault(
        kind=FaultKind.CLAIM_NOT_SHARED,
        field="spec.modelCache",
        actual=mode,
        required=READ_WRITE_MANY,
        nodes=nodes,
        replicas=replicas,
    )
    return (*remaining, fault)


def find_remarks(request: WeightsRequest) -> Iterator[Problem]:
    """Finds remarks, which are worth knowing but refuse nothing.

    They are about a claim that is smaller than the weights on storage that ignores sizes, and about settings of a claim
    if no claim is created for these weights alone.
    """
    if not request.environment.storage.size_enforced:
        yield from (fault.problem for fault in _find_small_claim(request))
    options = request.created_storage
    fields = {
        "size": options.size is not None,
        "storageClassName": options.class_name is not None,
        "accessMode": options.access_mode is not None,
    }
    if request.storage_type is StorageType.SHARED:
        claim = f"claim {request.environment.storage.shared_claim}"
        environment = f"InferenceEnvironment {request.environment.name}"
        reason = f"all models of a namespace share {claim}; the spec.storage of {environment} decides"
    elif request.storage_type in _WITHOUT_CLAIM:
        reason = f"there is no claim: {_WITHOUT_CLAIM[request.storage_type]}"
        fields |= {
            "type": options.type is CacheType.PVC,
            "retain": options.retain,
            "claimName": isinstance(request.choice, UserClaim),
        }
    else:
        return
    paths = (f"{_storage_block(request)}.{name}" for name, is_set in fields.items() if is_set)
    yield from (Problem(path, f"has no effect, as {reason}") for path in paths)


def _storage_block(request: WeightsRequest) -> str:
    return "spec.storage" if request.for_cache else "spec.modelCache"


def _find_small_claim(request: WeightsRequest) -> Iterator[StorageFault]:
    disk = request.model.disk
    capacity = request.stated_capacity
    if not disk or not capacity or capacity >= disk:
        return
    kinds = {
        StorageType.SHARED: (FaultKind.SHARED_SIZE, "spec.storage.sharedClaim.size"),
        StorageType.USER_CLAIM: (FaultKind.CLAIM_SIZE, "claimName"),
    }
    kind, field = kinds.get(request.storage_type, (FaultKind.OWN_SIZE, "size"))
    yield _fault(request, kind, field, actual=quantity.exact(capacity), required=quantity.exact(disk))


def _fault(
    request: WeightsRequest, kind: FaultKind, field: str, *, actual: str = "", required: str = ""
) -> StorageFault:
    return StorageFault(
        kind=kind,
        field=field if field.startswith("spec.") else f"{_storage_block(request)}.{field}",
        actual=actual,
        required=required,
        cache=request.choice.name if isinstance(request.choice, ModelCacheChoice) else "",
        nodes=request.shape_nodes,
        replicas=request.replicas,
    )


def _check_source(request: WeightsRequest) -> Iterator[StorageFault]:
    source = request.model.source
    if request.downloads_adapters and not isinstance(source, DownloadedSource):
        yield _fault(request, FaultKind.ADAPTERS_WITHOUT_CLAIM, "spec.adapters", actual=request.model.name)
    if request.for_cache and request.storage_type in (StorageType.OCI, StorageType.PRESTAGED):
        yield _fault(request, FaultKind.NOTHING_TO_CACHE, "spec.modelRef", actual=request.model.name)
    elif isinstance(request.choice, ModelCacheChoice) and not isinstance(source, DownloadedSource):
        yield _fault(request, FaultKind.NOTHING_TO_CACHE, "name", actual=request.model.name)
    elif isinstance(source, PvcSource) and isinstance(request.choice, UserClaim):
        yield _fault(
            request, FaultKind.CLAIM_BESIDE_SOURCE, "claimName", actual=request.choice.claim, required=source.claim
        )


def _check_empty_dir(request: WeightsRequest) -> Iterator[StorageFault]:
    """An EmptyDir belongs to one pod, and KServe fills it with the identity of that pod."""
    if request.created_storage.type is CacheType.EMPTY_DIR and request.storage_type in CREATED_CLAIM:
        required = _ADAPTERS if request.downloads_adapters else ""
        yield _fault(request, FaultKind.EMPTY_DIR, "type", actual=CacheType.EMPTY_DIR, required=required)
    if request.storage_type is not StorageType.EMPTY_DIR or request.service_exists:
        return
    if not request.created_storage.preload:
        yield _fault(request, FaultKind.EMPTY_DIR_UNFILLED, "preload")
    account = request.environment.storage.download.service_account_name
    if account:
        yield _fault(request, FaultKind.EMPTY_DIR_ACCOUNT, "spec.storage.download.serviceAccountName", actual=account)


def _check_access_mode(request: WeightsRequest) -> Iterator[StorageFault]:
    """A claim that is created must be ReadWriteMany unless a single pod mounts it."""
    mode = request.access_mode
    if request.storage_type not in CREATED_CLAIM or mode == READ_WRITE_MANY or request.pod_count == 1:
        return
    if request.storage_type is not StorageType.SHARED and request.created_storage.access_mode is not None:
        kind, field = FaultKind.OWN_ACCESS_MODE, "accessMode"
    else:
        kind, field = FaultKind.ACCESS_MODE, "spec.storage.accessMode"
    yield _fault(request, kind, field, actual=mode, required=READ_WRITE_MANY)


def _check_size(request: WeightsRequest) -> Iterator[StorageFault]:
    if request.storage_type in CREATED_CLAIM and request.claim_size is None:
        yield _fault(request, FaultKind.SIZE, "size")
    if request.environment.storage.size_enforced:
        yield from _find_small_claim(request)


def _check_storage_class(request: WeightsRequest) -> Iterator[StorageFault]:
    if request.storage_type not in CREATED_CLAIM:
        return
    if request.class_name is None:
        # A class of the deployment does not help if all models of a namespace share the environment's claim.
        yield _fault(
            request, FaultKind.STORAGE_CLASS, "storageClassName", actual=request.created_storage.class_name or ""
        )
    elif request.class_name and request.class_name == request.environment.storage.missing_class:
        yield _fault(request, FaultKind.CLASS_NOT_FOUND, "storageClassName", actual=request.class_name)


def _check_named_cache(request: WeightsRequest) -> Iterator[StorageFault]:
    """Checks that the named ModelCache has this model's bytes on the environment, and that pods can mount them."""
    source = request.model.source
    cache = request.named_cache
    entry = request.named_cache_entry
    path = entry.download.path if entry else ""
    if not isinstance(request.choice, ModelCacheChoice) or not isinstance(source, DownloadedSource):
        return  # see `_check_source`
    if cache is None:
        yield _fault(request, FaultKind.CACHE_UNKNOWN, "name")
    elif path == model_directory(source):
        mode = (entry.access_mode if entry else "") or READ_WRITE_MANY
        if mode != READ_WRITE_MANY and request.pod_count > 1:
            yield _fault(request, FaultKind.CACHE_NOT_SHARED, "name", actual=mode, required=READ_WRITE_MANY)
    elif cache.model != ModelRef(kind=request.model.kind, name=request.model.name):
        yield _fault(request, FaultKind.OTHER_MODEL, "name", actual=cache.model.name, required=request.model.name)
    elif path or cache.selects(request.environment):
        yield _fault(request, FaultKind.CACHE_PENDING, "name")
    else:
        yield _fault(request, FaultKind.CACHE_ABSENT, "name")
