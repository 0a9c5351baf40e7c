"""What core sees: the objects as they were a moment ago, one stream of events for each kind, in the order of writes."""

from collections import defaultdict, deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from bench import wire
from bench.simulator.kernel import Kernel
from bench.simulator.objects import Event, Selector, Version
from bench.simulator.settings import Settings
from function.cli.store import Ref


class Found(NamedTuple):
    """An answer: `numbers` are the versions that it holds, `wire` the bytes of a message Resources."""

    numbers: tuple[int, ...]
    wire: bytes


NOTHING = Found((), b"")


class Cache:
    """One view for all of core's controllers. `notify` receives each event once it is visible."""

    def __init__(self, kernel: Kernel, settings: Settings, random: Random, notify: Callable[[Event], None]) -> None:
        self._kernel, self._settings, self._random, self._notify = kernel, settings, random, notify
        self._kinds: dict[str, dict[Ref, Version]] = defaultdict(dict)
        self._delay: dict[str, float] = {}
        self._drawn: dict[str, float] = {}
        self._underway: dict[str, deque[Event]] = defaultdict(deque)
        self._changed: dict[str, int] = defaultdict(int)
        self._lists: dict[Selector, tuple[int, Found]] = {}

    def receive(self, event: Event) -> None:
        """Take a write, to be seen later. Writes of a kind that follow each other closely keep their distance."""
        kind, now = event.ref.kind, self._kernel.now
        underway, lag = self._underway[kind], self._settings.lag
        if not underway or (self._settings.lag_varies and now - self._drawn[kind] >= lag):
            self._delay[kind], self._drawn[kind] = lag * self._random.uniform(0.5, 1.5), now
        underway.append(event)
        # In the order of writes, also where the lag has become less since the last.
        self._kernel.at(self._delay[kind], lambda: self._see(underway.popleft()))

    def _see(self, event: Event) -> None:
        kind = self._kinds[event.ref.kind]
        self._changed[event.ref.kind] += 1
        if event.now is None:
            kind.pop(event.ref, None)
        else:
            kind[event.ref] = event.now
        self._notify(event)

    def get(self, ref: Ref) -> Version | None:
        """Return an object as it is seen now."""
        return self._kinds[ref.kind].get(ref)

    def find(self, selector: Selector) -> Found:
        """Return what core answers to a selector; lists by namespace and name."""
        if selector.name is not None:
            there = self.get(selector.ref)
            return Found((there.number,), wire.item(there.wire)) if there else NOTHING
        changed, found = self._lists.get(selector, (-1, NOTHING))
        if changed != self._changed[selector.kind]:
            found = self._list(selector)
            self._lists[selector] = self._changed[selector.kind], found
        return found

    def _list(self, selector: Selector) -> Found:
        versions = sorted(
            (
                version
                for version in self._kinds[selector.kind].values()
                if selector.namespace in {"", version.ref.namespace} and selector.carried(version.labels)
            ),
            key=lambda version: version.ref,
        )
        return Found(tuple(v.number for v in versions), b"".join(wire.item(v.wire) for v in versions))
