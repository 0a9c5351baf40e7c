"""What is said of a ModelDeployment: where it runs, how big it is, and whether its placements are up."""

from collections.abc import Iterable, Sequence

from function.contract import Condition
from function.domain.model import Problem
from function.domain.placement import Placement
from function.kube.manifests import JSON, Manifest, integer, listing, prune
from function.kube.messages import join_with_more
from function.reasons import ConditionType, Phase, PlacementsReady, Refused, Status
from function.scheduling.request import SchedulingRequest
from function.scheduling.verdicts import Decision
from function.status.conditions import faulty
from function.status.explain import Explanation, Unplaced

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
