"""Where the weights of a model are: `status.storage` of a ModelPlacement, and a row of a ModelCache."""

from dataclasses import dataclass

from function.kube.manifests import Manifest, prune, text


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadRecord:
    """Where weights are, as recorded in status; `completed_at` tells whether their download was observed complete."""

    claim: str = ""
    path: str = ""
    namespace: str = ""
    completed_at: str = ""  # RFC 3339; empty: not observed complete
    claim_uid: str = ""
    retry: str = ""


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
