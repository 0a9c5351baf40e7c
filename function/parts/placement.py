"""What the parts of a ModelPlacement read: the placement with all that it refers to, and its observed Objects."""

from dataclasses import dataclass

from function.contract import Call
from function.domain.placement import ResolvedPlacement
from function.remote.object_writer import ObjectWriter


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
