"""Placements that are to be deleted wait until no ModelService sends requests to them any more."""

from collections.abc import Sequence
from dataclasses import replace

from function.domain.model_service import Listing
from function.scheduling.verdicts import Decision, Draining, Dropped


def drains_first(decision: Decision) -> bool:
    """Tells whether a placement is to be deleted to which a ModelService may send requests."""
    return any(_may_serve(dropped) for dropped in decision.dropped)


def hold_draining(decision: Decision, services: Sequence[Listing] | None) -> Decision:
    """Returns the decision that deletes a placement only once no ModelService of the namespace sends it requests.

    `services`: what they say of themselves; None while that is not known. A placement that is not observed to be
    draining yet is not deleted either: a service may be about to list it.
    """
    draining: list[Draining] = []
    for placement in (dropped.placement for dropped in decision.dropped if _may_serve(dropped)):
        if services is None:
            draining.append(Draining(placement=placement))
            continue
        concerned = [s for s in services if placement.deployment in s.deployments or placement.name in s.placements]
        holding = [s for s in concerned if placement.name in s.placements or s.unknown or not placement.draining]
        if holding:
            draining.append(Draining(placement=placement, held_by=tuple(sorted(s.name for s in holding))))
    held = {d.placement.name for d in draining}
    released = tuple(d for d in decision.dropped if d.placement.name not in held)
    return replace(decision, dropped=released, draining=tuple(draining))


def _may_serve(dropped: Dropped) -> bool:
    placement = dropped.placement
    # One that has Objects of which its status says nothing may serve unnoticed.
    may_serve = placement.ever_ready or (placement.has_objects and not placement.has_resources)
    return may_serve and not placement.deleting
