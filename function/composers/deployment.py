"""ModelDeployment: look at its own, and at everything while that does not decide it, decide, and write the placements.

The deciding is done by `scheduling`; this file asks, hands over, and turns the decision into ModelPlacements. While
any input is unanswered, missing or invalid, every placement stays as it was observed, except that it has no more
replicas than the deployment requests.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from function.api.model_deployment import parse_deployment
from function.api.model_placement import PLACEMENTS
from function.api.settings import parse_settings
from function.composers import requirements, resolve, scopes
from function.composers.outcome import build_outcome, keep_observed
from function.composers.placement_writer import build_placement, lower_replicas
from function.composers.scopes import Scope
from function.contract import Answer, Call, Composed, Condition, Outcome, Requirement
from function.domain.environment import Environment
from function.domain.model import Model
from function.domain.placement import Deployment, Placement
from function.domain.settings import BUILT_IN, Settings
from function.kube.manifests import get, text
from function.reasons import ConditionType, ModelResolved, Status
from function.remote.adoption import adopt, observe_orphans
from function.remote.carry_over import reapply_observed, with_resource_version
from function.scheduling.quota import find_quota_refusal, limit_decision, namespace_usage, requests_more
from function.scheduling.scheduler import schedule, uncached
from function.scheduling.verdict_cache import VerdictCache
from function.scheduling.verdicts import Assignment, Decision, DropCause, SchedulingRequest
from function.serving.service import find_pool_problems
from function.status import model_deployment as report
from function.status import references
from function.status.model_deployment import explain
from function.weights.faults import DeploymentWeights

VERDICT_CACHE = VerdictCache()


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """A decision with all that it was made from; `weights` is what was asked about storage."""

    request: SchedulingRequest
    weights: DeploymentWeights
    scope: Scope
    decision: Decision
    resolved: Condition

    @property
    def environments(self) -> tuple[Environment, ...]:
        """The environments that were looked at."""
        return self.scope.environments


def compose(call: Call, settings: Settings) -> Outcome:
    """Return the placements of a ModelDeployment, with what is so and what to do."""
    found = decide(call, settings)
    if isinstance(found, Outcome):
        return found
    return _compose_placements(observe_orphans(call, found.scope.orphans), settings, found)


def decide(call: Call, settings: Settings) -> Considered | Outcome:
    """Return the decision, or the outcome that keeps everything while there can be none."""
    parsed = parse_deployment(call.xr)
    deployment = parsed.value
    if deployment is None:
        return keep_observed(call, settings, {}, [report.build_invalid(parsed.problems)])
    near = scopes.own_scope(call, deployment, settings)
    kept = observe_orphans(call, near.orphans)
    model = resolve.model(call, deployment.model, deployment.namespace, ConditionType.MODEL_RESOLVED, settings)
    if isinstance(model, Model) and not model.profiles:
        model = references.model_invalid(ConditionType.MODEL_RESOLVED, deployment.model, model.problems)
    if isinstance(model, Condition):
        held = _hold_placements(kept, settings, deployment, near.requirements, [model])
        return replace(held, ready=False) if model.reason == ModelResolved.MODEL_INVALID else held
    resolved = references.model_resolved(ConditionType.MODEL_RESOLVED, model)
    there = _namespace_placements(call)
    for view in _scopes(call, near, SchedulingRequest(deployment=deployment, model=model).labels, settings):
        if not view.answered:
            waiting = [resolved, references.resolving(ConditionType.SCHEDULED)]
            return _hold_placements(kept, settings, deployment, view.requirements, waiting)
        weights = _placed_weights(deployment, model, view, settings)
        request = SchedulingRequest(
            deployment=deployment, model=model, storage_check=weights, serving_check=find_pool_problems
        )
        # Only of what everybody looks at it is worth while to remember what was found.
        remembering = partial(VERDICT_CACHE.cached_filter, environments=view.environments, pause=call.pause)
        judging = uncached if view is near else remembering
        # What is decided by its own alone makes nothing new, which no quota refuses.
        quota = None if view is near else namespace_usage(deployment.namespace, there, settings.limits)
        decision = schedule(request, view.environments, [*view.others, *view.own], judging, quota)
        found = Considered(request=request, weights=weights, scope=view, decision=decision, resolved=resolved)
        if _is_steady(found) if view is near else _is_fully_placed(decision):
            break
    decision = limit_decision(found.decision, found.request.to_placement, there, settings.limits)
    return replace(found, decision=decision, request=replace(found.request, quota_usage=find_quota_refusal(decision)))


def _hold_placements(
    call: Call,
    settings: Settings,
    deployment: Deployment,
    asked: Mapping[str, Requirement],
    conditions: list[Condition],
) -> Outcome:
    """Return the outcome that keeps every placement as observed, except that replicas may become fewer."""
    held = keep_observed(call, settings, asked, conditions)
    return replace(
        held,
        composed=lower_replicas(held.composed, deployment.replicas),
        status=report.lower_replicas(held.status, deployment.replicas),
    )


def _namespace_placements(call: Call) -> list[Placement]:
    """Return the placements of the namespace, which are asked for only where a quota may refuse something."""
    listed = call.answer(requirements.NAMESPACE)
    return [] if listed is Answer.PENDING else [p for p in PLACEMENTS.parse(listed) if p]


def _scopes(call: Call, near: Scope, labels: Mapping[str, str], settings: Settings) -> Iterator[Scope]:
    yield near
    yield from scopes.fleet_scopes(call, near, labels, settings)


def _placed_weights(deployment: Deployment, model: Model, view: Scope, settings: Settings) -> DeploymentWeights:
    return DeploymentWeights(
        model=model,
        choice=deployment.cache,
        cache=view.cache,
        settings=settings,
        namespace=deployment.namespace,
        owner=deployment.name,
    )


def _is_steady(found: Considered) -> bool:
    """Tell whether everything stays as it is, or goes as it is too much: nothing beyond its own was looked at."""
    decision, rejected = found.decision, {pair for e in found.environments for pair in e.rejected}
    return (
        not found.scope.has_file_environments
        and decision.fault is None
        and decision.placed >= decision.desired
        and not decision.refusals
        and all(p.environment in decision.unreadable for p in decision.carried)
        and all(drop.cause is DropCause.SCALED_DOWN for drop in decision.dropped)
        and all(
            _is_unchanged(a) and (a.placement.uid, a.pool) not in rejected for a in decision.assignments if a.placement
        )
        and all(
            a.placement and not requests_more(a.placement, found.request.to_placement(a)) for a in decision.assignments
        )
    )


def _is_fully_placed(decision: Decision) -> bool:
    return decision.placed >= decision.desired and all(miss.current_replicas is None for miss in decision.refusals)


def _is_unchanged(assignment: Assignment) -> bool:
    placement = assignment.placement
    return (
        placement is not None
        and assignment.replicas <= placement.replicas
        and placement == replace(placement, profile=assignment.profile, pool=assignment.pool, shape=assignment.shape)
    )


def required_resources(call: Call) -> dict[str, Requirement]:
    """Return what is asked for a ModelDeployment; nothing for one that says nothing."""
    deployment = parse_deployment(call.xr).value
    if deployment is None:
        return {}
    settings = parse_settings(call.input, call.context).value
    # Settings change nothing about selectors.
    model = resolve.model(call, deployment.model, deployment.namespace, ConditionType.MODEL_RESOLVED, BUILT_IN)
    labels = SchedulingRequest(deployment=deployment, model=model).labels if isinstance(model, Model) else {}
    return scopes.required_resources(call, deployment, labels, settings)


def _compose_placements(call: Call, settings: Settings, found: Considered) -> Outcome:
    request, decision = found.request, found.decision
    keys = {text(manifest, "metadata.name"): key for key, manifest in call.observed.items()}
    readable = {placement.name for placement in scopes.placements(call.observed)}
    orphans = {text(manifest, "metadata.name") for manifest in found.scope.orphans.values()}
    stays = {*(keys.keys() - readable), *orphans, *(placement.name for placement in decision.carried)}
    carried = {keys[name]: reapply_observed(call.observed[keys[name]]) for name in sorted(stays)}
    composed = lower_replicas(carried, request.deployment.replicas)
    counted = tuple(request.to_placement(assignment) for assignment in decision.assignments)
    for assignment, placement in zip(decision.assignments, counted, strict=True):
        key = keys.get(placement.name, f"placement-{assignment.environment}")
        composed[key] = Composed(
            manifest=build_placement(request.deployment, placement, get(call.xr, "spec.modelCache")),
            ready=placement.ready,
        )
        if key in call.observed and not assignment.is_rescheduled:
            # The pool is repeated from an observation that may be late: it must not overwrite a later decision.
            composed[key] = with_resource_version(composed[key], call.observed[key])
    explanation = explain(request, decision)
    conditions = [
        found.resolved,
        report.build_scheduled(explanation),
        report.build_placements_ready((*counted, *decision.carried), request.deployment.environments),
    ]
    return build_outcome(
        call,
        settings,
        requirements=found.scope.requirements,
        composed=adopt(composed, found.scope.orphans),
        status=report.build_status(request, decision, counted, explanation.unplaced),
        conditions=conditions,
        settled=all(c.status is Status.TRUE for c in conditions),
        ready=False if decision.placed < decision.desired else None,
    )
