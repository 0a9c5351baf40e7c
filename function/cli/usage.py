"""Who uses each pool, what is free, and the largest replica that still fits, by the scheduler's ledger."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from function.cli.inputs import InvalidPool
from function.domain.environment import Environment, Pool
from function.domain.placement import Placement
from function.domain.shares import Grant
from function.scheduling.ledger import allocate_pool
from function.scheduling.pool_capacity import PoolCapacity
from function.status.hardware import unusable
from function.status.sentences import replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One pool with who is charged in it; no pool: it is `invalid`, or the environment has none at all."""

    environment: Environment
    pool: Pool | None = None
    invalid: InvalidPool | None = None
    room: PoolCapacity | None = None
    users: tuple[Placement, ...] = ()
    grants: tuple[Grant, ...] = ()

    @property
    def gpus(self) -> int:
        """All GPUs, were every node there."""
        return self.pool.max_nodes * self.pool.gpus_per_node if self.pool else 0

    @property
    def usable(self) -> str:
        """How many nodes can be used, and why not all; empty where nobody looks."""
        if self.pool is None or self.pool.facts is None:
            return ""
        why = unusable(self.pool.facts.unusable)
        return f"{self.pool.usable_nodes} ({why})" if why else str(self.pool.usable_nodes)

    @property
    def used(self) -> int:
        """GPUs that are charged for."""
        lost = self.room.unusable_nodes * self.room.gpus_per_node if self.room else 0
        return self.gpus - self.free - lost

    @property
    def free(self) -> int:
        """GPUs that nobody is charged for."""
        return sum(level * nodes for level, nodes in self.room.free.items()) if self.room else 0

    @property
    def largest(self) -> str:
        """The largest replica that still fits: so many GPUs on each of so many nodes."""
        shapes = self._list_shapes()
        nodes, gpus = max(shapes, key=lambda s: (s[0] * s[1], s[1]), default=(0, 0))
        return replica(nodes, gpus) if gpus and nodes else "none"

    @property
    def largest_gpus(self) -> int:
        """GPUs of the largest replica that still fits."""
        return max((nodes * gpus for nodes, gpus in self._list_shapes()), default=0)

    def _list_shapes(self) -> list[tuple[int, int]]:
        if self.pool is None or self.room is None:
            return []
        levels = [level for level, nodes in self.room.free.items() if level and nodes]
        wide = {level: self.pool.multi_node and not self.pool.needs_exclusive_node(2, level) for level in levels}
        free = self.room.free.items()
        return [(sum(n for at, n in free if at >= level) if wide[level] else 1, level) for level in levels]


def by_accelerator(usages: Iterable[Usage]) -> list[tuple[str, list[Usage]]]:
    """Return the pools that can be read, by their type of accelerator in alphabetical order."""
    typed = [(usage.pool.accelerator_type, usage) for usage in usages if usage.pool]
    return [(kind, [usage for at, usage in typed if at == kind]) for kind in sorted({kind for kind, _ in typed})]


def list_usages(
    environments: Iterable[Environment], placements: Iterable[Placement], invalid: Sequence[InvalidPool]
) -> list[Usage]:
    """Return every pool with what is charged in it, in the order in which all deployments charge."""
    every, found = list(placements), list[Usage]()
    for environment in environments:
        here = [p for p in every if p.environment == environment.name]
        for pool in environment.pools:
            ledger = allocate_pool(pool, here, environment.admitted, pools=environment.pools)
            holders = {(g.namespace, g.name) for g in ledger.grants if g.share.replicas}
            users = tuple(p for p in here if (p.namespace, p.name) in holders)
            found.append(Usage(environment=environment, pool=pool, room=ledger.room, users=users, grants=ledger.grants))
        others = [Usage(environment=environment, invalid=p) for p in invalid if p.environment is environment]
        found += others if others or environment.pools else [Usage(environment=environment)]
    return found


def format_users(users: tuple[Placement, ...], shown: int | None = None) -> str:
    """Return who has how many GPUs; `shown`: so many of them at most."""
    names = [f"{p.namespace}/{p.deployment or p.name} ({p.shape.gpus * p.replicas})" for p in users if p.shape]
    more = f" +{len(names) - shown} more" if shown and len(names) > shown else ""
    return ", ".join(names[:shown]) + more
