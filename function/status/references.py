"""Conditions for references to a model, an environment, a pool or a cache.

Deployments, placements and caches have these conditions under their own types, with the same reasons and messages.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from function.api.problems import invalid_value
from function.contract import Condition
from function.domain.model import Model, ModelRef, Problem
from function.kube.names import VERSION
from function.reasons import ConditionType, ReferencesResolved, Status
from function.status.conditions import KEPT, faulty

_unresolved = partial(Condition, ConditionType.REFERENCES_RESOLVED, Status.FALSE)


def resolving(type_: ConditionType) -> Condition:
    message = "Waiting for Crossplane to fetch the referenced resources"
    return Condition(type_, Status.UNKNOWN, ReferencesResolved.RESOLVING, message)


def model_resolved(model: Model) -> Condition:
    skipped = f"; profiles skipped as invalid: {', '.join(b.name for b in model.broken)}" if model.broken else ""
    message = f"{model.kind} {model.name} is valid{skipped}"
    return Condition(ConditionType.MODEL_RESOLVED, Status.TRUE, ReferencesResolved.RESOLVED, message)


def model_not_found(type_: ConditionType, ref: ModelRef, namespace: str) -> Condition:
    where = f" in namespace {namespace}" if ref.kind == "Model" else ""
    message = f"spec.modelRef: {ref.kind} {ref.name} does not exist{where}; create it or name another. {KEPT}"
    return Condition(type_, Status.FALSE, ReferencesResolved.MODEL_NOT_FOUND, message)


def model_invalid(type_: ConditionType, ref: ModelRef, problems: Iterable[Problem]) -> Condition:
    message = f"Correct {ref.kind} {ref.name}: {'; '.join(map(str, problems))}"
    return Condition(type_, Status.FALSE, ReferencesResolved.MODEL_INVALID, message)


def profile_not_found(ref: ModelRef, model: Model, profile: str) -> Condition:
    known = ", ".join(p.name for p in model.profiles) or "none"
    message = f"spec.profile: {ref.kind} {ref.name} has no valid profile {profile}; it has {known}. {KEPT}"
    return _unresolved(ReferencesResolved.MODEL_INVALID, message)


def environment_not_found(name: str) -> Condition:
    message = (
        f"spec.inferenceEnvironmentRef: InferenceEnvironment {name} does not exist; create it again, or delete the "
        "deployment to stop what runs there"
    )
    return _unresolved(ReferencesResolved.ENVIRONMENT_NOT_FOUND, message)


def environment_changed(name: str, provider_config: str) -> Condition:
    allowed = (
        f"the environment whose ClusterProviderConfig is {provider_config}, where its objects are; "
        "delete the placement and make another to move"
    )
    return invalid_placement([invalid_value("spec.inferenceEnvironmentRef", name, allowed)])


def pool_not_found(environment: str, pool: str) -> Condition:
    what = f"spec.pool: InferenceEnvironment {environment} has no valid pool {pool}"
    message = f"{what}; correct it as PoolsValid of the environment says, or declare it again. {KEPT}"
    return _unresolved(ReferencesResolved.POOL_NOT_FOUND, message)


def cache_not_found(name: str, namespace: str) -> Condition:
    message = f"spec.modelCache.name: ModelCache {name} does not exist in namespace {namespace}; create it. {KEPT}"
    return _unresolved(ReferencesResolved.CACHE_NOT_FOUND, message)


def settings_invalid(type_: ConditionType) -> Condition:
    """Returns the condition while platform settings that decide what runs are invalid; a note names them."""
    message = f"Correct the platform settings; nothing new starts until then. {KEPT}"
    return Condition(type_, Status.FALSE, ReferencesResolved.INVALID_SETTINGS, message)


def reference_invalid(reason: ReferencesResolved, subject: str, problems: Iterable[Problem]) -> Condition:
    return _unresolved(reason, f"Correct {subject}: {'; '.join(map(str, problems))}")


def invalid_placement(problems: Iterable[Problem]) -> Condition:
    return faulty(ConditionType.REFERENCES_RESOLVED, ReferencesResolved.INVALID_PLACEMENT, problems)


def unknown_kind(version: str, kind: str, known: Sequence[str]) -> str:
    expected = f"its Composition should be for one of {', '.join(known)} of {VERSION}"
    return f"kind {kind} of {version or 'no group'} is not composed by this function; {expected}"


def unreadable_topology() -> Condition:
    message = "must have nodes, gpusPerNode and parallelism that agree with each other"
    return invalid_placement([Problem("spec.topology", message)])
