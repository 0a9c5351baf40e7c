"""The ledger equals one that charges every grant one by one, in other worlds at each run."""

import random
import secrets

import pytest

from tests.support.plain_ledger import POOLS, compare_with_plain_ledger, draw_rows

SEEDS = 1_000
WORLDS = 20  # of each seed


@pytest.mark.simulation
def test_ledger_equals_plain_ledger_with_random_seeds() -> None:
    for seed in (secrets.randbits(32) for _ in range(SEEDS)):
        source = random.Random(seed)  # worlds to test with
        for number in range(WORLDS):
            rows, pool = draw_rows(source), source.choice(POOLS)
            try:
                compare_with_plain_ledger(rows, pool)
            except AssertionError as error:
                raise AssertionError(f"world {number} of seed {seed}: {rows} on {pool}") from error
