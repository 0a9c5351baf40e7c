"""Relaxation: what a deployment or its model would have to require, so that one refusal is gone."""

from bisect import bisect_left
from dataclasses import replace
from typing import Any, TypeAlias

from function.domain.environment import Environment
from function.domain.hardware import OR_BETTER, BandwidthRequirement
from function.domain.model import Model, Profile
from function.kube.selectors import Selector
from function.kube.taints import Toleration, find_untolerated
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
    """Returns the request without what a refusal requires beyond what there is, and the advice."""
    if refusal.unmet:
        return _relax_selector(request, refusal)
    if refusal.reason is Refused.ENVIRONMENT_TAINTED:
        return _tolerate(request, environment)
    if refusal.use or refusal.quota_usage:
        return _lower_replicas(request, environment, refusal)
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
    return relaxed, f"Let the {refusal.field} admit InferenceEnvironment {refusal.environment}, which {found}"


def _tolerate(request: SchedulingRequest, environment: Environment) -> Relaxed:
    deployment = request.deployment
    taints = find_untolerated(environment.taints, deployment.tolerations)
    more = (Toleration(key=taint.key, any_value=True, effect=taint.effect) for taint in taints)
    tolerant = replace(deployment, tolerations=(*deployment.tolerations, *more))
    names = ", ".join(taint.describe() for taint in taints)
    where = f"InferenceEnvironment {environment.name}"
    advice = f"Tolerate {names} of {where} in spec.tolerations, or wait until the taint is removed"
    return replace(request, deployment=tolerant), advice


def _lower_replicas(request: SchedulingRequest, environment: Environment, refusal: Refusal) -> Relaxed | None:
    """Lowers the replicas to those that the pool or the quota has room for."""
    usage, shape, replicas = refusal.quota_usage, refusal.shape, refusal.actual
    why = f"for which pool {refusal.pool} of InferenceEnvironment {environment.name} has room"
    if usage and shape and isinstance(refusal.required, int):
        numbers = range(1, refusal.required // shape.gpus)
        pool = environment.pool(refusal.pool)
        price = pool.price if pool else None
        replicas = bisect_left(numbers, 1, key=lambda count: usage.find_excess(shape.gpus * count, price) is not None)
        why = f"which the limits of namespace {usage.namespace} allow on InferenceEnvironment {environment.name}"
    if not replicas or not isinstance(replicas, int):
        return None
    fewer = replace(request, deployment=replace(request.deployment, replicas=replicas))
    return fewer, f"Lower spec.scaling.fixed.replicas to {replicas}, {why}"


def _relax_requirement(request: SchedulingRequest, environment: Environment, refusal: Refusal) -> Relaxed | None:
    """Lowers a requirement of a profile to the value that a pool has; removes it where it has none."""
    profile, name = request.find_profile(refusal.profile), _REQUIREMENTS.get(refusal.field)
    if profile is None or name is None or not refusal.required:
        return None
    value: Any = refusal.actual
    if isinstance(refusal.required, tuple) and isinstance(value, tuple):
        value = tuple(word for word in refusal.required if word in value)
    elif refusal.field is Field.BANDWIDTH and isinstance(value, str):
        value = BandwidthRequirement(rung=value, or_better=True)
    advice = f"{refusal.remedy}; else remove the requirement from profile {profile.name}"
    if value:
        words = ", ".join(value) if isinstance(value, tuple) else refusal.columns[1]
        words += OR_BETTER if refusal.field is Field.BANDWIDTH else ""
        on = f"pool {refusal.pool} of InferenceEnvironment {environment.name}"
        advice = f"If the model runs with it, set {refusal.field} of profile {profile.name} to {words}, as {on} has"
    return _replace_profile(request, replace(profile, requires=replace(profile.requires, **{name: value}))), advice


def _replace_profile(request: SchedulingRequest, profile: Profile) -> SchedulingRequest:
    profiles = tuple(profile if p.name == profile.name else p for p in request.model.profiles)
    return _replace_model(request, replace(request.model, profiles=profiles))


def _replace_model(request: SchedulingRequest, model: Model) -> SchedulingRequest:
    weights = replace(request.weights, model=model) if request.weights else None
    return replace(request, model=model, weights=weights)
