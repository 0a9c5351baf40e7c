"""Pods share a node unless they use its host network or all its devices, or their replicas need exclusive nodes."""

from dataclasses import replace

import pytest

from function.capacity.ledger import allocate_pool
from function.domain.environment import Pool, PoolFacts
from function.domain.placement import Placement
from tests.capacity.test_allocate_pool import FOUR, OWN_DEVICES, OWN_NETWORK, YOUNG, asks, grant, held, share
from tests.support.builders import shape

HALF, HALVES = shape(1, 4), shape(2, 4)
WHOLE: tuple[tuple[Pool, tuple[Placement, ...], dict[str, int], list[str], int], ...] = (
    (OWN_NETWORK, (asks("a", 4, shape=HALF), asks("b", 1, YOUNG, shape=HALF)), {"a": 4}, ["b"], 0),
    (OWN_NETWORK, (asks("a", 1, shape=HALF), asks("b", 3, YOUNG)), {"a": 1, "b": 3}, [], 0),
    (OWN_DEVICES, (asks("a", 1, shape=HALVES), asks("b", 2, YOUNG, shape=HALVES)), {"a": 2}, ["b"], 2),
    (OWN_DEVICES, (asks("a", 1, shape=HALVES), asks("b", 4, YOUNG, shape=HALF)), {"a": 2, "b": 4}, [], 0),
    # Independent of their age, halves that share a node are charged after pods with exclusive nodes.
    (OWN_DEVICES, (asks("a", 3, shape=HALF), asks("b", 1, YOUNG, shape=HALVES)), {"a": 3, "b": 2}, [], 0),
    (FOUR, (asks("a", 1, shape=HALVES), asks("b", 3, YOUNG, shape=HALVES)), {"a": 2, "b": 6}, [], 0),
)


@pytest.mark.parametrize(("of", "placements", "want", "yields", "empty"), WHOLE)
def test_pods_on_exclusive_nodes_share_none(
    of: Pool, placements: tuple[Placement, ...], want: dict[str, int], yields: list[str], empty: int
) -> None:
    """Replicas of half nodes share a node, unless the pool uses the host network."""
    found = allocate_pool(of, placements)
    assert (held(found), [p.uid for p in found.rejected]) == (want, yields)
    assert found.capacity.free.get(8, 0) == empty


def test_pool_that_switches_to_host_network_keeps_running_services() -> None:
    """Eight half-node replicas ran on four nodes, twice as many as fit now."""
    found = allocate_pool(OWN_NETWORK, (asks("a", 8, shape=HALF, has_served=True),), (grant("a", share(8, gpus=4)),))
    assert (held(found), found.rejected, sum(found.capacity.free.values())) == ({"a": 8}, (), 0)
    assert found.capacity.nodes_in_use == 4


def test_exclusive_replicas_keep_their_nodes_when_those_are_unusable() -> None:
    """Three half-node replicas ran on three of four nodes, of which one is usable now. Shared nodes would be two."""
    three = asks("a", 3, shape=HALF, has_served=True)
    lost = replace(FOUR, facts=PoolFacts(nodes=4, usable=1))
    for apart, nodes in ((True, 3), (False, 2)):
        found = allocate_pool(
            lost,
            (replace(three, exclusive_replica_nodes=apart),),
            (grant("a", replace(share(3, gpus=4), exclusive_replica_nodes=apart)),),
        )
        assert (found.capacity.nodes_in_use, sum(found.capacity.free.values())) == (nodes, 0)
