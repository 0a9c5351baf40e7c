"""What was asked for, as commands are handed it: which control plane, which files, which form of the answer."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which control plane, and which namespace of it. `namespace` None: the context's own.

    `seconds`: how long it may take to answer.
    """

    context: str | None = None
    kubeconfig: str | None = None
    namespace: str | None = None
    everywhere: bool = False
    seconds: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What to read. Files are applied over the live state, values of `sets` over both."""

    files: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    live: bool = False
    strict: bool = False
    target: Target = Target()

    @property
    def connects(self) -> bool:
        """Whether the control plane is asked: always where no file is given."""
        return self.live or not self.files

    @property
    def again(self) -> str:
        """The options that name the same files once more."""
        return "".join(f" -f {file}" for file in self.files)


class Form(StrEnum):
    """How a result is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    SVG = "svg"
    DOT = "dot"

    @property
    def for_people(self) -> bool:
        """Whether a person reads it, who wants to know what comes next."""
        return self in (Form.TABLE, Form.WIDE)


EVERY_FORM = (Form.TABLE, Form.WIDE, Form.JSON, Form.YAML, Form.NAME)
