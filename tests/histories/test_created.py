"""Histories in which environments create their clusters are clean, and find defects that are brought back."""

from collections.abc import Iterator

import pytest
import structlog

from bench.histories.history import World, play
from bench.histories.mutants import MUTANTS
from bench.histories.planting import Mutant, planted

pytestmark = pytest.mark.simulation
CREATED = [mutant for mutant in MUTANTS if mutant.created]
SEEDS, SEARCHED = 3, 6
WORLD = World(tight=False, routed=False, created=True)


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


@pytest.mark.parametrize("seed", range(SEEDS))
def test_history_with_created_clusters_is_clean(seed: int) -> None:
    assert play(seed, world=WORLD).violations == []


@pytest.mark.parametrize("mutant", CREATED, ids=lambda m: m.name)
def test_nodes_that_are_lost_under_models_are_found(mutant: Mutant) -> None:
    for seed in range(SEARCHED):
        with planted(mutant):
            found = play(seed, aim=mutant.aim, world=WORLD)
        if found.violations:
            assert play(seed, aim=mutant.aim, world=WORLD).violations == []
            return
    raise AssertionError("not found")
