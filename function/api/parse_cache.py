"""Parses each item once for as long as it does not change.

Calls carry the same environments and placements again and again. Results are cached by the digest of an item's
content, so that a result depends on the item alone. The size follows the longest list of the last calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from function.contract import RequiredResource
from function.kube.manifests import Manifest

T = TypeVar("T")
K = TypeVar("K")
_MAX_KEYS = 4  # each Composition may have other settings in its input; a control plane has few
# Entries of a generation before the next begins: this number at least, else this multiple of the list that is parsed.
_MIN_ENTRIES, _ENTRIES_PER_ITEM = 1_000, 2


@dataclass(slots=True)
class CacheStats:
    """Counts of lookups in a cache since the start of the process, for metrics."""

    hits: int = 0
    misses: int = 0


class ParseCache(Generic[T]):
    """Parses items, each content once.

    There are two generations of entries. An entry of the older one that is used moves to the newer one; the older one
    is dropped when the newer one is full.
    """

    def __init__(self, parse: Callable[[Manifest], T], stats: CacheStats | None = None) -> None:
        self._parse = parse
        self.stats = stats or CacheStats()
        self._new: dict[bytes, T] = {}
        self._old: dict[bytes, T] = {}

    def parse(self, items: Sequence[RequiredResource]) -> tuple[T, ...]:
        """Returns the parsed items, in their order."""
        if len(self._new) > max(_MIN_ENTRIES, _ENTRIES_PER_ITEM * len(items)):
            self._new, self._old = {}, self._new
        new, old, results, misses = self._new, self._old, list[T](), 0
        for digest, load, _ in items:
            if digest in new:
                result = new[digest]
            elif digest in old:
                new[digest] = result = old[digest]
            else:
                new[digest] = result = self._parse(load())
                misses += 1
            results.append(result)
        self.stats.misses += misses
        self.stats.hits += len(results) - misses
        return tuple(results)


class KeyedParseCache(Generic[K, T]):
    """A cache for each of the few keys that parsing depends on besides the item: the platform's settings."""

    def __init__(self, parse: Callable[[Manifest, K], T]) -> None:
        self._parse = parse
        self._caches: list[tuple[K, ParseCache[T]]] = []  # settings are not hashable
        self.stats = CacheStats()

    def parse(self, items: Sequence[RequiredResource], key: K) -> tuple[T, ...]:
        """Returns the items parsed with this key, in their order."""
        cache = next((cache for known, cache in self._caches if known == key), None)
        if cache is None:
            cache = ParseCache(lambda manifest: self._parse(manifest, key), self.stats)
            self._caches = [(key, cache), *self._caches[: _MAX_KEYS - 1]]
        return cache.parse(items)
