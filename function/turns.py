"""Calls take turns: one computes at a time, and whoever has computed for a while lets the next go on.

Composing is arithmetic, and over a large fleet there may be seconds of it. It is done in threads, so that the event
loop only ever reads and writes bytes, and answers who asks after the process's health. A thread computes while it has
the turn and no other does, so that what is remembered between calls needs no locks. It gives the turn away only where a
call pauses: between one environment and the next (`Call.pause`). Those who wait come in the order in which they came.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")
# Between two pauses lies what is done for one environment; together less than a tenth of a second.
STEP_SECONDS = 0.02
# Of processor; a call over a thousand ordinary environments takes 0.3 when nothing is remembered (docs/performance.md).
MOST_SECONDS = 2.0
# Calls that are unpacked in memory at the same time.
CALLS = 4


class TooLongError(Exception):
    """A call has used up its processor time."""


class Turn:
    """The turn of one call, in a thread of its own."""

    def __init__(self, line: "_Line", clock: Callable[[], float], processor: Callable[[], float]) -> None:
        self._line, self._clock, self._processor = line, clock, processor
        self._since, self._begun, self._most = clock(), processor(), MOST_SECONDS

    def pause(self) -> None:
        """Let the others go on, if this call has computed for a while.

        Raises:
            TooLongError: It has computed for as long as any call may; said once, so that it can still be answered.
        """
        # The processor's clock costs ten times what the other does, and this is asked for every environment.
        if self._clock() - self._since < STEP_SECONDS:
            return
        if self._processor() - self._begun > self._most:
            self._most = math.inf
            raise TooLongError
        self._line.give()
        self._line.take()
        self._since = self._clock()


class Turns(Generic[T]):
    """Runs what computes in threads that take turns; `clock` and `processor` tell seconds, of time and of this thread's
    processor.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, processor: Callable[[], float] = time.thread_time
    ) -> None:
        self._line, self._clocks = _Line(), (clock, processor)
        self._threads = ThreadPoolExecutor(CALLS, thread_name_prefix="call")

    async def run(self, work: Callable[[Callable[[], None]], T]) -> T:
        """Return what `work` makes, which is given what to call between one environment and the next."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(self._run, work))

    def _run(self, work: Callable[[Callable[[], None]], T]) -> T:
        self._line.take()
        try:
            return work(Turn(self._line, *self._clocks).pause)
        finally:
            self._line.give()


class _Line:
    """One turn, and who waits for it."""

    def __init__(self) -> None:
        self._lock, self._taken = threading.Lock(), False
        self._waiting: deque[threading.Semaphore] = deque()

    def take(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Semaphore(0)
            self._waiting.append(mine)
        mine.acquire()

    def give(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
