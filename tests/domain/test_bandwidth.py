"""The ladder of network speeds: speed first, RDMA above plain Ethernet of any speed, fabrics in between."""

import itertools

import pytest

from function.domain.model import LADDER, BandwidthRequirement

# The order of the design is repeated here, so that a mistake in either place fails a test.
ORDER = """
eth-10g < eth-25g < eth-50g < eth-100g < eth-200g < eth-400g < eth-800g < roce-100g < efa-100g < ib-100g <
roce-200g < efa-200g < ib-200g < roce-400g < efa-400g < ib-400g < roce-800g < efa-800g < ib-800g
"""


def test_ladder_is_the_one_of_the_design() -> None:
    assert tuple(rung.strip() for rung in ORDER.split("<")) == LADDER


@pytest.mark.parametrize(("lower", "higher"), list(itertools.pairwise(LADDER)))
def test_or_better_accepts_faster_networks_only(lower: str, higher: str) -> None:
    at_least = BandwidthRequirement(rung=higher, or_better=True)
    assert at_least.is_met_by(higher)
    assert not at_least.is_met_by(lower)
    assert BandwidthRequirement(rung=lower, or_better=True).is_met_by(higher)


def test_exact_requirement_accepts_the_same_network_only() -> None:
    exactly = BandwidthRequirement(rung="ib-400g", or_better=False)
    assert [rung for rung in LADDER if exactly.is_met_by(rung)] == ["ib-400g"]


def test_requirement_is_shown_as_written() -> None:
    assert str(BandwidthRequirement(rung="ib-400g", or_better=True)) == "ib-400g-or-better"
    assert str(BandwidthRequirement(rung="ib-400g", or_better=False)) == "ib-400g"
