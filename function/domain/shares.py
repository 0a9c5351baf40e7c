"""Who holds how much of a pool: what an environment grants, and what it has left."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many replicas, each with `gpus_per_node` GPUs on each of `nodes` distinct nodes of one pool. `apart`: no two
    of them share a node. `labels`: those by which its pods select their nodes; None where that is not recorded, and in
    grants, which are for a pool by name.
    """

    pool: str
    nodes: int
    gpus_per_node: int
    replicas: int
    exclusive_replica_nodes: bool = False
    labels: tuple[tuple[str, str], ...] | None = None

    @property
    def max_replicas_per_node(self) -> int | None:
        """How many of the replicas one node may have, None for any number."""
        return 1 if self.exclusive_replica_nodes else None

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.nodes * self.gpus_per_node * self.replicas

    def is_like(self, other: "Share") -> bool:
        """Tell whether both are of one pool and one group, in whatever number and however spread."""
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
