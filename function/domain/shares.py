"""Who holds how much of a pool: what an environment grants, and what it has left."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many replicas, each with `gpus_per_node` GPUs on each of `nodes` distinct nodes of one pool."""

    pool: str
    nodes: int
    gpus_per_node: int
    replicas: int

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.nodes * self.gpus_per_node * self.replicas

    def is_like(self, other: "Share") -> bool:
        """Tell whether both are of one pool and one group, in whatever number."""
        return (self.pool, self.nodes, self.gpus_per_node) == (other.pool, other.nodes, other.gpus_per_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A placement that an environment has admitted, by uid, and for how much."""

    uid: str
    namespace: str
    name: str
    share: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """What an environment says is left of a pool: (free GPUs, nodes), and how many placements hold the rest."""

    placements: int
    nodes: tuple[tuple[int, int], ...]
