"""ModelPlacement: carry out one decision on one cluster.

Nothing is composed before the environment has admitted it. Namespace, token, claim and Job come from the plan for the
weights; the LLMInferenceService is composed first when the plan's gate is open and is always emitted after that: on the
bytes that it serves, until other bytes are verified. A change of its group is a new object; the old one stays until the
new one may be composed. Whatever reference does not resolve, everything stays as observed.
"""

from collections.abc import Mapping
from dataclasses import replace

from function.api.model_placement import PLACEMENTS, parse_placement
from function.api.settings import parse_settings
from function.composers import orphan_objects, requirements, resolve
from function.composers.finish import finish, keep_observed, unready
from function.composers.placement_writer import labels
from function.contract import Answer, Call, Condition, Outcome, Requirement
from function.domain.allocation import QuotaUsage
from function.domain.cache import ManagedCache, NamedCache
from function.domain.model import Problem
from function.domain.placement import Placement
from function.domain.resolved import ResolvedPlacement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, mapping, text
from function.reasons import ConditionType, ReferencesResolved, Status
from function.remote.carry_over import carry_over
from function.remote.object_writer import NAMESPACE, ObjectWriter, namespace
from function.remote.objects import ObservedObject, read
from function.remote.orphans import with_orphans
from function.scheduling.admission import Admission, apply_quota, check_admission
from function.scheduling.quota import find_excess, may_exceed
from function.serving import reconcile as lifecycle
from function.serving.reconcile import SERVICE, service_name
from function.status import admission as admission_report
from function.status import inference_environment as pools
from function.status import placements as report
from function.status import references, services
from function.weights import cache_usage
from function.weights.consumers import next_uri, served_uri
from function.weights.loading import loading
from function.weights.placed import PlacedWeights
from function.weights.plan import StoragePlan, plan
from function.weights.reconcile import Weights, reconcile_weights
from function.weights.request import StorageRequest

_RESOLVED = references.resolved(ConditionType.REFERENCES_RESOLVED, "Model, environment and pool are known")
# What only a change of the placement, its model or its cache mends. What is wrong with an environment or a pool takes
# nothing from those that it has admitted.
_CANNOT_START = {
    ReferencesResolved.INVALID_PLACEMENT,
    ReferencesResolved.MODEL_NOT_FOUND,
    ReferencesResolved.MODEL_INVALID,
    ReferencesResolved.CACHE_NOT_FOUND,
}


def compose(call: Call, settings: Settings) -> Outcome:
    """Return the remote objects of a ModelPlacement, with what is so and what to do."""
    parsed = parse_placement(call.xr)
    placement, faults = parsed.value, parsed.problems
    answers = [call.answer(name) for name in _orphans(call, placement)]
    answered = [answer for answer in answers if answer is not Answer.PENDING]
    lost, ending = orphan_objects.found(call, answered), orphan_objects.find_ending(call, answered)
    asked, call = _requirements(call, placement, settings), with_orphans(call, lost)
    if placement is None:
        outcome = keep_observed(call, settings, asked, [references.invalid_placement(faults)])
    else:
        outcome = _compose(call, settings, placement, faults, asked, ending)
    composed = dict(orphan_objects.kept(outcome.composed, call, lost))
    if Answer.PENDING in answers:
        composed = carry_over(call.observed) | composed
    return replace(outcome, composed=composed)


def _compose(
    call: Call,
    settings: Settings,
    placement: Placement,
    faults: tuple[Problem, ...],
    asked: dict[str, Requirement],
    ending: Mapping[str, Manifest],
) -> Outcome:
    resolved = references.invalid_placement(faults) if faults else resolve.placement(call, placement, settings)
    if isinstance(resolved, Condition):
        known = [resolved]
        if resolved.reason in _CANNOT_START and not placement.has_resources and call.observed.keys() <= {NAMESPACE}:
            known.append(admission_report.cannot_start())
        return _hold(call, settings, asked, known, placement, faulty=bool(faults))
    beyond = _excess(call, placement, settings)
    if isinstance(beyond, Condition):
        return _hold(call, settings, asked, [_RESOLVED, beyond], placement)
    admitted = check_admission(placement, resolved.environment, _labels(resolved))
    admitted = apply_quota(admitted, placement, resolved.environment, beyond)
    if not admitted.may_compose and call.observed.keys() <= {NAMESPACE}:
        return _hold(call, settings, asked, [_RESOLVED, admission_report.admitted(placement, admitted)], placement)
    writer = ObjectWriter(
        owner=placement.name,
        namespace=placement.namespace,
        provider_config=resolved.environment.provider_config,
        watch=settings.object_watch,
        observed=call.observed,
        ending=ending,
    ).within(resolved.namespace)
    return _answer(
        call,
        resolved,
        asked,
        writer,
        reconcile_weights(
            _request(resolved, call),
            writer,
            resolved.environment.name,
            placement.hydration,
            resolved.entry,
            placement.serving_uri,
        ),
        admitted,
    )


def service(call: Call, settings: Settings) -> tuple[str, str] | None:
    """Returns the name and the spec digest of the service of a placement; None where there would be no service."""
    placement = parse_placement(call.xr).value
    resolved = resolve.placement(call, placement, settings) if placement else None
    if not isinstance(resolved, ResolvedPlacement):
        return None
    there = bool(resolved.placement.hydration.completed_at)
    planned = plan(replace(_request(resolved, call), fetched=there, claimed=there))
    named = service_name(resolved.placement, resolved.shape)
    return (named, lifecycle.compute_planned_digest(resolved, planned)) if isinstance(planned, StoragePlan) else None


def _labels(resolved: ResolvedPlacement) -> Mapping[str, str]:
    """Return the labels by which others must find it.

    A ModelCache that knows its reader asks for it by name, so a placement that lost the label later does not need it.
    One that has not begun does: whether the cache knows it depends on which of both was created first.
    """
    placement, cache = resolved.placement, resolved.cache
    known = (
        placement.has_resources and cache is not None and placement.name in {reader.name for reader in cache.readers}
    )
    return labels(placement.environment, ManagedCache() if known else placement.cache)


def required_resources(call: Call) -> dict[str, Requirement]:
    """Return what is asked for a ModelPlacement; for one that names no environment only its Objects."""
    return _requirements(call, parse_placement(call.xr).value, parse_settings(call.input, call.context).value)


def _excess(call: Call, placement: Placement, settings: Settings) -> QuotaUsage | Condition | None:
    """Return why it is beyond the quota of its namespace, or that this is not known yet."""
    if not may_exceed(placement, settings.limits):
        return None
    listed = call.answer(requirements.PLACEMENTS)
    if listed is Answer.PENDING:
        return references.resolving(ConditionType.ADMITTED)
    return find_excess(
        placement, (p for p in PLACEMENTS.parse(listed) if p and p.uid != placement.uid), settings.limits
    )


def _requirements(call: Call, placement: Placement | None, settings: Settings) -> dict[str, Requirement]:
    if placement is None:
        return _orphans(call, placement)
    asked = {
        requirements.MODEL: requirements.model(placement.model, placement.namespace),
        requirements.ENVIRONMENT: requirements.environment(placement.environment),
    }
    if isinstance(placement.cache, NamedCache):
        asked[requirements.CACHE] = requirements.cache(placement.cache.name, placement.namespace)
    if may_exceed(placement, settings.limits):
        asked[requirements.PLACEMENTS] = requirements.placements(placement.namespace)
    return asked | _orphans(call, placement)


def _orphans(call: Call, placement: Placement | None) -> dict[str, Requirement]:
    """Return what is asked for what may be there unobserved, Objects also where the placement cannot be read."""
    name, namespace = text(call.xr, "metadata.name"), text(call.xr, "metadata.namespace")
    names = orphan_objects.expected(call, placement)
    asked = {requirements.orphan(lost): requirements.remote_object(lost, namespace) for lost in names}
    if placement and isinstance(placement.cache, NamedCache) and cache_usage.KEY not in call.observed:
        usage = cache_usage.usage_name(placement, placement.cache.name)
        asked[requirements.USAGE] = requirements.usage(usage, namespace)
    return {requirements.OBJECTS: requirements.objects_of(name, namespace), **asked}


def _request(resolved: ResolvedPlacement, call: Call) -> StorageRequest:
    placement = resolved.placement
    weights = PlacedWeights(
        model=resolved.model,
        choice=placement.cache,
        cache=resolved.cache,
        settings=resolved.settings,
        namespace=resolved.namespace,
        owner=placement.name,
    )
    running = any(key.startswith(SERVICE) for key in call.observed)
    asked = weights.on(resolved.environment, resolved.pool, resolved.shape, placement.replicas)
    return replace(asked, running=running)


def _answer(
    call: Call,
    resolved: ResolvedPlacement,
    asked: dict[str, Requirement],
    writer: ObjectWriter,
    stored: Weights,
    admitted: Admission,
) -> Outcome:
    key = SERVICE + service_name(resolved.placement, resolved.shape)
    written = lifecycle.write(resolved, writer, stored, key, admitted)
    remote = lifecycle.serving(writer, written, key)
    composed = {
        NAMESPACE: namespace(resolved.namespace, writer),
        **writer.named(stored.composed),
        **(cache_usage.usage(resolved.placement, resolved.cache.name) if resolved.cache else {}),
        **written.secrets,
        **written.composed,
    }
    if not lifecycle.moved(writer, stored, written, key, resolved.placement.planned_uri):
        composed |= writer.named(stored.stale) | lifecycle.left_weights(writer)
        composed |= cache_usage.until_moved(call.observed, composed)
    serving = services.remarked(_serving(resolved, remote), written.uncopied)
    conditions = (
        _RESOLVED,
        admission_report.admitted(resolved.placement, admitted),
        report.storage_ready(stored.state),
        services.invalid(written.rejected)
        if written.rejected
        else services.accepted(remote, gate_open=stored.open and admitted.may_compose),
        serving,
    )
    service = _service(call, resolved, written, remote)
    said = report.status(resolved.placement, service, _where(call, resolved, stored))
    outcome = finish(
        call,
        resolved.settings,
        requirements=asked,
        composed=composed,
        status=said | report.progress(call.xr, conditions, stored.state, remote),
        conditions=conditions,
        settled=all(c.status is Status.TRUE for c in conditions),
        ready=unready(composed, works=serving.status is Status.TRUE),
    )
    stuck = (
        (admission_report.rollout_blocked(resolved.placement, admitted, tied=written.tied),) if written.stuck else ()
    )
    return replace(outcome, events=(*outcome.events, *stuck))


def _service(call: Call, resolved: ResolvedPlacement, written: lifecycle.Written, remote: ObservedObject) -> Manifest:
    there = [m for k, m in sorted(call.observed.items()) if k.startswith(SERVICE)]
    uri = served_uri(remote, there, resolved.placement.serving_uri)
    return report.service(
        remote,
        text(remote.manifest, "metadata.name") or service_name(resolved.placement, resolved.shape),
        text(remote.manifest, "metadata.namespace") or resolved.namespace,
        uri,
        next_uri([item.manifest for item in written.composed.values()], uri),
        written.allocated,
    )


def _where(call: Call, resolved: ResolvedPlacement, stored: Weights) -> Manifest:
    if stored.plan is None:
        return mapping(call.xr, "status.storage")
    bandwidth = resolved.environment.storage.read_bandwidth
    loads = loading(stored.plan, bandwidth, resolved.model, resolved.profile)
    return report.storage(stored.plan, stored.access_mode, stored.hydration, loads)


def _serving(resolved: ResolvedPlacement, remote: ObservedObject) -> Condition:
    placement = resolved.placement
    serving = services.serving(remote, placement.replicas, served=placement.was_ready)
    return pools.remarked(serving, resolved.pool, resolved.shape, resolved.environment.name)


def _hold(
    call: Call,
    settings: Settings,
    asked: dict[str, Requirement],
    known: list[Condition],
    placement: Placement,
    *,
    faulty: bool = False,
) -> Outcome:
    """Keep everything as observed, and still say how the service is: that depends on nothing that is missing.

    Nor do fewer replicas, save where the placement itself is `faulty`: nobody knows what it asks for.
    """
    there = lifecycle.lowered(call.observed, None if faulty else placement)
    remote = read(next((call.observed[key] for key in there), None))
    most = lifecycle.most(there)
    conditions = (*known, services.serving(remote, max(placement.replicas, most), served=placement.was_ready))
    held = keep_observed(call, settings, asked, conditions)
    status = {**held.status, **report.progress(call.xr, held.conditions, None, remote)}
    if there:
        status |= report.with_fewer(status, max(most, lifecycle.most_running(call.observed)))
    return replace(held, composed={**held.composed, **there}, status=status)
