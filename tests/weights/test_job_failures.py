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
        "a number of 5000 digits is no exit code",
        job("PodFailurePolicy", f"exit code {'4' * 5000}"),
        JobFailure.UNKNOWN,
    ),
    Case("running", "a Job without conditions has not failed", {}, None),
    Case("complete", "a Job that is Complete has not failed", job("CompletionsReached", type_="Complete"), None),
    Case("not-failed", "a Failed condition whose status is False is no failure", job("x", status="False"), None),
    Case(
        "unauthorised",
        "exit code 41 means that the source refuses the credentials",
        exited(41),
        JobFailure.UNAUTHORISED,
    ),
    Case("not-found", "exit code 42 means that the source does not have the model", exited(42), JobFailure.NOT_FOUND),
    Case("disk-full", "exit code 43 means that the claim is full", exited(43), JobFailure.DISK_FULL),
    Case(
        "not-writable",
        "exit code 44 means that the download cannot write to the claim",
        exited(44),
        JobFailure.NOT_WRITABLE,
    ),
    Case(
        "incomplete", "exit code 45 means that the downloaded files are incomplete", exited(45), JobFailure.INCOMPLETE
    ),
    Case(
        "rate-limited-to-the-end",
        "exit code 61 is exit code 51 on the last attempt",
        exited(61),
        JobFailure.RATE_LIMITED,
    ),
    Case(
        "unreachable-to-the-end", "exit code 62 is exit code 52 on the last attempt", exited(62), JobFailure.UNREACHABLE
    ),
    Case("killed-to-the-end", "exit code 63 is exit code 53 on the last attempt", exited(63), JobFailure.KILLED),
    Case("unknown-to-the-end", "exit code 64 is exit code 54 on the last attempt", exited(64), JobFailure.UNKNOWN),
    Case("foreign-code", "an exit code that the script does not use has no known cause", exited(7), JobFailure.UNKNOWN),
    Case(
        "policy-without-code",
        "a message without an exit code has no known cause",
        job("PodFailurePolicy"),
        JobFailure.UNKNOWN,
    ),
    Case(
        "endless-code",
        "the exit code in a status of a remote cluster can have any length",
        exited("9" * 5000),
        JobFailure.UNKNOWN,
    ),
    Case(
        "deadline",
        "the Job ran longer than its activeDeadlineSeconds",
        job("DeadlineExceeded"),
        JobFailure.DEADLINE_EXCEEDED,
    ),
    Case(
        "deadline-without-pods",
        "a Job without any pod at its deadline had every pod refused by a quota or a policy",
        {"status": {**mapping(job("DeadlineExceeded"), "status"), "startTime": "2026-01-01T00:00:00Z"}},
        JobFailure.NO_POD,
    ),
    Case(
        "deadline-with-pods",
        "a Job whose pod counts as failed had a pod before its deadline",
        {"status": {**mapping(job("DeadlineExceeded"), "status"), "startTime": "2026-01-01T00:00:00Z", "failed": 1}},
        JobFailure.DEADLINE_EXCEEDED,
    ),
    Case("stalled-to-the-end", "exit code 65 is exit code 55 on the last attempt", exited(65), JobFailure.STALLED),
    Case(
        "storage-to-the-end", "exit code 66 is exit code 56 on the last attempt", exited(66), JobFailure.STORAGE_FAILED
    ),
    Case(
        "backoff",
        "pods that fail without an exit code of the script exhaust the backoff limit",
        job("BackoffLimitExceeded"),
        JobFailure.EXHAUSTED,
    ),
    Case("other", "a reason that this release does not know has no known cause", job("Surprise"), JobFailure.UNKNOWN),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_failure(case: Case) -> None:
    assert find_failure(case.job) is case.want, case.reason


def test_every_exit_has_a_final_code_and_retries_have_another_before() -> None:
    final = [code.gave_up for code in Exit]
    assert [find_failure(exited(code)) for code in final] == [JobFailure[cause.name] for cause in Exit]
    assert not {code for code in Exit if code.gave_up != code} & {*final}, (
        "an exit code that is retried must not end the Job"
    )
