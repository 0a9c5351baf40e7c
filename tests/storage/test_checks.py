"""An impossible request is refused with every fault, each named by its path."""

from dataclasses import dataclass, replace

import pytest

from function.domain.cache import CacheType, ManagedCache, NamedCache, UserClaim
from function.domain.environment import EnvironmentStorage, StorageMode
from function.domain.model import HuggingFaceSource, OciSource, PvcSource, UriSource
from function.storage import checks
from function.storage.request import NamedCacheFacts, StorageRequest
from tests.storage.requests import CACHE, MULTI, SINGLE, model

UNCLASSED = EnvironmentStorage()
ONCE = EnvironmentStorage(class_name="ebs", access_mode="ReadWriteOnce")
PVC = ManagedCache(type=CacheType.PVC)
MISSING = "multi-node model requires shared storage on the inference environment."
UNNAMED = "the weights need a claim, and neither deployment, environment nor defaults name a storage class"
HTTPS = model(UriSource(uri="https://models.example.com/m.gguf"))


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    request: StorageRequest
    want: tuple[str, ...] = ()


CASES = (
    Case("multi-node", "class, mode and size are there", MULTI),
    Case("single-node", "needs nothing at all", replace(SINGLE, environment=UNCLASSED)),
    Case("default-class", "the platform names it", replace(MULTI, environment=UNCLASSED, default_class="")),
    Case(
        "multi-node-without-class",
        "the text is the API's",
        replace(MULTI, environment=UNCLASSED),
        (f"spec.modelCache.storageClassName: {MISSING}",),
    ),
    Case(
        "single-node-claim-without-class",
        "a sentence of its own",
        replace(SINGLE, environment=UNCLASSED, choice=PVC),
        (f"spec.modelCache.storageClassName: {UNNAMED}",),
    ),
    Case(
        "pvc-source-with-claim",
        "what is staged is not downloaded elsewhere",
        replace(MULTI, model=model(PvcSource(claim="staged")), choice=UserClaim(claim="mine")),
        ("spec.modelCache.claimName: cannot be combined with source PVC: nothing is downloaded",),
    ),
    Case("pvc-source", "nothing to create", replace(MULTI, model=model(PvcSource(claim="staged")))),
    Case(
        "cache-of-an-image",
        "nothing would be cached",
        replace(CACHE, model=model(OciSource(image="r/m@sha256:1"), disk=1)),
        ("spec.modelRef: model kimi-k2-instruct has a source that is not downloaded, so nothing can be cached",),
    ),
    Case(
        "revision-with-slash",
        "the initializer would take it for another path",
        replace(SINGLE, model=model(HuggingFaceSource(repo="a/b", revision="refs/pr/1"))),
        ("spec.huggingFace.revision: found refs/pr/1; without slash, or the commit it stands for",),
    ),
    Case(
        "cache-elsewhere",
        "the bytes are on other environments",
        replace(MULTI, choice=NamedCache(name="kimi")),
        ("spec.modelCache.name: ModelCache kimi keeps nothing on this environment",),
    ),
    Case(
        "exclusive-cache-on-several-nodes",
        "only one node could mount it",
        replace(
            MULTI,
            choice=NamedCache(name="kimi"),
            named=NamedCacheFacts(claim="c", path="models/k", access_mode="ReadWriteOnce"),
        ),
        ("spec.modelCache.name: claim c is ReadWriteOnce; several nodes need ReadWriteMany",),
    ),
    Case(
        "cache-of-one-pod-for-several-replicas",
        "replicas stand on nodes of their own",
        replace(
            SINGLE,
            replicas=2,
            choice=NamedCache(name="kimi"),
            named=NamedCacheFacts(claim="c", path="models/k", access_mode="ReadWriteOnce"),
        ),
        ("spec.modelCache.name: claim c is ReadWriteOnce; several replicas need ReadWriteMany",),
    ),
    Case(
        "cache-of-one-pod-for-one",
        "nobody shares it",
        replace(
            SINGLE,
            choice=NamedCache(name="kimi"),
            named=NamedCacheFacts(claim="c", path="models/k", access_mode="ReadWriteOnce"),
        ),
    ),
    Case(
        "cache-here",
        "nothing is wrong",
        replace(MULTI, choice=NamedCache(name="kimi"), named=NamedCacheFacts(claim="c", path="models/k")),
    ),
    Case(
        "empty-dir-on-several-nodes",
        "one pod's directory is not the other's",
        replace(MULTI, choice=ManagedCache(type=CacheType.EMPTY_DIR)),
        ("spec.modelCache.type: found EmptyDir; PVC is needed for several nodes",),
    ),
    Case(
        "empty-dir-cache",
        "a cache must outlive pods",
        replace(CACHE, model=model(disk=1), choice=ManagedCache(type=CacheType.EMPTY_DIR)),
        ("spec.storage.type: found EmptyDir; PVC is needed for a ModelCache",),
    ),
    Case(
        "empty-dir-over-https",
        "KServe refuses the scheme",
        replace(SINGLE, model=HTTPS, choice=ManagedCache(type=CacheType.EMPTY_DIR)),
        ("spec.modelCache.type: found EmptyDir; PVC is needed for this kind of source",),
    ),
    Case("one-replica-on-one-node", "nobody shares it", replace(SINGLE, environment=ONCE, choice=PVC)),
    Case(
        "exclusive-on-several-nodes",
        "only one node could mount it",
        replace(MULTI, environment=ONCE),
        ("spec.modelCache.accessMode: found ReadWriteOnce; several nodes need ReadWriteMany",),
    ),
    Case(
        "exclusive-with-several-replicas",
        "replicas go to other nodes",
        replace(SINGLE, environment=ONCE, choice=PVC, replicas=2),
        ("spec.modelCache.accessMode: found ReadWriteOnce; several replicas need ReadWriteMany",),
    ),
    Case(
        "read-only",
        "the download could not write",
        replace(MULTI, choice=ManagedCache(access_mode="ReadOnlyMany")),
        ("spec.modelCache.accessMode: found ReadOnlyMany; allowed: ReadWriteMany, ReadWriteOnce",),
    ),
    Case(
        "cache-without-size",
        "there is no replica whose memory bounds it",
        CACHE,
        ("spec.storage.size: must be given where the model states neither disk nor vram",),
    ),
    Case(
        "shared-has-its-size",
        "the environment says it",
        replace(CACHE, environment=EnvironmentStorage(class_name="nfs", mode=StorageMode.SHARED)),
    ),
    Case(
        "several-faults",
        "all of them, sorted",
        replace(CACHE, environment=UNCLASSED, choice=ManagedCache(type=CacheType.EMPTY_DIR)),
        (
            "spec.storage.size: must be given where the model states neither disk nor vram",
            f"spec.storage.storageClassName: {UNNAMED}",
            "spec.storage.type: found EmptyDir; PVC is needed for a ModelCache",
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_problems(case: Case) -> None:
    assert tuple(str(problem) for problem in checks.problems(case.request)) == case.want, case.reason
