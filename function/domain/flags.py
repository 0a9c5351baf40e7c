"""How the engines read a list of arguments: what is a flag, under which name, and with which value.

As in their own parsers `--flag=v` and `--flag v` are equal, underscores equal dashes in flags of two dashes, a
letter and its number may be written together (`-n2`), and of two equal flags the last one counts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_TOGETHER = re.compile(r"(-[a-z])([0-9]+)", re.ASCII)
_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag: its name with dashes, where it stands, and all arguments that may be its values."""

    name: str
    index: int
    values: tuple[str, ...]
    attached: bool

    @property
    def value(self) -> str:
        """Its first value; empty where there is none."""
        return self.values[0] if self.values else ""

    @property
    def text(self) -> str:
        """The flag as somebody would write it; of what follows it, the first only, and no more than a line of it."""
        value = self.value if len(self.value) <= _LONGEST else f"{self.value[:_LONGEST]}…"
        return f"{self.name}={value}" if self.values else self.name


def parse_flags(args: tuple[str, ...]) -> Iterator[Flag]:
    """Yields every flag in order; a flag without `=` may have every argument up to the next flag for a value."""
    starts = [index for index, arg in enumerate(args) if arg.startswith("-")]
    for index, end in pairwise([*starts, len(args)]):
        name, equals, value = args[index].partition("=")
        together = _TOGETHER.fullmatch(name)
        if together:
            name, value = together.groups()
        values = (value,) if equals or together else args[index + 1 : end]
        name = name.replace("_", "-") if name.startswith("--") else name
        yield Flag(name=name, index=index, values=values, attached=bool(equals or together))


def last_value(args: tuple[str, ...], name: str) -> str | None:
    """Returns the value that counts for a flag, the last; None where it is not given."""
    return next((flag.value for flag in reversed(tuple(parse_flags(args))) if flag.name == name), None)
