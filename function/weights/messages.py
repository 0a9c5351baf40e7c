"""The planner's word on weights in words: why there is no storage for them."""

from collections.abc import Callable, Mapping

from function.domain.model import Problem
from function.weights.checks import FaultKind, StorageFault
from function.weights.request import Case

# The text is the API's, full stop included.
SHARED_STORAGE = "multi-node model requires shared storage on the inference environment."


def problem(fault: StorageFault) -> Problem:
    """Return a fault as the problem of a field."""
    return Problem(fault.field, words(fault))


def words(fault: StorageFault) -> str:
    """Say one fault, without the field."""
    several = f"{fault.nodes} nodes" if fault.nodes > 1 else f"{fault.replicas} replicas"
    return _WORDS[fault.kind](fault).format(fault=fault, several=several)


def _storage_class(fault: StorageFault) -> str:
    whose = "ModelCache" if _of_cache(fault) else "deployment"
    ignored = f" Its claim is Shared, hence storageClassName {{fault.found}} of the {whose} does not count"
    if fault.nodes > 1:
        return SHARED_STORAGE + (ignored if fault.found else "")
    needed = f"the weights need a claim, and neither {whose}, environment nor defaults name a storage class"
    return f"{needed}.{ignored}" if fault.found else needed


def _access_mode(fault: StorageFault) -> str:
    if fault.nodes > 1:
        return SHARED_STORAGE + " Its accessMode is {fault.found}, {fault.wanted} wanted"
    return "several replicas share a claim; accessMode is {fault.found}, {fault.wanted} wanted"


def _empty_dir(fault: StorageFault) -> str:
    why = "several nodes" if fault.nodes > 1 else "this kind of source"
    if _of_cache(fault):
        why = "a ModelCache"
    return f"found EmptyDir, which belongs to one pod; PVC is needed for {why}"


def _size(fault: StorageFault) -> str:
    # A ModelCache has no replica, whose GPU memory would bound its weights.
    known = "nor its vram is" if _of_cache(fault) else "and vram nor the pool's memoryPerGpu are"
    return f"must be given where neither the model's disk {known}"


def _no_claim(fault: StorageFault) -> str:
    return f"does not apply, as {_WITHOUT_CLAIM[Case(fault.found)]}"


_WITHOUT_CLAIM: Mapping[Case, str] = {
    Case.INITIALIZER: "there is no claim: each pod fetches a copy of its own; type: PVC makes one",
    Case.OCI: "there is no claim: nodes pull the model's image",
    Case.PRESTAGED: "the model's weights lie on a claim already",
}


def _of_cache(fault: StorageFault) -> bool:
    return fault.field.startswith("spec.storage")


def always(text: str) -> Callable[[object], str]:
    """Return what says the same of everything."""
    return lambda _: text


_WORDS: Mapping[FaultKind, Callable[[StorageFault], str]] = {
    FaultKind.NOTHING_TO_CACHE: always(
        "model {fault.found} has a source that is not downloaded, so nothing can be cached"
    ),
    FaultKind.CLAIM_BESIDE_SOURCE: always(
        "{fault.found} must be left out, as the model's weights are on the claim {fault.wanted} already"
    ),
    FaultKind.EMPTY_DIR: _empty_dir,
    FaultKind.EMPTY_DIR_UNFILLED: always(
        "found false, but with EmptyDir every pod downloads and nobody else can fill it; set modelCache.type: PVC"
    ),
    FaultKind.EMPTY_DIR_ACCOUNT: always(
        "found {fault.found}; with EmptyDir the engine's pod downloads, and no engine gets this identity; set "
        "modelCache.type: PVC"
    ),
    FaultKind.OWN_ACCESS_MODE: always(
        "found {fault.found}, which serves one replica on one node; {several} need {fault.wanted}"
    ),
    FaultKind.OTHER_MODEL: always(
        "ModelCache {fault.cache} keeps model {fault.found}, not {fault.wanted}; name a cache of this model"
    ),
    FaultKind.SIZE: _size,
    FaultKind.OWN_SIZE: always("found {fault.found}, and the model's spec.resources.disk is {fault.wanted}"),
    FaultKind.SHARED_SIZE: always("found {fault.found}, and the model's spec.resources.disk is {fault.wanted}"),
    FaultKind.CLAIM_SIZE: always("the claim has {fault.found}, and the model's spec.resources.disk is {fault.wanted}"),
    FaultKind.CLAIM_NOT_SHARED: always(
        "the claim that is there is {fault.found}, and {several} need {fault.wanted}; another one is made once it is "
        "deleted"
    ),
    FaultKind.NO_CLAIM: _no_claim,
    FaultKind.STORAGE_CLASS: _storage_class,
    FaultKind.ACCESS_MODE: _access_mode,
    FaultKind.CACHE_UNKNOWN: always("ModelCache {fault.cache} does not exist or is invalid"),
    FaultKind.CACHE_ABSENT: always("ModelCache {fault.cache} does not keep the weights there"),
    FaultKind.CACHE_PENDING: always("ModelCache {fault.cache} has not reported these weights there yet"),
    FaultKind.CACHE_NOT_SHARED: always(
        "the claim of ModelCache {fault.cache} is {fault.found}; {several} need {fault.wanted}"
    ),
}
