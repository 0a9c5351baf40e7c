"""Simulated time: which event is next, and which process waits for which servers."""

import heapq
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


class Servers:
    """Servers with one queue; a process that yields them waits for one and returns it to the kernel."""

    __slots__ = ("free", "waiting")

    def __init__(self, count: int) -> None:
        self.free = count
        self.waiting: deque[Process[Any]] = deque()


# Yields seconds to sleep, or the servers of which it wants one.
Process: TypeAlias = Generator["float | Servers", None, T]


class Kernel:
    """A clock and what is due. Events of one moment happen in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, bool, Callable[[], None]]] = []
        self._asked = 0
        self._lazy = 0

    def at(self, delay: float, action: Callable[[], None], *, lazy: bool = False) -> None:
        """Schedule an event in some seconds. A lazy event happens on time, but nothing waits for it."""
        self._asked += 1
        self._lazy += lazy
        heapq.heappush(self._due, (self.now + delay, self._asked, lazy, action))

    def spawn(self, process: "Process[Any]") -> None:
        """Run a process up to its first wait, and on from there in time."""
        try:
            request = next(process)
        except StopIteration:
            return
        if not isinstance(request, Servers):
            self.at(request, lambda: self.spawn(process))
        elif request.free:
            request.free -= 1
            self.at(0, lambda: self.spawn(process))
        else:
            request.waiting.append(process)

    def release(self, servers: Servers) -> None:
        """Return a server: to the process that has waited longest, if any."""
        if servers.waiting:
            process = servers.waiting.popleft()
            self.at(0, lambda: self.spawn(process))
        else:
            servers.free += 1

    def busy(self, servers: Servers, seconds: float) -> "Process[None]":
        """Wait for a server and keep it for so long."""
        yield servers
        yield seconds
        self.release(servers)

    def run(self, limit: float) -> bool:
        """Run until nothing but what is lazy is due; False where `limit` seconds were not enough."""
        until = self.now + limit
        while len(self._due) > self._lazy:
            if self._due[0][0] > until:
                return False
            self._step()
        return True

    def pass_time(self, seconds: float) -> None:
        """Run everything of the next seconds, lazy or not."""
        until = self.now + seconds
        while self._due and self._due[0][0] <= until:
            self._step()
        self.now = until

    def _step(self) -> None:
        self.now, _, lazy, action = heapq.heappop(self._due)
        self._lazy -= lazy
        action()
