"""Which state weights are in, the phase that it amounts to, and what is said of it."""

from dataclasses import dataclass, replace

import pytest

from function.domain.cache import CacheEntry
from function.domain.model import Problem, SecretKey
from function.domain.records.weights import DownloadRecord
from function.kube.manifests import JSON, Manifest
from function.reasons import Phase, PlacementStorage, Status
from function.remote.object_writer import ManagementPolicy
from function.remote.observed_object import ObservedObject, State
from function.status.weights import describe_storage
from function.weights.claim import ClaimPlan
from function.weights.credentials import SecretCopy
from function.weights.job import JobFailure
from function.weights.state import (
    DownloadState,
    WeightsFinding,
    WeightsState,
    describe_cache,
    describe_download,
    describe_unfilled,
    find_claim_obstacle,
    find_secret_obstacle,
)

TRUE, FALSE, UNKNOWN = Status.TRUE, Status.FALSE, Status.UNKNOWN
USERS = ClaimPlan(name="mine", namespace="lab", policy=ManagementPolicy.OBSERVE_ONLY)
OURS = ClaimPlan(name="ours", namespace="lab", policy=ManagementPolicy.FULL)
NAMED = replace(OURS, class_name="standard")
DOWN = ObservedObject(State.UNREACHABLE, {}, "dial tcp: refused")
NO_KUBECONFIG = ObservedObject(State.NO_CREDENTIALS, {}, "cannot get credentials")


def _claim(mode: str = "ReadWriteMany", phase: str = "Bound", uid: str = "1") -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "kimi", "uid": uid},
        "spec": {"accessModes": [mode], "storageClassName": "standard"},
        "status": {"phase": phase},
    }


def _job(status: Manifest) -> Manifest:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "fetch"}, "status": status}


def _there(manifest: Manifest) -> ObservedObject:
    return ObservedObject(State.PRESENT, manifest)


TOKEN = SecretCopy(name="copy", origin=SecretKey(name="t", namespace="ns", key="token"))
WHEN = "2026-01-01T00:00:00Z"
SUSPENDED: JSON = [{"type": "Suspended", "status": "True"}]
UNSEEN = ObservedObject(State.UNSEEN, {})
COMPLETE = _job({"conditions": [{"type": "Complete", "status": "True"}], "completionTime": "2026-01-01T00:00:00Z"})
FAILED = _job({"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}]})


@dataclass(frozen=True)
class Case:
    id: str
    state: WeightsState | None
    want: tuple[Status, PlacementStorage, Phase] | None
    words: tuple[str, ...] = ()


DONE = DownloadRecord(completed_at="2026-01-01T00:00:00Z")
CASES = (
    Case("unplannable",
         WeightsState(finding=WeightsFinding.UNPLANNABLE, problems=(Problem("spec.x.size", "must be given"),)),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("spec.x.size: must be given",)),
    Case("not-needed", WeightsState(finding=WeightsFinding.NOT_NEEDED),
         (TRUE, PlacementStorage.NOT_NEEDED, Phase.READY)),
    Case("prestaged", WeightsState(finding=WeightsFinding.PRESTAGED), (TRUE, PlacementStorage.PRESTAGED, Phase.READY)),
    Case("token-missing", find_secret_obstacle(TOKEN, ObservedObject(State.NO_REFERENCE, {})),
         (FALSE, PlacementStorage.TOKEN_MISSING, Phase.PENDING), ("ns/t", "does not exist")),
    Case("token-key-missing", find_secret_obstacle(TOKEN, ObservedObject(State.NO_REFERENCE_KEY, {}, "no such field")),
         (FALSE, PlacementStorage.TOKEN_MISSING, Phase.PENDING), ("lacks the key", "ns/t", "no such field")),
    Case("token-refused", find_secret_obstacle(TOKEN, ObservedObject(State.REJECTED, {}, "quota")),
         (FALSE, PlacementStorage.TOKEN_MISSING, Phase.PENDING), ("refused", "ns/t", "quota")),
    Case("token-odd-words", find_secret_obstacle(TOKEN, ObservedObject(State.UNRECOGNISED, {}, "odd")),
         (UNKNOWN, PlacementStorage.SYNC_FAILED, Phase.PENDING), ("ns/t", "odd")),
    Case("token-no-answer", find_secret_obstacle(TOKEN, DOWN), (UNKNOWN, PlacementStorage.UNREACHABLE, Phase.PENDING)),
    Case("claim-odd-words", find_claim_obstacle(OURS, ObservedObject(State.UNRECOGNISED, {}, "odd"), 2),
         (UNKNOWN, PlacementStorage.SYNC_FAILED, Phase.PENDING), ("east", "odd")),
    Case("own-claim-without-kind", find_claim_obstacle(USERS, ObservedObject(State.KIND_MISSING, {}, "odd"), 1),
         (UNKNOWN, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("odd",)),
    Case("job-odd-words", describe_download(ObservedObject(State.UNRECOGNISED, COMPLETE, "odd"), UNSEEN),
         (UNKNOWN, PlacementStorage.SYNC_FAILED, Phase.PENDING), ("odd",)),
    Case("job-webhook", describe_download(ObservedObject(State.WEBHOOK_FAILED, {}, "odd"), UNSEEN),
         (UNKNOWN, PlacementStorage.SYNC_FAILED, Phase.PENDING), ("webhook", "odd")),
    Case("token-there", find_secret_obstacle(TOKEN, _there({"kind": "Secret"})), None),
    Case("own-claim-missing", find_claim_obstacle(USERS, ObservedObject(State.ABSENT, {}), 1),
         (FALSE, PlacementStorage.CLAIM_NOT_FOUND, Phase.PENDING), ("mine", "lab", "create it")),
    Case("own-claim-unknown", find_claim_obstacle(USERS, UNSEEN, 1),
         (UNKNOWN, PlacementStorage.CLAIM_PENDING, Phase.PENDING)),
    Case("own-claim-exclusive", find_claim_obstacle(USERS, _there(_claim("ReadWriteOnce")), 2),
         (FALSE, PlacementStorage.CLAIM_NOT_SHARED, Phase.FAILED), ("ReadWriteOnce", "need ReadWriteMany")),
    Case("own-claim-without-mode", find_claim_obstacle(USERS, _there({"kind": "PersistentVolumeClaim"}), 2),
         (FALSE, PlacementStorage.CLAIM_NOT_SHARED, Phase.FAILED), (" is of no access mode, ",)),
    Case("own-claim-read-only", find_claim_obstacle(USERS, _there(_claim("ReadOnlyMany")), 2),
         (FALSE, PlacementStorage.CLAIM_NOT_SHARED, Phase.FAILED), ("ReadOnlyMany", "need ReadWriteMany")),
    Case("own-claim-exclusive-for-one-pod", find_claim_obstacle(USERS, _there(_claim("ReadWriteOnce")), 1),
         None),
    Case("own-claim-there", find_claim_obstacle(USERS, _there(_claim()), 2), None),
    Case("claim-refused", find_claim_obstacle(OURS, ObservedObject(State.REJECTED, {}, "quota"), 2),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("quota",)),
    Case("claim-no-answer", find_claim_obstacle(OURS, DOWN, 2),
         (UNKNOWN, PlacementStorage.UNREACHABLE, Phase.PENDING)),
    Case("claim-no-kubeconfig", find_claim_obstacle(OURS, NO_KUBECONFIG, 2),
         (UNKNOWN, PlacementStorage.UNREACHABLE, Phase.PENDING), ("credentials",)),
    Case("claim-of-ours", find_claim_obstacle(OURS, UNSEEN, 2), None),
    Case("job-no-answer", describe_download(DOWN, UNSEEN),
         (UNKNOWN, PlacementStorage.UNREACHABLE, Phase.PENDING)),
    Case("job-refused", describe_download(ObservedObject(State.REJECTED, {}, "no"), UNSEEN),
         (FALSE, PlacementStorage.DOWNLOAD_FAILED, Phase.FAILED), ("refused the Job", "no")),
    Case("job-not-there", describe_download(UNSEEN, UNSEEN),
         (FALSE, PlacementStorage.DOWNLOADING, Phase.DOWNLOADING), ("not started",)),
    Case("job-of-an-earlier-claim", describe_download(_there(COMPLETE), UNSEEN),
         (FALSE, PlacementStorage.DOWNLOADING, Phase.DOWNLOADING), ("not started",)),
    Case("claim-unbound", describe_download(_there(_job({})), _there(_claim(phase="Pending"))),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING),
         ("Claim kimi ", "(ReadWriteMany of class standard)", "not bound")),
    Case("claim-unbound-and-its-pod-waits",
         describe_download(_there(_job({"active": 1, "ready": 0})), _there(_claim(phase="Pending")), NAMED),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("of class standard)",)),
    Case("claim-of-the-default-class-unbound",
         describe_download(_there(_job({"active": 1, "ready": 0})), _there(_claim(phase="Pending")), OURS),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING),
         ("Claim kimi ", "(ReadWriteMany of class standard, the cluster's default)", "set storageClassName")),
    Case("claim-of-the-default-class-for-one-node",
         describe_download(_there(_job({})), _there(_claim("ReadWriteOnce", phase="Pending")), OURS),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("(ReadWriteOnce of class standard)",)),
    Case("claim-of-the-user-unbound",
         describe_download(_there(_job({})), _there(_claim(phase="Pending")), USERS),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("(ReadWriteMany of class standard)",)),
    Case("job-running", describe_download(_there(_job({"active": 1})), _there(_claim(phase="Pending"))),
         (FALSE, PlacementStorage.DOWNLOADING, Phase.DOWNLOADING), ("fetch", "running")),
    Case("job-without-pod", describe_download(_there(_job({"startTime": WHEN})), _there(_claim())),
         (FALSE, PlacementStorage.NO_POD, Phase.PENDING), ("Job fetch ", "has no pod", "quota", "describe job")),
    Case("job-without-pod-for-a-claim-that-waits-for-it",
         describe_download(_there(_job({"startTime": WHEN})), _there(_claim(phase="Pending"))),
         (FALSE, PlacementStorage.NO_POD, Phase.PENDING), ("has no pod",)),
    Case("job-whose-pod-failed", describe_download(_there(_job({"startTime": WHEN, "failed": 1})), _there(_claim())),
         (FALSE, PlacementStorage.DOWNLOADING, Phase.DOWNLOADING), ("failed attempts so far: 1",)),
    Case("job-suspended",
         describe_download(_there(_job({"startTime": WHEN, "conditions": SUSPENDED})), _there(_claim())),
         (FALSE, PlacementStorage.DOWNLOADING, Phase.DOWNLOADING), ("suspended",)),
    Case("job-failed", describe_download(_there(FAILED), _there(_claim())),
         (FALSE, PlacementStorage.DOWNLOAD_FAILED, Phase.FAILED),
         ("DeadlineExceeded", "activeDeadlineSeconds", "retry")),
    Case("hydrated", WeightsState(finding=WeightsFinding.HYDRATED, problems=(Problem("spec.x", "kept"),)),
         (TRUE, PlacementStorage.HYDRATED, Phase.READY), ("verified", "spec.x: kept")),
    Case("cache-without-entry", describe_cache(None, ""),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("east",)),
    Case("cache-ready", describe_cache(CacheEntry(environment="e", phase=Phase.READY, download=DONE), ""),
         (TRUE, PlacementStorage.HYDRATED, Phase.READY)),
    Case("cache-without-preload", describe_cache(CacheEntry(environment="e", phase=Phase.READY), ""),
         (TRUE, PlacementStorage.NOT_PRELOADED, Phase.READY)),
    Case("not-preloaded", describe_unfilled("mine", "models/0a1b"), (TRUE, PlacementStorage.NOT_PRELOADED, Phase.READY),
         ("preload is false, so nothing is downloaded; engines read models/0a1b of claim mine, which you must fill",)),
    Case("cache-no-answer",
         describe_cache(CacheEntry(environment="e", phase=Phase.READY, unreachable=True, message="No answer"), ""),
         (UNKNOWN, PlacementStorage.UNREACHABLE, Phase.PENDING), ("No answer",)),
    Case("cache-failed", describe_cache(CacheEntry(environment="e", phase=Phase.FAILED, message="full"), ""),
         (FALSE, PlacementStorage.DOWNLOAD_FAILED, Phase.FAILED), ("full",)),
    Case("cache-downloading", describe_cache(CacheEntry(environment="e", phase=Phase.DOWNLOADING), ""),
         (FALSE, PlacementStorage.DOWNLOADING, Phase.DOWNLOADING)),
    Case("cache-under-another-prefix",
         describe_cache(CacheEntry(environment="e", download=DownloadRecord(namespace="a-team")), "b-team"),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("a-team", "lab", "remoteNamespacePrefix")),
    Case("cache-pending", describe_cache(CacheEntry(environment="e", message="no claim"), ""),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("no claim",)),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_describes_state_of_weights(case: Case) -> None:
    state = case.state and replace(case.state, environment="east", namespace="lab")
    assert (state and (state.status, state.reason, state.phase)) == case.want
    assert all(word in describe_storage(state) for word in case.words) if state else not case.words


@pytest.mark.parametrize("failure", JobFailure)
@pytest.mark.parametrize("finding", WeightsFinding)
def test_every_finding_has_a_result_and_a_message(finding: WeightsFinding, failure: JobFailure) -> None:
    state = WeightsState(finding=finding, failure=failure, problems=(Problem("spec.x", "y"),))
    assert state.reason
    assert "{" not in describe_storage(state)


WANTED = DownloadRecord(claim="ours", path="models/0", namespace="lab", retry="2")
DONE = replace(WANTED, completed_at="2026-01-01T00:00:00Z", claim_uid="1")


@dataclass(frozen=True, kw_only=True)
class Latch:
    """A recorded download, the claim as observed now, and whether the weights still count as hydrated."""

    id: str
    reason: str
    earlier: DownloadRecord = DONE
    claim: ObservedObject = _there(_claim())
    holds: bool
    outdated: bool = False


LATCHES = (
    Latch(id="held", reason="the observed claim is the one that the download filled", holds=True),
    Latch(id="never", reason="no complete download is recorded", earlier=WANTED, holds=False),
    Latch(id="key", reason="the record is about other weights", earlier=replace(DONE, path="models/1"), holds=False),
    Latch(id="claim", reason="the record is about another claim", earlier=replace(DONE, claim="theirs"), holds=False),
    Latch(
        id="namespace",
        reason="the record is about a claim of the same name in another namespace",
        earlier=replace(DONE, namespace="x"),
        holds=False,
    ),
    Latch(
        id="retry",
        reason="the user has requested a retry of the download",
        earlier=replace(DONE, retry=""),
        holds=False,
    ),
    Latch(
        id="absent",
        reason="the claim with the weights is absent",
        claim=ObservedObject(State.ABSENT, _claim()),
        holds=False,
    ),
    Latch(
        id="no-namespace",
        reason="the claim is gone together with its namespace",
        claim=ObservedObject(State.NAMESPACE_MISSING, {}),
        holds=False,
    ),
    Latch(
        id="replaced",
        reason="another claim of the same name has replaced the claim that the download filled",
        claim=_there(_claim(uid="2")),
        holds=False,
        outdated=True,
    ),
    Latch(id="outage", reason="an outage does not show that the claim is gone", claim=DOWN, holds=True),
    Latch(
        id="earlier-release",
        reason="an earlier release recorded no uid, so that any uid is accepted",
        earlier=replace(DONE, claim_uid=""),
        claim=_there(_claim(uid="2")),
        holds=True,
    ),
)


@pytest.mark.parametrize("case", LATCHES, ids=lambda c: c.id)
def test_still_hydrated(case: Latch) -> None:
    state = DownloadState(recorded=case.earlier, wanted=WANTED, claim=case.claim, job=_there(COMPLETE))
    assert state.is_recorded is case.holds, case.reason
    assert state.is_outdated is case.outdated, case.reason


def test_next_hydration_status() -> None:
    first = DownloadState(recorded=DownloadRecord(), wanted=WANTED, claim=_there(_claim()), job=_there(COMPLETE))
    assert first.next_record == DONE
    assert replace(first, recorded=replace(DONE, claim_uid=""), job=UNSEEN).next_record == DONE
    replaced = replace(first, recorded=DONE, claim=_there(_claim(uid="2")))
    assert replaced.next_record == DONE, "the record is kept to distinguish the Job of the old claim from a new one"
    assert replace(first, recorded=replace(DONE, path="models/1"), job=UNSEEN).next_record == WANTED
    assert replace(first, recorded=DONE, job=None).next_record == WANTED, (
        "without a Job, no complete download is recorded"
    )
