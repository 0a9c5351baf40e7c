"""The weights of a ModelCache on one environment, from the same planner as the weights of a placement."""

from collections.abc import Collection
from dataclasses import dataclass

from function.domain.cache import Consumer
from function.domain.placement import Placement
from function.domain.records.weights import DownloadRecord
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.weights import WEIGHTS_NAMES
from function.remote.composed_kinds import OBJECT
from function.remote.object_writer import ObjectWriter
from function.weights.consumers import list_claims, may_delete_weights
from function.weights.reconcile import ReconciledWeights, reconcile_weights
from function.weights.request import WeightsRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheContext:
    """What the parts of a ModelCache read for one of its environments."""

    request: WeightsRequest
    recorded: DownloadRecord
    consumers: Collection[Consumer]
    named_by: Collection[Placement]  # the placements that name the cache
    writer: ObjectWriter
    now: float  # seconds since 1970

    @property
    def remote_namespace(self) -> str:
        return self.request.namespace


def _reconcile_weights(context: CacheContext, _: Decisions) -> PartOutcome[ReconciledWeights]:
    weights = reconcile_weights(context.request, context.writer, context.recorded, now=context.now)
    claims = list_claims(context.writer.observed.values())
    are_read = not may_delete_weights(claims, context.consumers, context.named_by, weights)
    return PartOutcome(decision=weights, desired=weights.current | weights.desire_previous(are_read=are_read))


CACHED_WEIGHTS_PART = Part(run=_reconcile_weights, names={OBJECT: WEIGHTS_NAMES})
