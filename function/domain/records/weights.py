"""Where the weights of a model are: `status.storage` of a ModelPlacement, and a row of a ModelCache."""

from dataclasses import dataclass

from function.kube.manifests import Manifest, integer, mapping, prune, text


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadProgress:
    """How far a running download is. It changes only when the number of complete parts does."""

    parts: int
    parts_done: int = 0
    bytes_total: int = 0  # upper bound, as the model declares it; 0: unknown
    changed_at: str  # RFC 3339: the start of the Job, then when this number of parts was first observed
    bytes_per_second: int = 0  # between the last two changes; 0: unknown
    expected_at: str = ""  # RFC 3339: when all parts are expected to be complete; empty: unknown

    @property
    def bytes_done(self) -> int:
        """The share of the bytes that the complete parts stand for."""
        return self.bytes_total * self.parts_done // self.parts


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadRecord:
    """Where weights are, as recorded in status; `completed_at` tells whether their download was observed complete."""

    claim: str = ""
    path: str = ""
    namespace: str = ""
    completed_at: str = ""  # RFC 3339; empty: not observed complete
    claim_uid: str = ""
    retry: str = ""
    progress: DownloadProgress | None = None  # of a Job that runs; None: none runs, or its download is not divided


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRecord:
    planned_uri: str = ""  # of the weights, as planned now; empty: nothing is planned yet
    access_mode: str = ""  # of the claim with the weights
    download: DownloadRecord = DownloadRecord()


def parse_download(row: Manifest) -> DownloadRecord:
    return DownloadRecord(
        claim=text(row, "claimName"),
        path=text(row, "path"),
        completed_at=text(row, "completedAt"),
        namespace=text(row, "namespace"),
        claim_uid=text(row, "claimUid"),
        retry=text(row, "retry"),
        progress=_parse_progress(mapping(row, "progress")),
    )


def _parse_progress(block: Manifest) -> DownloadProgress | None:
    parts, parts_done = integer(block, "parts"), integer(block, "partsDone")
    if not 0 <= parts_done <= parts or not parts:
        return None
    return DownloadProgress(
        parts=parts,
        parts_done=parts_done,
        bytes_total=integer(block, "bytesTotal"),
        changed_at=text(block, "changedAt"),
        bytes_per_second=integer(block, "bytesPerSecond"),
        expected_at=text(block, "expectedAt"),
    )


def build_download(hydration: DownloadRecord) -> Manifest:
    """Returns the fields of a download; the namespace and the retry are included only once it is complete."""
    is_complete = bool(hydration.completed_at)
    return prune(
        {
            "claimName": hydration.claim or None,
            "path": hydration.path or None,
            "completedAt": hydration.completed_at or None,
            "namespace": (is_complete and hydration.namespace) or None,
            "claimUid": hydration.claim_uid or None,
            "retry": (is_complete and hydration.retry) or None,
            "progress": _build_progress(hydration.progress) if hydration.progress else None,
        }
    )


def _build_progress(progress: DownloadProgress) -> Manifest:
    is_size_known = bool(progress.bytes_total)
    return prune(
        {
            "parts": progress.parts,
            "partsDone": progress.parts_done,
            "bytesTotal": progress.bytes_total or None,
            "bytesDone": progress.bytes_done if is_size_known else None,
            "bytesPerSecond": progress.bytes_per_second or None,
            "changedAt": progress.changed_at,
            "expectedAt": progress.expected_at or None,
        }
    )


def parse_weights(block: Manifest) -> WeightsRecord:
    """Returns what a placement records in `status.storage`."""
    return WeightsRecord(
        planned_uri=text(block, "uri"), access_mode=text(block, "accessMode"), download=parse_download(block)
    )


def build_weights(record: WeightsRecord) -> Manifest:
    """Returns `status.storage`, without what is only displayed there."""
    fields = prune({"uri": record.planned_uri or None, "accessMode": record.access_mode or None})
    return {**fields, **build_download(record.download)}
