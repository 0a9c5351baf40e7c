"""The ledger equals one that charges every grant one by one, in other worlds at each run."""

import random
import secrets
from collections.abc import Iterable

import pytest

from bench.histories.planting import Change, Mutant, planted
from tests.support.plain_ledger import POOLS, compare_with_plain_ledger, draw_rows

SEEDS = 1_000
WORLDS = 20  # of each seed
# The sizes in histories are too even to show this defect.
GRANTED_BY_THE_PASS = Mutant(
    "granted-by-the-pass",
    "41: whether a request is granted depends on what the same pass granted before",
    (),
    (Change("function.capacity.ledger", "_grant_in_turn", "holdings.charges_last(granted)", "True"),),
)


def compare_all_worlds(seeds: Iterable[int]) -> None:
    for seed in seeds:
        compare_worlds(seed)


def compare_worlds(seed: int) -> None:
    """Compares some worlds of a seed; the error names the world."""
    source = random.Random(seed)
    for number in range(WORLDS):
        rows, pool = draw_rows(source), source.choice(POOLS)
        try:
            compare_with_plain_ledger(rows, pool)
        except AssertionError as error:
            raise AssertionError(f"world {number} of seed {seed}: {rows} on {pool}") from error


@pytest.mark.simulation
def test_ledger_equals_plain_ledger_with_random_seeds() -> None:
    compare_all_worlds(secrets.randbits(32) for _ in range(SEEDS))


@pytest.mark.simulation
def test_random_worlds_find_grants_that_depend_on_the_pass() -> None:
    with planted(GRANTED_BY_THE_PASS), pytest.raises(AssertionError, match="world"):
        compare_all_worlds(range(SEEDS))
