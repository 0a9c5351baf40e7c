"""Nothing is taken twice and nothing that serves goes, in a few random histories; `make fleet-races` plays 600."""

from collections.abc import Iterator

import pytest
import structlog

from bench.simulator.races import play

# The first four held GPUs twice for a moment before environments kept ledgers. In the last two lists were a second
# late, and there was no end: what a placement had was in sight in every second call, until it was asked for by a label;
# and what was carried over was written over what was newer.
HISTORIES = [(0, 0.05), (3, 0.0), (7, 1.0), (8, 0.05), (1, 0.05), (2, 1.0), (23, 1.0), (123, 1.0)]


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


@pytest.mark.parametrize(("seed", "lag"), HISTORIES)
def test_history(seed: int, lag: float) -> None:
    history = play(seed, lag)
    again = f"python -m bench.simulator race {seed} --lag {lag}"
    assert history.violations == [], again


def test_a_seed_is_a_history() -> None:
    first, second = play(2, 0.05), play(2, 0.05)
    assert (first.done, first.violations, first.calls) == (second.done, second.violations, second.calls)
