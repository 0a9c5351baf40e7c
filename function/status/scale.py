"""How many replicas a deployment asked for, how many have GPUs, and how many run: `status.scale`, ScaledAsRequested."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from function.contract import Condition
from function.domain.placement import Deployment, Placement
from function.kube.manifests import Manifest, condition, integer
from function.kube.messages import MAX_ITEMS, format_count, truncate_middle
from function.reasons import ConditionType, ScaledAsRequested, Status
from function.scheduling.verdicts import Decision

_scaled = partial(Condition, ConditionType.SCALED_AS_REQUESTED)


@dataclass(frozen=True, slots=True)
class Scale:
    """Replicas of a deployment: of the placement with the fewest, or of all together if replicas are divided."""

    requested: int
    granted: int  # have GPUs
    running: int


def measure_scale(deployment: Deployment, *, granted: Iterable[Placement], serving: Iterable[Placement]) -> Scale:
    """Returns the numbers of replicas: granted to placements that stay, and running on all that serve for now."""
    combine: Callable[[Iterable[int]], int] = sum if deployment.divides_replicas else partial(min, default=0)
    return Scale(
        requested=deployment.replicas,
        granted=combine(p.replicas for p in granted),
        running=combine(p.running_replicas for p in serving),
    )


def build_scaled_as_requested(xr: Manifest, decision: Decision, scale: Scale) -> tuple[Condition, ...]:
    """Returns ScaledAsRequested; empty for a deployment that was never scaled beyond what fits, and divides nothing."""
    refused = [i for i in decision.unresolved if decision.is_divided or i.granted_replicas is not None]
    is_limited = scale.granted < scale.requested and bool(decision.placed)
    if not (is_limited or decision.is_divided or condition(xr, ConditionType.SCALED_AS_REQUESTED)):
        return ()
    where = "" if decision.is_divided else " on each environment"
    counts = (
        f"asked for {format_count(scale.requested, 'replica')}{where}, {scale.granted} granted, {scale.running} running"
    )
    held = [f"{each.environment}: {each.held.message}" for each in decision.assignments if each.held][:MAX_ITEMS]
    if is_limited:
        rows = [f"{each.environment}: {each.message}" for each in refused[:MAX_ITEMS]]
        message = truncate_middle("; ".join([counts, *rows, *held]))
        return (_scaled(Status.FALSE, ScaledAsRequested.LIMITED, message),)
    if scale.running < scale.granted or held:
        return (_scaled(Status.FALSE, ScaledAsRequested.SCALING, truncate_middle("; ".join([counts, *held]))),)
    return (_scaled(Status.TRUE, ScaledAsRequested.SCALED, counts),)


def lower_scale(observed: Manifest, replicas: int) -> Manifest:
    """Returns an observed `status.scale` in which no more than `replicas` are granted or run."""
    lowered: Manifest = {field: min(integer(observed, field), replicas) for field in ("granted", "replicas")}
    return {**observed, **lowered, "requested": replicas}
