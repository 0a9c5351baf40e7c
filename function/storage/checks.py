"""What makes an order impossible. Every check runs, so that nobody fixes one fault to meet the next.

The decision before us refuses most of this too; a ModelPlacement or ModelCache written by hand comes here
first. Whether a claim or a Secret exists is not known here.
"""

from collections.abc import Callable, Iterator

from function.domain.cache import CacheType, NamedCache, UserClaim
from function.domain.model import HuggingFaceSource, PvcSource
from function.domain.problem import Problem
from function.storage import sizing
from function.storage.request import Case, StorageRequest
from function.storage.volume_claim import READ_WRITE_MANY

EXCLUSIVE = ("ReadWriteOnce", "ReadWriteOncePod")
# The text is the API's, full stop included.
SHARED_STORAGE_MISSING = "multi-node model requires shared storage on the inference environment."
OWN_CLAIM = (Case.SHARED, Case.RETAINED, Case.MANAGED)


def problems(request: StorageRequest) -> tuple[Problem, ...]:
    """Return every fault, sorted by path."""
    return tuple(sorted(Problem(path, message) for check in CHECKS for path, message in check(request)))


def source(request: StorageRequest) -> Iterator[tuple[str, str]]:
    """The source can be had in the way that was chosen."""
    found = request.model.source
    if isinstance(found, PvcSource) and isinstance(request.choice, UserClaim):
        yield f"{_field(request)}.claimName", "cannot be combined with source PVC: nothing is downloaded"
    if request.for_cache and request.case in (Case.OCI, Case.PRESTAGED):
        yield (
            "spec.modelRef",
            f"model {request.model.name} has a source that is not downloaded, so nothing can be cached",
        )
    # The initializer splits its URI at every slash and wants exactly two parts. [FACTS.md 5]
    if isinstance(found, HuggingFaceSource) and "/" in found.revision:
        yield (
            "spec.huggingFace.revision",
            f"found {found.revision}; without slash, or the commit it stands for",
        )


def named_cache(request: StorageRequest) -> Iterator[tuple[str, str]]:
    """A ModelCache that is named keeps something here that these pods can mount."""
    if request.case is not Case.MODEL_CACHE or not isinstance(request.choice, NamedCache):
        return
    if request.named is None:
        yield "spec.modelCache.name", f"ModelCache {request.choice.name} keeps nothing on this environment"
    elif cache_not_shared(request):
        found, wanted = request.named.access_mode, "several nodes" if request.shape_nodes > 1 else "several replicas"
        yield (
            "spec.modelCache.name",
            f"claim {request.named.claim} is {found}; {wanted} need ReadWriteMany",
        )


def cache_not_shared(request: StorageRequest) -> bool:
    """Tell whether a ModelCache keeps its bytes on a claim that these pods cannot all mount."""
    return request.named is not None and request.named.access_mode != READ_WRITE_MANY and request.pods > 1


def empty_dir(request: StorageRequest) -> Iterator[tuple[str, str]]:
    """An EmptyDir belongs to one pod and is filled by KServe."""
    if request.wishes.type is not CacheType.EMPTY_DIR or request.case not in OWN_CLAIM:
        return
    why = "a ModelCache" if request.for_cache else "several nodes" if request.shape_nodes > 1 else "this kind of source"
    yield f"{_field(request)}.type", f"found EmptyDir; PVC is needed for {why}"


def storage_class(request: StorageRequest) -> Iterator[tuple[str, str]]:
    """Somebody names the class of a claim that we create."""
    if request.case in OWN_CLAIM and request.class_name is None:
        single = "the weights need a claim, and neither deployment, environment nor defaults name a storage class"
        yield f"{_field(request)}.storageClassName", SHARED_STORAGE_MISSING if request.shape_nodes > 1 else single


def access_mode(request: StorageRequest) -> Iterator[tuple[str, str]]:
    """The pods can share a claim that we create: many nodes unless it is one node and one replica."""
    if request.case not in OWN_CLAIM or request.access_mode == READ_WRITE_MANY:
        return
    if request.access_mode not in EXCLUSIVE:
        yield (
            f"{_field(request)}.accessMode",
            f"found {request.access_mode}; allowed: {READ_WRITE_MANY}, {EXCLUSIVE[0]}",
        )
    elif request.shape_nodes > 1 or request.replicas > 1:
        wanted = "several nodes" if request.shape_nodes > 1 else "several replicas"
        yield f"{_field(request)}.accessMode", f"found {request.access_mode}; {wanted} need {READ_WRITE_MANY}"


def size(request: StorageRequest) -> Iterator[tuple[str, str]]:
    """Something says how large a claim that we create must be."""
    if request.case in OWN_CLAIM and not sizing.size(request.explicit_size, request.model, request.gpu_memory):
        yield f"{_field(request)}.size", "must be given where the model states neither disk nor vram"


CHECKS: tuple[Callable[[StorageRequest], Iterator[tuple[str, str]]], ...] = (
    source,
    named_cache,
    empty_dir,
    storage_class,
    access_mode,
    size,
)


def _field(request: StorageRequest) -> str:
    return "spec.storage" if request.for_cache else "spec.modelCache"
