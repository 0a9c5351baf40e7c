"""Ways out of a refusal: the single changes after which a deployment would fit, cheapest first.

Each change is made to a copy of the snapshot and checked with the same filters that decide, so that a way out is advice
that works. Nothing here is carried out. The search is bounded: it looks at the nearest environments, moves one or two
of the smallest placements of a pool, and tries a limited number of environments for them. A refusal with several
causes, or a refusal that is the author's fault, has no way out except fewer replicas, which need less room and less
quota.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations, islice
from typing import Any, TypeAlias

from function.capacity.ledger import CapacityView, publish_free
from function.domain.allocation import NO_COST, Cost
from function.domain.environment import Environment, Pool
from function.domain.model import OR_BETTER, BandwidthRequirement, Model, Profile
from function.domain.placement import Placement
from function.kube.messages import format_count, join_with_more
from function.kube.names import PAUSED
from function.kube.selectors import Selector, Toleration, find_untolerated
from function.reasons import Refused
from function.scheduling.filters import filter_candidates, filter_environment
from function.scheduling.limits import charge_assignments, count_extra_gpus
from function.scheduling.refusals import Field, Refusal
from function.scheduling.scaling import scale_existing
from function.scheduling.scheduler import retention_order
from function.scheduling.verdicts import Assignment, Decision, Infeasible, SchedulingRequest

_MAX_ENVIRONMENTS = 8  # the nearest ones
_MAX_MOVABLE = 6  # placements on a pool of which one or two may move, the smallest first
_MAX_TRIED = 500  # environments on which a placement is tried, for all placements together
_MAX_NODES = 10_000  # to add
_MAX_CACHED = 64  # deployments

FindRequest: TypeAlias = Callable[[Placement], SchedulingRequest | None]
_Relaxed: TypeAlias = tuple[SchedulingRequest, str]  # the request with a requirement relaxed, and the advice


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A deployment, the environments, and the placements on them."""

    request: SchedulingRequest  # with what the namespace has of its quota, if there is a quota
    environments: Mapping[str, Environment]
    own: Sequence[Placement] = ()
    others: Mapping[str, Sequence[Placement]] = field(default_factory=dict)  # as far as known, by environment
    # Returns the request of the deployment of a placement; None: it is not known, and the placement cannot be moved.
    find_request: FindRequest = lambda _: None
    growing: Mapping[str, int] = field(default_factory=dict)  # by environment: current replicas of own that need more
    chosen: frozenset[str] = frozenset()  # environments on which a new placement is decided
    # Where replicas are divided: how many have a place, by environment, and how many have none.
    divided: Mapping[str, int] | None = None
    missing: int = 0

    def others_on(self, environment: str, pool: str = "") -> list[Placement]:
        """Returns the known placements of other deployments on an environment, or on one of its pools."""
        return [p for p in self.others.get(environment, ()) if pool in ("", p.pool)]

    def with_decision(self, decision: Decision) -> "Snapshot":
        """Returns the snapshot after a decision: its assignments are charged to the quota."""
        usage = self.request.quota_usage
        # A placement that is rescheduled is tried like a new one: it cannot grow as it was.
        existing = {a.environment for a in decision.assignments if a.placement and not a.is_rescheduled}
        growing = ((i.environment, i.granted_replicas) for i in decision.refusals if i.environment in existing)
        is_divided = decision.is_divided
        return replace(
            self,
            request=replace(self.request, quota_usage=usage and charge_assignments(usage, decision.assignments)),
            growing={name: granted for name, granted in growing if granted is not None},
            # Whatever helps the missing replicas leaves those where they are that have a place.
            chosen=frozenset(a.environment for a in decision.assignments if not (a.placement or is_divided)),
            divided={a.environment: a.replicas for a in decision.assignments} if is_divided else None,
            missing=decision.missing_replicas,
        )

    def with_environment(self, environment: Environment) -> "Snapshot":
        """Returns the snapshot with another state of an environment, whose ledger follows from its grants."""
        published = replace(environment, free=publish_free(environment)) if environment.uid else environment
        return replace(self, environments={**self.environments, environment.name: published})

    def without(self, environment: Environment, placements: Iterable[Placement]) -> "Snapshot":
        keys = {(p.namespace, p.name) for p in placements}
        remaining = [p for p in self.others_on(environment.name) if (p.namespace, p.name) not in keys]
        admitted = tuple(g for g in environment.admitted if (g.namespace, g.name) not in keys)
        changed = replace(self, others={**self.others, environment.name: remaining})
        return changed.with_environment(replace(environment, admitted=admitted))

    def fits(self, environment: str) -> bool:
        """Tells whether the deployment fits on an environment: as a new placement, or with all replicas of its own."""
        request = self._requested_on(environment)
        where = self.environments[environment]
        ledger = CapacityView(self.others_on(environment), self.own)
        if environment not in self.growing:
            verdict = filter_environment(request, where, ledger)
            return isinstance(verdict, Assignment) and self._allows_missing(verdict)
        existing = min((p for p in self.own if p.environment == environment), key=retention_order)
        assignment, infeasible = scale_existing(request, where, existing, ledger)
        usage = request.quota_usage
        more = count_extra_gpus(assignment)
        return infeasible is None and not (usage and more and usage.find_excess(more, assignment.price, is_new=False))

    def _requested_on(self, environment: str) -> SchedulingRequest:
        """Returns what would be requested there: of divided replicas, those that have a place there and the missing.

        The quota is charged with the replicas that have a place already, so it does not count for them again.
        """
        if self.divided is None:
            return self.request
        placed = self.divided.get(environment, 0)
        request = self.request.with_replicas(placed + self.missing)
        return replace(request, quota_usage=None) if placed and environment not in self.growing else request

    def _allows_missing(self, assignment: Assignment) -> bool:
        """Tells whether the quota allows the missing replicas beside those that are charged on the environment."""
        usage = self.request.quota_usage
        if usage is None or not (self.divided or {}).get(assignment.environment):
            return True
        return usage.find_excess(assignment.shape.gpus * self.missing, assignment.price, is_new=False) is None

    def list_refusals(self, infeasible: Infeasible) -> list[tuple[Refusal, ...]]:
        """Returns the refusals of each profile on each pool of an environment."""
        name = infeasible.environment
        if name in self.growing:
            return [infeasible.refusals]
        ledger = CapacityView(self.others_on(name), self.own)
        return [
            refusals for _, refusals in filter_candidates(self._requested_on(name), self.environments[name], ledger)
        ]

    def has_queue(self, environment: Environment, pool: str) -> bool:
        """Tells whether others wait for room in a pool: they get what becomes free first."""
        if not environment.uid:
            return False  # the ledger is computed from all placements
        own = {placement.uid for placement in self.own}
        staying = (p for p in self.others_on(environment.name) if p.may_have_resources or not p.deleting)
        requests = ((p.uid, p.effective_request) for p in staying)
        return any(name == pool and uid not in own for uid, name in environment.rejected) or any(
            request.pool == pool and (environment.count_admitted(uid, request) or 0) < request.replicas
            for uid, request in requests
            if request
        )


class Way(StrEnum):
    """The kinds of changes, from the cheapest to the most expensive."""

    WAIT = "Wait"
    MOVE = "Move"
    ADD_NODES = "AddNodes"
    RELAX = "Relax"


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
    refusal: Refusal  # the refusal that this change clears
    leaving: tuple[Placement, ...] = ()  # placements that must be gone first
    moves: tuple[Move, ...] = ()
    nodes: int = 0  # nodes to add
    cost: Cost | None = None  # of these nodes; None: the pool has no price

    @property
    def sort_key(self) -> tuple[object, ...]:
        """The sort key: the cheapest come first, and equals as they are found, the nearest environment first."""
        effort = len(self.moves) or self.nodes
        return [*Way].index(self.way), self.cost is None, self.cost or NO_COST, effort


class WayOutCache:
    """The ways out of the latest refused deployments, computed again only if something changed.

    An entry holds the environments that it was found from: there is one for each deployment, until it is placed.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[str, str], tuple[object, tuple[WayOut, ...]]] = {}  # the latest one last

    def find(
        self, deployment: tuple[str, str], basis: object, find: Callable[[], tuple[WayOut, ...]]
    ) -> tuple[WayOut, ...]:
        """Returns what was found from a basis, which is equal as long as nothing changed."""
        known = self._latest.pop(deployment, None)
        self._latest[deployment] = entry = known if known and known[0] == basis else (basis, find())
        if len(self._latest) > _MAX_CACHED:
            del self._latest[next(iter(self._latest))]
        return entry[1]

    def forget(self, deployment: tuple[str, str]) -> None:
        self._latest.pop(deployment, None)


def find_ways_out(snapshot: Snapshot, decision: Decision) -> tuple[WayOut, ...]:
    """Finds the ways out of the refusals of a decision by the nearest environments, cheapest first."""
    refused = sorted(decision.unresolved, key=lambda i: (-i.failed_step, _measure_lack(i.refusals[0]), i.environment))
    nearest = [] if decision.general_refusal else refused[:_MAX_ENVIRONMENTS]
    snapshot = snapshot.with_decision(decision)
    targets = MoveTargets(snapshot, {assignment.environment for assignment in decision.assignments})
    ways: list[WayOut] = []  # several profiles may have the same
    for infeasible in nearest:
        environment = snapshot.environments[infeasible.environment]
        for refusals in snapshot.list_refusals(infeasible):
            ways += _lower_replicas(snapshot, environment, refusals)
            if len(refusals) != 1:
                continue
            (refusal,) = refusals
            pool = environment.pool(refusal.pool)
            if pool and refusal.use and not snapshot.has_queue(environment, pool.name):
                ways += _wait_for_leaving(snapshot, environment, pool, refusal)
                ways += _move_others(snapshot, environment, refusal, targets)
                ways += _add_nodes(snapshot, environment, pool, refusal)
            ways += _wait_for_change(snapshot, environment, pool, refusal)
            if pool and refusal.field is Field.MULTI_NODE:
                ways += _declare_network(snapshot, environment, pool, refusal)
            ways += _relax(snapshot, environment, refusal)
    unique = {way.message: way for way in ways}
    return tuple(sorted(unique.values(), key=lambda way: way.sort_key))


def _measure_lack(refusal: Refusal) -> int:
    required = refusal.required
    actual = refusal.actual
    return required - actual if isinstance(required, int) and isinstance(actual, int) else 0


def _wait_for_leaving(snapshot: Snapshot, environment: Environment, pool: Pool, refusal: Refusal) -> Iterator[WayOut]:
    """Finds placements that are being removed and leave enough room: the largest first, as many as are needed."""
    leaving = [p for p in snapshot.others_on(environment.name, pool.name) if p.is_leaving]
    leaving.sort(key=_size_order, reverse=True)

    def fits(count: int) -> bool:
        return snapshot.without(environment, leaving[:count]).fits(environment.name)

    count = bisect_left(range(1, len(leaving) + 1), 1, key=fits) + 1
    if count > len(leaving):
        return
    gone = leaving[:count]
    names = join_with_more([f"{p.namespace}/{p.name}" for p in gone])
    are = "is" if count == 1 else "are"
    message = f"Wait for {names}, which {are} about to leave pool {pool.name} of {_name(environment)}"
    yield WayOut(way=Way.WAIT, message=message, refusal=refusal, leaving=tuple(gone))


def _wait_for_change(
    snapshot: Snapshot, environment: Environment, pool: Pool | None, refusal: Refusal
) -> Iterator[WayOut]:
    """Finds what others are about to change: readiness, an unschedulable or missing pool, or unusable nodes."""
    where = f"pool {pool.name} of {_name(environment)}" if pool else ""
    if refusal.reason is Refused.ENVIRONMENT_NOT_READY:
        changed = replace(environment, ready=True)
        message = f"Wait until {_name(environment)} is Ready"
        if environment.paused:
            message = f"Remove annotation {PAUSED} of {_name(environment)}, and wait until it is Ready"
    elif pool and refusal.reason is Refused.POOL_UNSCHEDULABLE:
        changed = _replace_pool(environment, replace(pool, unschedulable=False))
        message = f"Wait until {where} is no longer marked unschedulable"
    elif pool and refusal.reason is Refused.POOL_NOT_CREATED:
        changed = _replace_pool(environment, replace(pool, not_created=""))
        message = f"Wait until {where} is created (see its condition PoolsValid)"
    elif pool and pool.facts and refusal.use and not snapshot.has_queue(environment, pool.name):
        facts = replace(pool.facts, nodes=pool.max_nodes, usable=pool.max_nodes)
        changed = _replace_pool(environment, replace(pool, facts=facts))
        message = f"Wait until all nodes of {where} are usable (see its condition HardwareAsDeclared)"
    else:
        return
    if snapshot.with_environment(changed).fits(environment.name):
        yield WayOut(way=Way.WAIT, message=message, refusal=refusal)


def _move_others(
    snapshot: Snapshot, environment: Environment, refusal: Refusal, targets: "MoveTargets"
) -> Iterator[WayOut]:
    """Finds one other placement, else two, that fit elsewhere and leave enough room: the smallest first."""
    running = (p for p in snapshot.others_on(environment.name, refusal.pool) if p.shape and p.replicas)
    staying = sorted((p for p in running if not p.is_leaving), key=_size_order)
    movable = [*islice(filter(snapshot.find_request, staying), _MAX_MOVABLE)]
    for moving in (*combinations(movable, 1), *combinations(movable, 2)):
        if snapshot.without(environment, moving).fits(environment.name) and (moves := targets.find(moving)):
            what = " and ".join(map(str, moves))
            message = f"Move {what}, so that pool {refusal.pool} of {_name(environment)} has room"
            yield WayOut(way=Way.MOVE, message=message, refusal=refusal, moves=moves)
            return


class MoveTargets:
    """Where placements of others fit, within a number of environments that are tried."""

    def __init__(self, snapshot: Snapshot, assigned: Collection[str]) -> None:
        self._snapshot = snapshot
        self._assigned = assigned  # environments on which the deployment itself takes room now
        self._placements = (*snapshot.own, *(p for placements in snapshot.others.values() for p in placements))
        self._ledger = CapacityView(self._placements)
        self._left = _MAX_TRIED

    def find(self, moving: Sequence[Placement]) -> tuple[Move, ...]:
        """Finds for each placement an environment that neither its deployment nor another move uses.

        Returns nothing if one of the placements has no such environment, or if the quota has no room.
        """
        moves: list[Move] = []
        for placement in moving:
            request = self._snapshot.find_request(placement)
            assert request is not None  # only placements that can be moved are passed
            if request.quota_usage and any(m.placement.namespace == placement.namespace for m in moves):
                return ()  # the quota was computed without the other placement
            own = (placement.namespace, placement.deployment)
            used = {p.environment for p in self._placements if (p.namespace, p.deployment) == own}
            used |= {*self._assigned, *(move.to.environment for move in moves)}
            for name, environment in self._snapshot.environments.items():
                if self._left and not environment.deleting and name not in used:
                    self._left -= 1
                    verdict = filter_environment(request, environment, self._ledger)
                    if isinstance(verdict, Assignment):
                        moves.append(Move(placement, verdict))
                        break
            else:
                return ()
        return tuple(moves)


def _add_nodes(snapshot: Snapshot, environment: Environment, pool: Pool, refusal: Refusal) -> Iterator[WayOut]:
    """Finds the number of nodes that a pool lacks; nothing if even one node for each pod does not suffice."""
    assert refusal.shape is not None  # where capacity counts

    def fits(nodes: int) -> bool:
        facts = pool.facts and replace(pool.facts, nodes=pool.facts.nodes + nodes, usable=pool.facts.usable + nodes)
        larger = replace(pool, max_nodes=pool.max_nodes + nodes, facts=facts)
        return snapshot.with_environment(_replace_pool(environment, larger)).fits(environment.name)

    most = min(_MAX_NODES, refusal.shape.nodes * snapshot.request.deployment.replicas + pool.max_nodes)
    nodes = bisect_left(range(1, most + 1), 1, key=fits) + 1
    if nodes > most:
        return
    cost = pool.price.cost(nodes * pool.gpus_per_node) if pool.price else None
    details = f"{pool.count_field} {pool.max_nodes + nodes}{f'; {cost}' if cost else ''}"
    message = f"Add {format_count(nodes, 'node')} to pool {pool.name} of {_name(environment)} ({details})"
    yield WayOut(way=Way.ADD_NODES, message=message, refusal=refusal, nodes=nodes, cost=cost)


def _declare_network(snapshot: Snapshot, environment: Environment, pool: Pool, refusal: Refusal) -> Iterator[WayOut]:
    """Finds out whether replicas on several nodes would fit on a pool that does not declare them."""
    capable = _replace_pool(environment, replace(pool, multi_node=True))
    if snapshot.with_environment(capable).fits(environment.name):
        where = f"pool {pool.name} of {_name(environment)}"
        message = f"If a network connects its nodes, set capabilities.multiNodeCapable to true on {where}"
        yield WayOut(way=Way.RELAX, message=message, refusal=refusal)


def _lower_replicas(snapshot: Snapshot, environment: Environment, refusals: Sequence[Refusal]) -> Iterator[WayOut]:
    """Finds the most replicas for which there is room and quota, but at least as many as run anywhere now."""
    if not refusals or not all(refusal.use or refusal.quota_usage for refusal in refusals):
        return
    if snapshot.divided is not None:
        return  # the number of replicas that have a place is in the status
    deployment = snapshot.request.deployment
    running = [snapshot.growing.get(p.environment, p.replicas) for p in snapshot.own]
    numbers = range(max(running, default=1) or 1, deployment.replicas)

    def is_too_many(replicas: int) -> bool:
        fewer = replace(snapshot.request, deployment=replace(deployment, replicas=replicas))
        return not _fits(snapshot, environment, fewer)

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


def _relax(snapshot: Snapshot, environment: Environment, refusal: Refusal) -> Iterator[WayOut]:
    """Finds the requirement that is in the way, and the nearest value that exists on this environment."""
    if refusal.unmet:
        relaxed = _relax_selector(snapshot.request, refusal)
    elif refusal.reason is Refused.ENVIRONMENT_TAINTED:
        relaxed = _tolerate(snapshot.request, environment)
    else:
        relaxed = _relax_requirement(snapshot.request, refusal)
    if relaxed and _fits(snapshot, environment, relaxed[0]):
        yield WayOut(way=Way.RELAX, message=relaxed[1], refusal=refusal)


def _relax_selector(request: SchedulingRequest, refusal: Refusal) -> _Relaxed | None:
    """Removes the label requirement that is not met; None if there are several."""
    if len(refusal.unmet) > 1:
        return None
    ((requirement, label),) = refusal.unmet

    def without(selector: Selector) -> Selector:
        return Selector(tuple(r for r in selector.requirements if r != requirement))

    deployment = request.deployment
    model = request.model
    profile = request.find_profile(refusal.profile)
    if refusal.field is Field.DEPLOYMENT_SELECTOR:
        relaxed = replace(request, deployment=replace(deployment, selector=without(deployment.selector)))
    elif profile is None:
        relaxed = _replace_model(request, replace(model, selector=without(model.selector)))
    else:
        relaxed = _replace_profile(request, replace(profile, selector=without(profile.selector)))
    found = f"has no label {requirement.key}" if label is None else f"has {requirement.key}={label}"
    return relaxed, f"Change the {refusal.field} to match InferenceEnvironment {refusal.environment}, which {found}"


def _tolerate(request: SchedulingRequest, environment: Environment) -> _Relaxed:
    deployment = request.deployment
    taints = find_untolerated(environment.taints, deployment.tolerations)
    more = (Toleration(key=taint.key, any_value=True, effect=taint.effect) for taint in taints)
    tolerant = replace(deployment, tolerations=(*deployment.tolerations, *more))
    names = ", ".join(taint.describe() for taint in taints)
    removed = "the taint is" if len(taints) == 1 else "the taints are"
    advice = f"Tolerate {names} of {_name(environment)} in spec.tolerations, or wait until {removed} removed"
    return replace(request, deployment=tolerant), advice


_SMALLEST_MEMORY = 2**30  # bytes of a GPU; a pool that declares less has a size without its unit


def _relax_requirement(request: SchedulingRequest, refusal: Refusal) -> _Relaxed | None:
    """Lowers a requirement of a profile to the value that a pool has; removes the requirement if the pool has no value.

    Returns None if the refusal is not about a requirement: how many replicas fit depends on the snapshot.
    """
    profile = request.find_profile(refusal.profile)
    attribute = refusal.field.value.attribute
    if profile is None or not attribute or not refusal.required:
        return None
    value: Any = refusal.actual
    if refusal.field is Field.MEMORY_PER_GPU and value is not None and value < _SMALLEST_MEMORY:
        return None
    if isinstance(refusal.required, tuple) and isinstance(value, tuple):
        value = tuple(word for word in refusal.required if word in value)
    elif isinstance(refusal.required, BandwidthRequirement) and isinstance(value, str):
        value = replace(refusal.required, rung=value, or_better=True)
    field = refusal.required_field
    on = f"pool {refusal.pool} of InferenceEnvironment {refusal.environment}"
    if value:
        words = ", ".join(value) if isinstance(value, tuple) else refusal.columns[1]
        words += OR_BETTER if refusal.field is Field.BANDWIDTH else ""
        advice = f"If the model runs with it, set {field} of profile {profile.name} to {words}, as {on} has"
    elif refusal.remedy:
        advice = f"{refusal.remedy}; else remove the requirement from profile {profile.name}"
    else:
        without = f"remove {field} from profile {profile.name}"
        advice = f"If the model runs without it, {without}, as {on} does not have it"
    relaxed = replace(profile, requires=replace(profile.requires, **{attribute: value}))
    return _replace_profile(request, relaxed), advice


def _replace_profile(request: SchedulingRequest, profile: Profile) -> SchedulingRequest:
    profiles = tuple(profile if p.name == profile.name else p for p in request.model.profiles)
    return _replace_model(request, replace(request.model, profiles=profiles))


def _replace_model(request: SchedulingRequest, model: Model) -> SchedulingRequest:
    storage_request = replace(request.storage_request, model=model) if request.storage_request else None
    return replace(request, model=model, storage_request=storage_request)


def _fits(snapshot: Snapshot, environment: Environment, request: SchedulingRequest) -> bool:
    """Tells whether another request fits on an environment, and still fits on the chosen environments."""
    others = replace(snapshot, request=replace(request, quota_usage=None))  # chosen placements are charged already
    return replace(snapshot, request=request).fits(environment.name) and all(map(others.fits, snapshot.chosen))


def _size_order(placement: Placement) -> tuple[int, str, str]:
    requested = placement.requested
    return requested.gpus if requested else 0, placement.namespace, placement.name


def _replace_pool(environment: Environment, pool: Pool) -> Environment:
    return replace(environment, pools=tuple(pool if p.name == pool.name else p for p in environment.pools))


def _name(environment: Environment) -> str:
    return f"InferenceEnvironment {environment.name}"
