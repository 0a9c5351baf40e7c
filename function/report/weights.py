"""What is said of weights on one environment: the claim, the token, the download, and what to do about a failure.

ModelPlacement says it as StorageReady, ModelCache in one row for each environment; the same records, the same words.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from function.domain.cache import CacheEntry
from function.domain.problem import Problem
from function.kube.manifests import Manifest, integer, text
from function.observe.health import Level, assess
from function.observe.objects import ObservedObject, State
from function.reasons import Phase, PlacementStorage, Status
from function.report import storage_faults
from function.report.objects import obstacle
from function.storage.checks import FaultKind, StorageFault
from function.storage.failures import Failure, failure
from function.storage.volume_claim import ClaimPlan, Ownership, shared

ADVICE: Mapping[Failure, str] = {
    Failure.UNAUTHORISED: "the source refused access: check the token, and that its owner may read the repository",
    Failure.NOT_FOUND: "the source does not know the repository, revision or file: correct the model's source",
    Failure.DISK_FULL: "the claim is full: raise modelCache.size or the model's spec.resources.disk",
    Failure.NOT_WRITABLE: "user and group 1000 may not write to the claim: correct its permissions",
    Failure.INCOMPLETE: "files are missing or truncated after the download: check the repository and the patterns",
    Failure.RATE_LIMITED: "the source keeps limiting the rate: use a token or a mirror, or wait",
    Failure.UNREACHABLE: "the source cannot be reached from the cluster: check proxies, mirrors and its network",
    Failure.KILLED: "the download was killed, most often for memory: raise storage.download.resources",
    Failure.UNKNOWN: "the pod's log says why",
    Failure.DEADLINE_EXCEEDED: "storage.download.activeDeadlineSeconds passed: raise it, or check the network's speed",
    Failure.EXHAUSTED: "every attempt was ended from outside (eviction, node loss): look at the pod's events",
}


@dataclass(frozen=True, slots=True)
class StorageState:
    """The state of weights in words: a condition without its type."""

    status: Status
    reason: PlacementStorage
    message: str

    @property
    def phase(self) -> Phase:
        """The phase that the state amounts to."""
        if self.status is Status.TRUE:
            return Phase.READY
        if self.reason is PlacementStorage.DOWNLOADING:
            return Phase.DOWNLOADING
        if self.reason in {PlacementStorage.DOWNLOAD_FAILED, PlacementStorage.CLAIM_NOT_SHARED}:
            return Phase.FAILED
        return Phase.PENDING


def unplannable(faults: tuple[StorageFault, ...]) -> StorageState:
    """Return what is said where no plan can be made for want of a class or for a contradiction."""
    unshared = any(fault.kind is FaultKind.CACHE_NOT_SHARED for fault in faults)
    reason = PlacementStorage.CLAIM_NOT_SHARED if unshared else PlacementStorage.CLAIM_PENDING
    return StorageState(Status.FALSE, reason, "; ".join(str(storage_faults.problem(fault)) for fault in faults))


def unneeded(*, prestaged: bool) -> StorageState:
    """Return what is said where nothing is downloaded by us."""
    if prestaged:
        return StorageState(
            Status.TRUE,
            PlacementStorage.PRESTAGED,
            "The weights are used where they are; nothing is downloaded",
        )
    return StorageState(
        Status.TRUE, PlacementStorage.NOT_NEEDED, "Each pod fetches its weights itself; no claim is needed"
    )


def token(remote: ObservedObject, secret: str) -> StorageState | None:
    """Return what is wrong with the copy of a token, if anything; `secret` names it on the control plane."""
    match remote.state:
        case State.NO_REFERENCE:
            return StorageState(
                Status.FALSE, PlacementStorage.TOKEN_MISSING, f"Create Secret {secret}: it does not exist"
            )
        case State.NO_REFERENCE_KEY:
            message = f"Add the key to Secret {secret}: {remote.message}"
            return StorageState(Status.FALSE, PlacementStorage.TOKEN_MISSING, message)
        case _ if remote.refused:
            message = f"The cluster refused the copy of Secret {secret}: {remote.message}"
            return StorageState(Status.FALSE, PlacementStorage.TOKEN_MISSING, message)
        case _ if remote.silent:
            return _unknown(f"The copy of Secret {secret}", remote)
        case _:
            return None


def claim(plan: ClaimPlan, remote: ObservedObject, environment: str, nodes: int) -> StorageState | None:
    """Return what stands in the way on the claim's side, if anything."""
    where = f"claim {plan.name} in namespace {plan.namespace} of environment {environment}"
    if remote.silent:
        return silent(environment, remote)
    if remote.refused:
        return StorageState(
            Status.FALSE, PlacementStorage.CLAIM_PENDING, f"The cluster refused {where}: {remote.message}"
        )
    if plan.ownership is not Ownership.OBSERVED:
        return None
    if remote.state is State.ABSENT:
        message = f"{where} does not exist; create it. Nothing else is used in its place"
        return StorageState(Status.FALSE, PlacementStorage.CLAIM_NOT_FOUND, message[0].upper() + message[1:])
    if not remote.present:
        waits = obstacle(remote) or f"Waits for the cluster's answer about {where}"
        return StorageState(Status.UNKNOWN, PlacementStorage.CLAIM_PENDING, waits)
    if not shared(remote.manifest, nodes):
        message = f"{where} is not ReadWriteMany, and {nodes} nodes need it; use a ReadWriteMany claim"
        return StorageState(Status.FALSE, PlacementStorage.CLAIM_NOT_SHARED, message[0].upper() + message[1:])
    return None


def download(
    job: ObservedObject, claim_: ObservedObject, environment: str, remarks: tuple[Problem, ...]
) -> StorageState:
    """Return how the download goes."""
    if job.silent:
        return silent(environment, job)
    health = assess(job.manifest)
    if health.up:
        said = "; ".join(["The weights are downloaded and verified", *map(str, remarks)])
        return StorageState(Status.TRUE, PlacementStorage.HYDRATED, said)
    if health.level is Level.FAILED:
        return StorageState(Status.FALSE, PlacementStorage.DOWNLOAD_FAILED, _failed(job.manifest))
    if job.refused:
        return StorageState(
            Status.FALSE, PlacementStorage.DOWNLOAD_FAILED, f"The cluster refused the Job: {job.message}"
        )
    if claim_.seen and not assess(claim_.manifest).up and not integer(job.manifest, "status.active"):
        return StorageState(
            Status.FALSE,
            PlacementStorage.CLAIM_PENDING,
            f"Environment {environment}: the claim is not bound yet",
        )
    name = text(job.manifest, "metadata.name")
    message = f"Job {name}: {health.message}" if name else "The download has not started yet"
    return StorageState(Status.FALSE, PlacementStorage.DOWNLOADING, message)


def used_as_it_is(remote: ObservedObject, environment: str) -> StorageState:
    """Return what is said of a claim that is used without a download of ours."""
    if remote.silent:
        return silent(environment, remote)
    return unneeded(prestaged=True)


def cached(entry: CacheEntry | None, environment: str) -> StorageState:
    """Return what a ModelCache says about its bytes on one environment."""
    if entry is None:
        return StorageState(
            Status.FALSE,
            PlacementStorage.CLAIM_PENDING,
            f"The ModelCache has nothing on environment {environment} yet",
        )
    match entry.phase:
        case Phase.READY:
            return StorageState(
                Status.TRUE, PlacementStorage.HYDRATED, "The ModelCache's weights are downloaded and verified"
            )
        case Phase.FAILED:
            return StorageState(Status.FALSE, PlacementStorage.DOWNLOAD_FAILED, f"The ModelCache says: {entry.message}")
        case Phase.DOWNLOADING:
            return StorageState(Status.FALSE, PlacementStorage.DOWNLOADING, "The ModelCache is downloading")
        case _:
            return StorageState(Status.FALSE, PlacementStorage.CLAIM_PENDING, f"The ModelCache says: {entry.message}")


def silent(environment: str, remote: ObservedObject) -> StorageState:
    """Return what is said while nothing is learned from a cluster."""
    return _unknown(f"Environment {environment}", remote)


def _unknown(subject: str, remote: ObservedObject) -> StorageState:
    reason = PlacementStorage.UNREACHABLE if remote.out_of_reach else PlacementStorage.SYNC_FAILED
    return StorageState(Status.UNKNOWN, reason, f"{subject}: {obstacle(remote)}")


def _failed(job: Manifest) -> str:
    cause = failure(job) or Failure.UNKNOWN
    return (
        f"Job {text(job, 'metadata.name')} failed ({cause}): {ADVICE[cause]}. Then set another "
        "modelCache.retry; what is downloaded already is kept"
    )
