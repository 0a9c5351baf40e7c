"""Anything anywhere gets an answer: a few of the requests of `make fuzz`, and that each is its number."""

from collections.abc import Iterator

import pytest
import structlog

from bench.fuzz.requests import Counts, ask, request
from function.fn import Runner


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


def test_a_request_is_its_number() -> None:
    assert request(3) == request(3)
    assert len({request(number).data for number in range(5)}) == 5


def test_anything_gets_an_answer() -> None:
    counts, runner = Counts(), Runner()
    for number in range(60):
        ask(counts, runner, None, number)
    assert counts.wrong == {}, counts.first
