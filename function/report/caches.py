"""What is said of a ModelCache: one row for each environment, and whether all of them have the bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

from function.domain.cache import CacheEntry, Reader
from function.domain.model import HuggingFaceSource, Model, UriSource
from function.domain.problem import Problem
from function.exchange import Condition
from function.kube.manifests import JSON, Manifest, prune
from function.kube.quantity import gib
from function.reasons import ConditionType, Hydrated, Phase, PlacementStorage, Status
from function.report.weights import StorageState
from function.storage import cachekey
from function.storage.plan import StoragePlan
from function.storage.sizing import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One environment: what is known of its bytes. `claim_missing`: a claim of the user's does not exist there."""

    environment: str
    phase: Phase
    message: str
    claim: str = ""
    path: str = ""
    completed: str = ""
    claim_missing: bool = False


def row(environment: str, said: StorageState, plan: StoragePlan | None, completed: str) -> Row:
    """Return the row of an environment whose weights are planned."""
    return Row(
        environment=environment,
        phase=said.phase,
        message=said.message,
        claim=plan.claim_name if plan else "",
        path=plan.path if plan else "",
        completed=completed,
        claim_missing=said.reason is PlacementStorage.CLAIM_NOT_FOUND,
    )


def missing(environment: str, earlier: CacheEntry | None) -> Row:
    """Return the row of an environment that does not exist or cannot be read; what was known of it stays."""
    message = f"InferenceEnvironment {environment} does not exist or is invalid; what is there is kept"
    if earlier is None:
        return Row(environment=environment, phase=Phase.PENDING, message=message)
    return Row(environment=environment, phase=earlier.phase, message=message, claim=earlier.claim, path=earlier.path)


def invalid(problems: Sequence[Problem]) -> Condition:
    """Return Hydrated for a cache whose own spec is at fault."""
    return Condition(
        type=ConditionType.HYDRATED,
        status=Status.FALSE,
        reason=Hydrated.INVALID_CACHE,
        message="; ".join(map(str, problems)),
    )


def hydrated(rows: Sequence[Row]) -> Condition:
    """Return Hydrated over all environments; the first failure decides."""
    ready = sum(r.phase is Phase.READY for r in rows)
    message = f"{ready} of {len(rows)} environments have the weights"
    waiting = "; ".join(f"{r.environment}: {r.message}" for r in rows if r.phase is not Phase.READY)
    if not rows:
        reason, message = Hydrated.NO_ENVIRONMENT_MATCHES, "No environment is named or selected"
    elif any(r.phase is Phase.FAILED for r in rows):
        reason = Hydrated.DOWNLOAD_FAILED
    elif any(r.claim_missing for r in rows):
        reason = Hydrated.CLAIM_NOT_FOUND
    elif ready == len(rows):
        reason = Hydrated.HYDRATED
    else:
        reason = Hydrated.PARTIALLY_HYDRATED if ready else Hydrated.DOWNLOADING
    return Condition(
        type=ConditionType.HYDRATED,
        status=Status.TRUE if reason is Hydrated.HYDRATED else Status.FALSE,
        reason=reason,
        message=f"{message}. {waiting}" if waiting else message,
    )


def status(
    model: Model, size: Size | None, rows: Sequence[Row], users: Sequence[str], readers: Sequence[Reader]
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
                "claimName": r.claim or None,
                "path": r.path or None,
                "message": r.message,
                "completedAt": r.completed or None,
            }
        )
        for r in rows
    ]
    return prune(
        {
            "cacheKey": cachekey.key(source) if source else None,
            "uri": cachekey.uri(source) if source else None,
            "size": gib(size.amount) if size else None,
            "environments": environments,
            "ready": sum(r.phase is Phase.READY for r in rows),
            "desired": len(rows),
            "usedBy": list[JSON](users),
            "readers": known,
        }
    )
