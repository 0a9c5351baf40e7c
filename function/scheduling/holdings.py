"""What is held of one pool, and what that leaves: grants are counted by size, and what is alike is charged at once."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from function.domain.environment import Pool
from function.domain.shares import Grant, Share
from function.scheduling.pool_capacity import PoolCapacity


class Holdings:
    """What is held of one pool: by holder, and counted by size, since what is alike is charged at once."""

    def __init__(self, pool: Pool) -> None:
        self._empty = empty_pool(pool)
        self._grants: dict[str, tuple[Grant, ...]] = {}
        self._sizes: Counter[_Size] = Counter()
        self._running = 0
        self.rows = 0

    def of(self, key: str) -> tuple[Grant, ...]:
        """Return what one holds."""
        return self._grants.get(key, ())

    def grants(self) -> list[Grant]:
        """Return what all hold."""
        return [grant for grants in self._grants.values() for grant in grants]

    def put(self, key: str, grants: Sequence[Grant]) -> None:
        """Record what one holds, in place of what it held."""
        for each, sign in ((self.of(key), -1), (grants, 1)):
            self.rows += sign * len(each)
            for grant in each:
                if size := _size_of(self._empty, grant.share):
                    self._running += sign
                    self._sizes[size.one] += sign * size.times
        self._grants[key] = tuple(grants)

    def room(self, key: str = "") -> PoolCapacity:
        """Return what all leave of the pool, or all but one."""
        sizes, mine = self._sizes.copy(), [_size_of(self._empty, grant.share) for grant in self.of(key)]
        for size in mine:
            if size:
                sizes[size.one] -= size.times
        running = self._running - sum(1 for size in mine if size)
        room = replace(self._empty, placements=running, free={})
        for one in sorted(one for one, times in sizes.items() if times):
            _take_size(room, _Times(one, sizes[one]))
        return room


class _Size(NamedTuple):
    """How much a share takes, sorted so that what is hardest to fit is charged first: what was granted one by one fits
    together.
    """

    together: bool
    charged: int  # less than nothing, as are the others: the largest come first
    nodes: int
    replicas: int


class _Times(NamedTuple):
    """A size, so many times."""

    one: _Size
    times: int


def _size_of(room: PoolCapacity, share: Share) -> _Times | None:
    """Return how much a share takes of a pool; None of no size, as a status may say anything.

    Replicas of which no node has two, and pods of one node each, fit the same way one by one as together.
    """
    gpus = min(share.gpus_per_node, room.gpus_per_node)
    if min(gpus, share.nodes, share.replicas) <= 0:
        return None
    charged = room.charged(share.nodes, gpus)
    alone = (share.nodes == 1 and not share.exclusive_replica_nodes) or room.gpus_per_node // charged == 1
    each, times = (1, share.replicas) if alone else (share.replicas, 1)
    return _Times(_Size(not share.exclusive_replica_nodes, -charged, -share.nodes, -each), times)


def empty_pool(pool: Pool) -> PoolCapacity:
    """Return a pool of which nothing is held: all nodes that can be used."""
    return PoolCapacity(
        pool.max_nodes,
        pool.gpus_per_node,
        unusable_nodes=pool.max_nodes - pool.usable_nodes,
        exclusive_nodes=exclusive_nodes(pool),
    )


def exclusive_nodes(pool: Pool) -> tuple[bool, bool]:
    """Return whether pods of a pool have their nodes to themselves, of replicas of one node and of several."""
    return pool.needs_exclusive_node(1, 0), pool.needs_exclusive_node(2, 0)


def take_share(room: PoolCapacity, share: Share) -> PoolCapacity:
    """Take a share, in place; where it does not fit whole nothing is left: nobody knows where the rest of it runs."""
    if size := _size_of(room, share):
        room.placements += 1
        _take_size(room, size)
    return room


def _take_size(room: PoolCapacity, size: _Times) -> None:
    together, charged, nodes, replicas = size.one.together, -size.one.charged, -size.one.nodes, -size.one.replicas
    fit, most = room.gpus_per_node // charged, replicas if together else 1
    # Where one may not fill a node, the next goes where this one has left room: they are taken one by one.
    at_once = size.times if fit <= most or (nodes == 1 and together) else 1
    for _ in range(size.times // at_once):
        lacking = room.take(nodes, charged, replicas * at_once, None if together else 1)
        if lacking:
            room.free.clear()
            room.overcommitted_nodes += math.ceil(lacking / (fit if together else 1))
