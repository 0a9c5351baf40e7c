"""Plans how the weights of one model reach its pods on one environment: the case table.

No case has a builder of its own. A row defines who owns the claim and the Job; one claim builder and one Job builder
serve all rows.
"""

from dataclasses import dataclass, replace

from function.domain.cache import ModelCacheChoice, UserClaim
from function.domain.model import DownloadedSource, OciSource, PvcSource
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
    source = request.model.source
    plan = WeightsPlan(storage_type=request.storage_type, uri=source_uri(source), bound=request.weights_upper_bound)
    match source:
        case OciSource():
            return plan
        case PvcSource():
            claim = ClaimPlan(name=source.claim, namespace=request.namespace, policy=ManagementPolicy.OBSERVE_ONLY)
            return replace(plan, claim=claim, claim_name=source.claim, path=source.path.strip("/"))
    plan = replace(plan, key=cache_key(source))
    if entry := request.named_cache_entry:
        claim_name, path = entry.download.claim, entry.download.path
        return replace(plan, uri=claim_uri(claim_name, serving_path(source, path)), claim_name=claim_name, path=path)
    if request.storage_type is StorageType.EMPTY_DIR:
        credential = _plan_credential(request, source, request.owner)
        initializer = build_initializer(request.environment.storage.download, source, credential)
        return replace(plan, copies=credential.copies, initializer=initializer)
    return _plan_download(request, source, plan)


def name_claim(request: WeightsRequest) -> str:
    """Names the claim that a request downloads to, or that a source names; empty where there is none of its own."""
    source = request.model.source
    if isinstance(source, PvcSource):
        return source.claim
    if request.storage_type not in CASES or isinstance(source, OciSource):
        return ""
    if isinstance(request.choice, UserClaim):
        return request.choice.claim
    key = cache_key(source)
    if request.storage_type is StorageType.SHARED:
        return request.environment.storage.shared_claim
    if request.storage_type is StorageType.RETAINED:
        return names.build_name(f"weights-{key}", request.namespace, key)
    return names.build_name(request.owner, request.namespace, *_owner_identity(request), request.owner, key)


def _plan_download(request: WeightsRequest, source: DownloadedSource, plan: WeightsPlan) -> WeightsPlan:
    """Adds the claim, and unless the user fills it, the Job with its scripts and Secrets."""
    claim_policy, job_policy = CASES[request.storage_type]
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
    if isinstance(request.choice, ModelCacheChoice) or not request.choice.preload:
        return plan
    # Objects that several placements describe at once must not carry the name of one of them.
    stem = f"weights-{plan.key}" if job_policy is ManagementPolicy.RETAIN else request.owner
    # The Job for a user's claim, and its token, belong to that claim: another claim may be filled at the same time.
    owner = (plan.claim_name,) if request.storage_type is StorageType.USER_CLAIM else _owner_identity(request)
    download = request.environment.storage.download
    credential = _plan_credential(request, source, stem, *owner)
    pull_secrets = name_pull_secrets(request.environment.pull_secrets, stem, request.namespace, *owner)
    scripts = build_scripts(request.namespace, stem, plan.key, *owner)
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
            parts=count_parts(request.model) if job_policy is ManagementPolicy.FULL else 1,
        )
    )
    job = JobPlan(policy=job_policy, manifest=manifest, scripts=scripts)
    return replace(plan, job=job, copies=(*credential.copies, *list_pull_secret_copies(pull_secrets)))


def _owner_identity(request: WeightsRequest) -> tuple[str, ...]:
    """Returns what distinguishes a ModelCache's objects by environment, and from those of a namesake placement."""
    is_own = request.for_cache and request.storage_type is StorageType.MANAGED
    return ("ModelCache", request.environment.name) if is_own else ()


def _plan_credential(request: WeightsRequest, source: DownloadedSource, stem: str, *owner: str) -> Credential:
    secret = source.secret
    identity = (secret.namespace, secret.name, secret.key) if secret else ()
    name = names.build_name(stem, request.namespace, *owner, stem, "credential", *identity)
    return plan_credential(source, request.environment.storage.download.token_secret_name, name)
