"""Values from the API's schemas (apis/): unset fields, valid values, values at limits and beyond them.

Strings are words that the cases of the tests have under the same name, so that they refer to existing objects.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random

from function.kube.manifests import JSON, Manifest, listing, mapping, text
from tools.documents import document

APIS = Path(__file__).parents[2] / "apis"
Place = tuple[str | int, ...]
# More of something costs the run more than it finds; the server takes 32 MB.
_MOST_ITEMS, _MOST_INNER, _MOST_LENGTH, _DEEPEST = 300, 3, 5_000, 6


@cache
def schemas() -> Mapping[str, Manifest]:
    """Return the schema of each kind of ours."""
    found = {}
    for path in sorted(APIS.glob("*/definition.yaml")):
        definition = document(path)
        (version,) = listing(definition, "spec.versions")
        found[text(definition, "spec.names.kind")] = mapping(version, "schema.openAPIV3Schema")
    return found


def spoken(random: Random, kind: str, words: Mapping[str, tuple[str, ...]]) -> tuple[Place, JSON]:
    """Return a place in a manifest of this kind and what stands there now: something that its schema knows."""
    part = random.choice(("spec", "spec", "spec", "status"))
    place: Place = (part,)
    schema = mapping(schemas()[kind], f"properties.{part}")
    while _inner(schema) and random.random() < 0.8:
        key, schema = _inner(schema)[random.randrange(len(_inner(schema)))]
        place = (*place, key)
    return place, _value(random, schema, str(place[-1]), words, 0)


def _inner(schema: Manifest) -> list[tuple[str | int, Manifest]]:
    """Return what a schema holds, by key; of a list the first item."""
    items = mapping(schema, "items")
    fields = ((key, field) for key, field in mapping(schema, "properties").items() if isinstance(field, dict))
    return [*fields, *([(0, items)] if items else [])]


def _value(random: Random, schema: Manifest, name: str, words: Mapping[str, tuple[str, ...]], depth: int) -> JSON:
    listed = schema.get("enum")
    if isinstance(listed, list):
        return random.choice([*listed, "Other"])
    if schema.get("type") == "boolean":
        return random.random() < 0.5
    if schema.get("type") in ("integer", "number"):
        return _bounded(random, schema, "minimum", "maximum", 2**31)
    if schema.get("type") == "array":
        length = min(_bounded(random, schema, "minItems", "maxItems", 3), _MOST_INNER if depth else _MOST_ITEMS)
        items = mapping(schema, "items")
        return [_value(random, items, name, words, depth + 1)] * length if depth < _DEEPEST else []
    if mapping(schema, "properties"):
        fields = _inner(schema) if depth < _DEEPEST else []
        return {
            str(key): _value(random, field, str(key), words, depth + 1)
            for key, field in fields
            if random.random() < 0.4
        }
    if schema.get("type") == "object":
        return {random.choice(words[""]): random.choice(words[""]) for _ in range(random.randrange(3))}
    return _text(random, schema, words.get(name) or words[""])


def _text(random: Random, schema: Manifest, known: tuple[str, ...]) -> str:
    if random.random() < 0.7:
        return random.choice(known)
    return "a" * min(_bounded(random, schema, "minLength", "maxLength", 63), _MOST_LENGTH)


def _bounded(random: Random, schema: Manifest, least: str, most: str, otherwise: int) -> int:
    """Return a number between two limits, at one, or just beyond one."""
    low, high = (schema.get(key, default) for key, default in ((least, 0), (most, otherwise)))
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    return int(random.choice((low - 1, low, low + 1, high, high + 1, random.randint(int(low), int(max(low, high))))))


def words(manifests: Iterator[JSON]) -> Mapping[str, tuple[str, ...]]:
    """Return the strings that stand under each key, and all of them under the empty one."""
    found: dict[str, set[str]] = defaultdict(set)

    def read(value: JSON, key: str) -> None:
        if isinstance(value, str):
            found[key].add(value)
            found[""].add(value)
        for name, item in value.items() if isinstance(value, dict) else ():
            read(item, name)
        for item in value if isinstance(value, list) else ():
            read(item, key)

    for manifest in manifests:
        read(manifest, "")
    return {key: tuple(sorted(strings)) for key, strings in found.items()}
