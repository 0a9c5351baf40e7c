"""What the parts of a ModelPlacement read: the placement with all that it refers to, and its observed Objects.

While a reference does not resolve, other parts run instead, which need the placement alone (`KeptPlacement`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from function.contract import Call, Condition
from function.domain.environment import Environment
from function.domain.placement import Placement, ResolvedPlacement
from function.remote.object_writer import NAMESPACE, ObjectWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementContext:
    call: Call
    resolved: ResolvedPlacement
    writer: ObjectWriter

    @property
    def remote_namespace(self) -> str:
        return self.resolved.namespace

    @property
    def rolls_out_in_order(self) -> bool:
        """Tells whether its deployment changes one environment after the other."""
        return self.resolved.placement.allowed_digest is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlacement:
    """A placement whose existing resources stay as observed."""

    call: Call
    placement: Placement
    environment: Environment | None  # None: not answered, or it does not exist
    conditions: Sequence[Condition]  # why nothing is composed
    may_scale_down: bool  # the requested replicas are readable


def has_nothing_composed(call: Call) -> bool:
    """Tells whether a placement has nothing on the cluster, except perhaps its namespace, which is never deleted."""
    return all(key == NAMESPACE for key in call.observed)
