"""Turns of a rollout over environments: which placement may change its service, from reported digests alone.

A placement reports the digest of its service and the requested digest. It changes a running service only to the digest
that it is allowed. A placement that never had a service takes no part. A placement that had a turn and reports nothing
may be changing, so the other placements wait for it.

Placements read a changed model at different times, in no order. A turn is given only when all have reported what they
request of it: otherwise the first to report would change first, whatever the order says.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from function.domain.placement import Placement, Rollout


@dataclass(frozen=True, slots=True)
class Turns:
    """The placements that take part in a rollout, in its order."""

    changed: tuple[Placement, ...] = ()  # are Ready, and all their pods serve what is requested
    changing: tuple[Placement, ...] = ()  # may change, or have changed, and have not arrived
    waiting: tuple[Placement, ...] = ()  # may not change yet
    outdated: tuple[Placement, ...] = ()  # changed or waiting, by a report that is not about the current model and spec
    chosen: Placement | None = None  # changes next; None if one changes, one is outdated, or the rollout is paused

    @property
    def total(self) -> int:
        return len(self.changed) + len(self.changing) + len(self.waiting)


def sort_turns(
    rollout: Rollout, placements: Iterable[Placement], leaving: Collection[Placement] = (), *, model_generation: int = 0
) -> Turns:
    """Returns the placements of a rollout by their state.

    Placements in `leaving` stay as observed and get no turn, but while one of them changes, no other placement may
    change.
    """
    taking_part = sorted((p for p in placements if _has_reported(p) or p.allowed_digest), key=_get_position(rollout))
    reported = [p for p in taking_part if _has_reported(p)]
    changed = tuple(p for p in reported if _has_arrived(p) and p.rollout.served_digest == p.rollout.requested_digest)
    waiting = tuple(p for p in reported if _needs_turn(p))
    changing = tuple(p for p in taking_part if p not in changed and p not in waiting)
    if leaving:
        changing += sort_turns(rollout, leaving).changing
    outdated = tuple(
        placement
        for placement in (*changed, *waiting)
        if model_generation not in {0, placement.rollout.model_generation}  # 0: the model is from a file
        # A spec also changes with `replicas`, which no rollout waits for.
        or (waiting and not placement.status_is_current)
    )
    may_change = [] if rollout.paused or changing or outdated else sort_by_turn(rollout, waiting)
    return Turns(changed, changing, waiting, outdated, next(iter(may_change), None))


def sort_by_turn(rollout: Rollout, placements: Iterable[Placement]) -> list[Placement]:
    """Returns placements in the order in which they change.

    A placement that has not arrived at an earlier spec comes first, because the new spec may be the fix for it.
    """
    position = _get_position(rollout)
    return sorted(placements, key=lambda p: (_has_arrived(p), position(p)))


def needs_gate(
    rollout: Rollout, placements: Iterable[Placement], leaving: Collection[Placement] = (), *, model_generation: int = 0
) -> bool:
    """Tells whether the gate must be open for the next change: it goes further in the order than all changes before.

    The first change needs no gate. The gate is also not needed for a placement that has not arrived at an earlier spec,
    and for a roll-back, which comes before placements that still serve the requested spec.
    """
    turns = sort_turns(rollout, placements, leaving, model_generation=model_generation)
    position = _get_position(rollout)
    chosen = turns.chosen
    if rollout.gate is None or chosen is None or not _has_arrived(chosen):
        return False
    # A placement that started with the requested spec had no turn.
    had_turn = [p for p in turns.changed if p.allowed_digest == p.rollout.requested_digest]
    return bool(had_turn) and position(had_turn[-1]) < position(chosen)


def assign_turns(
    rollout: Rollout | None,
    placements: Iterable[Placement],
    leaving: Collection[Placement] = (),
    *,
    gate_is_closed: bool = False,
    model_generation: int = 0,
) -> tuple[Placement, ...]:
    """Returns placements with the digests that they are allowed: one may change while no other placement changes."""
    all_placements = tuple(placements)
    if rollout is None:
        return tuple(p if p.allowed_digest is None else replace(p, allowed_digest=None) for p in all_placements)
    turns = sort_turns(rollout, all_placements, leaving, model_generation=model_generation)
    chosen = None if gate_is_closed else turns.chosen
    return tuple(
        replace(p, allowed_digest=p.rollout.requested_digest if p is chosen else p.allowed_digest or "")
        for p in all_placements
    )


def _needs_turn(placement: Placement) -> bool:
    rollout = placement.rollout
    return rollout.requested_digest not in {rollout.served_digest, placement.allowed_digest}


def _has_reported(placement: Placement) -> bool:
    return bool(placement.rollout.served_digest and placement.rollout.requested_digest)


def _has_arrived(placement: Placement) -> bool:
    """Tells whether a placement is Ready and all its pods run the spec of its service."""
    return placement.ready and not placement.rollout.update


def _get_position(rollout: Rollout) -> Callable[[Placement], tuple[int, str]]:
    """Returns the key that sorts placements in the order of a rollout."""
    position = {name: index for index, name in enumerate(rollout.order)}
    return lambda p: (position.get(p.environment, len(position)), p.environment)
