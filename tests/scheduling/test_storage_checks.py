"""Storage faults as refusals: one for each fault, with the object that it concerns."""

import hashlib
from dataclasses import replace

import pytest

from function.domain.cache import CacheEntry, CreatedStorage, ModelCache, ModelCacheChoice, UserClaim
from function.domain.environment import EnvironmentStorage
from function.domain.model import ModelRef
from function.domain.records.weights import DownloadRecord
from function.reasons import Phase, Refused
from function.scheduling.refusals import Field
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import SchedulingRequest
from function.weights.faults import FaultKind
from tests.scheduling.test_checks import CLAIM, NO_POOL, NO_STORAGE, Case, check
from tests.support.builders import (
    GIB,
    MODEL,
    NAMESPACE,
    deployment,
    environment,
    model,
    placement,
    planner,
    pool,
    profile,
    requires,
    shape,
    with_service,
)

TOO_SMALL = Refused.STORAGE_TOO_SMALL
NOT_THERE = Refused.CACHE_NOT_ON_ENVIRONMENT
# As cachekey.py documents it, for the repository and revision of tests/support/builders.py.
HELD = "models/" + hashlib.sha256(b'["hf://org/kimi","main",[],[]]').hexdigest()[:16]


def cached(where: str, path: str = HELD) -> ModelCache:
    """Return a ModelCache of the model under test that keeps weights on an environment."""
    entry = CacheEntry(environment=where, phase=Phase.READY, hydration=DownloadRecord(claim="kept", path=path))
    return ModelCache(namespace=NAMESPACE, name="weights", model=MODEL, environments=(where,), entries=(entry,))


BARE = environment(storage_class=None)
STORAGE_CASES = (
    Case(id="class-of-the-environment", reason="named", profile=profile(shape=shape(2))),
    Case(
        id="no-class-for-two-nodes",
        reason="the environment, the deployment or the defaults must name one",
        profile=profile(shape=shape(2)),
        environment=BARE,
        refused=NO_STORAGE,
        field=Field.STORAGE,
        kind=FaultKind.STORAGE_CLASS,
    ),
    Case(id="no-class-for-one-node", reason="one node with the default needs no claim", environment=BARE),
    Case(
        id="no-class-for-one-node-that-needs-a-claim",
        reason="type: PVC, gs and https sources",
        choice=CLAIM,
        environment=BARE,
        refused=NO_STORAGE,
        field=Field.STORAGE,
        kind=FaultKind.STORAGE_CLASS,
    ),
    Case(
        id="two-nodes-without-a-claim-of-ours",
        reason="OCI, PVC, claimName and modelCache.name bring their own",
        profile=profile(shape=shape(2)),
        choice=UserClaim(claim="mine"),
        environment=BARE,
    ),
    Case(
        id="class-of-the-deployment",
        reason="the deployment's own counts first",
        profile=profile(shape=shape(2)),
        choice=CreatedStorage(class_name="mine"),
        environment=BARE,
    ),
    Case(
        id="empty-class-is-a-class",
        reason='"" is the cluster default, absent is not configured',
        profile=profile(shape=shape(2)),
        environment=environment(storage_class=""),
    ),
    Case(
        id="rwo-environment-for-two-nodes",
        reason="RWO is for one node and one replica",
        profile=profile(shape=shape(2)),
        environment=environment(access_mode="ReadWriteOnce"),
        refused=NO_STORAGE,
        field=Field.STORAGE,
        kind=FaultKind.ACCESS_MODE,
    ),
    Case(
        id="rwo-environment-for-two-replicas",
        reason="RWO is for one node and one replica",
        choice=CLAIM,
        environment=environment(access_mode="ReadWriteOnce"),
        replicas=2,
        refused=NO_STORAGE,
        field=Field.STORAGE,
        kind=FaultKind.ACCESS_MODE,
    ),
    Case(
        id="rwo-environment-for-one-replica",
        reason="one node and one replica",
        choice=CLAIM,
        environment=environment(access_mode="ReadWriteOnce"),
    ),
    Case(
        id="rwo-environment-without-a-claim",
        reason="no claim, no mode",
        environment=environment(access_mode="ReadWriteOnce"),
        replicas=2,
    ),
    Case(
        id="mode-of-the-deployment",
        reason="deployment > environment",
        profile=profile(shape=shape(2)),
        choice=CreatedStorage(access_mode="ReadWriteMany"),
        environment=environment(access_mode="ReadWriteOnce"),
    ),
    Case(
        id="shared-environment-without-a-class",
        reason="a claim that a whole namespace shares is the environment's: the deployment's class does not count",
        profile=profile(shape=shape(2)),
        choice=CreatedStorage(class_name="mine"),
        environment=environment(storage=EnvironmentStorage(is_shared=True)),
        refused=NO_STORAGE,
        field=Field.STORAGE,
        kind=FaultKind.STORAGE_CLASS,
    ),
    Case(
        id="shared-environment-of-one-pod",
        reason="likewise its access mode",
        profile=profile(shape=shape(2)),
        choice=CreatedStorage(access_mode="ReadWriteMany"),
        environment=environment(
            storage=EnvironmentStorage(is_shared=True, class_name="x", access_mode="ReadWriteOnce")
        ),
        refused=NO_STORAGE,
        field=Field.STORAGE,
        kind=FaultKind.ACCESS_MODE,
    ),
    Case(
        id="claim-for-one-pod-on-a-shared-environment",
        reason="what does not count refuses nothing",
        profile=profile(shape=shape(2)),
        choice=CreatedStorage(access_mode="ReadWriteOnce"),
        environment=environment(storage=EnvironmentStorage(is_shared=True, class_name="x")),
    ),
    Case(
        id="claim-for-one-pod-and-two-nodes",
        reason="the deployment asked for what cannot serve it",
        profile=profile(shape=shape(2)),
        choice=CreatedStorage(access_mode="ReadWriteOnce"),
        refused=Refused.INVALID_DEPLOYMENT,
        field=Field.STORAGE,
        kind=FaultKind.OWN_ACCESS_MODE,
    ),
    Case(
        id="no-size-at-all",
        reason="no disk, vram or size, and the pool does not say how much memory its GPUs have",
        profile=profile(shape=shape(2)),
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.STORAGE,
        kind=FaultKind.SIZE,
    ),
    Case(
        id="no-size-where-memory-was-asked-for",
        reason="the pool's memory is missed once, by who asks for it",
        profile=profile(shape=shape(2), requires=requires(memory="80Gi")),
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
        required=80 * GIB,
    ),
    Case(
        id="cache-on-the-environment",
        reason="the ModelCache keeps its weights there",
        choice=ModelCacheChoice(name="weights"),
        cache=cached("env"),
    ),
    Case(
        id="cache-elsewhere",
        reason="the ModelCache keeps its weights elsewhere",
        choice=ModelCacheChoice(name="weights"),
        cache=cached("far"),
        refused=NOT_THERE,
        field=Field.STORAGE,
        kind=FaultKind.CACHE_ABSENT,
    ),
    Case(
        id="no-such-cache",
        reason="there is no ModelCache of this name",
        choice=ModelCacheChoice(name="weights"),
        refused=NOT_THERE,
        field=Field.STORAGE,
        kind=FaultKind.CACHE_UNKNOWN,
    ),
    Case(
        id="cache-that-has-not-reported",
        reason="it names the environment, and its status does not yet",
        choice=ModelCacheChoice(name="weights"),
        cache=replace(cached("env"), entries=()),
        refused=NOT_THERE,
        field=Field.STORAGE,
        kind=FaultKind.CACHE_PENDING,
    ),
    Case(
        id="cache-with-an-earlier-revision",
        reason="it is of this model and will follow",
        choice=ModelCacheChoice(name="weights"),
        cache=cached("env", path="models/0123456789abcdef"),
        refused=NOT_THERE,
        field=Field.STORAGE,
        kind=FaultKind.CACHE_PENDING,
    ),
    Case(
        id="cache-of-another-model",
        reason="other bytes must not be served under this name",
        choice=ModelCacheChoice(name="weights"),
        cache=replace(cached("env", path="models/0123456789abcdef"), model=ModelRef(kind="ClusterModel", name="other")),
        refused=Refused.INVALID_DEPLOYMENT,
        field=Field.STORAGE,
        kind=FaultKind.OTHER_MODEL,
    ),
    Case(
        id="own-size-below-disk",
        reason="refused before a terabyte was fetched",
        choice=replace(CLAIM, size=500 * GIB),
        disk="960Gi",
        refused=TOO_SMALL,
        field=Field.STORAGE,
        kind=FaultKind.OWN_SIZE,
    ),
    Case(id="own-size-that-holds", reason="at least", choice=replace(CLAIM, size=960 * GIB), disk="960Gi"),
    Case(
        id="own-size-where-no-claim-is-made",
        reason="each pod fetches its own copy",
        choice=CreatedStorage(size=500 * GIB),
        disk="960Gi",
    ),
    Case(
        id="shared-claim-below-disk",
        reason="the environment's, which is 100Gi unless it says otherwise",
        choice=replace(CLAIM, size=2000 * GIB),
        environment=environment(storage=EnvironmentStorage(class_name="nfs", is_shared=True)),
        disk="960Gi",
        refused=TOO_SMALL,
        field=Field.STORAGE,
        kind=FaultKind.SHARED_SIZE,
    ),
    Case(
        id="shared-claim-whose-size-means-nothing",
        reason="EFS holds whatever comes",
        choice=CLAIM,
        environment=environment(storage=EnvironmentStorage(class_name="efs", is_shared=True, size_enforced=False)),
        disk="960Gi",
    ),
    Case(
        id="users-claim-of-unknown-size",
        reason="only the cluster knows it",
        choice=UserClaim(claim="mine"),
        disk="960Gi",
    ),
    Case(
        id="cache-of-another-model-with-the-same-bytes",
        reason="what counts is which bytes these are",
        choice=ModelCacheChoice(name="weights"),
        cache=replace(cached("env"), model=ModelRef(kind="ClusterModel", name="other")),
    ),
)


@pytest.mark.parametrize("case", STORAGE_CASES, ids=lambda c: c.id)
def test_refuses_one_storage_fault(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("serving_uri", "replicas", "reason"),
    [
        ("", 1, "another replica would wait for a download that is not begun"),
        ("pvc://weights/models/0123", 3, "the bytes are there, whatever the size says"),
    ],
)
def test_small_size_prevents_scaling_up_only_without_weights(serving_uri: str, replicas: int, reason: str) -> None:
    asked = model(profile(shape=shape()), disk="960Gi")
    there = with_service(placement("a"), uri=serving_uri)
    choice = replace(CLAIM, size=GIB)
    request = SchedulingRequest(deployment=deployment(replicas=3), model=asked, storage_request=planner(asked, choice))
    decision = schedule(request, [environment("a", pool())], [there])
    assert [a.replicas for a in decision.assignments] == [replicas], reason
