"""A part of a composite, and how the parts of a composite are run.

Most composites are lists of parts; a ModelCache has the same list for each of its environments. Each part is run once,
in the order of the list, and reads what the parts before it decided. A part cannot delete by omission: only a `Drop`
deletes (contract.py). Every resource under a name of a part belongs to this part, so no two parts share a name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from function.contract import Condition, Desired, Event, combine
from function.kube.manifests import Manifest
from function.remote.composed_kinds import ResourceKind

Context_contra = TypeVar("Context_contra", contravariant=True)  # what all parts of one kind of composite read
DecisionT = TypeVar("DecisionT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOutcome(Generic[DecisionT]):
    decision: DecisionT  # for later parts, and for the composer
    desired: Desired = Desired()
    conditions: tuple[Condition, ...] = ()
    status: Manifest = field(default_factory=dict)  # the fields that this part alone writes
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Part(Generic[Context_contra, DecisionT]):
    run: Callable[[Context_contra, "Decisions"], PartOutcome[DecisionT]]
    # For each kind that the part composes: the regular expression of its composition-resource-names.
    names: Mapping[ResourceKind, str] = field(default_factory=dict)


class Decisions:
    """What the parts of one composite have decided so far in a call."""

    def __init__(self) -> None:
        self._by_part: dict[Part[Any, Any], object] = {}

    def add(self, part: Part[Any, DecisionT], decision: DecisionT) -> None:
        self._by_part[part] = decision

    def of(self, part: Part[Any, DecisionT]) -> DecisionT:
        """Returns what a part decided.

        Raises:
            KeyError: The part has not been run yet, because it comes later in the list.
        """
        return cast("DecisionT", self._by_part[part])


def run_parts(parts: Iterable[Part[Context_contra, Any]], context: Context_contra) -> PartOutcome[Decisions]:
    """Runs parts in order, and joins their outcomes; an exception of one part ends the run."""
    decisions = Decisions()
    desired: list[Desired] = []
    conditions: list[Condition] = []
    status: Manifest = {}
    events: list[Event] = []
    for part in parts:
        outcome = part.run(context, decisions)
        decisions.add(part, outcome.decision)
        desired.append(outcome.desired)
        conditions += outcome.conditions
        status |= outcome.status
        events += outcome.events
    return PartOutcome(
        decision=decisions, desired=combine(desired), conditions=tuple(conditions), status=status, events=tuple(events)
    )


def join_names(parts: Iterable[Part[Any, Any]], *, prefix: str = "") -> dict[ResourceKind, str]:
    """Returns the patterns of the names of all parts, with a prefix if a composite has the same parts several times."""
    patterns: dict[ResourceKind, list[str]] = {}
    for part in parts:
        for kind, pattern in part.names.items():
            patterns.setdefault(kind, []).append(f"{prefix}(?:{pattern})")
    return {kind: "|".join(alternatives) for kind, alternatives in patterns.items()}
