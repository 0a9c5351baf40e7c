"""Which observed Job stands for the planned one, and which is replaced by another."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from function.domain.cache import CacheChoice, ManagedCache, UserClaim
from function.domain.model import HuggingFaceSource
from function.domain.settings import Download
from function.kube.manifests import Manifest, get
from tests.support.weights_requests import SECRET, model
from tests.support.weights_scene import (
    ABSENT,
    ALL_OWNED,
    COMPLETE,
    DESCRIBED,
    FAILED,
    RETAINED,
    RUNS,
    list_policies,
    observe_started,
    reconcile_observed,
    request_storage,
    with_job_status,
    with_sync_error,
    with_value,
)

Change = Callable[[Download], Download]
OWN = ManagedCache()


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    choice: CacheChoice
    status: Manifest
    before: Change
    now: Change
    stays: bool


def same(download: Download) -> Download:
    return download


def pinned(download: Download) -> Download:
    return replace(download, image="kserve/storage-initializer:v0.99.0")


def mirrored(download: Download) -> Download:
    return replace(download, image="mirror/init:v1")


def proxied(download: Download) -> Download:
    return replace(download, env=({"name": "HTTPS_PROXY", "value": "http://proxy"},))


def moved(download: Download) -> Download:
    return replace(download, node_selector={"zone": "a"}, tolerations=({"key": "a", "operator": "Exists"},))


CASES = (
    Case("finished", "its bytes are there, however they were fetched", OWN, COMPLETE, same, proxied, True),
    Case("finished-retry", "nor is it tried again twice", ManagedCache(retry="1"), COMPLETE, same, proxied, True),
    Case("finished-retained", "so they are for all who describe it", RETAINED, COMPLETE, same, mirrored, True),
    Case("pin", "the next Job resumes over the files that exist", OWN, RUNS, pinned, same, False),
    Case("image", "the platform names another image", OWN, RUNS, same, mirrored, False),
    Case("env", "the platform sets another variable", OWN, RUNS, same, proxied, False),
    Case("runs-elsewhere", "the platform names other nodes", OWN, {"active": 1, "ready": 1}, same, moved, False),
    Case("waits-elsewhere", "what found no node may find one there", OWN, RUNS, same, moved, False),
    Case("failed", "what failed is tried again with what is new", OWN, FAILED, pinned, same, False),
)


def jobs(found: object) -> set[str]:
    assert isinstance(found, dict)
    return {key for key in found if key.startswith("job-")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_only_a_completed_job_stands_for_one_with_other_settings(case: Case) -> None:
    request = request_storage(case.choice)
    observed = observe_started(replace(request, download=case.before(request.download)), with_job_status(case.status))
    changed = reconcile_observed(replace(request, download=case.now(request.download)), observed)
    assert (jobs(changed.composed) == jobs(observed)) is case.stays, case.reason
    assert len(jobs(changed.composed)) == 1, "two would write into one directory"
    assert changed.stale == {}, "what is of the same bytes is replaced at once"
    assert changed.plan is not None
    assert changed.plan.job is not None
    assert {f"job-{changed.plan.job.name}"} == jobs(changed.composed), "the status names the one whose log there is"


@pytest.mark.parametrize(
    ("claim", "repo", "reason"),
    [
        ("mine", "moonshotai/Other", "other bytes of the same claim"),
        ("yours", "moonshotai/Kimi-K2-Instruct", "and another claim"),
    ],
)
def test_ignores_completed_job_of_other_bytes(claim: str, repo: str, reason: str) -> None:
    observed = observe_started(request_storage(UserClaim(claim="mine")), with_job_status(COMPLETE))
    wanted = request_storage(UserClaim(claim=claim), model=model(HuggingFaceSource(repo=repo, secret=SECRET)))
    found = reconcile_observed(wanted, observed)
    assert not found.gate_open, reason
    assert not jobs(found.composed) & jobs(observed), reason


@pytest.mark.parametrize(
    ("status", "counts"), [(RUNS, False), (COMPLETE, True), (FAILED, False)], ids=["runs", "complete", "failed"]
)
def test_a_completed_job_counts_under_another_name(status: Manifest, *, counts: bool) -> None:
    observed = observe_started(
        request_storage(), with_job_status(status), with_value("job-", f"{DESCRIBED}.spec.backoffLimit", 1)
    )
    (key,) = jobs(observed)
    observed["job-of-another-name"] = observed.pop(key)
    found = reconcile_observed(replace(request_storage(), download=proxied(request_storage().download)), observed)
    assert ("job-of-another-name" in found.composed) is counts
    assert len(jobs(found.composed)) == 1, "two would write into one directory"
    if counts:
        written = found.composed["job-of-another-name"].manifest
        assert get(written, f"{DESCRIBED}.spec.backoffLimit") == 1, "a Job cannot be changed"


def test_a_completed_job_of_other_settings_stays_until_its_claim_is_back() -> None:
    observed = observe_started(request_storage(), with_job_status(COMPLETE), with_sync_error("claim-", ABSENT))
    found = reconcile_observed(replace(request_storage(), download=proxied(request_storage().download)), observed)
    assert jobs(found.composed) == jobs(observed)
    assert not found.gate_open


def test_drops_failed_job_when_replaced() -> None:
    failed = observe_started(request_storage(ManagedCache()), with_job_status(FAILED))
    changed = reconcile_observed(request_storage(ManagedCache(retry="1")), failed)
    assert (changed.stale, changed.hydration.retry) == ({}, "1"), "it is of the same bytes"
    assert list_policies(changed.composed) == ALL_OWNED
    assert {k for k in changed.composed if k.startswith("job-")}.isdisjoint(failed)
