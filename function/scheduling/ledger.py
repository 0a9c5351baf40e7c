"""Nodes in use by environment and pool: every other placement is charged by its spec, visible at once.

Everybody charges in one order that all compute alike from what all see: those that ever served first, then
by creation, then uid, then name. A served placement is charged even beyond what its pool holds: it runs.
One that never served and does not fit in its turn is not charged to those after it: its own deployment sees
the same and lets it yield. A placement that is being deleted still holds its nodes. A pool whose nodes
shrank below a replica's GPUs is taken in whole nodes.
"""

from collections import defaultdict
from collections.abc import Iterable

from function.domain.environment import Environment, Pool
from function.domain.placement import Placement
from function.scheduling.pool_capacity import PoolCapacity
from function.scheduling.verdicts import Use


def has_served(placement: Placement) -> bool:
    """Tell whether it ever was Ready; `served` is latched a moment after `ready`."""
    return placement.served or placement.ready


def charge_order(placement: Placement) -> tuple[bool, str, str, str, str]:
    """Sorts placements into the order in which they are charged."""
    return (not has_served(placement), placement.created, placement.uid, placement.namespace, placement.name)


class Ledger:
    """What everybody but one deployment takes; a pool is counted when it is asked for first."""

    __slots__ = ("_by_pool", "_rooms")

    def __init__(self, others: Iterable[Placement]) -> None:
        self._by_pool: dict[tuple[str, str], list[Placement]] = defaultdict(list)
        self._rooms: dict[tuple[str, str], PoolCapacity] = {}
        for placement in others:
            self._by_pool[placement.environment, placement.pool].append(placement)

    def room(self, environment: str, pool: Pool) -> PoolCapacity:
        """Return what the others leave of a pool; not to be changed."""
        key = (environment, pool.name)
        if key not in self._rooms:
            self._rooms[key] = room = _empty(pool)
            for placement in sorted(self._by_pool.get(key, ()), key=charge_order):
                charge(room, placement)
        return self._rooms[key]

    def charged(self, environment: Environment) -> tuple[Placement, ...]:
        """Return the placements on an environment's pools; the same objects are in one order, whatever theirs was."""
        found = [p for pool in environment.pools for p in self._by_pool.get((environment.name, pool.name), ())]
        return tuple(sorted(found, key=id))

    def keeps(self, pool: Pool, placement: Placement) -> bool:
        """Tell whether a placement on this pool fits in its turn, or has served and thus stays."""
        if has_served(placement):
            return True
        room, turn = _empty(pool), charge_order(placement)
        others = self._by_pool.get((placement.environment, pool.name), ())
        for other in sorted((p for p in others if charge_order(p) < turn), key=charge_order):
            charge(room, other)
        return charge(room, placement)


def use(room: PoolCapacity) -> Use:
    """Return how full a pool is."""
    return Use(nodes=room.nodes, nodes_in_use=room.nodes_in_use, placements=room.placements)


def _empty(pool: Pool) -> PoolCapacity:
    return PoolCapacity(pool.max_nodes, pool.gpus_per_node)


def charge(room: PoolCapacity, placement: Placement) -> bool:
    """Take a placement's room in its turn; False where it yields."""
    shape, replicas = placement.shape, placement.replicas
    if shape is None or replicas <= 0:
        return True
    gpus = min(shape.gpus_per_node, room.gpus_per_node)
    if not has_served(placement) and room.fits(shape.nodes, gpus, replicas) < replicas:
        return False
    room.take(shape.nodes, gpus, replicas)
    room.placements += 1
    return True
