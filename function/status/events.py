"""Events of a composite: one for each condition whose reason changed, none otherwise.

A response is a pure function of the request, so "changed" means: differs from the condition that the composite
carries. Unknown is no news, hence no event.
"""

from collections.abc import Iterable

from function.contract import Condition, Event
from function.kube.manifests import Manifest, condition
from function.kube.messages import truncate_middle
from function.reasons import Status

# False, and yet nothing is wrong: it is on its way.
_PROGRESS = frozenset(
    {"Starting", "Applying", "WaitingForStorage", "ClaimPending", "Downloading", "Connecting", "NothingPlaced"}
)


def changes(xr: Manifest, conditions: Iterable[Condition]) -> tuple[Event, ...]:
    """Return an event for each condition whose status or reason differs from what the composite says."""
    return tuple(
        Event(
            reason=new.reason,
            message=truncate_middle(f"{new.type}: {new.message or new.reason}"),
            warning=new.status is Status.FALSE and new.reason not in _PROGRESS,
        )
        for new in conditions
        if new.status is not Status.UNKNOWN and _is_new(condition(xr, new.type), new)
    )


def _is_new(old: Manifest, new: Condition) -> bool:
    return (old.get("status"), old.get("reason")) != (new.status, new.reason)
