"""Histories with ModelServices, and with created clusters, are clean, and find defects that are brought back."""

from collections.abc import Iterator

import pytest
import structlog

from bench.histories.history import World, play
from bench.histories.mutants import MUTANTS
from bench.histories.planting import Mutant, planted

pytestmark = pytest.mark.simulation
SERVICES = World(tight=False, routed=True)
CREATED = World(tight=False, routed=False, created=True)
SEEDS, SEARCHED = 3, 6


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


@pytest.mark.parametrize("world", [SERVICES, CREATED], ids=["services", "created-clusters"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_history_is_clean(seed: int, world: World) -> None:
    assert play(seed, world=world).violations == []


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.routed or m.created], ids=lambda m: m.name)
def test_defect_that_is_brought_back_is_found(mutant: Mutant) -> None:
    world = SERVICES if mutant.routed else CREATED
    for seed in range(SEARCHED):
        with planted(mutant):
            found = play(seed, aim=mutant.aim, world=world)
        if found.violations:
            assert play(seed, aim=mutant.aim, world=world).violations == []
            return
    raise AssertionError("not found")
