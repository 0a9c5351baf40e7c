"""What every parser returns: the object, and all that is wrong with its manifest, both at once."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from function.domain.problem import Problem

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T_co]):
    """`value` is None where a parser may fail and the faults leave nothing; where it is not, there may be faults."""

    value: T_co
    problems: tuple[Problem, ...] = ()
