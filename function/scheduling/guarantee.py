"""Guaranteed replicas within the guarantee of the namespace: what is taken back for them, and what placements say.

As many replicas of a deployment are guaranteed as its namespace has GPUs left for (capacity/guarantee.py). The others
are lent, whatever its spec says: nothing is taken back for them, and others may take them back. Where one deployment
has several placements, the older ones come first; divided replicas that were guaranteed stay so.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from function.capacity.pools import compute_shape
from function.domain.allocation import Limits, QuotaUsage
from function.domain.environment import Environment
from function.domain.placement import Placement
from function.scheduling.verdicts import Assignment, Decision, SchedulingRequest


def sort_by_age(placements: Iterable[Placement]) -> list[Placement]:
    """Returns placements in the order in which their replicas are guaranteed: those that do not exist yet come last."""
    return sorted(placements, key=lambda p: (not p.uid, p.created, p.uid, p.environment))


def list_guaranteed_numbers(request: SchedulingRequest, environments: Iterable[Environment]) -> set[int]:
    """Returns for how many replicas of a new placement lent replicas are taken back; empty if for none.

    If not all guaranteed replicas can be guaranteed, it depends on their shape how many can.
    """
    most = request.deployment.guaranteed_replicas
    if request.guaranteed_gpus is None:
        return {most} - {0}
    shapes = {
        compute_shape(profile, request.model.vram, pool)
        for environment in environments
        for pool in environment.pools
        for profile in request.model.profiles
    }
    return {request.count_guaranteed(most, shape) for shape in shapes if shape} - {0}


def limit_to_guarantee(request: SchedulingRequest, usage: QuotaUsage | None) -> QuotaUsage | None:
    """Returns the usage of a quota that allows no more GPUs than can still be guaranteed."""
    more = request.guaranteed_gpus
    if more is None:
        return usage
    usage = usage or QuotaUsage(
        namespace=request.deployment.namespace, limits=Limits(), placements=0, gpus=0, requested=0, holders=()
    )
    most = min(usage.gpus + more, usage.limits.gpus or usage.gpus + more)
    return replace(usage, limits=replace(usage.limits, gpus=most))


def share_guaranteed(
    request: SchedulingRequest, assignments: Iterable[Assignment], placements: Sequence[Placement]
) -> list[Placement]:
    """Returns the placements of the assignments, each with the replicas that are guaranteed to it.

    If the replicas are divided, replicas that run are guaranteed first, and of these the ones that were guaranteed
    before.
    """
    had = {a.environment: a.placement.guaranteed_replicas if a.placement else 0 for a in assignments}
    return _share(request, had, placements)


def list_guarantees(request: SchedulingRequest, own: Sequence[Placement]) -> tuple[tuple[str, int], ...]:
    """Returns how many replicas are guaranteed to each placement of a deployment from now on, by environment."""
    had = {p.environment: p.guaranteed_replicas for p in own}
    placements = [replace(p, guaranteed=request.deployment.guaranteed) for p in own if not p.is_leaving]
    return tuple((p.environment, p.guaranteed_replicas) for p in _share(request, had, placements))


def _share(request: SchedulingRequest, had: Mapping[str, int], placements: Sequence[Placement]) -> list[Placement]:
    """Returns the placements, each with the replicas that are guaranteed to it; `had`: these so far."""
    deployment, gpus = request.deployment, request.guaranteed_gpus
    divides = deployment.divides_replicas
    if gpus is None and (deployment.guaranteed is None or not divides):
        return [*placements]
    parts: dict[str, int] = {}
    left = deployment.guaranteed_replicas

    def order(p: Placement) -> tuple[int, int, int, str]:
        stays = min(had[p.environment], p.running_replicas)
        return -stays, -p.running_replicas, -had[p.environment], p.environment

    for each in sorted(placements, key=order) if divides else sort_by_age(placements):
        # A number that does not depend on the replicas: these are fewer while some are given back.
        part = min(each.replicas, left) if divides else deployment.guaranteed_replicas
        if gpus is not None:
            part = min(part, gpus // max(1, each.gpus_per_replica))
            gpus -= min(part, each.replicas) * each.gpus_per_replica
        left -= part
        parts[each.environment] = part
    return [replace(each, guaranteed=parts[each.environment]) for each in placements]


def build_placements(
    request: SchedulingRequest, decision: Decision, created: str = "", *, keep: bool = False
) -> list[Placement]:
    """Returns the placements of a decision, with what is guaranteed to them.

    `created`: when the deployment was created, to be recorded on them; empty: it is not. `keep`: those that exist are
    guaranteed as many replicas as before.
    """
    assignments = decision.assignments
    placements = share_guaranteed(request, assignments, [request.to_placement(each) for each in assignments])
    if not created and not keep and not any(placement.deployment_created for placement in placements):
        return placements
    return [
        replace(
            placement,
            guaranteed=existing.guaranteed if keep and existing else placement.guaranteed,
            deployment_created=created
            if not keep and _may_record(existing, decision)
            else placement.deployment_created,
        )
        for placement, existing in zip(placements, (each.placement for each in assignments), strict=True)
    ]


def _may_record(existing: Placement | None, decision: Decision) -> bool:
    """Tells whether a placement may have the age of its deployment: not yet if it takes over from another one."""
    return not decision.carried or (existing is not None and bool(existing.deployment_created))


def count_possible(request: SchedulingRequest, decision: Decision, placements: Iterable[Placement]) -> tuple[int, int]:
    """Returns how many guaranteed replicas of a deployment its namespace has GPUs for, and how many it requests.

    `placements`: those of the assignments. For replicas without a place, the smallest declared shape counts.
    """
    deployment = request.deployment
    requested = deployment.guaranteed_replicas * (1 if deployment.divides_replicas else decision.desired)
    if request.guaranteed_gpus is None:
        return requested, requested
    left = request.guaranteed_gpus - sum(p.guaranteed_replicas * p.gpus_per_replica for p in placements)
    claimed = sum(min(p.replicas, deployment.guaranteed_replicas) for p in placements)
    counted = sum(p.guaranteed_replicas for p in placements)
    sizes = [a.shape.gpus for a in decision.assignments] or [p.shape.gpus for p in request.model.profiles if p.shape]
    fitting = max(0, left) // min(sizes, default=1)
    return counted + min(max(0, requested - claimed), fitting), requested
