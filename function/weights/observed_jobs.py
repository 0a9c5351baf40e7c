"""What observed download Jobs tell: which of them fetch the same bytes, why one failed, and what the next one needs.

The script in a Job's pod exits with a code per cause (scripts/download_script.py owns the codes). Causes that a retry
cannot cure end the Job at once; the others use up the Job's backoff limit, and the last attempt exits with a code of
its own that ends the Job too. So the Job's own condition names the cause either way: `podFailurePolicy` copies the exit
code into it. What ends a pod from outside (eviction, the kernel) leaves no code: all that is known is that attempts ran
out.
"""

import re
from collections.abc import Iterable
from enum import Enum

from function.contract import Composed
from function.domain.model import HuggingFaceSource, UriSource
from function.kube.manifests import Manifest, condition, get, listing, mapping, text
from function.remote.health import assess
from function.remote.object_writer import ManagementPolicy, ObjectWriter
from function.remote.observed_object import State
from function.weights.job import (
    build_download_args,
    is_prepared,
    needs_privileges,
    never_had_pods,
    with_pod_start_deadline,
)
from function.weights.planner import JobPlan
from function.weights.scripts.download_script import Exit
from function.weights.scripts.prepare_script import REFUSED

JOB = "job-"
_MANIFEST, _POD = "spec.forProvider.manifest", "spec.template.spec"


class JobFailure(Enum):
    """Why a Job failed for good: its name in messages, and what to do."""

    UNAUTHORISED = (
        "Unauthorised",
        "the source refused access: check the token, and that its owner may read the repository",
    )
    NOT_FOUND = "NotFound", "the source does not know the repository, revision or file: correct the model's source"
    DISK_FULL = "DiskFull", "the claim is full: {size_advice}"
    NOT_WRITABLE = (
        "NotWritable",
        (
            "the download's user (1000 unless storage.download.securityContext sets another) may not write to the "
            "claim, nor may root change that where storage.download.prepare lets it try (root_squash, read-only): "
            "correct its permissions"
        ),
    )
    INCOMPLETE = (
        "Incomplete",
        "files are missing or truncated after the download: check the repository and the patterns",
    )
    RATE_LIMITED = "RateLimited", "the source keeps limiting the rate: use a token or a mirror, or wait"
    UNREACHABLE = (
        "Unreachable",
        "the source cannot be reached from the cluster: check proxies, mirrors and its network",
    )
    KILLED = "Killed", "the download was killed, most often for memory: raise storage.download.resources"
    UNKNOWN = "Unknown", "the pod's log says why"
    DEADLINE_EXCEEDED = (
        "DeadlineExceeded",
        "storage.download.activeDeadlineSeconds passed: raise it, or check the network's speed",
    )
    NO_POD = (
        "NoPod",
        (
            "no pod could be created in ten minutes: the namespace may enforce Pod Security restricted, which refuses "
            "what storage.download.prepare or securityContext ask for. Let it enforce baseline, or set prepare: Never "
            "and correct the claim's permissions"
        ),
    )
    EXHAUSTED = "Exhausted", "every attempt was ended from outside (eviction, node loss): look at the pod's events"

    def __init__(self, label: str, advice: str) -> None:
        self.label = label
        self.advice = advice


_BY_CODE = {cause.gave_up: JobFailure[cause.name] for cause in Exit} | {REFUSED: JobFailure.NOT_WRITABLE}
_CODE = re.compile(r"exit code ([0-9]{1,3})(?![0-9])")
_BY_REASON = {"DeadlineExceeded": JobFailure.DEADLINE_EXCEEDED, "BackoffLimitExceeded": JobFailure.EXHAUSTED}


def find_failure(job: Manifest) -> JobFailure | None:
    """Finds why an observed Job failed; None where it has not."""
    failed = condition(job, "Failed")
    if failed.get("status") != "True":
        return None
    code, reason = _CODE.search(text(failed, "message")), text(failed, "reason")
    if reason == "PodFailurePolicy" and code:
        return _BY_CODE.get(int(code[1]), JobFailure.UNKNOWN)
    if reason == "DeadlineExceeded" and never_had_pods(job):
        return JobFailure.NO_POD
    return _BY_REASON.get(reason, JobFailure.UNKNOWN)


def jobs_for_same_download(
    writer: ObjectWriter, namespace: str, claim: str, source: HuggingFaceSource | UriSource
) -> tuple[str, ...]:
    """Lists the observed Jobs that fetch the same bytes to the same claim, under whatever settings."""
    download = (namespace, [build_download_args(source)], [{"claimName": claim}])
    return tuple(
        key
        for key, observed in sorted(writer.observed.items())
        if key.startswith(JOB) and _identify_download(mapping(observed, _MANIFEST)) == download
    )


def _identify_download(job: Manifest) -> tuple[object, ...]:
    pod = mapping(job, _POD)
    return (
        text(job, "metadata.namespace"),
        [container.get("args") for container in listing(pod, "containers")],
        [volume["persistentVolumeClaim"] for volume in listing(pod, "volumes") if "persistentVolumeClaim" in volume],
    )


def find_equivalent_job(writer: ObjectWriter, job: JobPlan, same_download: Iterable[str]) -> str:
    """Finds the composed resource of the Job that stands for a planned one.

    A completed Job for the same bytes and `retry` counts whatever its settings are. Otherwise it is the planned one,
    which resumes over the files of others: a Job cannot be changed.
    """
    retry = get(job.manifest, "metadata.annotations")
    for key in same_download:
        has_same_retry = get(writer.observed[key], f"{_MANIFEST}.metadata.annotations") == retry
        if has_same_retry and assess(writer.read(key).manifest).up:
            return key
    return JOB + job.name


def find_write_failures(writer: ObjectWriter, same_download: Iterable[str]) -> tuple[str, ...]:
    """Finds the Jobs that prove that the download may not write to its directory.

    A Job that could not write is followed by one that root prepares, once: the first is the proof until the prepared
    one is observed, and from then on the prepared one is, whatever `retry` is.
    """
    return tuple(
        key
        for key in same_download
        if is_prepared(mapping(writer.observed[key], _MANIFEST))
        or find_failure(writer.read(key).manifest) is JobFailure.NOT_WRITABLE
    )


def compose_job(writer: ObjectWriter, key: str, job: Manifest, policy: ManagementPolicy) -> Composed:
    """Composes the Object for a Job that must run.

    Several placements may describe one Job, and none may shorten the deadline of a Job that runs: each only observes
    until it knows whether the Job exists.
    """
    remote = writer.read(key)
    is_unknown = not remote.seen and remote.state is not State.ABSENT
    if policy is ManagementPolicy.RETAIN and needs_privileges(job) and is_unknown:
        return writer.compose(key, job, ManagementPolicy.OBSERVE_ONLY)
    written = mapping(writer.observed.get(key), _MANIFEST)
    return writer.compose(key, with_pod_start_deadline(job, written, remote.manifest), policy)
