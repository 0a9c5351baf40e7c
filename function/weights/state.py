"""The state of the weights on one environment, as data, from what was observed of claim, token and Job.

A download that was once observed complete stays complete for its weights and its claim, even if its Job is cleaned up.
It is incomplete again after a change of the cache key or of `retry`, or if the claim is gone (absent, or of another
uid).
"""

from dataclasses import dataclass, replace
from enum import Enum

from function.domain.cache import CacheEntry
from function.domain.model import Problem
from function.domain.records.weights import DownloadProgress, DownloadRecord
from function.kube.manifests import Manifest, get, integer, text
from function.reasons import Phase, PlacementStorage, Status
from function.remote.composed_kinds import assess
from function.remote.health import Level
from function.remote.object_writer import ManagementPolicy
from function.remote.observed_object import ObservedObject, State
from function.weights.claim import READ_WRITE_MANY, ClaimPlan, get_access_mode
from function.weights.credentials import SecretCopy
from function.weights.job import JobFailure, find_failure, is_without_pods
from function.weights.progress import follow_progress
from function.weights.request import StorageType


class WeightsFinding(Enum):
    """A finding, the first obstacle of several: its reason, and its message, which status/weights.py fills in."""

    NOT_NEEDED = PlacementStorage.NOT_NEEDED, "Each pod fetches its weights itself; no claim is needed"
    EMPTY_DIR = PlacementStorage.NOT_NEEDED, "Each pod fetches its weights itself: {redownload}"
    PRESTAGED = PlacementStorage.PRESTAGED, "The weights are pre-staged; no download is needed"
    NOT_PRELOADED = (
        PlacementStorage.NOT_PRELOADED,
        "preload is false, so nothing is downloaded; engines read {message} of claim {name}, which you must fill",
    )
    UNPLANNABLE = PlacementStorage.CLAIM_PENDING, "{problems}"
    TOKEN_MISSING = PlacementStorage.TOKEN_MISSING, "Secret {name} does not exist; create it"
    TOKEN_KEY_MISSING = PlacementStorage.TOKEN_MISSING, "Secret {name} lacks the key; add it: {message}"
    TOKEN_REFUSED = PlacementStorage.TOKEN_MISSING, "The cluster refused the copy of Secret {name}: {message}"
    TOKEN_UNKNOWN = PlacementStorage.UNREACHABLE, "The copy of Secret {name}: {obstacle}"
    CLAIM_REFUSED = PlacementStorage.CLAIM_PENDING, "The cluster refused claim {subject}: {message}"
    CLAIM_NOT_FOUND = (
        PlacementStorage.CLAIM_NOT_FOUND,
        "Claim {subject} does not exist; create it (no other claim is used instead)",
    )
    CLAIM_NOT_SEEN = PlacementStorage.CLAIM_PENDING, "Waiting for the cluster's answer about claim {subject}"
    CLAIM_NOT_SHARED = (
        PlacementStorage.CLAIM_NOT_SHARED,
        "Claim {subject} is {message}, and several nodes or replicas need ReadWriteMany",
    )
    CLAIM_TOO_SMALL = PlacementStorage.STORAGE_TOO_SMALL, "{problems}"
    CLAIM_NOT_BOUND = (
        PlacementStorage.CLAIM_PENDING,
        "Claim {subject} ({message}) is not bound yet; its events on the cluster say why",
    )
    CLAIM_OF_DEFAULT_CLASS = (
        PlacementStorage.CLAIM_PENDING,
        (
            "Claim {subject} ({message}, the cluster's default) is not bound yet. Many default classes cannot do "
            "ReadWriteMany: set storageClassName to one that can, then delete the claim"
        ),
    )
    UNKNOWN = PlacementStorage.UNREACHABLE, "{place}{obstacle}"
    SCRIPTS_REFUSED = (
        PlacementStorage.DOWNLOAD_FAILED,
        (
            "The cluster refused the ConfigMap with the download's scripts. Allow configmaps as "
            "install/remote-rbac.yaml does: {message}"
        ),
    )
    JOB_REFUSED = PlacementStorage.DOWNLOAD_FAILED, "The cluster refused the Job: {message}"
    JOB_FAILED = (
        PlacementStorage.DOWNLOAD_FAILED,
        "Job {name} failed ({failure}): {advice}. Then set {retry} to another value; files that are complete are kept",
    )
    JOB_NOT_STARTED = PlacementStorage.DOWNLOADING, "The download has not started yet"
    JOB_HELD_BACK = PlacementStorage.DOWNLOADING, "The download has not started yet: {message}"
    JOB_WITHOUT_POD = (
        PlacementStorage.NO_POD,
        (
            "Job {subject} has no pod, because the cluster refuses to create one: a quota of the namespace may be used "
            "up, a policy may forbid the pod, or its service account may be missing. kubectl describe job shows why"
        ),
    )
    JOB_RUNNING = PlacementStorage.DOWNLOADING, "Job {name}: {message}"
    HYDRATED = PlacementStorage.HYDRATED, "The weights are downloaded and verified"
    CACHE_NOT_SHARED = PlacementStorage.CLAIM_NOT_SHARED, "{problems}"
    CACHE_EMPTY = PlacementStorage.CLAIM_PENDING, "The ModelCache has nothing on environment {environment} yet"
    CACHE_IN_OTHER_NAMESPACE = (
        PlacementStorage.CLAIM_PENDING,
        (
            "The ModelCache has its weights in namespace {message} of environment {environment}, where it started "
            "under another remoteNamespacePrefix, and pods in namespace {namespace} cannot mount them; create another "
            "ModelCache and name that one"
        ),
    )
    CACHE_PENDING = PlacementStorage.CLAIM_PENDING, "The ModelCache reports: {message}"
    CACHE_DOWNLOADING = PlacementStorage.DOWNLOADING, "The ModelCache is downloading: {message}"
    CACHE_FAILED = PlacementStorage.DOWNLOAD_FAILED, "The ModelCache reports: {message}"
    CACHE_UNREACHABLE = PlacementStorage.UNREACHABLE, "The ModelCache reports: {message}"
    CACHE_HYDRATED = PlacementStorage.HYDRATED, "The ModelCache's weights are downloaded and verified"

    def __init__(self, reason: PlacementStorage, message: str) -> None:
        self.reason = reason
        self.message = message


_OF_CACHE = {
    Phase.FAILED: WeightsFinding.CACHE_FAILED,
    Phase.READY: WeightsFinding.CACHE_HYDRATED,
    Phase.DOWNLOADING: WeightsFinding.CACHE_DOWNLOADING,
}
_USABLE = frozenset(
    {PlacementStorage.NOT_NEEDED, PlacementStorage.PRESTAGED, PlacementStorage.NOT_PRELOADED, PlacementStorage.HYDRATED}
)
_FAILED = frozenset(
    {PlacementStorage.DOWNLOAD_FAILED, PlacementStorage.CLAIM_NOT_SHARED, PlacementStorage.STORAGE_TOO_SMALL}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsState:
    finding: WeightsFinding
    environment: str = ""
    namespace: str = ""  # on the cluster
    name: str = ""  # of the claim, Job or Secret that the finding is about
    message: str = ""  # of the cluster, the provider or the ModelCache
    failure: JobFailure | None = None  # of the Job
    bytes_per_pod: int | None = None  # that each pod downloads; None: unknown
    problems: tuple[Problem, ...] = ()  # what cannot be planned, or had to be left unchanged
    remote: ObservedObject = ObservedObject(State.UNSEEN, {})  # whose state is unknown
    remarks: tuple[Problem, ...] = ()  # worth knowing in every state
    for_cache: bool = False  # a ModelCache requests the weights, and no placement
    adapter: str = ""  # name of the adapter whose download it is; empty: the model's
    storage_type: StorageType | None = None  # of the plan, if there is one
    progress: DownloadProgress | None = None  # of a divided download

    @property
    def status(self) -> Status:
        if self.finding.reason is PlacementStorage.UNREACHABLE or self.finding is WeightsFinding.CLAIM_NOT_SEEN:
            return Status.UNKNOWN
        return Status.TRUE if self.finding.reason in _USABLE else Status.FALSE

    @property
    def reason(self) -> PlacementStorage:
        if self.finding in (WeightsFinding.UNKNOWN, WeightsFinding.TOKEN_UNKNOWN) and not self.remote.unreachable:
            return PlacementStorage.SYNC_FAILED
        return self.finding.reason

    @property
    def phase(self) -> Phase:
        if self.status is Status.TRUE:
            return Phase.READY
        if self.reason is PlacementStorage.DOWNLOADING:
            return Phase.DOWNLOADING
        return Phase.FAILED if self.reason in _FAILED else Phase.PENDING

    @property
    def unreachable(self) -> bool:
        """Tells whether the cluster gives no answer about the weights."""
        return self.reason in (PlacementStorage.UNREACHABLE, PlacementStorage.SYNC_FAILED)


def is_gone(claim: ObservedObject) -> bool:
    """Tells whether a claim is known not to exist."""
    return claim.state in (State.ABSENT, State.NAMESPACE_MISSING)


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadState:
    """A download as status records it, as it is planned, and as its claim and its Job are observed."""

    recorded: DownloadRecord
    wanted: DownloadRecord  # what status records once the plan is carried out
    claim: ObservedObject
    job: ObservedObject | None = None  # the Job that stands for the planned one; None: none is planned
    cache_claim_uid: str = ""  # of the claim of a ModelCache, which is not observed; empty: `claim` is
    bytes_total: int = 0  # declared bound of the weights' bytes; 0: unknown
    now: float = 0  # seconds since 1970

    @property
    def is_recorded(self) -> bool:
        """Tells whether the recorded download is of the wanted weights and `retry`, on a claim that still exists."""
        is_same = self._is_same_download and self.recorded.retry == self.wanted.retry
        return is_same and bool(self.recorded.completed_at) and not is_gone(self.claim) and not self._is_claim_replaced

    @property
    def completion_recorded(self) -> bool:
        """Tells whether completion is in status, so that later reconciles know it even if the Job is gone.

        A Job without a completion time leaves nothing to record.
        """
        return self.is_recorded or not self._completion_time

    @property
    def is_outdated(self) -> bool:
        """Tells whether a finished Job filled a claim that another claim of the same name has replaced since."""
        if not self._is_same_download or not self._is_claim_replaced:
            return False
        return bool(self.recorded.completed_at) and self.recorded.completed_at == self._completion_time

    @property
    def is_hydrated(self) -> bool:
        """Tells whether the planned Job, or an earlier recorded Job, has filled the existing claim."""
        if self.job is None:
            return False
        is_complete = assess(self.job.manifest).up and not self.is_outdated and not is_gone(self.claim)
        return is_complete or self.is_recorded

    @property
    def progress(self) -> DownloadProgress | None:
        """How far the Job is; None once the weights are complete, and where the download is not divided."""
        if self.job is None or self.is_hydrated:
            return None
        if self.job.state_unknown:
            return self.recorded.progress
        if assess(self.job.manifest).level is not Level.PROGRESSING:  # failed, or complete for an earlier claim
            return None
        return follow_progress(self.recorded.progress, self.job.manifest, self.bytes_total, self.now)

    @property
    def next_record(self) -> DownloadRecord:
        """What status records next: this completion, or the earlier one while it is of the same weights."""
        if not self.is_hydrated:
            record = self.recorded if self.job and self._is_same_download else self.wanted
            return replace(record, progress=self.progress)
        if self.is_recorded:
            uid = self.recorded.claim_uid or self._claim_uid
            return replace(self.recorded, claim_uid=uid, namespace=self.wanted.namespace, progress=None)
        return replace(self.wanted, completed_at=self._completion_time, claim_uid=self._claim_uid)

    @property
    def _completion_time(self) -> str:
        return text(self.job.manifest, "status.completionTime") if self.job else ""

    @property
    def _claim_uid(self) -> str:
        return self.cache_claim_uid or text(self.claim.manifest, "metadata.uid")

    @property
    def _is_same_download(self) -> bool:
        recorded, wanted = self.recorded, self.wanted
        is_same_namespace = recorded.namespace in ("", wanted.namespace)
        return is_same_namespace and (recorded.claim, recorded.path) == (wanted.claim, wanted.path)

    @property
    def _is_claim_replaced(self) -> bool:
        return bool(self._claim_uid and self.recorded.claim_uid) and self._claim_uid != self.recorded.claim_uid


def find_secret_obstacle(copy: SecretCopy, remote: ObservedObject) -> WeightsState | None:
    if remote.state is State.NO_REFERENCE:
        finding = WeightsFinding.TOKEN_MISSING
    elif remote.state is State.NO_REFERENCE_KEY:
        finding = WeightsFinding.TOKEN_KEY_MISSING
    elif remote.refused:
        finding = WeightsFinding.TOKEN_REFUSED
    elif remote.state_unknown:
        finding = WeightsFinding.TOKEN_UNKNOWN
    else:
        return None
    return WeightsState(finding=finding, name=copy.label, message=remote.message, remote=remote)


def find_claim_obstacle(plan: ClaimPlan, claim: ObservedObject, pods: int) -> WeightsState | None:
    """Finds what is wrong with the claim, if anything; `pods` is the number of pods that mount the claim at once."""
    message = claim.message
    if claim.state_unknown:
        finding = WeightsFinding.UNKNOWN
    elif claim.refused:
        finding = WeightsFinding.CLAIM_REFUSED
    elif plan.policy is not ManagementPolicy.OBSERVE_ONLY and not claim.present:
        return None
    elif claim.state is State.ABSENT:
        finding = WeightsFinding.CLAIM_NOT_FOUND
    elif not claim.present:
        finding = WeightsFinding.CLAIM_NOT_SEEN
    elif pods > 1 and get_access_mode(claim.manifest) != READ_WRITE_MANY:
        finding = WeightsFinding.CLAIM_NOT_SHARED
        message = get_access_mode(claim.manifest) or "of no access mode"
    else:
        return None
    return WeightsState(finding=finding, name=plan.name, message=message, remote=claim)


def describe_download(job: ObservedObject, claim: ObservedObject, plan: ClaimPlan | None = None) -> WeightsState:
    """Describes a download that has not been observed complete yet; `plan` is the plan of its claim."""
    name = text(job.manifest, "metadata.name")
    message = job.message
    failure = None
    health = assess(job.manifest)
    if job.state_unknown:
        finding = WeightsFinding.UNKNOWN
    elif health.level is Level.FAILED:
        finding = WeightsFinding.JOB_FAILED
        failure = find_failure(job.manifest) or JobFailure.UNKNOWN
    elif job.refused:
        finding = WeightsFinding.JOB_REFUSED
    elif is_without_pods(job.manifest):
        finding = WeightsFinding.JOB_WITHOUT_POD  # also where the claim is not bound: its class may wait for that pod
    elif claim.seen and not assess(claim.manifest).up and not _is_running(job.manifest):
        name = text(claim.manifest, "metadata.name")
        mode = get_access_mode(claim.manifest)
        class_name = text(claim.manifest, "spec.storageClassName")
        message = f"{mode} of {f'class {class_name}' if class_name else 'no class'}"
        is_of_default_class = plan is not None and plan.is_of_default_class and mode == READ_WRITE_MANY
        finding = WeightsFinding.CLAIM_OF_DEFAULT_CLASS if is_of_default_class else WeightsFinding.CLAIM_NOT_BOUND
    elif not name or health.up:
        finding = WeightsFinding.JOB_NOT_STARTED
    else:
        finding, message = WeightsFinding.JOB_RUNNING, health.message
    return WeightsState(finding=finding, name=name, message=message, failure=failure, remote=job)


def _is_running(job: Manifest) -> bool:
    """Tells whether a pod of a Job runs, and so has mounted the claim; true if `status.ready` is not reported."""
    return bool(integer(job, "status.active")) and get(job, "status.ready") != 0


def describe_unfilled(claim: str, path: str) -> WeightsState:
    """Describes weights that the function does not download: whether they are there is not known."""
    return WeightsState(finding=WeightsFinding.NOT_PRELOADED, name=claim, message=path)


def describe_cache(entry: CacheEntry | None, namespace: str) -> WeightsState:
    """Describes what a ModelCache last reported of its weights on one environment, for pods of a remote namespace."""
    if entry is None:
        return WeightsState(finding=WeightsFinding.CACHE_EMPTY)
    if not entry.is_mountable_from(namespace):
        return WeightsState(finding=WeightsFinding.CACHE_IN_OTHER_NAMESPACE, message=entry.download.namespace)
    is_known = not entry.unreachable or entry.phase is Phase.FAILED
    finding = _OF_CACHE.get(entry.phase, WeightsFinding.CACHE_PENDING) if is_known else WeightsFinding.CACHE_UNREACHABLE
    if finding is WeightsFinding.CACHE_HYDRATED and not entry.download.completed_at:
        # A ModelCache with `preload: false` downloads nothing.
        return describe_unfilled(entry.download.claim, entry.download.path)
    return WeightsState(finding=finding, message=entry.message)
