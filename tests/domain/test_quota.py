"""The quota usage of a namespace, next to which one more placement fits or not."""

from dataclasses import replace

import pytest

from function.domain.allocation import Limits, QuotaUsage

HELD = (("a", 8), ("b", 2))


def taken(placements: int = 0, gpus: int = 0) -> QuotaUsage:
    """Return two placements with ten GPUs, under these limits."""
    limits = Limits(placements=placements, gpus=gpus)
    return QuotaUsage(namespace="team", limits=limits, placements=2, gpus=10, requested=0, holders=HELD)


@pytest.mark.parametrize(
    ("limits", "gpus", "room"),
    [
        ({"gpus": 14}, 4, True),
        ({"gpus": 14}, 5, False),
        ({"placements": 3}, 100, True),
        ({"placements": 2}, 1, False),
        ({"placements": 3, "gpus": 14}, 5, False),
        ({}, 100, True),
    ],
    ids=str,
)
def test_finds_excess_of_one_more_placement(limits: dict[str, int], gpus: int, *, room: bool) -> None:
    found = taken(**limits).find_excess(gpus)
    assert (found is None) is room
    assert found is None or found.requested == gpus


def test_adds_one_more_placement_to_the_usage() -> None:
    more = taken(gpus=20).with_more("c", 4)
    assert (more.placements, more.gpus) == (3, 14)
    assert more.holders == (("a", 8), ("c", 4), ("b", 2)), "the holders are sorted by their GPUs, the largest first"


@pytest.mark.parametrize(("gpus", "is_new", "room"), [(1, False, False), (0, True, False), (0, False, True)])
def test_invalid_limit_allows_nothing_more(gpus: int, *, is_new: bool, room: bool) -> None:
    usage = replace(taken(), limits=Limits(invalid=True))
    assert (usage.find_excess(gpus, is_new=is_new) is None) is room
    assert usage.numbers == "a limit is invalid"
    assert usage.message.startswith("the platform settings have an invalid limit for namespace team")
