"""How much room one pool has: nodes counted by their free GPUs, so that no cost depends on their number.

A replica takes `gpus` on each of `nodes` distinct nodes, so no node ever carries two pods of one replica
and none more pods than there are replicas. Nothing else binds: pods that keep to this can always be dealt
out to replicas in turn. They go to the fullest node that still has room (best fit), which keeps whole nodes
whole for those who need them.

What is held of one pool, and what that leaves: grants are counted by size, and what is alike is charged at once.

The shape of one replica on one pool: declared by the profile, or computed from GPU memory.

VRAM maths: GPUs = vram over the memory of one GPU, rounded up. Where they fit one node, the next power of
two (engines split attention heads evenly), or the whole node where that is more than it has. Where they do
not, whole nodes: tensor parallel within a node, pipeline parallel across nodes.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from function.domain.allocation import Grant, Share
from function.domain.environment import Pool
from function.domain.model import Parallelism, Profile, Shape


@dataclass(frozen=True, slots=True)
class Demand:
    """So many replicas of a shape; `apart`: no two replicas share a node."""

    shape: Shape
    replicas: int
    exclusive_replica_nodes: bool = False


@dataclass(slots=True)
class PoolCapacity:
    """Equal nodes, counted in `free` by their free GPUs.

    `lost`: how many of them cannot be used and count as none; `beyond`: how many are in use and were not there to take.
    `whole`: whether each pod has its node to itself, of a replica of one node and of one of several.
    """

    nodes: int
    gpus_per_node: int
    placements: int = 0
    unusable_nodes: int = 0
    overcommitted_nodes: int = 0
    exclusive_nodes: tuple[bool, bool] = (False, False)
    free: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free[self.gpus_per_node] = self.nodes - self.unusable_nodes

    @property
    def nodes_in_use(self) -> int:
        """Nodes with at least one GPU taken, of all that are declared."""
        return min(
            self.nodes,
            self.nodes - self.unusable_nodes - self.free.get(self.gpus_per_node, 0) + self.overcommitted_nodes,
        )

    def charged(self, nodes: int, gpus: int) -> int:
        """Return the GPUs of a node that nobody else gets beside one pod of a replica."""
        return max(gpus, self.gpus_per_node) if self.exclusive_nodes[nodes > 1] else gpus

    def holds(self, demand: Demand) -> int:
        """Return how many of the replicas fit, without taking anything."""
        shape = demand.shape
        return self.fits(
            shape.nodes, shape.gpus_per_node, demand.replicas, 1 if demand.exclusive_replica_nodes else None
        )

    def fits(self, nodes: int, gpus: int, replicas: int, together: int | None = None) -> int:
        """Return how many replicas fit, on one node at most so many `together`; where some number does, every smaller
        one does.
        """
        most, gpus = together or replicas, self.charged(nodes, gpus)
        slots = [(min(level // gpus, most), count) for level, count in self.free.items() if level >= gpus]
        low, high, tried = 0, replicas, replicas
        while low < high:
            if sum([min(slot, tried) * count for slot, count in slots]) >= nodes * tried:
                low = tried
            else:
                high = tried - 1
            tried = (low + high + 1) // 2
        return low

    def take(self, nodes: int, gpus: int, replicas: int, together: int | None = None) -> int:
        """Take room for the replicas, or as far as it goes; return the pods for which there is none. `together` as for
        `fits`.
        """
        pods, gpus = nodes * replicas, self.charged(nodes, gpus)
        # From the fullest up: what moves lands on a level that was passed already.
        for level in sorted([level for level in self.free if level >= gpus]):
            each = min(level // gpus, together or replicas)
            full = min(self.free[level], pods // each)
            rest = pods - full * each if full < self.free[level] else 0
            self.move(level, each * gpus, full)
            self.move(level, rest * gpus, 1)
            pods -= full * each + rest
            if not pods:
                break
        return pods

    def packed(self, demand: Demand) -> int:
        """Return how many GPUs stay free on the fullest node that a demand which fits would use."""
        nodes, gpus = demand.shape.nodes, self.charged(demand.shape.nodes, demand.shape.gpus_per_node)
        if not demand.replicas:
            return 0
        if demand.exclusive_replica_nodes:
            return min(level for level, count in self.free.items() if count and level >= gpus) - gpus
        after = PoolCapacity(self.nodes, self.gpus_per_node)
        after.free = {**self.free}
        after.take(nodes, gpus, demand.replicas)
        # Nodes that come to rest on the lowest of levels are not taken from again: it has more of them than before.
        return min(level for level, count in after.free.items() if count > self.free.get(level, 0))

    def move(self, level: int, by: int, count: int) -> None:
        """Take so many GPUs on each of some nodes that have `level` free: the one place where room changes."""
        self.free[level] -= count
        self.free[level - by] = self.free.get(level - by, 0) + count


@lru_cache(maxsize=256)  # hundreds of environments have pools of one kind
def empty_holds(nodes: int, gpus_per_node: int, demand: Demand, whole: tuple[bool, bool] = (False, False)) -> int:
    """Return how many of the replicas would fit were nobody there."""
    return PoolCapacity(nodes, gpus_per_node, exclusive_nodes=whole).holds(demand)


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


def replica_shape(profile: Profile, vram: int | None, pool: Pool) -> Shape | None:
    """Return the shape of one replica; None where it must be computed and pool or model do not say enough."""
    if profile.shape is not None:
        return profile.shape
    if not vram or not pool.memory_per_gpu:
        return None
    return _computed(-(-vram // pool.memory_per_gpu), pool.gpus_per_node)


@lru_cache(maxsize=256)  # hundreds of environments have pools of one kind
def _computed(gpus: int, per_node: int) -> Shape:
    if gpus > per_node:
        nodes = -(-gpus // per_node)
        return Shape(nodes=nodes, gpus_per_node=per_node, parallelism=Parallelism(tensor=per_node, pipeline=nodes))
    rounded = min(1 << (gpus - 1).bit_length(), per_node)
    return Shape(nodes=1, gpus_per_node=rounded, parallelism=Parallelism(tensor=rounded))
