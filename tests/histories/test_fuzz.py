"""Anything anywhere gets an answer: a few of the requests of `make fuzz`, and that each is its number."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from bench.fuzz.downloads import Downloads, play
from bench.fuzz.guided import Chosen, corpus
from bench.fuzz.requests import NO_REQUEST, Counts, ask, chosen, request
from function.runner import Runner
from function.wire import MalformedError

# A sound repository with records like the client's, a marker over nothing, and no kill: found by it once.
SOUND = 7


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


def test_a_request_is_its_number() -> None:
    assert request(3) == request(3)
    assert len({request(number).data for number in range(5)}) == 5


def test_what_is_made_to_be_no_request_is_none() -> None:
    for number in range(0, 1000, NO_REQUEST):
        with pytest.raises(MalformedError):
            Runner()._answer(request(number).data)  # noqa: SLF001  # what the server does with the bytes


def test_a_download_is_judged_by_its_bytes(tmp_path: Path) -> None:
    counts = Downloads()
    play(counts, SOUND, tmp_path)
    assert (counts.wrong, counts.attempts) == ([], 2)
    assert counts.seen["exit code 0"] == 2


def test_anything_gets_an_answer() -> None:
    counts, runner = Counts(), Runner()
    for number in range(60):
        ask(counts, runner, None, number, request(number))
    assert counts.wrong == {}, counts.first


def test_ten_thousand_profiles_get_an_answer() -> None:
    """Each asked for its own faults among those of all: 18 seconds of processor, where a second is allowed."""
    counts = Counts()
    ask(counts, Runner(), None, 318_831, request(318_831))
    assert counts.wrong == {}, counts.first


def test_what_reached_new_code_once_gets_an_answer() -> None:
    """libFuzzer's, of `make fuzz-guided`."""
    counts, runner = Counts(), Runner()
    for number, data in enumerate(corpus()):
        ask(counts, runner, None, number, chosen(Chosen(data)))
    assert counts.requests > 100
    assert counts.wrong == {}, counts.first
