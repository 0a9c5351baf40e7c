"""ModelPlacement: carries out one scheduling decision on one cluster.

Its parts run in the order in which a placement reaches them: nothing is composed before the environment has admitted
the placement, and the service follows the weights. While a reference does not resolve, existing resources stay as
observed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from function.api.inference_environment import ENVIRONMENT_CACHE
from function.api.model_deployment import parse_placement
from function.api.problems import Parsed
from function.capacity.admission import find_release
from function.capacity.quota import may_exceed
from function.contract import Call, Condition, Outcome, Requirement
from function.domain.cache import ModelCacheChoice
from function.domain.placement import Placement, Stage
from function.domain.records.admission import build_released, build_revoked
from function.domain.records.service import build_ready_replicas
from function.domain.settings import Settings
from function.parts import requirements
from function.parts.admission import ADMISSION_PART, has_nothing_composed
from function.parts.cache_usage import CACHE_USAGE_PART
from function.parts.namespace import NAMESPACE_PART
from function.parts.outcome import build_writer, complete_conditions, keep_observed, unready_if_incomplete
from function.parts.part import Part, join_names, run_parts
from function.parts.placement import PlacementContext
from function.parts.pod_deployment import POD_DEPLOYMENT_PART
from function.parts.previous_weights import PREVIOUS_WEIGHTS_PART
from function.parts.requirements import RESOLVED, NotComposableError, resolve_placement
from function.parts.service import SERVICE_PART
from function.parts.weights import WEIGHTS_PART, request_storage
from function.reasons import ConditionType, ReferencesResolved, Status
from function.remote.adoption import find_orphans
from function.remote.composed_kinds import Names
from function.remote.object_writer import SERVICE
from function.serving.digest import compute_spec_digest
from function.serving.rollout import build_serving_request, keep_services
from function.status import model_placement as report
from function.status import references
from function.weights.consumers import USAGE_KEY, build_usage
from function.weights.faults import find_faults, list_remaining_faults
from function.weights.planner import plan_weights

PARTS: tuple[Part[PlacementContext, Any], ...] = (
    ADMISSION_PART,
    NAMESPACE_PART,
    WEIGHTS_PART,
    SERVICE_PART,
    PREVIOUS_WEIGHTS_PART,
    CACHE_USAGE_PART,
    POD_DEPLOYMENT_PART,
)
NAMES = Names(join_names(PARTS))
# Problems that only a change of the placement, its model or its cache can solve. A problem of an environment or a pool
# takes no GPUs from an admitted placement.
_CANNOT_START = {
    ReferencesResolved.INVALID_PLACEMENT,
    ReferencesResolved.MODEL_NOT_FOUND,
    ReferencesResolved.MODEL_INVALID,
    ReferencesResolved.CACHE_NOT_FOUND,
}


def read(call: Call, _: Settings) -> Parsed[Placement | None]:
    return parse_placement(call.xr)


def compose(call: Call, parsed: Parsed[Placement | None], settings: Settings) -> Outcome:
    invalid = [references.invalid_placement(parsed.problems)]
    if parsed.value is None:
        return keep_observed(call, settings, invalid)
    if parsed.problems:
        return _keep_as_observed(call, settings, invalid, parsed.value, scale_down=False)
    try:
        return _compose_resolved(call, settings, parsed.value)
    except NotComposableError as error:
        return _keep_as_observed(call, settings, error.conditions, parsed.value)


def _compose_resolved(call: Call, settings: Settings, placement: Placement) -> Outcome:
    resolved = resolve_placement(call, placement, settings)
    writer = build_writer(call, settings, resolved.environment.provider_config, call.observed)
    # A service whose Object is being deleted keeps its GPUs until it is gone, though Crossplane no longer observes it.
    own_resources, _ = requirements.collect_own_resources(call, sorted(call.answers))
    writer = replace(writer, deleting=find_orphans(call, own_resources, NAMES, deleting=True))
    joined = run_parts(PARTS, PlacementContext(call=call, resolved=resolved, writer=writer))
    weights, rollout = joined.decision.of(WEIGHTS_PART), joined.decision.of(SERVICE_PART)
    conditions = (RESOLVED, *joined.conditions)
    serves = any(c.type is ConditionType.SERVICE_READY and c.status is Status.TRUE for c in conditions)
    is_settled = all(c.status is Status.TRUE for c in conditions)
    return Outcome(
        composed=joined.desired.composed,
        drops=joined.desired.drops,
        status=joined.status | report.build_progress(call.xr, conditions, weights.state, rollout.remote),
        conditions=conditions,
        events=joined.events,
        ready=unready_if_incomplete(joined.desired.composed, works=serves),
        ttl_seconds=settings.ttl_settled if is_settled else settings.ttl_pending,
    )


def compute_service_identity(call: Call, settings: Settings) -> tuple[str, str] | None:
    """Returns the name and the spec digest of the service of a placement; None if there would be no service."""
    placement = parse_placement(call.xr).value
    if placement is None:
        return None
    try:
        resolved = resolve_placement(call, placement, settings)
    except NotComposableError:
        return None
    is_hydrated = bool(resolved.placement.weights.hydration.completed_at)
    storage = request_storage(call, resolved)
    if list_remaining_faults(find_faults(storage), claim_exists=is_hydrated, weights_exist=is_hydrated):
        return None
    request = build_serving_request(resolved, plan_weights(storage), placement.replicas)
    return request.name, compute_spec_digest(request)


def require(call: Call, parsed: Parsed[Placement | None], settings: Settings) -> dict[str, Requirement]:
    """Returns what a ModelPlacement requires; only its Objects if it names no environment."""
    placement = parsed.value
    required = requirements.unobserved_resources(call)
    required |= requirements.labelled_resources(call)
    if placement is None:
        return required
    required[requirements.MODEL] = requirements.model(placement.model, placement.namespace)
    required[requirements.ENVIRONMENT] = requirements.one("InferenceEnvironment", placement.environment)
    if isinstance(placement.cache, ModelCacheChoice):
        required[requirements.CACHE] = requirements.one("ModelCache", placement.cache.name, placement.namespace)
    if may_exceed(placement, settings.limits_of(placement.namespace)):
        required[requirements.PLACEMENTS] = requirements.placements(placement.namespace)
    return required


def _has_service(call: Call) -> bool:
    return any(key.startswith(SERVICE) for key in call.observed)


def _keep_as_observed(
    call: Call, settings: Settings, conditions: Sequence[Condition], placement: Placement, *, scale_down: bool = True
) -> Outcome:
    """Keeps everything as observed, reports the service, and scales it down if fewer replicas are requested.

    Both work without the missing inputs, except that an invalid placement may not state the requested replicas.
    `conditions` are the known conditions, ReferencesResolved first.
    """
    references_resolved = conditions[0]
    if references_resolved.reason in _CANNOT_START and placement.stage is Stage.NEW and has_nothing_composed(call):
        conditions = [*conditions, report.build_cannot_start()]
    services = keep_services(call.observed, placement, scale_down=scale_down)
    requested = max(placement.replicas, services.replicas)
    ready = report.build_service_ready(services.remote, requested, has_served=placement.has_served)
    held = keep_observed(call, settings, complete_conditions(call.xr, (*conditions, ready)))
    status = {**held.status, **report.build_progress(call.xr, held.conditions, None, services.remote)}
    status |= build_ready_replicas(services.remote.manifest)
    environments = ENVIRONMENT_CACHE.parse(call.answers.get(requirements.ENVIRONMENT, ()), settings)
    grants = [grant for environment in environments for grant in environment.find_grants(placement.uid)]
    status |= build_released(find_release(placement, grants))
    if environments:
        status = {key: value for key, value in status.items() if key != "revoked"} | build_revoked(grants)
    if services.composed:
        status |= report.limit_replicas(status, services.allocated_replicas)
    composed = dict(services.composed)
    may_read = _has_service(call) and bool(call.answers.get(requirements.CACHE))
    if isinstance(placement.cache, ModelCacheChoice) and may_read and USAGE_KEY not in call.observed:
        # The service may read from the ModelCache, and the placement alone describes the Usage that protects it.
        composed |= build_usage(placement, placement.cache.name)
    return replace(held, composed=composed, status=status)
