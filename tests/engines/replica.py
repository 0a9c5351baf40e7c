"""One replica, as it was asked for, and what an engine says of its pods."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from function.domain.model import Shape
from tests.engines.asking import Answer
from tests.engines.pods import Pod

Group: TypeAlias = Sequence[tuple[Pod, Answer | None]]
CERTIFICATES = "/var/run/kserve/tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica, as the user and the platform team asked for it."""

    shape: Shape
    version: tuple[int, ...]
    names: tuple[str, str]
    weights: str = "/mnt/models"
    tls: bool = False
