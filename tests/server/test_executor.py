"""No call keeps the others from theirs: they take turns, and none has more than its share of processor time.

Time here is counted, not measured: each look at the clock is one tick.
"""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
from crossplane.function.proto.v1.run_function_pb2 import RunFunctionResponse
from crossplane.function.resource import struct_to_dict

from bench import wire
from bench.fleet import MODEL, TOO_LARGE, environment
from function.contract import Pause
from function.executor import MAX_CALL_SECONDS, MAX_CALLS, SLICE_SECONDS, FairExecutor, TooLongError
from function.runner import Runner

ENVIRONMENTS = 40


def ticking(seconds: float) -> Callable[[], float]:
    """Return a clock on which so much passes from one look to the next."""
    return itertools.count(0, seconds).__next__


def still() -> float:
    """Return a time that does not pass."""
    return 0.0


def spelling(said: list[str], name: str, letters: int = 3) -> Callable[[Pause], str]:
    """Return work that says its name several times, with a pause after each."""

    def work(pause: Pause) -> str:
        for _ in range(letters):
            said.append(name)
            pause()
        return name

    return work


def run(executor: FairExecutor[str], *works: Callable[[Pause], str]) -> list[str]:
    async def together() -> list[str]:
        return await asyncio.gather(*map(executor.run, works))

    return asyncio.run(together())


def test_call_yields_after_its_time_slice() -> None:
    said: list[str] = []
    executor: FairExecutor[str] = FairExecutor(clock=ticking(2 * SLICE_SECONDS), processor_clock=still)

    def first(pause: Pause) -> str:
        while executor._lock.requested < 3:  # noqa: SLF001  # the others have arrived, and nothing else tells it
            pass
        return spelling(said, "a")(pause)

    assert run(executor, first, spelling(said, "b"), spelling(said, "c")) == ["a", "b", "c"]
    assert sorted(said[:3]) == ["a", "b", "c"], "each has said something before one says its second"
    assert said == said[:3] * 3, "in the order in which they came"


def test_short_call_is_not_interrupted() -> None:
    said: list[str] = []
    executor: FairExecutor[str] = FairExecutor(clock=still, processor_clock=still)
    run(executor, *(spelling(said, name) for name in "abcdef"))
    assert all(len(set(said[n : n + 3])) == 1 for n in range(0, len(said), 3)), said
    assert len("abcdef") > MAX_CALLS, "some had to wait for a thread"


def test_call_ends_when_its_processor_time_is_used_up() -> None:
    executor: FairExecutor[str] = FairExecutor(
        clock=ticking(2 * SLICE_SECONDS), processor_clock=ticking(MAX_CALL_SECONDS / 10)
    )
    paused = 0

    def endless(pause: Pause) -> str:
        nonlocal paused
        try:
            while True:
                pause()
                paused += 1
        except TooLongError:
            pause()
            return "can still be answered"

    assert run(executor, endless) == ["can still be answered"]
    assert paused == 10


def test_failed_call_releases_the_lock() -> None:
    executor: FairExecutor[str] = FairExecutor()

    def broken(_: Pause) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(executor, broken)
    assert run(executor, lambda _: "the next") == ["the next"]


@dataclass(frozen=True, slots=True)
class Outsized:
    """A call that is to look at many environments of which nothing is remembered."""

    runner: Runner
    request: bytes


@pytest.fixture
def outsized() -> Outsized:
    number = next(_NUMBERS)
    environments = [environment(number * ENVIRONMENTS + n) for n in range(ENVIRONMENTS)]
    required = {
        "model": [MODEL],
        "own-placements": [],
        "resource-ProviderConfigUsage": [],
        "selected-environments": environments,
    }
    order = Random(7)  # the same orders in every run
    request = wire.request(TOO_LARGE, {**required, "environments": environments}, order)
    return Outsized(Runner(trust_versions=True), request)


_NUMBERS = itertools.count(10)


def test_pauses_for_every_environment_parsed_and_filtered(outsized: Outsized) -> None:
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1

    outsized.runner._answer(outsized.request, pause)  # noqa: SLF001  # what a turn is given
    assert pauses >= 2 * ENVIRONMENTS
    unknown, pauses = pauses, 0
    outsized.runner._answer(outsized.request, pause)  # noqa: SLF001  # the same again
    assert pauses <= unknown - 2 * ENVIRONMENTS, "what is remembered takes no time"


def test_keeps_running_workloads_when_a_call_takes_too_long(outsized: Outsized) -> None:
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1
        if pauses == ENVIRONMENTS:
            raise TooLongError

    response = outsized.runner._answer(outsized.request, pause)  # noqa: SLF001  # what a turn is given
    assert {c.reason for c in response.conditions} == {"TookTooLong"}
    assert all("tries again" in c.message for c in response.conditions)
    assert not response.results
    assert response.meta.ttl.seconds == 60
    again: RunFunctionResponse = outsized.runner._answer(outsized.request)  # noqa: SLF001  # without a limit
    assert {c.reason for c in again.conditions} == {"Resolved", "PoolTooSmall", "NothingPlaced"}
    assert struct_to_dict(again.desired.composite.resource)["status"]
