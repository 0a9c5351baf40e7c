"""Parses each item once for as long as it does not change.

Calls carry the same environments and placements again and again. Results are cached by the digest of an item's
content, so that a result depends on the item alone. The size follows the longest list of the last calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from function.contract import RequiredResource

T = TypeVar("T")
_MAX_KEYS = 4  # each Composition may have other settings in its input; a control plane has few
# Entries of a generation before the next generation begins: at least this number, else this multiple of the parsed
# list.
_MIN_ENTRIES = 1_000
_ENTRIES_PER_ITEM = 2


@dataclass(slots=True)
class CacheStats:
    """Counts of lookups in a cache since the start of the process, for metrics."""

    hits: int = 0
    misses: int = 0


class ParseCache(Generic[T]):
    """Parses each content once for each key; the key is what parsing depends on besides the item.

    There are two generations of entries. When an entry of the older generation is used, it moves to the newer
    generation. When the newer generation is full, the older generation is dropped.
    """

    def __init__(self, parse: Callable[..., T]) -> None:
        self._parse = parse
        # By key, the newer and the older generation; the platform's settings are not hashable.
        self._generations: list[tuple[tuple[object, ...], dict[bytes, T], dict[bytes, T]]] = []
        self.stats = CacheStats()

    def parse(self, items: Sequence[RequiredResource], *key: object) -> tuple[T, ...]:
        known = next((entry for entry in self._generations if entry[0] == key), (key, {}, {}))
        others = [entry for entry in self._generations if entry is not known]
        _, new, old = known
        if len(new) > max(_MIN_ENTRIES, _ENTRIES_PER_ITEM * len(items)):
            new, old = {}, new
        self._generations = [(key, new, old), *others[: _MAX_KEYS - 1]]
        results = list[T]()
        misses = 0
        for digest, load, _ in items:
            if digest in new:
                result = new[digest]
            elif digest in old:
                new[digest] = result = old[digest]
            else:
                new[digest] = result = self._parse(load(), *key)
                misses += 1
            results.append(result)
        self.stats.misses += misses
        self.stats.hits += len(results) - misses
        return tuple(results)
