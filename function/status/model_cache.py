"""What is said of a ModelCache: one row for each environment, and whether all of them have the bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from function.contract import RESPONSE_BYTES, Condition
from function.domain.cache import CacheEntry, Consumer, Hydration
from function.domain.model import HuggingFaceSource, Model, Problem, UriSource
from function.kube.manifests import JSON, Manifest, prune
from function.kube.messages import join_with_more, truncate_middle
from function.kube.quantity import gib
from function.reasons import ConditionType, Hydrated, Phase, PlacementStorage, Status
from function.status.conditions import faulty
from function.status.weights import describe_storage
from function.weights.request import cache_key, download_uri
from function.weights.sizing import Size
from function.weights.state import Finding, StorageState


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One environment: what is known of its bytes, where nothing is learned now (`unreachable`) what was known.

    `sync_failed`: because the provider failed in words that nobody knows. `claim_missing`: a claim of the user's does
    not exist there. `missing`: there is no such environment that can be read. `too_large`: nothing new is composed,
    because the response would be larger than Crossplane reads.
    """

    environment: str
    phase: Phase
    message: str
    unreachable: bool = False
    sync_failed: bool = False
    missing: bool = False
    hydration: Hydration = Hydration()
    access_mode: str = ""
    claim_missing: bool = False
    too_large: bool = False


def row(
    environment: str,
    state: StorageState,
    hydration: Hydration,
    access_mode: str,
    earlier: CacheEntry | None,
    *,
    there: bool,
) -> Row:
    """Return the row of an environment that shall have the bytes; `there`: it has, whatever its cluster says now."""
    phase = state.phase
    if state.unreachable:
        phase = Phase.READY if there else earlier.phase if earlier else Phase.PENDING
    return Row(
        environment=environment,
        phase=phase,
        message=truncate_middle(describe_storage(state)),
        unreachable=state.unreachable,
        sync_failed=state.reason is PlacementStorage.SYNC_FAILED,
        hydration=hydration,
        access_mode=access_mode,
        claim_missing=state.finding is Finding.CLAIM_NOT_FOUND,
    )


def missing(environment: str, earlier: CacheEntry | None) -> Row:
    """Return the row of an environment that does not exist or cannot be read; what was known of it stays."""
    message = f"InferenceEnvironment {environment} does not exist or is invalid; what is there is kept"
    known = earlier or CacheEntry(environment=environment)
    return Row(
        environment=environment,
        phase=known.phase,
        message=message,
        missing=True,
        hydration=known.hydration,
        access_mode=known.access_mode,
    )


def waiting(row: Row, size: int) -> Row:
    """Return the row of an environment that gets nothing new now: with it, the response would have so many bytes."""
    message = f"waits for other environments: the response would have {size:,} bytes, {RESPONSE_BYTES:,} are read"
    return row if row.phase is Phase.READY else replace(row, phase=Phase.PENDING, message=message, too_large=True)


def invalid(problems: Sequence[Problem]) -> Condition:
    """Return Hydrated for a cache whose own spec is at fault."""
    return faulty(ConditionType.HYDRATED, Hydrated.INVALID_CACHE, problems)


def hydrated(rows: Sequence[Row]) -> Condition:
    """Return Hydrated over all environments; a failure decides, then one that does not answer."""
    ready = _ready(rows)
    have = "are known to have" if any(r.unreachable for r in rows) else "have"
    message = f"{ready} of {len(rows)} environments {have} the weights"
    open_ = sorted((r for r in rows if r.unreachable or r.missing or r.phase is not Phase.READY), key=_furthest_first)
    waiting = join_with_more([f"{r.environment}: {r.message}" for r in open_], separator="; ")
    if not rows:
        reason, message = Hydrated.NO_ENVIRONMENT_MATCHES, "No environment is named or selected"
    elif any(r.phase is Phase.FAILED for r in rows):
        reason = Hydrated.DOWNLOAD_FAILED
    elif any(r.unreachable for r in rows):
        reason = Hydrated.SYNC_FAILED if all(r.sync_failed for r in rows if r.unreachable) else Hydrated.UNREACHABLE
    elif any(r.claim_missing for r in rows):
        reason = Hydrated.CLAIM_NOT_FOUND
    elif any(r.missing and r.phase is not Phase.READY for r in rows):
        reason = Hydrated.ENVIRONMENT_NOT_FOUND
    elif open_ and all(r.too_large for r in open_):
        reason = Hydrated.RESPONSE_TOO_LARGE
    elif ready == len(rows):
        reason = Hydrated.HYDRATED
    else:
        reason = Hydrated.PARTIALLY_HYDRATED if ready else Hydrated.DOWNLOADING
    return Condition(
        type=ConditionType.HYDRATED,
        status=_STATUSES.get(reason, Status.FALSE),
        reason=reason,
        message=f"{message}. {waiting}" if waiting else message,
    )


_STATUSES = {
    Hydrated.HYDRATED: Status.TRUE,
    Hydrated.UNREACHABLE: Status.UNKNOWN,
    Hydrated.SYNC_FAILED: Status.UNKNOWN,
}


def _ready(rows: Sequence[Row]) -> int:
    return sum(r.phase is Phase.READY and not r.unreachable for r in rows)


def _furthest_first(row: Row) -> tuple[bool, bool, int, str]:
    """Sort failures first, then those that do not answer, then what is furthest from Ready."""
    return row.phase is not Phase.FAILED, not row.unreachable, tuple(Phase).index(row.phase), row.environment


def status(
    model: Model, size: Size | None, rows: Sequence[Row], users: Sequence[str], readers: Sequence[Consumer]
) -> Manifest:
    """Return the status; the size is that of our claims, None where all claims are the users'.

    `readers` is read back: who is named there is asked for by name before anything goes.
    """
    known: list[JSON] = [prune({"name": r.name, "environment": r.environment, "uri": r.uri or None}) for r in readers]
    source = model.source if isinstance(model.source, HuggingFaceSource | UriSource) else None
    environments: list[JSON] = [
        prune(
            {
                "name": r.environment,
                "phase": r.phase,
                "unreachable": r.unreachable or None,
                "accessMode": r.access_mode or None,
                "message": r.message,
                **remembered(r.hydration),
            }
        )
        for r in rows
    ]
    return prune(
        {
            "cacheKey": cache_key(source) if source else None,
            "uri": download_uri(source) if source else None,
            "size": gib(size.amount) if size else None,
            "environments": environments,
            "ready": _ready(rows),
            "desired": len(rows),
            "usedBy": list[JSON](users),
            "readers": known,
        }
    )


def remembered(hydration: Hydration) -> Manifest:
    """Return what a status remembers of a download, to be read back."""
    return prune(
        {
            "claimName": hydration.claim or None,
            "path": hydration.path or None,
            "completedAt": hydration.completed_at or None,
            "namespace": (hydration.completed_at and hydration.namespace) or None,
            "claimUid": hydration.claim_uid or None,
            "retry": (hydration.completed_at and hydration.retry) or None,
        }
    )
