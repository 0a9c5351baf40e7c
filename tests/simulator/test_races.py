"""Nothing is taken twice and nothing that serves goes, in a few random histories; `make fleet-races` plays 600."""

from collections.abc import Iterator

import pytest
import structlog

from bench.simulator.races import play

pytestmark = pytest.mark.simulation

# The first four held GPUs twice for a moment before environments kept ledgers. In 23 and 123 lists were late by the
# same second for ever, and there was no end: what a placement had was in sight in every second call, until it was
# asked for by a label; and what was carried over was written over what was newer. The last ends where lags vary alone.
HISTORIES = [
    (0, 0.05, False),
    (3, 0.0, False),
    (7, 1.0, False),
    (8, 0.05, False),
    (1, 0.05, False),
    (2, 1.0, False),
    (23, 1.0, False),
    (123, 1.0, False),
    (14, 1.0, True),
]


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


@pytest.mark.parametrize(("seed", "lag", "varies"), HISTORIES)
def test_history(seed: int, lag: float, *, varies: bool) -> None:
    assert play(seed, lag, varies=varies).violations == []


def test_a_seed_is_a_history() -> None:
    first, second = play(2, 0.05), play(2, 0.05)
    assert (first.done, first.violations, first.calls) == (second.done, second.violations, second.calls)
