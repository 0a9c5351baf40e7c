"""From an answered requirement to a parsed object, or to the condition that says why there is none.

Not answered yet, answered with none and answered are three different results: the first is Unknown, the second False.
"""

from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.api.model_cache import parse_model_cache
from function.composers import requirements
from function.contract import Answer, Call, Condition
from function.domain.cache import ModelCache, NamedCache
from function.domain.environment import Environment
from function.domain.model import Model, ModelRef
from function.domain.placement import Placement
from function.domain.resolved import ResolvedPlacement
from function.domain.settings import Settings
from function.reasons import ConditionType
from function.remote.moved_clusters import elsewhere
from function.status import references


def placement(call: Call, wanted: Placement, settings: Settings) -> ResolvedPlacement | Condition:
    """Return a placement with its model, profile, environment, pool and cache, or what does not resolve."""
    if wanted.shape is None:
        return references.unreadable_topology()
    found = model(call, wanted.model, wanted.namespace, ConditionType.REFERENCES_RESOLVED, settings)
    if isinstance(found, Condition):
        return found
    there = environment(call, wanted.environment, settings)
    if isinstance(there, Condition):
        return there
    left = elsewhere(call.observed, there)
    if left:
        return references.environment_changed(there.name, left)
    named = cache(call, wanted.cache.name, wanted.namespace) if isinstance(wanted.cache, NamedCache) else None
    if isinstance(named, Condition):
        return named
    profile = next((p for p in found.profiles if p.name == wanted.profile), None)
    if profile is None:
        return references.profile_not_found(wanted.model, found, wanted.profile)
    pool = there.pool(wanted.pool)
    if pool is None:
        return references.pool_not_found(there.name, wanted.pool)
    return ResolvedPlacement(
        placement=wanted,
        shape=wanted.shape,
        model=found,
        profile=profile,
        environment=there,
        pool=pool,
        cache=named,
        settings=settings,
    )


def model(call: Call, ref: ModelRef, namespace: str, type_: ConditionType, settings: Settings) -> Model | Condition:
    """Return the model, or the condition of the given type that says why not."""
    found = call.answer(requirements.MODEL)
    if found is Answer.PENDING:
        return references.resolving(type_)
    if not found:
        return references.model_not_found(type_, ref, namespace)
    parsed = parse_model(found[0].load(), settings)
    return parsed.value or references.model_invalid(type_, ref, parsed.problems)


def environment(call: Call, name: str, settings: Settings) -> Environment | Condition:
    """Return the environment of a placement, or the condition that says why not."""
    found = call.answer(requirements.ENVIRONMENT)
    if found is Answer.PENDING:
        return references.resolving(ConditionType.REFERENCES_RESOLVED)
    if not found:
        return references.environment_not_found(name)
    parsed = parse_environment(found[0].load(), settings)
    if parsed.value.broken:
        return references.environment_invalid(name, parsed.other_problems)
    return parsed.value


def cache(call: Call, name: str, namespace: str) -> ModelCache | Condition:
    """Return the ModelCache of a placement, or the condition that says why not."""
    found = call.answer(requirements.CACHE)
    if found is Answer.PENDING:
        return references.resolving(ConditionType.REFERENCES_RESOLVED)
    if not found:
        return references.cache_not_found(name, namespace)
    parsed = parse_model_cache(found[0].load())
    return parsed.value or references.cache_invalid(name, parsed.problems)
