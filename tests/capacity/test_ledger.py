"""The placements that are charged, their order, and the rejected placements."""

from dataclasses import dataclass, replace

import pytest

from function.capacity.ledger import CapacityView, charge_order
from function.capacity.pools import PoolCapacity, PoolUse, take_share
from function.domain.allocation import Free, Grant, Share
from function.domain.environment import PoolFacts
from function.domain.placement import Placement
from tests.support.builders import environment, placement, pool, shape, share

TWO_NODES = pool(nodes=2)
FOUR_NODES = pool(nodes=4)
BIG = shape(2, 8)


def other(name: str, created: str = "2026-01-02", **fields: object) -> Placement:
    return placement(deployment=name, created=created, **fields)  # type: ignore[arg-type]  # keywords of placement()


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    others: tuple[Placement, ...]
    want: int


CASES = (
    Case("empty", "four nodes have room for four replicas of 1 x 8", (), 4),
    Case("by-spec", "a placement is charged by its spec before it runs", (other("a"),), 3),
    Case("replicas-multiply", "three replicas of 1 x 8 use three nodes", (other("a", replicas=3),), 1),
    Case("two-nodes", "a replica of 2 x 8 uses two nodes", (other("a", shape=BIG),), 2),
    Case("deleting", "a placement holds its nodes until it is deleted", (other("a", deleting=True),), 3),
    Case("scaled-to-zero", "a placement without replicas uses no nodes", (other("a", replicas=0),), 4),
    Case("unreadable", "an unknown shape cannot be charged", (other("a", shape=None),), 4),
    Case("other-pool", "pools do not share nodes", (other("a", pool="elsewhere"),), 4),
    Case("other-environment", "environments do not share nodes", (other("a", environment="far"),), 4),
    Case(
        "served-beyond-the-pool",
        "a running placement larger than the pool uses all of it",
        (other("a", replicas=9, has_served=True),),
        0,
    ),
    Case(
        "never-served-beyond-the-pool",
        "a deployment evicts a placement that never fits, so it is not charged",
        (other("a", replicas=9),),
        4,
    ),
    Case(
        "nodes-shrank",
        "a placement of 16 GPUs per node uses whole nodes after the nodes shrank to 8",
        (other("a", shape=shape(1, 16)),),
        3,
    ),
    Case(
        "larger-than-a-node",
        "a placement that never had 16 GPUs of a node is not charged for a node of 8",
        (other("a", shape=shape(1, 16), uid="a"),),
        4,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_what_others_leave_of_four_nodes(case: Case) -> None:
    capacity = CapacityView(case.others).free_capacity(environment("env"), FOUR_NODES)
    assert capacity.count_fitting(share(1, 8, 4)) == case.want, case.reason


def test_a_pool_is_counted_once() -> None:
    ledger = CapacityView(())
    assert ledger.free_capacity(environment("env"), TWO_NODES) is ledger.free_capacity(environment("env"), TWO_NODES)


def test_those_that_yield_are_not_charged_to_those_after_them() -> None:
    """The 2 x 8 does not fit next to the older 1 x 8, so the youngest 1 x 8 still gets a node."""
    capacity = CapacityView(
        [other("old", "2026-01-01"), other("big", "2026-01-02", shape=BIG), other("young", "2026-01-03")]
    ).free_capacity(environment("env"), TWO_NODES)
    assert capacity.measure_use(TWO_NODES) == PoolUse(nodes=2, nodes_in_use=2, placements=2)


def test_the_order_is_served_then_creation_then_uid_then_name() -> None:
    want = [
        other("e", "2026-01-09", ready=True, uid="9"),
        other("d", "2026-01-10", has_served=True, uid="9"),
        other("c", "2026-01-01", uid="2"),
        other("b", "2026-01-02", uid="1"),
        other("f", "2026-01-02", uid="2", namespace="a"),
        other("a", "2026-01-02", uid="2", namespace="b"),
        other("g", "2026-01-02", uid="2", namespace="b"),
    ]
    assert sorted([*want[4:], *want[:4]], key=charge_order) == want


@dataclass(frozen=True)
class Turn:
    id: str
    reason: str
    mine: Placement
    others: tuple[Placement, ...]
    want: bool


MINE = placement(created="2026-01-02", uid="m", shape=BIG)
TURNS = (
    Turn("alone", "a placement without others has room", MINE, (), True),
    Turn(
        "younger-other",
        "this placement is older than the other one",
        MINE,
        (other("a", "2026-01-03", shape=BIG),),
        True,
    ),
    Turn(
        "older-other", "the other placement is older than this one", MINE, (other("a", "2026-01-01", shape=BIG),), False
    ),
    Turn(
        "same-second-lower-uid",
        "of placements created in the same second, the lower uid comes first",
        MINE,
        (other("a", uid="a", shape=BIG),),
        False,
    ),
    Turn(
        "same-second-higher-uid",
        "of placements created in the same second, the lower uid comes first",
        MINE,
        (other("a", uid="z", shape=BIG),),
        True,
    ),
    Turn(
        "younger-other-served",
        "a placement that has served comes before an older one that has not",
        MINE,
        (other("a", "2026-01-03", has_served=True, shape=BIG),),
        False,
    ),
    Turn(
        "i-served",
        "a placement that has served is not moved for capacity",
        placement(shape=BIG, has_served=True),
        (other("a", "2026-01-01", has_served=True, shape=BIG),),
        True,
    ),
    Turn(
        "older-other-is-rejected-itself",
        "five replicas of 1 x 8 never fit on two nodes, so the other placement is rejected",
        MINE,
        (other("a", "2026-01-01", replicas=5),),
        True,
    ),
)


@pytest.mark.parametrize("turn", TURNS, ids=lambda c: c.id)
def test_who_keeps_its_place_on_two_nodes(turn: Turn) -> None:
    assert CapacityView(turn.others).may_stay(environment("env"), TWO_NODES, turn.mine) is turn.want, turn.reason


def test_placements_are_counted_only_where_no_ledger_is_believed() -> None:
    """Cached verdicts depend on the counted placements. With a published ledger, other placements are not counted."""
    there = other("a", "2026-01-01")
    assert CapacityView((there,)).counted_placements(environment("env", uid="e")) is None
    assert CapacityView((there,)).counted_placements(environment("env")) == ((there,), frozenset())
    assert CapacityView((there,), (MINE,)).counted_placements(environment("env", uid="e")) == (
        (there, MINE),
        frozenset(),
    )
    admitted = environment("env", uid="e", admitted=(grant("m", 1), grant("other", 1)))
    assert CapacityView((there,), (MINE,)).counted_placements(admitted) == ((there, MINE), frozenset({"m"}))


def grant(uid: str, replicas: int, pool: str = "pool") -> Grant:
    share = Share(pool=pool, nodes=1, gpus_per_node=8, replicas=replicas)
    return Grant(uid=uid, namespace="team", name=uid, share=share)


def test_what_the_environment_granted_others_is_theirs_and_what_it_granted_me_is_not_counted() -> None:
    there = environment("env", FOUR_NODES, uid="e", admitted=(grant("m", 2), grant("young", 3)))
    young = other("young", "2026-01-09", uid="young", replicas=3)
    old = other("old", "2026-01-01", uid="old", replicas=2)
    capacity = CapacityView((young, old), (MINE,)).free_capacity(there, FOUR_NODES)
    assert capacity.measure_use(FOUR_NODES) == PoolUse(nodes=4, nodes_in_use=3, placements=1), (
        "the older placement does not fit next to the grant of the other one"
    )


def test_what_holds_nodes_that_were_lost_is_in_use_of_a_pool_that_is_believed() -> None:
    """One of four nodes is usable and no GPUs are free: two of the three nodes in use are lost."""
    left = replace(FOUR_NODES, facts=PoolFacts(nodes=4, usable=1))
    admitted = (grant("a", 3), grant("b", 1, pool="other"))
    there = environment("env", left, uid="e", admitted=admitted, free={"pool": Free(placements=1, nodes=())})
    assert CapacityView(()).free_capacity(there, left).measure_use(left) == PoolUse(
        nodes=4, nodes_in_use=3, placements=1, unusable_nodes=3
    )


@pytest.mark.parametrize(
    ("nodes", "gpus", "replicas"), [(0, 8, 1), (1, 0, 1), (1, 8, 0), (-1, 8, 1), (1, -8, 1), (1, 8, -1)]
)
def test_a_share_of_no_size_takes_nothing(nodes: int, gpus: int, replicas: int) -> None:
    """Users can write any values into a status."""
    share = Share(pool="a", nodes=nodes, gpus_per_node=gpus, replicas=replicas)
    assert take_share(PoolCapacity(4, 8), share) == PoolCapacity(4, 8)
