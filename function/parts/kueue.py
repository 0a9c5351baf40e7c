"""The queues by which Kueue admits the pods of a service: observed while not all of its replicas are ready."""

from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import PlacementContext
from function.parts.service import SERVICE_PART
from function.remote.composed_kinds import OBJECT
from function.serving.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, lacks_pods, observe_queues


def _observe_queues(context: PlacementContext, decisions: Decisions) -> PartOutcome[None]:
    reconciled = decisions.of(SERVICE_PART)
    is_needed = lacks_pods(reconciled.written, reconciled.remote)
    return PartOutcome(decision=None, desired=observe_queues(reconciled.written, context.writer, is_needed=is_needed))


KUEUE_PART = Part(run=_observe_queues, names={OBJECT: f"{LOCAL_QUEUE}|{CLUSTER_QUEUE}"})
