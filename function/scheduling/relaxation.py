"""Relaxation: what a deployment or its model would have to require, so that one refusal is gone."""

from dataclasses import replace
from typing import Any, TypeAlias

from function.domain.environment import Environment
from function.domain.model import OR_BETTER, BandwidthRequirement, Model, Profile
from function.kube.selectors import Selector, Toleration, find_untolerated
from function.reasons import Refused
from function.scheduling.refusals import Field, Refusal
from function.scheduling.verdicts import SchedulingRequest

Relaxed: TypeAlias = tuple[SchedulingRequest, str]
# Requirements that can be relaxed to what a pool has, by field of `Requires`.
_REQUIREMENTS = {
    Field.MEMORY_PER_GPU: "memory_per_gpu",
    Field.NVLINK_DOMAIN: "nvlink_domain",
    Field.INTERCONNECT: "interconnect",
    Field.ACCELERATOR_TYPE: "accelerator_type",
    Field.BANDWIDTH: "bandwidth",
    Field.PRECISION: "precision",
}


def relax(request: SchedulingRequest, environment: Environment, refusal: Refusal) -> Relaxed | None:
    """Returns the request with the refused requirement relaxed to what the environment has, and the advice.

    None if it cannot be relaxed, or if it is the number of replicas: how many fit depends on the world.
    """
    if refusal.unmet:
        return _relax_selector(request, refusal)
    if refusal.reason is Refused.ENVIRONMENT_TAINTED:
        return _tolerate(request, environment)
    return _relax_requirement(request, environment, refusal)


def _relax_selector(request: SchedulingRequest, refusal: Refusal) -> Relaxed | None:
    """Removes the one requirement on labels that is not met."""
    if len(refusal.unmet) > 1:
        return None
    ((requirement, label),) = refusal.unmet

    def without(selector: Selector) -> Selector:
        return Selector(tuple(r for r in selector.requirements if r != requirement))

    deployment, model, profile = request.deployment, request.model, request.find_profile(refusal.profile)
    if refusal.field is Field.DEPLOYMENT_SELECTOR:
        relaxed = replace(request, deployment=replace(deployment, selector=without(deployment.selector)))
    elif profile is None:
        relaxed = _replace_model(request, replace(model, selector=without(model.selector)))
    else:
        relaxed = _replace_profile(request, replace(profile, selector=without(profile.selector)))
    found = f"has no label {requirement.key}" if label is None else f"has {requirement.key}={label}"
    return relaxed, f"Change the {refusal.field} to match InferenceEnvironment {refusal.environment}, which {found}"


def _tolerate(request: SchedulingRequest, environment: Environment) -> Relaxed:
    deployment = request.deployment
    taints = find_untolerated(environment.taints, deployment.tolerations)
    more = (Toleration(key=taint.key, any_value=True, effect=taint.effect) for taint in taints)
    tolerant = replace(deployment, tolerations=(*deployment.tolerations, *more))
    names = ", ".join(taint.describe() for taint in taints)
    removed = "the taint is" if len(taints) == 1 else "the taints are"
    where = f"InferenceEnvironment {environment.name}"
    advice = f"Tolerate {names} of {where} in spec.tolerations, or wait until {removed} removed"
    return replace(request, deployment=tolerant), advice


def _relax_requirement(request: SchedulingRequest, environment: Environment, refusal: Refusal) -> Relaxed | None:
    """Lowers a requirement of a profile to the value that a pool has; removes it where it has none."""
    profile, name = request.find_profile(refusal.profile), _REQUIREMENTS.get(refusal.field)
    if profile is None or name is None or not refusal.required:
        return None
    value: Any = refusal.actual
    if isinstance(refusal.required, tuple) and isinstance(value, tuple):
        value = tuple(word for word in refusal.required if word in value)
    elif isinstance(refusal.required, BandwidthRequirement) and isinstance(value, str):
        value = replace(refusal.required, rung=value, or_better=True)
    field, on = refusal.required_field, f"pool {refusal.pool} of InferenceEnvironment {environment.name}"
    if value:
        words = ", ".join(value) if isinstance(value, tuple) else refusal.columns[1]
        words += OR_BETTER if refusal.field is Field.BANDWIDTH else ""
        advice = f"If the model runs with it, set {field} of profile {profile.name} to {words}, as {on} has"
    elif refusal.remedy:
        advice = f"{refusal.remedy}; else remove the requirement from profile {profile.name}"
    else:
        without = f"remove {field} from profile {profile.name}"
        advice = f"If the model runs without it, {without}, as {on} does not have it"
    return _replace_profile(request, replace(profile, requires=replace(profile.requires, **{name: value}))), advice


def _replace_profile(request: SchedulingRequest, profile: Profile) -> SchedulingRequest:
    profiles = tuple(profile if p.name == profile.name else p for p in request.model.profiles)
    return _replace_model(request, replace(request.model, profiles=profiles))


def _replace_model(request: SchedulingRequest, model: Model) -> SchedulingRequest:
    weights = replace(request.weights, model=model) if request.weights else None
    return replace(request, model=model, weights=weights)
