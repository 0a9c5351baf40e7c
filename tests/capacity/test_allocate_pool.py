"""What an environment grants: what was granted stays, what serves is held, and the rest gets what is left in turn."""

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
    """Return a placement that asks for so many nodes of 8 GPUs."""
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
    Case("empty", "there is nothing to charge", (), (), {}),
    Case("grant-of-no-nodes", "is none", (), (grant("a", share(nodes=0)),), {}),
    Case("grant-of-no-gpus", "is none", (), (grant("a", share(gpus=0)),), {}),
    Case("grant-of-one-gpu", "is one", (), (grant("a", share(gpus=1)),), {"a": 1}),
    Case("grant-of-another-pool", "is that one's", (), (grant("a", share(pool="other")),), {}),
    Case("room-for-all", "each gets what it asks for", (asks("a"), asks("b", 3)), (), {"a": 1, "b": 3}),
    Case(
        "replicas-apart",
        "two of half a node each are on two nodes, so that of four one is left to who needs two",
        (asks("a", 2, shape=shape(1, 4), exclusive_replica_nodes=True), asks("b"), asks("c", shape=TWO, created=YOUNG)),
        (),
        {"a": 2, "b": 1},
        ("c",),
    ),
    Case(
        "no-room-apart",
        "three half nodes are not three nodes",
        (asks("a", 2), asks("b", 3, YOUNG, shape=shape(1, 4), exclusive_replica_nodes=True)),
        (),
        {"a": 2},
        ("b",),
    ),
    Case(
        "granted-apart",
        "what was granted is on as many nodes as it runs on",
        (asks("a", 3, shape=shape(1, 4), exclusive_replica_nodes=True), asks("b", 2, YOUNG)),
        (grant("a", share(3, gpus=4)),),
        {"a": 3},
        ("b",),
    ),
    Case(
        "older-first",
        "of two that were not admitted the older one is",
        (asks("young", 3, YOUNG), asks("old", 3, OLD)),
        (),
        {"old": 3},
        ("young",),
    ),
    Case(
        "admitted-stays",
        "what was granted is not taken back for an older one that would now fit",
        (asks("young", 3, YOUNG), asks("old", 3, OLD)),
        (grant("young", share(3)),),
        {"young": 3},
        ("old",),
    ),
    Case(
        "begun-before-older",
        "what was composed was admitted once, whatever became of the status that said so",
        (asks("young", 3, YOUNG, weights=WeightsRecord(uri="pvc://x")), asks("old", 3, OLD)),
        (),
        {"young": 3},
        ("old",),
    ),
    Case(
        "objects-before-older",
        "what has Objects was admitted once, though its status was lost, and takes no more than there is",
        (asks("young", 3, YOUNG, lists_objects=True), asks("old", 3, OLD), asks("serves", 1, has_served=True)),
        (),
        {"young": 3, "serves": 1},
        ("old",),
    ),
    Case(
        "objects-take-nothing",
        "its author can write the list of its Objects: what others have is theirs",
        (asks("young", 3, YOUNG, lists_objects=True), asks("old", 3, OLD)),
        (grant("old", share(3)),),
        {"old": 3},
        ("young",),
    ),
    Case(
        "served-beyond",
        "it runs, with or without a grant, and beyond what there is",
        (asks("a", 3, has_served=True), asks("b", 3, has_served=True)),
        (),
        {"a": 3, "b": 3},
    ),
    Case(
        "no-more-than-granted",
        "a grant is for so many replicas, also of what served",
        (asks("a", 3, has_served=True, service=ServiceRecord(allocated=share(2))), asks("b", 2)),
        (grant("a", share(2)), grant("b", share(2))),
        {"a": 2, "b": 2},
        ("a",),
    ),
    Case(
        "grows",
        "where there is room a grant grows",
        (asks("a", 3, has_served=True, service=ServiceRecord(allocated=share(2))),),
        (grant("a", share(2)),),
        {"a": 3},
    ),
    Case(
        "grown-is-charged-once",
        "what it holds now takes the place of what it held, so that who is next has his turn",
        (asks("a", 2), asks("b", 2, "2026-01-02"), asks("c", 1, YOUNG)),
        (grant("a", share(1)),),
        {"a": 2, "b": 2},
        ("c",),
    ),
    Case(
        "largest-first",
        "5 + 3 GPUs fit a node, 5 + 5 do not, and 3 + 3 on one leave room for neither",
        (asks("e", 2),),
        tuple(grant(uid, share(gpus=gpus)) for uid, gpus in (("a", 3), ("b", 3), ("c", 5), ("d", 5))),
        {"a": 1, "b": 1, "c": 1, "d": 1, "e": 2},
    ),
    Case(
        "most-nodes-first",
        "halves of two nodes leave the other halves to those that want one, not the other way round",
        (asks("e", 2),),
        tuple(grant(uid, share(nodes=nodes, gpus=4)) for uid, nodes in (("a", 1), ("b", 1), ("c", 2))),
        {"a": 1, "b": 1, "c": 2, "e": 2},
    ),
    Case(
        "shrinks-when-it-has-let-go",
        "less is asked for, and the service still has three",
        (asks("a", 1, has_served=True, service=ServiceRecord(allocated=share(3))), asks("b", 2)),
        (grant("a", share(3)),),
        {"a": 3},
        ("b",),
    ),
    Case(
        "has-let-go",
        "the service has one left, so two are free",
        (asks("a", 1, has_served=True, service=ServiceRecord(allocated=share(1))), asks("b", 2)),
        (grant("a", share(3)),),
        {"a": 1, "b": 2},
    ),
    Case(
        "other-pool",
        "it holds its nodes here until its service is there",
        (asks("a", 3, pool="other", has_served=True, service=ServiceRecord(allocated=share(3))), asks("b", 2)),
        (grant("a", share(3)),),
        {"a": 3},
        ("b",),
    ),
    Case(
        "gave-it-up",
        "it asks for another pool and nothing of it is here",
        (asks("a", 3, pool="other"), asks("b", 2)),
        (grant("a", share(3)),),
        {"b": 2},
    ),
    Case(
        "other-shape",
        "four nodes do not hold both shapes beside another's; its own old one counts until it has gone",
        (asks("a", 1, shape=TWO, has_served=True, service=ServiceRecord(allocated=share(2))), asks("b", 1)),
        (grant("a", share(2)),),
        {"a": 2},
        ("b",),
    ),
    Case(
        "unseen",
        "who holds a grant and is not in the list keeps it",
        (asks("b", 2),),
        (grant("a", share(3)),),
        {"a": 3},
        ("b",),
    ),
    Case(
        "unreadable",
        "so does one whose topology cannot be read",
        (asks("a", shape=None),),
        (grant("a", share(3)),),
        {"a": 3},
    ),
    Case("no-replicas", "it holds nothing", (asks("a", 0), asks("b", 4)), (), {"b": 4}),
    Case("too-large-for-ever", "72 GPUs of 32 are never admitted", (asks("a", 9),), (), {}, ("a",)),
    Case(
        "overcommitted",
        "a pool that holds more than fits has nothing left",
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
    """Two nodes of one replica replace two replicas of one: until the old ones are gone no other gets either."""
    moving = asks("a", 1, shape=TWO, has_served=True, service=ServiceRecord(allocated=share(2)))
    found = allocate_pool(FOUR, (moving,), (grant("a", share(2)),))
    assert [g.share for g in found.grants] == [share(2), share(1, nodes=2)]
    assert found.capacity.free.get(8) == 0, "four of four"
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


# The oldest takes a node, the next two halves: room for the last there is only where all of them are packed again.
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
    assert again.grants == found.grants, "nothing moves without a change"
    assert [p.uid for p in again.rejected] == [p.uid for p in found.rejected]
    assert again.capacity == found.capacity


@given(rows=WORLDS, of=st.sampled_from((FOUR, OWN_NETWORK, OWN_DEVICES)))
def test_new_grants_fit(rows: list[tuple[int, int, int, bool, bool, int]], of: Pool) -> None:
    """GPUs of what neither served nor was granted before are within what the others leave."""
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
    """Returns the GPUs beside those of a share that are free."""
    whole = of is OWN_NETWORK or (of is OWN_DEVICES and share.nodes > 1)
    return (8 - share.gpus_per_node) * share.nodes * share.replicas if whole else 0


def test_grants_no_more_than_the_bound() -> None:
    found = allocate_pool(FOUR, (asks("a"), asks("b"), asks("c")), (grant("a", share()),), 2)
    assert held(found) == {"a": 1, "b": 1}
    assert [p.uid for p in found.rejected] == ["c"]
    grown = allocate_pool(FOUR, (asks("a", 2), asks("b")), (grant("a", share()), grant("b", share())), 2)
    assert held(grown) == {"a": 2, "b": 1}, "who is there may grow"
    beside = allocate_pool(FOUR, (asks("a", 2), asks("b", 1, YOUNG)), (grant("a", share()),), 2)
    assert held(beside) == {"a": 2, "b": 1}, "and takes no second row"


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
    Lost("room", "three of four nodes for what is new", 3, (asks("a", 3),), (), {"a": 3}, (), 0),
    Lost("no-room", "not four", 3, (asks("a", 4),), (), {}, ("a",), 3),
    Lost("admitted", "an admission outlives its nodes", 0, (asks("a", 2),), (grant("a", share(2)),), {"a": 2}, (), 0),
    Lost("served", "so does what serves", 0, (asks("a", 2, has_served=True),), (), {"a": 2}, (), 0),
    Lost("beside", "what stays is charged first", 3, (asks("a", 2), asks("b", 2, YOUNG)), (grant("a", share(2)),),
         {"a": 2}, ("b",), 1),
    Lost("over", "nothing is left beside what holds more than can be used", 1, (asks("a", 2), asks("b", 1, YOUNG)),
         (grant("a", share(2)),), {"a": 2}, ("b",), 0),
    Lost("growth", "who was admitted for one grows on usable nodes only", 1, (asks("a", 2),), (grant("a", share(1)),),
         {"a": 1}, ("a",), 0),
    Lost("shrink", "who asks for less gets it", 0, (asks("a", 1),), (grant("a", share(2)),), {"a": 1}, (), 0),
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
        ((share(2),), 2, "a whole node each"),
        ((share(), share()), 2, "of all that are there"),
        ((share(3, gpus=4),), 2, "two on a node"),
        ((share(5, gpus=3),), 3, "two on a node, whatever is left of it"),
        ((share(9),), 4, "no more than there are"),
    ],
)
def test_counts_nodes_in_use_among_unusable_ones(shares: tuple[Share, ...], want: int, reason: str) -> None:
    pool = replace(FOUR, facts=PoolFacts(nodes=4, usable=0))
    found = allocate_pool(pool, (), [grant(str(number), each) for number, each in enumerate(shares)])
    assert found.capacity.nodes_in_use == want, reason


def test_charges_exclusive_replicas_before_packing_nodes() -> None:
    """Both fit, a GPU pair and four GPUs on each of two nodes; packed first, the fours would leave one node alone."""
    spread, packed = (
        asks("a", 2, shape=shape(1, 2), exclusive_replica_nodes=True),
        asks("b", 2, YOUNG, shape=shape(1, 4)),
    )
    found = allocate_pool(pool("pool", gpus=8, nodes=2), (spread, packed))
    assert held(found) == {"a": 2, "b": 2}
    assert {level: nodes for level, nodes in found.capacity.free.items() if nodes} == {2: 2}
