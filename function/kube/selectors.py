"""Label selectors, as in k8s.io/apimachinery/pkg/apis/meta/v1 LabelSelectorAsSelector.

An empty selector admits everything. `NotIn` and `DoesNotExist` admit an object without the label.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """Relation of a label to the values of a requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorRequirement:
    """A requirement on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Tells whether the labels meet the requirement."""
        compares_values = self.operator in {Operator.IN, Operator.NOT_IN}
        holds = labels.get(self.key) in self.values if compares_values else self.key in labels
        return holds is (self.operator in {Operator.IN, Operator.EXISTS})

    def __str__(self) -> str:
        if self.operator is Operator.IN and len(self.values) == 1:
            return f"{self.key}={self.values[0]}"
        return {
            Operator.IN: f"{self.key} in ({','.join(self.values)})",
            Operator.NOT_IN: f"{self.key} notin ({','.join(self.values)})",
            Operator.EXISTS: self.key,
            Operator.DOES_NOT_EXIST: f"!{self.key}",
        }[self.operator]


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all be met; sorted, so that equal selectors compare and print equally."""

    requirements: tuple[SelectorRequirement, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def find_unmet(self, labels: Mapping[str, str]) -> tuple[SelectorRequirement, ...]:
        """Returns the requirements that the labels do not meet."""
        return tuple(r for r in self.requirements if not r.admits(labels))

    @property
    def equalities(self) -> dict[str, str]:
        """The labels that all selected objects have: those of requirements that allow one value."""
        return {r.key: r.values[0] for r in self.requirements if r.operator is Operator.IN and len(r.values) == 1}
