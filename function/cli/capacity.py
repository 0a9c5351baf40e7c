"""`capacity`: who uses each pool, what is free, and the largest replica that still fits, by the scheduler's ledger.

Where nodes are looked at, how many of those declared can be used, and why not all; `--suggest` writes the pools that
they would be declared as.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

from function.cli import nodes
from function.cli.asked import EVERY_FORM, Form, Sources
from function.cli.gathered import gather
from function.cli.invalid_objects import warn
from function.cli.invalid_pools import InvalidPool, invalid_pools
from function.cli.options import examples, form, sources
from function.cli.store import environments
from function.cli.tables import BAD, GOOD, hint, paint, structured, table
from function.domain.environment import Environment, Pool
from function.domain.placement import Placement
from function.kube.manifests import Manifest
from function.kube.quantity import gib
from function.parse.placements import read_placement
from function.report.hardware import observed, unusable
from function.report.sentences import replica
from function.scheduling.ledger import settle
from function.scheduling.pool_capacity import PoolCapacity

_KINDS = ("InferenceEnvironment", "ModelPlacement")
_USERS_SHOWN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One pool with who is charged in it; no pool: it is `invalid`, or the environment has none at all."""

    environment: Environment
    pool: Pool | None = None
    invalid: InvalidPool | None = None
    room: PoolCapacity | None = None
    users: tuple[Placement, ...] = ()

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
        lost = self.room.lost * self.room.gpus_per_node if self.room else 0
        return self.gpus - self.free - lost

    @property
    def free(self) -> int:
        """GPUs that nobody is charged for."""
        return sum(level * nodes for level, nodes in self.room.free.items()) if self.room else 0

    @property
    def largest(self) -> str:
        """The largest replica that still fits: so many GPUs on each of so many nodes."""
        shapes = self._shapes()
        nodes, gpus = max(shapes, key=lambda s: (s[0] * s[1], s[1]), default=(0, 0))
        return replica(nodes, gpus) if gpus and nodes else "none"

    @property
    def largest_gpus(self) -> int:
        """GPUs of the largest replica that still fits."""
        return max((nodes * gpus for nodes, gpus in self._shapes()), default=0)

    def _shapes(self) -> list[tuple[int, int]]:
        if self.pool is None or self.room is None:
            return []
        levels = [level for level, nodes in self.room.free.items() if level and nodes]
        spread = [(sum(n for at, n in self.room.free.items() if at >= level), level) for level in levels]
        return spread if self.pool.multi_node else [(min(nodes, 1), level) for nodes, level in spread]


@click.command(epilog=examples("modelplane capacity", "modelplane capacity -o wide", "modelplane capacity -f fleet/"))
@sources
@click.option(
    "--suggest", "suggesting", is_flag=True, help="Print the nodePools that the observed nodes would be declared as."
)
@form(*EVERY_FORM)
def capacity(*, sources: Sources, suggesting: bool, form: Form) -> None:
    """Show environments and pools: who uses them, what is free, and the largest replica that still fits."""
    store = gather(sources, (*_KINDS, "Object") if suggesting else _KINDS).store
    known = environments(store)
    if suggesting:
        click.echo(nodes.suggestion(store, known), nl=False)
        return
    parsed = (read_placement(manifest) for manifest in store.all("ModelPlacement"))
    invalid = invalid_pools(store, known)
    usages = use(known, [p.value for p in parsed if p.value], invalid)
    warn(store, _KINDS)
    match form:
        case Form.TABLE | Form.WIDE:
            click.echo(_table(usages, wide=form is Form.WIDE) if usages else "There is no InferenceEnvironment")
            if sum(usage.pool is not None for usage in usages) > 1:
                click.echo(f"\n{_totals(usages)}")
            hint(f"plan{sources.again or ' -f deployment.yaml --live'}")
        case Form.NAME:
            for environment in known:
                click.echo(f"inferenceenvironment.modelplane.ai/{environment.name}")
        case _:
            click.echo(structured(form, [_structured(usage) for usage in usages]))


def use(
    environments: Iterable[Environment], placements: Iterable[Placement], invalid: Sequence[InvalidPool]
) -> list[Usage]:
    """Return every pool with what is charged in it, in the order in which all deployments charge."""
    every, found = list(placements), list[Usage]()
    for environment in environments:
        here = [p for p in every if p.environment == environment.name]
        for pool in environment.pools:
            ledger = settle(pool, here, environment.admitted)
            holders = {(g.namespace, g.name) for g in ledger.grants if g.share.replicas}
            users = tuple(p for p in here if (p.namespace, p.name) in holders)
            found.append(Usage(environment=environment, pool=pool, room=ledger.room, users=users))
        others = [Usage(environment=environment, invalid=p) for p in invalid if p.environment is environment]
        found += others if others or environment.pools else [Usage(environment=environment)]
    return found


def _table(usages: list[Usage], *, wide: bool) -> str:
    headers = ["ENVIRONMENT", "READY", "POOL", "ACCELERATOR", "NODES", "GPUS", "FREE", "LARGEST", "USED BY"]
    looked = any(usage.usable for usage in usages)
    headers[5:5] = ["USABLE"] if looked else []
    if wide:
        headers[4:4] = ["MEMORY", "NETWORK", "MULTINODE"]
    return table(headers, (_cells(usage, wide=wide, looked=looked) for usage in usages))


def _totals(usages: Sequence[Usage]) -> str:
    """Return what there is of each accelerator on all clusters, and below it of all of them."""
    headers = ["ACCELERATOR", "ENVIRONMENTS", "POOLS", "NODES", "GPUS", "FREE", "LARGEST"]
    real = [usage for usage in usages if usage.pool]
    kinds = sorted({usage.pool.accelerator_type for usage in real if usage.pool})
    rows = [_total(kind, [u for u in real if u.pool and u.pool.accelerator_type == kind]) for kind in kinds]
    return table(headers, [*rows, _total("all", real)] if len(rows) > 1 else rows)


def _total(name: str, usages: Sequence[Usage]) -> list[object]:
    rooms = [usage.room for usage in usages if usage.room]
    total, free = sum(usage.gpus for usage in usages), sum(usage.free for usage in usages)
    largest = max(usages, key=lambda usage: usage.largest_gpus)
    return [
        name,
        len({usage.environment.name for usage in usages}),
        len(usages),
        f"{sum(room.nodes_in_use for room in rooms)}/{sum(room.nodes for room in rooms)}",
        f"{sum(usage.used for usage in usages)}/{total}",
        free,
        largest.largest,
    ]


def _cells(usage: Usage, *, wide: bool, looked: bool) -> list[object]:
    environment, pool, room = usage.environment, usage.pool, usage.room
    ready = paint("True", GOOD) if environment.ready else paint("False", BAD)
    if pool is None or room is None:
        which = f"invalid: {usage.invalid.name}" if usage.invalid else "none"
        return [environment.name, ready, which, *[""] * (6 + 3 * wide + looked)]
    memory = gib(pool.memory_per_gpu) if pool.memory_per_gpu else ""
    extra = [memory, pool.bandwidth or pool.interconnect, str(pool.multi_node).lower()] if wide else []
    return [
        environment.name,
        ready,
        pool.name,
        pool.accelerator_type,
        *extra,
        f"{room.nodes_in_use}/{room.nodes}",
        *([usage.usable] if looked else []),
        f"{usage.used}/{usage.gpus}",
        usage.free,
        usage.largest,
        _users(usage.users, None if wide else _USERS_SHOWN),
    ]


def _users(users: tuple[Placement, ...], shown: int | None) -> str:
    names = [f"{p.namespace}/{p.deployment or p.name} ({p.shape.gpus * p.replicas})" for p in users if p.shape]
    more = f" +{len(names) - shown} more" if shown and len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def _nodes(pool: Pool, room: PoolCapacity) -> Manifest:
    said: Manifest = {"total": room.nodes, "inUse": room.nodes_in_use}
    return said if pool.facts is None else {**said, "usable": pool.usable_nodes, "observed": observed(pool.facts)}


def _structured(usage: Usage) -> Manifest:
    environment, pool, room = usage.environment, usage.pool, usage.room
    return {
        "environment": environment.name,
        "ready": environment.ready,
        "pool": pool.name if pool else usage.invalid.name if usage.invalid else None,
        "faults": [str(fault) for fault in usage.invalid.faults] if usage.invalid else [],
        "acceleratorType": pool.accelerator_type if pool else None,
        "nodes": _nodes(pool, room) if pool and room else None,
        "gpus": {"total": usage.gpus, "inUse": usage.used, "free": usage.free},
        "largestReplica": usage.largest,
        "usedBy": [
            {
                "namespace": p.namespace,
                "deployment": p.deployment,
                "placement": p.name,
                "gpus": p.shape.gpus * p.replicas,
            }
            for p in usage.users
            if p.shape
        ],
    }
