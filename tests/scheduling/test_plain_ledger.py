"""The ledger equals one that charges every grant one by one, for every placement from the start."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from function.domain.allocation import Grant, Share
from function.domain.environment import Pool
from function.domain.placement import Placement
from function.domain.pods import InterNode, PodAdditions
from function.scheduling.capacity import PoolCapacity
from function.scheduling.ledger import allocate_pool, charge_order, remaining_grant
from tests.support.builders import placement, pool, shape

FIVE = pool("pool", gpus=8, nodes=5)
POOLS = (FIVE, replace(FIVE, pod=PodAdditions(host_network=True)), replace(FIVE, inter_node=InterNode(whole_node=True)))


def charge_one_by_one(of: Pool, grants: Iterable[Grant]) -> PoolCapacity:
    """Return what is left of a pool after every grant was charged by itself, the hardest first."""
    room = PoolCapacity(of.max_nodes, 8, exclusive_nodes=(of.needs_exclusive_node(1, 0), of.needs_exclusive_node(2, 0)))
    shares = [grant.share for grant in grants if grant.share.replicas > 0]
    for s in sorted(
        shares,
        key=lambda s: (
            not s.exclusive_replica_nodes,
            -room.count_charged_gpus(s.nodes, s.gpus_per_node),
            -s.nodes,
            -s.replicas,
        ),
    ):
        if room.take(s.nodes, s.gpus_per_node, s.replicas, exclusive=s.exclusive_replica_nodes):
            room.free.clear()
        room.placements += 1
    return room


Held = dict[str, list[Grant]]


def settle_plainly(of: Pool, placements: Iterable[Placement], granted: Iterable[Grant]) -> tuple[Held, list[Placement]]:
    """Return who holds what, and who has no room for more."""
    known = {p.uid: p for p in sorted(placements, key=charge_order)}
    grants = list(granted)
    while True:
        held: Held = {uid: [] for uid in known}
        for grant in grants:
            if found := remaining_grant(grant, known[grant.uid]):
                held[grant.uid].append(found)
        for p in known.values():
            if p.allocated and not any(g.share.is_like(p.allocated) for g in held[p.uid]):
                held[p.uid].append(_grant(p, p.allocated))
        before = [g for each in held.values() for g in each]
        waits = [
            p for p in known.values() if p.requested and p.requested.replicas and not _granted(of, p, p.requested, held)
        ]
        grants = [g for each in held.values() for g in each]
        if grants == before:
            return held, waits


def _grant(p: Placement, share: Share) -> Grant:
    return Grant(uid=p.uid, namespace=p.namespace, name=p.name, share=share)


def _granted(of: Pool, p: Placement, asks: Share, held: Held) -> bool:
    """Grant what one asks for, if it fits beside all that others hold; tell whether it has it."""
    if any(g.share.is_like(asks) and g.share.replicas >= asks.replicas for g in held[p.uid]):
        return True
    room = charge_one_by_one(of, [g for uid, each in held.items() if uid != p.uid for g in each])
    if (
        room.count_fitting_replicas(
            asks.nodes, asks.gpus_per_node, asks.replicas, exclusive=asks.exclusive_replica_nodes
        )
        < asks.replicas
    ):
        return False
    held[p.uid] = [*(g for g in held[p.uid] if not g.share.is_like(asks)), _grant(p, asks)]
    return True


SHAPES = (shape(1, 1), shape(1, 3), shape(1, 4), shape(1, 8), shape(2, 2), shape(2, 8), shape(3, 4))
WORLDS = st.lists(
    st.tuples(
        st.integers(0, 5),  # replicas
        st.sampled_from(SHAPES),
        st.integers(0, 3),  # fewer that it has
        st.sampled_from(("waits", "granted", "serves", "serves another shape")),
        st.booleans(),  # apart
        st.integers(1, 9),  # day
    ),
    max_size=9,
)


@given(rows=WORLDS, of=st.sampled_from(POOLS))
def test_charging_at_once_equals_charging_one_by_one(
    rows: list[tuple[int, object, int, str, bool, int]], of: Pool
) -> None:
    placements, grants = list[Placement](), list[Grant]()
    for number, (replicas, wide, fewer, state, apart, day) in enumerate(rows):
        made = placement(uid=str(number), shape=wide, replicas=replicas, created=f"2026-01-0{day}")  # type: ignore[arg-type]  # a shape
        made = replace(made, exclusive_replica_nodes=apart)
        assert made.requested is not None
        has = replace(made.requested, replicas=max(1, replicas - fewer))
        if state == "serves another shape":
            has = Share(pool="pool", nodes=1, gpus_per_node=5, replicas=has.replicas, exclusive_replica_nodes=apart)
        if state.startswith("serves"):
            made = replace(made, was_ready=True, allocated=has)
        if state != "waits":
            grants.append(Grant(uid=made.uid, namespace=made.namespace, name=made.name, share=has))
        placements.append(made)
    found, (held, waits) = allocate_pool(of, placements, grants), settle_plainly(of, placements, grants)
    every = [g for each in held.values() for g in each]
    assert set(found.grants) == set(every)
    assert [p.uid for p in found.rejected] == [p.uid for p in waits]
    room = charge_one_by_one(of, every)
    assert _left(found.room) == _left(room)
    assert found.room.placements == room.placements


def _left(room: PoolCapacity) -> dict[int, int]:
    return {gpus: nodes for gpus, nodes in room.free.items() if nodes}
