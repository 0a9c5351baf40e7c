"""Ways out of a refusal: the single changes after which a deployment would fit, cheapest first.

Each change is made to a copy of the world, and the filters that decide are asked again, so that a way out is advice
that works. Nothing here is carried out. The search is bounded: the nearest environments, few placements on each, and a
number of places for all of them. A refusal that has several causes, or that is the author's fault, has no way out.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations, islice
from typing import Any, TypeAlias

from function.domain.environment import Environment, Pool
from function.domain.hardware import BandwidthRequirement
from function.domain.model import Model, Profile
from function.domain.placement import Placement
from function.domain.price import NO_COST, Cost
from function.kube.messages import format_count, join_with_more
from function.kube.selectors import Selector
from function.kube.taints import Toleration, find_untolerated
from function.reasons import Refused
from function.scheduling.filters import filter_candidates, filter_environment
from function.scheduling.ledger import Ledger, publish_free
from function.scheduling.refusals import Field, Refusal
from function.scheduling.retention import retention_order, scale_existing
from function.scheduling.verdicts import Assignment, Decision, Infeasible, SchedulingRequest

FindRequest: TypeAlias = Callable[[Placement], SchedulingRequest | None]
_MAX_ENVIRONMENTS = 8  # the nearest ones
_MAX_MOVABLE = 6  # placements on a pool of which one or two may move, the smallest first
_MAX_TRIED = 1_000  # environments on which a placement is tried, for all placements together
_MAX_NODES = 10_000  # to add
# Requirements that can be relaxed to what a pool has, by field of `Requires`.
_REQUIREMENTS = {
    Field.MEMORY_PER_GPU: "memory_per_gpu",
    Field.NVLINK_DOMAIN: "nvlink_domain",
    Field.INTERCONNECT: "interconnect",
    Field.ACCELERATOR_TYPE: "accelerator_type",
    Field.BANDWIDTH: "bandwidth",
    Field.PRECISION: "precision",
}


class Way(StrEnum):
    """What has to be done, from what costs least to what costs most."""

    WAIT = "Wait"
    MOVE = "Move"
    ADD_NODES = "AddNodes"
    RELAX = "Relax"

    @property
    def rank(self) -> int:
        """Position from cheapest (0)."""
        return tuple(Way).index(self)


@dataclass(frozen=True, slots=True)
class Move:
    """A placement of another deployment, and where it would fit."""

    placement: Placement
    to: Assignment

    def __str__(self) -> str:
        name = f"{self.placement.namespace}/{self.placement.deployment}"
        return f"{name} from {self.placement.environment} to {self.to.environment} (pool {self.to.pool})"


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """One change after which the deployment fits on an environment."""

    way: Way
    message: str
    refusal: Refusal  # that it clears
    leaving: tuple[Placement, ...] = ()  # that have to be gone
    moves: tuple[Move, ...] = ()
    nodes: int = 0  # that are added
    cost: Cost | None = None  # of these nodes; None: the pool has no price

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Sorts the cheapest to the front."""
        effort = len(self.leaving) + len(self.moves) or self.nodes
        cost = self.cost or NO_COST
        return (
            self.way.rank,
            self.cost is None,
            cost,
            effort,
            _distance(self.refusal),
            self.refusal.environment,
            self.message,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that a decision is made from, to be changed."""

    request: SchedulingRequest  # with what the namespace has of its quota, if it has one
    environments: Mapping[str, Environment]
    own: Sequence[Placement] = ()
    others: Mapping[str, Sequence[Placement]] = field(default_factory=dict)  # as far as known, by environment
    # Returns the request of the deployment of a placement; None: it is not known, and the placement cannot be moved.
    find_request: FindRequest = lambda _: None
    growing: frozenset[str] = frozenset()  # environments on which an own placement needs more replicas

    def others_on(self, environment: str) -> Sequence[Placement]:
        """Returns the known placements of other deployments on an environment."""
        return self.others.get(environment, ())

    def with_environment(self, environment: Environment) -> "World":
        """Returns the world with another state of an environment, whose ledger follows from its grants."""
        published = replace(environment, free=publish_free(environment)) if environment.uid else environment
        return replace(self, environments={**self.environments, environment.name: published})

    def without(self, environment: Environment, placements: Sequence[Placement]) -> "World":
        """Returns the world without placements of others on an environment."""
        keys = {(p.namespace, p.name) for p in placements}
        remaining = [p for p in self.others_on(environment.name) if (p.namespace, p.name) not in keys]
        admitted = tuple(g for g in environment.admitted if (g.namespace, g.name) not in keys)
        changed = replace(self, others={**self.others, environment.name: remaining})
        return changed.with_environment(replace(environment, admitted=admitted))

    def fits(self, environment: str, request: SchedulingRequest | None = None) -> bool:
        """Tells whether the deployment fits on an environment: as a new placement, or with all replicas of its own."""
        request, where = request or self.request, self.environments[environment]
        ledger = Ledger(self.others_on(environment), self.own)
        if environment not in self.growing:
            return isinstance(filter_environment(request, where, ledger), Assignment)
        existing = min((p for p in self.own if p.environment == environment), key=retention_order)
        assert existing.shape is not None  # what cannot be read does not grow
        assignment, infeasible = scale_existing(request, where, existing, existing.shape, ledger)
        usage, has = request.quota_usage, existing.allocated.gpus if existing.allocated else 0
        return infeasible is None and (usage is None or usage.allows_more(assignment.gpus - has))


def find_ways_out(world: World, decision: Decision) -> tuple[WayOut, ...]:
    """Finds the ways out of the refusals of a decision by the nearest environments, cheapest first."""
    refused = decision.unresolved
    if not refused or decision.fault:
        return ()
    nearest = sorted(refused, key=lambda i: (-i.failed_at, _distance(i.refusals[0]), i.environment))[:_MAX_ENVIRONMENTS]
    world = replace(world, growing=frozenset(i.environment for i in nearest if i.current_replicas is not None))
    places = _Places(world, {assignment.environment for assignment in decision.assignments})
    ways: list[WayOut] = []
    for infeasible in nearest:
        environment = world.environments[infeasible.environment]
        for refusal in _find_single_refusals(world, infeasible):
            ways += wait(world, environment, refusal)
            pool = environment.pool(refusal.pool)
            if pool and refusal.use and not _has_queue(world, environment, pool):
                ways += wait_for_leaving(world, environment, pool, refusal)
                ways += wait_for_nodes(world, environment, pool, refusal)
                ways += move_others(world, environment, pool, refusal, places)
                ways += add_nodes(world, environment, pool, refusal)
            ways += relax_requirement(world, environment, refusal)
    return tuple(sorted(ways, key=lambda way: way.sort_key))


def _find_single_refusals(world: World, infeasible: Infeasible) -> list[Refusal]:
    """Returns what alone refuses a profile and a pool of an environment."""
    name = infeasible.environment
    if name in world.growing:
        candidates = [infeasible.refusals]
    else:
        ledger = Ledger(world.others_on(name), world.own)
        candidates = [r for _, r in filter_candidates(world.request, world.environments[name], ledger)]
    return [refusals[0] for refusals in candidates if len(refusals) == 1]


def _has_queue(world: World, environment: Environment, pool: Pool) -> bool:
    """Tells whether others wait for room in a pool: what becomes free is theirs first."""
    if not environment.uid:
        return False  # the ledger is computed from all placements
    own = {placement.uid for placement in world.own}
    requests = ((p.uid, p.effective_request) for p in world.others_on(environment.name))
    return any(name == pool.name and uid not in own for uid, name in environment.rejected) or any(
        request.pool == pool.name and (environment.count_admitted(uid, request) or 0) < request.replicas
        for uid, request in requests
        if request
    )


def wait(world: World, environment: Environment, refusal: Refusal) -> Iterator[WayOut]:
    """Finds what others are about to change: an environment that is not Ready, and a pool that is unschedulable."""
    pool, where = environment.pool(refusal.pool), _describe(environment)
    if refusal.reason is Refused.ENVIRONMENT_NOT_READY:
        changed, message = replace(environment, ready=True), f"Wait until {where} is Ready"
    elif refusal.reason is Refused.POOL_UNSCHEDULABLE and pool:
        changed = _replace_pool(environment, replace(pool, unschedulable=False))
        message = f"Wait until unschedulable is removed from pool {pool.name} of {where}"
    else:
        return
    if world.with_environment(changed).fits(environment.name):
        yield WayOut(way=Way.WAIT, message=message, refusal=refusal)


def wait_for_nodes(world: World, environment: Environment, pool: Pool, refusal: Refusal) -> Iterator[WayOut]:
    """Finds whether the nodes that cannot be used now would suffice."""
    if pool.facts is None:
        return
    facts = replace(pool.facts, nodes=pool.max_nodes, usable=pool.max_nodes)
    if world.with_environment(_replace_pool(environment, replace(pool, facts=facts))).fits(environment.name):
        where = _describe(environment)
        message = f"Wait until the nodes of pool {pool.name} are usable: see HardwareAsDeclared of {where}"
        yield WayOut(way=Way.WAIT, message=message, refusal=refusal)


def wait_for_leaving(world: World, environment: Environment, pool: Pool, refusal: Refusal) -> Iterator[WayOut]:
    """Finds placements on their way out that leave enough room: the largest first, as many as it takes."""
    known = [p for p in world.others_on(environment.name) if p.pool == pool.name]
    leaving = sorted((p for p in known if p.deleting or p.draining), key=_size, reverse=True)
    for count in range(1, len(leaving) + 1):
        gone = leaving[:count]
        if world.without(environment, gone).fits(environment.name):
            names = join_with_more([f"{p.namespace}/{p.name}" for p in gone])
            are = "is on its way" if count == 1 else "are on their way"
            message = f"Wait for {names}, which {are} out of pool {pool.name} of {_describe(environment)}"
            yield WayOut(way=Way.WAIT, message=message, refusal=refusal, leaving=tuple(gone))
            return


def move_others(
    world: World, environment: Environment, pool: Pool, refusal: Refusal, places: "_Places"
) -> Iterator[WayOut]:
    """Finds one placement, else two, that fit elsewhere and leave enough room: the smallest first."""
    known = (p for p in world.others_on(environment.name) if p.pool == pool.name and p.shape and p.replicas)
    staying = sorted((p for p in known if not (p.deleting or p.draining)), key=_size)
    movable = [*islice(filter(world.find_request, staying), _MAX_MOVABLE)]
    for count in (1, 2):
        for moving in combinations(movable, count):
            if not world.without(environment, moving).fits(environment.name):
                continue
            moves = places.find(moving)
            if moves:
                message = f"Move {' and '.join(map(str, moves))}: pool {pool.name} of {environment.name} then has room"
                yield WayOut(way=Way.MOVE, message=message, refusal=refusal, moves=moves)
                return


def add_nodes(world: World, environment: Environment, pool: Pool, refusal: Refusal) -> Iterator[WayOut]:
    """Finds the number of nodes that a pool lacks; none where not even a node for each pod suffices."""
    assert refusal.shape is not None

    def fits(nodes: int) -> bool:
        return world.with_environment(_add_nodes(environment, pool, nodes)).fits(environment.name)

    most = min(_MAX_NODES, refusal.shape.nodes * world.request.deployment.replicas + pool.max_nodes)
    nodes = bisect_left(range(1, most + 1), 1, key=fits) + 1
    if nodes > most or not fits(nodes):
        return
    cost = pool.price.cost(nodes * pool.gpus_per_node) if pool.price else None
    details = f"{pool.count_field} {pool.max_nodes + nodes}{f'; {cost}' if cost else ''}"
    message = f"Add {format_count(nodes, 'node')} to pool {pool.name} of {_describe(environment)} ({details})"
    yield WayOut(way=Way.ADD_NODES, message=message, refusal=refusal, nodes=nodes, cost=cost)


def relax_requirement(world: World, environment: Environment, refusal: Refusal) -> Iterator[WayOut]:
    """Finds the requirement that is in the way, and the nearest value that exists on this environment."""
    relaxed = _relax(world.request, environment, refusal)
    if relaxed is not None and world.fits(environment.name, relaxed[0]):
        yield WayOut(way=Way.RELAX, message=relaxed[1], refusal=refusal)


def _relax(
    request: SchedulingRequest, environment: Environment, refusal: Refusal
) -> tuple[SchedulingRequest, str] | None:
    """Returns the request without what a refusal requires beyond what there is, and the advice."""
    deployment, where = request.deployment, _describe(environment)
    if refusal.unmet:
        return _relax_selector(request, refusal)
    if refusal.reason is Refused.ENVIRONMENT_TAINTED:
        taints = find_untolerated(environment.taints, deployment.tolerations)
        more = (Toleration(key=t.key, any_value=True, effect=t.effect) for t in taints)
        tolerant = replace(deployment, tolerations=(*deployment.tolerations, *more))
        names = ", ".join(taint.describe() for taint in taints)
        return replace(request, deployment=tolerant), f"Tolerate {names} of {where}, or wait until it is removed"
    if replicas := _count_possible_replicas(refusal):
        fewer, why = replace(deployment, replicas=replicas), f"pool {refusal.pool} of {where} has room for them"
        if refusal.quota_usage:
            why = f"namespace {refusal.quota_usage.namespace} may have them on {environment.name}"
        return replace(request, deployment=fewer), f"Lower spec.scaling.fixed.replicas to {replicas}: {why}"
    profile, name = request.find_profile(refusal.profile), _REQUIREMENTS.get(refusal.field)
    if profile is None or name is None or not refusal.required:
        return None
    value = _nearest_value(refusal)
    found: dict[str, Any] = {name: value}
    changed = replace(profile, requires=replace(profile.requires, **found))
    what, on = f"{refusal.field} of profile {profile.name}", f"pool {refusal.pool} of {where}"
    advice = f"If the nodes of {on} have it, declare {refusal.field} there; else require no {what}"
    if value:
        words = ", ".join(value) if isinstance(value, tuple) else refusal.columns[1]
        advice = f"Set {what} to {words}, which {on} has"
    return _replace_profile(request, changed), advice


def _count_possible_replicas(refusal: Refusal) -> int:
    """Returns how many replicas fit a pool or the quota; 0 where none does, or where another thing is refused."""
    if refusal.use and isinstance(refusal.actual, int):
        return refusal.actual
    usage, shape = refusal.quota_usage, refusal.shape
    if usage is None or shape is None or not isinstance(refusal.required, int):
        return 0
    replicas = range(1, refusal.required // shape.gpus)
    return bisect_left(replicas, 1, key=lambda count: usage.find_excess(shape.gpus * count) is not None)


def _nearest_value(refusal: Refusal) -> object:
    """Returns the value of a requirement that a pool meets; nothing where it declares none."""
    actual = refusal.actual
    if refusal.field is Field.PRECISION:
        required = refusal.required if isinstance(refusal.required, tuple) else ()
        return tuple(word for word in required if isinstance(actual, tuple) and word in actual)
    if refusal.field is Field.BANDWIDTH and isinstance(actual, str):
        return BandwidthRequirement(rung=actual, or_better=True)
    return actual


def _relax_selector(request: SchedulingRequest, refusal: Refusal) -> tuple[SchedulingRequest, str] | None:
    """Returns the request without the one requirement on labels that is not met."""
    if len(refusal.unmet) > 1:
        return None
    ((requirement, label),) = refusal.unmet

    def without(selector: Selector) -> Selector:
        return Selector(tuple(r for r in selector.requirements if r != requirement))

    profile = request.find_profile(refusal.profile)
    if refusal.field is Field.DEPLOYMENT_SELECTOR:
        relaxed = replace(
            request, deployment=replace(request.deployment, selector=without(request.deployment.selector))
        )
    elif refusal.field is Field.MODEL_SELECTOR:
        relaxed = _replace_model(request, replace(request.model, selector=without(request.model.selector)))
    elif profile is not None:
        relaxed = _replace_profile(request, replace(profile, selector=without(profile.selector)))
    else:
        return None
    found = f"has no label {requirement.key}" if label is None else f"has {requirement.key}={label}"
    advice = f"Let the {refusal.field} admit InferenceEnvironment {refusal.environment}, which {found}"
    return relaxed, advice


def _replace_profile(request: SchedulingRequest, profile: Profile) -> SchedulingRequest:
    profiles = tuple(profile if p.name == profile.name else p for p in request.model.profiles)
    return _replace_model(request, replace(request.model, profiles=profiles))


def _replace_model(request: SchedulingRequest, model: Model) -> SchedulingRequest:
    weights = replace(request.weights, model=model) if request.weights else None
    return replace(request, model=model, weights=weights)


def _replace_pool(environment: Environment, pool: Pool) -> Environment:
    return replace(environment, pools=tuple(pool if p.name == pool.name else p for p in environment.pools))


def _add_nodes(environment: Environment, pool: Pool, nodes: int) -> Environment:
    facts = pool.facts and replace(pool.facts, nodes=pool.facts.nodes + nodes, usable=pool.facts.usable + nodes)
    return _replace_pool(environment, replace(pool, max_nodes=pool.max_nodes + nodes, facts=facts))


def _describe(environment: Environment) -> str:
    return f"InferenceEnvironment {environment.name}"


def _distance(refusal: Refusal) -> int:
    """Returns how much is missing, where that is a number."""
    required, actual = refusal.required, refusal.actual
    return required - actual if isinstance(required, int) and isinstance(actual, int) else 0


def _size(placement: Placement) -> tuple[int, str, str]:
    """Sorts placements by their GPUs, then by name."""
    requested = placement.requested
    return requested.gpus if requested else 0, placement.namespace, placement.name


class _Places:
    """Where placements of others fit, within a number of environments that are tried."""

    def __init__(self, world: World, assigned: Collection[str]) -> None:
        self._world = world
        self._assigned = assigned  # environments on which the deployment itself takes room now
        everything = (*world.own, *(p for placements in world.others.values() for p in placements))
        self._ledger = Ledger(everything)
        self._environments = defaultdict[tuple[str, str], set[str]](set)  # of each deployment
        for placement in everything:
            self._environments[placement.namespace, placement.deployment].add(placement.environment)
        self._left = _MAX_TRIED

    def find(self, moving: Sequence[Placement]) -> tuple[Move, ...]:
        """Finds another environment for each placement; nothing where one has none, or the quota has no room."""
        moves: list[Move] = []
        for placement in moving:
            request = self._world.find_request(placement)
            assert request is not None  # only those that can be moved are asked for
            is_limited = request.quota_usage and any(m.placement.namespace == placement.namespace for m in moves)
            to = None if is_limited else self._find_one(request, placement, {m.to.environment for m in moves})
            if to is None:
                return ()
            moves.append(Move(placement, to))
        return tuple(moves)

    def _find_one(self, request: SchedulingRequest, placement: Placement, taken: Collection[str]) -> Assignment | None:
        used = self._environments[placement.namespace, placement.deployment]
        for name, environment in self._world.environments.items():
            if name in self._assigned or name in used or name in taken or environment.deleting or not self._left:
                continue
            self._left -= 1
            verdict = filter_environment(request, environment, self._ledger)
            if isinstance(verdict, Assignment):
                return verdict
        return None
