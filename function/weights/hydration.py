"""Which state weights are in, from what was observed of claim, token and Job, and for how long it holds.

A download that was once seen complete stays complete for its bytes and its claim, also when its Job is cleaned up:
what ends that is another key, another `retry`, or a claim that is gone (absent, or there under another uid).
"""

from dataclasses import replace

from function.domain.cache import CacheEntry, Hydration
from function.domain.model import Problem
from function.kube.manifests import integer, text
from function.reasons import Phase
from function.remote.health import Level, assess
from function.remote.observed_object import ObservedObject, State
from function.weights.failures import Failure, failure
from function.weights.plan import StoragePlan
from function.weights.state import Finding, StorageState
from function.weights.volume_claim import ClaimPlan, Ownership, mode, shared

_GONE = frozenset({State.ABSENT, State.NAMESPACE_MISSING})


def gone(claim: ObservedObject) -> bool:
    """Tell whether a claim is known not to be there."""
    return claim.state in _GONE


def holds(earlier: Hydration, wanted: Hydration, claim: ObservedObject) -> bool:
    """Tell whether what was seen complete earlier is what is wanted, and still there."""
    same = _same_bytes(earlier, wanted) and earlier.retry == wanted.retry
    return same and bool(earlier.completed_at) and not gone(claim) and not _replaced(earlier, claim)


def told(earlier: Hydration, wanted: Hydration, claim: ObservedObject, job: ObservedObject | None) -> bool:
    """Tell whether what was seen complete is remembered, so that every later call knows; of a Job that does not say
    when it ended there is nothing to remember.
    """
    return holds(earlier, wanted, claim) or not completion(job)


def outdated(earlier: Hydration, wanted: Hydration, claim: ObservedObject, job: ObservedObject) -> bool:
    """Tell whether a finished Job filled a claim that has been replaced since by another of its name."""
    if not _same_bytes(earlier, wanted) or not _replaced(earlier, claim):
        return False
    return bool(earlier.completed_at) and earlier.completed_at == completion(job)


def completion(job: ObservedObject | None) -> str:
    """Return when a Job ended, empty where it has not."""
    return text(job.manifest, "status.completionTime") if job else ""


def latch(
    earlier: Hydration, wanted: Hydration, claim: ObservedObject, job: ObservedObject | None, *, done: bool
) -> Hydration:
    """Return what to remember: this completion, or the earlier one for as long as it is about the same bytes."""
    if not done:
        return earlier if _same_bytes(earlier, wanted) else wanted
    uid = text(claim.manifest, "metadata.uid")
    if holds(earlier, wanted, claim):
        return replace(earlier, claim_uid=earlier.claim_uid or uid, namespace=wanted.namespace)
    return replace(wanted, completed_at=completion(job), claim_uid=uid)


def _same_bytes(earlier: Hydration, wanted: Hydration) -> bool:
    # What was remembered before namespaces were was of the only one.
    here = earlier.namespace in ("", wanted.namespace)
    return here and (earlier.claim, earlier.path) == (wanted.claim, wanted.path)


def _replaced(earlier: Hydration, claim: ObservedObject) -> bool:
    uid = text(claim.manifest, "metadata.uid")
    return bool(uid and earlier.claim_uid) and uid != earlier.claim_uid


_TOKENS = {State.NO_REFERENCE: Finding.TOKEN_MISSING, State.NO_REFERENCE_KEY: Finding.TOKEN_KEY_MISSING}


def of_token(remote: ObservedObject, secret: str) -> StorageState | None:
    """Return what is wrong with the copy of a token, if anything; `secret` names it on the control plane."""
    finding = _TOKENS.get(remote.state)
    if remote.refused:
        finding = Finding.TOKEN_REFUSED
    elif remote.state_unknown:
        finding = Finding.TOKEN_SILENT
    return StorageState(finding=finding, name=secret, said=remote.message, remote=remote) if finding else None


def of_claim(plan: ClaimPlan, remote: ObservedObject, environment: str, pods: int) -> StorageState | None:
    """Return what stands in the way on the claim's side, if anything; `pods` are those that mount it at once."""
    about = StorageState(
        finding=Finding.SILENT,
        environment=environment,
        namespace=plan.namespace,
        name=plan.name,
        said=remote.message,
        remote=remote,
    )
    if remote.state_unknown:
        return about
    if remote.refused:
        return replace(about, finding=Finding.CLAIM_REFUSED)
    if plan.ownership is not Ownership.OBSERVED and not remote.present:
        return None
    if remote.state is State.ABSENT:
        return replace(about, finding=Finding.CLAIM_NOT_FOUND)
    if not remote.present:
        return replace(about, finding=Finding.CLAIM_NOT_SEEN)
    if not shared(remote.manifest, pods):
        return replace(about, finding=Finding.CLAIM_NOT_SHARED, said=mode(remote.manifest) or "of no access mode")
    return None


def of_download(job: ObservedObject, claim: ObservedObject, environment: str) -> StorageState:
    """Return how the download goes that has not been seen complete yet."""
    about = StorageState(
        finding=Finding.SILENT,
        environment=environment,
        name=text(job.manifest, "metadata.name"),
        said=job.message,
        remote=job,
    )
    health = assess(job.manifest)
    if job.state_unknown:
        return about
    if health.level is Level.FAILED:
        return replace(about, finding=Finding.JOB_FAILED, cause=failure(job.manifest) or Failure.UNKNOWN)
    if job.refused:
        return replace(about, finding=Finding.JOB_REFUSED)
    if claim.seen and not assess(claim.manifest).up and not integer(job.manifest, "status.active"):
        return replace(about, finding=Finding.CLAIM_NOT_BOUND)
    if not about.name or health.up:
        return replace(about, finding=Finding.JOB_NOT_STARTED)
    return replace(about, finding=Finding.JOB_RUNNING, said=health.message)


def hydrated(planned: StoragePlan, obstacle: StorageState | None, remarks: tuple[Problem, ...]) -> StorageState:
    """Return the state of bytes that are there: what the cluster refuses to change about their claim is a remark."""
    refused = obstacle and obstacle.finding is Finding.CLAIM_REFUSED
    more = (Problem(f"claim {planned.claim_name}", obstacle.said),) if obstacle and refused else ()
    return StorageState(finding=Finding.HYDRATED, problems=(*remarks, *more))


def of_cache(entry: CacheEntry | None, environment: str) -> StorageState:
    """Return what a ModelCache knows of its bytes on one environment."""
    about = StorageState(finding=Finding.CACHE_EMPTY, environment=environment, said=entry.message if entry else "")
    if entry is None:
        return about
    if entry.phase is Phase.FAILED:
        return replace(about, finding=Finding.CACHE_FAILED)
    if entry.unreachable:
        return replace(about, finding=Finding.CACHE_UNREACHABLE)
    match entry.phase:
        case Phase.READY:
            return replace(about, finding=Finding.CACHE_HYDRATED)
        case Phase.DOWNLOADING:
            return replace(about, finding=Finding.CACHE_DOWNLOADING)
        case _:
            return replace(about, finding=Finding.CACHE_PENDING)
