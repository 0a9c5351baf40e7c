"""How much room one pool has: nodes counted by their free GPUs, so that no cost depends on their number.

A replica takes `gpus` on each of `nodes` distinct nodes, so no node ever carries two pods of one replica
and none more pods than there are replicas. Nothing else binds: pods that keep to this can always be dealt
out to replicas in turn. They go to the fullest node that still has room (best fit), which keeps whole nodes
whole for those who need them.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from function.domain.model import Shape


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
