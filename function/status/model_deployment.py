"""Status of a ModelDeployment: where it is placed and why not elsewhere, and whether its placements are ready.

The condition Scheduled and `status.unplaced` come from the same refusals, nearest first, then by name. So they do not
depend on the order of environments and placements.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from function.capacity.guarantee import Guarantee
from function.contract import Condition
from function.domain.allocation import format_replicas
from function.domain.environment import Environment
from function.domain.placement import Deployment, Placement, Preference, Rollout
from function.kube.manifests import JSON, Manifest, condition, integer, listing, mapping, prune
from function.kube.messages import LIMIT, MAX_ITEMS, fit_budget, format_count, join_with_more, truncate_middle
from function.kube.names import LABEL_DEPLOYMENT, label_value
from function.reasons import (
    ConditionType,
    Phase,
    PlacementsReady,
    Refused,
    RolledOut,
    Scheduled,
    ServiceAccepted,
    Status,
)
from function.scheduling.guarantee import count_possible
from function.scheduling.turns import sort_turns
from function.scheduling.verdicts import Decision, Infeasible, SchedulingRequest
from function.scheduling.ways_out import WayOut
from function.status.scale import Scale, lower_scale

_MAX_UNPLACED = 32
_rolled_out = partial(Condition, ConditionType.ROLLED_OUT)
_placements_ready = partial(Condition, ConditionType.PLACEMENTS_READY)


def build_scheduled(
    request: SchedulingRequest,
    decision: Decision,
    ways: Sequence[WayOut] = (),
    *,
    priority: int = 0,
    guarantee_note: str = "",
) -> Condition:
    """Returns Scheduled: where the deployment is placed, or why not and the cheapest way out.

    `priority`: as its spec has it, which may be more than the platform allows.
    """
    scheduled = _build_scheduled(request, decision, ways)
    allowed = request.deployment.priority
    notes = [guarantee_note] if guarantee_note else []
    if priority > allowed:
        name = request.deployment.priority_name
        field = f"spec.priorityName: {name} ({priority})" if name else f"spec.priority: {priority}"
        notes.insert(0, f"{field} counts as {allowed}, as the platform allows no more (limits.maxPriority)")
    if not notes:
        return scheduled
    return replace(scheduled, message=truncate_middle(f"{scheduled.message}. Note: {'; '.join(notes)}"))


def describe_guarantee(
    request: SchedulingRequest,
    decision: Decision,
    placements: Sequence[Placement],
    guarantee: Guarantee | None,
    setting: str,
) -> str:
    """Returns how many guaranteed replicas are lent, as its namespace is guaranteed too few GPUs; empty if none.

    `setting`: the one that limits what is guaranteed.
    """
    possible, requested = count_possible(request, decision, placements)
    if guarantee is None or possible >= requested:
        return ""
    used = f", of which deployments that come before it have {guarantee.used}" if guarantee.used else ""
    of_namespace = f"namespace {request.deployment.namespace} is guaranteed {format_count(guarantee.gpus, 'GPU')}"
    lent = "the others are lent" if possible else "all are lent"
    return f"{possible} of {requested} guaranteed replicas count, and {lent}: {of_namespace} ({setting}){used}"


def _build_scheduled(request: SchedulingRequest, decision: Decision, ways: Sequence[WayOut]) -> Condition:
    unresolved = decision.unresolved
    reason: Scheduled | Refused
    if decision.general_refusal is not None:
        reason = decision.general_refusal.reason
    elif 0 < decision.placed < decision.desired or (decision.placed and decision.missing_replicas and not unresolved):
        reason = Scheduled.PARTIALLY_PLACED
    elif unresolved:
        reason = unresolved[0].reason
    else:
        return Condition(ConditionType.SCHEDULED, Status.TRUE, Scheduled.PLACED, _describe_placed(decision))
    message = _describe_refused(request, decision, ways)
    nearest = unresolved[0].refusals if unresolved else ()
    is_expected = bool(nearest) and all(refusal.is_starting for refusal in nearest)
    return Condition(ConditionType.SCHEDULED, Status.FALSE, reason, message, is_expected=is_expected)


def list_unplaced(decision: Decision) -> list[JSON]:
    """Returns `status.unplaced`: the nearest environments that were refused, by name."""
    nearest = sorted(decision.unresolved[:_MAX_UNPLACED], key=lambda infeasible: infeasible.environment)
    return [
        {"environment": each.environment, "reason": each.reason, "message": truncate_middle(each.message)}
        for each in nearest
    ]


def _describe_placed(decision: Decision) -> str:
    places = [
        f"{a.environment} (profile {a.profile}, pool {a.pool}, {format_replicas(a.replicas, a.shape)})"
        for a in decision.assignments
    ] + sorted(decision.unreadable)
    carried = _describe_carried(decision)
    also = f"; {carried[0].lower()}{carried[1:]}" if carried else ""
    return truncate_middle(f"Placed on {join_with_more(places)}{also}")


def _describe_refused(request: SchedulingRequest, decision: Decision, ways: Sequence[WayOut]) -> str:
    carried = _describe_carried(decision)
    unresolved = decision.unresolved
    if decision.general_refusal is not None:
        return _join_parts(decision.general_refusal.message, (), [carried, decision.general_refusal.remedy])
    lines = [f"{infeasible.environment}: {infeasible.message}" for infeasible in unresolved[:MAX_ITEMS]]
    more = f"and {len(unresolved) - MAX_ITEMS} more" if len(unresolved) > MAX_ITEMS else ""
    if not unresolved:
        instead = "raise" if decision.is_divided else "lower"
        more = f"No further environments exist: create an InferenceEnvironment, or {instead} spec.environments"
    # If there is no way out, the message says what to do only if a single environment is nearest and has one refusal.
    nearest = [infeasible for infeasible in unresolved if infeasible.reason is unresolved[0].reason]
    advice = ways[0].message if ways else nearest[0].remedy if len(nearest) == 1 else ""
    return _join_parts(_describe_counts(request, decision, unresolved), lines, [more, carried, advice])


def _describe_counts(request: SchedulingRequest, decision: Decision, unresolved: Sequence[Infeasible]) -> str:
    counts = Counter(infeasible.reason for infeasible in unresolved if infeasible.granted_replicas is None)
    clauses = [reason.describe(counts[reason]) for reason in Refused if counts[reason]]
    not_scaled = sum(infeasible.granted_replicas is not None for infeasible in unresolved)
    if not_scaled and decision.is_divided:
        clauses.append(f"{not_scaled} {'has' if not_scaled == 1 else 'have'} room for no more")
    elif not_scaled:
        clauses.append(f"{not_scaled} cannot be scaled up to {request.deployment.replicas} replicas")
    desired = f" ({decision.desired} desired)" if decision.desired > 1 else ""
    head = f"{decision.placed}/{decision.candidates} environments can run {request.model.name}{desired}"
    if decision.divided_replicas is not None:
        placed = decision.divided_replicas - decision.missing_replicas
        head = f"{placed}/{decision.divided_replicas} replicas of {request.model.name} fit"
    return f"{head}: {', '.join(clauses)}." if clauses else f"{head}."


def _describe_carried(decision: Decision) -> str:
    names = [p.environment for p in decision.carried if p.environment not in decision.unreadable]
    parts = [f"Kept on {join_with_more(names)} until the replacements are Ready"] if names else []
    for draining in decision.draining:
        named = join_with_more([f"ModelService {name}" for name in draining.held_by])
        until = f"{named} sends it no requests any more" if named else "no ModelService sends it requests"
        parts.append(f"Kept on {draining.placement.environment} until {until}")
    return "; ".join(parts)


def _join_parts(head: str, lines: Sequence[str], tail: Sequence[str]) -> str:
    """Joins the parts; if they are too long, the lines share what the other parts leave of the limit."""
    ends = [part for part in tail if part]
    rest = sum(len(part.encode()) + 1 for part in (head, *ends)) + len(lines)
    return truncate_middle("\n".join((head, *fit_budget(lines, LIMIT - rest), *ends)))


def build_placements_ready(placements: Sequence[Placement], desired: int, *, replicas: int = 0) -> Condition:
    """Returns PlacementsReady; a placement whose cluster is unreachable makes it Unknown, not False.

    `replicas`: the replicas that the deployment requests for each of the `desired` placements. A placement that may
    have no replicas does not serve.
    """
    if not placements:
        message = "No placement exists; Scheduled says why"
        return _placements_ready(Status.FALSE, PlacementsReady.NOTHING_PLACED, message)
    unreachable = sorted(p.environment for p in placements if p.unreachable)
    if unreachable:
        message = f"Unknown on {join_with_more(unreachable)}: the conditions of its placement say why"
        return _placements_ready(Status.UNKNOWN, PlacementsReady.UNREACHABLE, message)
    serving = [p for p in placements if p.ready and (p.replicas or not replicas)]
    counts = f"{len(serving)} of {desired} placements are ready"
    if len(serving) >= desired:
        return _placements_ready(Status.TRUE, PlacementsReady.READY, f"{counts}{_describe_obstacles(placements)}")
    phases = (Phase.FAILED, *Phase)  # failed placements come first, then the placements that are furthest from Ready
    unready = sorted((p for p in placements if p not in serving), key=lambda p: (phases.index(p.phase), p.name))
    rows = join_with_more([_describe_unready(p) for p in unready], separator="; ")
    message = f"{counts}; {rows or 'Scheduled says why there are no more'}"
    return _placements_ready(Status.FALSE, PlacementsReady.STARTING, message)


def _describe_unready(placement: Placement) -> str:
    if placement.ready:
        return f"{placement.name} on {placement.environment}: no replicas, Scheduled says why"
    # The reason would only repeat what the phase says.
    cause = placement.obstacle if f"({placement.phase})" not in placement.obstacle else ""
    return f"{placement.name} on {placement.environment}: {', '.join(filter(None, (placement.phase, cause)))}"


def _describe_obstacles(placements: Sequence[Placement]) -> str:
    """Names ready placements with another condition that is not True, for example while new weights are downloaded."""
    behind = sorted((p for p in placements if p.ready and p.obstacle), key=lambda p: p.name)
    rows = [f"{p.name} on {p.environment} keeps serving, and its {p.obstacle}" for p in behind]
    return f". {join_with_more(rows, separator='; ')}" if rows else ""


def build_rolled_out(
    xr: Manifest,
    rollout: Rollout | None,
    placements: Sequence[Placement],
    leaving: Collection[Placement] = (),
    gate_obstacle: str = "",
    *,
    model_generation: int = 0,
) -> tuple[Condition, ...]:
    """Returns RolledOut; empty if environments never changed one by one."""
    if rollout is None:
        if not condition(xr, ConditionType.ROLLED_OUT):
            return ()
        return (_rolled_out(Status.UNKNOWN, RolledOut.ALL_AT_ONCE, "All environments change at the same time"),)
    turns = sort_turns(rollout, placements, leaving, model_generation=model_generation)
    counts = f"{len(turns.changed)} of {turns.total} environments serve the requested spec and are Ready"
    if len(turns.changed) == turns.total and not turns.outdated:
        return (_rolled_out(Status.TRUE, RolledOut.UP_TO_DATE, counts),)
    failed = any(_has_failed(p) for p in turns.changing)
    reason = RolledOut.PAUSED if rollout.paused else RolledOut.STOPPED if failed else RolledOut.ROLLING
    if gate_obstacle:
        reason = RolledOut.WAITING_FOR_GATE
    parts = [counts, *(_describe_changing(p) for p in turns.changing), *filter(None, [gate_obstacle])]
    if turns.outdated:
        environments = join_with_more([p.environment for p in turns.outdated])
        parts.append(f"waits for placements to read the changed model or spec: {environments}")
    if turns.waiting:
        parts.append(f"not changed yet: {join_with_more([p.environment for p in turns.waiting])}")
    return (_rolled_out(Status.FALSE, reason, "; ".join(parts)),)


def _has_failed(placement: Placement) -> bool:
    is_refused = placement.phase is Phase.FAILED or f"({ServiceAccepted.REJECTED})" in placement.obstacle
    return is_refused or (placement.rollout.update is not None and placement.rollout.update.stalled)


def _describe_changing(placement: Placement) -> str:
    if placement.ready and (update := placement.rollout.update):
        return f"{placement.name} on {placement.environment}: {update.message}"
    if not placement.ready or not placement.replicas:
        return _describe_unready(placement)
    # It may change, and does not yet, for example while an adapter is downloaded.
    obstacle = f", and its {placement.obstacle}" if placement.obstacle else ""
    return f"{placement.name} on {placement.environment}: it still serves the earlier spec{obstacle}"


def note_missing_prices(deployment: Deployment, environments: Iterable[Environment]) -> str:
    """Returns a note if the cheapest pool is preferred and no pool has a price; empty otherwise."""
    pools = [pool for environment in environments for pool in environment.pools]
    if deployment.prefer is not Preference.CHEAPEST or not pools or any(pool.price for pool in pools):
        return ""
    return "is Cheapest, and no pool has a price, so the smallest that suffices is chosen; set price of the pools"


def build_status(request: SchedulingRequest, decision: Decision, placed: Sequence[Placement], scale: Scale) -> Manifest:
    """Returns the status; `placed` are the placements of the decision's assignments, with what they hold for now."""
    draining = [drained.placement for drained in decision.draining]
    placements = sorted([*placed, *decision.carried, *draining], key=lambda p: (p.environment, p.name))
    urls = [p.service.url for p in placements if p.service.url]
    rows: list[JSON] = [_build_row(p) for p in placements]
    return prune(
        {
            "model": {"name": request.model.served_name},
            "environments": {
                "desired": decision.desired,
                "placed": decision.placed,
                # A placement that serves counts wherever it runs, even if its environment was deleted.
                "ready": min(decision.desired, sum(p.ready and not p.unreachable for p in placements)),
            },
            "replicas": sum(a.replicas for a in decision.assignments),
            "scale": {
                # In the unit of the spec, because an autoscaler compares the two.
                "replicas": scale.running,
                "requested": scale.requested,
                "granted": scale.granted,
                "selector": f"{LABEL_DEPLOYMENT}={label_value(request.deployment.name)}",
            },
            "gpus": sum(p.shape.gpus * p.replicas for p in placements if p.shape),
            "url": urls[0] if len(urls) == 1 else None,
            "placements": rows,
            "unplaced": list_unplaced(decision),
        }
    )


def lower_replicas(status: Manifest, replicas: int) -> Manifest:
    """Returns an observed status in which no placement has more than `replicas`."""
    observed = listing(status, "placements")
    rows: list[JSON] = [{**row, "replicas": min(integer(row, "replicas"), replicas)} for row in observed]
    if rows == observed:
        return status
    sizes = [(integer(row, "nodes") * integer(row, "gpusPerNode"), integer(row, "replicas")) for row in rows]
    return {
        **status,
        # Placements that are carried over do not count, but their rows do not show that they are carried over.
        "replicas": min(integer(status, "replicas"), integer(status, "environments.placed") * replicas),
        "scale": lower_scale(mapping(status, "scale"), replicas),
        "gpus": sum(gpus * count for gpus, count in sizes),
        "placements": rows,
    }


def _build_row(placement: Placement) -> Manifest:
    shape = placement.shape
    return prune(
        {
            "name": placement.name,
            "environment": placement.environment,
            "profile": placement.profile,
            "pool": placement.pool,
            "nodes": shape.nodes if shape else None,
            "gpusPerNode": shape.gpus_per_node if shape else None,
            "replicas": placement.replicas,
            "servedDigest": placement.rollout.served_digest or None,
            "requestedDigest": placement.rollout.requested_digest or None,
            "phase": placement.phase,
            "url": placement.service.url or None,
        }
    )
