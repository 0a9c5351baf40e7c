"""Measures how long an environment computes its ledger: processor time of one `admit`, by pools and placements."""

import time
from dataclasses import replace

import click

from function.capacity.ledger import admit_placements
from function.domain.allocation import Grant, Share
from function.domain.environment import Environment, Pool
from function.domain.model import ModelRef, Parallelism, Shape
from function.domain.placement import Placement
from function.domain.records.service import ServiceRecord
from function.kube.names import LABEL_ENVIRONMENT

ROUNDS = 3
WHOLE, HALF, PAIR = (1, 8), (1, 4), (2, 8)  # nodes and GPUs on each
CASES = (
    ("800 that grow, one pool", 1, 800, (WHOLE,), 1, 4),
    ("4,000 that grow, one pool", 1, 4_000, (WHOLE,), 1, 4),
    ("4,000 at rest, 32 pools", 32, 4_000, (WHOLE, HALF, PAIR), 0, 4),
    ("4,000 that grow, 32 pools", 32, 4_000, (WHOLE, HALF, PAIR), 1, 4),
    ("4,000 that grow, no room", 32, 4_000, (WHOLE, HALF, PAIR), 1, 1),
    ("4,000 of unequal sizes that grow", 32, 4_000, tuple((1, gpus) for gpus in range(1, 9)), 1, 8),
)


def world(
    pools: int, count: int, shapes: tuple[tuple[int, int], ...], growth: int, nodes: int
) -> tuple[Environment, list[Placement]]:
    """Return an environment with so many placements that serve, and what it has admitted. Each asks for `growth` more
    replicas; `nodes` are those of a pool, for each placement on it.
    """
    names = [f"pool-{number:02}" for number in range(pools)]
    placements, grants = list[Placement](), list[Grant]()
    for number in range(count):
        wide, gpus = shapes[number // pools % len(shapes)]
        has = 1 + (number // pools // len(shapes) % 5 if len(shapes) > len(CASES) else 0)
        share = Share(pool=names[number % pools], nodes=wide, gpus_per_node=gpus, replicas=has)
        placement = Placement(
            namespace="team",
            name=f"placement-{number}",
            deployment=f"deployment-{number}",
            model=ModelRef(kind="ClusterModel", name="model"),
            environment="environment",
            profile="default",
            pool=share.pool,
            shape=Shape(nodes=wide, gpus_per_node=gpus, parallelism=Parallelism(tensor=gpus, pipeline=wide)),
            replicas=has + growth,
            uid=f"{number:08}",
            created="2026-01-01T00:00:00Z",
            has_served=True,
            service=ServiceRecord(allocated=share),
        )
        placements.append(placement)
        grants.append(Grant(uid=placement.uid, namespace="team", name=placement.name, share=share))
    size = nodes * count // pools
    there = [Pool(name=name, gpus_per_node=8, max_nodes=size, multi_node=True) for name in names]
    environment = Environment(name="environment", uid="environment", pools=tuple(there))
    return replace(environment, admitted=tuple(grants)), placements


def lending(count: int, claimants: int, *, preemptible: bool = False) -> tuple[Environment, list[Placement]]:
    """Return a full pool of so many placements, each of which has lent one of its two replicas, or may be preempted,
    and `claimants` that are guaranteed four nodes each.
    """
    environment, placements = world(1, count, (WHOLE,), 0, 2)
    guaranteed = None if preemptible else 1
    grants = [replace(grant, share=replace(grant.share, replicas=2)) for grant in environment.admitted]
    full = [
        replace(
            placement,
            replicas=2,
            guaranteed=guaranteed,
            preemptible=preemptible,
            service=ServiceRecord(allocated=grant.share),
        )
        for placement, grant in zip(placements, grants, strict=True)
    ]
    asking = [
        replace(full[0], name=f"asks-{n}", deployment=f"asks-{n}", uid=f"asks-{n:04}", replicas=4, guaranteed=None)
        for n in range(claimants)
    ]
    labels = ((LABEL_ENVIRONMENT, environment.name),)
    new = [replace(p, labels=labels, priority=1, has_served=False, service=ServiceRecord()) for p in asking]
    return replace(environment, admitted=tuple(grants)), [*full, *new]


def main() -> None:
    """Measure and print."""
    for name, (environment, placements) in (
        ("1,000 that lend, 1 asks", lending(1_000, 1)),
        ("1,000 that lend, 100 ask", lending(1_000, 100)),
        ("1,000 that can be preempted, 100 ask", lending(1_000, 100, preemptible=True)),
    ):
        before = time.process_time()
        found = admit_placements(environment, placements)
        taken_back = sum(g.share.replicas - g.yields.keep for g in found.grants if g.yields)
        seconds = time.process_time() - before
        click.echo(f"{name:<36}{seconds:7.3f} s of processor, {taken_back} replicas are taken back")
    for name, pools, count, shapes, growth, nodes in CASES:
        environment, placements = world(pools, count, shapes, growth, nodes)
        taken = []
        for _ in range(ROUNDS):
            before = time.process_time()
            found = admit_placements(environment, placements)
            taken.append(time.process_time() - before)
        waits = sum(len(ledger.rejected) for ledger in found.pools.values())
        click.echo(f"{name:<36}{min(taken):7.3f} s of processor, {len(found.grants)} admitted, {waits} wait for more")


if __name__ == "__main__":
    main()
