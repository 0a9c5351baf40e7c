"""What goes into a decision besides environments and placements."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from function.domain.environment import Environment, Pool
from function.domain.model import Model, Shape
from function.domain.placement import Deployment
from function.storage.checks import StorageFault

Unstorable: TypeAlias = Callable[[Environment, Pool, Shape, int], tuple[StorageFault, ...]]


def _storable(*_: object) -> tuple[StorageFault, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRequest:
    """What shall run. `unstorable` is the planner's word on the weights: why so many replicas of a shape cannot have
    them on a pool.
    """

    deployment: Deployment
    model: Model
    unstorable: Unstorable = _storable
