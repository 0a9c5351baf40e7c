"""What a placement answers to the ledger of its environment: `status.released`, `status.revoked`, and Admitted."""

from collections.abc import Iterable
from dataclasses import dataclass

from function.domain.allocation import Grant, Release
from function.domain.records.shares import build_share, parse_share
from function.kube.manifests import JSON, Manifest, condition, integer, list_texts, mapping
from function.reasons import Admitted, ConditionType


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRecord:
    over_quota: bool = False  # Admitted=False/QuotaExceeded is published: it keeps its current allocation only
    cannot_start: bool = False  # Admitted=False/CannotStart is published: its spec or a reference is invalid
    released: Release | None = None  # None: nothing
    revoked: frozenset[str] = frozenset()  # `Grant.revoked` of all grants that it does not use any more


def parse_admission(manifest: Manifest) -> AdmissionRecord:
    """Returns what a ModelPlacement records; the manifest is the whole placement."""
    reason = condition(manifest, ConditionType.ADMITTED).get("reason")
    return AdmissionRecord(
        over_quota=reason == Admitted.QUOTA_EXCEEDED,
        cannot_start=reason == Admitted.CANNOT_START,
        released=_parse_release(manifest),
        revoked=frozenset(list_texts(manifest, "status.revoked")),
    )


def build_released(released: Release | None) -> Manifest:
    return {"released": {"generation": released.generation, **build_share(released.request)}} if released else {}


def build_revoked(grants: Iterable[Grant]) -> Manifest:
    """Returns the part for the grants that an environment takes back."""
    versions: list[JSON] = [*sorted({grant.revoked for grant in grants if grant.revoked})]
    return {"revoked": versions} if versions else {}


def _parse_release(manifest: Manifest) -> Release | None:
    """Returns the release; None also if its spec is a later one, from a backup: generations start at 1 again."""
    row = mapping(manifest, "status.released")
    generation = integer(row, "generation")
    if not 0 < generation <= integer(manifest, "metadata.generation"):
        return None
    return Release(generation=generation, request=parse_share(row))
