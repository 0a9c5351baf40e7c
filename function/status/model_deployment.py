"""What is said of a ModelDeployment: where it runs, how big it is, and whether its placements are up.

A decision in words: the condition Scheduled and `status.unplaced`, both from the same refusals.

First a header that counts environments by reason, then one line for each of the nearest environments, then
what stays where it is in the meantime, then what to do where that is unambiguous. The condition's reason is
that of the nearest environment: the one that got furthest through the checks. Nearest first, then by name,
so that the order of environments and placements changes nothing. The message keeps within 1 KiB: five lines
share what is left.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from function.contract import Condition
from function.domain.model import Problem
from function.domain.placement import Placement
from function.kube.manifests import JSON, Manifest, integer, listing, prune
from function.kube.messages import LIMIT, MAX_ITEMS, fit_budget, join_with_more, truncate_middle
from function.reasons import ConditionType, Phase, PlacementsReady, Refused, Scheduled, Status
from function.scheduling.verdicts import Assignment, Decision, Infeasible, Refusal, SchedulingRequest
from function.status.conditions import faulty
from function.status.sentences import describe, remedy, sentence, size

UNPLACED = 32

PHRASES: Mapping[Refused, str] = {
    Refused.INVALID_DEPLOYMENT: "deployment invalid",
    Refused.NO_ENVIRONMENTS: "no environment",
    Refused.NO_ENVIRONMENT_MATCHES: "selector does not match",
    Refused.INVALID_PROFILE: "profile invalid",
    Refused.NO_POOL_SATISFIES_REQUIREMENTS: "no pool satisfies the requirements",
    Refused.SHARED_STORAGE_MISSING: "no shared storage",
    Refused.STORAGE_TOO_SMALL: "storage too small",
    Refused.CACHE_NOT_ON_ENVIRONMENT: "cache not on environment",
    Refused.POOL_TOO_SMALL: "pool too small",
    Refused.INSUFFICIENT_CAPACITY: "insufficient capacity",
    Refused.ENVIRONMENT_NOT_READY: "environment not ready",
    Refused.QUOTA_EXCEEDED: "beyond the namespace's quota",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced:
    """One entry of `status.unplaced`."""

    environment: str
    reason: Refused
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The condition Scheduled, and every environment that was refused."""

    status: Status
    reason: Scheduled | Refused
    message: str
    unplaced: tuple[Unplaced, ...] = ()


def explain(request: SchedulingRequest, decision: Decision) -> Explanation:
    """Explain a decision."""
    misses = open_misses(decision)
    reason = _reason(decision, misses)
    if reason is Scheduled.PLACED:
        return Explanation(status=Status.TRUE, reason=reason, message=_placed(decision))
    return Explanation(
        status=Status.FALSE,
        reason=reason,
        message=_refused(request, decision, misses),
        unplaced=tuple(sorted(map(_unplaced, misses[:UNPLACED]), key=lambda u: u.environment)),
    )


def open_misses(decision: Decision) -> list[Infeasible]:
    """Return what is still to be mended, nearest first: once enough is placed, only what cannot grow."""
    short = decision.placed < decision.wanted
    found = [miss for miss in decision.refusals if short or miss.current_replicas is not None]
    return sorted(found, key=lambda miss: (-miss.failed_at, miss.environment))


def _unplaced(miss: Infeasible) -> Unplaced:
    return Unplaced(environment=miss.environment, reason=miss.reason, message=truncate_middle(_why(miss)))


def _why(miss: Infeasible) -> str:
    kept = "" if miss.current_replicas is None else f"keeps its replicas ({miss.current_replicas}); "
    return kept + describe(miss)


def _reason(decision: Decision, misses: Sequence[Infeasible]) -> Scheduled | Refused:
    if decision.fault is not None:
        return decision.fault.reason
    if 0 < decision.placed < decision.wanted:
        return Scheduled.PARTIALLY_PLACED
    return misses[0].reason if misses else Scheduled.PLACED


def _placed(decision: Decision) -> str:
    places = [*map(_place, decision.assignments), *sorted(decision.unreadable)]
    stays = "".join(f"; {line[0].lower()}{line[1:]}" for line in _staying(decision))
    return truncate_middle(f"Placed on {join_with_more(places)}{stays}")


def _place(assignment: Assignment) -> str:
    how_big = size(assignment.replicas, assignment.shape)
    return f"{assignment.environment} (profile {assignment.profile}, pool {assignment.pool}, {how_big})"


def _refused(request: SchedulingRequest, decision: Decision, misses: Sequence[Infeasible]) -> str:
    if decision.fault is not None:
        return _fit(sentence(decision.fault), (), [*_staying(decision), *_advice([decision.fault])])
    lines = [f"{miss.environment}: {_why(miss)}" for miss in misses[:MAX_ITEMS]]
    more = [f"and {len(misses) - MAX_ITEMS} more"] if len(misses) > MAX_ITEMS else []
    more += [] if misses else ["There is no other: create an InferenceEnvironment, or lower spec.environments"]
    tail = [*more, *_staying(decision), *_advice(_only_obstacle(misses))]
    return _fit(_header(request, decision, misses), lines, tail)


def _advice(obstacle: Sequence[Refusal]) -> list[str]:
    return [text for text in map(remedy, obstacle) if text]


def _header(request: SchedulingRequest, decision: Decision, misses: Sequence[Infeasible]) -> str:
    counts = Counter(miss.reason for miss in misses if miss.current_replicas is None)
    clauses = [f"{counts[reason]} {PHRASES[reason]}" for reason in Refused if counts[reason]]
    stunted = sum(miss.current_replicas is not None for miss in misses)
    if stunted:
        clauses.append(f"{stunted} cannot grow to {request.deployment.replicas} replicas")
    wanted = f" ({decision.wanted} wanted)" if decision.wanted > 1 else ""
    head = f"{decision.placed}/{decision.candidates} environments can run {request.model.name}{wanted}"
    return f"{head}: {', '.join(clauses)}." if clauses else f"{head}."


def _only_obstacle(misses: Sequence[Infeasible]) -> Sequence[Refusal]:
    """Return the one refusal that stands between the deployment and its only nearest environment."""
    nearest = [miss for miss in misses if miss.reason is misses[0].reason]
    return nearest[0].refusals if len(nearest) == 1 and len(nearest[0].refusals) == 1 else ()


def _staying(decision: Decision) -> list[str]:
    """Name the environments whose placements stay as they are without counting."""
    names = [p.environment for p in decision.carried if p.environment not in decision.unreadable]
    if not names:
        return []
    return [f"Until others are Ready it stays on {join_with_more(names)}"]


def _fit(head: str, lines: Sequence[str], tail: Sequence[str]) -> str:
    """Join the parts; where they are too long the lines share what the rest leaves of the limit."""
    rest = sum(len(part.encode()) + 1 for part in (head, *tail)) + len(lines)
    return truncate_middle("\n".join((head, *fit_budget(lines, LIMIT - rest), *tail)))


_NO_MORE = "Scheduled says why there are no more"


def scheduled(explanation: Explanation) -> Condition:
    """Return Scheduled as explained."""
    return Condition(
        type=ConditionType.SCHEDULED, status=explanation.status, reason=explanation.reason, message=explanation.message
    )


def placements_ready(placements: Sequence[Placement], wanted: int) -> Condition:
    """Return PlacementsReady; a placement whose cluster does not answer makes it Unknown, not False."""
    status, reason, message = _readiness(placements, wanted)
    return Condition(type=ConditionType.PLACEMENTS_READY, status=status, reason=reason, message=message)


def _readiness(placements: Sequence[Placement], wanted: int) -> tuple[Status, PlacementsReady, str]:
    if not placements:
        return Status.FALSE, PlacementsReady.NOTHING_PLACED, "No placement exists; Scheduled says why"
    silent = sorted(p.environment for p in placements if p.unreachable)
    if silent:
        return (
            Status.UNKNOWN,
            PlacementsReady.UNREACHABLE,
            f"Not known on {join_with_more(silent)}: its placement says why",
        )
    ready = sum(p.ready for p in placements)
    if ready >= wanted:
        return Status.TRUE, PlacementsReady.READY, f"{ready} of {wanted} placements are ready{_behind(placements)}"
    waiting = sorted((p for p in placements if not p.ready), key=_furthest_first)
    rows = join_with_more([f"{p.name} on {p.environment}: {p.phase}" for p in waiting], separator="; ") or _NO_MORE
    return Status.FALSE, PlacementsReady.STARTING, f"{ready} of {wanted} placements are ready; {rows}"


def _behind(placements: Sequence[Placement]) -> str:
    """Name what serves and is not as it shall be, as while its next weights are on their way."""
    behind = sorted((p for p in placements if p.ready and p.obstacle), key=lambda p: p.name)
    said = (f"{p.name} on {p.environment} serves on, and its {p.obstacle}" for p in behind)
    return f". {join_with_more([*said], separator='; ')}" if behind else ""


def _furthest_first(placement: Placement) -> tuple[bool, int, str]:
    """Sort failures first, then what is furthest from Ready."""
    phases = tuple(Phase)
    return placement.phase is not Phase.FAILED, phases.index(placement.phase), placement.name


def status(
    request: SchedulingRequest, decision: Decision, counted: Sequence[Placement], unplaced: Sequence[Unplaced]
) -> Manifest:
    """Return the status. `counted` are the placements of the decision's assignments; those carried stay beside them."""
    every = sorted([*counted, *decision.carried], key=lambda p: (p.environment, p.name))
    urls = [p.url for p in every if p.url]
    rows: list[JSON] = [_row(p) for p in every]
    refused: list[JSON] = [{"environment": u.environment, "reason": u.reason, "message": u.message} for u in unplaced]
    return prune(
        {
            "model": {"name": request.model.served_name},
            "environments": {
                "desired": decision.wanted,
                "placed": decision.placed,
                # What answers counts wherever it runs, also where its environment is gone.
                "ready": min(decision.wanted, sum(p.ready and not p.unreachable for p in every)),
            },
            "replicas": sum(p.replicas for p in counted),
            "gpus": sum(p.shape.gpus * p.replicas for p in every if p.shape),
            "url": urls[0] if len(urls) == 1 else None,
            "placements": rows,
            "unplaced": refused,
        }
    )


def lower_replicas(status: Manifest, replicas: int) -> Manifest:
    """Return a status that was written earlier, in which no placement has more than `replicas`."""
    found = listing(status, "placements")
    rows: list[JSON] = [{**row, "replicas": min(integer(row, "replicas"), replicas)} for row in found]
    if rows == found:
        return status
    sizes = [(integer(row, "nodes") * integer(row, "gpusPerNode"), integer(row, "replicas")) for row in rows]
    return {
        **status,
        # The placements that are carried along do not count, and their rows do not tell that.
        "replicas": min(integer(status, "replicas"), integer(status, "environments.placed") * replicas),
        "gpus": sum(gpus * count for gpus, count in sizes),
        "placements": rows,
    }


def _row(placement: Placement) -> Manifest:
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
            "phase": placement.phase,
            "url": placement.url or None,
        }
    )


def invalid(problems: Iterable[Problem]) -> Condition:
    """Return Scheduled for a deployment whose own spec is at fault."""
    return faulty(ConditionType.SCHEDULED, Refused.INVALID_DEPLOYMENT, problems)
