"""The Job whose directory root makes first: what it may do, and what is taken for its failures."""

from dataclasses import replace

import pytest

from function.domain.settings import BUILT_IN, Download
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.weights.job import JobFailure, build_job, find_failure, with_pod_start_deadline
from tests.weights.test_job import KEY, TASK

PREPARED = replace(TASK, is_prepared=True)
PLAIN = build_job(TASK)


def build(**fields: object) -> Manifest:
    """Return the Job of a download with other settings."""
    return build_job(replace(TASK, download=replace(BUILT_IN.download, **fields)))  # type: ignore[arg-type]  # any field


def without_preparation(made: Manifest) -> JSON:
    return {key: value for key, value in mapping(made, "spec.template.spec").items() if key != "initContainers"}


def test_root_may_own_and_reach_files_and_nothing_else() -> None:
    (prepare,) = listing(build_job(PREPARED), "spec.template.spec.initContainers")
    assert prepare["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "runAsNonRoot": False,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
    }
    assert prepare["args"] == ["/mnt/models", f"models/{KEY}", "1000", "1000"]
    assert prepare["volumeMounts"] == [
        {"name": "weights", "mountPath": "/mnt/models"},
        {"name": "scripts", "mountPath": "/opt/modelplane", "readOnly": True},
    ]
    assert "env" not in prepare, "the preparing container needs no token"


def test_the_download_itself_is_the_same_under_another_name() -> None:
    prepared = build_job(PREPARED)
    assert without_preparation(prepared) == without_preparation(PLAIN)
    assert text(prepared, "metadata.name") != text(PLAIN, "metadata.name")
    rules = listing(prepared, "spec.podFailurePolicy.rules")
    assert [get(rule, "onExitCodes.containerName") for rule in rules] == ["download", "prepare", None]
    assert get(rules[1], "onExitCodes.values") == [43, 46]


SECURITY: Manifest = {"runAsUser": 2000, "runAsGroup": 3000, "fsGroup": 4000, "supplementalGroups": [5, 6]}


def test_the_user_of_the_download_is_the_platforms_to_name() -> None:
    found = mapping(build(security_context=SECURITY), "spec.template.spec.securityContext")
    fixed: Manifest = {
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert found == {**SECURITY, **fixed}
    task = replace(PREPARED, download=Download(security_context=SECURITY))
    (prepare,) = listing(build_job(task), "spec.template.spec.initContainers")
    args = prepare["args"]
    assert isinstance(args, list)
    assert args[2:] == ["2000", "3000"], "the user of the download gets the directory"


def test_requests_root_explicitly() -> None:
    found = mapping(build(security_context={"runAsUser": 0}), "spec.template.spec.securityContext")
    assert (found["runAsUser"], found["runAsNonRoot"]) == (0, False), (
        "the kubelet refuses a pod that runs as root with runAsNonRoot"
    )


def deadline(made: Manifest) -> object:
    return get(made, "spec.activeDeadlineSeconds")


@pytest.mark.parametrize(
    ("reason", "status", "want"),
    [
        ("a Job without a reported pod has the short deadline", {}, 600),
        ("a Job without an active pod has the short deadline", {"active": 0, "ready": 0}, 600),
        ("a Job with an active pod has the full deadline", {"active": 1}, 86400),
        ("a Job with a failed attempt has the full deadline", {"failed": 1}, 86400),
        (
            "a Job with an uncounted terminated pod has the full deadline",
            {"uncountedTerminatedPods": {"failed": ["uid"]}},
            86400,
        ),
    ],
)
def test_limits_time_until_first_pod(reason: str, status: Manifest, want: int) -> None:
    made = build_job(PREPARED)
    assert deadline(with_pod_start_deadline(made, {}, {"status": status})) == want, reason
    assert deadline(with_pod_start_deadline(PLAIN, {}, {"status": status})) == 86400, (
        "an unprepared Job has no short deadline, because every Pod Security level admits its pod"
    )


def test_does_not_shorten_granted_deadline() -> None:
    made = build_job(PREPARED)
    assert deadline(with_pod_start_deadline(made, made, {})) == 86400


def test_a_short_deadline_is_not_made_longer() -> None:
    made = build_job(replace(PREPARED, download=Download(active_deadline_seconds=60)))
    assert deadline(with_pod_start_deadline(made, {}, {})) == 60


def ended(seconds: int, status: Manifest, made: Manifest) -> Manifest:
    failed: Manifest = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
    spec: Manifest = {**mapping(made, "spec"), "activeDeadlineSeconds": seconds}
    return {**made, "spec": spec, "status": {**status, "conditions": [failed]}}


@pytest.mark.parametrize(
    ("reason", "made", "seconds", "status", "want"),
    [
        (
            "a prepared Job without any pod at its short deadline had every pod refused",
            build_job(PREPARED),
            600,
            {},
            JobFailure.NO_POD,
        ),
        (
            "a prepared Job with a failed pod has exceeded its deadline",
            build_job(PREPARED),
            600,
            {"failed": 1},
            JobFailure.DEADLINE_EXCEEDED,
        ),
        (
            "a Job that reached its full deadline has exceeded it",
            build_job(PREPARED),
            86400,
            {},
            JobFailure.DEADLINE_EXCEEDED,
        ),
        ("every Pod Security level admits the pod of an unprepared Job", PLAIN, 600, {}, JobFailure.DEADLINE_EXCEEDED),
        (
            "a Job that runs as root may have its pod refused as well",
            build(security_context={"runAsUser": 0}),
            600,
            {},
            JobFailure.NO_POD,
        ),
    ],
)
def test_a_job_that_never_had_a_pod(
    reason: str, made: Manifest, seconds: int, status: Manifest, want: JobFailure
) -> None:
    assert find_failure(ended(seconds, status, made)) is want, reason


def test_maps_refused_root_to_not_writable() -> None:
    said = "Container prepare for pod team/x failed with exit code 46 matching FailJob rule at index 1"
    failed: Manifest = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": said}
    assert find_failure({"status": {"conditions": [failed]}}) is JobFailure.NOT_WRITABLE
