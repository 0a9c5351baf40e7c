"""Reading a long list again costs nothing for the items that have not changed.

Every decision is sent every environment and every placement, and from one call to the next nearly all of them
are the same. What an item was parsed to is kept under what identifies its content, so the result is a function of the
items alone. The table is made anew from each list and so never outgrows the last one: a memo therefore serves
one kind of list (all environments, all placements), whichever deployment's call carries it, and no other.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from function.domain.tally import Tally
from function.exchange import RequiredResource
from function.kube.manifests import Manifest

T = TypeVar("T")
K = TypeVar("K")
# Each Composition may say something else in its input; no control plane has many.
_KEPT = 4


class Memo(Generic[T]):
    """Parses the items of one kind of list, each content once for as long as it is in the list."""

    def __init__(self, parse: Callable[[Manifest], T], tally: Tally | None = None) -> None:
        self._parse = parse
        self._known: dict[bytes, T] = {}
        self.tally = tally or Tally()

    def read(self, items: Iterable[RequiredResource]) -> tuple[T, ...]:
        """Return what the items parse to, in their order."""
        known, kept, facts, misses = self._known, dict[bytes, T](), list[T](), 0
        for digest, load in items:
            if digest in known:
                fact = known[digest]
            else:
                fact = self._parse(load())
                misses += 1
            kept[digest] = fact
            facts.append(fact)
        self._known = kept
        self.tally.misses += misses
        self.tally.hits += len(facts) - misses
        return tuple(facts)


class MemoBy(Generic[K, T]):
    """One memo for each of the few values that parsing depends on besides the item: a platform's settings."""

    def __init__(self, parse: Callable[[Manifest, K], T]) -> None:
        self._parse = parse
        self._memos: list[tuple[K, Memo[T]]] = []
        self.tally = Tally()

    def read(self, items: Iterable[RequiredResource], value: K) -> tuple[T, ...]:
        """Return what the items parse to with this value, in their order."""
        memo = next((memo for known, memo in self._memos if known == value), None)
        if memo is None:
            memo = Memo(lambda manifest: self._parse(manifest, value), self.tally)
            self._memos = [(value, memo), *self._memos[: _KEPT - 1]]
        return memo.read(items)
