"""Capacity of one pool: the shape of a replica, what is allocated, and how many replicas fit.

Nodes are counted by their free GPUs, so the cost of a computation does not depend on the number of nodes. A replica
takes `gpus` on each of `nodes` distinct nodes. A node therefore carries at most one pod of each replica, and at most as
many pods as there are replicas. This is the only constraint: pods that satisfy it can always be dealt out to replicas
in turn. Pods go to the fullest node that has room (best fit), which leaves whole nodes for replicas that need them.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from function.domain.allocation import Grant, Share
from function.domain.environment import Pool, Unusable
from function.domain.model import Parallelism, Profile, Shape


def compute_shape(profile: Profile, vram: int | None, pool: Pool) -> Shape | None:
    """Returns the shape of one replica on a pool: as declared or computed; None where too little is declared."""
    if profile.shape is not None:
        return profile.shape
    if not vram or not pool.memory_per_gpu:
        return None
    return _shape_for_gpus(-(-vram // pool.memory_per_gpu), pool.gpus_per_node)


@lru_cache(maxsize=256)  # hundreds of environments have pools of one kind
def _shape_for_gpus(gpus: int, per_node: int) -> Shape:
    if gpus > per_node:  # whole nodes: tensor parallel within a node, pipeline parallel across nodes
        nodes = -(-gpus // per_node)
        return Shape(nodes=nodes, gpus_per_node=per_node, parallelism=Parallelism(tensor=per_node, pipeline=nodes))
    # Engines split attention heads evenly, so the number is rounded up to a power of two.
    rounded = min(1 << (gpus - 1).bit_length(), per_node)
    return Shape(nodes=1, gpus_per_node=rounded, parallelism=Parallelism(tensor=rounded))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUse:
    """How full a pool is without the deployment that the scheduler decides."""

    nodes: int  # declared
    nodes_in_use: int  # with at least one GPU taken
    placements: int
    unusable_nodes: int = 0  # of those declared
    unusable: tuple[Unusable, ...] = ()  # why, where that is known
    # GPUs that can be taken back from others, and the lowest priority that takes back any; None: there are none.
    lent: tuple[int, int] | None = None


@dataclass(slots=True)
class PoolCapacity:
    nodes: int  # declared
    gpus_per_node: int
    placements: int = 0
    unusable_nodes: int = 0
    overcommitted_nodes: int = 0  # nodes in use beyond the nodes that were free
    # Whether a pod needs a node to itself, in replicas of one node and in replicas of several.
    exclusive_nodes: tuple[bool, bool] = (False, False)
    free: dict[int, int] = field(default_factory=dict)  # number of nodes by their free GPUs

    def __post_init__(self) -> None:
        self.free[self.gpus_per_node] = self.nodes - self.unusable_nodes

    @property
    def nodes_in_use(self) -> int:
        """Declared nodes with at least one GPU taken."""
        unused = self.free.get(self.gpus_per_node, 0)
        return min(self.nodes, self.nodes - self.unusable_nodes - unused + self.overcommitted_nodes)

    def count_charged_gpus(self, nodes: int, gpus: int) -> int:
        """Returns the GPUs of a node that one pod makes unavailable to others."""
        return max(gpus, self.gpus_per_node) if self.exclusive_nodes[nodes > 1] else gpus

    def count_fitting(self, share: Share) -> int:
        exclusive = share.exclusive_replica_nodes
        return self.count_fitting_replicas(share.nodes, share.gpus_per_node, share.replicas, exclusive=exclusive)

    def count_fitting_replicas(self, nodes: int, gpus: int, replicas: int, *, exclusive: bool = False) -> int:
        """Returns how many replicas fit, exclusive ones on nodes of their own.

        If a number of replicas fits, every smaller number does, so the largest is found by bisection.
        """
        most = 1 if exclusive else replicas
        gpus = self.count_charged_gpus(nodes, gpus)
        slots = [(min(level // gpus, most), count) for level, count in self.free.items() if level >= gpus]
        low, high, tried = 0, replicas, replicas
        while low < high:
            if sum([min(slot, tried) * count for slot, count in slots]) >= nodes * tried:
                low = tried
            else:
                high = tried - 1
            tried = (low + high + 1) // 2
        return low

    def take(self, nodes: int, gpus: int, replicas: int, *, exclusive: bool = False) -> int:
        """Takes GPUs for the replicas as far as they fit; returns the number of pods that do not."""
        pods = nodes * replicas
        gpus = self.count_charged_gpus(nodes, gpus)
        # From the fullest node up: the rest of a node belongs to a level that was passed already.
        for level in sorted([level for level in self.free if level >= gpus]):
            each = min(level // gpus, 1 if exclusive else replicas)
            full = min(self.free[level], pods // each)
            rest = pods - full * each if full < self.free[level] else 0
            self.move(level, each * gpus, full)
            self.move(level, rest * gpus, 1)
            pods -= full * each + rest
            if not pods:
                break
        return pods

    def count_left_on_fullest(self, share: Share) -> int:
        """Returns how many GPUs stay free on the fullest node that a share would use; 0 if nothing of it fits."""
        if not share.replicas:
            return 0
        after = replace(self, free={})
        after.free = {**self.free}
        after.take(share.nodes, share.gpus_per_node, share.replicas, exclusive=share.exclusive_replica_nodes)
        # The lowest level that gained nodes is the fullest node this share would use.
        return min((level for level, count in after.free.items() if count > self.free.get(level, 0)), default=0)

    def measure_use(self, pool: Pool) -> PoolUse:
        return PoolUse(
            nodes=self.nodes,
            nodes_in_use=self.nodes_in_use,
            placements=self.placements,
            unusable_nodes=self.unusable_nodes,
            unusable=pool.facts.unusable if pool.facts else (),
        )

    def move(self, level: int, by: int, count: int) -> None:
        """Takes GPUs of `count` nodes with `level` free GPUs each: the one place where capacity changes."""
        self.free[level] -= count
        self.free[level - by] = self.free.get(level - by, 0) + count


def count_in_empty_pool(pool: Pool, share: Share) -> int:
    """Returns how many replicas of a share would fit an empty pool of which every node is usable."""
    return empty_pool(pool, pool.max_nodes).count_fitting(share)


def empty_pool(pool: Pool, usable_nodes: int | None = None) -> PoolCapacity:
    """Returns a pool without allocations, with the nodes that are usable now, or with another number of nodes."""
    return PoolCapacity(
        pool.max_nodes,
        pool.gpus_per_node,
        unusable_nodes=pool.max_nodes - (pool.usable_nodes if usable_nodes is None else usable_nodes),
        exclusive_nodes=(pool.needs_exclusive_node(1, 0), pool.needs_exclusive_node(2, 0)),
    )


class Holdings:
    """What is allocated of one pool, by placement and by size: equal shares are charged at once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._empty = empty_pool(pool)
        self._grants: dict[str, tuple[Grant, ...]] = {}
        self._sizes: Counter[_Size] = Counter()
        self._placements = 0
        self.rows = 0  # number of grants

    def copy(self) -> "Holdings":
        copied = Holdings(self._pool)
        for key, grants in self._grants.items():
            copied.replace(key, grants)
        return copied

    def grants_of(self, key: str) -> tuple[Grant, ...]:
        return self._grants.get(key, ())

    def all_grants(self) -> list[Grant]:
        return [grant for grants in self._grants.values() for grant in grants]

    def add(self, key: str, grant: Grant) -> None:
        self._count(grant, 1)
        self._grants[key] = (*self.grants_of(key), grant)

    def replace(self, key: str, grants: Iterable[Grant]) -> None:
        """Replaces the recorded grants of one placement."""
        for grant in self._grants.pop(key, ()):
            self._count(grant, -1)
        for grant in grants:
            self.add(key, grant)

    def _count(self, grant: Grant, sign: int) -> None:
        self.rows += sign
        if sized := _measure(self._empty, grant.share):
            self._placements += sign
            self._sizes[sized[0]] += sign * sized[1]

    def charges_last(self, share: Share) -> bool:
        """Tells whether no share that is held is charged after this one."""
        sized = _measure(self._empty, share)
        return sized is not None and all(sized[0] <= size for size, count in self._sizes.items() if count)

    def free_capacity(self, without: str = "") -> PoolCapacity:
        """Returns what is left of the pool; `without` is a placement whose grants do not count."""
        sizes = self._sizes.copy()
        placements = self._placements
        for grant in self.grants_of(without):
            if sized := _measure(self._empty, grant.share):
                placements -= 1
                sizes[sized[0]] -= sized[1]
        capacity = replace(self._empty, placements=placements, free={})
        for size in sorted((size for size, count in sizes.items() if count), reverse=True):
            _take_sized(capacity, size, sizes[size])
        return capacity


class _Size(NamedTuple):
    """The size of a share.

    The sizes that are hardest to fit compare as the largest and are charged first, so that shares that were granted one
    by one fit together.
    """

    exclusive: bool  # no two replicas share a node
    charged: int  # GPUs of a node that one pod makes unavailable to others
    nodes: int
    replicas: int


def _measure(capacity: PoolCapacity, share: Share) -> tuple[_Size, int] | None:
    """Returns the size of a share and how many of this size it takes; None for invalid values, which a status may hold.

    A share whose pods each need a whole node, or whose replicas have one pod each and may share nodes, fits one replica
    at a time as well as all at once.
    """
    gpus = min(share.gpus_per_node, capacity.gpus_per_node)
    if min(gpus, share.nodes, share.replicas) <= 0:
        return None
    charged = capacity.count_charged_gpus(share.nodes, gpus)
    exclusive = share.exclusive_replica_nodes
    one_by_one = (share.nodes == 1 and not exclusive) or capacity.gpus_per_node // charged == 1
    replicas, count = (1, share.replicas) if one_by_one else (share.replicas, 1)
    return _Size(exclusive, charged, share.nodes, replicas), count


def take_share(capacity: PoolCapacity, share: Share) -> PoolCapacity:
    """Takes a share in place. If it does not fit, nothing is left, because it is not known which nodes it uses."""
    if sized := _measure(capacity, share):
        capacity.placements += 1
        _take_sized(capacity, *sized)
    return capacity


def _take_sized(capacity: PoolCapacity, size: _Size, times: int) -> None:
    per_node = capacity.gpus_per_node // size.charged
    most = 1 if size.exclusive else size.replicas
    # If one share may not fill a node, the next share goes where this share has left room. They are taken one by one.
    at_once = times if per_node <= most or (size.nodes == 1 and not size.exclusive) else 1
    for _ in range(times // at_once):
        lacking = capacity.take(size.nodes, size.charged, size.replicas * at_once, exclusive=size.exclusive)
        if lacking:
            capacity.free.clear()
            capacity.overcommitted_nodes += math.ceil(lacking / (1 if size.exclusive else per_node))
