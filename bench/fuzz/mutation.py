"""Mutations of requests, none of which may break the function.

Each begins as one of the cases of the tests (tests/cases), all kinds and states. Up to three places of it, anywhere,
become something else: another type, NaN, infinities, depth, length, ten thousand of something, an object of somebody
else's; or something that the schema of its kind speaks of (grammar.py). What is mutated follows from the choices of a
Random.
"""

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random

from bench.fuzz import grammar
from bench.fuzz.grammar import Place
from function.kube.manifests import JSON, Manifest, mapping
from tools.cases import NAMES, read_case

_PARTS = ("xr", "observed", "required", "input", "context")
_REMOVED = object()


@dataclass(frozen=True, slots=True)
class Case:
    """A case of the tests: its parts as JSON, the path of everything in them, and the kinds of the objects of ours."""

    name: str
    parts: str
    places: tuple[Place, ...]

    kinds: Mapping[Place, str]

    def read(self) -> Manifest:
        """Return the parts, to be changed at will."""
        found: Manifest = json.loads(self.parts)
        return found


@cache
def cases() -> tuple[Case, ...]:
    """Return all cases by name."""
    found = []
    for name in NAMES:
        case = read_case(name)
        parts = {part: case[part] for part in _PARTS if part in case}
        every = {place: value for place, value in _places(parts) if place}
        kinds = {
            place: str(value["kind"])
            for place, value in every.items()
            if isinstance(value, dict) and value.get("kind") in grammar.schemas() and "metadata" in value
        }
        places = tuple(place for place in every if len(place) > 1)
        found.append(Case(name, json.dumps(parts), places, kinds))
    return tuple(found)


@cache
def _words() -> Mapping[str, tuple[str, ...]]:
    return grammar.words(case.read() for case in cases())


def mutated(random: Random) -> tuple[str, Manifest, bool]:
    """Return the case that a request was, its parts, and whether only what is asked for has changed, and not what is
    there.
    """
    case = random.choice(cases())
    found = case.read()
    asked = True
    for _ in range(random.choice((1, 1, 2, 3))):
        path, new = _spoken(random, case) if random.random() < 0.4 else (random.choice(case.places), _anything(random))
        asked = asked and path[:2] == ("xr", "spec")
        try:
            _put(found, path, new)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change removed it
    if "observed" in found and random.random() < 0.05:  # a foreign object under one of our keys
        mapping(found, "observed")["service-x"] = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    return case.name, found, asked


def _spoken(random: Random, case: Case) -> tuple[Place, object]:
    """Return what a schema speaks of, in one of the objects of our kinds."""
    place = random.choice(tuple(case.kinds))
    inner, value = grammar.spoken(random, case.kinds[place], _words())
    return (*place, *inner), value


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


def _places(value: JSON, path: Place = ()) -> Iterator[tuple[Place, JSON]]:
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))


def _put(value: JSON, path: Place, new: object) -> None:
    """Replace what stands at a path, or remove it; on the way fields are made where there are none, and first items."""
    *way, last = path
    for key, following in zip(way, path[1:], strict=True):
        value = _at(value, key, [] if following == 0 else {})
    if new is _REMOVED:
        del value[last]  # type: ignore[union-attr,arg-type]  # a path of this value, or an error
    else:
        _at(value, last, None)
        value[last] = copy.deepcopy(new)  # type: ignore[index,call-overload,assignment]  # likewise


def _at(value: JSON, key: str | int, otherwise: JSON) -> JSON:
    if isinstance(value, dict) and isinstance(key, str):
        return value.setdefault(key, otherwise)
    if isinstance(value, list) and key == len(value) == 0:
        value.append(otherwise)
    return value[key]  # type: ignore[index]  # a path of this value, or an error
