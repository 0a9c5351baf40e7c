"""The decision for one deployment: retain, scale down, reschedule in place, choose environments, carry over or drop.

A placement that could neither be kept nor updated in place is carried over until enough others are Ready, so that no
move, and no list that is briefly empty, removes a running service. It is charged as long as it exists, and does not
count as placed. The order of the inputs changes nothing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from function.domain.allocation import QuotaUsage
from function.domain.environment import Environment, Pool
from function.domain.placement import Placement, Preference
from function.kube.names import hash_parts
from function.reasons import Refused
from function.scheduling.filters import FilterFunc, filter_environment, filter_for_reschedule
from function.scheduling.ledger import Ledger
from function.scheduling.quota import charge_assignments
from function.scheduling.refusals import Field, Refusal
from function.scheduling.retention import Retained, retain, scale_existing
from function.scheduling.verdicts import (
    Assignment,
    Decision,
    DropCause,
    Dropped,
    Infeasible,
    SchedulingRequest,
    Verdict,
)
from function.weights.faults import FaultKind, StorageFault

FilterFactory: TypeAlias = Callable[[SchedulingRequest], FilterFunc]
NO_POOL = Pool(name="", gpus_per_node=0, max_nodes=0)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Everything that one decision is made from."""

    request: SchedulingRequest
    environments: Mapping[str, Environment]  # by name, in this order; without those that are being deleted
    ledger: Ledger  # what others have
    make_filter: FilterFactory
    usage: QuotaUsage | None


def schedule(
    request: SchedulingRequest,
    environments: Sequence[Environment],
    placements: Sequence[Placement],
    make_filter: FilterFactory = lambda _: filter_environment,
    usage: QuotaUsage | None = None,
) -> Decision:
    """Decides where a deployment runs.

    `placements` are its own, and all others on environments where it has one or which publish no ledger: the capacity
    of every other environment is what it publishes. `make_filter` makes the filter for a request, which may return
    cached verdicts. `usage` is what the namespace has of its quota: where a new placement does not fit it, a smaller
    shape is tried.
    """
    own: list[Placement] = []
    others: list[Placement] = []
    for placement in placements:
        is_own = placement.deployment == request.deployment.name and placement.namespace == request.deployment.namespace
        (own if is_own else others).append(placement)
    known = sorted((e for e in environments if not e.deleting), key=lambda e: e.name)
    ledger = Ledger(others, own)
    snapshot = _Snapshot(request, {e.name: e for e in known}, ledger, make_filter, usage)

    desired = request.deployment.environments
    retained = retain(request, snapshot.environments, own, ledger)
    kept = retained.kept[:desired]
    scaled = [
        scale_existing(request, snapshot.environments[p.environment], p, p.shape, ledger)
        for p in kept
        if p.shape is not None
    ]
    if usage:  # what grows is charged before what is new
        snapshot = replace(snapshot, usage=charge_assignments(usage, (assignment for assignment, _ in scaled)))
    not_scaled = [infeasible for _, infeasible in scaled if infeasible is not None]
    fault: Refusal | None = None  # what rules out every environment at once
    storage_fault = find_unsatisfiable_storage(request, known)
    if storage_fault is not None:
        fault = Refusal(reason=Refused.INVALID_DEPLOYMENT, field=Field.STORAGE, storage=storage_fault)
    elif not known:
        fault = Refusal(reason=Refused.NO_ENVIRONMENTS, field=Field.ENVIRONMENTS)
    limit = 0 if fault else desired
    rescheduled = _reschedule_in_place(snapshot, retained.to_reschedule, limit - len(kept))
    used = frozenset(a.environment for a in rescheduled).union(p.environment for p in kept)
    chosen, refused = _choose_environments(snapshot, retained, used, limit - len(used))
    assigned = (*(assignment for assignment, _ in scaled), *rescheduled, *chosen)
    assignments = tuple(sorted(assigned, key=lambda a: a.environment))
    carried, dropped = _split_carried_and_dropped(retained, kept, assignments, desired)
    return Decision(
        assignments=assignments,
        carried=carried,
        dropped=dropped,
        refusals=tuple(sorted((*not_scaled, *refused), key=lambda infeasible: infeasible.environment)),
        fault=fault,
        unreadable=frozenset(p.environment for p in kept if p.shape is None),
        candidates=len(snapshot.environments),
        desired=desired,
    )


def find_unsatisfiable_storage(
    request: SchedulingRequest,
    environments: Iterable[Environment],
    reasons: Collection[Refused] = (Refused.INVALID_DEPLOYMENT,),
) -> StorageFault | None:
    """Returns a fault of the deployment's storage where it suits no profile on any environment."""
    first_fault = None
    for environment in [*environments] or [Environment(name="")]:
        for profile in request.model.profiles:
            if profile.shape is None:
                return None  # its shape depends on the pool
            faults = request.find_storage_faults(environment, NO_POOL, profile.shape)
            # A service account is set by an environment, so another one may do.
            faults = tuple(f for f in faults if f.reason in reasons and f.kind is not FaultKind.EMPTY_DIR_ACCOUNT)
            if not faults:
                return None
            first_fault = first_fault or faults[0]
    return first_fault


def _reschedule_in_place(snapshot: _Snapshot, placements: Iterable[Placement], limit: int) -> tuple[Assignment, ...]:
    rescheduled: list[Assignment] = []
    for placement in placements:
        environment = snapshot.environments.get(placement.environment)
        if environment is None or len(rescheduled) >= limit:
            continue
        verdict = filter_for_reschedule(snapshot.request, environment, snapshot.ledger)
        if isinstance(verdict, Assignment):
            rescheduled.append(replace(verdict, placement=placement))
    return tuple(rescheduled)


def _choose_environments(
    snapshot: _Snapshot, retained: Retained, used: frozenset[str], limit: int
) -> tuple[tuple[Assignment, ...], tuple[Infeasible, ...]]:
    """Chooses environments until there are enough; an evicted placement may be chosen again in another shape.

    A new placement that exceeds the quota is filtered again on the same environment, for what fits the quota.
    """
    evicted = {d.placement.environment: d.placement for d in retained.dropped if d.cause is DropCause.EVICTED}
    chosen: list[Assignment] = []
    refused: list[Infeasible] = []
    usage = snapshot.usage
    filter_within_quota: FilterFunc | None = None
    verdicts = _filter_in_order(snapshot, used, after_eviction=bool(evicted))
    while len(chosen) < limit and (verdict := next(verdicts, None)) is not None:
        existing = evicted.get(verdict.environment)
        to_charge = None if existing else usage  # what exists is charged already
        if to_charge and isinstance(verdict, Assignment) and to_charge.find_excess(verdict.gpus, verdict.price):
            request = replace(snapshot.request, quota_usage=to_charge)
            filter_within_quota = filter_within_quota or snapshot.make_filter(request)
            verdict = filter_within_quota(request, snapshot.environments[verdict.environment], snapshot.ledger)
        if isinstance(verdict, Infeasible):
            refused.append(verdict)
            continue
        chosen.append(replace(verdict, placement=existing))
        if to_charge:
            usage = to_charge.with_more(f"its own on {verdict.environment}", verdict.gpus, verdict.price)
            filter_within_quota = None
    return tuple(chosen), tuple(refused)


def _filter_in_order(snapshot: _Snapshot, used: frozenset[str], *, after_eviction: bool) -> Iterator[Verdict]:
    """Returns verdicts in the order in which environments are chosen, by name.

    Where the cheapest or the smallest is preferred, the refusals come first, then the feasible environments by rank.
    """
    deployment, names = snapshot.request.deployment, [name for name in snapshot.environments if name not in used]
    if after_eviction:
        # Deployments that competed for one environment spread by a hash of their own.
        names.sort(key=lambda name: hash_parts(deployment.namespace, deployment.name, name))
    filter_cached = snapshot.make_filter(snapshot.request)
    verdicts = (filter_cached(snapshot.request, snapshot.environments[name], snapshot.ledger) for name in names)
    if deployment.prefer is Preference.DECLARED:
        yield from verdicts
        return
    feasible: list[Assignment] = []
    for verdict in verdicts:
        if isinstance(verdict, Infeasible):
            yield verdict
        else:
            feasible.append(verdict)
    yield from sorted(feasible, key=lambda a: a.preference[:5] if after_eviction else a.preference)


def _split_carried_and_dropped(
    retained: Retained, kept: tuple[Placement, ...], assignments: tuple[Assignment, ...], desired: int
) -> tuple[tuple[Placement, ...], tuple[Dropped, ...]]:
    reused = [a.placement for a in assignments if a.placement is not None]
    moving = [p for p in retained.to_reschedule if p not in reused]
    ready = sum(p.ready and not p.deleting for p in kept)
    to_carry = max(0, desired - ready)
    surplus = moving[to_carry:]
    dropped = (
        *(d for d in retained.dropped if d.placement not in reused),
        *(Dropped(placement=p, cause=DropCause.SCALED_DOWN) for p in retained.kept[len(kept) :]),
        *(Dropped(placement=p, cause=DropCause.REPLACED) for p in surplus[:ready]),
        *(Dropped(placement=p, cause=DropCause.SCALED_DOWN) for p in surplus[ready:]),
    )
    carried = (*(p for p in kept if p.shape is None), *moving[:to_carry])
    return (
        tuple(sorted(carried, key=lambda p: (p.environment, p.name))),
        tuple(sorted(dropped, key=lambda d: (d.placement.environment, d.placement.name))),
    )
