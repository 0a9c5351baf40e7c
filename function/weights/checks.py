"""What makes a request for weights impossible: the one rule about storage, whoever asks.

The decision asks it of every environment before it places anything, the planner asks it again of what is placed or
written by hand, and so do ModelCaches and the command line: what is placed can be planned. Every check runs, so that
nobody fixes one fault to meet the next. A fault is data, its words are in `report`. Whether a user's claim or a Secret
exists is not known here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from function.domain.cache import CacheType, NamedCache, UserClaim
from function.domain.model import HuggingFaceSource, OciSource, PvcSource, UriSource
from function.kube import quantity
from function.weights import sizing
from function.weights.cachekey import directory
from function.weights.request import Case, StorageRequest
from function.weights.volume_claim import READ_WRITE_MANY

OWN_CLAIM = (Case.SHARED, Case.RETAINED, Case.MANAGED)


class FaultKind(StrEnum):
    """What stands in the way, in the order in which it is asked."""

    NOTHING_TO_CACHE = "the model's source is not downloaded"
    CLAIM_BESIDE_SOURCE = "a claim to fill, though the weights lie on one"
    EMPTY_DIR = "EmptyDir where a claim is needed"
    EMPTY_DIR_UNFILLED = "EmptyDir that nobody shall fill"
    EMPTY_DIR_ACCOUNT = "EmptyDir where downloads have a service account"
    OWN_ACCESS_MODE = "the access mode that was asked for serves one pod"
    OTHER_MODEL = "the ModelCache keeps another model"
    SIZE = "nothing says how large the claim must be"
    STORAGE_CLASS = "nobody names the claim's class"
    OWN_SIZE = "the size that was asked for is below the model's disk"
    SHARED_SIZE = "the environment's Shared claim is below the model's disk"
    CLAIM_SIZE = "a claim of the user's is below the model's disk"
    CLAIM_NOT_SHARED = "the claim that is there serves one pod"
    NO_CLAIM = "it is asked of a claim, and there is none of ours"
    ACCESS_MODE = "the environment's access mode serves one pod"
    CACHE_UNKNOWN = "there is no such ModelCache that can be read"
    CACHE_ABSENT = "the ModelCache does not keep the weights here"
    CACHE_PENDING = "the ModelCache has not reported these weights here yet"
    CACHE_NOT_SHARED = "the ModelCache's claim serves one pod"


# What says that weights cannot fit. They have where they are there: it keeps nothing from what runs.
SIZES = frozenset({FaultKind.OWN_SIZE, FaultKind.SHARED_SIZE, FaultKind.CLAIM_SIZE})
# What says that a claim cannot be made as it should be. One that is there is what it is, and nobody can change it.
OF_A_NEW_CLAIM = frozenset({FaultKind.SIZE, FaultKind.STORAGE_CLASS, FaultKind.ACCESS_MODE, FaultKind.OWN_ACCESS_MODE})


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFault:
    """One fault. `field` is the field's path, `found` what it says, `nodes` and `replicas` what is asked for, `cache`
    the ModelCache that is named.
    """

    kind: FaultKind
    field: str
    found: str = ""
    wanted: str = ""
    cache: str = ""
    nodes: int = 1
    replicas: int = 1


def faults(request: StorageRequest) -> tuple[StorageFault, ...]:
    """Return every fault, in the order of the checks."""
    return tuple(fault for check in CHECKS for fault in check(request))


def of_existing(found: tuple[StorageFault, ...], mode: str, nodes: int, replicas: int) -> tuple[StorageFault, ...]:
    """Return what is left of faults where the weights are there already, on a claim of this mode if on any."""
    left = tuple(fault for fault in found if fault.kind not in SIZES | OF_A_NEW_CLAIM)
    if mode in ("", READ_WRITE_MANY) or nodes * replicas <= 1:
        return left
    fault = StorageFault(
        kind=FaultKind.CLAIM_NOT_SHARED,
        field="spec.modelCache",
        found=mode,
        wanted=READ_WRITE_MANY,
        nodes=nodes,
        replicas=replicas,
    )
    return (*left, fault)


def _fault(request: StorageRequest, kind: FaultKind, field: str, *, found: str = "", wanted: str = "") -> StorageFault:
    path = (
        field if field.startswith("spec.") else f"{'spec.storage' if request.for_cache else 'spec.modelCache'}.{field}"
    )
    return StorageFault(
        kind=kind,
        field=path,
        found=found,
        wanted=wanted,
        cache=request.choice.name if isinstance(request.choice, NamedCache) else "",
        nodes=request.shape_nodes,
        replicas=request.replicas,
    )


def source(request: StorageRequest) -> Iterator[StorageFault]:
    """The source can be had in the way that was chosen."""
    found = request.model.source
    if request.for_cache and request.case in (Case.OCI, Case.PRESTAGED):
        yield _fault(request, FaultKind.NOTHING_TO_CACHE, "spec.modelRef", found=request.model.name)
    elif isinstance(request.choice, NamedCache) and isinstance(found, OciSource | PvcSource):
        yield _fault(request, FaultKind.NOTHING_TO_CACHE, "name", found=request.model.name)
    elif isinstance(found, PvcSource) and isinstance(request.choice, UserClaim):
        yield _fault(
            request, FaultKind.CLAIM_BESIDE_SOURCE, "claimName", found=request.choice.claim, wanted=found.claim
        )


def empty_dir(request: StorageRequest) -> Iterator[StorageFault]:
    """An EmptyDir belongs to one pod and is filled by KServe, with the identity of that pod."""
    if request.wishes.type is CacheType.EMPTY_DIR and request.case in OWN_CLAIM:
        yield _fault(request, FaultKind.EMPTY_DIR, "type", found=CacheType.EMPTY_DIR)
    if request.case is not Case.INITIALIZER or request.running:
        return
    if not request.wishes.preload:
        yield _fault(request, FaultKind.EMPTY_DIR_UNFILLED, "preload")
    account = request.download.service_account
    if account:
        field = "spec.storage.download.serviceAccountName"
        yield _fault(request, FaultKind.EMPTY_DIR_ACCOUNT, field, found=account)


def access_mode(request: StorageRequest) -> Iterator[StorageFault]:
    """The pods can share a claim that we create: ReadWriteMany unless it is one node and one replica."""
    if request.case not in OWN_CLAIM or request.claimed or request.access_mode == READ_WRITE_MANY or request.alone:
        return
    own = request.case is not Case.SHARED and request.wishes.access_mode is not None
    kind = FaultKind.OWN_ACCESS_MODE if own else FaultKind.ACCESS_MODE
    field = "accessMode" if own else "spec.storage.accessMode"
    yield _fault(request, kind, field, found=request.access_mode, wanted=READ_WRITE_MANY)


def size(request: StorageRequest) -> Iterator[StorageFault]:
    """Something says how large a claim that we create must be."""
    if request.claimed or request.case not in OWN_CLAIM:
        return
    if not sizing.size(request.explicit_size, request.model, request.gpu_memory):
        yield _fault(request, FaultKind.SIZE, "size")


def too_small(request: StorageRequest) -> Iterator[StorageFault]:
    """The claim holds what the model says its weights take, where the storage keeps to a claim's size."""
    if request.environment.size_enforced and not request.fetched:
        yield from below_disk(request)


def below_disk(request: StorageRequest) -> Iterator[StorageFault]:
    """Return that a claim is smaller than the weights: a fault, or a remark where the storage ignores sizes."""
    disk, held = request.model.disk, request.claim_size
    if not disk or not held or held >= disk:
        return
    kinds = {
        Case.SHARED: (FaultKind.SHARED_SIZE, "spec.storage.sharedClaim.size"),
        Case.USER_CLAIM: (FaultKind.CLAIM_SIZE, "claimName"),
    }
    kind, field = kinds.get(request.case, (FaultKind.OWN_SIZE, "size"))
    yield _fault(request, kind, field, found=quantity.exact(held), wanted=quantity.exact(disk))


def unused(request: StorageRequest) -> Iterator[StorageFault]:
    """Return as remarks what is asked of a claim where none is made: it changes nothing, and nobody is refused."""
    if request.case not in (Case.INITIALIZER, Case.OCI, Case.PRESTAGED):
        return
    wishes = request.wishes
    asked = {
        "size": wishes.size is not None,
        "storageClassName": wishes.class_name is not None,
        "accessMode": wishes.access_mode is not None,
        "retain": wishes.retain,
        "claimName": isinstance(request.choice, UserClaim),
    }
    for field in (field for field, said in asked.items() if said):
        yield _fault(request, FaultKind.NO_CLAIM, field, found=request.case)


def storage_class(request: StorageRequest) -> Iterator[StorageFault]:
    """Somebody names the class of a claim that we create."""
    if request.case in OWN_CLAIM and request.class_name is None and not request.claimed:
        # A deployment that names one does not help where all models of a namespace share the environment's claim.
        yield _fault(request, FaultKind.STORAGE_CLASS, "storageClassName", found=request.wishes.class_name or "")


def named_cache(request: StorageRequest) -> Iterator[StorageFault]:
    """A ModelCache that is named keeps the bytes of this model here, and these pods can mount them."""
    found, named = request.model.source, request.named
    if not isinstance(request.choice, NamedCache) or not isinstance(found, HuggingFaceSource | UriSource):
        return  # see `source`
    if named is None:
        yield _fault(request, FaultKind.CACHE_UNKNOWN, "name")
    elif named.path == directory(found):
        if named.access_mode != READ_WRITE_MANY and not request.alone:
            yield _fault(request, FaultKind.CACHE_NOT_SHARED, "name", found=named.access_mode, wanted=READ_WRITE_MANY)
    elif named.model != request.model.ref:
        yield _fault(request, FaultKind.OTHER_MODEL, "name", found=named.model.name, wanted=request.model.name)
    else:
        pending = named.path or named.expected
        yield _fault(request, FaultKind.CACHE_PENDING if pending else FaultKind.CACHE_ABSENT, "name")


CHECKS: tuple[Callable[[StorageRequest], Iterator[StorageFault]], ...] = (
    source,
    empty_dir,
    access_mode,
    size,
    too_small,
    storage_class,
    named_cache,
)
