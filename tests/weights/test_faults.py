"""An impossible request is refused with every fault, each named by its path."""

import hashlib
from dataclasses import dataclass, replace

import pytest

from function.domain.cache import CacheType, CreatedStorage, ModelCacheChoice, UserClaim
from function.domain.environment import EnvironmentStorage
from function.domain.model import OciSource, PvcSource, UriSource
from function.weights.faults import FaultKind, StorageFault, find_faults
from function.weights.request import WeightsRequest
from tests.support.weights_requests import CACHE, MULTI, SINGLE, model, named_cache, on_storage

UNCLASSED = on_storage(EnvironmentStorage())
ABSENT = on_storage(EnvironmentStorage(class_name="filestore", missing_class="filestore"))
ONCE = on_storage(EnvironmentStorage(class_name="ebs", access_mode="ReadWriteOnce"))
PVC = CreatedStorage(type=CacheType.PVC)
MISSING = "multi-node model requires shared storage on the inference environment."
NOT_FOUND = "StorageClass filestore does not exist on the cluster; create it or name another"
UNNAMED = "a claim is required, and neither deployment, environment nor defaults name a storage class"
HTTPS = model(UriSource(uri="https://models.example.com/m.gguf"))
NO_SIZE = "spec.storage.size: required where neither the model's disk nor its vram is declared"
# As cachekey.py documents it.
HELD = "models/" + hashlib.sha256(b'["hf://moonshotai/Kimi-K2-Instruct","main",[],[]]').hexdigest()[:16]
HERE = named_cache(HELD)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    request: WeightsRequest
    want: tuple[str, ...] = ()


CASES = (
    Case("multi-node", "weights for several nodes need a class, an access mode and a size, which are all set", MULTI),
    Case(
        "single-node",
        "weights for a single node need no claim, and so no storage class",
        replace(SINGLE, environment=UNCLASSED),
    ),
    Case(
        "default-class",
        "an empty class name selects the default class of the cluster",
        replace(MULTI, environment=on_storage(EnvironmentStorage(class_name=""))),
    ),
    Case(
        "multi-node-without-class",
        "the fault of a missing class has the text that the API documents",
        replace(MULTI, environment=UNCLASSED),
        (f"spec.modelCache.storageClassName: {MISSING}",),
    ),
    Case(
        "multi-node-with-missing-class",
        "the fault of an absent class has the text of a missing class and names the absent one",
        replace(MULTI, environment=ABSENT),
        (f"spec.modelCache.storageClassName: {MISSING} Its {NOT_FOUND}",),
    ),
    Case(
        "single-node-claim-with-missing-class",
        "a claim of a class that does not exist would stay Pending",
        replace(SINGLE, environment=ABSENT, choice=PVC),
        (f"spec.modelCache.storageClassName: its {NOT_FOUND}",),
    ),
    Case(
        "single-node-with-missing-class",
        "a single node needs no claim, so that its class does not matter",
        replace(SINGLE, environment=ABSENT),
    ),
    Case(
        "deployment-with-another-class",
        "the deployment names another class, so that the missing class is not used",
        replace(MULTI, environment=ABSENT, choice=CreatedStorage(class_name="fast")),
    ),
    Case(
        "single-node-claim-without-class",
        "a single node with a claim has its own text for a missing class",
        replace(SINGLE, environment=UNCLASSED, choice=PVC),
        (f"spec.modelCache.storageClassName: {UNNAMED}",),
    ),
    Case(
        "pvc-source-with-claim",
        "weights that are staged on a claim are not downloaded to another one",
        replace(MULTI, model=model(PvcSource(claim="staged")), choice=UserClaim(claim="mine")),
        (("spec.modelCache.claimName: mine must be left out, as the model's weights are on the claim staged already"),),
    ),
    Case(
        "pvc-source",
        "weights on an existing claim need no new claim",
        replace(MULTI, model=model(PvcSource(claim="staged"))),
    ),
    Case(
        "cache-of-an-image",
        "an image is not downloaded, so that a cache would hold nothing",
        replace(CACHE, model=model(OciSource(image="r/m@sha256:1"), disk=1)),
        ("spec.modelRef: model kimi-k2-instruct has a source that is not downloaded, so nothing can be cached",),
    ),
    Case(
        "cache-elsewhere",
        "the cache holds its weights on other environments only",
        replace(MULTI, choice=ModelCacheChoice(name="kimi"), named_cache=replace(HERE, environments=(), entries=())),
        ("spec.modelCache.name: ModelCache kimi does not keep the weights there",),
    ),
    Case(
        "no-such-cache",
        "a cache that does not exist cannot hold the weights",
        replace(MULTI, choice=ModelCacheChoice(name="kimi")),
        ("spec.modelCache.name: ModelCache kimi does not exist or is invalid",),
    ),
    Case(
        "exclusive-cache-on-several-nodes",
        "only one node could mount the ReadWriteOnce claim of the cache",
        replace(
            MULTI, choice=ModelCacheChoice(name="kimi"), named_cache=named_cache(HELD, access_mode="ReadWriteOnce")
        ),
        ("spec.modelCache.name: the claim of ModelCache kimi is ReadWriteOnce; 2 nodes need ReadWriteMany",),
    ),
    Case(
        "exclusive-cache-for-several-replicas",
        "several replicas may run on several nodes, which cannot mount a ReadWriteOnce claim",
        replace(
            SINGLE,
            choice=ModelCacheChoice(name="kimi"),
            replicas=3,
            named_cache=named_cache(HELD, access_mode="ReadWriteOnce"),
        ),
        ("spec.modelCache.name: the claim of ModelCache kimi is ReadWriteOnce; 3 replicas need ReadWriteMany",),
    ),
    Case(
        "cache-of-another-model",
        "a placement must not serve the weights of another model",
        replace(
            MULTI,
            choice=ModelCacheChoice(name="kimi"),
            named_cache=named_cache("models/0123456789abcdef", model="llama"),
        ),
        (
            (
                "spec.modelCache.name: ModelCache kimi keeps model llama, not kimi-k2-instruct; "
                "name a cache of this model"
            ),
        ),
    ),
    Case(
        "cache-that-has-not-reported",
        "a cache that has not reported yet is not a cache without the weights",
        replace(MULTI, choice=ModelCacheChoice(name="kimi"), named_cache=replace(HERE, entries=())),
        ("spec.modelCache.name: ModelCache kimi has not reported these weights there yet",),
    ),
    Case(
        "cache-of-an-image",
        "nothing is downloaded, so nothing can be cached",
        replace(
            MULTI, model=model(OciSource(image="r/m@sha256:1")), choice=ModelCacheChoice(name="kimi"), named_cache=HERE
        ),
        ("spec.modelCache.name: model kimi-k2-instruct has a source that is not downloaded, so nothing can be cached",),
    ),
    Case(
        "cache-here",
        "a cache that holds the weights on this environment has no fault",
        replace(MULTI, choice=ModelCacheChoice(name="kimi"), named_cache=HERE),
    ),
    Case(
        "empty-dir-on-several-nodes",
        "the pods of several nodes cannot share an EmptyDir",
        replace(MULTI, choice=CreatedStorage(type=CacheType.EMPTY_DIR)),
        ("spec.modelCache.type: EmptyDir belongs to one pod; use PVC for several nodes",),
    ),
    Case(
        "empty-dir-cache",
        "the weights of a cache must outlive pods",
        replace(CACHE, model=model(disk=1), choice=CreatedStorage(type=CacheType.EMPTY_DIR)),
        ("spec.storage.type: EmptyDir belongs to one pod; use PVC for a ModelCache",),
    ),
    Case(
        "empty-dir-over-https",
        "KServe's initializer does not support https, so that the function downloads to a claim",
        replace(SINGLE, model=HTTPS, choice=CreatedStorage(type=CacheType.EMPTY_DIR)),
        ("spec.modelCache.type: KServe cannot download this source into an EmptyDir, only into a claim; use PVC",),
    ),
    Case(
        "one-replica-on-one-node",
        "one replica on one node does not share its claim",
        replace(SINGLE, environment=ONCE, choice=PVC),
    ),
    Case(
        "exclusive-on-several-nodes",
        "only one node could mount a ReadWriteOnce claim",
        replace(MULTI, environment=ONCE),
        (f"spec.storage.accessMode: {MISSING} Its accessMode is ReadWriteOnce, ReadWriteMany required",),
    ),
    Case(
        "exclusive-with-several-replicas",
        "several replicas may run on nodes that cannot all mount a ReadWriteOnce claim",
        replace(SINGLE, environment=ONCE, choice=PVC, replicas=2),
        (
            (
                "spec.storage.accessMode: several replicas share a claim; "
                "accessMode is ReadWriteOnce, ReadWriteMany required"
            ),
        ),
    ),
    Case("cache-without-size", "a ModelCache has no replica whose GPU memory bounds the size", CACHE, (NO_SIZE,)),
    Case(
        "shared-has-its-size",
        "the environment sets the size of a shared claim",
        replace(CACHE, environment=on_storage(EnvironmentStorage(class_name="nfs", is_shared=True))),
    ),
    Case(
        "several-faults",
        "all faults are reported, in the order of the checks",
        replace(CACHE, environment=UNCLASSED, choice=CreatedStorage(type=CacheType.EMPTY_DIR)),
        (
            "spec.storage.type: EmptyDir belongs to one pod; use PVC for a ModelCache",
            NO_SIZE,
            f"spec.storage.storageClassName: {UNNAMED.replace('deployment', 'ModelCache')}",
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_finds_every_fault(case: Case) -> None:
    assert tuple(str(fault.problem) for fault in find_faults(case.request)) == case.want, case.reason


@pytest.mark.parametrize("kind", FaultKind)
def test_every_storage_fault_has_its_message_and_its_columns(kind: FaultKind) -> None:
    fault = StorageFault(kind=kind, field="spec.modelCache.type", actual="EmptyDir", required="r", cache="c")
    assert all((fault.message, *fault.columns))
    assert "{" not in "".join((fault.message, *fault.columns, fault.remedy("e")))
