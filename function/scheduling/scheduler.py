"""The decision for one deployment: retain, scale down, decide again in place, fill, and let go.

What stays comes first (retain.py). Where that is more than wanted, those that are not Ready go first, of
them those that never were, then the last by name. Where it is less, a placement that must be decided again
is updated in place if its own environment still has a pool for it; then environments are filled by name, the
first pool that satisfies everything wins, or the smallest of all of them where that is preferred
(preference.py). Who has just yielded takes them in an order of his own.

A placement that could neither stay nor be updated in place is carried until as many as wanted are Ready
without it, so that no move and no list that is briefly empty takes anything down. It is charged as long as
it exists, and does not count as placed. The order of the inputs means nothing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from function.domain.allocation import QuotaUsage
from function.domain.environment import Environment, Pool
from function.domain.placement import Placement, Preference
from function.kube.names import hash_parts
from function.reasons import Refused
from function.scheduling.filters import FilterFunc, filter_environment, filter_for_reschedule, smallest_first
from function.scheduling.ledger import Ledger
from function.scheduling.retention import Retained, retain, scale_existing
from function.scheduling.verdicts import (
    Assignment,
    Decision,
    DropCause,
    Dropped,
    Feasible,
    Field,
    Infeasible,
    Refusal,
    SchedulingRequest,
    Verdict,
)
from function.weights.faults import FaultKind, StorageFault

FilterFactory: TypeAlias = Callable[[SchedulingRequest], FilterFunc]
NO_POOL = Pool(name="", gpus_per_node=0, max_nodes=0)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What is looked at: environments by name save those that go, own placements, what others take."""

    request: SchedulingRequest
    environments: Mapping[str, Environment]
    own: tuple[Placement, ...]
    ledger: Ledger
    filter_factory: FilterFactory
    quota: QuotaUsage | None


def uncached(_: SchedulingRequest) -> FilterFunc:
    """Return what judges every request anew."""
    return filter_environment


def schedule(
    request: SchedulingRequest,
    environments: Sequence[Environment],
    placements: Sequence[Placement],
    judging: FilterFactory = uncached,
    quota: QuotaUsage | None = None,
) -> Decision:
    """Decide where a deployment runs.

    `placements` are its own, and all others on environments on which it has one or which keep no ledger; what is free
    on any other is what that has published. `judging` makes what judges a request, and may remember what that found.
    `quota` is what the namespace takes of its quota, where it has one: of what is new, what does not fit beside that is
    looked for in a smaller size.
    """
    scene = _take_snapshot(request, environments, placements, judging, quota)
    wanted = request.deployment.environments
    retained = retain(request, scene.environments, scene.own, scene.ledger)
    staying = retained.retained[:wanted]
    kept, stunted = _scale_staying(scene, staying)
    fault = _find_fault(scene)
    refused = fault is not None
    again = () if refused else _reschedule_in_place(scene, retained.to_reschedule, wanted - len(staying))
    taken = frozenset(a.environment for a in again).union(p.environment for p in staying)
    fresh, misses = ((), ()) if refused else _fill_environments(scene, retained, taken, wanted - len(taken))
    assignments = tuple(sorted((*kept, *again, *fresh), key=lambda a: a.environment))
    carried, dropped = _split_carried_and_dropped(retained, staying, assignments, wanted)
    return Decision(
        assignments=assignments,
        carried=carried,
        dropped=dropped,
        refusals=tuple(sorted((*stunted, *misses), key=lambda m: m.environment)),
        fault=fault,
        unreadable=frozenset(p.environment for p in staying if p.shape is None),
        candidates=len(scene.environments),
        wanted=wanted,
    )


def _take_snapshot(
    request: SchedulingRequest,
    environments: Sequence[Environment],
    placements: Sequence[Placement],
    judging: FilterFactory,
    quota: QuotaUsage | None,
) -> _Snapshot:
    namespace, name = request.deployment.namespace, request.deployment.name
    own: list[Placement] = []
    others: list[Placement] = []
    for placement in placements:
        mine = placement.deployment == name and placement.namespace == namespace
        (own if mine else others).append(placement)
    known = sorted((e for e in environments if not e.deleting), key=lambda e: e.name)
    return _Snapshot(request, {e.name: e for e in known}, tuple(own), Ledger(others, own), judging, quota)


def _find_fault(scene: _Snapshot) -> Refusal | None:
    """Return what rules out every environment at once."""
    found = unsatisfiable_storage(scene.request, scene.environments.values())
    if found is not None:
        return Refusal(reason=Refused.INVALID_DEPLOYMENT, field=Field.STORAGE, storage=found)
    if not scene.environments:
        return Refusal(reason=Refused.NO_ENVIRONMENTS, field=Field.ENVIRONMENTS)
    return None


def unsatisfiable_storage(
    request: SchedulingRequest,
    environments: Iterable[Environment],
    reasons: Collection[Refused] = (Refused.INVALID_DEPLOYMENT,),
) -> StorageFault | None:
    """Return what the deployment says about its weights where that suits no profile on any environment."""
    fault = None
    for environment in [*environments] or [Environment(name="")]:
        for profile in request.model.profiles:
            if profile.shape is None:
                return None  # what shape it takes is the pool's to say
            faults = request.storage_check(environment, NO_POOL, profile.shape, request.deployment.replicas)
            # That of an account is an environment's.
            blamed = [
                each for each in faults if each.reason in reasons and each.kind is not FaultKind.EMPTY_DIR_ACCOUNT
            ]
            if not blamed:
                return None
            fault = fault or blamed[0]
    return fault


def _scale_staying(
    scene: _Snapshot, staying: Iterable[Placement]
) -> tuple[tuple[Assignment, ...], tuple[Infeasible, ...]]:
    """Return what stays and can be read, and why some of it has fewer replicas than wanted."""
    found = [
        scale_existing(scene.request, scene.environments[p.environment], p, p.shape, scene.ledger)
        for p in staying
        if p.shape is not None
    ]
    return tuple(a for a, _ in found), tuple(m for _, m in found if m is not None)


def _reschedule_in_place(scene: _Snapshot, placements: Iterable[Placement], room: int) -> tuple[Assignment, ...]:
    """Decide placements again on their own environments, where those still have a pool for them."""
    found: list[Assignment] = []
    for placement in placements:
        environment = scene.environments.get(placement.environment)
        if environment is None or len(found) >= room:
            continue
        verdict = filter_for_reschedule(scene.request, environment, scene.ledger)
        if isinstance(verdict, Feasible):
            found.append(_make_assignment(scene, verdict, placement))
    return tuple(found)


def _fill_environments(
    scene: _Snapshot, retained: Retained, taken: frozenset[str], room: int
) -> tuple[tuple[Assignment, ...], tuple[Infeasible, ...]]:
    """Choose environments by name until there is enough; what yielded may come back in another shape."""
    yielded = {d.placement.environment: d.placement for d in retained.dropped if d.cause is DropCause.EVICTED}
    found: list[Assignment] = []
    misses: list[Infeasible] = []
    verdicts, quota = _filter_in_order(scene, taken, contended=bool(yielded)), _Quota(scene)
    while len(found) < room and (verdict := next(verdicts, None)) is not None:
        there = yielded.get(verdict.environment)
        # What is there is charged already, and is judged with all that is.
        judged = verdict if there else quota.within(verdict)
        if isinstance(judged, Infeasible):
            misses.append(judged)
            continue
        found.append(_make_assignment(scene, judged, there))
        if there is None:
            quota.charge(judged)
    return tuple(found), tuple(misses)


class _Quota:
    """What is left of a namespace's quota while environments are chosen."""

    def __init__(self, scene: _Snapshot) -> None:
        self._scene, self._taken = scene, scene.quota
        self._judge: FilterFunc | None = None

    def within(self, verdict: Verdict) -> Verdict:
        """Return a verdict; where what was chosen is beyond the quota, on what takes less on its environment."""
        if self._taken is None or isinstance(verdict, Infeasible) or self._taken.of(self._gpus(verdict)) is None:
            return verdict
        scene = self._scene
        request = replace(scene.request, quota_usage=self._taken)
        self._judge = self._judge or scene.filter_factory(request)
        return self._judge(request, scene.environments[verdict.environment], scene.ledger)

    def charge(self, fit: Feasible) -> None:
        """Charge one that was chosen."""
        if self._taken is not None:
            self._taken, self._judge = self._taken.beside(f"its own on {fit.environment}", self._gpus(fit)), None

    def _gpus(self, fit: Feasible) -> int:
        return fit.shape.gpus * self._scene.request.deployment.replicas


def _filter_in_order(scene: _Snapshot, taken: frozenset[str], *, contended: bool) -> Iterator[Verdict]:
    """Return what is said of environments in the order in which they are chosen: lazily, or all for the smallest."""
    me, others = scene.request.deployment, [name for name in scene.environments if name not in taken]
    if contended:
        # By a hash of the deployment's own, so that those who lost part.
        others.sort(key=lambda name: hash_parts(me.namespace, me.name, name))
    filter_environment = scene.filter_factory(scene.request)
    verdicts = (filter_environment(scene.request, scene.environments[name], scene.ledger) for name in others)
    return verdicts if me.prefer is Preference.DECLARED else smallest_first(verdicts, by_name=not contended)


def _make_assignment(scene: _Snapshot, fit: Feasible, placement: Placement | None) -> Assignment:
    return Assignment(
        environment=fit.environment,
        profile=fit.profile,
        pool=fit.pool,
        shape=fit.shape,
        replicas=scene.request.deployment.replicas,
        vram=fit.vram,
        placement=placement,
    )


def _split_carried_and_dropped(
    retained: Retained, staying: tuple[Placement, ...], assignments: tuple[Assignment, ...], wanted: int
) -> tuple[tuple[Placement, ...], tuple[Dropped, ...]]:
    """Return what is carried and what is dropped: what moves stays until enough others are Ready."""
    reused = [a.placement for a in assignments if a.placement is not None]
    moving = [p for p in retained.to_reschedule if p not in reused]
    ready = sum(p.ready and not p.deleting for p in staying)
    carry = max(0, wanted - ready)
    going = moving[carry:]
    dropped = (
        *(d for d in retained.dropped if d.placement not in reused),
        *(Dropped(placement=p, cause=DropCause.SCALED_DOWN) for p in retained.retained[len(staying) :]),
        *(Dropped(placement=p, cause=DropCause.REPLACED) for p in going[:ready]),
        *(Dropped(placement=p, cause=DropCause.SCALED_DOWN) for p in going[ready:]),
    )
    carried = (*(p for p in staying if p.shape is None), *moving[:carry])
    return (
        tuple(sorted(carried, key=lambda p: (p.environment, p.name))),
        tuple(sorted(dropped, key=lambda d: (d.placement.environment, d.placement.name))),
    )
