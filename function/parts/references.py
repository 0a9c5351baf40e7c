"""What a composite refers to: its model, environment and cache, resolved from the answers of a call."""

from collections.abc import Mapping

from function.api.cluster_model import parse_model
from function.api.inference_environment import name_provider_config, parse_environment
from function.api.model_cache import parse_model_cache
from function.contract import Call, Condition
from function.domain.cache import ModelCache, ModelCacheChoice
from function.domain.environment import Environment
from function.domain.model import Model, ModelRef
from function.domain.placement import Placement, ResolvedPlacement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, text
from function.parts.requirements import CACHE, ENVIRONMENT, MODEL
from function.reasons import ConditionType, ReferencesResolved, Status
from function.remote.object_writer import find_remote_namespace
from function.status import references

RESOLVED = Condition(
    ConditionType.REFERENCES_RESOLVED, Status.TRUE, ReferencesResolved.RESOLVED, "Model, environment and pool are known"
)


class NotComposableError(Exception):
    """A composite cannot be composed further now, and stays as observed; the conditions say why.

    Either a reference does not resolve (yet), or a placement waits for its admission and has nothing on the cluster.
    """

    def __init__(self, *conditions: Condition) -> None:
        self.conditions = conditions


def resolve_placement(call: Call, placement: Placement, settings: Settings) -> ResolvedPlacement:
    """Returns a placement with its model, profile, environment, pool and cache.

    Raises:
        NotComposableError: One of them does not resolve.
    """
    if placement.shape is None:
        raise NotComposableError(references.unreadable_topology())
    model = resolve_model(call, placement.model, placement.namespace, ConditionType.REFERENCES_RESOLVED, settings)
    environment = _resolve_environment(call, placement.environment, settings)
    cache = _resolve_cache(call, placement)
    profile = next((p for p in model.profiles if p.name == placement.profile), None)
    if profile is None:
        raise NotComposableError(references.profile_not_found(placement.model, model, placement.profile))
    pool = environment.pool(placement.pool)
    if pool is None:
        raise NotComposableError(references.pool_not_found(environment.name, placement.pool))
    return ResolvedPlacement(
        placement=placement,
        shape=placement.shape,
        model=model,
        profile=profile,
        environment=environment,
        pool=pool,
        cache=cache,
        settings=settings,
        namespace=find_remote_namespace(call.observed) or settings.remote_namespace(placement.namespace),
    )


def find_other_cluster(observed: Mapping[str, Manifest], environment: Environment) -> str:
    """Returns the ClusterProviderConfig of an Object on another cluster than the environment's; empty if there is none.

    If an Object were pointed at another cluster, nothing would delete the remote object on the first cluster. The
    environment of a placement therefore never changes. A recreated environment has the same ClusterProviderConfig by
    the rule of names, whatever the earlier environment had in its status.
    """
    known = {"", environment.provider_config, name_provider_config(environment.name)}
    configs = (text(observed[key], "spec.providerConfigRef.name") for key in sorted(observed))
    return next((name for name in configs if name not in known), "")


def resolve_model(call: Call, ref: ModelRef, namespace: str, type_: ConditionType, settings: Settings) -> Model:
    """Returns the model; raises NotComposableError with a condition of the given type if there is none.

    It also raises the error while the settings are invalid, so that existing resources stay as observed.
    """
    if not settings.valid:
        raise NotComposableError(references.settings_invalid(type_))
    not_found = references.model_not_found(type_, ref, namespace)
    parsed = parse_model(_load(call, MODEL, not_found), settings)
    if parsed.value is None:
        raise NotComposableError(references.model_invalid(type_, ref, parsed.problems))
    return parsed.value


def _resolve_environment(call: Call, name: str, settings: Settings) -> Environment:
    """Returns the environment of a placement, which must still be on the cluster on which the placement started."""
    manifest = _load(call, ENVIRONMENT, references.environment_not_found(name))
    parsed = parse_environment(manifest, settings)
    if parsed.value.broken:
        reason = ReferencesResolved.ENVIRONMENT_NOT_FOUND
        subject = f"InferenceEnvironment {name}"
        raise NotComposableError(references.reference_invalid(reason, subject, parsed.other_problems))
    other_cluster = find_other_cluster(call.observed, parsed.value)
    if other_cluster:
        raise NotComposableError(references.environment_changed(name, other_cluster))
    return parsed.value


def _resolve_cache(call: Call, placement: Placement) -> ModelCache | None:
    if not isinstance(placement.storage_choice, ModelCacheChoice):
        return None
    name = placement.storage_choice.name
    parsed = parse_model_cache(_load(call, CACHE, references.cache_not_found(name, placement.namespace)))
    if parsed.value is None:
        reason = ReferencesResolved.CACHE_NOT_FOUND
        subject = f"ModelCache {name}"
        raise NotComposableError(references.reference_invalid(reason, subject, parsed.problems))
    return parsed.value


def _load(call: Call, requirement: str, not_found: Condition) -> Manifest:
    answer = call.answers.get(requirement)
    if answer is None:
        raise NotComposableError(references.resolving(not_found.type))
    if not answer:
        raise NotComposableError(not_found)
    return answer[0].load()
