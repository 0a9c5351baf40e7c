"""Who holds how much of a pool: what an environment grants, and what it has left.

How much the placements of one namespace may take, and what they take where that is too much.
"""

from dataclasses import dataclass, replace


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a platform allows each namespace; 0 is no limit."""

    placements: int = 0
    gpus: int = 0

    @property
    def any(self) -> bool:
        """Whether anything is limited."""
        return bool(self.placements or self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUsage:
    """Why there is no room in the quota of a namespace: the limits, what is taken, and by whom (name, GPUs), most
    first. `wanted`: GPUs beyond what it has.
    """

    namespace: str
    limits: Limits
    placements: int
    gpus: int
    wanted: int
    holders: tuple[tuple[str, int], ...]

    @property
    def exceeds_limit(self) -> bool:
        """Whether more is wanted than the namespace may ever take."""
        return bool(self.limits.gpus and self.wanted > self.limits.gpus)

    def of(self, gpus: int) -> "QuotaUsage | None":
        """Return why there is no room for one more placement, of so many GPUs, where there is none."""
        many = self.limits.placements and self.placements >= self.limits.placements
        if many or (self.limits.gpus and self.gpus + gpus > self.limits.gpus):
            return replace(self, wanted=gpus)
        return None

    def beside(self, name: str, gpus: int) -> "QuotaUsage":
        """Return what is taken beside one more."""
        holders = sorted((*self.holders, (name, gpus)), key=lambda holder: (-holder[1], holder[0]))
        return replace(self, placements=self.placements + 1, gpus=self.gpus + gpus, holders=tuple(holders))
