"""How the weights of one model reach its pods on one environment: the case table.

No case has a builder of its own. A row says whose the claim is, whose the Job is and what the service waits
for; one claim builder and one Job builder fill that in.

An environment's Shared claim has the environment's size, class and access mode; what a deployment says
about a claim of its own does not apply to it. `preload: false` leaves out the Job and waits for nothing but
a claim that is not ours. An impossible request is refused with every fault.
"""

from dataclasses import dataclass, replace
from enum import Enum

from function.domain.cache import CacheChoice, NamedCache, UserClaim
from function.domain.environment import tolerations
from function.domain.model import HuggingFaceSource, OciSource, PvcSource, UriSource
from function.domain.pods import PullSecret, name_pull_secrets
from function.domain.settings import Initializer, Prepare
from function.kube import manifests, names
from function.kube.manifests import Manifest
from function.weights import cachekey, faults, job, scripts, sizing
from function.weights.credentials import Credential, credential
from function.weights.faults import StorageFault
from function.weights.initializer import initializer
from function.weights.request import Case, StorageRequest
from function.weights.sizing import Size
from function.weights.volume_claim import ClaimPlan, Ownership


class Gate(Enum):
    """What must be observed before the service is composed first."""

    NOTHING = "nothing"
    CLAIM = "the user's claim exists"
    JOB = "the Job is Complete"
    CACHE = "the ModelCache is Hydrated on this environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Whose claim and whose Job a case has, and what a service waits for where nothing is preloaded."""

    claim: Ownership
    job: Ownership
    without_preload: Gate


# The cases that write to a claim. The others compose neither claim nor Job.
CASES = {
    Case.USER_CLAIM: Row(claim=Ownership.OBSERVED, job=Ownership.RETAINED, without_preload=Gate.CLAIM),
    Case.SHARED: Row(claim=Ownership.RETAINED, job=Ownership.RETAINED, without_preload=Gate.NOTHING),
    Case.RETAINED: Row(claim=Ownership.RETAINED, job=Ownership.RETAINED, without_preload=Gate.NOTHING),
    Case.MANAGED: Row(claim=Ownership.MANAGED, job=Ownership.MANAGED, without_preload=Gate.NOTHING),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """The download Job, and how long it lives. `stem` begins its name, `pull_secrets` are the environment's.

    `scripts` is the ConfigMap that its pods mount.
    """

    name: str
    stem: str
    ownership: Ownership
    manifest: Manifest
    scripts: Manifest
    pull_secrets: tuple[PullSecret, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlan:
    """What to compose and what the service is told.

    `claim_name` and `path` are set wherever weights lie on a claim, whosever it is; `key` wherever they are
    downloaded. `credential` is what Job or initializer read, `each_pod` how many bytes the initializer of every pod
    fetches, where the model says it. `remarks` would be faults of other storage. `bound` is the best known
    one of the weights' bytes.
    """

    type: Case
    uri: str
    gate: Gate = Gate.NOTHING
    key: str = ""
    claim_name: str = ""
    path: str = ""
    claim: ClaimPlan | None = None
    job: JobPlan | None = None
    size: Size | None = None
    credential: Credential | None = None
    initializer: Initializer | None = None
    each_pod: int | None = None
    remarks: tuple[StorageFault, ...] = ()
    bound: int | None = None

    @property
    def on_claim(self) -> bool:
        """Whether engines read from a claim, whosever it is."""
        return bool(self.claim_name)


def plan(request: StorageRequest) -> StoragePlan | tuple[StorageFault, ...]:
    """Return how the weights get there, or every reason why they cannot."""
    found = faults.find_faults(request)
    if found:
        return found
    planned = _planned(request)
    return replace(planned, bound=request.bound, remarks=(*planned.remarks, *faults.find_unused_settings(request)))


def _planned(request: StorageRequest) -> StoragePlan:
    match request.model.source:
        case OciSource() as source:
            return StoragePlan(type=Case.OCI, uri=f"oci://{source.image}")
        case PvcSource() as source:
            path = source.path.strip("/")
            return StoragePlan(type=Case.PRESTAGED, uri=_uri(source.claim, path), claim_name=source.claim, path=path)
        case source:
            return _downloaded(request, source)


def _downloaded(request: StorageRequest, source: HuggingFaceSource | UriSource) -> StoragePlan:
    key = cachekey.key(source)
    if request.named:
        return StoragePlan(
            type=Case.MODEL_CACHE,
            uri=_uri(request.named.claim, request.named.path),
            gate=Gate.CACHE,
            key=key,
            claim_name=request.named.claim,
            path=request.named.path,
        )
    if request.case is Case.INITIALIZER:
        return _in_pod(request, source, key)
    return _on_claim(request, source, key)


def _in_pod(request: StorageRequest, source: HuggingFaceSource | UriSource, key: str) -> StoragePlan:
    secret = credential(source, request.download.token_secret, _secret_name(request, request.owner), lasting=True)
    return StoragePlan(
        type=Case.INITIALIZER,
        uri=cachekey.uri(source),
        key=key,
        credential=secret,
        initializer=initializer(request.download, source, secret),
        each_pod=request.model.disk,
    )


def _on_claim(request: StorageRequest, source: HuggingFaceSource | UriSource, key: str) -> StoragePlan:
    row, path = CASES[request.case], cachekey.directory(source)
    owned = row.claim is not Ownership.OBSERVED
    size = sizing.size(request.explicit_size, request.model, request.gpu_memory) if owned else None
    claim = ClaimPlan(
        name=_claim_name(request, key),
        namespace=request.namespace,
        ownership=row.claim,
        size=size.amount if size else 0,
        class_name=request.class_name,
        access_mode=request.access_mode,
    )
    preload, retry = _download_wishes(request.choice)
    fetched = _fetched(request, source, claim.name, retry) if preload else (None, None)
    return StoragePlan(
        type=request.case,
        uri=_uri(claim.name, path),
        gate=Gate.JOB if preload else row.without_preload,
        key=key,
        claim_name=claim.name,
        path=path,
        claim=claim,
        job=fetched[0],
        size=size,
        credential=fetched[1],
        remarks=() if request.environment.size_enforced else tuple(faults.find_small_claim(request)),
    )


def _fetched(
    request: StorageRequest, source: HuggingFaceSource | UriSource, claim: str, retry: str
) -> tuple[JobPlan, Credential | None]:
    key, ownership = cachekey.key(source), CASES[request.case].job
    # What several placements describe at once must not carry the name of one of them.
    stem = f"weights-{key}" if ownership is Ownership.RETAINED else request.owner
    # On a claim of the user's a Job and its token are of that claim: another one may be filled meanwhile.
    own = (claim,) if request.case is Case.USER_CLAIM else _kind(request, key)
    secret = credential(source, request.download.token_secret, _secret_name(request, stem, *own), lasting=False)
    pull_secrets = name_pull_secrets(request.pull_secrets, stem, request.namespace, *own)
    config_map = scripts.build(request.namespace, stem, key, *own)
    task = job.DownloadSpec(
        namespace=request.namespace,
        stem=stem,
        claim=claim,
        scripts=manifests.text(config_map, "metadata.name"),
        source=source,
        download=request.download,
        credential=secret,
        retry=retry,
        pull_secrets=tuple(each.name for each in pull_secrets),
        prepared=_prepared(request),
        node_selector=dict(request.near.labels) if request.near else {},
        tolerations=tuple(tolerations(request.near)) if request.near else (),
    )
    manifest = job.build(task)
    name = manifests.text(manifest, "metadata.name")
    planned = JobPlan(
        name=name,
        stem=stem,
        ownership=ownership,
        manifest=manifest,
        scripts=config_map,
        pull_secrets=pull_secrets,
    )
    return planned, secret


def _prepared(request: StorageRequest) -> bool:
    asked = request.download.prepare
    return asked is Prepare.ALWAYS or (asked is Prepare.AUTO and request.prepared)


def _download_wishes(choice: CacheChoice) -> tuple[bool, str]:
    """Return whether to preload, and the retry."""
    return (True, "") if isinstance(choice, NamedCache) else (choice.preload, choice.retry)


def _claim_name(request: StorageRequest, key: str) -> str:
    if isinstance(request.choice, UserClaim):
        return request.choice.claim
    match request.case:
        case Case.SHARED:
            return request.environment.shared_claim
        case Case.RETAINED:
            return names.build_name(f"weights-{key}", request.namespace, key)
        case _:
            return names.build_name(request.owner, request.namespace, *_kind(request, key), request.owner, key)


def _kind(request: StorageRequest, key: str) -> tuple[str, ...]:
    """Return what tells a ModelCache's own objects from those of a placement of its name, and from those that it has on
    another environment; earlier ones keep their names.
    """
    if not request.for_cache or request.case is not Case.MANAGED:
        return ()
    for earlier in ((), ("ModelCache",)):
        if names.build_name(request.owner, request.namespace, *earlier, request.owner, key) in request.existing:
            return earlier
    return "ModelCache", request.scope


def _secret_name(request: StorageRequest, stem: str, *owner: str) -> str:
    source = request.model.source
    secret = source.secret if isinstance(source, HuggingFaceSource | UriSource) else None
    identity = (secret.namespace, secret.name, secret.key) if secret else ()
    return names.build_name(stem, request.namespace, *owner, stem, "credential", *identity)


def _uri(claim: str, path: str) -> str:
    return f"pvc://{claim}/{path}".rstrip("/")
