"""Storage faults become refusals: one for each fault, with the field or object at fault."""

import hashlib
from dataclasses import replace

import pytest

from function.capacity.ledger import CapacityView
from function.domain.adapter import Adapter
from function.domain.cache import CacheEntry, CacheType, CreatedStorage, ModelCache, ModelCacheChoice, UserClaim
from function.domain.environment import EnvironmentStorage
from function.domain.model import HuggingFaceSource, Lora, ModelRef, Routing
from function.domain.records.weights import DownloadRecord
from function.domain.settings import Kserve
from function.reasons import Phase, Refused
from function.scheduling.filters import filter_environment
from function.scheduling.refusals import Field
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Assignment, SchedulingRequest
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
    """Returns a ModelCache of the tested model, which keeps weights on an environment."""
    entry = CacheEntry(environment=where, phase=Phase.READY, download=DownloadRecord(claim="kept", path=path))
    return ModelCache(namespace=NAMESPACE, name="weights", model=MODEL, environments=(where,), entries=(entry,))


BARE = environment(storage_class=None)
PREFIX_AWARE = replace(profile(shape=shape(2)), routing=Routing.PREFIX_AWARE)
ABLE = replace(environment(), kserve=Kserve(scheduler=True))
PICKER_CASES = (
    Case(id="picker", reason="weights of two nodes are on a claim", profile=PREFIX_AWARE, environment=ABLE),
    Case(
        id="picker-nowhere",
        reason="the platform must say that the cluster's gateway routes to InferencePools",
        profile=PREFIX_AWARE,
        refused=Refused.ROUTING_NOT_SUPPORTED,
        field=Field.ROUTING,
        required=Routing.PREFIX_AWARE,
        actual="kserve.scheduler of the environment is false",
    ),
    Case(
        id="picker-without-gateway",
        reason="without a gateway, nobody asks a picker",
        profile=PREFIX_AWARE,
        environment=replace(environment(), kserve=Kserve(scheduler=True, gateway=False)),
        refused=Refused.ROUTING_NOT_SUPPORTED,
        field=Field.ROUTING,
        required=Routing.PREFIX_AWARE,
        actual="kserve.gateway of the environment is false",
    ),
    Case(
        id="picker-without-claim",
        reason="KServe's picker downloads the whole model where the pods do",
        profile=replace(profile(shape=shape()), routing=Routing.PREFIX_AWARE),
        environment=ABLE,
        refused=Refused.ROUTING_NOT_SUPPORTED,
        field=Field.ROUTING,
        required=Routing.PREFIX_AWARE,
        actual="the weights are not on a claim; set modelCache.type: PVC",
    ),
    Case(
        id="picker-with-claim",
        reason="a claim can be requested for one node as well",
        profile=replace(profile(shape=shape()), routing=Routing.PREFIX_AWARE),
        environment=ABLE,
        choice=CLAIM,
    ),
)
SQL, LAW = (Adapter(name=name, source=HuggingFaceSource(repo=f"org/{name}")) for name in ("sql", "law"))
ONE_ADAPTER = replace(profile(shape=shape(2)), lora=Lora(max_adapters=1, max_rank=16))
ADAPTER_CASES = (
    Case(id="adapters-allowed", reason="the profile allows one", profile=ONE_ADAPTER, adapters=(SQL,)),
    Case(
        id="adapters-not-allowed",
        reason="a profile without lora keeps no memory for adapters",
        profile=profile(shape=shape(2)),
        adapters=(SQL,),
        refused=Refused.ADAPTERS_NOT_SUPPORTED,
        field=Field.ADAPTERS,
        required=1,
        actual="profile default allows no LoRA adapters, as it has no lora",
    ),
    Case(
        id="too-many-adapters",
        reason="the profile bounds their number",
        profile=ONE_ADAPTER,
        adapters=(SQL, LAW),
        refused=Refused.ADAPTERS_NOT_SUPPORTED,
        field=Field.ADAPTERS,
        required=2,
        actual="profile default allows 1 LoRA adapter (lora.maxAdapters), and the deployment has 2",
    ),
    Case(
        id="adapter-named-like-the-model",
        reason="a request could mean either",
        profile=ONE_ADAPTER,
        adapters=(replace(SQL, name="org/kimi"),),
        refused=Refused.ADAPTERS_NOT_SUPPORTED,
        field=Field.ADAPTERS,
        required=1,
        actual="adapter org/kimi has the name under which the model itself is served",
    ),
)
STORAGE_CASES = (
    *PICKER_CASES,
    *ADAPTER_CASES,
    Case(
        id="adapters-beside-an-empty-dir",
        reason="nothing checks what KServe would download into each pod",
        profile=replace(profile(shape=shape()), lora=Lora(max_adapters=1, max_rank=16)),
        choice=CreatedStorage(type=CacheType.EMPTY_DIR),
        adapters=(SQL,),
        disk="60Gi",
        refused=Refused.INVALID_DEPLOYMENT,
        field=Field.STORAGE,
        kind=FaultKind.EMPTY_DIR,
    ),
    Case(
        id="class-of-the-environment", reason="the environment names a storage class", profile=profile(shape=shape(2))
    ),
    Case(
        id="no-class-for-two-nodes",
        reason="the environment, the deployment or the defaults must name a storage class",
        profile=profile(shape=shape(2)),
        environment=BARE,
        refused=NO_STORAGE,
        field=Field.STORAGE,
        kind=FaultKind.STORAGE_CLASS,
    ),
    Case(
        id="no-class-for-one-node",
        reason="a replica of one node needs no claim by default, and so no storage class",
        environment=BARE,
    ),
    Case(
        id="no-class-for-one-node-that-needs-a-claim",
        reason="type PVC and gs and https sources need a claim, also for one node",
        choice=CLAIM,
        environment=BARE,
        refused=NO_STORAGE,
        field=Field.STORAGE,
        kind=FaultKind.STORAGE_CLASS,
    ),
    Case(
        id="two-nodes-without-a-claim-of-ours",
        reason="the function creates no claim for OCI, PVC, claimName and modelCache.name",
        profile=profile(shape=shape(2)),
        choice=UserClaim(claim="mine"),
        environment=BARE,
    ),
    Case(
        id="class-of-the-deployment",
        reason="the storage class of the deployment takes precedence",
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
        reason="a ReadWriteOnce claim cannot serve a replica of two nodes",
        profile=profile(shape=shape(2)),
        environment=environment(access_mode="ReadWriteOnce"),
        refused=NO_STORAGE,
        field=Field.STORAGE,
        kind=FaultKind.ACCESS_MODE,
    ),
    Case(
        id="rwo-environment-for-two-replicas",
        reason="a ReadWriteOnce claim cannot serve two replicas",
        choice=CLAIM,
        environment=environment(access_mode="ReadWriteOnce"),
        replicas=2,
        refused=NO_STORAGE,
        field=Field.STORAGE,
        kind=FaultKind.ACCESS_MODE,
    ),
    Case(
        id="rwo-environment-for-one-replica",
        reason="a ReadWriteOnce claim can serve one replica of one node",
        choice=CLAIM,
        environment=environment(access_mode="ReadWriteOnce"),
    ),
    Case(
        id="rwo-environment-without-a-claim",
        reason="the access mode does not matter without a claim",
        environment=environment(access_mode="ReadWriteOnce"),
        replicas=2,
    ),
    Case(
        id="mode-of-the-deployment",
        reason="the access mode of the deployment takes precedence over that of the environment",
        profile=profile(shape=shape(2)),
        choice=CreatedStorage(access_mode="ReadWriteMany"),
        environment=environment(access_mode="ReadWriteOnce"),
    ),
    Case(
        id="shared-environment-without-a-class",
        reason="the environment configures a shared claim, so the storage class of the deployment is ignored",
        profile=profile(shape=shape(2)),
        choice=CreatedStorage(class_name="mine"),
        environment=environment(storage=EnvironmentStorage(is_shared=True)),
        refused=NO_STORAGE,
        field=Field.STORAGE,
        kind=FaultKind.STORAGE_CLASS,
    ),
    Case(
        id="shared-environment-of-one-pod",
        reason="the environment configures a shared claim, so the access mode of the deployment is ignored",
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
        reason="the ignored access mode of the deployment does not cause a refusal",
        profile=profile(shape=shape(2)),
        choice=CreatedStorage(access_mode="ReadWriteOnce"),
        environment=environment(storage=EnvironmentStorage(is_shared=True, class_name="x")),
    ),
    Case(
        id="claim-for-one-pod-and-two-nodes",
        reason="the deployment requests a ReadWriteOnce claim, which cannot serve two nodes",
        profile=profile(shape=shape(2)),
        choice=CreatedStorage(access_mode="ReadWriteOnce"),
        refused=Refused.INVALID_DEPLOYMENT,
        field=Field.STORAGE,
        kind=FaultKind.OWN_ACCESS_MODE,
    ),
    Case(
        id="no-size-at-all",
        reason="without disk, vram, size and the memory of the GPUs, the size of the claim is unknown",
        profile=profile(shape=shape(2)),
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.STORAGE,
        kind=FaultKind.SIZE,
    ),
    Case(
        id="no-size-where-memory-was-asked-for",
        reason="the missing memory of the pool is reported once, as an unsatisfied requirement",
        profile=profile(shape=shape(2), requires=requires(memory="80Gi")),
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
        required=80 * GIB,
    ),
    Case(
        id="cache-on-the-environment",
        reason="the ModelCache keeps its weights on this environment",
        choice=ModelCacheChoice(name="weights"),
        cache=cached("env"),
    ),
    Case(
        id="cache-elsewhere",
        reason="the ModelCache keeps its weights on another environment",
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
        reason="the spec of the ModelCache names the environment, but its status does not yet",
        choice=ModelCacheChoice(name="weights"),
        cache=replace(cached("env"), entries=()),
        refused=NOT_THERE,
        field=Field.STORAGE,
        kind=FaultKind.CACHE_PENDING,
    ),
    Case(
        id="cache-with-an-earlier-revision",
        reason="the ModelCache is of this model, and will download the new revision",
        choice=ModelCacheChoice(name="weights"),
        cache=cached("env", path="models/0123456789abcdef"),
        refused=NOT_THERE,
        field=Field.STORAGE,
        kind=FaultKind.CACHE_PENDING,
    ),
    Case(
        id="cache-of-another-model",
        reason="the weights of another model must not be served under this name",
        choice=ModelCacheChoice(name="weights"),
        cache=replace(cached("env", path="models/0123456789abcdef"), model=ModelRef(kind="ClusterModel", name="other")),
        refused=Refused.INVALID_DEPLOYMENT,
        field=Field.STORAGE,
        kind=FaultKind.OTHER_MODEL,
    ),
    Case(
        id="own-size-below-disk",
        reason="a claim that is too small is refused before the download starts",
        choice=replace(CLAIM, size=500 * GIB),
        disk="960Gi",
        refused=TOO_SMALL,
        field=Field.STORAGE,
        kind=FaultKind.OWN_SIZE,
    ),
    Case(
        id="own-size-that-holds",
        reason="the size of the claim may be equal to disk",
        choice=replace(CLAIM, size=960 * GIB),
        disk="960Gi",
    ),
    Case(
        id="own-size-where-no-claim-is-made",
        reason="no claim is created, because each pod downloads its own copy",
        choice=CreatedStorage(size=500 * GIB),
        disk="960Gi",
    ),
    Case(
        id="shared-claim-below-disk",
        reason="the shared claim has the default size of the environment, 100Gi",
        choice=replace(CLAIM, size=2000 * GIB),
        environment=environment(storage=EnvironmentStorage(class_name="nfs", is_shared=True)),
        disk="960Gi",
        refused=TOO_SMALL,
        field=Field.STORAGE,
        kind=FaultKind.SHARED_SIZE,
    ),
    Case(
        id="shared-claim-whose-size-means-nothing",
        reason="EFS does not enforce the size of a claim",
        choice=CLAIM,
        environment=environment(storage=EnvironmentStorage(class_name="efs", is_shared=True, size_enforced=False)),
        disk="960Gi",
    ),
    Case(
        id="users-claim-of-unknown-size",
        reason="only the cluster knows the size of a user's claim",
        choice=UserClaim(claim="mine"),
        disk="960Gi",
    ),
    Case(
        id="cache-of-another-model-with-the-same-bytes",
        reason="a ModelCache of another model is allowed if its weights are the same",
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
        ("", 1, "a new replica would wait for a download that cannot start"),
        ("pvc://weights/models/0123", 3, "the weights are already downloaded, so the size does not matter"),
    ],
)
def test_small_size_prevents_scaling_up_only_without_weights(serving_uri: str, replicas: int, reason: str) -> None:
    asked = model(profile(shape=shape()), disk="960Gi")
    there = with_service(placement("a"), serving_uri=serving_uri)
    choice = replace(CLAIM, size=GIB)
    request = SchedulingRequest(deployment=deployment(replicas=3), model=asked, storage_request=planner(asked, choice))
    decision = schedule(request, [environment("a", pool())], [there])
    assert [a.replicas for a in decision.assignments] == [replicas], reason


def test_a_request_without_storage_is_not_refused_for_it() -> None:
    """`modelplane size` asks without storage."""
    request = SchedulingRequest(deployment=deployment(), model=model(PREFIX_AWARE))
    assert isinstance(filter_environment(request, replace(ABLE, pools=(pool(),)), CapacityView(())), Assignment)


def test_a_running_placement_stays_where_the_picker_is_not_allowed_any_more() -> None:
    asked = model(PREFIX_AWARE)
    request = SchedulingRequest(deployment=deployment(), model=asked, storage_request=planner(asked))
    running = with_service(replace(placement("env"), shape=shape(2), has_served=True), ready_replicas=1)
    decision = schedule(request, [environment("env", pool())], [running])
    assert [a.placement for a in decision.assignments] == [running]
