"""What label selectors and tolerations admit.

Label selectors are those of k8s.io/apimachinery/pkg/apis/meta/v1 LabelSelectorAsSelector: an empty selector admits
everything, and `NotIn` and `DoesNotExist` admit an object without the label. Taints and tolerations are those of
k8s.io/component-helpers/scheduling/corev1.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorRequirement:
    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def admits(self, labels: Mapping[str, str]) -> bool:
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
        return tuple(r for r in self.requirements if not r.admits(labels))

    @property
    def equalities(self) -> dict[str, str]:
        """The labels that all selected objects have, from the requirements that allow only one value."""
        return {r.key: r.values[0] for r in self.requirements if r.operator is Operator.IN and len(r.values) == 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a node or of an environment."""

    key: str
    value: str = ""
    effect: str
    reason: str = ""  # of an environment's taint only

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"

    def describe(self) -> str:
        """Returns the taint with its reason, if it has one."""
        return f"{self} ({self.reason})" if self.reason else str(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    key: str = ""  # empty: every key
    any_value: bool = False  # operator Exists
    value: str = ""
    effect: str = ""  # empty: every effect

    def admits(self, taint: Taint) -> bool:
        has_key = self.key in {"", taint.key}
        return has_key and self.effect in {"", taint.effect} and (self.any_value or self.value == taint.value)


def find_untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str] = (NO_SCHEDULE, NO_EXECUTE)
) -> tuple[Taint, ...]:
    """Returns the taints with one of these effects that no toleration admits."""
    return tuple(t for t in taints if t.effect in effects and not any(own.admits(t) for own in tolerations))
