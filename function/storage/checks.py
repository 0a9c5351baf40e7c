"""What makes an order impossible. Every check runs, so that nobody fixes one fault to meet the next.

The decision before us refuses most of this too; a ModelPlacement or ModelCache written by hand comes here
first. Whether a claim or a Secret exists is not known here.
"""

from collections.abc import Callable, Iterator

from function.domain.cache import CacheType, NamedCache, UserClaim
from function.domain.model import HuggingFaceSource, PvcSource
from function.domain.problem import Problem
from function.storage import sizing
from function.storage.claim import READ_WRITE_MANY
from function.storage.order import Case, Order

EXCLUSIVE = ("ReadWriteOnce", "ReadWriteOncePod")
# The text is the API's, full stop included.
SHARED_STORAGE_MISSING = "multi-node model requires shared storage on the inference environment."
OWN_CLAIM = (Case.SHARED, Case.RETAINED, Case.MANAGED)


def problems(order: Order) -> tuple[Problem, ...]:
    """Return every fault, sorted by path."""
    return tuple(sorted(Problem(path, message) for check in CHECKS for path, message in check(order)))


def source(order: Order) -> Iterator[tuple[str, str]]:
    """The source can be had in the way that was chosen."""
    found = order.model.source
    if isinstance(found, PvcSource) and isinstance(order.choice, UserClaim):
        yield f"{_field(order)}.claimName", "cannot be combined with source PVC: nothing is downloaded"
    if order.for_cache and order.case in (Case.OCI, Case.PRESTAGED):
        yield (
            "spec.modelRef",
            f"model {order.model.name} has a source that is not downloaded, so nothing can be cached",
        )
    # The initializer splits its URI at every slash and wants exactly two parts. [FACTS.md 5]
    if isinstance(found, HuggingFaceSource) and "/" in found.revision:
        yield (
            "spec.huggingFace.revision",
            f"found {found.revision}; without slash, or the commit it stands for",
        )


def named_cache(order: Order) -> Iterator[tuple[str, str]]:
    """A ModelCache that is named keeps something here that these pods can mount."""
    if order.case is not Case.MODEL_CACHE or not isinstance(order.choice, NamedCache):
        return
    if order.named is None:
        yield "spec.modelCache.name", f"ModelCache {order.choice.name} keeps nothing on this environment"
    elif order.named.access_mode != READ_WRITE_MANY and order.shape_nodes > 1:
        found = order.named.access_mode
        yield (
            "spec.modelCache.name",
            f"claim {order.named.claim} is {found}; several nodes need ReadWriteMany",
        )


def empty_dir(order: Order) -> Iterator[tuple[str, str]]:
    """An EmptyDir belongs to one pod and is filled by KServe."""
    if order.wishes.type is not CacheType.EMPTY_DIR or order.case not in OWN_CLAIM:
        return
    why = "a ModelCache" if order.for_cache else "several nodes" if order.shape_nodes > 1 else "this kind of source"
    yield f"{_field(order)}.type", f"found EmptyDir; PVC is needed for {why}"


def storage_class(order: Order) -> Iterator[tuple[str, str]]:
    """Somebody names the class of a claim that we create."""
    if order.case in OWN_CLAIM and order.class_name is None:
        single = "the weights need a claim, and neither deployment, environment nor defaults name a storage class"
        yield f"{_field(order)}.storageClassName", SHARED_STORAGE_MISSING if order.shape_nodes > 1 else single


def access_mode(order: Order) -> Iterator[tuple[str, str]]:
    """The pods can share a claim that we create: many nodes unless it is one node and one replica."""
    if order.case not in OWN_CLAIM or order.access_mode == READ_WRITE_MANY:
        return
    if order.access_mode not in EXCLUSIVE:
        yield (
            f"{_field(order)}.accessMode",
            f"found {order.access_mode}; allowed: {READ_WRITE_MANY}, {EXCLUSIVE[0]}",
        )
    elif order.shape_nodes > 1 or order.replicas > 1:
        wanted = "several nodes" if order.shape_nodes > 1 else "several replicas"
        yield f"{_field(order)}.accessMode", f"found {order.access_mode}; {wanted} need {READ_WRITE_MANY}"


def size(order: Order) -> Iterator[tuple[str, str]]:
    """Something says how large a claim that we create must be."""
    if order.case in OWN_CLAIM and not sizing.size(order.explicit_size, order.model, order.gpu_memory):
        yield f"{_field(order)}.size", "must be given where the model states neither disk nor vram"


CHECKS: tuple[Callable[[Order], Iterator[tuple[str, str]]], ...] = (
    source,
    named_cache,
    empty_dir,
    storage_class,
    access_mode,
    size,
)


def _field(order: Order) -> str:
    return "spec.storage" if order.for_cache else "spec.modelCache"
