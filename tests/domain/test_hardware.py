"""The ladder of network speeds: speed first, RDMA above plain Ethernet of any speed, fabrics in between."""

import itertools

import pytest

from function.domain.hardware import LADDER, BandwidthRequirement

# The design's order, written once more so that a slip in either place shows.
ORDER = """
eth-10g < eth-25g < eth-50g < eth-100g < eth-200g < eth-400g < eth-800g < roce-100g < efa-100g < ib-100g <
roce-200g < efa-200g < ib-200g < roce-400g < efa-400g < ib-400g < roce-800g < efa-800g < ib-800g
"""


def test_the_ladder_is_the_designs() -> None:
    assert tuple(rung.strip() for rung in ORDER.split("<")) == LADDER


@pytest.mark.parametrize(("lower", "higher"), list(itertools.pairwise(LADDER)))
def test_or_better_admits_what_stands_above_and_nothing_below(lower: str, higher: str) -> None:
    at_least = BandwidthRequirement(rung=higher, or_better=True)
    assert at_least.is_met_by(higher)
    assert not at_least.is_met_by(lower)
    assert BandwidthRequirement(rung=lower, or_better=True).is_met_by(higher)


def test_without_the_suffix_only_the_same_rung_will_do() -> None:
    exactly = BandwidthRequirement(rung="ib-400g", or_better=False)
    assert [rung for rung in LADDER if exactly.is_met_by(rung)] == ["ib-400g"]


def test_a_requirement_reads_as_it_is_written() -> None:
    assert str(BandwidthRequirement(rung="ib-400g", or_better=True)) == "ib-400g-or-better"
    assert str(BandwidthRequirement(rung="ib-400g", or_better=False)) == "ib-400g"
