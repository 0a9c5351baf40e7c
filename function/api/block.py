"""A cursor over a map of fields that knows its path and collects what is wrong below it.

Reading never stops at a problem: a field that the schema refuses is reported once and reads as absent, so that the
rules across fields still see everything else and the list of problems is complete.

Text that a container or KServe would read as more than text is refused: KServe sends the merged spec of a service
through a Go template (`{{`), and the kubelet replaces `$(NAME)` in arguments by a variable, also by a credential.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, reduce
from operator import attrgetter
from typing import overload

from pydantic import BaseModel

from function.api.problems import find_shape_problems, invalid_value, join_path, not_a_quantity, unknown_value
from function.domain.model import Problem
from function.kube import quantity
from function.kube.manifests import JSON, Manifest
from function.kube.names import is_image

_LONGEST = 32  # characters of a quantity, as in the XRDs
_IMAGE = (
    "a reference such as registry.example.com/team/engine:v1, with a path in lower case, at most one tag and a "
    "complete digest"
)


class Faults:
    """What the schema and our own rules found in one object."""

    def __init__(self, shape: Sequence[Problem]) -> None:
        self._shape = {problem.path: problem for problem in shape}
        # Both in order: of ten thousand items of a list each asks for its own.
        self._refused = sorted(self._shape.values())
        self._own: list[Problem] = []

    def misshapen(self, block: "Block", key: str) -> bool:
        """Tell whether the schema refuses what stands at a field. Paths are not made where it refuses nothing."""
        return bool(self._shape) and block.at(key) in self._shape

    def add(self, problem: Problem) -> None:
        """Take in a fault that one of our own rules found."""
        index = bisect_left(self._own, problem)
        if self._own[index : index + 1] != [problem]:
            self._own.insert(index, problem)

    def update(self, problems: Iterable[Problem]) -> None:
        """Take in several faults."""
        for problem in problems:
            self.add(problem)

    @property
    def any(self) -> bool:
        """Tell whether there is any fault at all."""
        return bool(self._shape or self._own)

    def within(self, path: str) -> tuple[Problem, ...]:
        """Return the sorted faults at a path and below; where a rule of ours speaks, the schema is silent."""
        own = _within(self._own, path)
        spoken = {problem.path for problem in own}
        return tuple(sorted([*own, *(p for p in _within(self._refused, path) if p.path not in spoken)]))


def _within(problems: list[Problem], path: str) -> list[Problem]:
    """Return those of sorted problems that are at a path, or at one that goes on from it with a dot or a bracket."""
    found: list[Problem] = []
    for first, beyond in ((path, f"{path}\0"), (f"{path}.", f"{path}/"), (f"{path}[", f"{path}\\")):
        start, end = (bisect_left(problems, each, key=_path) for each in (first, beyond))
        found += problems[start:end]
    return found


_path = attrgetter("path")


class Block:
    """The fields of one map. Its path is made when somebody asks: where nothing is wrong nobody does."""

    __slots__ = ("_path", "faults", "fields")

    def __init__(self, value: JSON, path: "str | tuple[Block, tuple[str | int, ...]]", faults: Faults) -> None:
        self.fields: Manifest = value if isinstance(value, dict) else {}
        self._path = path
        self.faults = faults

    @property
    def path(self) -> str:
        """Where the map stands."""
        if not isinstance(self._path, str):
            outer, keys = self._path
            self._path = reduce(join_path, keys, outer.path)
        return self._path

    @classmethod
    def checked(cls, schema: type[BaseModel], value: JSON, path: str) -> "Block":
        """Return a map at `path` whose faults are those that its schema finds."""
        return cls(value, path, Faults(find_shape_problems(schema, value, path)))

    def problems(self, key: str = "") -> tuple[Problem, ...]:
        """Return the faults of a field and of all below it, or of the whole map."""
        return self.faults.within(self.at(key)) if self.faults.any else ()

    def at(self, key: str) -> str:
        """Return the path of a field, given relative to this map; of the map itself for none."""
        return join_path(self.path, key) if key else self.path

    def deny(self, key: str, allowed: str) -> None:
        """Note that a field must be something else."""
        self.faults.add(invalid_value(self.at(key), self.fields.get(key), allowed))

    def demand(self, key: str, why: str) -> None:
        """Note that a field must be set."""
        self.faults.add(Problem(self.at(key), f"is required, {why}"))

    def has(self, key: str) -> bool:
        """Tell whether a field is set."""
        return self.fields.get(key) is not None

    def sound(self, key: str) -> bool:
        """Tell whether a field is set and has no fault, nor anything below it."""
        return self.has(key) and not self.problems(key)

    def block(self, key: str) -> "Block":
        """Return a map among the fields, an empty one where it is absent."""
        return Block(self.fields.get(key), (self, (key,)), self.faults)

    def blocks(self, key: str) -> tuple["Block", ...]:
        """Return the items of a list of maps."""
        items = enumerate(self._items(key))
        return tuple(Block(item, (self, (key, index)), self.faults) for index, item in items)

    def text(self, key: str, default: str = "") -> str:
        """Return a text field."""
        found = self._get(key)
        return found if isinstance(found, str) else default

    def optional_text(self, key: str, default: str | None = None) -> str | None:
        """Return a text field whose emptiness differs from its absence."""
        found = self._get(key)
        return found if isinstance(found, str) else default

    def image(self, key: str) -> str:
        """Return the reference of an image; one that the kubelet cannot parse is a fault."""
        found = self.text(key)
        if found and self.sound(key) and not is_image(found):
            self.deny(key, _IMAGE)
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the items of a list of texts."""
        return tuple(item for item in self._items(key) if isinstance(item, str))

    @overload
    def integer(self, key: str) -> int | None: ...
    @overload
    def integer(self, key: str, default: int) -> int: ...
    def integer(self, key: str, default: int | None = None) -> int | None:
        """Return a whole number."""
        found = self._get(key)
        return found if isinstance(found, int) and not isinstance(found, bool) else default

    def number(self, key: str) -> Decimal | None:
        """Return a number, as it is written."""
        found = self._get(key)
        return Decimal(str(found)) if isinstance(found, int | float) and not isinstance(found, bool) else None

    def flag(self, key: str, default: bool) -> bool:  # noqa: FBT001  # what is read is a truth value
        """Return a truth value."""
        found = self._get(key)
        return found if isinstance(found, bool) else default

    def strings(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return the entries of a map of texts, sorted."""
        entries = self.block(key).fields.items()
        return tuple(sorted((name, value) for name, value in entries if isinstance(value, str)))

    def maps(self, key: str) -> tuple[Manifest, ...]:
        """Return the items of a list of maps as they are."""
        return tuple(item for item in self._items(key) if isinstance(item, dict))

    def amount(self, key: str) -> int | None:
        """Return a quantity that must be more than nothing, rounded up to whole base units."""
        found = self._quantity(key)
        if found is not None and found <= 0:
            self.deny(key, "more than 0")
            return None
        return None if found is None else quantity.round_up(str(self.fields[key]))

    def quantity(self, key: str, default: str) -> str:
        """Return a quantity in the author's words."""
        found = self._quantity(key)
        if found is not None and found < 0:
            self.deny(key, "0 or more")
        return default if found is None else str(self.fields[key])

    def member(self, key: str, known: Sequence[str], also: Sequence[str] = ()) -> str | None:
        """Return a text that is one of those known whatever its case, spelled as it is known.

        Those in `also` are accepted without being listed where the text is refused.
        """
        found = self.optional_text(key)
        return None if found is None else self._member((key,), found, known, also)

    def members(self, key: str, known: Sequence[str]) -> tuple[str, ...]:
        """Return the texts of a list, each one of those known whatever its case."""
        found = enumerate(self._items(key))
        named = (self._member((key, i), text, known, ()) for i, text in found if isinstance(text, str))
        return tuple(name for name in named if name is not None)

    def _member(self, keys: tuple[str | int, ...], found: str, known: Sequence[str], also: Sequence[str]) -> str | None:
        name = _spelled(tuple(known), tuple(also)).get(found.lower())
        if name is None:
            self.faults.add(unknown_value(reduce(join_path, keys, self.path), found, known, also))
        return name

    def _quantity(self, key: str) -> Decimal | None:
        found = self.fields.get(key)
        if isinstance(found, bool) or not isinstance(found, int | str):
            return None
        try:
            parsed = quantity.parse(found) if len(str(found)) <= _LONGEST else None
        except ValueError:
            parsed = None
        if parsed is None:
            self.faults.add(not_a_quantity(self.at(key), found))
        elif parsed > quantity.MAX:
            self.deny(key, f"at most {quantity.MAX_TEXT}")
        else:
            return parsed
        return None

    def _get(self, key: str) -> JSON:
        found = self.fields.get(key)
        return None if found is None or self.faults.misshapen(self, key) else found

    def _items(self, key: str) -> list[JSON]:
        found = self.fields.get(key)
        return found if isinstance(found, list) else []


@lru_cache(maxsize=64)  # there are a dozen such lists in all
def _spelled(known: tuple[str, ...], also: tuple[str, ...]) -> Mapping[str, str]:
    return {name.lower(): name for name in (*known, *also)}


_TEMPLATE, _EXPANSION = "{{", "$("


def refuse_templates(block: Block, key: str = "") -> None:
    """Note every text of a block, or of one of its fields, that KServe would read as a template; keys of maps too."""
    value = block.fields.get(key) if key else block.fields
    # Written by Python a map begins with {' and a list with [, so that {{ stands there only where it stands in a text.
    for path, text in _texts(value, block.at(key)) if _TEMPLATE in str(value) else ():
        if _TEMPLATE in text:
            block.faults.add(invalid_value(path, text, "without {{, which KServe reads as a template"))


def refuse_expansions(block: Block, key: str) -> None:
    """Note an address that a container would not get as it is written."""
    found = block.fields.get(key)
    if isinstance(found, str) and _EXPANSION in found:
        block.deny(key, "without $(, which names a variable of the container that reads it")


def _texts(value: JSON, path: str) -> Iterator[tuple[str, str]]:
    """Yield every text within a value, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield path, key
            yield from _texts(item, join_path(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, join_path(path, index))


def check_env(block: Block) -> None:
    """Note each environment variable with two values; they pass through otherwise."""
    for item in block.blocks("env"):
        if item.has("value") and item.has("valueFrom"):
            item.deny("valueFrom", "left out together with value")
