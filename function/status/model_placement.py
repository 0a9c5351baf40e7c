"""Status, conditions and events of a ModelPlacement: admission, weights, service and phase."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from function.capacity.admission import Admission
from function.contract import Call, Condition, Event
from function.domain.allocation import Free, format_replicas
from function.domain.engines import ENGINES, get_last_value
from function.domain.environment import Environment, Pool
from function.domain.model import Engine, PvcSource, Routing, Shape
from function.domain.model_service import Gateway
from function.domain.placement import Placement, ResolvedPlacement, Stage
from function.domain.records.restarts import RestartRecord, build_restarts
from function.domain.records.service import ServiceRecord, build_ready_replicas, build_service_record
from function.domain.records.weights import DownloadRecord, WeightsRecord, build_download, build_weights
from function.kube.manifests import (
    JSON,
    Manifest,
    condition,
    flag,
    format_time,
    get,
    integer,
    listing,
    mapping,
    prune,
    text,
)
from function.kube.messages import format_count, join_with_more, truncate_middle
from function.kube.quantity import gib
from function.kube.urls import parse_origin
from function.reasons import Admitted, ConditionType, Phase, ServiceAccepted, ServiceReady, Status
from function.remote.composed_kinds import assess
from function.remote.health import Level, is_current
from function.remote.object_writer import SERVICE_PREFIX
from function.remote.observed_object import ObservedObject, State, read_written
from function.serving.picker import find_inference_pool, find_unused_since
from function.serving.reconcile import ReconciledService, ServiceDecision, name_inference_service
from function.serving.restarts import describe_restarts, find_limit_obstacle, find_unready_since
from function.serving.service import list_loaded_adapters
from function.status.conditions import faulty
from function.status.inference_environment import note_missing_plugin, note_tcp_fallback, note_unusable_nodes
from function.status.weights import build_load_status, describe_storage
from function.weights.claim import estimate_load
from function.weights.consumers import find_applied_uri, find_serving_uri
from function.weights.planner import WeightsPlan
from function.weights.reconcile import ReconciledWeights
from function.weights.request import parse_claim_uri
from function.weights.state import WeightsState

# The cluster answers, whatever became of the last write: the mirrored manifest is current.
_ANSWERED = {State.PRESENT, State.REJECTED, State.UNKNOWN_FIELD, State.CONFLICT, State.WEBHOOK_FAILED}
_WEIGHTS = ServiceAccepted.WAITING_FOR_STORAGE, "The service is created once its weights are ready"
_NOT_COMPOSED: Mapping[ServiceDecision, tuple[ServiceAccepted, str]] = {
    ServiceDecision.NOT_ADMITTED: (
        ServiceAccepted.WAITING_FOR_ADMISSION,
        "The service is created once the placement is admitted",
    ),
    ServiceDecision.STOPPED: (ServiceAccepted.WAITING_FOR_ADMISSION, "The service has reached its restart limit"),
    ServiceDecision.NOT_PLANNED: _WEIGHTS,
    ServiceDecision.WEIGHTS_NOT_READY: _WEIGHTS,
    ServiceDecision.COMPLETION_NOT_RECORDED: _WEIGHTS,
    ServiceDecision.CLAIM_NOT_SHARED: (
        ServiceAccepted.WAITING_FOR_STORAGE,
        "The service is not created, because its pods cannot all mount the claim",
    ),
    ServiceDecision.ADAPTERS_NOT_READY: (
        ServiceAccepted.WAITING_FOR_STORAGE,
        "The service is created once its adapters are downloaded or have failed",
    ),
}
_WAITING = (ServiceReady.STARTING, ServiceReady.DEGRADED)
_HAS_PODS = (ServiceReady.SERVING, *_WAITING)
_accepted = partial(Condition, ConditionType.SERVICE_ACCEPTED)
_service_ready = partial(Condition, ConditionType.SERVICE_READY)


def build_storage_ready(state: WeightsState, adapters: Mapping[str, ReconciledWeights]) -> Condition:
    """Returns StorageReady: of the model's weights, and once these are there, of the first adapter that is not."""
    message = describe_storage(state)
    if state.status is Status.TRUE and adapters:
        missing = {name: download.state for name, download in adapters.items() if not download.service_may_read}
        # First the one that somebody must do something about.
        name = min(missing, key=lambda name: (missing[name].phase is not Phase.FAILED, name), default="")
        if name:
            state = missing[name]
            message = f"Adapter {name}: {describe_storage(state)}"
            if len(missing) > 1:
                message = f"{message}. Not downloaded either: {join_with_more(sorted(missing.keys() - {name}))}"
            return Condition(ConditionType.STORAGE_READY, state.status, state.reason, message)
        message = f"{message}, with {format_count(len(adapters), 'adapter')}"
    return Condition(ConditionType.STORAGE_READY, state.status, state.reason, message)


def build_adapters(placement: Placement, downloads: Mapping[str, ReconciledWeights], obstacle: str) -> Manifest:
    """Returns `status.adapters`; `obstacle` is why none of them is downloaded."""
    recorded = dict(placement.adapter_downloads)
    waiting = obstacle or "The download starts once the weights of the model are there"
    rows: list[JSON] = []
    for adapter in placement.adapters:
        download = downloads.get(adapter.name)
        if download:
            rows.append(_build_adapter(adapter.name, download))
        elif isinstance(adapter.source, PvcSource) and not obstacle:
            rows.append({"name": adapter.name, "phase": Phase.READY})
        else:
            record = build_download(recorded.get(adapter.name, DownloadRecord()))
            rows.append({"name": adapter.name, "phase": Phase.PENDING, "message": waiting, **record})
    return {"adapters": rows} if rows else {}


def _build_adapter(name: str, download: ReconciledWeights) -> Manifest:
    message = "" if download.service_may_read else truncate_middle(describe_storage(download.state))
    displayed = prune({"message": message or None, "job": download.job_name or None})
    return {"name": name, "phase": download.state.phase, **displayed, **build_download(download.download)}


def build_service_conditions(
    resolved: ResolvedPlacement, reconciled: ReconciledService, restarts: RestartRecord, waits_for_kueue: str = ""
) -> tuple[Condition, Condition]:
    """Returns ServiceAccepted and ServiceReady; `waits_for_kueue`: why Kueue may hold pods."""
    placement = resolved.placement
    missing_secret = reconciled.missing_pull_secret
    ready = build_service_ready(reconciled.remote, placement.replicas, has_served=placement.has_served)
    if restarts.stopped and placement.restarts.stopped:
        ready = with_stop(ready, placement)
    elif ready.reason in _WAITING:
        ready = replace(ready, message=f"{ready.message}{_describe_restarts(resolved, reconciled, restarts)}")
    engine = resolved.profile.engine
    ready = with_pool_notes(ready, resolved.pool, resolved.shape, resolved.environment.name, engine)
    if missing_secret and ready.status is not Status.TRUE:
        note = f"Images cannot be pulled: {describe_storage(missing_secret)}"
        ready = replace(ready, message=f"{ready.message}. {note}")
    if waits_for_kueue:
        ready = replace(ready, message=f"{ready.message}. {waits_for_kueue}")
    if reconciled.kept_labels:
        note = _describe_kept_labels(placement, resolved.pool, reconciled.kept_labels)
        ready = replace(ready, message=f"{ready.message}. {note}")
    if reconciled.picker_obstacle:
        note = f"Routing {Routing.PREFIX_AWARE} has no effect: {reconciled.picker_obstacle}"
        ready = replace(ready, message=f"{ready.message}. {note}")
    return build_service_accepted(reconciled), ready


def with_stop(ready: Condition, placement: Placement) -> Condition:
    """Returns ServiceReady of a service that waits for nothing, because it was stopped at its restart limit."""
    if ready.reason not in _WAITING or not placement.restarts.stopped:
        return ready
    return replace(ready, reason=ServiceReady.STOPPED, message="Stopped at its restart limit: see Admitted")


def _describe_restarts(resolved: ResolvedPlacement, reconciled: ReconciledService, restarts: RestartRecord) -> str:
    """Returns since when a service is not Ready, the GPUs that it has meanwhile, and how often it restarted."""
    since = find_unready_since(reconciled.remote)
    allocated = reconciled.allocated
    notes = []
    if since and allocated and allocated.gpus:
        notes.append(f"not Ready since {since}, and has {format_count(allocated.gpus, 'GPU')} meanwhile")
    notes.append(describe_restarts(restarts, resolved.profile.restart_limit))
    obstacle = find_limit_obstacle(resolved)
    notes.append(f"restartLimit has no effect: {obstacle}" if obstacle else "")
    return "".join(f". {note[0].upper()}{note[1:]}" for note in notes if note)


def build_restart_status(service: ObservedObject, restarts: RestartRecord) -> Manifest:
    """Returns `status.notReadySince` and `status.restarts`."""
    return {**prune({"notReadySince": find_unready_since(service) or None}), **build_restarts(restarts)}


def _describe_kept_labels(placement: Placement, pool: Pool, keys: Sequence[str]) -> str:
    return (
        f"Note on pool {pool.name}: the pods keep their labels {join_with_more(keys)}, as these cannot change while "
        f"the service exists; deleting ModelPlacement {placement.name} stops the service and creates it again"
    )


def build_admitted(placement: Placement, admission: Admission) -> Condition:
    status = Status.TRUE if admission.reason is Admitted.ADMITTED else Status.FALSE
    message = _describe_admission(placement, admission)
    is_expected = admission.reason is Admitted.WAITING and not admission.evaluated
    return Condition(ConditionType.ADMITTED, status, admission.reason, message, is_expected=is_expected)


def build_cannot_start() -> Condition:
    """Returns Admitted for a placement that cannot start as it is, and for which nothing was composed."""
    message = "Nothing is composed and no GPUs are reserved until its references resolve"
    return Condition(ConditionType.ADMITTED, Status.FALSE, Admitted.CANNOT_START, message)


def build_rollout_blocked(placement: Placement, admission: Admission, *, same_node_is_full: bool) -> Event:
    """Returns the event for an edit that Kubernetes cannot roll out, while KServe continues to report Ready."""
    request = placement.requested
    assert request is not None  # a service was composed for it
    if same_node_is_full:
        cause = "its claim is ReadWriteOnce, so the new pod needs the node of the old one, which has no room for both"
    else:
        pod = format_replicas(1, request, exclusive_node=admission.exclusive_node)
        cause = f"pool {request.pool} of {placement.environment} has no room for {pod} beside the running ones, "
        cause += _describe_free(admission.free)
    message = (
        f"The edit is applied, and KServe starts a new pod before it stops an old one: {cause}. The old pods keep "
        "serving until there is room. With rollout.whenFull: Replace, they end before the new pods start"
    )
    return Event(reason="RolloutNeedsRoom", message=truncate_middle(message), warning=True)


def build_service_accepted(reconciled: ReconciledService) -> Condition:
    remote = reconciled.remote
    if reconciled.problems:
        return faulty(ConditionType.SERVICE_ACCEPTED, ServiceAccepted.REJECTED, reconciled.problems)
    if remote.refused:
        return _accepted(Status.FALSE, ServiceAccepted.REJECTED, remote.problem)
    if remote.state is State.KIND_MISSING:
        message = "The cluster does not serve LLMInferenceService; install KServe"
        return _accepted(Status.FALSE, ServiceAccepted.REJECTED, message)
    if not remote.seen and reconciled.decision in _NOT_COMPOSED:
        return _accepted(Status.FALSE, *_NOT_COMPOSED[reconciled.decision])
    if remote.state is State.UNSEEN:
        return _accepted(Status.FALSE, ServiceAccepted.APPLYING, "The service is being created")
    if not remote.present:
        return _accepted(Status.UNKNOWN, ServiceAccepted.APPLYING, remote.problem)
    if not is_current(remote.manifest):
        return _accepted(Status.FALSE, ServiceAccepted.APPLYING, "KServe has not observed the latest change yet")
    presets = condition(remote.manifest, "PresetsCombined")
    match text(presets, "status"):
        case "True":
            return _accepted(Status.TRUE, ServiceAccepted.ACCEPTED, "KServe has accepted the service")
        case "False":
            return _accepted(Status.FALSE, ServiceAccepted.REJECTED, f"KServe: {text(presets, 'message')}")
        case _:
            return _accepted(Status.FALSE, ServiceAccepted.APPLYING, "KServe has not combined its presets yet")


def build_service_ready(remote: ObservedObject, replicas: int, *, has_served: bool) -> Condition:
    """Returns ServiceReady from the observed service and the requested replicas.

    `has_served`: the service was Ready before, so a service that is not Ready now is Degraded and not Starting.
    """
    health = assess(remote.manifest)
    if remote.state_unknown or (remote.seen and remote.state not in _ANSWERED):
        is_sync_failure = remote.state_unknown and not remote.unreachable
        reason = ServiceReady.SYNC_FAILED if is_sync_failure else ServiceReady.UNREACHABLE
        last = f". Last observed as {'ready' if health.up else 'not ready'}" if remote.seen else ""
        return _service_ready(Status.UNKNOWN, reason, f"{remote.problem}{last}")
    if not remote.seen:
        return _service_ready(Status.FALSE, ServiceReady.STARTING, "The service does not exist yet")
    # KServe reports Ready for a service without replicas (docs/facts.md, KServe).
    if replicas > 0 and get(remote.manifest, "spec.replicas") == 0:
        return _service_ready(Status.FALSE, ServiceReady.STARTING, "The service has no replicas yet")
    if replicas == 0 and health.level is not Level.FAILED:
        message = f"No replicas are requested. KServe: {health.message}" if health.message else ""
        return _service_ready(Status.TRUE, ServiceReady.SCALED_TO_ZERO, message or "No replicas are requested")
    if health.up:
        url = get_service_url(remote.manifest) or "no URL yet"
        return _service_ready(Status.TRUE, ServiceReady.SERVING, f"Serving at {url}")
    reason = ServiceReady.DEGRADED if has_served else ServiceReady.STARTING
    return _service_ready(Status.FALSE, reason, health.message or "Waiting for KServe")


def with_pool_notes(serving: Condition, pool: Pool, shape: Shape, environment: str, engine: Engine) -> Condition:
    """Returns ServiceReady with notes on its pool.

    They name unusable nodes while pods may wait for one, missing RDMA devices, and an image without the library that
    the network needs while the service is not ready.
    """
    notes = [note_unusable_nodes(pool)] if serving.reason in _WAITING else []
    notes += [note_tcp_fallback(pool)] if shape.nodes > 1 and serving.reason in _HAS_PODS else []
    notes += [note_missing_plugin(pool, engine)] if shape.nodes > 1 and serving.status is not Status.TRUE else []
    appended = "".join(f". Note on InferenceEnvironment {environment}: {note}" for note in notes if note)
    return replace(serving, message=f"{serving.message}{appended}")


def get_service_url(service: Manifest) -> str:
    """Returns the URL of a service: KServe's own, else its first address."""
    return text(service, "status.url") or next((text(a, "url") for a in listing(service, "status.addresses")), "")


def _describe_admission(placement: Placement, admission: Admission) -> str:
    usage = admission.quota_usage
    if admission.reason is Admitted.RESTART_LIMIT_REACHED:
        return _describe_stop(placement)
    if admission.reason is Admitted.LABEL_MISSING:
        return f"metadata.labels {describe_missing_labels(admission.missing_labels)}"
    if admission.reason is Admitted.QUOTA_EXCEEDED:
        assert usage is not None
        consequence = "it keeps what it has" if placement.stage > Stage.NEW else "nothing is composed"
        return f"{usage.request} required; {usage.message}; until then {consequence}"
    return _describe_request(placement, admission)


def _describe_stop(placement: Placement) -> str:
    """Returns why a placement was stopped, and how it starts again."""
    of = f"ModelDeployment {placement.deployment}" if placement.deployment else "this placement"
    return (
        f"Its service has reached restartLimit of profile {placement.profile} and gives its GPUs to others: "
        f"{describe_restarts(placement.restarts)}. It starts again with another value of spec.retry of {of}, with a "
        "higher limit, or with an edit that changes its pods"
    )


def describe_missing_labels(missing: Mapping[str, str]) -> str:
    labels = ", ".join(f"{key}: {value}" for key, value in sorted(missing.items()))
    return f"must include {labels}; without them the environment cannot see this placement and nothing is started"


def _describe_request(placement: Placement, admission: Admission) -> str:
    request = placement.requested
    assert request is not None  # no environment evaluates a placement that cannot be read
    pool = f"pool {request.pool} of {placement.environment}"
    if admission.reason is Admitted.ADMITTED:
        return f"Admitted to {pool}: {format_replicas(request.replicas, request)}"
    size = format_replicas(request.replicas, request, exclusive_node=admission.exclusive_node)
    required = f"{pool}: {size} required"
    if admission.replicas:
        required += f", {admission.replicas} admitted"
    if admission.taken_back:
        until = admission.taken_back_until
        most = "" if until is None else f"; if they are replaced elsewhere first, by {format_time(until)}"
        return f"{required}; waits for other replicas to end: {join_with_more(admission.taken_back)}{most}"
    environment = f"InferenceEnvironment {placement.environment}"
    limit = admission.status_limit
    if not admission.evaluated:
        others = f": it rejects {limit} others, and lists no more" if limit else " yet"
        return f"{required}; {environment} has not evaluated this placement{others}"
    is_rejected = admission.reason is Admitted.REJECTED
    next_step = "its deployment reschedules it" if is_rejected else "it will be admitted when capacity is available"
    if limit:
        return f"{required}; {environment} has admitted {limit} placements and lists no more; {next_step}"
    if admission.exceeds_pool:
        next_step = next_step if is_rejected else "request less, or raise what the pool declares"
        return f"{required}, more than the empty pool holds; {next_step}"
    return f"{required}, {_describe_free(admission.free)}; {next_step}"


def _describe_free(free: Free | None) -> str:
    levels = [f"{gpus} on {format_count(nodes, 'node')}" for gpus, nodes in reversed(free.nodes)] if free else []
    return f"free GPUs: {', '.join(levels)}" if levels else "no GPU is free"


def build_progress(
    xr: Manifest, conditions: Sequence[Condition], state: WeightsState | None, remote: ObservedObject
) -> Manifest:
    serves = any(c.reason == ServiceReady.SERVING for c in conditions)
    return {"phase": _phase(conditions, state, remote), "served": serves or flag(xr, "status.served")}


def _phase(conditions: Sequence[Condition], state: WeightsState | None, remote: ObservedObject) -> Phase:
    by_type = {condition.type: condition for condition in conditions}
    if by_type[ConditionType.SERVICE_READY].status is Status.TRUE:
        return Phase.READY
    if any(condition.reason == Admitted.RESTART_LIMIT_REACHED for condition in conditions):
        return Phase.FAILED
    accepted = by_type[ConditionType.SERVICE_ACCEPTED]
    if accepted.status is Status.FALSE and accepted.reason == ServiceAccepted.REJECTED:
        return Phase.FAILED
    if remote.seen:
        return Phase.STARTING
    if state is None:
        return Phase.PENDING
    return Phase.STARTING if state.status is Status.TRUE else state.phase


def build_service_status(call: Call, resolved: ResolvedPlacement, reconciled: ReconciledService) -> Manifest:
    """Returns `status.gpus`, `service`, `gateway` and `readyReplicas`."""
    remote = reconciled.remote.manifest
    last = resolved.placement.service
    service = _record_service(call, resolved, reconciled)
    ready_replicas = build_ready_replicas(remote)
    if resolved.placement.has_served and not reconciled.remote.seen and last.name == service.name:
        service = _keep_last_reported(last, service)
        ready_replicas |= prune({"readyReplicas": get(call.xr, "status.readyReplicas")})
    return {
        "gpus": resolved.shape.gpus * resolved.placement.replicas,
        **build_service_record(service),
        **ready_replicas,
    }


def _record_service(call: Call, resolved: ResolvedPlacement, reconciled: ReconciledService) -> ServiceRecord:
    """Returns the record of the service: its name, its weights, what it takes of which pool, and how it is reached."""
    remote = reconciled.remote.manifest
    observed = [manifest for key, manifest in sorted(call.observed.items()) if key.startswith(SERVICE_PREFIX)]
    serving_uri = find_serving_uri(reconciled.remote, observed, resolved.placement.service.serving_uri)
    backend_service_name = text(remote, "status.workloads.service.name")
    last, leaves = resolved.placement.service, reconciled.picker_leaves
    key = SERVICE_PREFIX + text(remote, "metadata.name")
    composed = (read_written(item.manifest) for item in reconciled.composed.values())
    # While the cluster does not answer, its routes still name the pool.
    is_withdrawing = leaves and not reconciled.remote.state_unknown
    return ServiceRecord(
        name=text(remote, "metadata.name") or name_inference_service(resolved.placement, resolved.shape),
        namespace=text(remote, "metadata.namespace") or resolved.namespace,
        url=get_service_url(remote),
        serving_uri=serving_uri,
        applied_uri=find_applied_uri([item.manifest for item in reconciled.composed.values()], serving_uri),
        allocated=reconciled.allocated,
        backend_service_name=backend_service_name,
        inference_pool=""
        if leaves
        else find_inference_pool(remote, read_written(call.observed.get(key)), last.inference_pool),
        pool_unused_since=find_unused_since([remote, *composed], last.pool_unused_since, call.now)
        if is_withdrawing
        else None,
        # Clients cannot notice a service that has no Kubernetes Service yet.
        traits=_list_traits(resolved, serving_uri, list_loaded_adapters(remote)) if backend_service_name else (),
        gateway=find_gateway(remote, resolved.environment),
    )


def _keep_last_reported(last: ServiceRecord, service: ServiceRecord) -> ServiceRecord:
    """Returns the record with what KServe reported last, because the Object has lost what the provider observed.

    An Object that a backup restores has no status until the provider reads the cluster again, and ModelServices go on
    sending requests meanwhile.
    """
    return replace(
        service,
        url=service.url or last.url,
        backend_service_name=service.backend_service_name or last.backend_service_name,
        inference_pool=service.inference_pool or last.inference_pool,
        traits=service.traits or last.traits,
        gateway=service.gateway or last.gateway,
    )


def build_storage(call: Call, resolved: ResolvedPlacement, weights: ReconciledWeights) -> Manifest:
    """Returns `status.storage`; the observed value stays while no plan is possible."""
    plan = weights.plan
    block = _build_storage(resolved, weights, plan) if plan else mapping(call.xr, "status.storage")
    return prune({"storage": block or None})


def _build_storage(resolved: ResolvedPlacement, weights: ReconciledWeights, plan: WeightsPlan) -> Manifest:
    bandwidth = resolved.environment.storage.read_bandwidth
    loads = estimate_load(plan.bytes_on_claim, bandwidth)
    size = plan.claim.size if plan.claim else None
    hydration = weights.download if plan.job else DownloadRecord()
    record = WeightsRecord(planned_uri=plan.uri, access_mode=weights.access_mode, download=hydration)
    displayed: Manifest = {
        "type": plan.storage_type,
        "claimName": plan.claim_name or None,
        "path": plan.path or None,
        "size": gib(size.amount) if size else None,
        "sizeFrom": size.source if size else None,
        **build_load_status(loads),
        "job": weights.job_name or None,
    }
    return {**prune(displayed), **build_weights(record)}


def find_gateway(service: Manifest, environment: Environment) -> Gateway | None:
    """Returns the gateway of a service; None if there is none, or none yet.

    The gateway that the environment declares takes precedence over the URL that KServe reports for the service.
    """
    declared = environment.gateway
    origin = declared.origin or parse_origin(get_service_url(service))
    attached = next(iter(listing(service, "status.router.gateways")), {})
    name = text(attached, "name")
    namespace = text(attached, "namespace") or text(service, "metadata.namespace")
    if origin is None or not name or not environment.kserve.gateway:
        return None
    return Gateway(
        origin=origin,
        name=name,
        namespace=namespace,
        provider_config=environment.provider_config,
        tls_hostname=declared.tls_hostname,
        ca_config_map=declared.ca_config_map,
    )


def _list_traits(resolved: ResolvedPlacement, serving_uri: str, adapters: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Returns what clients can notice of a service: its names, the longest request, the weights and the engine."""
    engine = resolved.profile.engine
    # Each placement may have a claim of its own; the path identifies the weights.
    on_claim = parse_claim_uri(serving_uri)
    weights = on_claim[1] if on_claim else serving_uri
    traits = {
        "adapters": ", ".join(adapters),
        "contextLength": get_last_value(engine.args, ENGINES[engine.name].context_flag) or "default",
        "engine": engine.image.rpartition("/")[2],
        "model": resolved.model.served_name,
        "weights": weights,
    }
    return tuple((name, value) for name, value in traits.items() if value)


def withdraw_pool(status: Manifest, remote: ObservedObject, written: Manifest) -> Manifest:
    """Returns `status.service` without the InferencePool if no request may go to it any more; else empty."""
    service = mapping(status, "service")
    pool = text(service, "inferencePool")
    if not pool or not remote.seen or find_inference_pool(remote.manifest, written, pool) == pool:
        return {}
    return {"service": {key: value for key, value in service.items() if key != "inferencePool"}}


def limit_replicas(status: Manifest, replicas: int) -> Manifest:
    """Returns the allocation in a status for at most this number of replicas; empty if it has no more."""
    service = mapping(status, "service")
    allocated = integer(service, "replicas")
    if allocated <= replicas:
        return {}
    return {"service": {**service, "replicas": replicas}, "gpus": integer(status, "gpus") * replicas // allocated}
