"""Scopes: the inputs of a deployment's decision. Its own scope comes first, the fleet only if that does not suffice.

A deployment whose request is satisfied requires its own placements and, by name, the environments that they use.
Otherwise it requires every environment that its selectors admit, and then every environment, so that each refusal has
its reason. It requires the placements of others on the environments that it uses itself, to know how much is free there
without its own placements. If an environment comes from a file, which publishes no ledger, it requires the placements
on all environments.

Requirements follow from earlier requirements and answers, and are therefore the same in every call of a reconcile.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from function.api.inference_environment import ENVIRONMENT_CACHE
from function.api.model_cache import parse_model_cache
from function.api.model_deployment import MAX_ENVIRONMENTS, parse_placement
from function.contract import Answer, Call, RequiredResource, Requirement
from function.domain.cache import ModelCache, ModelCacheChoice
from function.domain.environment import Environment
from function.domain.placement import Deployment, Placement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, listing, text
from function.kube.names import VERSION
from function.parts import requirements
from function.parts.autoscaler import AUTOSCALER_KEY, SCALED_OBJECT
from function.remote.adoption import find_orphan_placements, find_orphans
from function.remote.composed_kinds import NamePatterns
from function.remote.provider_usage import PROVIDER_USAGE

SERVICE_KEY = "model-service"  # composition-resource-name of the ModelService of a deployment
NAMES = NamePatterns(
    {
        (VERSION, "ModelPlacement"): "placement-.+",
        (VERSION, "ModelService"): SERVICE_KEY,
        SCALED_OBJECT: AUTOSCALER_KEY,
        requirements.PROVIDER_USAGE: f"{PROVIDER_USAGE}-.+",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The inputs of one decision."""

    requirements: Mapping[str, Requirement]
    answered: bool = False  # every requirement is answered
    environments: tuple[Environment, ...] = ()
    own: tuple[Placement, ...] = ()
    deleting: tuple[Placement, ...] = ()  # own ones, even if unobserved, that exist until their Objects are deleted
    others: tuple[Placement, ...] = ()  # placements of other deployments
    # Own placements and ProviderConfigUsages that Crossplane did not observe, by composition-resource-name.
    orphans: Mapping[str, Manifest]
    requires_lost_placements: bool = (
        False  # a placement of the status was neither observed nor listed, and is required by name
    )
    cache: ModelCache | None = None

    @property
    def has_file_environments(self) -> bool:
        """Tells whether an environment comes from a file, and thus publishes no ledger."""
        return any(not environment.uid for environment in self.environments)

    @property
    def used_environments(self) -> list[str]:
        return sorted({placement.environment for placement in self.own})


def find_own_scope(call: Call, deployment: Deployment, settings: Settings) -> Scope:
    """Returns a deployment's own scope.

    A placement of its status that is neither observed nor listed is required by name: it may have lost its label.
    """
    required_usages = requirements.require_labelled_resources(call, (requirements.PROVIDER_USAGE,))
    usages, _ = requirements.collect_own_resources(call, required_usages)
    required = {
        **required_usages,
        requirements.MODEL: requirements.require_model(deployment.model, deployment.namespace),
        requirements.OWN_PLACEMENTS: requirements.require_placements(deployment.namespace, deployment=deployment.name),
    }
    known = _parse_items(call.answers.get(requirements.OWN_PLACEMENTS, ()))
    by_name: Mapping[str, Requirement] = {}
    if requirements.OWN_PLACEMENTS in call.answers:
        observed = {text(manifest, "metadata.name") for manifest in call.observed.values()}
        reported = {text(row, "name") for row in listing(call.xr, "status.placements")[:MAX_ENVIRONMENTS]}
        missing = sorted(reported - observed - {placement.name for _, placement in known if placement} - {""})
        by_name = requirements.require_placements_by_name(missing, deployment.namespace)
        required |= by_name
        known += [item for key in by_name for item in _parse_items(call.answers.get(key, ()))]
    orphans = find_orphan_placements(call.xr, call.observed, known)
    if deployment.composes_model_service and SERVICE_KEY not in call.observed:
        required[requirements.MODEL_SERVICE] = requirements.require_object(
            "ModelService", deployment.name, deployment.namespace
        )
    if isinstance(deployment.storage_choice, ModelCacheChoice):
        required[requirements.CACHE] = requirements.require_object(
            "ModelCache", deployment.storage_choice.name, deployment.namespace
        )
    # These placements are its own even if a user has changed their deploymentRef, which is then composed again.
    own = tuple(
        placement if placement.deployment == deployment.name else replace(placement, deployment=deployment.name)
        for placement in (*parse_placements(call.observed), *parse_placements(orphans))
    )
    if settings.limits_of(deployment.namespace).guaranteed_gpus is not None:
        required |= _require_namespace(call, settings)
    used = requirements.require_environments_by_name(sorted({placement.environment for placement in own}))
    caches = (parse_model_cache(item.load()).value for item in call.answers.get(requirements.CACHE, ()))
    return Scope(
        requirements=required | used,
        answered=(required | used).keys() <= call.answers.keys(),
        environments=ENVIRONMENT_CACHE.parse([item for key in used for item in call.answers.get(key, ())], settings),
        own=own,
        deleting=_find_deleting(call, known),
        orphans=orphans | find_orphans(call, usages, NAMES),
        requires_lost_placements=bool(by_name),
        cache=next((cache for cache in caches if cache), None),
    )


def fleet_scopes(call: Call, own: Scope, labels: Mapping[str, str], settings: Settings) -> Iterator[Scope]:
    """Returns the wider scopes: the environments that the selectors admit, then all.

    Only a new placement or more replicas can exceed the quota of the namespace. Its placements are therefore required
    here.
    """
    required = {
        **own.requirements,
        **requirements.require_placements_on(own.used_environments),
        **_require_namespace(call, settings),
    }
    has_file_environments = False
    if required_selected := _require_selected(call, labels):
        selected = _widen(call, own, required | required_selected, settings)
        has_file_environments = selected.has_file_environments
        if not selected.answered or not has_file_environments:
            yield selected
    required |= {requirements.ENVIRONMENTS: requirements.require_environments({})}
    fleet = _widen(call, own, required, settings)
    if has_file_environments or fleet.has_file_environments:
        fleet = _widen(call, own, required | {requirements.PLACEMENTS: requirements.require_placements()}, settings)
    yield fleet


def required_resources(
    call: Call, deployment: Deployment, labels: Mapping[str, str], settings: Settings
) -> dict[str, Requirement]:
    """Returns what the calls of a reconcile have required so far, even if no decision is possible now."""
    own = find_own_scope(call, deployment, settings)
    wider = {
        **_require_namespace(call, settings),
        **_require_selected(call, labels),
        **requirements.require_placements_on(own.used_environments),
        requirements.ENVIRONMENTS: requirements.require_environments({}),
        requirements.PLACEMENTS: requirements.require_placements(),
        requirements.MODEL_SERVICES: requirements.require_model_services(deployment.namespace),
    }
    return {**own.requirements, **{key: required for key, required in wider.items() if key in call.answers}}


def parse_placements(composed: Mapping[str, Manifest]) -> tuple[Placement, ...]:
    """Returns the placements among composed resources that can be read."""
    ordered = (manifest for _, manifest in sorted(composed.items()) if text(manifest, "kind") == "ModelPlacement")
    parsed = (parse_placement(manifest).value for manifest in ordered)
    return tuple(placement for placement in parsed if placement)


def _find_deleting(
    call: Call, placements: Iterable[tuple[RequiredResource, Placement | None]]
) -> tuple[Placement, ...]:
    """Returns the placements of a deployment that are being deleted, also those that Crossplane no longer observes."""
    uid = text(call.xr, "metadata.uid")
    return tuple(p for _, p in placements if p and p.deleting and uid and p.owner == uid)


def _parse_items(answer: Answer) -> list[tuple[RequiredResource, Placement | None]]:
    return [(item, parse_placement(item.load()).value) for item in answer]


def _require_namespace(call: Call, settings: Settings) -> dict[str, Requirement]:
    """Returns the requirement of all placements of the namespace where a quota limits what it has or is guaranteed."""
    namespace = text(call.xr, "metadata.namespace")
    limits = settings.limits_of(namespace)
    if not limits.has_limits and limits.guaranteed_gpus is None:
        return {}
    return {requirements.PLACEMENTS_IN_NAMESPACE: requirements.require_placements(namespace)}


def _require_selected(call: Call, labels: Mapping[str, str]) -> dict[str, Requirement]:
    """Returns the requirement of the environments with these labels; none once all environments are answered."""
    if not labels or call.answers.get(requirements.ENVIRONMENTS) is not None:
        return {}
    return {requirements.SELECTED: requirements.require_environments(labels)}


def _widen(call: Call, own_scope: Scope, required: Mapping[str, Requirement], settings: Settings) -> Scope:
    """Returns the scope with the environments and placements of these requirements, as far as they are answered."""
    widest = requirements.ENVIRONMENTS if requirements.ENVIRONMENTS in required else requirements.SELECTED
    environments = (*own_scope.environments, *ENVIRONMENT_CACHE.parse(call.answers.get(widest, ()), settings))
    keys: Iterable[str] = [requirements.PLACEMENTS]
    if requirements.PLACEMENTS not in required:
        keys = requirements.require_placements_on(own_scope.used_environments)
    if any(key not in call.answers for key in (widest, *keys, *_require_namespace(call, settings))):
        return replace(own_scope, requirements=required, answered=False, environments=environments)
    return replace(
        own_scope,
        requirements=required,
        answered=True,
        environments=tuple({environment.name: environment for environment in environments}.values()),
        others=tuple(_parse_others(call, keys, own_scope)),
    )


def _parse_others(call: Call, keys: Iterable[str], own_scope: Scope) -> Iterator[Placement]:
    deployment = text(call.xr, "metadata.namespace"), text(call.xr, "metadata.name")
    own_names = {(placement.namespace, placement.name) for placement in own_scope.own}
    for placement in requirements.collect_placements(call, keys) or ():
        if (placement.namespace, placement.name) not in own_names:
            # A placement that names this deployment, but was not composed by it, takes GPUs like any other.
            is_namesake = (placement.namespace, placement.deployment) == deployment
            yield replace(placement, deployment="") if is_namesake else placement
