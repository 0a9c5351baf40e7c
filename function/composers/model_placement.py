"""ModelPlacement: carries out one scheduling decision on one cluster.

Nothing is composed before the environment has admitted the placement. Namespace, token, claim and Job follow from the
plan for the weights, the LLMInferenceService from `decide_service`. What exists stays as observed while a reference
does not resolve.
"""

from collections.abc import Sequence
from dataclasses import replace

from function.api.inference_environment import ENVIRONMENTS
from function.api.model_deployment import parse_placement
from function.api.problems import Parsed
from function.capacity.admission import Admission, apply_quota, build_required_labels, check_admission, find_release
from function.capacity.quota import find_excess, may_exceed
from function.composers import requirements
from function.composers.outcome import build_writer, complete_conditions, keep_observed, unready_if_incomplete
from function.composers.requirements import UnresolvedError, resolve_placement
from function.contract import Call, Condition, Desired, Event, Outcome, Requirement, combine
from function.domain.allocation import QuotaUsage
from function.domain.cache import ModelCacheChoice
from function.domain.placement import Placement, ResolvedPlacement, Stage
from function.domain.records.admission import build_released, build_revoked
from function.domain.records.rollout import RolloutRecord, build_rollout
from function.domain.records.service import build_ready_replicas
from function.domain.settings import Settings
from function.reasons import ConditionType, ReferencesResolved, Status
from function.remote.adoption import find_orphans
from function.remote.object_writer import NAMESPACE, SERVICE, compose_namespace
from function.serving.digest import compute_spec_digest
from function.serving.pod_deployment import POD_DEPLOYMENT, find_update, observe_pod_deployment
from function.serving.rollout import build_serving_request, keep_services, reconcile_service
from function.status import model_placement as report
from function.status import references
from function.weights.consumers import USAGE_KEY, build_usage, decide_usage
from function.weights.faults import find_faults, list_remaining_faults
from function.weights.planner import plan_weights
from function.weights.reconcile import reconcile_weights
from function.weights.request import StorageRequest

_KNOWN = "Model, environment and pool are known"
_RESOLVED = Condition(ConditionType.REFERENCES_RESOLVED, Status.TRUE, ReferencesResolved.RESOLVED, _KNOWN)
# Problems that only a change of the placement, its model or its cache can solve. A problem of an environment or a pool
# takes no GPUs from a placement that it has admitted.
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
    except UnresolvedError as error:
        return _keep_as_observed(call, settings, error.conditions, parsed.value)


def _compose_resolved(call: Call, settings: Settings, placement: Placement) -> Outcome:
    resolved = resolve_placement(call, placement, settings)
    admission = _check_admission(call, resolved)
    if not admission.admits_service and _nothing_composed(call):
        waiting = [_RESOLVED, report.build_admitted(placement, admission)]
        return _keep_as_observed(call, settings, waiting, placement)
    writer = build_writer(call, settings, resolved.environment.provider_config, call.observed)
    # A service whose Object is being deleted keeps its GPUs until it is gone, though Crossplane no longer observes it.
    own_resources, _ = requirements.collect_own_resources(call, sorted(call.answers))
    writer = replace(writer, deleting=find_orphans(call, own_resources, deleting=True))
    request = _request_storage(call, resolved)
    weights = reconcile_weights(request, writer, placement.weights.hydration, placement.service.uri)
    rollout = reconcile_service(resolved, writer, weights, admission)
    rolls_out_in_order = placement.allowed_digest is not None  # its deployment changes one environment after the other
    may_read_previous = rollout.may_read_previous_weights
    cache = resolved.cache.name if resolved.cache else ""
    desired = combine(
        [
            Desired({NAMESPACE: compose_namespace(resolved.namespace, writer)}),
            weights.desire(keeps_previous=may_read_previous),
            decide_usage(placement, cache, call.observed, may_read_previous=may_read_previous),
            Desired({**rollout.pull_secrets, **rollout.composed}, rollout.drops),
            observe_pod_deployment(rollout.remote.manifest, writer, is_needed=rolls_out_in_order),
        ]
    )
    conditions = (_RESOLVED, *report.build_conditions(resolved, admission, weights, rollout))
    service_ready = conditions[-1]
    status = report.build_status(call, resolved, weights, rollout)
    grants = resolved.environment.find_grants(placement.uid)
    status |= build_released(find_release(placement, grants)) | build_revoked(grants)
    if rolls_out_in_order:
        update = find_update(rollout.remote.manifest, writer.read(POD_DEPLOYMENT))
        record = RolloutRecord(served=rollout.served_digest, requested=rollout.requested_digest, update=update)
        status["rollout"] = build_rollout(record)
    events: tuple[Event, ...] = ()
    if rollout.rollout_blocked:
        events = (report.build_rollout_blocked(placement, admission, same_node_is_full=rollout.same_node_is_full),)
    is_settled = all(c.status is Status.TRUE for c in conditions)
    return Outcome(
        composed=desired.composed,
        drops=desired.drops,
        status=status | report.build_progress(call.xr, conditions, weights.state, rollout.remote),
        conditions=conditions,
        events=events,
        ready=unready_if_incomplete(desired.composed, works=service_ready.status is Status.TRUE),
        ttl_seconds=settings.ttl_settled if is_settled else settings.ttl_pending,
    )


def compute_service_identity(call: Call, settings: Settings) -> tuple[str, str] | None:
    """Returns the name and the spec digest of the service of a placement; None if there would be no service."""
    placement = parse_placement(call.xr).value
    if placement is None:
        return None
    try:
        resolved = resolve_placement(call, placement, settings)
    except UnresolvedError:
        return None
    is_hydrated = bool(resolved.placement.weights.hydration.completed_at)
    storage = _request_storage(call, resolved)
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


def _check_admission(call: Call, resolved: ResolvedPlacement) -> Admission:
    """Returns the admission by the environment, which finds the placement by its labels, within the quota."""
    placement = resolved.placement
    quota_excess: QuotaUsage | None = None
    limits = resolved.settings.limits_of(placement.namespace)
    if may_exceed(placement, limits):
        in_namespace = requirements.collect_placements(call, [requirements.PLACEMENTS])
        if in_namespace is None:
            raise UnresolvedError(_RESOLVED, references.resolving(ConditionType.ADMITTED))
        quota_excess = find_excess(placement, [p for p in in_namespace if p.uid != placement.uid], limits)
    admitted = check_admission(placement, resolved.environment, build_required_labels(placement, resolved.cache))
    return apply_quota(admitted, placement, quota_excess)


def _nothing_composed(call: Call) -> bool:
    """Tells whether the placement has nothing on the cluster, except perhaps its namespace, which is never deleted."""
    return all(key == NAMESPACE for key in call.observed)


def _has_service(call: Call) -> bool:
    return any(key.startswith(SERVICE) for key in call.observed)


def _request_storage(call: Call, resolved: ResolvedPlacement) -> StorageRequest:
    placement = resolved.placement
    request = StorageRequest(
        model=resolved.model,
        choice=placement.cache,
        namespace=resolved.namespace,
        owner=placement.name,
        named_cache=resolved.cache,
        service_exists=_has_service(call),
    )
    return request.with_pool(resolved.environment, resolved.pool, resolved.shape, placement.replicas)


def _keep_as_observed(
    call: Call, settings: Settings, conditions: Sequence[Condition], placement: Placement, *, scale_down: bool = True
) -> Outcome:
    """Keeps everything as observed, reports the service, and scales it down if fewer replicas are requested.

    Neither depends on anything that is missing, except that an invalid placement may not say what it requests.
    `conditions` are those that are known, ReferencesResolved first.
    """
    references_resolved = conditions[0]
    if references_resolved.reason in _CANNOT_START and placement.stage is Stage.NEW and _nothing_composed(call):
        conditions = [*conditions, report.build_cannot_start()]
    services = keep_services(call.observed, placement, scale_down=scale_down)
    requested = max(placement.replicas, services.replicas)
    ready = report.build_service_ready(services.remote, requested, was_ready=placement.was_ready)
    held = keep_observed(call, settings, complete_conditions(call.xr, (*conditions, ready)))
    status = {**held.status, **report.build_progress(call.xr, held.conditions, None, services.remote)}
    status |= build_ready_replicas(services.remote.manifest)
    environments = ENVIRONMENTS.parse(call.answers.get(requirements.ENVIRONMENT, ()), settings)
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
