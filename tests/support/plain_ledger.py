"""A reference ledger that charges every grant one by one, to which tests compare the real ledger."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from function.capacity.ledger import allocate_pool, charge_order, remaining_grant
from function.capacity.pools import PoolCapacity
from function.domain.allocation import Grant, Share
from function.domain.environment import Pool
from function.domain.model import Shape
from function.domain.placement import Placement
from function.domain.pods import InterNode, PodAdditions
from tests.support.builders import placement, pool, shape, with_service

FIVE = pool("pool", gpus=8, nodes=5)
POOLS = (FIVE, replace(FIVE, pod=PodAdditions(host_network=True)), replace(FIVE, inter_node=InterNode(whole_node=True)))


def charge_one_by_one(of: Pool, grants: Iterable[Grant]) -> PoolCapacity:
    """Return what is left of a pool after every grant was charged by itself, the hardest first."""
    capacity = PoolCapacity(
        of.max_nodes, 8, exclusive_nodes=(of.needs_exclusive_node(1, 0), of.needs_exclusive_node(2, 0))
    )
    shares = [grant.share for grant in grants if grant.share.replicas > 0]
    for s in sorted(
        shares,
        key=lambda s: (
            not s.exclusive_replica_nodes,
            -capacity.count_charged_gpus(s.nodes, s.gpus_per_node),
            -s.nodes,
            -s.replicas,
        ),
    ):
        if capacity.take(s.nodes, s.gpus_per_node, s.replicas, exclusive=s.exclusive_replica_nodes):
            capacity.free.clear()
        capacity.placements += 1
    return capacity


Held = dict[str, list[Grant]]


def settle_plainly(of: Pool, placements: Iterable[Placement], granted: Iterable[Grant]) -> tuple[Held, list[Placement]]:
    """Return the grants, and the placements that have no room for more."""
    known = {p.uid: p for p in sorted(placements, key=charge_order)}
    grants = list(granted)
    while True:
        held: Held = {uid: [] for uid in known}
        for grant in grants:
            if found := remaining_grant(grant, known[grant.uid]):
                held[grant.uid].append(found)
        for p in known.values():
            if p.service.allocated and not any(
                g.share.has_same_pool_and_size(p.service.allocated) for g in held[p.uid]
            ):
                held[p.uid].append(_grant(p, p.service.allocated))
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
    """Grant what fits beside all other grants; return whether everything is granted.

    A placement without replicas of this size gets all of them or none.
    """
    has = max((g.share.replicas for g in held[p.uid] if g.share.has_same_pool_and_size(asks)), default=0)
    if has >= asks.replicas:
        return True
    capacity = charge_one_by_one(of, [g for uid, each in held.items() if uid != p.uid for g in each])
    fitting = capacity.count_fitting_replicas(
        asks.nodes, asks.gpus_per_node, asks.replicas, exclusive=asks.exclusive_replica_nodes
    )
    if fitting < asks.replicas and not 0 < has < fitting:
        return False
    granted = _grant(p, replace(asks, replicas=fitting))
    held[p.uid] = [*(g for g in held[p.uid] if not g.share.has_same_pool_and_size(asks)), granted]
    return fitting == asks.replicas


SHAPES = (shape(1, 1), shape(1, 3), shape(1, 4), shape(1, 8), shape(2, 2), shape(2, 8), shape(3, 4))
STATES = ("waits", "granted", "serves", "serves another shape")
MAX_ROWS, MAX_REPLICAS, MAX_FEWER, DAYS = 9, 5, 3, 9


@dataclass(frozen=True)
class Row:
    """One placement of a random world."""

    replicas: int
    shape: Shape
    fewer: int = 0  # number of requested replicas that it does not have
    state: str = "waits"
    exclusive: bool = False
    day: int = 1  # environment on which it was created


def draw_rows(source: random.Random) -> list[Row]:
    """Returns the placements of a random world."""
    return [
        Row(
            replicas=source.randint(0, MAX_REPLICAS),
            shape=source.choice(SHAPES),
            fewer=source.randint(0, MAX_FEWER),
            state=source.choice(STATES),
            exclusive=source.random() < 0.5,
            day=source.randint(1, DAYS),
        )
        for _ in range(source.randint(0, MAX_ROWS))
    ]


def compare_with_plain_ledger(rows: Sequence[Row], of: Pool) -> None:
    """Asserts that both ledgers have the same grants, rejections and free GPUs."""
    placements, grants = list[Placement](), list[Grant]()
    for number, row in enumerate(rows):
        created = f"2026-01-0{row.day}"
        made = placement(uid=str(number), shape=row.shape, replicas=row.replicas, created=created)
        made = replace(made, exclusive_replica_nodes=row.exclusive)
        assert made.requested is not None
        has = replace(made.requested, replicas=max(1, row.replicas - row.fewer))
        if row.state == "serves another shape":
            has = Share(
                pool="pool", nodes=1, gpus_per_node=5, replicas=has.replicas, exclusive_replica_nodes=row.exclusive
            )
        if row.state.startswith("serves"):
            made = replace(with_service(made, allocated=has), has_served=True)
        if row.state != "waits":
            grants.append(Grant(uid=made.uid, namespace=made.namespace, name=made.name, share=has))
        placements.append(made)
    ledger = allocate_pool(of, placements, grants)
    held, waiting = settle_plainly(of, placements, grants)
    expected_grants = [grant for each in held.values() for grant in each]
    assert set(ledger.grants) == set(expected_grants)
    assert [p.uid for p in ledger.rejected] == [p.uid for p in waiting]
    capacity = charge_one_by_one(of, expected_grants)
    assert _list_free(ledger.capacity) == _list_free(capacity)
    assert ledger.capacity.placements == capacity.placements


def _list_free(capacity: PoolCapacity) -> dict[int, int]:
    return {gpus: nodes for gpus, nodes in capacity.free.items() if nodes}
