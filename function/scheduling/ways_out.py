"""Ways out of a refusal: the single changes after which a deployment would fit, cheapest first.

Each change is made to a copy of the world, and the filters that decide are asked again, so that a way out is advice
that works. Nothing here is carried out. The search is bounded: it looks at the nearest environments, moves one or two
of the smallest placements of a pool, and tries a limited number of environments for them. A refusal that has several
causes, or that is the author's fault, has no way out, except that fewer replicas need less room and less quota.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from function.domain.allocation import NO_COST, Cost
from function.domain.environment import Environment, Pool
from function.domain.placement import Placement
from function.kube.messages import format_count, join_with_more
from function.kube.names import PAUSED
from function.reasons import Refused
from function.scheduling.moves import Move, MoveTargets, find_moves, size_order
from function.scheduling.refusals import Refusal
from function.scheduling.relaxation import relax
from function.scheduling.verdicts import Decision, SchedulingRequest
from function.scheduling.what_if import World, replace_pool

_MAX_ENVIRONMENTS = 8  # the nearest ones
_MAX_NODES = 10_000  # to add
_MAX_CACHED = 64  # deployments


class Way(StrEnum):
    """What has to be done, from what costs least to what costs most."""

    WAIT = "Wait"
    MOVE = "Move"
    ADD_NODES = "AddNodes"
    RELAX = "Relax"


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """One change after which the deployment fits on an environment."""

    way: Way
    message: str
    refusal: Refusal  # that this change clears
    leaving: tuple[Placement, ...] = ()  # placements that must be gone first
    moves: tuple[Move, ...] = ()
    nodes: int = 0  # nodes to add
    cost: Cost | None = None  # of these nodes; None: the pool has no price

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Sorts the cheapest to the front; of equals the nearest environment comes first, as they are found."""
        effort = len(self.moves) or self.nodes
        return [*Way].index(self.way), self.cost is None, self.cost or NO_COST, effort


class WayOutCache:
    """The ways out of the latest refused deployments, found again only where something changed.

    An entry holds the environments that it was found from: there is one for each deployment, until it is placed.
    """

    def __init__(self) -> None:
        self._latest: list[tuple[tuple[str, str], object, tuple[WayOut, ...]]] = []

    def find(
        self, deployment: tuple[str, str], basis: object, find: Callable[[], tuple[WayOut, ...]]
    ) -> tuple[WayOut, ...]:
        """Returns what was found from a basis, which is equal as long as nothing changed."""
        known = next((entry for entry in self._latest if entry[0] == deployment), None)
        entry = known if known and known[1] == basis else (deployment, basis, find())
        self._latest = [entry, *(other for other in self._latest if other[0] != deployment)][:_MAX_CACHED]
        return entry[2]

    def forget(self, deployment: tuple[str, str]) -> None:
        """Forgets a deployment that is not refused any more."""
        self._latest = [entry for entry in self._latest if entry[0] != deployment]


def find_ways_out(world: World, decision: Decision) -> tuple[WayOut, ...]:
    """Finds the ways out of the refusals of a decision by the nearest environments, cheapest first."""
    refused = sorted(decision.unresolved, key=lambda i: (-i.failed_at, _measure_lack(i.refusals[0]), i.environment))
    nearest = [] if decision.fault else refused[:_MAX_ENVIRONMENTS]
    world = world.with_decision(decision)
    targets = MoveTargets(world, {assignment.environment for assignment in decision.assignments})
    ways: list[WayOut] = []  # several profiles may have the same
    for infeasible in nearest:
        environment = world.environments[infeasible.environment]
        for refusals in world.list_refusals(infeasible):
            ways += _lower_replicas(world, environment, refusals)
            if len(refusals) != 1:
                continue
            (refusal,) = refusals
            pool = environment.pool(refusal.pool)
            if pool and refusal.use and not world.has_queue(environment, pool.name):
                ways += _wait_for_leaving(world, environment, pool, refusal)
                ways += _move_others(world, environment, refusal, targets)
                ways += _add_nodes(world, environment, pool, refusal)
            ways += _wait_for_change(world, environment, pool, refusal)
            ways += _relax(world, environment, refusal)
    unique = {way.message: way for way in ways}
    return tuple(sorted(unique.values(), key=lambda way: way.sort_key))


def _measure_lack(refusal: Refusal) -> int:
    """Returns how much is missing, where that is a number."""
    required, actual = refusal.required, refusal.actual
    return required - actual if isinstance(required, int) and isinstance(actual, int) else 0


def _wait_for_leaving(world: World, environment: Environment, pool: Pool, refusal: Refusal) -> Iterator[WayOut]:
    """Finds placements on their way out that leave enough room: the largest first, as many as it takes."""
    leaving = [p for p in world.others_on(environment.name, pool.name) if p.deleting or p.draining]
    leaving.sort(key=size_order, reverse=True)

    def fits(count: int) -> bool:
        return world.without(environment, leaving[:count]).fits(environment.name)

    count = bisect_left(range(1, len(leaving) + 1), 1, key=fits) + 1
    if count > len(leaving):
        return
    gone = leaving[:count]
    names = join_with_more([f"{p.namespace}/{p.name}" for p in gone])
    are = "is" if count == 1 else "are"
    message = f"Wait for {names}, which {are} about to leave pool {pool.name} of {_name(environment)}"
    yield WayOut(way=Way.WAIT, message=message, refusal=refusal, leaving=tuple(gone))


def _wait_for_change(world: World, environment: Environment, pool: Pool | None, refusal: Refusal) -> Iterator[WayOut]:
    """Finds what others are about to change: readiness, a pool that is unschedulable, nodes that are not usable."""
    where = f"pool {pool.name} of {_name(environment)}" if pool else ""
    if refusal.reason is Refused.ENVIRONMENT_NOT_READY:
        changed, message = replace(environment, ready=True), f"Wait until {_name(environment)} is Ready"
        if environment.paused:
            message = f"Remove annotation {PAUSED} of {_name(environment)}, and wait until it is Ready"
    elif pool and refusal.reason is Refused.POOL_UNSCHEDULABLE:
        changed = replace_pool(environment, replace(pool, unschedulable=False))
        message = f"Wait until {where} is no longer marked unschedulable"
    elif pool and pool.facts and refusal.use and not world.has_queue(environment, pool.name):
        facts = replace(pool.facts, nodes=pool.max_nodes, usable=pool.max_nodes)
        changed = replace_pool(environment, replace(pool, facts=facts))
        message = f"Wait until all nodes of {where} are usable (see its condition HardwareAsDeclared)"
    else:
        return
    if world.with_environment(changed).fits(environment.name):
        yield WayOut(way=Way.WAIT, message=message, refusal=refusal)


def _move_others(world: World, environment: Environment, refusal: Refusal, targets: MoveTargets) -> Iterator[WayOut]:
    moves = find_moves(world, environment, refusal.pool, targets)
    if moves:
        then = f"so that pool {refusal.pool} of {_name(environment)} has room"
        message = f"Move {' and '.join(map(str, moves))}, {then}"
        yield WayOut(way=Way.MOVE, message=message, refusal=refusal, moves=moves)


def _add_nodes(world: World, environment: Environment, pool: Pool, refusal: Refusal) -> Iterator[WayOut]:
    """Finds the number of nodes that a pool lacks; none where not even a node for each pod suffices."""
    assert refusal.shape is not None  # where capacity counts

    def fits(nodes: int) -> bool:
        facts = pool.facts and replace(pool.facts, nodes=pool.facts.nodes + nodes, usable=pool.facts.usable + nodes)
        larger = replace(pool, max_nodes=pool.max_nodes + nodes, facts=facts)
        return world.with_environment(replace_pool(environment, larger)).fits(environment.name)

    most = min(_MAX_NODES, refusal.shape.nodes * world.request.deployment.replicas + pool.max_nodes)
    nodes = bisect_left(range(1, most + 1), 1, key=fits) + 1
    if nodes > most:
        return
    cost = pool.price.cost(nodes * pool.gpus_per_node) if pool.price else None
    details = f"{pool.count_field} {pool.max_nodes + nodes}{f'; {cost}' if cost else ''}"
    message = f"Add {format_count(nodes, 'node')} to pool {pool.name} of {_name(environment)} ({details})"
    yield WayOut(way=Way.ADD_NODES, message=message, refusal=refusal, nodes=nodes, cost=cost)


def _relax(world: World, environment: Environment, refusal: Refusal) -> Iterator[WayOut]:
    """Finds the requirement that is in the way, and the nearest value that exists on this environment."""
    relaxed = relax(world.request, environment, refusal)
    if relaxed and _fits(world, environment, relaxed[0]):
        yield WayOut(way=Way.RELAX, message=relaxed[1], refusal=refusal)


def _lower_replicas(world: World, environment: Environment, refusals: Sequence[Refusal]) -> Iterator[WayOut]:
    """Finds the most replicas for which there is room and quota: no fewer than run anywhere now."""
    if not refusals or not all(refusal.use or refusal.quota_usage for refusal in refusals):
        return
    deployment = world.request.deployment
    running = [world.growing.get(p.environment, p.replicas) for p in world.own]
    numbers = range(max(running, default=1) or 1, deployment.replicas)

    def is_too_many(replicas: int) -> bool:
        fewer = replace(world.request, deployment=replace(deployment, replicas=replicas))
        return not _fits(world, environment, fewer)

    fitting = bisect_left(numbers, 1, key=is_too_many)
    if not fitting:
        return
    allowed = f"which the limits of namespace {deployment.namespace} allow"
    why = f"for which pool {refusals[0].pool} of {_name(environment)} has room"
    if refusals[0].quota_usage:
        why = f"{allowed} on {_name(environment)}"
    elif len(refusals) > 1:
        why += f" and {allowed}"
    message = f"Lower spec.scaling.fixed.replicas to {numbers[fitting - 1]}, {why}"
    yield WayOut(way=Way.RELAX, message=message, refusal=refusals[0])


def _fits(world: World, environment: Environment, request: SchedulingRequest) -> bool:
    """Tells whether another request fits on an environment, and still on those that were chosen."""
    others = replace(world, request=replace(request, quota_usage=None))  # what was chosen is charged already
    return replace(world, request=request).fits(environment.name) and all(map(others.fits, world.chosen))


def _name(environment: Environment) -> str:
    return f"InferenceEnvironment {environment.name}"
