"""Grants of an environment: grants and GPUs in use are kept, and the other placements get the rest in turn."""

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from function.capacity.ledger import PoolLedger, allocate_pool
from function.domain.allocation import Grant, Share
from function.domain.environment import Pool, PoolFacts
from function.domain.placement import Placement
from function.domain.pods import InterNode, PodAdditions
from function.domain.records.service import ServiceRecord
from function.domain.records.weights import WeightsRecord
from tests.support.builders import placement, pool, shape, with_service

FOUR = pool("pool", gpus=8, nodes=4)
OWN_NETWORK = replace(FOUR, pod=PodAdditions(host_network=True))
OWN_DEVICES = replace(FOUR, inter_node=InterNode(whole_node=True))


def share(replicas: int = 1, *, nodes: int = 1, gpus: int = 8, pool: str = "pool") -> Share:
    return Share(pool=pool, nodes=nodes, gpus_per_node=gpus, replicas=replicas)


def asks(uid: str, replicas: int = 1, created: str = "2026-01-01", **more: object) -> Placement:
    """Returns a placement that requests this number of nodes of 8 GPUs."""
    made = placement(deployment=uid, uid=uid, replicas=replicas, created=created)
    return replace(made, **more)  # type: ignore[arg-type]  # fields of a placement


def grant(uid: str, held: Share) -> Grant:
    return Grant(uid=uid, namespace="team", name=f"{uid}-env", share=held)


def held(ledger: PoolLedger) -> dict[str, int]:
    """Returns the nodes of each placement."""
    return {g.uid: g.share.nodes * g.share.replicas for g in ledger.grants}


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    placements: tuple[Placement, ...]
    granted: tuple[Grant, ...]
    want: dict[str, int]
    rejected: tuple[str, ...] = ()


OLD, YOUNG = "2026-01-01", "2026-01-09"
TWO = shape(2, 8)
CASES = (
    Case("empty", "without placements and grants, the ledger is empty", (), (), {}),
    Case("grant-of-no-nodes", "a grant of no nodes is ignored", (), (grant("a", share(nodes=0)),), {}),
    Case("grant-of-no-gpus", "a grant of no GPUs is ignored", (), (grant("a", share(gpus=0)),), {}),
    Case("grant-of-one-gpu", "a grant of one GPU is kept", (), (grant("a", share(gpus=1)),), {"a": 1}),
    Case("grant-of-another-pool", "a grant of another pool is ignored", (), (grant("a", share(pool="other")),), {}),
    Case("room-for-all", "every placement gets the requested nodes", (asks("a"), asks("b", 3)), (), {"a": 1, "b": 3}),
    Case(
        "replicas-apart",
        "two half-node replicas with exclusive nodes use two nodes, so one of four nodes is left",
        (asks("a", 2, shape=shape(1, 4), exclusive_replica_nodes=True), asks("b"), asks("c", shape=TWO, created=YOUNG)),
        (),
        {"a": 2, "b": 1},
        ("c",),
    ),
    Case(
        "no-room-apart",
        "three half-node replicas with exclusive nodes need three nodes, and two are left",
        (asks("a", 2), asks("b", 3, YOUNG, shape=shape(1, 4), exclusive_replica_nodes=True)),
        (),
        {"a": 2},
        ("b",),
    ),
    Case(
        "granted-apart",
        "a grant of three half-node replicas with exclusive nodes uses three nodes",
        (asks("a", 3, shape=shape(1, 4), exclusive_replica_nodes=True), asks("b", 2, YOUNG)),
        (grant("a", share(3, gpus=4)),),
        {"a": 3},
        ("b",),
    ),
    Case(
        "older-first",
        "of two new placements, the older one is admitted",
        (asks("young", 3, YOUNG), asks("old", 3, OLD)),
        (),
        {"old": 3},
        ("young",),
    ),
    Case(
        "admitted-stays",
        "a grant is not taken back in favor of an older placement",
        (asks("young", 3, YOUNG), asks("old", 3, OLD)),
        (grant("young", share(3)),),
        {"young": 3},
        ("old",),
    ),
    Case(
        "begun-before-older",
        "a placement with composed resources was admitted before, and precedes older placements",
        (asks("young", 3, YOUNG, weights=WeightsRecord(planned_uri="pvc://x")), asks("old", 3, OLD)),
        (),
        {"young": 3},
        ("old",),
    ),
    Case(
        "objects-before-older",
        "a placement with Objects was admitted before its status was lost, and gets only free nodes",
        (asks("young", 3, YOUNG, lists_objects=True), asks("old", 3, OLD), asks("serves", 1, has_served=True)),
        (),
        {"young": 3, "serves": 1},
        ("old",),
    ),
    Case(
        "objects-take-nothing",
        "a user can forge a list of Objects, so it does not override the grants of others",
        (asks("young", 3, YOUNG, lists_objects=True), asks("old", 3, OLD)),
        (grant("old", share(3)),),
        {"old": 3},
        ("young",),
    ),
    Case(
        "served-beyond",
        "running placements are charged without a grant, even beyond the size of the pool",
        (asks("a", 3, has_served=True), asks("b", 3, has_served=True)),
        (),
        {"a": 3, "b": 3},
    ),
    Case(
        "no-more-than-granted",
        "a placement that has served gets no more replicas than granted if there is no room",
        (asks("a", 3, has_served=True, service=ServiceRecord(allocated=share(2))), asks("b", 2)),
        (grant("a", share(2)), grant("b", share(2))),
        {"a": 2, "b": 2},
        ("a",),
    ),
    Case(
        "grows",
        "a grant grows if there is room",
        (asks("a", 3, has_served=True, service=ServiceRecord(allocated=share(2))),),
        (grant("a", share(2)),),
        {"a": 3},
    ),
    Case(
        "grown-is-charged-once",
        "a larger grant replaces the smaller one, so the next placement still fits",
        (asks("a", 2), asks("b", 2, "2026-01-02"), asks("c", 1, YOUNG)),
        (grant("a", share(1)),),
        {"a": 2, "b": 2},
        ("c",),
    ),
    Case(
        "largest-first",
        "the largest grants are packed first: 5 + 3 GPUs fit on a node, 5 + 5 GPUs do not",
        (asks("e", 2),),
        tuple(grant(uid, share(gpus=gpus)) for uid, gpus in (("a", 3), ("b", 3), ("c", 5), ("d", 5))),
        {"a": 1, "b": 1, "c": 1, "d": 1, "e": 2},
    ),
    Case(
        "most-nodes-first",
        "grants of several nodes are packed first, and grants of one node use the other halves",
        (asks("e", 2),),
        tuple(grant(uid, share(nodes=nodes, gpus=4)) for uid, nodes in (("a", 1), ("b", 1), ("c", 2))),
        {"a": 1, "b": 1, "c": 2, "e": 2},
    ),
    Case(
        "shrinks-when-it-has-let-go",
        "a grant keeps its size while the service still uses three nodes",
        (asks("a", 1, has_served=True, service=ServiceRecord(allocated=share(3))), asks("b", 2)),
        (grant("a", share(3)),),
        {"a": 3},
        ("b",),
    ),
    Case(
        "has-let-go",
        "a grant shrinks once the service uses only one node, so two nodes are free",
        (asks("a", 1, has_served=True, service=ServiceRecord(allocated=share(1))), asks("b", 2)),
        (grant("a", share(3)),),
        {"a": 1, "b": 2},
    ),
    Case(
        "other-pool",
        "a placement keeps its nodes until its service has moved to the other pool",
        (asks("a", 3, pool="other", has_served=True, service=ServiceRecord(allocated=share(3))), asks("b", 2)),
        (grant("a", share(3)),),
        {"a": 3},
        ("b",),
    ),
    Case(
        "gave-it-up",
        "a grant is released if its placement requests another pool and uses no nodes here",
        (asks("a", 3, pool="other"), asks("b", 2)),
        (grant("a", share(3)),),
        {"b": 2},
    ),
    Case(
        "other-shape",
        "the nodes of the old shape count until the service has released them",
        (asks("a", 1, shape=TWO, has_served=True, service=ServiceRecord(allocated=share(2))), asks("b", 1)),
        (grant("a", share(2)),),
        {"a": 2},
        ("b",),
    ),
    Case(
        "unseen",
        "a placement that is not in the list keeps its grant",
        (asks("b", 2),),
        (grant("a", share(3)),),
        {"a": 3},
        ("b",),
    ),
    Case(
        "unreadable",
        "a placement with an unreadable topology keeps its grant",
        (asks("a", shape=None),),
        (grant("a", share(3)),),
        {"a": 3},
    ),
    Case("no-replicas", "a placement without replicas uses no nodes", (asks("a", 0), asks("b", 4)), (), {"b": 4}),
    Case(
        "too-large-for-ever", "a request of 72 GPUs is never admitted in a pool of 32", (asks("a", 9),), (), {}, ("a",)
    ),
    Case(
        "overcommitted",
        "an overcommitted pool has no free nodes",
        (asks("a", 5, has_served=True), asks("b", 1)),
        (),
        {"a": 5},
        ("b",),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_allocates_four_nodes(case: Case) -> None:
    found = allocate_pool(FOUR, case.placements, case.granted)
    assert held(found) == case.want, case.reason
    assert tuple(p.uid for p in found.rejected) == case.rejected, case.reason


def test_charges_both_shapes_while_one_replaces_the_other() -> None:
    """One replica of two nodes replaces two replicas of one node. Both are charged until the old ones are gone."""
    moving = asks("a", 1, shape=TWO, has_served=True, service=ServiceRecord(allocated=share(2)))
    found = allocate_pool(FOUR, (moving,), (grant("a", share(2)),))
    assert [g.share for g in found.grants] == [share(2), share(1, nodes=2)]
    assert found.capacity.free.get(8) == 0, "both shapes use all four nodes"
    gone = allocate_pool(FOUR, (with_service(moving, allocated=share(1, nodes=2)),), found.grants)
    assert [g.share for g in gone.grants] == [share(1, nodes=2)]
    assert gone.capacity.free[8] == 2


WORLDS = st.lists(
    st.tuples(
        st.integers(0, 5),  # replicas
        st.integers(1, 3),  # nodes
        st.sampled_from((1, 2, 4, 8)),  # GPUs
        st.booleans(),  # served
        st.booleans(),  # granted
        st.integers(1, 9),  # day
    ),
    max_size=8,
)


def _world(rows: list[tuple[int, int, int, bool, bool, int]]) -> tuple[list[Placement], list[Grant]]:
    placements, grants = [], []
    for number, (replicas, nodes, gpus, served, granted, day) in enumerate(rows):
        made = asks(str(number), replicas, f"2026-01-0{day}", shape=shape(nodes, gpus), has_served=served)
        placements.append(made)
        if granted and made.requested:
            grants.append(grant(made.uid, replace(made.requested, replicas=max(0, replicas - day % 2))))
    return placements, grants


# The oldest takes a node, the next one two halves. The last one fits only if all of them are packed again.
PACKED = [(2, 1, 4, False, False, 1), (1, 2, 4, False, False, 2), (1, 2, 8, False, False, 2)]


@example(rows=PACKED, of=FOUR, turn=random.Random(0))
@given(rows=WORLDS, of=st.sampled_from((FOUR, OWN_NETWORK, OWN_DEVICES)), turn=st.randoms())
def test_ledger_is_independent_of_order_and_stable(
    rows: list[tuple[int, int, int, bool, bool, int]], of: Pool, turn: random.Random
) -> None:
    placements, grants = _world(rows)
    found = allocate_pool(of, placements, grants)
    turn.shuffle(placements)
    turn.shuffle(grants)
    assert allocate_pool(of, placements, grants) == found
    again = allocate_pool(of, placements, found.grants)
    assert again.grants == found.grants, "the ledger is stable without a change"
    assert [p.uid for p in again.rejected] == [p.uid for p in found.rejected]
    assert again.capacity == found.capacity


@given(rows=WORLDS, of=st.sampled_from((FOUR, OWN_NETWORK, OWN_DEVICES)))
def test_new_grants_fit(rows: list[tuple[int, int, int, bool, bool, int]], of: Pool) -> None:
    """New GPUs, which were neither granted nor in use before, are within the free GPUs."""
    placements, grants = _world(rows)
    found = allocate_pool(of, placements, grants)
    total = sum(g.share.gpus + _idle(of, g.share) for g in found.grants)
    before = {g.uid: g.share.gpus for g in grants} | {
        p.uid: p.requested.gpus for p in placements if p.has_served and p.requested
    }
    grown = [g for g in found.grants if g.share.gpus > before.get(g.uid, 0)]
    assert not grown or total <= 32
    free = sum(gpus * nodes for gpus, nodes in found.capacity.free.items())
    assert free == 32 - total or (total > 32 and free == 0) or free == 0


def _idle(of: Pool, share: Share) -> int:
    """Returns the GPUs that a share leaves idle on its exclusive nodes."""
    whole = of is OWN_NETWORK or (of is OWN_DEVICES and share.nodes > 1)
    return (8 - share.gpus_per_node) * share.nodes * share.replicas if whole else 0


def test_grants_no_more_than_the_bound() -> None:
    found = allocate_pool(FOUR, (asks("a"), asks("b"), asks("c")), (grant("a", share()),), 2)
    assert held(found) == {"a": 1, "b": 1}
    assert [p.uid for p in found.rejected] == ["c"]
    grown = allocate_pool(FOUR, (asks("a", 2), asks("b")), (grant("a", share()), grant("b", share())), 2)
    assert held(grown) == {"a": 2, "b": 1}, "a placement with a grant may grow at the bound"
    beside = allocate_pool(FOUR, (asks("a", 2), asks("b", 1, YOUNG)), (grant("a", share()),), 2)
    assert held(beside) == {"a": 2, "b": 1}, (
        "a placement that grows has only one grant, so there is room for another one"
    )


@dataclass(frozen=True)
class Lost:
    id: str
    reason: str
    usable: int
    placements: tuple[Placement, ...]
    granted: tuple[Grant, ...]
    want: dict[str, int]
    rejected: tuple[str, ...]
    free: int


LOST = (
    Lost("room", "three of four nodes are usable, and a new placement of three fits",
         3, (asks("a", 3),), (), {"a": 3}, (), 0),
    Lost("no-room", "three of four nodes are usable, and a new placement of four does not fit",
         3, (asks("a", 4),), (), {}, ("a",), 3),
    Lost("admitted", "a grant is kept when its nodes become unusable",
         0, (asks("a", 2),), (grant("a", share(2)),), {"a": 2}, (), 0),
    Lost("served", "a serving placement is kept when its nodes become unusable",
         0, (asks("a", 2, has_served=True),), (), {"a": 2}, (), 0),
    Lost("beside", "existing grants are charged before new placements",
         3, (asks("a", 2), asks("b", 2, YOUNG)), (grant("a", share(2)),),
         {"a": 2}, ("b",), 1),
    Lost("over", "no nodes are free if the grants exceed the usable nodes", 1, (asks("a", 2), asks("b", 1, YOUNG)),
         (grant("a", share(2)),), {"a": 2}, ("b",), 0),
    Lost("growth", "an admitted placement grows only on usable nodes", 1, (asks("a", 2),), (grant("a", share(1)),),
         {"a": 1}, ("a",), 0),
    Lost("shrink", "a placement may always shrink", 0, (asks("a", 1),), (grant("a", share(2)),), {"a": 1}, (), 0),
)  # fmt: skip


@pytest.mark.parametrize("case", LOST, ids=lambda c: c.id)
def test_allocates_around_unusable_nodes(case: Lost) -> None:
    pool = replace(FOUR, facts=PoolFacts(nodes=4, usable=case.usable))
    found = allocate_pool(pool, case.placements, case.granted)
    assert held(found) == case.want, case.reason
    assert tuple(p.uid for p in found.rejected) == case.rejected, case.reason
    assert found.capacity.free.get(8, 0) == case.free, case.reason


@pytest.mark.parametrize(
    ("shares", "want", "reason"),
    [
        ((share(2),), 2, "each of two replicas uses a whole node"),
        ((share(), share()), 2, "the nodes of all grants are counted"),
        ((share(3, gpus=4),), 2, "two replicas of 4 GPUs share a node"),
        ((share(5, gpus=3),), 3, "two replicas of 3 GPUs share a node, and the rest of it stays free"),
        ((share(9),), 4, "the count is at most the number of nodes"),
    ],
)
def test_counts_nodes_in_use_among_unusable_ones(shares: tuple[Share, ...], want: int, reason: str) -> None:
    pool = replace(FOUR, facts=PoolFacts(nodes=4, usable=0))
    found = allocate_pool(pool, (), [grant(str(number), each) for number, each in enumerate(shares)])
    assert found.capacity.nodes_in_use == want, reason


def test_charges_exclusive_replicas_before_packing_nodes() -> None:
    """Both placements fit: 2 + 4 GPUs on each of two nodes. Packed first, the pods of 4 GPUs would fill one node."""
    spread, packed = (
        asks("a", 2, shape=shape(1, 2), exclusive_replica_nodes=True),
        asks("b", 2, YOUNG, shape=shape(1, 4)),
    )
    found = allocate_pool(pool("pool", gpus=8, nodes=2), (spread, packed))
    assert held(found) == {"a": 2, "b": 2}
    assert {level: nodes for level, nodes in found.capacity.free.items() if nodes} == {2: 2}
