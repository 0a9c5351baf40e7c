"""The pods of a service on several nodes: observed while it is not Ready, where the environment allows it.

The part of the service counts their restarts, because the conditions of the service tell them.
"""

from function.domain.environment import PodObservation
from function.domain.records.restarts import build_restarts
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import KeptPlacement, PlacementContext, has_nothing_composed
from function.parts.service import SERVICE_PART
from function.remote.composed_kinds import OBJECT
from function.serving.kueue import lacks_pods
from function.serving.restarts import POD_NAMES, observe_pods, start_again


def _observe_pods(context: PlacementContext, decisions: Decisions) -> PartOutcome[None]:
    resolved, reconciled = context.resolved, decisions.of(SERVICE_PART)
    is_allowed = resolved.environment.pod_observation is not PodObservation.NEVER
    is_needed = is_allowed and lacks_pods(reconciled.written, reconciled.remote)
    nodes = resolved.shape.nodes
    desired = observe_pods(reconciled.remote, nodes, context.writer, is_needed=is_needed)
    return PartOutcome(decision=None, desired=desired)


RESTARTS_PART = Part(run=_observe_pods, names={OBJECT: POD_NAMES})


def _keep_restarts(context: KeptPlacement, _: Decisions) -> PartOutcome[None]:
    """Lets a placement start that was stopped and has nothing on the cluster any more, or has another `retry`."""
    placement = context.placement
    record = placement.restarts
    if record.stopped and (has_nothing_composed(context.call) or placement.retry != record.retry):
        return PartOutcome(decision=None, status=build_restarts(start_again(record, placement.retry)))
    return PartOutcome(decision=None)


KEPT_RESTARTS_PART = Part(run=_keep_restarts)
