"""Taints and tolerations, as in k8s.io/component-helpers/scheduling/corev1."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"


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
    """Taints that are tolerated."""

    key: str = ""  # empty: every key
    any_value: bool = False  # operator Exists
    value: str = ""
    effect: str = ""  # empty: every effect

    def admits(self, taint: Taint) -> bool:
        """Tells whether it tolerates a taint."""
        has_key = self.key in {"", taint.key}
        return has_key and self.effect in {"", taint.effect} and (self.any_value or self.value == taint.value)


def find_untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str] = (NO_SCHEDULE, NO_EXECUTE)
) -> tuple[Taint, ...]:
    """Returns the taints with one of these effects that no toleration admits."""
    return tuple(t for t in taints if t.effect in effects and not any(own.admits(t) for own in tolerations))
