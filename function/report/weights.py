"""What is said of weights on one environment: the claim, the token, the download, and what to do about a failure.

ModelPlacement says it as StorageReady, ModelCache in one row for each environment; the same records, the same words.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from function.domain.cache import CacheEntry
from function.domain.problem import Problem
from function.kube.manifests import Manifest, integer, text
from function.reasons import Phase, PlacementStorage, Status
from function.report.health import Level, assess
from function.report.sync import Remote, State
from function.storage.causes import Cause, failure
from function.storage.claim import ClaimPlan, Ownership, shared

ADVICE: Mapping[Cause, str] = {
    Cause.UNAUTHORISED: "the source refused access: check the token, and that its owner may read the repository",
    Cause.NOT_FOUND: "the source does not know the repository, revision or file: correct the model's source",
    Cause.DISK_FULL: "the claim is full: raise modelCache.size or the model's spec.resources.disk",
    Cause.NOT_WRITABLE: "user and group 1000 may not write to the claim: correct its permissions",
    Cause.INCOMPLETE: "files are missing or truncated after the download: check the repository and the patterns",
    Cause.RATE_LIMITED: "the source keeps limiting the rate: use a token or a mirror, or wait",
    Cause.UNREACHABLE: "the source cannot be reached from the cluster: check proxies, mirrors and its network",
    Cause.KILLED: "the download was killed, most often for memory: raise storage.download.resources",
    Cause.UNKNOWN: "the pod's log says why",
    Cause.DEADLINE_EXCEEDED: "storage.download.activeDeadlineSeconds passed: raise it, or check the network's speed",
    Cause.EXHAUSTED: "every attempt was ended from outside (eviction, node loss): look at the pod's events",
}


@dataclass(frozen=True, slots=True)
class Said:
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


def unplannable(problems: tuple[Problem, ...]) -> Said:
    """Return what is said where no plan can be made for want of a class or for a contradiction."""
    return Said(Status.FALSE, PlacementStorage.CLAIM_PENDING, "; ".join(map(str, problems)))


def unneeded(*, prestaged: bool) -> Said:
    """Return what is said where nothing is downloaded by us."""
    if prestaged:
        return Said(
            Status.TRUE,
            PlacementStorage.PRESTAGED,
            "The weights are used where they are; nothing is downloaded",
        )
    return Said(Status.TRUE, PlacementStorage.NOT_NEEDED, "Each pod fetches its weights itself; no claim is needed")


def token(remote: Remote, secret: str) -> Said | None:
    """Return what is wrong with the copy of a token, if anything; `secret` names it on the control plane."""
    match remote.state:
        case State.NO_REFERENCE:
            return Said(Status.FALSE, PlacementStorage.TOKEN_MISSING, f"Create Secret {secret}: it does not exist")
        case State.NO_REFERENCE_KEY:
            message = f"Add the key to Secret {secret}: {remote.message}"
            return Said(Status.FALSE, PlacementStorage.TOKEN_MISSING, message)
        case _:
            return None


def claim(plan: ClaimPlan, remote: Remote, environment: str, nodes: int) -> Said | None:
    """Return what stands in the way on the claim's side, if anything."""
    where = f"claim {plan.name} in namespace {plan.namespace} of environment {environment}"
    if remote.state is State.UNREACHABLE:
        return unreachable(environment, remote)
    if remote.state is State.REJECTED:
        return Said(Status.FALSE, PlacementStorage.CLAIM_PENDING, f"The cluster refused {where}: {remote.message}")
    if plan.ownership is not Ownership.OBSERVED:
        return None
    if remote.state is State.ABSENT:
        message = f"{where} does not exist; create it. Nothing else is used in its place"
        return Said(Status.FALSE, PlacementStorage.CLAIM_NOT_FOUND, message[0].upper() + message[1:])
    if not remote.present:
        return Said(Status.UNKNOWN, PlacementStorage.CLAIM_PENDING, f"Waits for the cluster's answer about {where}")
    if not shared(remote.manifest, nodes):
        message = f"{where} is not ReadWriteMany, and {nodes} nodes need it; use a ReadWriteMany claim"
        return Said(Status.FALSE, PlacementStorage.CLAIM_NOT_SHARED, message[0].upper() + message[1:])
    return None


def download(job: Remote, claim_: Remote, environment: str, remarks: tuple[Problem, ...]) -> Said:
    """Return how the download goes."""
    if job.state is State.UNREACHABLE:
        return unreachable(environment, job)
    health = assess(job.manifest)
    if health.up:
        said = "; ".join(["The weights are downloaded and verified", *map(str, remarks)])
        return Said(Status.TRUE, PlacementStorage.HYDRATED, said)
    if health.level is Level.FAILED:
        return Said(Status.FALSE, PlacementStorage.DOWNLOAD_FAILED, _failed(job.manifest))
    if job.state is State.REJECTED:
        return Said(Status.FALSE, PlacementStorage.DOWNLOAD_FAILED, f"The cluster refused the Job: {job.message}")
    if claim_.seen and not assess(claim_.manifest).up and not integer(job.manifest, "status.active"):
        return Said(
            Status.FALSE,
            PlacementStorage.CLAIM_PENDING,
            f"Environment {environment}: the claim is not bound yet",
        )
    name = text(job.manifest, "metadata.name")
    message = f"Job {name}: {health.message}" if name else "The download has not started yet"
    return Said(Status.FALSE, PlacementStorage.DOWNLOADING, message)


def used_as_it_is(remote: Remote, environment: str) -> Said:
    """Return what is said of a claim that is used without a download of ours."""
    if remote.state is State.UNREACHABLE:
        return unreachable(environment, remote)
    return unneeded(prestaged=True)


def cached(entry: CacheEntry | None, environment: str) -> Said:
    """Return what a ModelCache says about its bytes on one environment."""
    if entry is None:
        return Said(
            Status.FALSE,
            PlacementStorage.CLAIM_PENDING,
            f"The ModelCache has nothing on environment {environment} yet",
        )
    match entry.phase:
        case Phase.READY:
            return Said(Status.TRUE, PlacementStorage.HYDRATED, "The ModelCache's weights are downloaded and verified")
        case Phase.FAILED:
            return Said(Status.FALSE, PlacementStorage.DOWNLOAD_FAILED, f"The ModelCache says: {entry.message}")
        case Phase.DOWNLOADING:
            return Said(Status.FALSE, PlacementStorage.DOWNLOADING, "The ModelCache is downloading")
        case _:
            return Said(Status.FALSE, PlacementStorage.CLAIM_PENDING, f"The ModelCache says: {entry.message}")


def unreachable(environment: str, remote: Remote) -> Said:
    """Return what is said while a cluster does not answer."""
    return Said(
        Status.UNKNOWN,
        PlacementStorage.UNREACHABLE,
        f"No answer from environment {environment}: {remote.message}",
    )


def _failed(job: Manifest) -> str:
    cause = failure(job) or Cause.UNKNOWN
    return (
        f"Job {text(job, 'metadata.name')} failed ({cause}): {ADVICE[cause]}. Then set another "
        "modelCache.retry; what is downloaded already is kept"
    )
