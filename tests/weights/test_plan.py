"""The plan of weights for each kind of storage: claim, Job, URI, and whether the service waits."""

import re
from dataclasses import dataclass, replace

import pytest

from function.domain.cache import CacheType, CreatedStorage, ModelCacheChoice, UserClaim
from function.domain.environment import EnvironmentStorage
from function.domain.model import HuggingFaceSource, OciSource, PvcSource, SecretKey, UriSource
from function.domain.records.weights import DownloadRecord
from function.domain.settings import BUILT_IN
from function.kube import manifests
from function.remote.object_writer import ManagementPolicy
from function.weights.claim import Size, SizeFrom
from function.weights.faults import find_faults, list_remaining_faults
from function.weights.planner import WeightsPlan, plan_weights
from function.weights.request import StorageType as Row
from function.weights.request import WeightsRequest
from tests.support.weights_requests import (
    CACHE,
    GIB,
    KIMI,
    MULTI,
    SINGLE,
    model,
    named_cache,
    on_storage,
    with_download,
)
from tests.support.weights_scene import WHEN, list_policies, observe_composed, reconcile_observed

# printf '["hf://moonshotai/Kimi-K2-Instruct","main",[],[]]' | sha256sum
KEY = "e58d081b43957492"
SHARED = on_storage(EnvironmentStorage(class_name="nfs", is_shared=True, shared_size=2000 * GIB))
SECRET = SecretKey(name="hf-token", namespace="modelplane-system", key="HF_TOKEN")
GATED = replace(KIMI, secret=SECRET)


def planned(request: WeightsRequest) -> WeightsPlan:
    return plan_weights(request)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    request: WeightsRequest
    type: Row
    uri: str  # {claim} is the planned claim's name
    waits: bool  # whether the first service waits until something is observed
    claim: ManagementPolicy | None = None
    job: ManagementPolicy | None = None
    size: Size | None = None


ON_CLAIM = f"pvc://{{claim}}/models/{KEY}"
GPU_MEMORY = Size(amount=2256 * GIB, source=SizeFrom.GPU_MEMORY)  # 16 GPUs of 141Gi

CASES = (
    Case(
        "single-node",
        "KServe's own initializer downloads the weights for a single node",
        SINGLE,
        Row.EMPTY_DIR,
        "hf://moonshotai/Kimi-K2-Instruct:main",
        False,
    ),
    Case(
        "single-node-in-a-shared-environment",
        "a single node uses the shared claim only if the deployment requests a claim",
        replace(SINGLE, environment=SHARED),
        Row.EMPTY_DIR,
        "hf://moonshotai/Kimi-K2-Instruct:main",
        False,
    ),
    Case(
        "single-node-bucket",
        "KServe's initializer supports s3",
        replace(SINGLE, model=model(UriSource(uri="s3://b/m"))),
        Row.EMPTY_DIR,
        "s3://b/m",
        False,
    ),
    Case(
        "multi-node",
        "several nodes read the weights from one claim",
        MULTI,
        Row.MANAGED,
        ON_CLAIM,
        True,
        ManagementPolicy.FULL,
        ManagementPolicy.FULL,
        GPU_MEMORY,
    ),
    Case(
        "single-node-with-claim",
        "a single node has a claim if the deployment requests one",
        replace(SINGLE, choice=CreatedStorage(type=CacheType.PVC, size=60 * GIB)),
        Row.MANAGED,
        ON_CLAIM,
        True,
        ManagementPolicy.FULL,
        ManagementPolicy.FULL,
        Size(amount=60 * GIB, source=SizeFrom.EXPLICIT),
    ),
    Case(
        "single-node-over-https",
        "KServe's initializer does not support https, so that the weights need a claim",
        replace(SINGLE, model=model(UriSource(uri="https://m.example.com/m.gguf"), disk=9 * GIB)),
        Row.MANAGED,
        # printf '["https://m.example.com/m.gguf","",[],[]]' | sha256sum
        "pvc://{claim}/models/269e5644f3cce45f",
        True,
        ManagementPolicy.FULL,
        ManagementPolicy.FULL,
        Size(amount=9 * GIB, source=SizeFrom.DISK),
    ),
    Case(
        "single-node-in-a-folder",
        "KServe's initializer cannot serve a folder of a repository, so that the weights need a claim",
        replace(SINGLE, model=model(HuggingFaceSource(repo="a/b", path="fp8", allow=("fp8/*",)), disk=9 * GIB)),
        Row.MANAGED,
        # printf '["hf://a/b","main",["fp8/*"],[],"fp8"]' | sha256sum
        "pvc://{claim}/models/0dbe4643c4753ca2/fp8",
        True,
        ManagementPolicy.FULL,
        ManagementPolicy.FULL,
        Size(amount=9 * GIB, source=SizeFrom.DISK),
    ),
    Case(
        "retain",
        "a retained claim and its Job outlive the deployment",
        replace(MULTI, choice=CreatedStorage(retain=True)),
        Row.RETAINED,
        ON_CLAIM,
        True,
        ManagementPolicy.RETAIN,
        ManagementPolicy.RETAIN,
        GPU_MEMORY,
    ),
    Case(
        "shared",
        "a shared claim has the size that the environment sets, and is never deleted",
        replace(MULTI, environment=SHARED, choice=CreatedStorage(size=5 * GIB, class_name="mine")),
        Row.SHARED,
        ON_CLAIM,
        True,
        ManagementPolicy.RETAIN,
        ManagementPolicy.RETAIN,
        Size(amount=2000 * GIB, source=SizeFrom.EXPLICIT),
    ),
    Case(
        "users-claim",
        "the user's claim is only observed, and the function's Job fills it",
        replace(MULTI, environment=on_storage(EnvironmentStorage()), choice=UserClaim(claim="my-model-cache")),
        Row.USER_CLAIM,
        ON_CLAIM,
        True,
        ManagementPolicy.OBSERVE_ONLY,
        ManagementPolicy.RETAIN,
    ),
    Case(
        "users-claim-without-preload",
        "without preload, the user's claim must exist and no Job runs",
        replace(MULTI, choice=UserClaim(claim="my-model-cache", preload=False)),
        Row.USER_CLAIM,
        ON_CLAIM,
        True,
        ManagementPolicy.OBSERVE_ONLY,
    ),
    Case(
        "managed-without-preload",
        "without preload, the service does not wait for a claim that binds with the first pod",
        replace(MULTI, choice=CreatedStorage(preload=False)),
        Row.MANAGED,
        ON_CLAIM,
        False,
        ManagementPolicy.FULL,
        None,
        GPU_MEMORY,
    ),
    Case(
        "model-cache",
        "the ModelCache composes the claim and the Job",
        replace(MULTI, choice=ModelCacheChoice(name="kimi-weights"), named_cache=named_cache(f"models/{KEY}")),
        Row.MODEL_CACHE,
        f"pvc://c/models/{KEY}",
        True,
    ),
    Case(
        "for-a-model-cache",
        "a ModelCache has a claim, even if a single node reads it",
        replace(CACHE, choice=CreatedStorage(size=1100 * GIB)),
        Row.MANAGED,
        ON_CLAIM,
        True,
        ManagementPolicy.FULL,
        ManagementPolicy.FULL,
        Size(amount=1100 * GIB, source=SizeFrom.EXPLICIT),
    ),
    Case(
        "image",
        "the nodes pull the image, so that neither claim nor Job exists",
        replace(MULTI, model=model(OciSource(image="registry.example.com/m@sha256:0"))),
        Row.OCI,
        "oci://registry.example.com/m@sha256:0",
        False,
    ),
    Case(
        "pre-staged",
        "weights that are staged on a claim are not downloaded",
        replace(MULTI, model=model(PvcSource(claim="staged", path="/kimi/v1/"))),
        Row.PRESTAGED,
        "pvc://staged/kimi/v1",
        True,
        claim=ManagementPolicy.OBSERVE_ONLY,
    ),
    Case(
        "pre-staged-root",
        "without a path, the model is the root of the claim",
        replace(MULTI, model=model(PvcSource(claim="staged"))),
        Row.PRESTAGED,
        "pvc://staged",
        True,
        claim=ManagementPolicy.OBSERVE_ONLY,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_plans_each_row_of_the_case_table(case: Case) -> None:
    found = planned(case.request)
    assert found.storage_type is case.type, case.reason
    assert found.uri == case.uri.format(claim=found.claim_name), case.reason
    assert reconcile_observed(case.request, {}).service_may_read is not case.waits, case.reason
    assert (found.claim.policy if found.claim else None) is case.claim, case.reason
    assert (found.job.policy if found.job else None) is case.job, case.reason
    assert (found.claim.size if found.claim else None) == case.size, case.reason
    if found.job:
        volumes = manifests.listing(found.job.manifest, "spec.template.spec.volumes")
        assert volumes[0]["persistentVolumeClaim"] == {"claimName": found.claim_name}, case.reason


def test_plans_existing_claim_whose_class_is_unset() -> None:
    request = replace(MULTI, environment=on_storage(EnvironmentStorage()))
    faults = find_faults(request)
    assert [fault.field for fault in faults] == ["spec.modelCache.storageClassName"]
    assert list_remaining_faults(faults, claim_exists=False, weights_exist=False) == faults
    assert list_remaining_faults(faults, claim_exists=True, weights_exist=False) == ()
    assert planned(request).claim_name


def test_managed_names_belong_to_one_placement() -> None:
    mine, other = planned(MULTI), planned(replace(MULTI, owner="kimi-k2-other-5e6f7a8b"))
    assert mine.claim_name != other.claim_name
    assert mine.job
    assert other.job
    assert mine.job.name != other.job.name


@pytest.mark.parametrize(
    "asked",
    [
        replace(MULTI, choice=CreatedStorage(retain=True)),
        replace(MULTI, environment=SHARED),
        replace(MULTI, choice=UserClaim(claim="mine")),
    ],
)
def test_shares_names_of_retained_and_shared_objects(asked: WeightsRequest) -> None:
    gated = replace(asked, model=model(GATED))
    mine, other = planned(gated), planned(replace(gated, owner="kimi-k2-other-5e6f7a8b"))
    assert mine.claim_name == other.claim_name
    assert mine.job == other.job, "a re-created deployment must find the finished Job"
    assert mine.copies == other.copies, "the shared Job reads the copied Secret, so that its name is shared as well"


def test_names_objects_by_users_claim() -> None:
    asked = replace(MULTI, model=model(GATED), choice=UserClaim(claim="mine"))
    mine, other = planned(asked), planned(replace(asked, choice=UserClaim(claim="theirs")))
    assert mine.job
    assert other.job
    assert mine.job.name != other.job.name
    assert mine.copies != other.copies, (
        "each claim has its own Secret, because one may be filled while the other is not"
    )


def test_a_cache_and_a_placement_of_one_name_share_nothing() -> None:
    source = model(GATED, disk=GIB)
    placement, cache = replace(MULTI, model=source), replace(MULTI, model=source, for_cache=True)
    mine, other = planned(placement), planned(cache)
    assert mine.claim_name != other.claim_name
    assert mine.job
    assert other.job
    assert mine.job.name != other.job.name
    assert mine.copies != other.copies


def test_cache_has_own_claim_on_each_environment_of_one_cluster() -> None:
    """Otherwise, removing one environment from the cache would delete weights that services of the other one read."""
    cache = replace(MULTI, model=model(GATED, disk=GIB), for_cache=True)
    mine, other = (
        planned(replace(cache, environment=replace(cache.environment, name=name))) for name in ("east", "west")
    )
    assert mine.claim_name != other.claim_name
    assert mine.job
    assert other.job
    assert mine.job.name != other.job.name
    assert mine.copies != other.copies
    retained = replace(cache, choice=CreatedStorage(retain=True))
    assert planned(retained) == planned(replace(retained, environment=replace(cache.environment, name="west"))), (
        "environments of one cluster share retained objects"
    )


def test_names_are_dns_1035() -> None:
    odd = planned(replace(MULTI, owner="9-lives.of-a-placement-with-a-name-beyond-every-limit-that-there-is"))
    assert odd.job
    for name in (odd.claim_name, odd.job.name):
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
        assert len(name) <= 52


def test_new_revision_gets_a_directory_claim_and_job_beside_the_old() -> None:
    old, new = planned(MULTI), planned(replace(MULTI, model=model(replace(KIMI, revision="v2"))))
    assert old.job
    assert new.job
    assert len({old.key, new.key}) == len({old.claim_name, new.claim_name}) == len({old.path, new.path}) == 2
    assert old.job.name != new.job.name


@dataclass(frozen=True)
class ClassCase:
    id: str
    reason: str
    deployment: str | None
    environment: str | None
    want: str


CLASSES = (
    ClassCase("deployment", "the class of the deployment takes precedence", "a", "b", "a"),
    ClassCase("environment", "the class of the environment applies if the deployment sets none", None, "b", "b"),
    ClassCase(
        "empty-is-said", "an empty class of the deployment requests the default class of the cluster", "", "b", ""
    ),
)


@pytest.mark.parametrize("case", CLASSES, ids=lambda c: c.id)
def test_class(case: ClassCase) -> None:
    request = replace(
        MULTI,
        choice=CreatedStorage(class_name=case.deployment),
        environment=on_storage(EnvironmentStorage(class_name=case.environment)),
    )
    claim = planned(request).claim
    assert claim
    assert claim.class_name == case.want, case.reason


def test_shared_claim_is_the_environments_alone() -> None:
    own = CreatedStorage(class_name="mine", access_mode="ReadWriteOnce", size=GIB)
    claim = planned(replace(MULTI, environment=SHARED, choice=own)).claim
    assert claim
    assert (claim.name, claim.class_name, claim.access_mode) == ("model-cache", "nfs", "ReadWriteMany")


def test_keeps_token_of_pods_and_not_of_job() -> None:
    request = replace(SINGLE, model=model(GATED))
    (job,) = planned(replace(MULTI, model=model(GATED))).copies
    (pod,) = planned(request).copies
    assert (job.origin, pod.origin) == (SECRET, SECRET)
    complete = DownloadRecord(namespace=request.namespace, completed_at=WHEN)
    found = reconcile_observed(request, observe_composed(reconcile_observed(request, {}).composed), complete)
    assert list_policies(found.composed) == {"token": ManagementPolicy.FULL}


def test_environments_token_is_not_copied() -> None:
    request = with_download(replace(MULTI, model=model(GATED)), replace(BUILT_IN.download, token_secret_name="hub"))
    found = planned(request)
    assert found.copies == ()
    assert found.job
    assert "'secretKeyRef': {'name': 'hub'," in str(found.job.manifest)


def test_without_preload_no_token_is_needed() -> None:
    request = replace(MULTI, model=model(GATED), choice=CreatedStorage(preload=False))
    assert planned(request).copies == ()


def test_passes_all_settings_to_single_node_initializer() -> None:
    source = HuggingFaceSource(repo="a/b", secret=SECRET, ignore=("original/*",))
    found = planned(replace(SINGLE, model=model(source))).initializer
    assert found
    assert found.image == "kserve/storage-initializer:v0.20.0"
    assert found.resources == {"requests": {"cpu": "2", "memory": "8Gi"}}
    assert found.env_from == ()
    names = [entry["name"] for entry in found.env]
    assert "HF_TOKEN" in names
    assert "STORAGE_IGNORE_PATTERNS" in names


def test_single_node_bucket_credentials_are_variables() -> None:
    source = UriSource(uri="s3://b/m", secret=SECRET)
    found = planned(replace(SINGLE, model=model(source)))
    assert found.initializer
    (copy,) = found.copies
    assert found.initializer.env_from == ({"secretRef": {"name": copy.name}},)
