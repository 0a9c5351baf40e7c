"""Label selectors, as in k8s.io/apimachinery/pkg/apis/meta/v1 LabelSelectorAsSelector.

An empty selector admits everything. `NotIn` and `DoesNotExist` admit an object without the label.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never


class Operator(StrEnum):
    """Relation of a label to the values of a requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A requirement on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Tells whether the labels meet the requirement."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels
            case _:
                assert_never(self.operator)

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case _:
                word = "in" if self.operator is Operator.IN else "notin"
                return f"{self.key} {word} ({','.join(self.values)})"


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all be met; sorted, so that equal selectors compare and print equally."""

    requirements: tuple[Requirement, ...] = ()

    def find_unmet(self, labels: Mapping[str, str]) -> tuple[Requirement, ...]:
        """Returns the requirements that the labels do not meet."""
        return tuple(r for r in self.requirements if not r.admits(labels))

    @property
    def equalities(self) -> dict[str, str]:
        """The labels that all selected objects have: those of requirements that allow one value."""
        return {r.key: r.values[0] for r in self.requirements if r.operator is Operator.IN and len(r.values) == 1}
