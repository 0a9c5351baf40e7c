"""The Job's own condition says why a download failed; messages as the Job controller writes them."""

from dataclasses import dataclass

import pytest

from function.kube.manifests import Manifest, mapping
from function.weights.job import JobFailure, find_failure
from function.weights.scripts.download_script import Exit


def job(reason: str, message: str = "", status: str = "True", type_: str = "Failed") -> Manifest:
    condition: Manifest = {"type": type_, "status": status, "reason": reason, "message": message}
    return {"status": {"conditions": [condition]}}


def exited(code: int | str) -> Manifest:
    text = f"Container download for pod team/weights-x failed with exit code {code} matching FailJob rule at index 0"
    return job("PodFailurePolicy", text)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    job: Manifest
    want: JobFailure | None


CASES = (
    Case(
        "no-code",
        "digits without end are no exit code",
        job("PodFailurePolicy", f"exit code {'4' * 5000}"),
        JobFailure.UNKNOWN,
    ),
    Case("running", "no condition yet", {}, None),
    Case("complete", "it succeeded", job("CompletionsReached", type_="Complete"), None),
    Case("not-failed", "a False condition is no failure", job("x", status="False"), None),
    Case("unauthorised", "41", exited(41), JobFailure.UNAUTHORISED),
    Case("not-found", "42", exited(42), JobFailure.NOT_FOUND),
    Case("disk-full", "43", exited(43), JobFailure.DISK_FULL),
    Case("not-writable", "44", exited(44), JobFailure.NOT_WRITABLE),
    Case("incomplete", "45", exited(45), JobFailure.INCOMPLETE),
    Case("rate-limited-to-the-end", "51 on the last attempt", exited(61), JobFailure.RATE_LIMITED),
    Case("unreachable-to-the-end", "52 on the last attempt", exited(62), JobFailure.UNREACHABLE),
    Case("killed-to-the-end", "53 on the last attempt", exited(63), JobFailure.KILLED),
    Case("unknown-to-the-end", "54 on the last attempt", exited(64), JobFailure.UNKNOWN),
    Case("foreign-code", "an unknown code", exited(7), JobFailure.UNKNOWN),
    Case("policy-without-code", "a policy that we did not write", job("PodFailurePolicy"), JobFailure.UNKNOWN),
    Case("endless-code", "a remote cluster may write anything", exited("9" * 5000), JobFailure.UNKNOWN),
    Case("deadline", "activeDeadlineSeconds", job("DeadlineExceeded"), JobFailure.DEADLINE_EXCEEDED),
    Case(
        "deadline-without-pods",
        "a quota or a policy refused every pod",
        {"status": {**mapping(job("DeadlineExceeded"), "status"), "startTime": "2026-01-01T00:00:00Z"}},
        JobFailure.NO_POD,
    ),
    Case(
        "deadline-with-pods",
        "one was deleted when the time was over",
        {"status": {**mapping(job("DeadlineExceeded"), "status"), "startTime": "2026-01-01T00:00:00Z", "failed": 1}},
        JobFailure.DEADLINE_EXCEEDED,
    ),
    Case("stalled-to-the-end", "55 on the last attempt", exited(65), JobFailure.STALLED),
    Case("storage-to-the-end", "56 on the last attempt", exited(66), JobFailure.STORAGE_FAILED),
    Case("backoff", "pods died without a word", job("BackoffLimitExceeded"), JobFailure.EXHAUSTED),
    Case("other", "a reason of a later Kubernetes", job("Surprise"), JobFailure.UNKNOWN),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_failure(case: Case) -> None:
    assert find_failure(case.job) is case.want, case.reason


def test_every_exit_has_a_final_code_and_retries_have_another_before() -> None:
    final = [code.gave_up for code in Exit]
    assert [find_failure(exited(code)) for code in final] == [JobFailure[cause.name] for cause in Exit]
    assert not {code for code in Exit if code.gave_up != code} & {*final}, "a retryable code must not end the Job"
