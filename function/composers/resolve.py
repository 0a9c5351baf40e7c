"""From an answered requirement to a parsed object, or to the condition that says why there is none.

A requirement that is not answered yet makes the condition Unknown, one that is answered with nothing makes it False.
"""

from collections.abc import Mapping

from function.api.cluster_model import parse_model
from function.api.inference_environment import name_provider_config, parse_environment
from function.api.model_cache import parse_model_cache
from function.composers import requirements
from function.contract import Answer, Call, Condition
from function.domain.cache import ModelCache, NamedCache
from function.domain.environment import Environment
from function.domain.model import Model, ModelRef
from function.domain.placement import Placement, ResolvedPlacement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, text
from function.reasons import ConditionType
from function.remote.object_writer import find_remote_namespace
from function.status import references


def placement(call: Call, placement: Placement, settings: Settings) -> ResolvedPlacement | Condition:
    """Returns a placement with its model, profile, environment, pool and cache, or the first that does not resolve."""
    if placement.shape is None:
        return references.unreadable_topology()
    found_model = model(call, placement.model, placement.namespace, ConditionType.REFERENCES_RESOLVED, settings)
    if isinstance(found_model, Condition):
        return found_model
    found_environment = environment(call, placement.environment, settings)
    if isinstance(found_environment, Condition):
        return found_environment
    other_cluster = find_other_cluster(call.observed, found_environment)
    if other_cluster:
        return references.environment_changed(found_environment.name, other_cluster)
    found_cache = None
    if isinstance(placement.cache, NamedCache):
        found_cache = cache(call, placement.cache.name, placement.namespace)
    if isinstance(found_cache, Condition):
        return found_cache
    profile = next((p for p in found_model.profiles if p.name == placement.profile), None)
    if profile is None:
        return references.profile_not_found(placement.model, found_model, placement.profile)
    pool = found_environment.pool(placement.pool)
    if pool is None:
        return references.pool_not_found(found_environment.name, placement.pool)
    return ResolvedPlacement(
        placement=placement,
        shape=placement.shape,
        model=found_model,
        profile=profile,
        environment=found_environment,
        pool=pool,
        cache=found_cache,
        settings=settings,
        namespace=find_remote_namespace(call.observed) or settings.remote_namespace(placement.namespace),
    )


def find_other_cluster(observed: Mapping[str, Manifest], environment: Environment) -> str:
    """Returns the ClusterProviderConfig of an Object on another cluster than the environment's; empty if there is none.

    An Object that is pointed at another cluster leaves behind what it created on the first one, and nothing deletes
    it, so the environment of a placement never changes. An environment that was recreated has the same
    ClusterProviderConfig by the rule of names, whatever an earlier one had in its status.
    """
    known = {"", environment.provider_config, name_provider_config(environment.name)}
    configs = (text(observed[key], "spec.providerConfigRef.name") for key in sorted(observed))
    return next((name for name in configs if name not in known), "")


def model(call: Call, ref: ModelRef, namespace: str, type_: ConditionType, settings: Settings) -> Model | Condition:
    """Returns the model, or the condition of the given type that says why there is none."""
    answer = call.answer(requirements.MODEL)
    if answer is Answer.PENDING:
        return references.resolving(type_)
    if not answer:
        return references.model_not_found(type_, ref, namespace)
    parsed = parse_model(answer[0].load(), settings)
    return parsed.value or references.model_invalid(type_, ref, parsed.problems)


def environment(call: Call, name: str, settings: Settings) -> Environment | Condition:
    """Returns the environment of a placement, or the condition that says why there is none."""
    answer = call.answer(requirements.ENVIRONMENT)
    if answer is Answer.PENDING:
        return references.resolving(ConditionType.REFERENCES_RESOLVED)
    if not answer:
        return references.environment_not_found(name)
    parsed = parse_environment(answer[0].load(), settings)
    if parsed.value.broken:
        return references.environment_invalid(name, parsed.other_problems)
    return parsed.value


def cache(call: Call, name: str, namespace: str) -> ModelCache | Condition:
    """Returns the ModelCache of a placement, or the condition that says why there is none."""
    answer = call.answer(requirements.CACHE)
    if answer is Answer.PENDING:
        return references.resolving(ConditionType.REFERENCES_RESOLVED)
    if not answer:
        return references.cache_not_found(name, namespace)
    parsed = parse_model_cache(answer[0].load())
    return parsed.value or references.cache_invalid(name, parsed.problems)
