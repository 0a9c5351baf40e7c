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
# Each Composition may say something else in its input; no control plane has many.
_KEPT = 4
# Items in a table before the tables take turns: so many in any case, and so many times the list that is read.
_ENOUGH, _ROOM = 1_000, 2


@dataclass(slots=True)
class CacheStats:
    """Counts of things looked up since the process began; nothing is ever decided by them."""

    hits: int = 0
    misses: int = 0


class ParseCache(Generic[T]):
    """Parses items, each content once for as long as it is asked for.

    Two tables take turns: what is found in the older one moves to the newer, and what nobody asked for meanwhile goes.
    """

    def __init__(self, parse: Callable[[Manifest], T], stats: CacheStats | None = None) -> None:
        self._parse = parse
        self.stats = stats or CacheStats()
        self._new: dict[bytes, T] = {}
        self._old: dict[bytes, T] = {}

    def parse(self, items: Sequence[RequiredResource]) -> tuple[T, ...]:
        """Return what the items parse to, in their order."""
        if len(self._new) > max(_ENOUGH, _ROOM * len(items)):
            self._new, self._old = {}, self._new
        new, old, facts, misses = self._new, self._old, list[T](), 0
        for digest, load, _ in items:
            if digest in new:
                fact = new[digest]
            elif digest in old:
                new[digest] = fact = old[digest]
            else:
                new[digest] = fact = self._parse(load())
                misses += 1
            facts.append(fact)
        self.stats.misses += misses
        self.stats.hits += len(facts) - misses
        return tuple(facts)


class KeyedParseCache(Generic[K, T]):
    """One memo for each of the few values that parsing depends on besides the item: a platform's settings."""

    def __init__(self, parse: Callable[[Manifest, K], T]) -> None:
        self._parse = parse
        self._memos: list[tuple[K, ParseCache[T]]] = []
        self.stats = CacheStats()

    def parse(self, items: Sequence[RequiredResource], value: K) -> tuple[T, ...]:
        """Return what the items parse to with this value, in their order."""
        memo = next((memo for known, memo in self._memos if known == value), None)
        if memo is None:
            memo = ParseCache(lambda manifest: self._parse(manifest, value), self.stats)
            self._memos = [(value, memo), *self._memos[: _KEPT - 1]]
        return memo.parse(items)
