"""The Usage that protects the ModelCache from which a placement reads, or may still read."""

from function.contract import Desired
from function.domain.cache import ModelCacheChoice
from function.parts import requirements
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.placement import KeptPlacement, PlacementContext
from function.parts.service import SERVICE_PART
from function.remote.composed_kinds import USAGE_KIND, USAGE_VERSION
from function.remote.object_writer import SERVICE_PREFIX
from function.weights.consumers import USAGE_KEY, build_usage, decide_usage


def _protect_cache(context: PlacementContext, decisions: Decisions) -> PartOutcome[None]:
    resolved = context.resolved
    cache = resolved.cache.name if resolved.cache else ""
    may_read_previous = decisions.of(SERVICE_PART).may_read_previous_weights
    usage = decide_usage(resolved.placement, cache, context.call.observed, may_read_previous=may_read_previous)
    return PartOutcome(decision=None, desired=usage)


CACHE_USAGE_PART = Part(run=_protect_cache, names={(USAGE_VERSION, USAGE_KIND): USAGE_KEY})


def _keep_usage(context: KeptPlacement, _: Decisions) -> PartOutcome[None]:
    """Composes the Usage that is missing: the service may read from the ModelCache."""
    placement, observed = context.placement, context.call.observed
    has_service = any(key.startswith(SERVICE_PREFIX) for key in observed)
    may_read = has_service and bool(context.call.answers.get(requirements.CACHE))
    if not (isinstance(placement.storage_choice, ModelCacheChoice) and may_read and USAGE_KEY not in observed):
        return PartOutcome(decision=None)
    return PartOutcome(decision=None, desired=Desired(build_usage(placement, placement.storage_choice.name)))


KEPT_CACHE_USAGE_PART = Part(run=_keep_usage)
