"""ModelDeployment: read the model, all environments and all placements, decide, and write the placements.

The deciding is done by `scheduling`; this file asks, hands over, and turns the decision into ModelPlacements. While
any input is unanswered, missing or invalid, every placement stays exactly as it was observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from function.composers import requirements, resolve
from function.composers.finish import finish, keep_observed
from function.domain.cache import ModelCache, NamedCache
from function.domain.environment import Environment
from function.domain.model import Model
from function.domain.placement import Deployment, Placement
from function.domain.settings import BUILT_IN, Settings
from function.exchange import Answer, Answered, Call, Composed, Condition, Outcome, Requirement
from function.kube.manifests import Manifest, get, text
from function.kube.names import named
from function.lifecycle.carry_over import carried
from function.lifecycle.orphans import orphans
from function.lifecycle.placement_writer import placement_manifest
from function.parse.caches import read_cache
from function.parse.deployments import read_deployment
from function.parse.environments import ENVIRONMENTS
from function.parse.placements import PLACEMENTS, read_placement
from function.reasons import ConditionType, ModelResolved, Status
from function.report import deployments as report
from function.report import references
from function.report.explain import explain
from function.scheduling.remembered import Verdicts
from function.scheduling.request import SchedulingRequest
from function.scheduling.schedule import schedule
from function.scheduling.verdicts import Assignment, Decision
from function.serving.service import unservable
from function.storage.placed import PlacedWeights

_VERDICTS = Verdicts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """A decision with all that it was made from. `others` are the placements of everybody else, `orphans` those
    of ours that were not observed, by composition-resource-name.
    """

    request: SchedulingRequest
    environments: tuple[Environment, ...]
    own: tuple[Placement, ...]
    others: tuple[Placement, ...]
    decision: Decision
    resolved: Condition
    orphans: Mapping[str, Manifest]


def compose(call: Call, settings: Settings) -> Outcome:
    """Return the placements of a ModelDeployment, with what is so and what to do."""
    found = consider(call, settings)
    if isinstance(found, Outcome):
        return found
    return _answer(replace(call, observed={**call.observed, **found.orphans}), settings, found)


def consider(call: Call, settings: Settings) -> Considered | Outcome:
    """Return the decision, or the outcome that keeps everything while there can be none."""
    parsed = read_deployment(call.xr)
    deployment = parsed.value
    if deployment is None:
        return keep_observed(call, settings, {}, [report.invalid(parsed.problems)])
    asked = _requirements(deployment)
    model = resolve.model(call, deployment.model, deployment.namespace, ConditionType.MODEL_RESOLVED, settings)
    if isinstance(model, Model) and not model.profiles:
        model = references.model_invalid(ConditionType.MODEL_RESOLVED, deployment.model, model.problems)
    if isinstance(model, Condition):
        held = keep_observed(call, settings, asked, [model])
        return replace(held, ready=False) if model.reason == ModelResolved.MODEL_INVALID else held
    resolved = references.model_resolved(ConditionType.MODEL_RESOLVED, model)
    seen = _Seen.of(call, deployment)
    if seen is None:
        return keep_observed(call, settings, asked, [resolved, references.resolving(ConditionType.SCHEDULED)])
    weights = PlacedWeights(
        model=model,
        choice=deployment.cache,
        cache=seen.cache,
        settings=settings,
        namespace=deployment.namespace,
        owner=deployment.name,
    )
    request = SchedulingRequest(deployment=deployment, model=model, unstorable=weights, unservable=unservable)
    return Considered(
        request=request,
        environments=seen.environments,
        own=seen.own,
        others=seen.others,
        decision=schedule(
            request,
            seen.environments,
            [*seen.others, *seen.own],
            _VERDICTS.judging(request, seen.environments),
        ),
        resolved=resolved,
        orphans=seen.orphans,
    )


def asks(call: Call) -> dict[str, Requirement]:
    """Return what is asked for a ModelDeployment; nothing for one that says nothing."""
    deployment = read_deployment(call.xr).value
    return _requirements(deployment) if deployment else {}


def _requirements(deployment: Deployment) -> dict[str, Requirement]:
    asked = {
        requirements.MODEL: requirements.model(deployment.model, deployment.namespace),
        requirements.ENVIRONMENTS: requirements.environments(),
        requirements.PLACEMENTS: requirements.placements(),
    }
    if isinstance(deployment.cache, NamedCache):
        asked[requirements.CACHE] = requirements.cache(deployment.cache.name, deployment.namespace)
    return asked


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the decision looks at besides the model."""

    environments: tuple[Environment, ...]
    own: tuple[Placement, ...]
    others: tuple[Placement, ...]
    orphans: Mapping[str, Manifest]
    cache: ModelCache | None

    @classmethod
    def of(cls, call: Call, deployment: Deployment) -> "_Seen | None":
        """Return what was answered; None while anything is outstanding."""
        environments = call.answer(requirements.ENVIRONMENTS)
        placements = call.answer(requirements.PLACEMENTS)
        cache: Answered | Answer = ()
        if isinstance(deployment.cache, NamedCache):
            cache = call.answer(requirements.CACHE)
        if environments is Answer.PENDING or placements is Answer.PENDING or cache is Answer.PENDING:
            return None
        every = PLACEMENTS.read(placements)
        lost = orphans(call.xr, call.observed, zip(placements, every, strict=True))
        own = (*_own(call.observed), *_own(lost))
        mine = {(p.namespace, p.name) for p in own}
        others = [
            # A placement that names this deployment without being composed by it takes GPUs like anybody's.
            replace(p, deployment="") if p.deployment == deployment.name and p.namespace == deployment.namespace else p
            for p in every
            if p and (p.namespace, p.name) not in mine
        ]
        caches = [c for c in (read_cache(item.load()).value for item in cache) if c]
        return cls(ENVIRONMENTS.read(environments, BUILT_IN), own, tuple(others), lost, caches[0] if caches else None)


def _own(composed: Mapping[str, Manifest]) -> tuple[Placement, ...]:
    parsed = (read_placement(manifest).value for _, manifest in sorted(composed.items()))
    return tuple(p for p in parsed if p)


def _answer(call: Call, settings: Settings, found: Considered) -> Outcome:
    request, decision = found.request, found.decision
    keys = {text(manifest, "metadata.name"): key for key, manifest in call.observed.items()}
    readable = {placement.name for placement in _own(call.observed)}
    orphans = {text(manifest, "metadata.name") for manifest in found.orphans.values()}
    stays = {*(keys.keys() - readable), *orphans, *(placement.name for placement in decision.carried)}
    composed = {keys[name]: carried(call.observed[keys[name]]) for name in sorted(stays)}
    counted = tuple(_placement(request, assignment) for assignment in decision.assignments)
    for assignment, placement in zip(decision.assignments, counted, strict=True):
        key = keys.get(placement.name, f"placement-{assignment.environment}")
        composed[key] = Composed(
            manifest=placement_manifest(request.deployment, placement, get(call.xr, "spec.modelCache")),
            ready=placement.ready,
        )
    explanation = explain(request, decision)
    conditions = [
        found.resolved,
        report.scheduled(explanation),
        report.placements_ready((*counted, *decision.carried), request.deployment.environments),
    ]
    return finish(
        call,
        settings,
        requirements=_requirements(request.deployment),
        composed=composed,
        status=report.status(request, decision, counted, explanation.unplaced),
        conditions=conditions,
        settled=all(c.status is Status.TRUE for c in conditions),
        ready=False if decision.placed < decision.wanted else None,
    )


def _placement(request: SchedulingRequest, assignment: Assignment) -> Placement:
    deployment = request.deployment
    existing = assignment.placement or Placement(
        namespace=deployment.namespace,
        name=named(deployment.name, deployment.namespace, deployment.name, assignment.environment),
        deployment=deployment.name,
        model=deployment.model,
        environment=assignment.environment,
        profile=assignment.profile,
        pool=assignment.pool,
        shape=assignment.shape,
    )
    return replace(
        existing,
        profile=assignment.profile,
        pool=assignment.pool,
        shape=assignment.shape,
        replicas=assignment.replicas,
        vram=assignment.vram,
    )
