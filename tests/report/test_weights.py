"""What is said of weights on one environment, and the phase that it amounts to."""

from dataclasses import dataclass

import pytest

from function.domain.cache import CacheEntry
from function.domain.problem import Problem
from function.kube.manifests import Manifest
from function.observe.objects import ObservedObject, State
from function.reasons import Phase, PlacementStorage, Status
from function.report import weights
from function.report.weights import StorageState
from function.storage.checks import FaultKind, StorageFault
from function.storage.failures import Failure
from function.storage.volume_claim import ClaimPlan, Ownership

TRUE, FALSE, UNKNOWN = Status.TRUE, Status.FALSE, Status.UNKNOWN
USERS = ClaimPlan(name="mine", namespace="lab", ownership=Ownership.OBSERVED)
OURS = ClaimPlan(name="ours", namespace="lab", ownership=Ownership.MANAGED)
DOWN = ObservedObject(State.UNREACHABLE, {}, "dial tcp: refused")


def _claim(mode: str = "ReadWriteMany", phase: str = "Bound") -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "spec": {"accessModes": [mode]},
        "status": {"phase": phase},
    }


def _job(status: Manifest) -> Manifest:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "fetch"}, "status": status}


def _there(manifest: Manifest) -> ObservedObject:
    return ObservedObject(State.PRESENT, manifest)


UNSEEN = ObservedObject(State.UNSEEN, {})
COMPLETE = _job({"conditions": [{"type": "Complete", "status": "True"}]})
FAILED = _job({"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}]})


@dataclass(frozen=True)
class Case:
    id: str
    said: StorageState | None
    want: tuple[Status, PlacementStorage, Phase] | None
    words: tuple[str, ...] = ()


CASES = (
    Case("unplannable", weights.unplannable((StorageFault(kind=FaultKind.SIZE, field="spec.modelCache.size"),)),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("spec.modelCache.size: must be given",)),
    Case("cache-of-one-pod", weights.unplannable((StorageFault(kind=FaultKind.CACHE_NOT_SHARED, field="x", nodes=2),)),
         (FALSE, PlacementStorage.CLAIM_NOT_SHARED, Phase.FAILED), ("2 nodes need",)),
    Case("not-needed", weights.unneeded(prestaged=False), (TRUE, PlacementStorage.NOT_NEEDED, Phase.READY)),
    Case("prestaged", weights.unneeded(prestaged=True), (TRUE, PlacementStorage.PRESTAGED, Phase.READY)),
    Case("token-missing", weights.token(ObservedObject(State.NO_REFERENCE, {}), "ns/t"),
         (FALSE, PlacementStorage.TOKEN_MISSING, Phase.PENDING), ("ns/t", "does not exist")),
    Case("token-key-missing", weights.token(ObservedObject(State.NO_REFERENCE_KEY, {}, "no such field"), "ns/t"),
         (FALSE, PlacementStorage.TOKEN_MISSING, Phase.PENDING), ("Add the key", "ns/t", "no such field")),
    Case("token-refused", weights.token(ObservedObject(State.REJECTED, {}, "quota"), "ns/t"),
         (FALSE, PlacementStorage.TOKEN_MISSING, Phase.PENDING), ("refused", "ns/t", "quota")),
    Case("token-odd-words", weights.token(ObservedObject(State.UNRECOGNISED, {}, "odd"), "ns/t"),
         (UNKNOWN, PlacementStorage.SYNC_FAILED, Phase.PENDING), ("ns/t", "odd")),
    Case("token-no-answer", weights.token(DOWN, "ns/t"), (UNKNOWN, PlacementStorage.UNREACHABLE, Phase.PENDING)),
    Case("token-there", weights.token(_there({"kind": "Secret"}), "ns/t"), None),
    Case("own-claim-missing", weights.claim(USERS, ObservedObject(State.ABSENT, {}), "east", 1),
         (FALSE, PlacementStorage.CLAIM_NOT_FOUND, Phase.PENDING), ("mine", "lab", "east", "create it")),
    Case("own-claim-unknown", weights.claim(USERS, UNSEEN, "east", 1),
         (UNKNOWN, PlacementStorage.CLAIM_PENDING, Phase.PENDING)),
    Case("own-claim-exclusive", weights.claim(USERS, _there(_claim("ReadWriteOnce")), "east", 2),
         (FALSE, PlacementStorage.CLAIM_NOT_SHARED, Phase.FAILED), ("not ReadWriteMany", "2 nodes")),
    Case("own-claim-exclusive-on-one-node", weights.claim(USERS, _there(_claim("ReadWriteOnce")), "east", 1), None),
    Case("own-claim-there", weights.claim(USERS, _there(_claim()), "east", 2), None),
    Case("claim-refused", weights.claim(OURS, ObservedObject(State.REJECTED, {}, "quota"), "east", 2),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("quota",)),
    Case("claim-no-answer", weights.claim(OURS, DOWN, "east", 2), (UNKNOWN, PlacementStorage.UNREACHABLE,
         Phase.PENDING)),
    Case("claim-odd-words", weights.claim(OURS, ObservedObject(State.UNRECOGNISED, {}, "odd"), "east", 2),
         (UNKNOWN, PlacementStorage.SYNC_FAILED, Phase.PENDING), ("east", "odd")),
    Case("own-claim-conflict", weights.claim(USERS, ObservedObject(State.KIND_MISSING, {}, "odd"), "east", 1),
         (UNKNOWN, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("odd",)),
    Case("claim-of-ours", weights.claim(OURS, UNSEEN, "east", 2), None),
    Case("job-no-answer", weights.download(DOWN, UNSEEN, "east", ()),
         (UNKNOWN, PlacementStorage.UNREACHABLE, Phase.PENDING)),
    Case("job-odd-words", weights.download(ObservedObject(State.UNRECOGNISED, COMPLETE, "odd"), UNSEEN, "east", ()),
         (UNKNOWN, PlacementStorage.SYNC_FAILED, Phase.PENDING), ("odd",)),
    Case("job-webhook", weights.download(ObservedObject(State.WEBHOOK_FAILED, {}, "odd"), UNSEEN, "east", ()),
         (UNKNOWN, PlacementStorage.SYNC_FAILED, Phase.PENDING), ("webhook", "odd")),
    Case("job-conflict", weights.download(ObservedObject(State.CONFLICT, COMPLETE, "odd"), UNSEEN, "east", ()),
         (TRUE, PlacementStorage.HYDRATED, Phase.READY), ("verified",)),
    Case("job-refused", weights.download(ObservedObject(State.REJECTED, {}, "no"), UNSEEN, "east", ()),
         (FALSE, PlacementStorage.DOWNLOAD_FAILED, Phase.FAILED), ("refused the Job", "no")),
    Case("job-not-there", weights.download(UNSEEN, UNSEEN, "east", ()),
         (FALSE, PlacementStorage.DOWNLOADING, Phase.DOWNLOADING), ("not started",)),
    Case("claim-unbound", weights.download(_there(_job({})), _there(_claim(phase="Pending")), "east", ()),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("not bound",)),
    Case("job-running", weights.download(_there(_job({"active": 1})), _there(_claim(phase="Pending")), "east", ()),
         (FALSE, PlacementStorage.DOWNLOADING, Phase.DOWNLOADING), ("fetch", "running")),
    Case("job-complete", weights.download(_there(COMPLETE), _there(_claim()), "east", (Problem("spec.x", "kept"),)),
         (TRUE, PlacementStorage.HYDRATED, Phase.READY), ("verified", "spec.x: kept")),
    Case("job-failed", weights.download(_there(FAILED), _there(_claim()), "east", ()),
         (FALSE, PlacementStorage.DOWNLOAD_FAILED, Phase.FAILED),
         ("DeadlineExceeded", "activeDeadlineSeconds", "retry")),
    Case("used-as-it-is", weights.used_as_it_is(_there(_claim()), "east"), (TRUE, PlacementStorage.PRESTAGED,
         Phase.READY)),
    Case("used-no-answer", weights.used_as_it_is(DOWN, "east"), (UNKNOWN, PlacementStorage.UNREACHABLE, Phase.PENDING)),
    Case("cache-without-entry", weights.cached(None, "east"), (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING)),
    Case("cache-ready", weights.cached(CacheEntry(environment="e", phase=Phase.READY), "e"),
         (TRUE, PlacementStorage.HYDRATED, Phase.READY)),
    Case("cache-failed", weights.cached(CacheEntry(environment="e", phase=Phase.FAILED, message="full"), "e"),
         (FALSE, PlacementStorage.DOWNLOAD_FAILED, Phase.FAILED), ("full",)),
    Case("cache-downloading", weights.cached(CacheEntry(environment="e", phase=Phase.DOWNLOADING), "e"),
         (FALSE, PlacementStorage.DOWNLOADING, Phase.DOWNLOADING)),
    Case("cache-pending", weights.cached(CacheEntry(environment="e", message="no claim"), "e"),
         (FALSE, PlacementStorage.CLAIM_PENDING, Phase.PENDING), ("no claim",)),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_said(case: Case) -> None:
    said = case.said
    assert (said and (said.status, said.reason, said.phase)) == case.want
    assert all(word in said.message for word in case.words) if said else not case.words


def test_every_cause_has_advice() -> None:
    assert set(weights.ADVICE) == set(Failure)
