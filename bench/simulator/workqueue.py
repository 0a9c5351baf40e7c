"""controller-runtime's queue: what waits is there once, what changes while it is worked on is done again."""

from collections import deque
from collections.abc import Callable

from bench.simulator.kernel import Kernel, Process
from function.cli.store import Ref

# Core's rate limiter for XRs: from one second to thirty, doubled by every failure in a row.
FIRST_RETRY, LAST_RETRY = 1.0, 30.0


class WorkQueue:
    """One kind's queue. `reconcile` returns the seconds after which to look again: 0 never, None with backoff."""

    def __init__(self, kernel: Kernel, workers: int, reconcile: "Callable[[Ref], Process[float | None]]") -> None:
        self._kernel, self._idle, self._reconcile = kernel, workers, reconcile
        self._waiting: deque[Ref] = deque()
        self._dirty: set[Ref] = set()
        self._processing: set[Ref] = set()
        self._failures: dict[Ref, int] = {}
        self._due: dict[Ref, float] = {}

    def add(self, ref: Ref) -> None:
        """Have it reconciled."""
        if ref in self._dirty:
            return
        self._dirty.add(ref)
        if ref not in self._processing:
            self._waiting.append(ref)
            self._start()

    def _start(self) -> None:
        while self._idle and self._waiting:
            ref = self._waiting.popleft()
            self._dirty.discard(ref)
            self._processing.add(ref)
            self._idle -= 1
            self._kernel.spawn(self._work(ref))

    def _work(self, ref: Ref) -> "Process[None]":
        seconds = yield from self._reconcile(ref)
        self._processing.discard(ref)
        self._idle += 1
        if seconds is None:
            failures = self._failures[ref] = self._failures.get(ref, 0) + 1
            self._kernel.at(min(FIRST_RETRY * 2 ** min(failures - 1, 30), LAST_RETRY), lambda: self.add(ref))
        else:
            self._failures.pop(ref, None)
            if seconds:
                self._after(ref, seconds)
        if ref in self._dirty:
            self._waiting.append(ref)
        self._start()

    def _after(self, ref: Ref, seconds: float) -> None:
        """Add it later, once: the earlier of two times counts."""
        due = self._kernel.now + seconds
        if self._due.get(ref, due + 1) <= due:
            return
        self._due[ref] = due

        def add() -> None:
            if self._due.get(ref) == due:
                del self._due[ref]
                self.add(ref)

        self._kernel.at(seconds, add, lazy=True)
