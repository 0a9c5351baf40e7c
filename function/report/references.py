"""What is said of a reference that does not resolve: to a model, an environment, a pool, a cache.

Deployments, placements and caches say it under their own condition type, with the same reasons and words.
"""

from collections.abc import Iterable

from function.domain.model import Model
from function.domain.placement import ModelRef
from function.domain.problem import Problem
from function.exchange import Condition
from function.reasons import ConditionType, ModelResolved, ReferencesResolved, Status

# A condition message; longer lists of faults stand on the model itself.
_LIMIT = 1024


def resolved(type_: ConditionType, message: str) -> Condition:
    """Return the condition of references that all resolve."""
    return Condition(type=type_, status=Status.TRUE, reason=ModelResolved.RESOLVED, message=message)


def resolving(type_: ConditionType) -> Condition:
    """Return the condition while Crossplane has not answered a requirement yet."""
    return Condition(
        type=type_,
        status=Status.UNKNOWN,
        reason=ModelResolved.RESOLVING,
        message="Waits for Crossplane to fetch what is referred to",
    )


def model_not_found(type_: ConditionType, ref: ModelRef, namespace: str) -> Condition:
    """Return the condition of a model that does not exist."""
    where = f" in namespace {namespace}" if ref.kind == "Model" else ""
    return Condition(
        type=type_,
        status=Status.FALSE,
        reason=ModelResolved.MODEL_NOT_FOUND,
        message=f"spec.modelRef: {ref.kind} {ref.name} does not exist{where}; create it or name another. "
        "What runs is kept",
    )


def model_invalid(type_: ConditionType, ref: ModelRef, problems: Iterable[Problem]) -> Condition:
    """Return the condition of a model whose faults leave nothing to serve."""
    faults = "; ".join(map(str, problems))
    return Condition(
        type=type_,
        status=Status.FALSE,
        reason=ModelResolved.MODEL_INVALID,
        message=_cut(f"Correct {ref.kind} {ref.name}: {faults}"),
    )


def profile_not_found(ref: ModelRef, model: Model, profile: str) -> Condition:
    """Return the condition of a placement whose profile is not declared any more."""
    known = ", ".join(p.name for p in model.profiles) or "none"
    return Condition(
        type=ConditionType.REFERENCES_RESOLVED,
        status=Status.FALSE,
        reason=ReferencesResolved.MODEL_INVALID,
        message=f"spec.profile: {ref.kind} {ref.name} has no valid profile {profile}; it has {known}. "
        "What runs is kept",
    )


def environment_not_found(name: str) -> Condition:
    """Return the condition of a placement whose environment does not exist."""
    return Condition(
        type=ConditionType.REFERENCES_RESOLVED,
        status=Status.FALSE,
        reason=ReferencesResolved.ENVIRONMENT_NOT_FOUND,
        message=f"spec.inferenceEnvironmentRef: InferenceEnvironment {name} does not exist; create it again, or delete "
        "the deployment to give up what runs there",
    )


def environment_invalid(name: str, problems: Iterable[Problem]) -> Condition:
    """Return the condition of a placement whose environment cannot be read."""
    return Condition(
        type=ConditionType.REFERENCES_RESOLVED,
        status=Status.FALSE,
        reason=ReferencesResolved.ENVIRONMENT_NOT_FOUND,
        message=_cut(f"Correct InferenceEnvironment {name}: {'; '.join(map(str, problems))}"),
    )


def pool_not_found(environment: str, pool: str) -> Condition:
    """Return the condition of a placement whose pool is gone from its environment, or invalid."""
    return Condition(
        type=ConditionType.REFERENCES_RESOLVED,
        status=Status.FALSE,
        reason=ReferencesResolved.POOL_NOT_FOUND,
        message=f"spec.pool: InferenceEnvironment {environment} has no valid pool {pool}; declare it again. "
        "What runs is kept",
    )


def cache_not_found(name: str, namespace: str) -> Condition:
    """Return the condition of a placement whose ModelCache does not exist."""
    return Condition(
        type=ConditionType.REFERENCES_RESOLVED,
        status=Status.FALSE,
        reason=ReferencesResolved.CACHE_NOT_FOUND,
        message=f"spec.modelCache.name: ModelCache {name} does not exist in namespace {namespace}; create it again. "
        "What runs is kept",
    )


def invalid_placement(problems: Iterable[Problem]) -> Condition:
    """Return the condition of a placement whose own spec cannot be carried out."""
    return Condition(
        type=ConditionType.REFERENCES_RESOLVED,
        status=Status.FALSE,
        reason=ReferencesResolved.INVALID_PLACEMENT,
        message=_cut("; ".join(map(str, problems))),
    )


def _cut(message: str) -> str:
    return message if len(message) <= _LIMIT else f"{message[: _LIMIT - 1]}…"


def model_resolved(type_: ConditionType, model: Model) -> Condition:
    """Return the condition of a model that resolves; its faulty profiles are named, since they are skipped."""
    skipped = f"; profiles skipped as invalid: {', '.join(b.name for b in model.broken)}" if model.broken else ""
    return resolved(type_, f"{model.kind} {model.name} is valid{skipped}")


def unreadable_topology() -> Condition:
    """Return the condition of a placement whose recorded topology cannot be read."""
    return invalid_placement(
        [Problem("spec.topology", "must have nodes, gpusPerNode and parallelism that agree with each other")]
    )
