"""PoolCapacity equals a list of all nodes, at a cost that is independent of the number of nodes."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.capacity.ledger import CapacityView
from function.capacity.pools import PoolCapacity, count_in_empty_pool
from function.domain.pods import PodAdditions
from function.reasons import Refused
from function.scheduling.filters import find_shortage
from tests.support.builders import candidate, environment, pool, shape, share


def listed(capacity: PoolCapacity) -> list[int]:
    return sorted(level for level, count in capacity.free.items() for _ in range(count))


def possible(free: list[int], nodes: int, gpus: int, replicas: int) -> bool:
    """Tries all assignments in which the pods of a replica are on distinct nodes."""
    if replicas == 0:
        return True
    able = [index for index, level in enumerate(free) if level >= gpus]
    return any(
        possible([f - gpus * (i in chosen) for i, f in enumerate(free)], nodes, gpus, replicas - 1)
        for chosen in combinations(able, nodes)
    )


def test_a_replica_takes_gpus_on_distinct_nodes() -> None:
    """A node with 16 free GPUs does not fit a replica of 2 x 8."""
    assert PoolCapacity(1, 16).count_fitting(share(2, 8, 1)) == 0
    assert PoolCapacity(2, 16).count_fitting(share(2, 8, 2)) == 2


def test_capacity_is_counted_by_node_not_by_sum() -> None:
    """Four nodes with 4 free GPUs each do not fit a pod of 8 GPUs."""
    capacity = PoolCapacity(4, 8)
    for _ in range(4):
        capacity.take(1, 8, 1)
    assert capacity.nodes_in_use == 4
    capacity = PoolCapacity(4, 4)
    assert capacity.count_fitting(share(1, 8, 1)) == 0


def test_best_fit_fills_the_fullest_node() -> None:
    """Pods of 5 and 3 GPUs share a node of 8, so the other node stays free."""
    capacity = PoolCapacity(2, 8)
    capacity.take(1, 5, 1)
    capacity.take(1, 3, 1)
    assert listed(capacity) == [0, 8]


def test_replicas_fill_a_node_before_they_start_the_next() -> None:
    """Three replicas of 2 x 4 are 6 pods. Two pods share a node of 8 (AB, BC, CA), so the fourth node stays free."""
    capacity = PoolCapacity(4, 8)
    capacity.take(2, 4, 3)
    assert listed(capacity) == [0, 0, 0, 8]


def test_three_replicas_of_two_halves_fit_three_nodes() -> None:
    """The replicas use the nodes AB, BC and CA, so each replica has distinct nodes."""
    capacity = PoolCapacity(3, 8)
    assert capacity.count_fitting(share(2, 4, 3)) == 3
    capacity.take(2, 4, 3)
    assert listed(capacity) == [0, 0, 0]


def test_exclusive_replica_nodes_allow_one_pod_per_node() -> None:
    assert PoolCapacity(3, 8).count_fitting(share(1, 4, 6)) == 6
    assert PoolCapacity(3, 8).count_fitting(share(1, 4, 6, exclusive=True)) == 3
    assert PoolCapacity(3, 8).count_fitting(share(1, 8, 6, exclusive=True)) == 3
    assert PoolCapacity(5, 8).count_fitting(share(2, 4, 6, exclusive=True)) == 2
    assert PoolCapacity(5, 8).count_fitting(share(2, 4, 1, exclusive=True)) == 1


def test_exclusive_replica_nodes_take_a_node_for_each_pod() -> None:
    capacity = PoolCapacity(3, 8)
    assert capacity.take(1, 4, 2, exclusive=True) == 0
    assert listed(capacity) == [4, 4, 8]
    assert capacity.take(1, 2, 4, exclusive=True) == 1, "three nodes fit three of four exclusive pods"
    assert listed(capacity) == [2, 2, 6]


def test_takes_as_much_as_fits_of_an_overcommitted_pool() -> None:
    capacity = PoolCapacity(3, 8)
    capacity.take(2, 8, 5)
    assert listed(capacity) == [0, 0, 0]


def test_exclusive_node_leaves_nothing_to_others() -> None:
    """Only replicas of several nodes need exclusive nodes here: their pods of 4 GPUs never share a node."""
    capacity = PoolCapacity(4, 8, exclusive_nodes=(False, True))
    assert capacity.count_fitting(share(2, 4, 3)) == 2
    assert count_in_empty_pool(replace(pool(nodes=4), pod=PodAdditions(host_network=True)), share(2, 4, 3)) == 2
    capacity.take(1, 4, 1)
    assert capacity.count_fitting(share(2, 4, 2)) == 1
    assert capacity.count_left_on_fullest(share(2, 4, 1)) == 0
    assert capacity.count_left_on_fullest(share(2, 4, 1, exclusive=True)) == 0
    assert capacity.take(2, 4, 2) == 1, "three nodes are free for four exclusive pods"
    assert listed(capacity) == [0, 0, 0, 4]
    assert capacity.count_fitting(share(1, 4, 2)) == 1


def test_does_not_add_up_leftovers_of_nodes() -> None:
    """Two pods of 3 GPUs fit on a node of 8, so three nodes fit six pods, and not 24 / 3."""
    assert PoolCapacity(3, 8).count_fitting(share(1, 3, 8)) == 6


def test_reports_exclusive_nodes_when_the_pool_is_too_small() -> None:
    for gpus, whole in ((4, True), (8, False)):
        own = replace(pool(nodes=2), pod=PodAdditions(host_network=True))
        capacity = CapacityView(()).free_capacity(environment("env", own), own)
        found = find_shortage(candidate(own, shape(1, gpus), replicas=3), capacity)
        assert found is not None
        assert (found.reason, found.actual, found.exclusive_node) == (Refused.POOL_TOO_SMALL, 2, whole)


def test_computes_the_empty_pool_without_counting_placements() -> None:
    assert count_in_empty_pool(pool(nodes=3), share(2, 8, 2)) == 1


def test_cost_does_not_grow_with_nodes_and_replicas() -> None:
    """2,500 nodes of 8 GPUs fit exactly 20,000 replicas of one GPU."""
    capacity = PoolCapacity(2_500, 8)
    assert capacity.count_fitting(share(1, 1, 20_001)) == 20_000
    capacity.take(1, 1, 20_000)
    assert capacity.free[0] == 2_500


taken = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 2)), max_size=3)


@given(taken=taken, nodes=st.integers(1, 3), gpus=st.integers(1, 4), replicas=st.integers(1, 3))
def test_fits_exactly_what_some_assignment_holds(
    taken: list[tuple[int, int, int]], nodes: int, gpus: int, replicas: int
) -> None:
    """Compares with all assignments of pods to 4 nodes of 4 GPUs."""
    capacity = PoolCapacity(4, 4)
    for demand in taken:
        capacity.take(*demand)
    want = max(count for count in range(replicas + 1) if possible(listed(capacity), nodes, gpus, count))
    assert capacity.count_fitting_replicas(nodes, gpus, replicas) == want


@given(taken=taken)
def test_no_node_is_lost_or_overdrawn(taken: list[tuple[int, int, int]]) -> None:
    capacity = PoolCapacity(4, 4)
    for nodes, gpus, replicas in taken:
        before = sum(listed(capacity))
        fits = capacity.count_fitting_replicas(nodes, gpus, replicas)
        lacking = capacity.take(nodes, gpus, replicas)
        after = listed(capacity)
        assert len(after) == 4
        assert min(after) >= 0
        assert (lacking == 0) is (fits == replicas)
        assert before - sum(after) == gpus * (nodes * replicas - lacking)


@pytest.mark.parametrize("replicas", [0, 1])
def test_a_pool_without_nodes_holds_nothing(replicas: int) -> None:
    assert PoolCapacity(0, 8).count_fitting(share(1, 1, replicas)) == 0
