"""What state the weights are in on one environment, as data: what was found, and the facts that say so.

A finding alone decides status, reason and phase; the facts are what a sentence about it needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from function.domain.problem import Problem
from function.observe.objects import ObservedObject, State
from function.reasons import Phase, PlacementStorage, Status


class Finding(Enum):
    """What was found; the first obstacle where there are several."""

    NOT_NEEDED = "each pod fetches its own copy"
    PRESTAGED = "they are used where they are"
    UNPLANNABLE = "no plan can be made"
    TOKEN_MISSING = "the Secret of the source does not exist"  # noqa: S105  # a description
    TOKEN_KEY_MISSING = "the Secret of the source lacks the key"  # noqa: S105  # a description
    TOKEN_REFUSED = "the cluster refused the copy of the Secret"  # noqa: S105  # a description
    TOKEN_SILENT = "nothing is learned of the copy of the Secret"  # noqa: S105  # a description
    CLAIM_REFUSED = "the cluster refused the claim"
    CLAIM_NOT_FOUND = "a claim of the user's does not exist"
    CLAIM_NOT_SEEN = "nothing is known of a claim of the user's yet"
    CLAIM_NOT_SHARED = "the claim cannot be mounted by all pods"
    CLAIM_NOT_BOUND = "the claim has no volume yet"
    SILENT = "nothing is learned from the cluster"
    JOB_REFUSED = "the cluster refused the Job"
    JOB_FAILED = "the Job failed for good"
    JOB_NOT_STARTED = "there is no Job yet"
    JOB_RUNNING = "the Job runs"
    HYDRATED = "downloaded and verified"
    CACHE_NOT_SHARED = "the ModelCache's claim cannot be mounted by all pods"
    CACHE_EMPTY = "the ModelCache has nothing here"
    CACHE_PENDING = "the ModelCache waits"
    CACHE_DOWNLOADING = "the ModelCache downloads"
    CACHE_FAILED = "the ModelCache's download failed"
    CACHE_UNREACHABLE = "the ModelCache knows of no answer from the cluster"
    CACHE_HYDRATED = "the ModelCache has them"


_RESULTS: Mapping[Finding, tuple[Status, PlacementStorage]] = {
    Finding.NOT_NEEDED: (Status.TRUE, PlacementStorage.NOT_NEEDED),
    Finding.PRESTAGED: (Status.TRUE, PlacementStorage.PRESTAGED),
    Finding.UNPLANNABLE: (Status.FALSE, PlacementStorage.CLAIM_PENDING),
    Finding.TOKEN_MISSING: (Status.FALSE, PlacementStorage.TOKEN_MISSING),
    Finding.TOKEN_KEY_MISSING: (Status.FALSE, PlacementStorage.TOKEN_MISSING),
    Finding.TOKEN_REFUSED: (Status.FALSE, PlacementStorage.TOKEN_MISSING),
    Finding.TOKEN_SILENT: (Status.UNKNOWN, PlacementStorage.UNREACHABLE),
    Finding.CLAIM_REFUSED: (Status.FALSE, PlacementStorage.CLAIM_PENDING),
    Finding.CLAIM_NOT_FOUND: (Status.FALSE, PlacementStorage.CLAIM_NOT_FOUND),
    Finding.CLAIM_NOT_SEEN: (Status.UNKNOWN, PlacementStorage.CLAIM_PENDING),
    Finding.CLAIM_NOT_SHARED: (Status.FALSE, PlacementStorage.CLAIM_NOT_SHARED),
    Finding.CLAIM_NOT_BOUND: (Status.FALSE, PlacementStorage.CLAIM_PENDING),
    Finding.SILENT: (Status.UNKNOWN, PlacementStorage.UNREACHABLE),
    Finding.JOB_REFUSED: (Status.FALSE, PlacementStorage.DOWNLOAD_FAILED),
    Finding.JOB_FAILED: (Status.FALSE, PlacementStorage.DOWNLOAD_FAILED),
    Finding.JOB_NOT_STARTED: (Status.FALSE, PlacementStorage.DOWNLOADING),
    Finding.JOB_RUNNING: (Status.FALSE, PlacementStorage.DOWNLOADING),
    Finding.HYDRATED: (Status.TRUE, PlacementStorage.HYDRATED),
    Finding.CACHE_NOT_SHARED: (Status.FALSE, PlacementStorage.CLAIM_NOT_SHARED),
    Finding.CACHE_EMPTY: (Status.FALSE, PlacementStorage.CLAIM_PENDING),
    Finding.CACHE_PENDING: (Status.FALSE, PlacementStorage.CLAIM_PENDING),
    Finding.CACHE_DOWNLOADING: (Status.FALSE, PlacementStorage.DOWNLOADING),
    Finding.CACHE_FAILED: (Status.FALSE, PlacementStorage.DOWNLOAD_FAILED),
    Finding.CACHE_UNREACHABLE: (Status.UNKNOWN, PlacementStorage.UNREACHABLE),
    Finding.CACHE_HYDRATED: (Status.TRUE, PlacementStorage.HYDRATED),
}
_SILENT = frozenset({Finding.SILENT, Finding.TOKEN_SILENT})
_PHASES: Mapping[PlacementStorage, Phase] = {
    PlacementStorage.DOWNLOADING: Phase.DOWNLOADING,
    PlacementStorage.DOWNLOAD_FAILED: Phase.FAILED,
    PlacementStorage.CLAIM_NOT_SHARED: Phase.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageState:
    """The state of the weights on one environment.

    `name` is that of the claim, Job or Secret that the finding is about, `said` what the cluster, the provider or the
    ModelCache says of it, `cause` why a Job failed, `problems` what cannot be planned, or had to be left as it is,
    `remote` the object that nothing is learned of.
    """

    finding: Finding
    environment: str = ""
    namespace: str = ""
    name: str = ""
    said: str = ""
    cause: str = ""
    problems: tuple[Problem, ...] = ()
    remote: ObservedObject = ObservedObject(State.UNSEEN, {})

    @property
    def status(self) -> Status:
        """The status of the condition."""
        return _RESULTS[self.finding][0]

    @property
    def reason(self) -> PlacementStorage:
        """The reason of the condition."""
        if self.finding in _SILENT and not self.remote.out_of_reach:
            return PlacementStorage.SYNC_FAILED
        return _RESULTS[self.finding][1]

    @property
    def phase(self) -> Phase:
        """The phase that the state amounts to."""
        return Phase.READY if self.status is Status.TRUE else _PHASES.get(self.reason, Phase.PENDING)

    @property
    def unreachable(self) -> bool:
        """Whether nothing is learned from the cluster."""
        return self.reason in {PlacementStorage.UNREACHABLE, PlacementStorage.SYNC_FAILED}
