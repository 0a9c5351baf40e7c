"""Why a download failed, and whether trying again can help.

The script in the Job's pod exits with a code per cause (download_script.py owns the codes). Causes that a retry
cannot cure end the Job at once; the others burn the Job's backoff, and the last attempt exits with a code
of its own that ends the Job too. So the Job's own condition names the cause either way: `podFailurePolicy`
copies the exit code into it. What ends a pod from outside (eviction, the kernel) leaves no code, and then
all that is known is that attempts ran out.
"""

import re
from enum import StrEnum

from function.kube import manifests
from function.kube.manifests import Manifest
from function.weights.download_script import Exit
from function.weights.preparation import never_had_pods
from function.weights.prepare_script import REFUSED


class Failure(StrEnum):
    """Why a Job failed for good."""

    UNAUTHORISED = "Unauthorised"
    """The source answered 401 or 403: no token, a refused one, a gated or a missing repository."""
    NOT_FOUND = "NotFound"
    """The repository, revision, bucket or file does not exist."""
    DISK_FULL = "DiskFull"
    """The claim has no space left: raise its size, then set `retry`."""
    NOT_WRITABLE = "NotWritable"
    """The download's user may not write to the claim, and root may not give it its directory where that was tried."""
    INCOMPLETE = "Incomplete"
    """Everything was fetched and yet a shard is missing or truncated, or there is no model in it."""
    RATE_LIMITED = "RateLimited"
    """The source kept answering 429."""
    UNREACHABLE = "Unreachable"
    """The source could not be reached, broke off, or kept answering 5xx."""
    KILLED = "Killed"
    """The initializer was killed, which is most often memory: raise `storage.download.resources`."""
    UNKNOWN = "Unknown"
    """None of the above; the pod's log says more."""
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    """`activeDeadlineSeconds` passed; what is there already stays, `retry` continues from it."""
    NO_POD = "NoPod"
    """For ten minutes no pod could be made: the namespace may enforce Pod Security `restricted`."""
    EXHAUSTED = "Exhausted"
    """Attempts ran out without a word from the script: pods were evicted or killed from outside."""


# Codes after which the Job must not try again, ascending as the API demands.
FINAL: dict[int, Failure] = {cause.gave_up: Failure[cause.name] for cause in sorted(Exit, key=lambda c: c.gave_up)}
_CODES = {**FINAL, REFUSED: Failure.NOT_WRITABLE}
_CODE = re.compile(r"exit code ([0-9]{1,3})(?![0-9])")
_BY_REASON = {"DeadlineExceeded": Failure.DEADLINE_EXCEEDED, "BackoffLimitExceeded": Failure.EXHAUSTED}


def failure(job: Manifest) -> Failure | None:
    """Return why an observed Job failed, None where it has not."""
    failed = manifests.condition(job, "Failed")
    if failed.get("status") != "True":
        return None
    code = _CODE.search(manifests.text(failed, "message"))
    if manifests.text(failed, "reason") == "PodFailurePolicy" and code:
        return _CODES.get(int(code[1]), Failure.UNKNOWN)
    if manifests.text(failed, "reason") == "DeadlineExceeded" and never_had_pods(job):
        return Failure.NO_POD
    return _BY_REASON.get(manifests.text(failed, "reason"), Failure.UNKNOWN)
