"""Why a download is or is not started."""

from dataclasses import dataclass

import pytest

from function.domain.cache import CreatedStorage, UserClaim
from function.domain.settings import Download, Prepare
from function.status.weights import describe_storage
from function.weights.reconcile import JobDecision
from function.weights.request import WeightsRequest
from tests.support.weights_requests import with_download
from tests.support.weights_scene import (
    ABSENT,
    COMPLETE,
    FAILED,
    NOTHING,
    REFUSED,
    RUNS,
    SILENT,
    Edit,
    Observed,
    observe_started,
    reconcile_observed,
    request_weights,
    with_job_status,
    with_sync_error,
    with_value,
    without,
)

OWN = request_weights()
ON_USERS_CLAIM = request_weights(UserClaim(claim="mine"))
OTHER_SETTINGS = with_value("job-", "spec.forProvider.manifest.spec.backoffLimit", 1)


@dataclass(frozen=True)
class Case:
    reason: str
    decision: JobDecision
    edits: tuple[Edit, ...] = ()
    request: WeightsRequest = OWN
    was_complete: bool = False


def _rename_job(observed: Observed) -> None:
    (key,) = [key for key in observed if key.startswith("job-")]
    observed["job-of-other-settings"] = observed.pop(key)


def _policy(value: str) -> Edit:
    return with_value("job-", "spec.managementPolicies", [value])


REPLACED_CLAIM = with_value("claim-", "status.atProvider.manifest.metadata.uid", "2")
DONE = with_job_status({**COMPLETE, "completionTime": "2026-01-01T00:00:00Z"})

CASES = {
    "first": Case("a Job runs where nothing prevents it", JobDecision.RUN, (without(""),)),
    "running": Case("a running Job continues", JobDecision.RUN, (with_job_status(RUNS),)),
    "failed": Case("a failed Job stays composed unchanged", JobDecision.RUN, (with_job_status(FAILED),)),
    "running-without-answer": Case(
        "a running Job continues, even if the cluster of its claim does not answer",
        JobDecision.RUN,
        (with_job_status(RUNS), with_sync_error("claim-", SILENT)),
    ),
    "not-planned": Case(
        "without preload, the user fills the claim",
        JobDecision.NOT_PLANNED,
        (without(""),),
        request_weights(CreatedStorage(preload=False)),
    ),
    "no-claim": Case(
        "the Job waits until the user's claim exists", JobDecision.WAIT_FOR_CLAIM, (without(""),), ON_USERS_CLAIM
    ),
    "refused-claim": Case(
        "no pod could mount a claim that the API server refuses",
        JobDecision.WAIT_FOR_CLAIM,
        (without("job-"), with_sync_error("claim-", REFUSED)),
    ),
    "superseded": Case(
        "two running Jobs would write into one directory",
        JobDecision.WAIT_FOR_SUPERSEDED,
        (with_job_status(RUNS), OTHER_SETTINGS, _rename_job),
    ),
    "superseded-is-deleted": Case(
        "the Object of the superseded Job deletes that Job",
        JobDecision.RUN,
        (with_job_status(RUNS), OTHER_SETTINGS, _policy("Delete"), _rename_job),
    ),
    "shared-and-not-answered": Case(
        "another placement may have started the Job already",
        JobDecision.WAIT_FOR_ANSWER,
        (without("job-"),),
        with_download(OWN, Download(prepare=Prepare.ALWAYS)),
    ),
    "verified": Case("a complete Job is not changed", JobDecision.OBSERVE, (DONE,)),
    "verified-with-other-settings": Case(
        "a complete Job with other settings has fetched the same weights",
        JobDecision.OBSERVE,
        (DONE, OTHER_SETTINGS, _rename_job),
    ),
    "cleaned-up": Case(
        "the status records the weights, so that a cleaned-up Job is not created again",
        JobDecision.LEAVE_ABSENT,
        (DONE, with_sync_error("job-", ABSENT)),
        was_complete=True,
    ),
    "object-is-gone": Case(
        "the status records the weights, so that a Job whose Object is gone is not created again",
        JobDecision.LEAVE_ABSENT,
        (without("job-"),),
        was_complete=True,
    ),
    "claim-replaced": Case(
        "the Job runs again, because the new claim is empty",
        JobDecision.RESTART,
        (DONE, REPLACED_CLAIM),
        was_complete=True,
    ),
    "claim-gone": Case(
        "the Job runs again, because the weights are gone with the claim",
        JobDecision.RUN,
        (DONE, with_sync_error("claim-", ABSENT)),
    ),
    "claim-gone-with-other-settings": Case(
        "the weights are gone with the claim, and no new claim exists yet that a Job could fill",
        JobDecision.KEEP,
        (DONE, OTHER_SETTINGS, _rename_job, with_sync_error("claim-", ABSENT)),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_decides_about_job(case: Case) -> None:
    recorded = NOTHING
    if case.was_complete:
        recorded = reconcile_observed(case.request, observe_started(case.request, DONE)).download
        assert recorded.completed_at
    found = reconcile_observed(case.request, observe_started(case.request, *case.edits), recorded)
    assert found.job_decision is case.decision, case.reason


@pytest.mark.parametrize("name", ["superseded", "shared-and-not-answered", "claim-replaced"])
def test_says_why_a_download_has_not_started(name: str) -> None:
    case, recorded = CASES[name], NOTHING
    if case.was_complete:
        recorded = reconcile_observed(case.request, observe_started(case.request, DONE)).download
    state = reconcile_observed(case.request, observe_started(case.request, *case.edits), recorded).state
    assert describe_storage(state) == f"The download has not started yet: {case.decision.value}"


def test_every_decision_has_a_case() -> None:
    assert {case.decision for case in CASES.values()} == set(JobDecision)
