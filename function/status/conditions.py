"""The conditions of a composite in a response, and the events for those that changed.

A condition that a function leaves out keeps its old value in Crossplane, so every condition is sent in every call. A
condition that could not be evaluated is Unknown, with the reason for this. Messages are cut to their limit here.

A response is a pure function of the request, so a condition has changed if it differs from the condition in the
composite. An Unknown condition is not news and gets no event.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from function.contract import Condition, Event
from function.domain.model import Problem
from function.kube.manifests import Manifest, condition
from function.kube.messages import LIMIT, truncate_middle
from function.reasons import OPTIONAL, OWNED, CallFailure, ConditionType, Status

KEPT = "Running workloads are not affected"
UNFINISHED: Mapping[CallFailure, str] = {
    CallFailure.INTERNAL_ERROR: f"Internal error; see the function log. {KEPT}",
    CallFailure.TOO_LONG: (
        f"Computing this object takes more processor time than allowed. {KEPT}; the function tries again with its "
        "cached results. Use fewer profiles, or a selector that matches fewer environments"
    ),
    CallFailure.TOO_LARGE: f"The response for this object is larger than Crossplane reads. {KEPT}",
}

_SETTINGS_BYTES = 384  # of a message for problems of the platform's settings
# Reasons of False conditions that need no attention: the composite is on its way.
PROGRESS_REASONS = {"Starting", "Applying", "WaitingForAdmission", "WaitingForStorage", "ClaimPending", "Downloading"}
PROGRESS_REASONS |= {"Connecting", "NothingPlaced", "Draining", "NotDraining", "Rolling", "Paused"}
PROGRESS_REASONS |= {"NoPlacements", "NoneReady", "PartiallyReady", "Scaling"}


def complete(kind: str, known: Iterable[Condition], reason: str, message: str = "") -> tuple[Condition, ...]:
    """Returns every condition of a kind; conditions that are not in `known` are Unknown for the given reason."""
    by_type = {condition.type: condition for condition in known}
    types = (type_ for type_ in OWNED[kind] if type_ in by_type or type_ not in OPTIONAL)
    conditions = (by_type.get(type_) or Condition(type_, Status.UNKNOWN, reason, message) for type_ in types)
    return tuple(replace(c, message=truncate_middle(c.message)) for c in conditions)


def faulty(type_: ConditionType, reason: str, problems: Iterable[Problem]) -> Condition:
    return Condition(type_, Status.FALSE, reason, "; ".join(map(str, problems)))


def with_settings_problems(conditions: Sequence[Condition], problems: Sequence[Problem]) -> tuple[Condition, ...]:
    """Returns the conditions, the first of which also names the problems of the platform's settings.

    These problems stop nothing and belong to no object of their own, but users must see them as long as they exist.
    """
    if not problems:
        return tuple(conditions)
    first, *others = conditions
    note = truncate_middle(f"Platform settings: {'; '.join(map(str, problems))}", _SETTINGS_BYTES)
    message = truncate_middle(first.message, LIMIT - len(note.encode()) - len(". "))
    return (replace(first, message=f"{message}. {note}" if message else note), *others)


def list_changes(xr: Manifest, conditions: Iterable[Condition]) -> tuple[Event, ...]:
    """Returns an event for each condition whose status or reason differs from the composite's."""
    return tuple(
        Event(
            reason=new.reason,
            message=truncate_middle(f"{new.type}: {new.message or new.reason}"),
            warning=new.status is Status.FALSE and new.reason not in PROGRESS_REASONS and not new.is_expected,
        )
        for new in conditions
        for old in [condition(xr, new.type)]
        if new.status is not Status.UNKNOWN and (old.get("status"), old.get("reason")) != (new.status, new.reason)
    )
