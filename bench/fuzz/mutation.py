"""What a request may hold, and must not break anything.

Each begins as one of the cases of the tests (tests/cases), all kinds and states. Up to three places of it, anywhere,
become something else: another type, NaN, infinities, depth, length, ten thousand of something, an object of somebody
else's. What is mutated follows from a number.
"""

import copy
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import yaml

from function.kube.manifests import JSON, Manifest, mapping

CASES = Path(__file__).parents[2] / "tests" / "cases"
_PARTS = ("xr", "observed", "required", "input", "context")
_REMOVED = object()
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A case of the tests: its parts as JSON, and the path of everything in them."""

    name: str
    parts: str
    places: tuple[Place, ...]

    def read(self) -> Manifest:
        """Return the parts, to be changed at will."""
        found: Manifest = json.loads(self.parts)
        return found


@cache
def cases() -> tuple[Case, ...]:
    """Return all cases by name."""
    found = []
    for path in sorted(CASES.glob("*/*.yaml")):
        case = yaml.safe_load(path.read_text())
        parts = {part: case[part] for part in _PARTS if part in case}
        places = tuple(place for place in _places(parts) if len(place) > 1)
        found.append(Case(path.relative_to(CASES).as_posix(), json.dumps(parts), places))
    return tuple(found)


def mutated(number: int) -> tuple[str, Manifest, bool]:
    """Return the case that a request of this number was, its parts, and whether only what is asked for has changed, and
    not what is there.
    """
    random = Random(number)  # noqa: S311  # the same request for the same number
    case = random.choice(cases())
    found = case.read()
    asked = True
    for _ in range(random.choice((1, 1, 2, 3))):
        path = random.choice(case.places)
        asked = asked and path[:2] == ("xr", "spec")
        try:
            _put(found, path, _anything(random))
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change removed it
    if "observed" in found and random.random() < 0.05:  # a foreign object under one of our keys
        mapping(found, "observed")["service-x"] = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    return case.name, found, asked


def _deep(random: Random) -> JSON:
    deep: JSON = "deep"
    for _ in range(random.choice((5, 30, 40, 48))):
        deep = {"a": deep} if random.random() < 0.5 else [deep]
    return deep


_SMALL: tuple[Callable[[Random], object], ...] = (
    lambda _: _REMOVED,
    lambda _: None,
    lambda random: random.choice((True, False, 0, -1, 1, 2**53, 2**63, 1e308, -1e308, 0.5)),
    lambda random: random.choice((math.nan, math.inf, -math.inf)),
    lambda random: random.choice(("", " ", "a" * 64, "a" * 254, "ü" * 5_000, "\0", "../..", "{{.}}", "$(A)")),
    lambda random: random.choice(("1e999", "-1", "1Ei", "NaN", "1e-999", "80Gi", "0", "9" * 400, "1.5.5")),
    lambda random: random.choice(([], {}, [[]], [{}], [None], [""], {"": ""}, {"name": None})),
    _deep,
    lambda random: [{"name": "same"}] * random.choice((2, 300)),
)
# These cost a hundred times what others do.
_LARGE: tuple[Callable[[Random], object], ...] = (
    lambda _: "x" * 300_000,
    lambda _: [{"type": f"T{n % 50}", "status": "True", "reason": "R", "message": "m"} for n in range(10_000)],
    lambda random: {f"key-{n}": "value" for n in range(random.choice((20, 2_000)))},
)


def _anything(random: Random) -> object:
    return random.choice(_LARGE if random.random() < 0.03 else _SMALL)(random)


def _places(value: JSON, path: Place = ()) -> Iterator[Place]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _put(value: JSON, path: Place, new: object) -> None:
    """Replace what stands at a path, or remove it."""
    *way, last = path
    for key in way:
        value = value[key]  # type: ignore[index]  # a path of this value
    value[last]  # type: ignore[index]  # else it is gone
    if new is _REMOVED:
        del value[last]  # type: ignore[union-attr,arg-type]  # likewise
    else:
        value[last] = copy.deepcopy(new)  # type: ignore[index,call-overload,assignment]  # likewise
