"""ModelDeployment: decide where it runs, from its own scope if that suffices, and write its ModelPlacements.

While an input is unanswered, missing or invalid, every placement is carried over, with no more replicas than the
deployment requests.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from function.api.inference_environment import name_provider_config
from function.api.model_deployment import parse_deployment, parse_placement, resolve_priority
from function.api.model_service import parse_service_view
from function.api.problems import Parsed
from function.capacity.admission import build_labels
from function.capacity.guarantee import Guarantee, find_guarantee
from function.capacity.quota import namespace_usage
from function.capacity.reclaim import find_kept, find_time_to_move
from function.composers import scopes
from function.composers.scopes import SERVICE_KEY, Scope
from function.contract import Call, Composed, Condition, Drop, Outcome, Requirement
from function.domain.allocation import Limits, QuotaUsage
from function.domain.cache import StorageChoice
from function.domain.model import Model, Problem, Shape
from function.domain.placement import Deployment, Placement
from function.domain.settings import BUILT_IN, Settings
from function.kube import names
from function.kube.manifests import Manifest, condition, find_controller, get, integer, mapping, prune, text
from function.kube.messages import join_with_more
from function.parts import requirements
from function.parts.autoscaler import compose_autoscaler, limit_replicas
from function.parts.outcome import keep_observed
from function.parts.references import NotComposableError, resolve_model
from function.reasons import Autoscaled, ConditionType, ReferencesResolved, Refused, RolledOut, Status
from function.remote.adoption import adopt_all, observe_orphans
from function.remote.object_writer import carry_over, reapply_observed, with_resource_version
from function.remote.provider_usage import NO_OBJECTS_LEFT, PROVIDER_USAGE, compose_provider_usage
from function.scheduling.filters import VerdictCache
from function.scheduling.gate import find_gate_obstacle
from function.scheduling.guarantee import build_placements
from function.scheduling.limits import find_exceeded_usage, limit_decision, requests_more
from function.scheduling.scheduler import delay_deletion_while_serving, drains_first, schedule
from function.scheduling.turns import assign_turns, needs_gate
from function.scheduling.verdicts import Assignment, Decision, RemovalCause, SchedulingRequest
from function.scheduling.ways_out import FindRequest, Snapshot, WayOut, WayOutCache, find_ways_out
from function.serving.service import find_pool_problems
from function.status import model_deployment as report
from function.status import references
from function.status.conditions import faulty
from function.status.scale import build_scaled_as_requested, measure_scale
from function.weights.request import WeightsRequest

VERDICT_CACHE = VerdictCache()
WAYS_OUT = WayOutCache()
_NOT_IN_USE = {RolledOut.ALL_AT_ONCE, Autoscaled.FIXED}
_DROP_REASONS = {
    RemovalCause.SCALED_DOWN: "the deployment requests fewer environments or replicas",
    RemovalCause.REPLACED: "another placement is Ready in its place",
    RemovalCause.EVICTED: "its environment has no room for it or takes no placements, and it never served",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """A decision for a deployment, with all its inputs."""

    request: SchedulingRequest
    storage_request: WeightsRequest  # for the weights on any environment
    scope: Scope
    decision: Decision
    limits: Limits = Limits()  # of its namespace
    guarantee: Guarantee | None = None  # what its namespace is guaranteed; None: no limit
    usage: QuotaUsage | None = None  # how much of its quota the namespace uses; None: not needed, or no quota

    def take_snapshot(self, placements: Iterable[Placement], find_request: FindRequest = lambda _: None) -> Snapshot:
        """Returns the inputs of the decision, with the placements of others, and their requests as far as known."""
        others = defaultdict[str, list[Placement]](list)
        for placement in sorted(placements, key=attrgetter("namespace", "name")):
            others[placement.environment].append(placement)
        return Snapshot(
            request=replace(self.request, quota_usage=self.usage),
            environments={environment.name: environment for environment in self.scope.environments},
            own=self.scope.own,
            others=others,
            find_request=find_request,
        )


def read(call: Call, settings: Settings) -> Parsed[Deployment | None]:
    parsed = parse_deployment(call.xr)
    if parsed.value is None:
        return parsed
    deployment = limit_replicas(parsed.value, settings.autoscaling)
    requested = resolve_priority(deployment, settings.priorities)
    if requested.value is None:
        return Parsed(None, requested.problems)
    limits = settings.limits_of(deployment.namespace)
    priority = min(requested.value, limits.max_priority)
    return replace(parsed, value=replace(deployment, priority=priority, preemptible=limits.preempts))


def compose(call: Call, parsed: Parsed[Deployment | None], settings: Settings) -> Outcome:
    scheduling = decide(call, parsed, settings)
    if isinstance(scheduling, Outcome):
        return scheduling
    explanation = scheduling
    orphans = scheduling.scope.orphans
    call = observe_orphans(call, orphans)
    scheduling, services_requirement = _delay_deletions(call, scheduling)
    request = scheduling.request
    decision = scheduling.decision
    rollout = request.deployment.rollout
    created = text(call.xr, "metadata.creationTimestamp") if scheduling.guarantee else ""
    placements = build_placements(request, decision, created, keep=scheduling.limits.guarantee_invalid)
    leaving = (*decision.carried, *(drained.placement for drained in decision.draining))
    gate_obstacle, gate_requirement = _check_gate(call, settings, request, placements, leaving)
    generation = request.model.generation
    placed = assign_turns(rollout, placements, leaving, gate_is_closed=bool(gate_obstacle), model_generation=generation)
    held = {a.environment: a.held.replicas for a in decision.assignments if a.held}
    serving = [replace(p, replicas=p.replicas + held[p.environment]) if p.environment in held else p for p in placed]
    composed = _carry_over_placements(call, scheduling) | _compose_placements(call, scheduling, serving)
    composed |= _compose_model_service(call, request.deployment)
    composed |= _compose_provider_usages(call, scheduling)
    running = {placement.environment for placement in (*placed, *leaving) if placement.running_replicas}
    autoscaler = compose_autoscaler(call, request.deployment, settings.autoscaling, serving=len(running))
    composed |= autoscaler.desired.composed
    unreadable = [p for p in leaving if p.environment in decision.unreadable]
    scale = measure_scale(request.deployment, granted=[*placed, *unreadable], serving=[*serving, *leaving])
    conditions = (
        references.model_resolved(request.model),
        report.build_scheduled(
            request,
            decision,
            _find_ways_out(scheduling),
            priority=_get_requested_priority(call, request, settings),
            guarantee_note=report.describe_guarantee(
                request,
                decision,
                placements,
                scheduling.guarantee,
                settings.name_guarantee(request.deployment.namespace),
            ),
        ),
        *build_scaled_as_requested(call.xr, decision, scale),
        *autoscaler.conditions,
        report.build_placements_ready(
            (*placed, *decision.carried), decision.desired, replicas=request.deployment.replicas
        ),
        *report.build_rolled_out(call.xr, rollout, placed, leaving, gate_obstacle, model_generation=generation),
    )
    is_steady = not held and all(c.status is Status.TRUE or c.reason in _NOT_IN_USE for c in conditions)
    is_settled = is_steady and not scheduling.scope.deleting
    # Crossplane calls again until the requirements are stable, up to five times. The search for a placement has taken
    # one call, so the earlier requirements stay.
    earlier = require(call, parsed, settings) if scheduling.scope.requires_lost_placements else {}
    return Outcome(
        requirements={**earlier, **scheduling.scope.requirements, **services_requirement, **gate_requirement},
        composed=adopt_all(composed, call, orphans),
        drops=(*_drop_placements(call, decision), *_drop_others(call, composed), *autoscaler.desired.drops),
        status=report.build_status(request, decision, serving, scale) | _report_url(call, request.deployment),
        conditions=conditions,
        ready=False if decision.placed < decision.desired or _lacks_replicas(request.deployment, placed) else None,
        ttl_seconds=settings.ttl_settled if is_settled else settings.ttl_pending,
        explanation=explanation,
    )


def _get_requested_priority(call: Call, request: SchedulingRequest, settings: Settings) -> int:
    """Returns the priority of the spec, which may be more than the platform allows."""
    name = request.deployment.priority_name
    return settings.priorities[name] if name else integer(call.xr, "spec.priority")


def _lacks_replicas(deployment: Deployment, placed: Iterable[Placement]) -> bool:
    """Tells whether a placement serves nothing because none of the requested replicas fits or is allowed."""
    return deployment.replicas > 0 and any(placement.replicas == 0 for placement in placed)


def decide(call: Call, parsed: Parsed[Deployment | None], settings: Settings) -> Scheduling | Outcome:
    """Decides where a deployment runs; if this is impossible now, returns the outcome that keeps its placements."""
    deployment = parsed.value
    if deployment is None:
        invalid = faulty(ConditionType.SCHEDULED, Refused.INVALID_DEPLOYMENT, parsed.problems)
        return keep_observed(call, settings, [invalid])
    own_scope = scopes.find_own_scope(call, deployment, settings)
    keep = partial(_keep_placements, observe_orphans(call, own_scope.orphans), settings, deployment)
    services = call.answers.get(requirements.MODEL_SERVICE, ())
    if any(find_controller(item.load()) != text(call.xr, "metadata.uid") for item in services):
        foreign = refuse_foreign_service(deployment.name)
        return keep(own_scope, [faulty(ConditionType.SCHEDULED, Refused.INVALID_DEPLOYMENT, [foreign])])
    try:
        model = resolve_model(call, deployment.model, deployment.namespace, ConditionType.MODEL_RESOLVED, settings)
    except NotComposableError as error:
        return keep(own_scope, error.conditions)
    if not model.profiles:
        invalid = references.model_invalid(ConditionType.MODEL_RESOLVED, deployment.model, model.problems)
        return keep(own_scope, [invalid])
    resolving = [references.model_resolved(model), references.resolving(ConditionType.SCHEDULED)]
    if not own_scope.answered:
        # With too few placements, the fleet is needed in any case. With orphans, one round has gone by to find them.
        # In both cases, requiring the fleet now saves a round of requirements.
        needs_fleet = requirements.OWN_PLACEMENTS in call.answers and (
            not _may_suffice(deployment, own_scope.own) or bool(own_scope.orphans)
        )
        labels = SchedulingRequest(deployment=deployment, model=model).labels
        first_scope = next(scopes.fleet_scopes(call, own_scope, labels, settings)) if needs_fleet else own_scope
        return keep(first_scope, resolving)
    undecided = _build_request(call, deployment, model, own_scope, settings)
    if _may_suffice(deployment, own_scope.own):
        # Decides as if only its own placements and their environments existed.
        decision = schedule(undecided.request, own_scope.environments, own_scope.own, now=call.now)
        scheduling = replace(undecided, decision=decision)
        if _is_steady(scheduling):
            return scheduling
    scheduling = _decide_from_fleet(call, settings, undecided)
    return scheduling if scheduling.scope.answered else keep(scheduling.scope, resolving)


def _build_request(call: Call, deployment: Deployment, model: Model, scope: Scope, settings: Settings) -> Scheduling:
    """Returns the inputs of a decision, without the decision."""
    storage_request = WeightsRequest(
        model=model,
        choice=deployment.storage_choice,
        adapters=deployment.adapters,
        named_cache=scope.cache,
        namespace=deployment.namespace,
        owner=deployment.name,
    )
    limits = settings.limits_of(deployment.namespace)
    guarantee = None
    if not limits.guarantee_invalid:
        namespace_placements = requirements.collect_placements(call, [requirements.PLACEMENTS_IN_NAMESPACE]) or []
        created = text(call.xr, "metadata.creationTimestamp")
        guarantee = find_guarantee(deployment, created, namespace_placements, limits)
    request = SchedulingRequest(
        deployment=deployment,
        model=model,
        storage_request=storage_request,
        serving_check=find_pool_problems,
        guaranteed_gpus=guarantee.left if guarantee else 0 if limits.guarantee_invalid else None,
    )
    return Scheduling(
        request=request,
        storage_request=storage_request,
        scope=scope,
        decision=Decision(),
        limits=limits,
        guarantee=guarantee,
    )


def _decide_from_fleet(call: Call, settings: Settings, undecided: Scheduling) -> Scheduling:
    """Decides within the quota, from ever wider scopes until everything is placed; stops at an unanswered scope."""
    scheduling = undecided
    request = undecided.request
    # Required only where a quota limits the namespace.
    namespace_placements = requirements.collect_placements(call, [requirements.PLACEMENTS_IN_NAMESPACE]) or []
    limits = settings.limits_of(request.deployment.namespace)
    usage = namespace_usage(request.deployment.namespace, namespace_placements, limits)
    for scope in scopes.fleet_scopes(call, undecided.scope, request.labels, settings):
        if not scope.answered:
            return replace(undecided, scope=scope)
        make_filter = partial(VERDICT_CACHE.make_filter, environments=scope.environments, pause=call.pause)
        decision = schedule(request, scope.environments, [*scope.others, *scope.own], make_filter, usage, call.now)
        scheduling = replace(undecided, scope=scope, decision=decision)
        if decision.is_satisfied:
            break
    # The scheduler has chosen new placements within the quota, in a smaller shape if necessary. `limit_decision`
    # refuses the placements that still exceed the quota.
    decision = limit_decision(scheduling.decision, request.to_placement, namespace_placements, limits)
    request = replace(request, quota_usage=find_exceeded_usage(decision))
    return replace(scheduling, request=request, decision=decision, usage=usage)


def _keep_placements(
    call: Call, settings: Settings, deployment: Deployment, scope: Scope, conditions: Sequence[Condition]
) -> Outcome:
    outcome = keep_observed(call, settings, conditions)
    is_invalid = any(condition.reason == ReferencesResolved.MODEL_INVALID for condition in conditions)
    return replace(
        outcome,
        requirements=scope.requirements,
        composed=_lower_replicas(carry_over(call.observed), deployment.replicas),
        status=report.lower_replicas(outcome.status, deployment.replicas),
        ready=False if is_invalid else outcome.ready,
    )


def _may_suffice(deployment: Deployment, own: Sequence[Placement]) -> bool:
    """Tells whether a deployment has as many placements as it requests, or as many replicas where it divides them."""
    if deployment.divides_replicas:
        return bool(own) and sum(placement.replicas for placement in own) >= deployment.replicas
    return len(own) >= deployment.environments


def _is_steady(scheduling: Scheduling) -> bool:
    """Tells whether the deployment's own scope suffices: everything is placed, and at most needs to be scaled down."""
    decision = scheduling.decision
    return (
        not scheduling.scope.has_file_environments
        and decision.general_refusal is None
        and decision.placed >= decision.desired
        and not decision.missing_replicas
        and not decision.refusals
        and all(p.environment in decision.unreadable for p in decision.carried)
        and all(drop.cause is RemovalCause.SCALED_DOWN for drop in decision.dropped)
        and all(_is_unchanged(assignment, scheduling) for assignment in decision.assignments)
    )


def _is_unchanged(assignment: Assignment, scheduling: Scheduling) -> bool:
    placement = assignment.placement
    if placement is None or assignment.is_rescheduled or assignment.replicas > placement.replicas:
        return False
    if any((placement.uid, placement.pool) in environment.rejected for environment in scheduling.scope.environments):
        return False
    return not requests_more(placement, scheduling.request.to_placement(assignment))


def require(call: Call, parsed: Parsed[Deployment | None], settings: Settings) -> dict[str, Requirement]:
    """Returns what a ModelDeployment has required so far in this reconcile; nothing where its spec is invalid."""
    deployment = parsed.value
    if deployment is None:
        return {}
    labels: Mapping[str, str] = {}
    with suppress(NotComposableError):
        # Selectors do not depend on settings.
        model = resolve_model(call, deployment.model, deployment.namespace, ConditionType.MODEL_RESOLVED, BUILT_IN)
        labels = SchedulingRequest(deployment=deployment, model=model).labels
    return scopes.required_resources(call, deployment, labels, settings)


def _find_ways_out(scheduling: Scheduling) -> tuple[WayOut, ...]:
    """Finds the ways out of the refusals, without moves: a deployment does not read the requests of others."""
    deployment = scheduling.request.deployment
    decision = scheduling.decision
    name = deployment.namespace, deployment.name
    if not decision.refusals:
        WAYS_OUT.forget(name)
        return ()
    snapshot = scheduling.take_snapshot(scheduling.scope.others)
    return WAYS_OUT.find(name, (snapshot, decision.refusals), lambda: find_ways_out(snapshot, decision))


def _delay_deletions(call: Call, scheduling: Scheduling) -> tuple[Scheduling, dict[str, Requirement]]:
    """Returns the decision without deletions of placements that may still get requests, and its requirement."""
    if not drains_first(scheduling.decision):
        return scheduling, {}
    answer = call.answers.get(requirements.MODEL_SERVICES)
    services = None if answer is None else [parse_service_view(item.load()) for item in answer]
    decision = delay_deletion_while_serving(scheduling.decision, services)
    services_requirement = {
        requirements.MODEL_SERVICES: requirements.require_model_services(scheduling.request.deployment.namespace)
    }
    return replace(scheduling, decision=decision), services_requirement


def _check_gate(
    call: Call,
    settings: Settings,
    request: SchedulingRequest,
    placements: Iterable[Placement],
    leaving: Collection[Placement],
) -> tuple[str, dict[str, Requirement]]:
    """Returns why the gate of a deployment stops the next change (empty: it does not), and the required gate.

    The whole reconcile fails if a required kind does not exist, or if Crossplane may not read it. The function
    therefore requires only kinds that the platform settings list (decision 32), and only while a change waits for the
    gate.
    """
    rollout = request.deployment.rollout
    gate = rollout.gate if rollout else None
    if rollout is None or gate is None:
        return "", {}
    if not needs_gate(rollout, placements, leaving, model_generation=request.model.generation):
        return "", {}
    if (gate.api_version, gate.kind) not in settings.gates:
        allowed = join_with_more(sorted(f"{version} {kind}" for version, kind in settings.gates)) or "none"
        return f"gates of {gate.api_version} {gate.kind} are not allowed; the platform settings allow {allowed}", {}
    requirement = Requirement(
        api_version=gate.api_version, kind=gate.kind, name=gate.name, namespace=request.deployment.namespace
    )
    obstacle = find_gate_obstacle(gate, call.answers.get(requirements.GATE))
    return obstacle, {requirements.GATE: requirement}


def _compose_model_service(call: Call, deployment: Deployment) -> dict[str, Composed]:
    """Returns the ModelService of a deployment with all fields of its `service`, if it has one."""
    if not deployment.composes_model_service:
        return {}
    manifest: Manifest = {
        "apiVersion": names.VERSION,
        "kind": "ModelService",
        "metadata": {
            "name": deployment.name,
            "namespace": deployment.namespace,
            "labels": {**names.MANAGED_BY, names.LABEL_DEPLOYMENT: names.label_value(deployment.name)},
        },
        "spec": {"backends": [{"deployment": deployment.name}], **mapping(call.xr, "spec.service")},
    }
    is_ready = condition(call.observed.get(SERVICE_KEY), "Ready").get("status") == Status.TRUE
    return {SERVICE_KEY: Composed(manifest=manifest, ready=is_ready)}


def _compose_provider_usages(call: Call, scheduling: Scheduling) -> dict[str, Composed]:
    """Returns the usages that keep the ClusterProviderConfig of an environment until its last placement is gone.

    An environment needs a usage if the environment or a placement on it is deleted: such a placement exists until its
    Objects are gone.
    """
    scope = scheduling.scope
    configs = {environment.name: environment.provider_config for environment in scope.environments}
    staying = {environment.name for environment in scope.environments if not environment.deleting}
    dropped = [drop.placement for drop in scheduling.decision.dropped]
    environment_names = {placement.environment for placement in (*scope.deleting, *dropped)}
    environment_names |= {placement.environment for placement in scope.own} - staying
    composed: dict[str, Composed] = {}
    for name in sorted(environment_names):
        key = f"{PROVIDER_USAGE}-{name}"
        composed[key] = compose_provider_usage(call.xr, key, configs.get(name) or name_provider_config(name))
    return composed


def _report_url(call: Call, deployment: Deployment) -> Manifest:
    url = text(call.observed.get(SERVICE_KEY), "status.url")
    return {"url": url} if deployment.composes_model_service and url else {}


def refuse_foreign_service(name: str) -> Problem:
    message = f"ModelService {name} exists and is not composed by this deployment; delete or rename it"
    return Problem("spec.service", message)


def _carry_over_placements(call: Call, scheduling: Scheduling) -> dict[str, Composed]:
    """Returns the placements that stay as observed, including unreadable ones; only labels that they lost come back."""
    dropped = {drop.placement.name for drop in scheduling.decision.dropped}
    draining = {drained.placement.name for drained in scheduling.decision.draining}
    deployment = scheduling.request.deployment
    composed: dict[str, Composed] = {}
    drained: dict[str, Composed] = {}
    for key, manifest in call.observed.items():
        name = text(manifest, "metadata.name")
        if name in draining:
            drained[key] = _with_spec(_keep_placement(manifest, deployment), {"draining": True})
        elif text(manifest, "kind") == "ModelPlacement" and (name not in dropped or key in scheduling.scope.orphans):
            kept = _count_kept(call, manifest, scheduling)
            item = _keep_placement(manifest, deployment)
            composed[key] = item if kept is None else _with_spec(item, {"replicas": kept})
    return _lower_replicas(composed, deployment.replicas) | drained


def _count_kept(call: Call, manifest: Manifest, scheduling: Scheduling) -> int | None:
    """Returns how many replicas a carried placement keeps that has to give some back; None: all.

    For a while, it keeps all of them if another placement starts in its place.
    """
    placement = parse_placement(manifest).value
    environments = scheduling.scope.environments
    environment = next((e for e in environments if placement and e.name == placement.environment), None)
    found = find_kept(environment, placement) if environment and placement else None
    if placement is None or found is None or found[0] >= placement.replicas:
        return None
    starting = any(not (a.placement and a.placement.ready) for a in scheduling.decision.assignments)
    if starting and find_time_to_move(found[1], call.now):
        return None
    return found[0]


def _keep_placement(manifest: Manifest, deployment: Deployment) -> Composed:
    """Returns an observed placement with the labels by which it is found while it is deleted (decision 37)."""
    placement = parse_placement(manifest).value
    if placement is None:
        return reapply_observed(manifest)
    # It may read another ModelCache than its deployment names by now.
    labels = _label_placement(deployment.name, placement.environment, placement.storage_choice)
    metadata = mapping(manifest, "metadata")
    return reapply_observed({**manifest, "metadata": {**metadata, "labels": {**mapping(metadata, "labels"), **labels}}})


def _drop_placements(call: Call, decision: Decision) -> Iterator[Drop]:
    causes = {drop.placement.name: drop.cause for drop in decision.dropped}
    for key, manifest in call.observed.items():
        cause = causes.get(text(manifest, "metadata.name"))
        if cause and text(manifest, "kind") == "ModelPlacement":
            yield Drop(key, _DROP_REASONS[cause])


def _drop_others(call: Call, composed: Mapping[str, Composed]) -> Iterator[Drop]:
    for key in sorted(call.observed.keys() - composed.keys()):
        if key == SERVICE_KEY:
            yield Drop(key, "the deployment has no spec.service")
        elif key.startswith(PROVIDER_USAGE):
            yield Drop(key, NO_OBJECTS_LEFT)


def _compose_placements(call: Call, scheduling: Scheduling, placed: Sequence[Placement]) -> dict[str, Composed]:
    keys = {text(manifest, "metadata.name"): key for key, manifest in call.observed.items()}
    composed: dict[str, Composed] = {}
    for assignment, placement in zip(scheduling.decision.assignments, placed, strict=True):
        key = keys.get(placement.name, f"placement-{assignment.environment}")
        blocks: Manifest = {key: get(call.xr, f"spec.{key}") for key in ("modelCache", "adapters", "retry")}
        manifest = build_placement(scheduling.request.deployment, placement, blocks)
        composed[key] = Composed(manifest=manifest, ready=placement.ready)
        if key in call.observed and not assignment.is_rescheduled:
            # The observed pool may be stale. Applying it again must not overwrite a later decision.
            composed[key] = with_resource_version(composed[key], call.observed[key])
    return composed


def build_placement(deployment: Deployment, placement: Placement, blocks: Manifest) -> Manifest:
    """Returns the ModelPlacement that records a decision; `blocks` of the deployment's spec are repeated unchanged."""
    shape = placement.shape
    price = placement.price
    when_full = "Replace" if deployment.replaces_when_full else None
    rollout = prune({"digest": placement.allowed_digest, "whenFull": when_full})
    annotations = prune(
        {
            names.ANNOTATION_VRAM: None if placement.vram is None else str(placement.vram),
            names.ANNOTATION_PRICE: f"{price.per_gpu_hour} {price.currency}" if price else None,
            names.ANNOTATION_DEPLOYMENT_CREATED: placement.deployment_created or None,
            names.ANNOTATION_EXCLUSIVE_NODES: "true" if placement.exclusive_replica_nodes else None,
        }
    )
    return {
        "apiVersion": names.VERSION,
        "kind": "ModelPlacement",
        "metadata": prune(
            {
                "name": placement.name,
                "namespace": placement.namespace,
                "labels": {**_label_placement(deployment.name, placement.environment, deployment.storage_choice)},
                "annotations": annotations or None,
            }
        ),
        "spec": prune(
            {
                "modelRef": {"kind": deployment.model.kind, "name": deployment.model.name},
                "deploymentRef": {"name": deployment.name},
                "inferenceEnvironmentRef": {"name": placement.environment},
                "profile": placement.profile,
                "pool": placement.pool,
                "topology": _build_topology(shape) if shape else None,
                "replicas": placement.replicas,
                "guaranteedReplicas": placement.guaranteed,
                "priority": placement.priority or None,
                "preemptible": placement.preemptible or None,
                "rollout": rollout or None,
                **blocks,
            }
        ),
    }


def _label_placement(deployment: str, environment: str, storage: StorageChoice) -> dict[str, str]:
    labels = build_labels(environment, storage)
    return {**names.MANAGED_BY, names.LABEL_DEPLOYMENT: names.label_value(deployment), **labels}


def _lower_replicas(composed: Mapping[str, Composed], replicas: int) -> dict[str, Composed]:
    """Returns composed resources in which no ModelPlacement has more than `replicas`; nothing else changes.

    Scaling down needs no model, environment or capacity, so a placement that is carried over is scaled down as well.
    """
    lowered = dict(composed)
    for key, item in composed.items():
        if text(item.manifest, "kind") == "ModelPlacement" and integer(item.manifest, "spec.replicas", 1) > replicas:
            lowered[key] = _with_spec(item, {"replicas": replicas})
    return lowered


def _with_spec(item: Composed, fields: Manifest) -> Composed:
    spec: Manifest = {**mapping(item.manifest, "spec"), **fields}
    return replace(item, manifest={**item.manifest, "spec": spec})


def _build_topology(shape: Shape) -> Manifest:
    split = shape.parallelism
    return {
        "nodes": shape.nodes,
        "gpusPerNode": shape.gpus_per_node,
        "parallelism": prune(
            {
                "tensor": split.tensor,
                "pipeline": split.pipeline,
                "data": split.data,
                "dataLocal": split.data_local,
                "expert": "enabled" if split.expert else "disabled",
            }
        ),
    }
