"""Draining: whether all placements have left an environment whose taint evicts them, and what keeps the rest."""

from collections.abc import Collection

from function.contract import Condition, Requirement
from function.domain.environment import Environment
from function.domain.placement import Placement
from function.kube.manifests import condition
from function.parts import requirements
from function.parts.environment import EnvironmentContext
from function.parts.part import Decisions, Part, PartOutcome
from function.reasons import ConditionType
from function.status import inference_environment as report


def _drain(context: EnvironmentContext, _: Decisions) -> PartOutcome[None]:
    return PartOutcome(decision=None, conditions=_build_drained(context))


DRAIN_PART = Part(run=_drain)


def require_deployments(environment: Environment, placements: Collection[Placement]) -> dict[str, Requirement]:
    """Requires the deployments of the placements that must leave: a deployment shows why its placement remains."""
    return {
        _deployment_key(p): requirements.require_object("ModelDeployment", p.deployment, p.namespace)
        for p in report.find_draining(environment, placements)
        if p.deployment
    }


def _build_drained(context: EnvironmentContext) -> tuple[Condition, ...]:
    """Returns Drained, or no condition if the environment never had a taint."""
    call, environment, placements = context.call, context.environment, context.placements
    if not environment.taints and not condition(call.xr, ConditionType.DRAINED):
        return ()
    draining = report.find_draining(environment, placements or ())
    required = {_deployment_key(p) for p in draining if p.deployment}
    if placements is None or not required <= call.answers.keys():
        return (report.build_drained(environment, None),)
    deployments = [next((item.load() for item in call.answers.get(_deployment_key(p), ())), None) for p in draining]
    return (report.build_drained(environment, [*zip(draining, deployments, strict=True)]),)


def _deployment_key(placement: Placement) -> str:
    return f"deployment-{placement.namespace}/{placement.deployment}"
