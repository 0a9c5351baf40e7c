"""The weights of an earlier plan: they stay while a pod of the service may read them."""

from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import PlacementContext
from function.parts.service import SERVICE_PART
from function.parts.weights import WEIGHTS_PART


def _desire_previous(_: PlacementContext, decisions: Decisions) -> PartOutcome[None]:
    are_read = decisions.of(SERVICE_PART).may_read_previous_weights
    return PartOutcome(decision=None, desired=decisions.of(WEIGHTS_PART).desire_previous(are_read=are_read))


PREVIOUS_WEIGHTS_PART = Part(run=_desire_previous)
