"""Turns of a roll-out over environments: which placement may change its service, from reported digests alone.

A placement reports the digest that its service has and the one that is requested, and changes a running service only
to the digest that it is allowed. One that never had a service takes no part.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from function.domain.placement import Placement, Rollout


@dataclass(frozen=True, slots=True)
class Turns:
    """The placements that take part in a roll-out, in its order."""

    changed: tuple[Placement, ...] = ()  # serve what is requested and are Ready
    changing: tuple[Placement, ...] = ()  # may change, or have changed, and are not Ready with what is requested
    waiting: tuple[Placement, ...] = ()  # may not change yet

    @property
    def total(self) -> int:
        """Number of placements that take part."""
        return len(self.changed) + len(self.changing) + len(self.waiting)


def sort_turns(rollout: Rollout, placements: Iterable[Placement]) -> Turns:
    """Returns the placements of a roll-out by their state."""
    position = {name: index for index, name in enumerate(rollout.order)}
    taking_part = sorted(
        (p for p in placements if p.served_digest and p.requested_digest),
        key=lambda p: (position.get(p.environment, len(position)), p.environment),
    )
    changed = tuple(p for p in taking_part if p.ready and p.served_digest == p.requested_digest)
    waiting = tuple(p for p in taking_part if p.requested_digest not in {p.served_digest, p.allowed_digest})
    return Turns(changed, tuple(p for p in taking_part if p not in changed and p not in waiting), waiting)


def assign_turns(rollout: Rollout | None, placements: Iterable[Placement]) -> tuple[Placement, ...]:
    """Returns placements with the digests that they are allowed: one may change while all others are Ready.

    One that is not Ready comes first: it serves nothing that a change could take away, and a fix is for it.
    """
    all_placements = tuple(placements)
    if rollout is None:
        return tuple(p if p.allowed_digest is None else replace(p, allowed_digest=None) for p in all_placements)
    turns = sort_turns(rollout, all_placements)
    chosen = None
    if turns.waiting and not turns.changing and not rollout.paused:
        chosen = min(turns.waiting, key=lambda p: p.ready)
    return tuple(
        replace(p, allowed_digest=p.requested_digest if p is chosen else p.allowed_digest or "") for p in all_placements
    )
