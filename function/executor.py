"""Computes calls in threads that share one processor fairly.

Composing is arithmetic, and a large fleet may take seconds of it. It runs in threads, so that the event loop only reads
and writes bytes and always answers health checks. One thread computes at a time, so caches between calls need no locks.
It yields only where a call pauses (`Call.pause`). Waiting calls run in the order in which they came.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")
SLICE_SECONDS = 0.02  # after this time a call yields at its next pause; two pauses are less than 0.1 s apart
# Of processor time; a call over a thousand ordinary environments takes 0.3 with cold caches (docs/performance.md).
MAX_CALL_SECONDS = 2.0
MAX_CALLS = 4  # calls that are decoded in memory at the same time


class TooLongError(Exception):
    """A call has used up its processor time."""


class FairExecutor(Generic[T]):
    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, processor_clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._lock, self._clocks = _FairLock(), (clock, processor_clock)  # both in seconds
        self._threads = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="call")

    async def run(self, work: Callable[[Callable[[], None]], T]) -> T:
        """Returns what `work` returns; its argument is the function to call at each pause."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(self._run, work))

    def _run(self, work: Callable[[Callable[[], None]], T]) -> T:
        clock, processor_clock = self._clocks
        self._lock.acquire()
        started = clock()
        call_started = processor_clock()
        limit = MAX_CALL_SECONDS

        def pause() -> None:
            """Yields to the other calls if the slice is used up.

            Raises:
                TooLongError: The call has computed for as long as any call may; raised once, so that it can recover.
            """
            nonlocal started, limit
            # The processor's clock costs ten times as much as the other clock, and a call pauses at every environment.
            if clock() - started < SLICE_SECONDS:
                return
            if processor_clock() - call_started > limit:
                limit = math.inf
                raise TooLongError
            self._lock.release()
            self._lock.acquire()
            started = clock()

        try:
            return work(pause)
        finally:
            self._lock.release()


class _FairLock:
    """A lock that is acquired in the order of requests."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self.requested = 0  # turns
        self._released = 0  # turns that are over

    def acquire(self) -> None:
        with self._condition:
            turn = self.requested
            self.requested += 1
            self._condition.wait_for(lambda: self._released == turn)

    def release(self) -> None:
        with self._condition:
            self._released += 1
            self._condition.notify_all()  # at most MAX_CALLS threads wait
