"""The guarantee of a namespace: how many of its GPUs are guaranteed. What it uses beyond them is lent.

The guarantee is used up in one order: the deployments with the highest priority come first, then those that were
created first. A deployment counts only what comes before it, so that the numbers settle in the same way whichever
deployment is reconciled first, and a new deployment takes nothing from those before it. Replicas are guaranteed whole.

The time at which a deployment was created is recorded on its placements, because these may be younger: a deployment
that moves keeps its place. While it moves, its new placements are without the record. So it does not count twice there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from function.domain.allocation import Limits
from function.domain.placement import Deployment, Placement

_Position: TypeAlias = tuple[int, str, str]
_NOT_CREATED = "~"  # sorts after every time


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """The GPUs that a namespace is guaranteed, as one of its deployments finds them."""

    gpus: int
    used: int  # by placements of others that come before it

    @property
    def left(self) -> int:
        return self.gpus - self.used


def find_guarantee(
    deployment: Deployment, created: str, placements: Iterable[Placement], limits: Limits
) -> Guarantee | None:
    """Returns what its namespace is guaranteed; None if there is no such limit.

    `created`: when the deployment was created; empty: not yet, so it comes last of its priority. `placements`: those of
    its namespace.
    """
    if limits.guaranteed_gpus is None:
        return None
    own_position = (-deployment.priority, created or _NOT_CREATED * 2, deployment.name)
    used = 0
    for placement in sorted(placements, key=_order):
        is_counted = placement.deployment != deployment.name and not placement.is_leaving
        if is_counted and _find_position(placement) < own_position:
            used += placement.gpus_per_replica * count_guaranteed(placement, limits.guaranteed_gpus - used)
    return Guarantee(gpus=limits.guaranteed_gpus, used=used)


def count_guaranteed(placement: Placement, gpus: int) -> int:
    """Returns how many guaranteed replicas of a placement so many GPUs suffice for."""
    each = placement.gpus_per_replica
    return min(placement.guaranteed_replicas, gpus // each) if each else 0


def _find_position(placement: Placement) -> _Position:
    created = placement.deployment_created or placement.created or _NOT_CREATED
    return -placement.priority, created, placement.deployment or placement.name


def _order(placement: Placement) -> tuple[_Position, str, str, str]:
    return _find_position(placement), placement.created, placement.uid, placement.name
