"""What a pool has left at rest beside what is held: granted to placements that exist, or run by their services.

A placement that only waits holds nothing, and neither does one that was granted something and can never start.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from bench.simulator.invariants import NODE_LABEL, Held, held_by
from bench.simulator.objects import Version
from function.api.inference_environment import name_provider_config
from function.capacity.pools import PoolCapacity
from function.domain.records.shares import parse_share
from function.kube.manifests import Manifest, condition, integer, listing, mapping, strings, text

Shape: TypeAlias = tuple[int, int]  # nodes of a replica, and GPUs on each


class Holding(NamedTuple):
    """So many replicas of a shape."""

    nodes: int
    gpus: int
    replicas: int


def room_beside(
    environment: Version,
    pool: Manifest,
    placements: Mapping[str, Version],
    services: Iterable[tuple[str, Held]],
    lost: int,
    most: Mapping[str, int] = MappingProxyType({}),
) -> PoolCapacity:
    """Returns what placements leave of a pool.

    `placements` are those that exist, by uid; `services` are what runs, each with the uid of its placement; `lost` is
    the number of nodes that cannot be used. `most`: how many replicas of a placement count at most, by uid.
    """
    room = PoolCapacity(integer(pool, "maxNodeCount"), integer(pool, "acceleratorCount"), unusable_nodes=lost)
    held = _held(environment, pool, placements, services)
    counted = (
        holding._replace(replicas=min(holding.replicas, most.get(uid, holding.replicas)))
        for uid, holdings in held.items()
        for holding in holdings
    )
    if not take_all(room, counted):
        room.free.clear()
    return room


def count_missing(deployment: Version, placements: Iterable[Version]) -> int | None:
    """Returns how many replicas of a deployment have no placement; None if each environment has its own number."""
    scaling = mapping(deployment.manifest, "spec.scaling")
    if text(scaling, "replicaScheduling") != "Divided":
        return None
    return integer(scaling, "fixed.replicas", 1) - sum(integer(p.manifest, "spec.replicas", 1) for p in placements)


def count_usable_environments(deployment: Version) -> int:
    """Returns the most environments that a deployment may use."""
    spec = mapping(deployment.manifest, "spec")
    return integer(spec, "environments", 100 if text(spec, "scaling.replicaScheduling") == "Divided" else 1)


def list_counted_pools(environment: Version) -> list[Manifest]:
    """Returns the declared pools that an environment counts; one with the nodes of a pool in use waits.

    PoolsValid names a pool in use in its reason only if nothing else is wrong with any pool.
    """
    pools = listing(environment.manifest, "spec.nodePools")
    if text(condition(environment.manifest, "PoolsValid"), "status") != "False":
        return pools
    counted = {text(row, "name") for row in listing(environment.manifest, "status.pools") if "free" in row}
    return [pool for pool in pools if text(pool, "name") in counted]


def has_refused_pool(placement: Version, environment: Version) -> bool:
    """Tells whether the pool of a placement is refused, as under another name: the placement stays as it is."""
    pools_valid = text(condition(environment.manifest, "PoolsValid"), "status")
    return (
        pools_valid == "False" and text(condition(placement.manifest, "ReferencesResolved"), "reason") == "PoolNotFound"
    )


def take_all(room: PoolCapacity, holdings: Iterable[Holding]) -> bool:
    """Takes what is held, the largest first, and tells whether there was room for all of it."""
    ordered = sorted((h for h in holdings if h.replicas), key=lambda h: (-h.gpus, -h.nodes))
    return not any(room.take(h.nodes, h.gpus, h.replicas) for h in ordered)


def _held(
    environment: Version, pool: Manifest, placements: Mapping[str, Version], services: Iterable[tuple[str, Held]]
) -> dict[str, list[Holding]]:
    """Returns what each placement holds of a pool, by uid.

    A grant is of a pool's name, and a service is on nodes with its labels. A grant of a name that no pool has may be on
    the nodes of any.
    """
    most: dict[str, dict[Shape, int]] = defaultdict(dict)
    names = {text(other, "name") for other in listing(environment.manifest, "spec.nodePools")} - {text(pool, "name")}
    services = [(uid, held) for uid, held in services if uid in placements]
    running = {uid for uid, _ in services}
    for row in listing(environment.manifest, "status.admitted"):
        uid, share = text(row, "uid"), parse_share(row)
        if share.pool in names or uid not in placements or (uid not in running and never_starts(placements[uid])):
            continue
        _note(most[uid], (share.nodes, share.gpus_per_node), share.replicas)
    nodes = name_provider_config(environment.ref.name), strings(pool, "labels")[NODE_LABEL]
    for uid, held in services:
        if held.pool == nodes:
            _note(most[uid], (held.nodes, held.gpus), held.replicas)
    return {uid: [Holding(*shape, replicas) for shape, replicas in shapes.items()] for uid, shapes in most.items()}


def _note(replicas: dict[Shape, int], shape: Shape, count: int) -> None:
    replicas[shape] = max(replicas.get(shape, 0), count)


def never_starts(placement: Version) -> bool:
    """Tells whether a placement composes nothing as its model does not exist."""
    return text(condition(placement.manifest, "ReferencesResolved"), "reason") == "ModelNotFound"


def suits_pool(asking: Version, model: Version, pool: Manifest) -> bool:
    """Tells whether a pool is the one that a placement names, or has the accelerators that a model asks for."""
    if asking.ref.kind == "ModelPlacement":
        return text(asking.manifest, "spec.pool") == text(pool, "name")
    wanted = {
        text(profile, "replicaTopology.requires.acceleratorType") for profile in listing(model.manifest, "spec.serving")
    }
    return wanted <= {"", text(pool, "acceleratorType")}


def find_running(version: Version | None) -> Held | None:
    """Returns what a service that was last seen on a cluster has; None where none was seen."""
    seen = mapping(version.manifest, "status.atProvider.manifest") if version else {}
    if version is None or not mapping(seen, "spec"):
        return None
    spec = mapping(version.manifest, "spec")
    return held_by({**version.manifest, "spec": {**spec, "forProvider": {"manifest": seen}}})


def grows(before: Held, now: Held) -> bool:
    """Tells whether a service has more of anything than before, or has it elsewhere."""
    return before.pool != now.pool or any(a < b for a, b in zip(before[1:], now[1:], strict=True))
