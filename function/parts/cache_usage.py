"""The Usage that protects the ModelCache from which a placement reads, or may still read."""

from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import PlacementContext
from function.parts.service import SERVICE_PART
from function.remote.composed_kinds import USAGE_KIND, USAGE_VERSION
from function.weights.consumers import USAGE_KEY, decide_usage


def _run(context: PlacementContext, decisions: Decisions) -> PartOutcome[None]:
    resolved = context.resolved
    cache = resolved.cache.name if resolved.cache else ""
    may_read_previous = decisions.of(SERVICE_PART).may_read_previous_weights
    usage = decide_usage(resolved.placement, cache, context.call.observed, may_read_previous=may_read_previous)
    return PartOutcome(decision=None, desired=usage)


CACHE_USAGE_PART = Part(run=_run, names={(USAGE_VERSION, USAGE_KIND): USAGE_KEY})
