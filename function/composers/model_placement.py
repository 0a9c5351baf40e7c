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
from function.capacity.quota import may_exceed
from function.contract import Call, Condition, Outcome, Requirement
from function.domain.cache import ModelCacheChoice
from function.domain.placement import Placement
from function.domain.settings import Settings
from function.kube.manifests import get
from function.parts import requirements
from function.parts.adapters import ADAPTERS_PART, list_planned
from function.parts.admission import ADMISSION_PART, KEPT_ADMISSION_PART
from function.parts.cache_usage import CACHE_USAGE_PART, KEPT_CACHE_USAGE_PART
from function.parts.kueue import KUEUE_PART
from function.parts.monitor import MONITOR_PART
from function.parts.namespace import NAMESPACE_PART
from function.parts.outcome import build_writer, complete_conditions, keep_observed, unready_if_incomplete
from function.parts.part import Part, join_names, run_parts
from function.parts.placement import KeptPlacement, PlacementContext
from function.parts.pod_deployment import KEPT_POD_DEPLOYMENT_PART, POD_DEPLOYMENT_PART
from function.parts.previous_weights import PREVIOUS_WEIGHTS_PART
from function.parts.references import RESOLVED, NotComposableError, resolve_placement
from function.parts.restarts import KEPT_RESTARTS_PART, RESTARTS_PART
from function.parts.service import KEPT_SERVICE_PART, SERVICE_PART
from function.parts.weights import WEIGHTS_PART, request_weights
from function.reasons import ConditionType, Status
from function.remote.adoption import find_orphans
from function.remote.composed_kinds import NamePatterns
from function.serving.digest import compute_spec_digest
from function.serving.labels import drop_kept_labels
from function.serving.reconcile import build_serving_request
from function.status import model_placement as report
from function.status import references
from function.weights.faults import find_faults, list_remaining_faults
from function.weights.planner import plan_weights

PARTS: tuple[Part[PlacementContext, Any], ...] = (
    ADMISSION_PART,
    NAMESPACE_PART,
    WEIGHTS_PART,
    ADAPTERS_PART,
    SERVICE_PART,
    PREVIOUS_WEIGHTS_PART,
    CACHE_USAGE_PART,
    POD_DEPLOYMENT_PART,
    KUEUE_PART,
    MONITOR_PART,
    RESTARTS_PART,
)
NAMES = NamePatterns(join_names(PARTS))
# Run while a reference does not resolve.
KEPT_PARTS: tuple[Part[KeptPlacement, Any], ...] = (
    KEPT_ADMISSION_PART,
    KEPT_SERVICE_PART,
    KEPT_CACHE_USAGE_PART,
    KEPT_POD_DEPLOYMENT_PART,
    KEPT_RESTARTS_PART,
)


def read(call: Call, _: Settings) -> Parsed[Placement | None]:
    return parse_placement(call.xr)


def compose(call: Call, parsed: Parsed[Placement | None], settings: Settings) -> Outcome:
    placement = parsed.value
    if placement is None:
        return keep_observed(call, settings, [references.invalid_placement(parsed.problems)])
    if parsed.problems:
        # An invalid placement may not state the requested replicas.
        conditions = (references.invalid_placement(parsed.problems),)
        return _keep_as_observed(call, settings, placement, conditions, may_scale_down=False)
    try:
        return _compose_resolved(call, settings, placement)
    except NotComposableError as error:
        return _keep_as_observed(call, settings, placement, error.conditions)


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
    # An endpoint picker that leaves is removed later.
    is_settled = all(c.status is Status.TRUE for c in conditions) and not get(joined.status, "service.poolUnusedSince")
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
    is_hydrated = bool(resolved.placement.weights.download.completed_at)
    storage = request_weights(call, resolved)
    if list_remaining_faults(find_faults(storage), claim_exists=is_hydrated, weights_exist=is_hydrated):
        return None
    if resolved.adapter_obstacle:
        return None
    plan = plan_weights(storage)
    served = list_planned(resolved, storage, plan)
    request = drop_kept_labels(build_serving_request(resolved, plan, placement.replicas, served))
    return request.name, compute_spec_digest(request)


def require(call: Call, parsed: Parsed[Placement | None], settings: Settings) -> dict[str, Requirement]:
    """Returns what a ModelPlacement requires; only its Objects if it names no environment."""
    placement = parsed.value
    required = requirements.require_unobserved_resources(call)
    required |= requirements.require_labelled_resources(call)
    if placement is None:
        return required
    required[requirements.MODEL] = requirements.require_model(placement.model, placement.namespace)
    required[requirements.ENVIRONMENT] = requirements.require_object("InferenceEnvironment", placement.environment)
    if isinstance(placement.storage_choice, ModelCacheChoice):
        required[requirements.CACHE] = requirements.require_object(
            "ModelCache", placement.storage_choice.name, placement.namespace
        )
    if may_exceed(placement, settings.limits_of(placement.namespace)):
        required[requirements.PLACEMENTS] = requirements.require_placements(placement.namespace)
    return required


def _keep_as_observed(
    call: Call,
    settings: Settings,
    placement: Placement,
    conditions: Sequence[Condition],
    *,
    may_scale_down: bool = True,
) -> Outcome:
    """Keeps everything as observed, reports the service, and scales it down if fewer replicas are requested."""
    environments = ENVIRONMENT_CACHE.parse(call.answers.get(requirements.ENVIRONMENT, ()), settings)
    context = KeptPlacement(
        call=call,
        placement=placement,
        environment=next(iter(environments), None),
        conditions=conditions,
        may_scale_down=may_scale_down,
    )
    joined = run_parts(KEPT_PARTS, context)
    held = keep_observed(call, settings, complete_conditions(call.xr, (*conditions, *joined.conditions)))
    # Admission decides from an answered environment whether the status repeats a revocation.
    observed = {key: value for key, value in held.status.items() if key != "revoked" or not environments}
    progress = report.build_progress(call.xr, held.conditions, None, joined.decision.of(KEPT_SERVICE_PART).remote)
    serves = any(c.type is ConditionType.SERVICE_READY and c.status is Status.TRUE for c in held.conditions)
    return replace(
        held,
        composed=joined.desired.composed,
        status={**observed, **joined.status, **progress},
        ready=held.ready if serves else False,
    )
