"""When the LLMInferenceService of a placement is composed, on which weights, and what happens to an earlier service.

A running service changes only with its spec digest (decision 11). Only `replicas` always follow the placement, as far
as the placement is admitted for them in the shape and pool of the service, and its endpoint picker (picker.py). While
weights are downloaded, also for the second time, or cannot be planned, all other edits wait with the weights.

A service that the cluster refuses, or that was never ready, has no pods to protect: it is composed as built. An earlier
service of another group size is deleted only once the new service may be composed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from function.capacity.admission import Admission
from function.contract import Composed, Drop
from function.domain.adapter import ChosenAdapters, ServedAdapter
from function.domain.allocation import Share
from function.domain.model import Lora, Problem, Shape
from function.domain.placement import Placement, ResolvedPlacement
from function.kube.manifests import Manifest, get, integer, listing, mapping, strings, text
from function.kube.names import ANNOTATION_SPEC_DIGEST, LABEL_DEPLOYMENT, MANAGED_BY, build_name, label_value
from function.remote.composed_kinds import assess
from function.remote.health import Level, is_current
from function.remote.object_writer import (
    SERVICE_PREFIX,
    ManagementPolicy,
    ObjectWriter,
    reapply_observed,
    with_resource_version,
)
from function.remote.observed_object import ObservedObject, State, is_up, read_object, read_written
from function.serving.digest import ServingRequest, compute_spec_digest
from function.serving.labels import find_kept_labels, keep_labels
from function.serving.picker import (
    find_picker_obstacle,
    keep_while_used,
    wants_picker,
    with_picker_of,
    without_new_picker,
)
from function.serving.pod_deployment import PRIMARY_WORKLOAD
from function.serving.restarts import has_no_ready_pod
from function.serving.service import build_service, find_service_problems
from function.weights.claim import is_shared
from function.weights.credentials import list_pull_secret_copies
from function.weights.planner import WeightsPlan
from function.weights.reconcile import ReconciledWeights
from function.weights.state import WeightsFinding, WeightsState, find_secret_obstacle

PULL_PREFIX = "pull-"
_URI = "spec.model.uri"
_NOT_SHARED = {WeightsFinding.CLAIM_NOT_SHARED, WeightsFinding.CACHE_NOT_SHARED}
# KServe leaves the strategy of its Deployments to Kubernetes. Up to this number of replicas, Kubernetes starts a new
# pod before it ends an old pod: only a quarter of the replicas, rounded down, may be missing (docs/facts.md, KServe).
_MAX_SURGE_ONLY_REPLICAS = 3


class ServiceDecision(Enum):
    """Whether the requested service is composed now; if not, the reason why the running service is kept as it is.

    The decision is made only for a placement whose references resolve, and that is admitted or has something composed.
    """

    COMPOSE = "the weights are ready, or the service is written to read them already"
    NOT_ADMITTED = "the environment has not admitted the placement in its shape and pool"
    NOT_PLANNED = "the storage has faults, so that no plan for the weights is possible"
    CLAIM_NOT_SHARED = "the pods cannot all mount the claim"
    INVALID = "the service cannot be built"
    WEIGHTS_NOT_READY = "the weights are not ready"
    COMPLETION_NOT_RECORDED = "another service would be replaced before the status says that the weights are complete"
    CLUSTER_UNREACHABLE = "the service would move to other nodes or GPUs of a cluster that does not answer"
    ADAPTERS_NOT_READY = "an adapter is downloaded, or a loaded adapter cannot be replaced"
    NOT_ITS_TURN = "the deployment changes other environments first"
    STOPPED = "the service has reached its restart limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledService:
    """The services of a placement as they are composed now."""

    decision: ServiceDecision
    composed: Mapping[str, Composed]  # the service, or an earlier one in its place; at most one
    pull_secrets: Mapping[str, Composed] = field(default_factory=dict)  # copies with which the images are pulled
    drops: tuple[Drop, ...] = ()  # of other services, and of copies that no image needs
    missing_pull_secret: WeightsState | None = None  # the first copy that does not exist
    problems: tuple[Problem, ...] = ()  # why the service cannot be built
    allocated: Share | None = None  # what the services take of a pool
    rollout_blocked: bool = False  # the running pods must end before the new ones can start
    picker_leaves: bool = False  # no endpoint picker is requested
    picker_obstacle: str = ""  # why there is none although the profile asks for one
    kept_labels: tuple[str, ...] = ()  # keys of requested labels that the existing service cannot get
    same_node_is_full: bool = False  # the new pod needs the node of the running pod, which has no GPUs for both
    remote: ObservedObject = ObservedObject(State.UNSEEN, {})  # the service that serves, or will
    may_read_previous_weights: bool = True  # a pod may read other weights than the planned ones
    requested_digest: str = ""  # of the service as requested; only if its deployment gives turns
    next_digest: str = ""  # of the service as requested, if only its restart limit keeps it from being composed

    @property
    def written(self) -> Manifest:
        """The service in the spec of its Object; empty if none is composed."""
        return read_written(next((item.manifest for item in self.composed.values()), None))

    @property
    def served_digest(self) -> str:
        return _read_digest(self.remote.manifest)


def name_inference_service(placement: Placement, shape: Shape) -> str:
    """Returns the service's name, which differs for each mode and group size: KServe refuses to change them."""
    identity = (placement.namespace, placement.name, shape.mode.value, str(shape.nodes))
    return build_name(placement.name, *identity)


def reconcile_service(
    resolved: ResolvedPlacement,
    writer: ObjectWriter,
    weights: ReconciledWeights,
    adapters: ChosenAdapters,
    admission: Admission,
    now: float,
) -> ReconciledService:
    """Composes the service of a placement, or keeps what runs while it cannot or may not be composed.

    `now`: seconds since 1970.
    """
    key = SERVICE_PREFIX + name_inference_service(resolved.placement, resolved.shape)  # composition-resource-name
    # The service in the spec of its Object; what the cluster has is in the Object's status (`writer.read(key)`).
    written = read_written(writer.observed.get(key))
    replicas = _limit_replicas(resolved, weights, admission, written, writer.read(key))
    kept = _keep_one_service(resolved, writer, key, replicas.if_kept)
    requested = None
    if weights.plan:
        requested = build_serving_request(resolved, weights.plan, replicas.if_composed, adapters.served)
    request = requested and keep_labels(requested, written)
    problems = (*find_service_problems(request), *_find_adapter_problems(resolved)) if request else ()
    rolls_out_in_order = resolved.placement.allowed_digest is not None
    requested_digest = ""
    if request and rolls_out_in_order:
        # Turns are given for a service with the adapters that are still downloaded.
        lora = _get_lora(resolved, adapters.planned)
        requested_digest = compute_spec_digest(replace(request, adapters=adapters.planned, lora=lora))
    waits = _find_wait(resolved, writer.read(key), written, requested_digest, kept)
    if request and _waits_for_weights(weights, written, request):
        waits = ServiceDecision.WEIGHTS_NOT_READY
    elif adapters.waits:
        waits = waits or ServiceDecision.ADAPTERS_NOT_READY
    decision = decide_service(
        weights, admission, written, problems, replaces_another=any(name != key for name in kept), waits=waits
    )
    if request and decision is ServiceDecision.COMPOSE:
        reconciled = _compose_requested(resolved, writer, weights, admission, request, now)
    else:
        reconciled = ReconciledService(
            decision=decision,
            composed=kept,
            drops=_drop_others(
                writer, SERVICE_PREFIX, kept, "only one of two services of a placement was granted GPUs"
            ),
            problems=problems,
            allocated=_allocate(writer, resolved, kept, key) if kept else None,
        )
    remote = writer.read(next(iter(reconciled.composed), key))
    may_read_previous = _may_read_previous_weights(
        writer, weights, reconciled, key, resolved.placement.weights.planned_uri
    )
    return replace(
        reconciled,
        remote=remote,
        may_read_previous_weights=may_read_previous,
        requested_digest=requested_digest,
        next_digest=compute_spec_digest(request) if request and decision is ServiceDecision.STOPPED else "",
        kept_labels=find_kept_labels(requested, request) if requested and request else (),
    )


def decide_service(
    weights: ReconciledWeights,
    admission: Admission,
    written: Manifest,
    problems: Sequence[Problem],
    *,
    replaces_another: bool,
    waits: ServiceDecision | None,
) -> ServiceDecision:
    """Decides whether the requested service is composed now.

    `written`: the service of this name as last written; empty if there is none. `replaces_another`: composing the
    requested service deletes a service of another group. This other service is deleted only for weights whose
    completion is in the composite's status. If the Job disappeared first, a later call could not tell that the weights
    are complete, and would bring the other service back. `waits`: why the requested service is not composed yet,
    although everything else is ready.
    """
    if not (admission.admits_service or admission.stops_service):
        return ServiceDecision.NOT_ADMITTED
    if weights.plan is None:
        return ServiceDecision.NOT_PLANNED
    if not written and weights.state.finding in _NOT_SHARED:
        return ServiceDecision.CLAIM_NOT_SHARED
    if problems:
        return ServiceDecision.INVALID
    if text(written, _URI) != weights.plan.uri:
        if not weights.service_may_read:
            return ServiceDecision.WEIGHTS_NOT_READY
        if replaces_another and not weights.completion_recorded:
            return ServiceDecision.COMPLETION_NOT_RECORDED
    return waits or (ServiceDecision.STOPPED if admission.stops_service else ServiceDecision.COMPOSE)


def _find_wait(
    resolved: ResolvedPlacement,
    remote: ObservedObject,
    written: Manifest,
    requested_digest: str,
    kept: Mapping[str, Composed],
) -> ServiceDecision | None:
    """Returns why the requested service waits: its cluster does not answer, or its deployment changes others first.

    While nothing shows whether the pods have moved, the service may have GPUs in both places, and the status reports
    only one.
    """
    if written and remote.unreachable and not _has_requested_shape(written, resolved):
        return ServiceDecision.CLUSTER_UNREACHABLE
    return ServiceDecision.NOT_ITS_TURN if _waits_for_turn(resolved.placement, requested_digest, kept) else None


def _waits_for_weights(weights: ReconciledWeights, written: Manifest, request: ServingRequest) -> bool:
    """Tells whether an edit waits because the weights that the service is written to read are not there any more.

    Pods that still run have the weights in memory. New pods would read a claim that is empty, or being deleted.
    """
    return bool(written) and not weights.service_may_read and _read_digest(written) != compute_spec_digest(request)


def _waits_for_turn(placement: Placement, requested_digest: str, kept: Mapping[str, Composed]) -> bool:
    """Tells whether the requested service would change a running service, and the deployment does not allow this yet.

    `requested_digest` is empty if no service can be built, or if the deployment gives no turns.
    """
    running = {_read_digest(read_written(item.manifest)) for item in kept.values()}
    return bool(kept and requested_digest) and requested_digest not in {*running, placement.allowed_digest}


class _Replicas(NamedTuple):
    if_composed: int  # as requested
    if_kept: int  # as written


def _limit_replicas(
    resolved: ResolvedPlacement,
    weights: ReconciledWeights,
    admission: Admission,
    written: Manifest,
    remote: ObservedObject,
) -> _Replicas:
    """Returns how many replicas the service may have.

    Running replicas stay unless fewer are requested. A replica that cannot mount the claim is not added. The admission
    is for the requested shape and pool, so a service that still has another shape must not grow: its old grant ends as
    soon as this placement has observed its new spec. A service that has reached its restart limit has none, unless a
    replica is ready by now, or may be.
    """
    requested = resolved.placement.replicas
    running_replicas = _count_replicas(written)
    if admission.stops_service and has_no_ready_pod(remote):
        return _Replicas(if_composed=0, if_kept=0)
    cannot_mount = weights.state.finding in _NOT_SHARED
    allowed = min(running_replicas, admission.replicas) if cannot_mount else admission.replicas
    has_shape = _has_requested_shape(written, resolved)
    kept = min(requested, max(running_replicas, allowed if has_shape else 0))
    return _Replicas(if_composed=kept if has_shape else min(requested, allowed), if_kept=kept)


def _compose_requested(
    resolved: ResolvedPlacement,
    writer: ObjectWriter,
    weights: ReconciledWeights,
    admission: Admission,
    request: ServingRequest,
    now: float,
) -> ReconciledService:
    """Composes the service as requested, and drops every other service."""
    placement = resolved.placement
    key = SERVICE_PREFIX + request.name
    written = read_written(writer.observed.get(key))
    built = build_service(request) if placement.has_served else without_new_picker(build_service(request), written)
    service = built = keep_while_used(built, written, placement.service, now)
    if written and _may_have_pods(writer.read(key), has_served=placement.has_served):
        is_unchanged = _read_digest(built) == _read_digest(written)
        service = _scale(with_picker_of(written, built) if is_unchanged else built, request.replicas)
    # If the claim can be mounted on one node only, this node needs GPUs for the old and the new pod.
    needs_same_node = not is_shared(weights.access_mode)
    node_fits_two_pods = 2 * resolved.shape.gpus_per_node <= resolved.pool.gpus_per_node
    same_node_is_full = needs_same_node and not node_fits_two_pods
    has_room = admission.has_room_for_pod and not same_node_is_full
    is_blocked = not has_room and _starts_pods_first(written, service, resolved.shape)
    if placement.replaces_when_full and (is_blocked or _is_stopping(written, writer.read(key))):
        service = _scale(service, 0)
        is_blocked = False
    composed = _compose_object(writer, key, service)
    admitted = min(placement.replicas, admission.replicas)
    is_at_rest = service == built == written and request.replicas == admitted
    if written and not is_at_rest:
        # The observed service may be older than what another call has written. Without the version, two calls could
        # overwrite each other for ever, or change a service that serves by now (decision 24).
        composed = with_resource_version(composed, writer.observed[key])
    pull_secrets, missing_pull_secret = _compose_pull_secrets(writer, request)
    return ReconciledService(
        decision=ServiceDecision.COMPOSE,
        composed={key: composed},
        pull_secrets=pull_secrets,
        drops=(
            *_drop_others(writer, SERVICE_PREFIX, {key: composed}, "the service in the requested shape replaces it"),
            *_drop_others(writer, PULL_PREFIX, pull_secrets, "no image of the service is pulled with it"),
        ),
        missing_pull_secret=missing_pull_secret,
        allocated=_allocate(writer, resolved, {key: composed}, key),
        rollout_blocked=is_blocked,
        same_node_is_full=same_node_is_full,
        picker_leaves=not wants_picker(request),
        picker_obstacle=find_picker_obstacle(request),
    )


def _compose_pull_secrets(
    writer: ObjectWriter, request: ServingRequest
) -> tuple[dict[str, Composed], WeightsState | None]:
    """Returns the copies of the Secrets with which the images are pulled, and the first obstacle of one."""
    copies = {PULL_PREFIX + copy.name: copy for copy in list_pull_secret_copies(request.all_pull_secrets)}
    obstacles = (find_secret_obstacle(copy, writer.read(name)) for name, copy in copies.items())
    composed = {
        name: copy.compose(writer, name, request.namespace, ManagementPolicy.FULL) for name, copy in copies.items()
    }
    return composed, next(filter(None, obstacles), None)


def _drop_others(writer: ObjectWriter, prefix: str, desired: Mapping[str, Composed], why: str) -> tuple[Drop, ...]:
    keys = (key for key in sorted(writer.observed) if key.startswith(prefix))
    return tuple(Drop(key, why) for key in keys if key not in desired)


def _keep_one_service(
    resolved: ResolvedPlacement, writer: ObjectWriter, key: str, replicas: int
) -> dict[str, Composed]:
    """Returns the running service, applied only over the observed version.

    If this is the service of `key`, it gets `replicas`. There are two services if a call that still observed the
    earlier service composed it again beside its successor (decision 24). Only one of them was granted GPUs. The service
    that serves stays; if none serves, the older service stays, because no call has deleted it.
    """
    observed = writer.observed
    services = {
        k: _scale_down(observed[k], resolved.placement) for k in sorted(observed) if k.startswith(SERVICE_PREFIX)
    }
    if not services:
        return {}

    def rank(name: str) -> tuple[bool, str, bool, str]:
        created = text(observed[name], "metadata.creationTimestamp")
        return not is_up(writer.read(name)), created, name != key, name

    kept = min(services, key=rank)
    if kept != key:
        return {kept: services[kept]}
    scaled = _compose_object(writer, key, _scale(read_written(observed[key]), replicas))
    return {key: with_resource_version(scaled, observed[key])}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldServices:
    """The observed services of a placement while it cannot be carried out."""

    composed: Mapping[str, Composed]
    remote: ObservedObject  # the first of them
    replicas: int  # of the largest, as composed
    # Replicas that have GPUs: those of the largest service as composed or last seen on the cluster, or those that
    # return.
    allocated_replicas: int


def keep_services(observed: Mapping[str, Manifest], placement: Placement, *, scale_down: bool) -> HeldServices:
    """Keeps the observed services; with `scale_down`, each has at most the requested replicas."""
    services = {key: manifest for key, manifest in sorted(observed.items()) if key.startswith(SERVICE_PREFIX)}
    composed = {k: _scale_down(m, placement) if scale_down else reapply_observed(m) for k, m in services.items()}
    written = [read_written(item.manifest) for item in composed.values()]
    on_cluster = [read_object(manifest).manifest for manifest in services.values()]
    return HeldServices(
        composed=composed,
        remote=read_object(next(iter(services.values()), None)),
        replicas=_count_replicas(*written),
        allocated_replicas=_count_allocated(placement, written, on_cluster),
    )


def _scale_down(observed: Manifest, placement: Placement) -> Composed:
    """Returns an observed service with at most the requested replicas; this needs neither admission nor references.

    A service of another group keeps its replicas until it is deleted, unless 0 replicas are requested.
    """
    requested = max(0, placement.replicas)
    service = read_written(observed)
    name = text(service, "metadata.name")
    is_requested_group = placement.shape is not None and name == name_inference_service(placement, placement.shape)
    if (requested and not is_requested_group) or _count_replicas(service) <= requested:
        return reapply_observed(observed)
    provided: Manifest = {**mapping(observed, "spec.forProvider"), "manifest": _scale(service, requested)}
    scaled = reapply_observed({**observed, "spec": {**mapping(observed, "spec"), "forProvider": provided}})
    return _ready_if_scaled_to_zero(scaled, read_object(observed))


def _count_replicas(*services: Manifest) -> int:
    """Returns the replicas of the largest of these services; an empty manifest stands for no service.

    A service without `spec.replicas` has at least one replica.
    """
    return max((_read_replicas(service) for service in services if service), default=0)


def _read_replicas(service: Manifest) -> int:
    reported = integer(service, f"{PRIMARY_WORKLOAD}.readyReplicas")
    return integer(service, "spec.replicas", max(1, reported))


def _count_allocated(placement: Placement, written: Sequence[Manifest], on_cluster: Sequence[Manifest]) -> int:
    """Returns how many replicas of a placement have GPUs.

    A service with 0 replicas is stopped if some are requested: its pods end before new pods start. It keeps the GPUs
    that it had for the replicas that return (decision 33), unless it was stopped at its restart limit (decision 52).
    """
    allocated = placement.service.allocated
    is_stopped = bool(written) and not _count_replicas(*written) and not placement.restarts.stopped
    returning = min(allocated.replicas, max(0, placement.replicas)) if allocated and is_stopped else 0
    return max(_count_replicas(*written, *on_cluster), returning)


def _has_requested_shape(service: Manifest, resolved: ResolvedPlacement) -> bool:
    """Tells whether a service of the requested group size also has the requested GPUs and nodes."""
    pool = resolved.pool
    containers = listing(service, "spec.template.containers")
    limits = [mapping(container, "resources.limits").get(pool.gpu_resource) for container in containers]
    selector = tuple(sorted(strings(service, "spec.template.nodeSelector").items()))
    return selector == pool.labels and str(resolved.shape.gpus_per_node) in limits


def _allocate(
    writer: ObjectWriter, resolved: ResolvedPlacement, composed: Mapping[str, Composed], key: str
) -> Share | None:
    """Returns what the services of a placement take of a pool.

    Until the cluster has the composed service and no other service, the services take what they took before. Until the
    cluster has fewer replicas, they take as many replicas as before.
    """
    objects = {name: m for name, m in {**writer.deleting, **writer.observed}.items() if name.startswith(SERVICE_PREFIX)}
    on_cluster = {name: service for name, m in objects.items() if (service := read_object(m).manifest)}
    desired = {name: read_written(item.manifest) for name, item in composed.items()}
    requested = resolved.placement.requested
    allocated = resolved.placement.service.allocated
    is_rolled_out = all(
        name in desired and _read_digest(desired[name]) == _read_digest(service) for name, service in on_cluster.items()
    )
    has_shape = _has_requested_shape(desired.get(key, {}), resolved)
    if (is_rolled_out and has_shape) or allocated is None:
        allocated = requested
    replicas = _count_allocated(resolved.placement, [*desired.values()], [*on_cluster.values()])
    return allocated and replace(allocated, replicas=replicas)


def _starts_pods_first(written: Manifest, service: Manifest, shape: Shape) -> bool:
    """Tells whether pods are replaced and each new one starts before an old one ends."""
    # Neither replicas nor a picker replace pods.
    before, after = (with_picker_of(_scale(each, 0), {}) for each in (written, service))
    is_replaced = before.get("spec") != after.get("spec")
    surges = 0 < _count_replicas(written) <= _count_replicas(service) <= _MAX_SURGE_ONLY_REPLICAS
    return is_replaced and surges and shape.nodes == 1


def _is_stopping(written: Manifest, remote: ObservedObject) -> bool:
    """Tells whether a service was scaled to 0, and KServe does not report yet that its pods have ended."""
    service = remote.manifest
    has_stopped = is_current(service) and not _count_replicas(service)
    is_serving = integer(service, f"{PRIMARY_WORKLOAD}.readyReplicas") > 0
    return bool(written) and not _count_replicas(written) and not (has_stopped and not is_serving)


def _compose_object(writer: ObjectWriter, key: str, service: Manifest) -> Composed:
    return _ready_if_scaled_to_zero(writer.compose(key, service, ManagementPolicy.FULL), writer.read(key))


def _ready_if_scaled_to_zero(service: Composed, remote: ObservedObject) -> Composed:
    """Returns the service; a service with 0 replicas is ready unless it is refused: it has no pods to wait for."""
    if get(read_written(service.manifest), "spec.replicas") == 0 and remote.present:
        return replace(service, ready=assess(remote.manifest).level is not Level.FAILED)
    return service


def _may_read_previous_weights(
    writer: ObjectWriter, weights: ReconciledWeights, reconciled: ReconciledService, key: str, planned_uri: str
) -> bool:
    """Tells whether a pod may read other weights than the planned ones.

    No pod does so if there is no service, or if there is only this service and it is ready on the planned weights. An
    Object that says nothing of its service, for example after a backup was restored, may have a service. `planned_uri`
    is the planned URI that the status published last: an earlier call may have written a service with this URI that is
    not observed yet. A service that waits for its turn may use another copy of a token, whatever its URI is.
    """
    services = reconciled.composed.keys() | {name for name in writer.observed if name.startswith(SERVICE_PREFIX)}
    if weights.plan is None:
        return bool(services)
    if not services:
        return planned_uri not in ("", weights.plan.uri)
    if services != {key} or reconciled.decision is ServiceDecision.NOT_ITS_TURN:
        return True
    remote = writer.read(key)
    return not (text(remote.manifest, _URI) == weights.plan.uri and is_up(remote))


def _read_digest(service: Manifest) -> str:
    return strings(service, "metadata.annotations").get(ANNOTATION_SPEC_DIGEST, "")


def _scale(service: Manifest, replicas: int) -> Manifest:
    return {**service, "spec": {**mapping(service, "spec"), "replicas": replicas}}


def _may_have_pods(remote: ObservedObject, *, has_served: bool) -> bool:
    if remote.refused:
        return False
    health = assess(remote.manifest)
    return not remote.present or health.up or (has_served and health.level is not Level.FAILED)


def _find_adapter_problems(resolved: ResolvedPlacement) -> tuple[Problem, ...]:
    obstacle = resolved.adapter_obstacle
    return (Problem("spec.adapters", obstacle),) if obstacle else ()


def build_serving_request(
    resolved: ResolvedPlacement, plan: WeightsPlan, replicas: int, adapters: tuple[ServedAdapter, ...]
) -> ServingRequest:
    placement = resolved.placement
    environment = resolved.environment
    return ServingRequest(
        name=name_inference_service(placement, resolved.shape),
        namespace=resolved.namespace,
        labels={**MANAGED_BY, LABEL_DEPLOYMENT: label_value(placement.deployment or placement.name)},
        model=resolved.model,
        profile=resolved.profile,
        shape=resolved.shape,
        pool=resolved.pool,
        replicas=replicas,
        uri=plan.uri,
        kserve=environment.kserve,
        initializer=plan.initializer,
        pull_secrets=environment.pull_secrets,
        weights_bytes=plan.bound,
        read_bandwidth=environment.storage.read_bandwidth if plan.claim_name else None,
        adapters=adapters,
        lora=_get_lora(resolved, adapters),
    )


def _get_lora(resolved: ResolvedPlacement, adapters: tuple[ServedAdapter, ...]) -> Lora | None:
    return resolved.profile.lora if adapters else None
