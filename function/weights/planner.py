"""Plans how the weights of one model reach its pods on one environment: the case table.

No case has a builder of its own. A row defines who owns the claim and the Job; one claim builder and one Job builder
serve all rows. An adapter has the row of the model beside which it is served: its Job writes to the same claim.
"""

from dataclasses import dataclass, replace

from function.domain.cache import ModelCacheChoice, UserClaim
from function.domain.model import AdapterBase, DownloadedSource, OciSource, PvcSource
from function.domain.pods import name_pull_secrets
from function.domain.settings import Initializer, Prepare
from function.kube import manifests, names
from function.kube.manifests import Manifest
from function.remote.object_writer import ManagementPolicy
from function.weights.claim import ClaimPlan
from function.weights.credentials import Credential, SecretCopy, list_pull_secret_copies, plan_credential
from function.weights.job import DownloadSpec, build_initializer, build_job, build_scripts
from function.weights.progress import count_parts
from function.weights.request import (
    CREATED_CLAIM,
    StorageType,
    WeightsRequest,
    cache_key,
    claim_uri,
    label_weights,
    model_directory,
    serving_path,
    source_uri,
)

# The owners of the claim, and of the Job with its token and scripts, in the cases that write to a claim; other cases
# compose neither. `OBSERVE_ONLY`: the user owns the object, and the function never writes it. `FULL`: one composite
# owns the object, which is deleted with it. `RETAIN`: several composites may describe the same object, which outlives
# them. When the last deployment is deleted, Crossplane deletes its placements and their Objects, and thereby every
# `FULL` claim; other claims stay on the cluster.
CASES = {
    # The user's claim, which several placements may fill.
    StorageType.USER_CLAIM: (ManagementPolicy.OBSERVE_ONLY, ManagementPolicy.RETAIN),
    # One claim for all models of a namespace.
    StorageType.SHARED: (ManagementPolicy.RETAIN, ManagementPolicy.RETAIN),
    # A claim for one model, which `retain: true` keeps for later placements of the same bytes.
    StorageType.RETAINED: (ManagementPolicy.RETAIN, ManagementPolicy.RETAIN),
    # A claim for one placement or ModelCache.
    StorageType.MANAGED: (ManagementPolicy.FULL, ManagementPolicy.FULL),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    policy: ManagementPolicy
    manifest: Manifest
    scripts: Manifest  # the ConfigMap that its pods mount

    @property
    def name(self) -> str:
        return manifests.text(self.manifest, "metadata.name")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsPlan:
    """What to compose, and the URI that the service reads."""

    storage_type: StorageType
    uri: str
    key: str = ""  # cache key; empty: nothing is downloaded
    claim_name: str = ""  # of the claim that the weights are on, if any, and their directory there
    path: str = ""
    claim: ClaimPlan | None = None
    job: JobPlan | None = None
    copies: tuple[SecretCopy, ...] = ()  # of Secrets that the Job or the initializer reads
    initializer: Initializer | None = None
    bound: int | None = None  # upper bound of the weights' bytes; None: unknown

    @property
    def bytes_on_claim(self) -> int | None:
        """Upper bound of the bytes that engines read from a claim; None: unknown, or there is no claim."""
        return self.bound if self.claim_name else None


def plan_weights(request: WeightsRequest) -> WeightsPlan:
    """Plans the claim, the Job and the URI for one placement or ModelCache.

    The request may have only faults that do not count if the claim and the weights exist.
    """
    source = request.source
    bound = None if request.adapter else request.weights_upper_bound
    plan = WeightsPlan(storage_type=request.storage_type, uri=source_uri(source), bound=bound)
    match source:
        case OciSource():
            return plan
        case PvcSource():
            claim = ClaimPlan(name=source.claim, namespace=request.namespace, policy=ManagementPolicy.OBSERVE_ONLY)
            return replace(plan, claim=claim, claim_name=source.claim, path=source.path.strip("/"))
    plan = replace(plan, key=cache_key(source))
    if request.adapter:
        return _plan_download(request, source, plan)
    if entry := request.named_cache_entry:
        claim_name, path = entry.download.claim, entry.download.path
        return replace(plan, uri=claim_uri(claim_name, serving_path(source, path)), claim_name=claim_name, path=path)
    if request.storage_type is StorageType.EMPTY_DIR:
        credential = _plan_credential(request, source, request.owner)
        initializer = build_initializer(request.environment.storage.download, source, credential)
        return replace(plan, copies=credential.copies, initializer=initializer)
    return _plan_download(request, source, plan)


def plan_adapters(request: WeightsRequest, model: WeightsPlan, max_rank: int) -> tuple[WeightsRequest, ...]:
    """Returns a request for each adapter of a request that is downloaded, to the claim of the planned model."""
    source = request.model.source
    if not isinstance(source, DownloadedSource) or not model.claim_name:
        return ()
    base = AdapterBase(key=model.key, path=serving_path(source, model.path), max_rank=max_rank)
    return tuple(
        replace(request, adapter=replace(adapter, source=replace(adapter.source, base=base)))
        for adapter in request.adapters
        if isinstance(adapter.source, DownloadedSource)
    )


def name_claim(request: WeightsRequest) -> str:
    """Names the claim that a request downloads to, or that a source names; empty where there is none of its own."""
    source = request.model.source
    if isinstance(source, PvcSource):
        return source.claim
    if request.adapter and request.named_cache_entry:
        return request.named_cache_entry.download.claim
    if request.storage_type not in CASES or isinstance(source, OciSource):
        return ""
    if isinstance(request.choice, UserClaim):
        return request.choice.claim
    key = cache_key(source)
    if request.storage_type is StorageType.SHARED:
        return request.environment.storage.shared_claim
    if request.storage_type is StorageType.RETAINED:
        return names.build_name(f"weights-{key}", request.namespace, key)
    owner = _owner_identity(replace(request, adapter=None))
    return names.build_name(request.owner, request.namespace, *owner, request.owner, key)


def _plan_download(request: WeightsRequest, source: DownloadedSource, plan: WeightsPlan) -> WeightsPlan:
    """Adds the claim, and unless the user fills it, the Job with its scripts and Secrets.

    An adapter goes to a claim that exists, which may be the one of a ModelCache or one that the user fills.
    """
    claim_policy, job_policy = CASES.get(request.storage_type, CASES[StorageType.USER_CLAIM])
    path = model_directory(source)
    claim = ClaimPlan(
        name=name_claim(request),
        namespace=request.namespace,
        policy=claim_policy,
        size=request.claim_size,
        class_name=request.class_name,
        access_mode=request.access_mode,
        labels=() if request.storage_type is StorageType.SHARED else tuple(label_weights(source).items()),
    )
    uri = claim_uri(claim.name, serving_path(source, path))
    plan = replace(plan, uri=uri, claim_name=claim.name, path=path, claim=claim)
    if isinstance(request.choice, ModelCacheChoice):
        # Of its claims, only those on which it already has the model are known here.
        plan = replace(plan, claim=None)
    is_filled_by_others = isinstance(request.choice, ModelCacheChoice) or not request.choice.preload
    if is_filled_by_others and not request.adapter:
        return plan
    # Objects that several placements describe at once must not carry the name of one of them.
    stem = f"weights-{plan.key}" if job_policy is ManagementPolicy.RETAIN else request.owner
    # The Job for a user's claim, and its token, belong to that claim: another claim may be filled at the same time.
    is_created = request.storage_type in CREATED_CLAIM
    owner = _owner_identity(request, plan.key) if is_created else (plan.claim_name,)
    download = request.environment.storage.download
    credential = _plan_credential(request, source, stem, *owner)
    pull_secrets = name_pull_secrets(request.environment.pull_secrets, stem, request.namespace, *owner)
    scripts = build_scripts(request.namespace, stem, plan.key, *owner, for_adapter=request.adapter is not None)
    manifest = build_job(
        DownloadSpec(
            namespace=request.namespace,
            stem=stem,
            claim=plan.claim_name,
            scripts=manifests.text(scripts, "metadata.name"),
            source=source,
            download=download,
            credential=credential,
            retry=request.retry,
            pull_secrets=tuple(secret.name for secret in pull_secrets),
            is_prepared=download.prepare is Prepare.ALWAYS
            or (download.prepare is Prepare.AUTO and request.write_refused),
            pool=request.node_local_pool,
            parts=1 if request.adapter or job_policy is not ManagementPolicy.FULL else count_parts(request.model),
        )
    )
    job = JobPlan(policy=job_policy, manifest=manifest, scripts=scripts)
    return replace(plan, job=job, copies=(*credential.copies, *list_pull_secret_copies(pull_secrets)))


def _owner_identity(request: WeightsRequest, key: str = "") -> tuple[str, ...]:
    """Returns what distinguishes objects from those of a namesake.

    A ModelCache may have the name of a placement, and has objects on several environments. An adapter has objects of
    the same kinds as its model, by its cache key.
    """
    if request.storage_type is not StorageType.MANAGED:
        return ()
    if request.for_cache:
        return ("ModelCache", request.environment.name)
    return ("adapter", key) if request.adapter else ()


def _plan_credential(request: WeightsRequest, source: DownloadedSource, stem: str, *owner: str) -> Credential:
    secret = source.secret
    identity = (secret.namespace, secret.name, secret.key) if secret else ()
    name = names.build_name(stem, request.namespace, *owner, stem, "credential", *identity)
    return plan_credential(source, request.environment.storage.download.token_secret_name, name)
