"""What state the weights are in on one environment, as data: what was found, and the facts that say so.

A finding alone decides status, reason and phase; the facts are what a sentence about it needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from function.domain.model import Problem
from function.reasons import Phase, PlacementStorage, Status
from function.remote.observed_object import ObservedObject, State


class Finding(Enum):
    """What was found; the first obstacle where there are several. With it come the condition's status and reason."""

    NOT_NEEDED = "nodes pull an image", Status.TRUE, PlacementStorage.NOT_NEEDED
    EMPTY_DIR = "each pod fetches its own copy", Status.TRUE, PlacementStorage.NOT_NEEDED
    PRESTAGED = "they are used where they are", Status.TRUE, PlacementStorage.PRESTAGED
    UNPLANNABLE = "no plan can be made", Status.FALSE, PlacementStorage.CLAIM_PENDING
    TOKEN_MISSING = "the Secret of the source does not exist", Status.FALSE, PlacementStorage.TOKEN_MISSING
    TOKEN_KEY_MISSING = "the Secret of the source lacks the key", Status.FALSE, PlacementStorage.TOKEN_MISSING
    TOKEN_REFUSED = "the cluster refused the copy of the Secret", Status.FALSE, PlacementStorage.TOKEN_MISSING
    TOKEN_SILENT = "nothing is learned of the copy of the Secret", Status.UNKNOWN, PlacementStorage.UNREACHABLE
    CLAIM_REFUSED = "the cluster refused the claim", Status.FALSE, PlacementStorage.CLAIM_PENDING
    CLAIM_NOT_FOUND = "a claim of the user's does not exist", Status.FALSE, PlacementStorage.CLAIM_NOT_FOUND
    CLAIM_NOT_SEEN = "nothing is known of a claim of the user's yet", Status.UNKNOWN, PlacementStorage.CLAIM_PENDING
    CLAIM_NOT_SHARED = "the claim cannot be mounted by all pods", Status.FALSE, PlacementStorage.CLAIM_NOT_SHARED
    CLAIM_TOO_SMALL = "the claim is below the model's disk", Status.FALSE, PlacementStorage.STORAGE_TOO_SMALL
    CLAIM_NOT_BOUND = "the claim has no volume yet", Status.FALSE, PlacementStorage.CLAIM_PENDING
    SILENT = "nothing is learned from the cluster", Status.UNKNOWN, PlacementStorage.UNREACHABLE
    SCRIPTS_REFUSED = "the cluster refused the Job's ConfigMap", Status.FALSE, PlacementStorage.DOWNLOAD_FAILED
    JOB_REFUSED = "the cluster refused the Job", Status.FALSE, PlacementStorage.DOWNLOAD_FAILED
    JOB_FAILED = "the Job failed for good", Status.FALSE, PlacementStorage.DOWNLOAD_FAILED
    JOB_NOT_STARTED = "there is no Job yet", Status.FALSE, PlacementStorage.DOWNLOADING
    JOB_RUNNING = "the Job runs", Status.FALSE, PlacementStorage.DOWNLOADING
    HYDRATED = "downloaded and verified", Status.TRUE, PlacementStorage.HYDRATED
    CACHE_NOT_SHARED = "all pods cannot mount the ModelCache's claim", Status.FALSE, PlacementStorage.CLAIM_NOT_SHARED
    CACHE_EMPTY = "the ModelCache has nothing here", Status.FALSE, PlacementStorage.CLAIM_PENDING
    CACHE_PENDING = "the ModelCache waits", Status.FALSE, PlacementStorage.CLAIM_PENDING
    CACHE_DOWNLOADING = "the ModelCache downloads", Status.FALSE, PlacementStorage.DOWNLOADING
    CACHE_FAILED = "the ModelCache's download failed", Status.FALSE, PlacementStorage.DOWNLOAD_FAILED
    CACHE_UNREACHABLE = "the ModelCache knows of no answer", Status.UNKNOWN, PlacementStorage.UNREACHABLE
    CACHE_HYDRATED = "the ModelCache has them", Status.TRUE, PlacementStorage.HYDRATED

    def __init__(self, _: str, status: Status, reason: PlacementStorage) -> None:
        self.status = status
        self.reason = reason


class Room(Enum):
    """Who says how large the claim is that weights are downloaded to."""

    OWN = "who asks for them"
    SHARED = "the environment, for all of a namespace"
    USER = "the user whose claim it is"


_SILENT = frozenset({Finding.SILENT, Finding.TOKEN_SILENT})
_PHASES: Mapping[PlacementStorage, Phase] = {
    PlacementStorage.DOWNLOADING: Phase.DOWNLOADING,
    PlacementStorage.DOWNLOAD_FAILED: Phase.FAILED,
    PlacementStorage.CLAIM_NOT_SHARED: Phase.FAILED,
    PlacementStorage.STORAGE_TOO_SMALL: Phase.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageState:
    """The state of the weights on one environment.

    `name` is that of the claim, Job or Secret that the finding is about, `said` what the cluster, the provider or the
    ModelCache says of it, `cause` why a Job failed, `problems` what cannot be planned, or had to be left as it is,
    `remote` the object that nothing is learned of, `each_pod` how many bytes every pod fetches (None: not known),
    `remarks` what is worth knowing in whichever state. `of_cache`: a ModelCache asks for them, and no placement.
    """

    finding: Finding
    environment: str = ""
    namespace: str = ""
    name: str = ""
    said: str = ""
    cause: str = ""
    each_pod: int | None = None
    problems: tuple[Problem, ...] = ()
    remote: ObservedObject = ObservedObject(State.UNSEEN, {})
    remarks: tuple[Problem, ...] = ()
    of_cache: bool = False
    room: Room = Room.OWN

    @property
    def status(self) -> Status:
        """The status of the condition."""
        return self.finding.status

    @property
    def reason(self) -> PlacementStorage:
        """The reason of the condition."""
        if self.finding in _SILENT and not self.remote.unreachable:
            return PlacementStorage.SYNC_FAILED
        return self.finding.reason

    @property
    def phase(self) -> Phase:
        """The phase that the state amounts to."""
        return Phase.READY if self.status is Status.TRUE else _PHASES.get(self.reason, Phase.PENDING)

    @property
    def unreachable(self) -> bool:
        """Whether nothing is learned from the cluster."""
        return self.reason in {PlacementStorage.UNREACHABLE, PlacementStorage.SYNC_FAILED}
