"""The queue: once however often it is added, again where it changed meanwhile, later where it failed."""

from bench.simulator.kernel import Kernel, Process
from bench.simulator.workqueue import WorkQueue
from function.cli.store import Ref

A, B = Ref("Thing", "", "a"), Ref("Thing", "", "b")


class Worked:
    """A queue whose reconciles take a second and end as given: never again, with backoff (None), or after seconds."""

    def __init__(self, *ends: float | None, workers: int = 10) -> None:
        self.kernel, self.has_resources = Kernel(), list[tuple[float, str]]()
        self._ends = list(ends)
        self.queue = WorkQueue(self.kernel, workers, self._reconcile)

    def _reconcile(self, ref: Ref) -> "Process[float | None]":
        self.has_resources.append((self.kernel.now, ref.name))
        yield 1.0
        return self._ends.pop(0) if self._ends else 0.0


def test_what_waits_is_there_once() -> None:
    worked = Worked(workers=1)
    for ref in (A, B, B):
        worked.queue.add(ref)
    assert worked.kernel.run(10)
    assert worked.has_resources == [(0.0, "a"), (1.0, "b")]


def test_what_changes_meanwhile_is_done_once_more_and_never_twice_at_once() -> None:
    worked = Worked()
    worked.queue.add(A)
    for delay in (0.2, 0.4):
        worked.kernel.at(delay, lambda: worked.queue.add(A))
    assert worked.kernel.run(10)
    assert worked.has_resources == [(0.0, "a"), (1.0, "a")]


def test_what_failed_is_tried_again_later_and_later() -> None:
    worked = Worked(None, None, None)
    worked.queue.add(A)
    assert worked.kernel.run(60)
    assert [time for time, _ in worked.has_resources] == [0.0, 2.0, 5.0, 10.0]


def test_a_ttl_wakes_once_and_nobody_waits_for_it() -> None:
    worked = Worked(60.0, 30.0)
    worked.queue.add(A)
    worked.kernel.at(5, lambda: worked.queue.add(A))
    assert worked.kernel.run(100)
    assert worked.kernel.now == 6
    worked.kernel.pass_time(100)
    assert [time for time, _ in worked.has_resources] == [0.0, 5.0, 36.0]
