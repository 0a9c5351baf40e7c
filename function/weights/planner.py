"""Plans how the weights of one model reach its pods on one environment: the case table.

No case has a builder of its own. A row says who owns the claim and the Job and what the service waits for; one claim
builder and one Job builder fill that in.
"""

from dataclasses import dataclass, field, replace
from enum import Enum

from function.domain.cache import CacheChoice, ModelCache, ModelCacheChoice, UserClaim
from function.domain.environment import Environment, Pool
from function.domain.model import HuggingFaceSource, Model, OciSource, PvcSource, Shape, UriSource
from function.domain.pods import name_pull_secrets
from function.domain.settings import Initializer, Prepare
from function.kube import manifests, names
from function.kube.manifests import Manifest
from function.remote.object_writer import ManagementPolicy
from function.weights.claim import ClaimPlan, compute_size
from function.weights.credentials import SecretCopy, list_copies, plan_credential
from function.weights.faults import NOTHING_OBSERVED, StorageFault, find_faults, find_remarks, list_remaining_faults
from function.weights.job import DownloadSpec, build_initializer, build_job, build_scripts
from function.weights.request import (
    Case,
    ObservedStorage,
    StorageRequest,
    cache_key,
    claim_uri,
    model_directory,
    source_uri,
)


class Gate(Enum):
    """What must be observed before the service is composed first."""

    NOTHING = "nothing"
    CLAIM = "the user's claim exists"
    JOB = "the Job is Complete"
    CACHE = "the ModelCache is Hydrated on this environment"


@dataclass(frozen=True, slots=True)
class CaseRow:
    """Who owns the claim and the Job of a case, and so what is deleted with the placement or ModelCache.

    `OBSERVE_ONLY`: the user's, and never written. `FULL`: of one composite, and deleted with it. `RETAIN`: several
    composites may describe the same object, which outlives all of them.
    """

    claim: ManagementPolicy
    job: ManagementPolicy  # and of the token and the scripts that its pods read
    without_preload: Gate  # what the service waits for where `preload: false` leaves out the Job


# The cases that write to a claim. The others compose neither claim nor Job. When the last deployment goes, Crossplane
# deletes its placements and their Objects, and so every claim that is `FULL`; the others stay on the cluster.
CASES = {
    # The user's claim, which several placements may fill: it must exist before a service can mount it.
    Case.USER_CLAIM: CaseRow(
        claim=ManagementPolicy.OBSERVE_ONLY, job=ManagementPolicy.RETAIN, without_preload=Gate.CLAIM
    ),
    # One claim for all models of a namespace.
    Case.SHARED: CaseRow(claim=ManagementPolicy.RETAIN, job=ManagementPolicy.RETAIN, without_preload=Gate.NOTHING),
    # A claim for one model, which `retain: true` keeps for later placements of the same bytes.
    Case.RETAINED: CaseRow(claim=ManagementPolicy.RETAIN, job=ManagementPolicy.RETAIN, without_preload=Gate.NOTHING),
    # A claim for one placement or ModelCache.
    Case.MANAGED: CaseRow(claim=ManagementPolicy.FULL, job=ManagementPolicy.FULL, without_preload=Gate.NOTHING),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A download Job."""

    policy: ManagementPolicy
    manifest: Manifest
    scripts: Manifest  # the ConfigMap that its pods mount

    @property
    def name(self) -> str:
        """The name of the Job."""
        return manifests.text(self.manifest, "metadata.name")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePlan:
    """What to compose, and the URI that the service reads."""

    type: Case
    uri: str
    gate: Gate = Gate.NOTHING
    key: str = ""  # cache key; empty: nothing is downloaded
    claim_name: str = ""  # of the claim that the weights are on, if any, and their directory there
    path: str = ""
    claim: ClaimPlan | None = None
    job: JobPlan | None = None
    copies: tuple[SecretCopy, ...] = ()  # of Secrets that the Job or the initializer reads
    initializer: Initializer | None = None
    remarks: tuple[StorageFault, ...] = ()  # what would be a fault of other storage
    bound: int | None = None  # upper bound of the weights' bytes; None: unknown

    @property
    def bytes_on_claim(self) -> int | None:
        """Upper bound of the bytes that engines read from a claim; None: unknown, or there is no claim."""
        return self.bound if self.claim_name else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningResult:
    """A plan and the faults that speak against it."""

    plan: StoragePlan | None  # None: a fault rules it out, whatever exists
    faults: tuple[StorageFault, ...] = ()

    def accept(self, *, claim_exists: bool, weights_exist: bool) -> StoragePlan | None:
        """Returns the plan; None where a fault counts although the claim, or the weights on it, exist."""
        is_refused = list_remaining_faults(self.faults, claim_exists=claim_exists, weights_exist=weights_exist)
        return None if is_refused else self.plan


def plan_weights(request: StorageRequest, observed: ObservedStorage = NOTHING_OBSERVED) -> PlanningResult:
    """Plans the claim, the Job and the URI for one placement or ModelCache, and finds every fault of the request."""
    faults = find_faults(request, observed)
    if list_remaining_faults(faults, claim_exists=True, weights_exist=True):
        return PlanningResult(plan=None, faults=faults)
    match request.model.source:
        case OciSource() as source:
            plan = StoragePlan(type=Case.OCI, uri=source_uri(source))
        case PvcSource() as source:
            claim = ClaimPlan(name=source.claim, namespace=request.namespace, policy=ManagementPolicy.OBSERVE_ONLY)
            existing = _plan_existing(Case.PRESTAGED, source.claim, source.path.strip("/"))
            plan = replace(existing, gate=Gate.CLAIM, claim=claim)
        case source if entry := request.named_cache_entry:
            existing = _plan_existing(Case.MODEL_CACHE, entry.hydration.claim, entry.hydration.path)
            plan = replace(existing, gate=Gate.CACHE, key=cache_key(source))
        case source if request.case is Case.EMPTY_DIR:
            download, secret_name = request.environment.storage.download, _name_secret(request, request.owner)
            credential = plan_credential(source, download.token_secret_name, secret_name, is_lasting=True)
            plan = StoragePlan(
                type=Case.EMPTY_DIR,
                uri=source_uri(source),
                key=cache_key(source),
                copies=list_copies(credential),
                initializer=build_initializer(download, source, credential),
            )
        case source:
            plan = _plan_download(request, observed, source)
    bound, remarks = request.weights_upper_bound(observed), tuple(find_remarks(request, observed))
    return PlanningResult(plan=replace(plan, bound=bound, remarks=remarks), faults=faults)


def name_claim(request: StorageRequest) -> str:
    """Names the claim that a request downloads to, or that a source names; empty where there is none of its own."""
    source = request.model.source
    if isinstance(source, PvcSource):
        return source.claim
    if request.case not in CASES or isinstance(source, OciSource):
        return ""
    if isinstance(request.choice, UserClaim):
        return request.choice.claim
    key = cache_key(source)
    match request.case:
        case Case.SHARED:
            return request.environment.storage.shared_claim
        case Case.RETAINED:
            return names.build_name(f"weights-{key}", request.namespace, key)
        case _:
            return names.build_name(request.owner, request.namespace, *_owner_identity(request), request.owner, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentWeights:
    """The weights of one deployment on any environment: scheduling and planning make the same request of them."""

    model: Model
    choice: CacheChoice
    cache: ModelCache | None  # the one that the deployment names; None: there is none
    # No fault depends on these two.
    namespace: str = field(compare=False)  # on the remote cluster
    owner: str = field(compare=False)
    # Verdicts by everything that they depend on: a decision checks many pools and profiles of one environment.
    _verdicts: dict[tuple[object, ...], tuple[Environment, tuple[StorageFault, ...]]] = field(
        default_factory=dict, compare=False, repr=False, init=False
    )

    def find_faults(
        self, environment: Environment, pool: Pool, shape: Shape, replicas: int
    ) -> tuple[StorageFault, ...]:
        """Finds why there would be no storage for this many replicas."""
        key = (environment.name, pool.memory_per_gpu, shape.nodes, shape.gpus, replicas)
        verdict = self._verdicts.get(key)
        if verdict is None or verdict[0] is not environment:
            faults = find_faults(self.build_request(environment, pool, shape, replicas))
            self._verdicts[key] = verdict = environment, faults
        return verdict[1]

    def build_request(self, environment: Environment, pool: Pool, shape: Shape, replicas: int) -> StorageRequest:
        """Builds the request for this many replicas of a shape on a pool."""
        memory = pool.memory_per_gpu
        return StorageRequest(
            model=self.model,
            choice=self.choice,
            environment=environment,
            namespace=self.namespace,
            owner=self.owner,
            shape_nodes=shape.nodes,
            replicas=replicas,
            pool=pool,
            gpu_memory=None if memory is None else memory * shape.gpus,
            named_cache=self.cache,
        )


def _plan_existing(case: Case, claim: str, path: str) -> StoragePlan:
    return StoragePlan(type=case, uri=claim_uri(claim, path), claim_name=claim, path=path)


def _plan_download(
    request: StorageRequest, observed: ObservedStorage, source: HuggingFaceSource | UriSource
) -> StoragePlan:
    row, path = CASES[request.case], model_directory(source)
    is_created = row.claim is not ManagementPolicy.OBSERVE_ONLY
    claim = ClaimPlan(
        name=name_claim(request),
        namespace=request.namespace,
        policy=row.claim,
        size=compute_size(request.explicit_size, request.model, request.gpu_memory) if is_created else None,
        class_name=request.class_name,
        access_mode=request.access_mode,
    )
    plan = StoragePlan(
        type=request.case,
        uri=claim_uri(claim.name, path),
        gate=row.without_preload,
        key=cache_key(source),
        claim_name=claim.name,
        path=path,
        claim=claim,
    )
    if isinstance(request.choice, ModelCacheChoice) or not request.choice.preload:
        return plan
    # Objects that several placements describe at once must not carry the name of one of them.
    stem = f"weights-{plan.key}" if row.job is ManagementPolicy.RETAIN else request.owner
    # The Job for a user's claim, and its token, belong to that claim: another one may be filled at the same time.
    owner = (plan.claim_name,) if request.case is Case.USER_CLAIM else _owner_identity(request)
    download, secret_name = request.environment.storage.download, _name_secret(request, stem, *owner)
    credential = plan_credential(source, download.token_secret_name, secret_name, is_lasting=False)
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
            or (download.prepare is Prepare.AUTO and observed.write_refused),
            pool=request.node_local_pool(observed),
        )
    )
    job = JobPlan(policy=row.job, manifest=manifest, scripts=scripts)
    return replace(plan, gate=Gate.JOB, job=job, copies=list_copies(credential, pull_secrets))


def _owner_identity(request: StorageRequest) -> tuple[str, ...]:
    """Returns what distinguishes a ModelCache's objects from a placement's of its name, and between environments."""
    is_own = request.for_cache and request.case is Case.MANAGED
    return ("ModelCache", request.environment.name) if is_own else ()


def _name_secret(request: StorageRequest, stem: str, *owner: str) -> str:
    source = request.model.source
    secret = source.secret if isinstance(source, HuggingFaceSource | UriSource) else None
    identity = (secret.namespace, secret.name, secret.key) if secret else ()
    return names.build_name(stem, request.namespace, *owner, stem, "credential", *identity)
