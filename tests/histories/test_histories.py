"""Histories are clean, are their seed, and find what they are there to find; `make simulate-short` plays 200."""

from collections.abc import Iterator

import pytest
import structlog

from bench.histories.history import World, play
from bench.histories.mutants import MUTANTS, named
from bench.histories.planting import Mutant, planted


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


@pytest.mark.simulation
def test_a_history_is_its_seed() -> None:
    first, second = play(1), play(1)
    assert first.violations == []
    assert (first.done, first.calls, first.faults) == (second.done, second.calls, second.faults)
    assert first.done[:3] == second.done[:3]


# Reported once: by a defect, or although nothing was wrong; before histories had what is left out of plain ones.
@pytest.mark.simulation
@pytest.mark.parametrize(
    ("seed", "without"),
    [
        (40782, {4, 6, 8, 9}),
        (40797, set()),
        (41564, {2, 3, 4, 5, 6, 7, 8, 9}),
        (41604, {3, 8, 9}),
        (44028, {1, 5, 7, 8, 9}),
        (5031, {1, 3, 5, 6, 7, 8, 9}),
        (44340, {1, 2, 4}),
        (47684, {0, 2, 5, 7, 8, 9}),
        (52299, {2, 3, 4, 5, 6, 7, 8, 9}),
        (47750, {4, 6, 8, 9}),
        (48035, {1, 3, 4, 5, 6, 7, 8, 9}),
        (53161, {0, 4, 9}),
        (75962, {8, 9}),
        (80988, set()),
        (86497, set()),
        (95888, set()),
        (531252, {1, 2, 3, 8, 9}),
    ],
)
def test_reports_nothing_in_histories_that_were_reported_once(seed: int, without: set[int]) -> None:
    assert play(seed, without, world=World(routed=False, created=False), plain=True).violations == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_every_mutant_is_a_change_of_a_line_that_is_there(mutant: Mutant) -> None:
    with planted(mutant):
        pass


# The cheapest of those in docs/reliability.md; `make mutants` looks for all.
@pytest.mark.simulation
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("secret-written-back", 0),
        ("messages-without-bound", 0),
        ("waiting-blocks-growth", 1),
        ("changed-label-decides", 0),
    ],
)
def test_a_defect_that_is_brought_back_is_found(name: str, seed: int) -> None:
    mutant = named(name)
    world = World(tight=mutant.tight, routed=False, created=mutant.created)
    with planted(mutant):
        assert play(seed, aim=mutant.aim, world=world).violations
    assert play(seed, aim=mutant.aim, world=world).violations == []
