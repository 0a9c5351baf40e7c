"""Drain: which placements are left on an environment with a NoExecute taint, and why each is.

Deployments move by themselves (scheduling/retention.py). This only reports it, from their conditions. Placements that
were never admitted and have no resources do not count: users may have written any number of them.
"""

from collections.abc import Collection

from function.api.model_deployment import parse_deployment
from function.composers import requirements
from function.contract import Call, Condition, Requirement
from function.domain.environment import Environment
from function.domain.placement import Placement
from function.kube.manifests import condition, listing, text
from function.kube.messages import format_count, join_with_more
from function.kube.selectors import NO_EXECUTE, Taint, find_untolerated
from function.reasons import ConditionType, Drained, Phase, Status


def required_resources(environment: Environment, placements: Collection[Placement]) -> dict[str, Requirement]:
    """Requires the deployments of the placements on an environment that is being drained."""
    if not _find_draining(environment):
        return {}
    holders = (p for p in _find_holders(environment, placements) if p.deployment)
    return {_key(p): requirements.one("ModelDeployment", p.deployment, p.namespace) for p in holders}


def build_drained(
    call: Call, environment: Environment, placements: Collection[Placement] | None
) -> tuple[Condition, ...]:
    """Returns Drained; none where the environment never had a taint. `placements` is None while it is not answered."""
    if not environment.taints and not condition(call.xr, ConditionType.DRAINED):
        return ()
    draining = _find_draining(environment)
    if not draining:
        message = "The environment has no NoExecute taint"
        return (Condition(ConditionType.DRAINED, Status.FALSE, Drained.NOT_DRAINING, message),)
    required = required_resources(environment, placements or ())
    if placements is None or any(call.answers.get(key) is None for key in required):
        message = "Waiting for Crossplane to fetch placements and deployments"
        return (Condition(ConditionType.DRAINED, Status.UNKNOWN, Drained.DRAINING, message),)
    ordered = sorted(_find_holders(environment, placements), key=lambda p: (p.namespace, p.deployment, p.name))
    left = [(placement, _explain(call, environment, placement, draining)) for placement in ordered]
    tolerating = [_name(placement) for placement, why in left if not why]
    also = f". Staying, because they tolerate the taint: {join_with_more(tolerating)}" if tolerating else ""
    rows = [f"{_name(placement)} {why}" for placement, why in left if why]
    if not rows:
        message = f"Nothing is left to move{also}"
        return (Condition(ConditionType.DRAINED, Status.TRUE, Drained.DRAINED, message),)
    message = f"{format_count(len(rows), 'placement')} left: {join_with_more(rows, separator='; ')}{also}"
    return (Condition(ConditionType.DRAINED, Status.FALSE, Drained.DRAINING, message),)


def _find_draining(environment: Environment) -> tuple[Taint, ...]:
    return find_untolerated(environment.taints, (), {NO_EXECUTE})


def _find_holders(environment: Environment, placements: Collection[Placement]) -> list[Placement]:
    """Returns the placements that are admitted or have resources."""
    admitted = {grant.uid for grant in environment.admitted}
    return [placement for placement in placements if placement.uid in admitted or placement.may_run]


def _key(placement: Placement) -> str:
    return f"deployment-{placement.namespace}/{placement.deployment}"


def _name(placement: Placement) -> str:
    return f"{placement.namespace}/{placement.deployment or placement.name}"


def _explain(call: Call, environment: Environment, placement: Placement, draining: Collection[Taint]) -> str:
    """Returns why a placement is still on the environment; empty where its deployment tolerates the taints."""
    if placement.deleting:
        return "is being deleted"
    if not placement.deployment:
        return "was not written by a deployment, so nothing moves it"
    manifest = next((found.load() for found in call.answers[_key(placement)] or ()), None)
    deployment = parse_deployment(manifest).value if manifest else None
    if manifest is None or deployment is None:
        return "cannot move: its deployment is invalid" if manifest else "is being deleted with its deployment"
    if not find_untolerated(draining, deployment.tolerations):
        return ""
    scheduled = condition(manifest, ConditionType.SCHEDULED)
    if scheduled.get("status") != Status.TRUE:
        if not scheduled:
            return "cannot move yet: its deployment has no condition Scheduled"
        summary = text(scheduled, "message").partition("\n")[0].rstrip(".")
        return f"cannot move: {text(scheduled, 'reason')} ({summary})"
    rows = listing(manifest, "status.placements")
    unready = [text(row, "environment") for row in rows if text(row, "phase") != Phase.READY]
    targets = [name for name in unready if name != environment.name]
    return f"serves until {join_with_more(targets)} is Ready" if targets else "is about to move"
