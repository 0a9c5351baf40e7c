"""When the LLMInferenceService of a placement is composed, on which weights, and what happens to an earlier one.

A running service changes only with its spec digest (decision 11); `replicas` always follow the placement, as far as it
is admitted for them in the shape and pool that the service has. While other weights are downloaded, or cannot be
planned, all other edits wait with them.

A service that the cluster refuses, or that was never ready, has no pods to protect: it is composed as built. An earlier
service of another group size is deleted once the new one may be composed, and not before.

KServe reports a service on one node per replica Ready while enough pods of the earlier spec serve, also if the new pods
never start. The Deployment that KServe creates tells them apart (decision 35). It is observed only where environments
change one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from function.contract import Composed
from function.domain.allocation import Share
from function.domain.model import Problem, Shape
from function.domain.placement import PendingUpdate, Placement, ResolvedPlacement
from function.kube.manifests import Manifest, condition, get, integer, listing, mapping, strings, text
from function.kube.messages import truncate_middle
from function.kube.names import ANNOTATION_SPEC_DIGEST, LABEL_DEPLOYMENT, MANAGED_BY, build_name, label_value
from function.remote.object_writer import (
    SERVICE,
    ManagementPolicy,
    ObjectWriter,
    reapply_observed,
    with_resource_version,
)
from function.remote.observed_object import Level, ObservedObject, State, assess, is_current, is_up, read_object
from function.scheduling.admission import Admission
from function.serving.digest import ServingRequest, compute_spec_digest
from function.serving.service import build_service, find_service_problems
from function.weights.claim import is_shared
from function.weights.credentials import list_pull_secret_copies
from function.weights.planner import StoragePlan
from function.weights.reconcile import Weights
from function.weights.state import Finding, StorageState, find_secret_obstacle

PULL = "pull-"
WORKLOAD = "workload"  # composition-resource-name
_WRITTEN = "spec.forProvider.manifest"
_URI = "spec.model.uri"
_PRIMARY = "status.workloads.primary"
_MAX_CAUSE = 256  # bytes of what a Deployment says
_NOT_SHARED = {Finding.CLAIM_NOT_SHARED, Finding.CACHE_NOT_SHARED}
# KServe leaves the strategy of its Deployments to Kubernetes, which starts a new pod before it ends an old one up to
# this number of replicas: a quarter of them, rounded down, may be missing [docs/facts.md].
_MAX_SURGE_ONLY_REPLICAS = 3


class ServiceDecision(Enum):
    """Whether the requested service is composed now; if not, what runs is kept as it is, for this reason.

    Before this is asked, the references of the placement resolve, and it is admitted or has something composed.
    """

    COMPOSE = "its weights are ready, or it is written to read them already"
    NOT_ADMITTED = "the environment has not admitted the placement in its shape and pool"
    NOT_PLANNED = "it is not known where its weights come from"
    CLAIM_NOT_SHARED = "its pods cannot all mount the claim"
    INVALID = "it cannot be built"
    WEIGHTS_NOT_READY = "its weights are not ready"
    NOT_ITS_TURN = "its deployment changes other environments first"
    COMPLETION_NOT_RECORDED = "it would replace another service before the status says that its weights are complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRollout:
    """The services of a placement as they are composed now."""

    decision: ServiceDecision
    composed: Mapping[str, Composed]  # the service, or an earlier one in its place; at most one
    pull_secrets: Mapping[str, Composed]  # copies with which the images are pulled
    missing_pull_secret: StorageState | None = None  # the first copy that does not exist
    problems: tuple[Problem, ...] = ()  # why the service cannot be built
    allocated: Share | None = None  # what the services take of a pool
    rollout_blocked: bool = False  # the running pods must end before the new ones can start
    needs_same_node: bool = False  # since the claim of the weights is on the node of the running pod
    remote: ObservedObject = ObservedObject(State.UNSEEN, {})  # the service that serves, or will
    may_read_previous_weights: bool = True  # a pod may read other weights than the planned ones
    requested_digest: str = ""  # of the service as requested; only where its deployment gives turns

    @property
    def served_digest(self) -> str:
        return _read_digest(self.remote.manifest)


def name_service(placement: Placement, shape: Shape) -> str:
    """Returns the service's name; another mode or group size is another object, since KServe refuses to change them."""
    identity = (placement.namespace, placement.name, shape.mode.value, str(shape.nodes))
    return build_name(placement.name, *identity)


def reconcile_service(
    resolved: ResolvedPlacement, writer: ObjectWriter, weights: Weights, admission: Admission
) -> ServiceRollout:
    """Composes the service of a placement, or keeps what runs while it cannot or may not be composed.

    `key` is the service's composition-resource-name, `written` the service in the spec of its Object as last observed;
    what the cluster has is read from the Object's status (`writer.read(key)`).
    """
    key = SERVICE + name_service(resolved.placement, resolved.shape)
    written = mapping(writer.observed.get(key), _WRITTEN)
    replicas, kept_replicas = _limit_replicas(resolved, weights, admission, written)
    kept = _keep_one_service(resolved, writer, key, kept_replicas)
    request = build_serving_request(resolved, weights.plan, replicas) if weights.plan else None
    problems = find_service_problems(request) if request else ()
    decision = decide_service(weights, admission, written, problems, replaces_another=any(name != key for name in kept))
    allowed, digest = resolved.placement.allowed_digest, ""
    if request and allowed is not None:
        digest = compute_spec_digest(request)
        running = {_read_digest(mapping(item.manifest, _WRITTEN)) for item in kept.values()}
        if kept and digest not in {*running, allowed} and decision is ServiceDecision.COMPOSE:
            decision = ServiceDecision.NOT_ITS_TURN
    if request and decision is ServiceDecision.COMPOSE:
        rollout = _compose_requested(resolved, writer, weights, admission, request)
    else:
        rollout = ServiceRollout(
            decision=decision,
            composed=kept,
            pull_secrets={k: reapply_observed(m) for k, m in sorted(writer.observed.items()) if k.startswith(PULL)},
            problems=problems,
            allocated=_allocate(writer, resolved, kept, key) if kept else None,
        )
    remote = writer.read(next(iter(rollout.composed), key))
    may_read_previous = _may_read_previous_weights(writer, weights, rollout, key, resolved.placement.planned_uri)
    return replace(rollout, remote=remote, may_read_previous_weights=may_read_previous, requested_digest=digest)


def decide_service(
    weights: Weights, admission: Admission, written: Manifest, problems: Sequence[Problem], *, replaces_another: bool
) -> ServiceDecision:
    """Decides whether the requested service is composed now.

    `written`: the service of this name as last written; empty if there is none. `replaces_another`: composing it
    deletes a service of another group. That one is deleted only for weights whose completion is in the composite's
    status: a Job may disappear, and a later call that still observes the other service would compose it again.
    """
    if not admission.admits_service:
        return ServiceDecision.NOT_ADMITTED
    if weights.plan is None:
        return ServiceDecision.NOT_PLANNED
    if not written and weights.state.finding in _NOT_SHARED:
        return ServiceDecision.CLAIM_NOT_SHARED
    if problems:
        return ServiceDecision.INVALID
    if text(written, _URI) == weights.plan.uri:
        return ServiceDecision.COMPOSE
    if not weights.gate_open:
        return ServiceDecision.WEIGHTS_NOT_READY
    if replaces_another and not weights.completion_recorded:
        return ServiceDecision.COMPLETION_NOT_RECORDED
    return ServiceDecision.COMPOSE


def _limit_replicas(
    resolved: ResolvedPlacement, weights: Weights, admission: Admission, written: Manifest
) -> tuple[int, int]:
    """Returns the replicas of the service if it is composed as requested, and if it is kept as written.

    None that runs is removed unless fewer are requested, and none is added that cannot mount the claim. What is
    admitted is admitted for the requested shape and pool: a service in another one does not grow, because the
    environment takes back what it granted for that once this placement has seen its new spec.
    """
    requested, running_replicas = resolved.placement.replicas, _count_replicas(written)
    cannot_mount = weights.state.finding in _NOT_SHARED
    allowed = min(running_replicas, admission.replicas) if cannot_mount else admission.replicas
    has_shape = _has_requested_shape(written, resolved)
    kept = min(requested, max(running_replicas, allowed if has_shape else 0))
    return kept if has_shape else min(requested, allowed), kept


def _compose_requested(
    resolved: ResolvedPlacement, writer: ObjectWriter, weights: Weights, admission: Admission, request: ServingRequest
) -> ServiceRollout:
    """Composes the service as requested, alone: an earlier one of another group is no longer desired."""
    placement, key = resolved.placement, SERVICE + request.name
    written = mapping(writer.observed.get(key), _WRITTEN)
    service = built = build_service(request)
    if written and _may_have_pods(writer.read(key), ever_ready=placement.was_ready):
        is_unchanged = _read_digest(built) == _read_digest(written)
        service = _scale(written if is_unchanged else built, request.replicas)
    # Where pods mount the claim on one node only, it must have enough GPUs for the old and the new pod.
    has_room_for_two = 2 * resolved.shape.gpus_per_node <= resolved.pool.gpus_per_node
    needs_same_node = not is_shared(weights.access_mode) and not has_room_for_two
    has_no_room = needs_same_node or not admission.has_room_for_pod
    is_blocked = has_no_room and _starts_pods_first(written, service, resolved.shape)
    if placement.replaces_when_full and (is_blocked or _is_stopping(written, writer.read(key))):
        service, is_blocked = _scale(service, 0), False
    composed = _compose_object(writer, key, service)
    admitted = min(placement.replicas, admission.replicas)
    if written and not (service == built == written and request.replicas == admitted):
        # The observation may be late: two readings would take turns, or change what serves by now (decision 24).
        composed = with_resource_version(composed, writer.observed[key])
    copies = {PULL + copy.name: copy for copy in list_pull_secret_copies(request.pulled_with)}
    obstacles = (find_secret_obstacle(copy, writer.read(name)) for name, copy in copies.items())
    return ServiceRollout(
        decision=ServiceDecision.COMPOSE,
        composed={key: composed},
        pull_secrets={
            name: copy.compose(writer, name, request.namespace, ManagementPolicy.FULL) for name, copy in copies.items()
        },
        missing_pull_secret=next(filter(None, obstacles), None),
        allocated=_allocate(writer, resolved, {key: composed}, key),
        rollout_blocked=is_blocked,
        needs_same_node=needs_same_node,
    )


def _keep_one_service(
    resolved: ResolvedPlacement, writer: ObjectWriter, key: str, replicas: int
) -> dict[str, Composed]:
    """Returns the service that runs over the version that was seen, with these replicas if it is the one of the key.

    There are two if a call that still saw a service composed it again beside its successor (decision 24). Only one was
    granted GPUs: the one that serves stays, otherwise the older one, which no call has deleted.
    """
    observed = writer.observed
    services = {k: _scale_down(observed[k], resolved.placement) for k in sorted(observed) if k.startswith(SERVICE)}
    if not services:
        return {}

    def rank(name: str) -> tuple[bool, str, bool, str]:
        created = text(observed[name], "metadata.creationTimestamp")
        return not is_up(writer.read(name)), created, name != key, name

    kept = min(services, key=rank)
    if kept != key:
        return {kept: services[kept]}
    scaled = _compose_object(writer, key, _scale(mapping(observed[key], _WRITTEN), replicas))
    return {key: with_resource_version(scaled, observed[key])}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldServices:
    """The observed services of a placement while it cannot be carried out."""

    composed: Mapping[str, Composed]
    remote: ObservedObject  # the first of them
    replicas: int  # of the largest, as composed
    allocated_replicas: int  # of the largest, as composed or last seen on the cluster


def hold_services(observed: Mapping[str, Manifest], placement: Placement | None) -> HeldServices:
    """Keeps the observed services, with no more replicas than requested; None: the request cannot be read."""
    services = {key: manifest for key, manifest in sorted(observed.items()) if key.startswith(SERVICE)}
    composed = {k: _scale_down(m, placement) if placement else reapply_observed(m) for k, m in services.items()}
    replicas = _count_replicas(*(mapping(item.manifest, _WRITTEN) for item in composed.values()))
    return HeldServices(
        composed=composed,
        remote=read_object(next(iter(services.values()), None)),
        replicas=replicas,
        allocated_replicas=max(replicas, _count_replicas(*(read_object(m).manifest for m in services.values()))),
    )


def _scale_down(observed: Manifest, placement: Placement) -> Composed:
    """Returns an observed service with no more replicas than requested, which needs no admission and no reference.

    A service of another group keeps its replicas until it is deleted, unless none are requested.
    """
    requested, service = max(0, placement.replicas), mapping(observed, _WRITTEN)
    is_current = placement.shape and name_service(placement, placement.shape) == text(service, "metadata.name")
    if (requested and not is_current) or _count_replicas(service) <= requested:
        return reapply_observed(observed)
    provided: Manifest = {**mapping(observed, "spec.forProvider"), "manifest": _scale(service, requested)}
    scaled = reapply_observed({**observed, "spec": {**mapping(observed, "spec"), "forProvider": provided}})
    return _ready_if_scaled_to_zero(scaled, read_object(observed))


def _count_replicas(*services: Manifest) -> int:
    """Returns the replicas of the largest of these services."""
    return max((integer(service, "spec.replicas") for service in services), default=0)


def _has_requested_shape(service: Manifest, resolved: ResolvedPlacement) -> bool:
    """Tells whether a service of the requested group size also has the requested GPUs and nodes."""
    pool, containers = resolved.pool, listing(service, "spec.template.containers")
    limits = [mapping(container, "resources.limits").get(pool.gpu_resource) for container in containers]
    selector = tuple(sorted(strings(service, "spec.template.nodeSelector").items()))
    return selector == pool.labels and str(resolved.shape.gpus_per_node) in limits


def _allocate(
    writer: ObjectWriter, resolved: ResolvedPlacement, composed: Mapping[str, Composed], key: str
) -> Share | None:
    """Returns what the services of a placement take of a pool.

    Until the cluster has the composed service and no other, they take what they took before, and until it has fewer
    replicas, as many as it had.
    """
    present = {**writer.deleting, **writer.observed}
    mirrored = {name: read_object(m).manifest for name, m in present.items() if name.startswith(SERVICE)}
    on_cluster = {name: service for name, service in mirrored.items() if service}
    desired = {name: mapping(item.manifest, _WRITTEN) for name, item in composed.items()}
    requested, allocated = resolved.placement.requested, resolved.placement.allocated
    is_rolled_out = all(
        name in desired and _read_digest(desired[name]) == _read_digest(service) for name, service in on_cluster.items()
    )
    has_shape = _has_requested_shape(desired.get(key, {}), resolved)
    if (is_rolled_out and has_shape) or allocated is None:
        allocated = requested and replace(requested, labels=resolved.pool.labels)
    return allocated and replace(allocated, replicas=_count_replicas(*desired.values(), *on_cluster.values()))


def _starts_pods_first(written: Manifest, service: Manifest, shape: Shape) -> bool:
    """Tells whether pods are replaced and each new one starts before an old one ends."""
    is_replaced = _scale(written, 0).get("spec") != _scale(service, 0).get("spec")
    surges = 0 < _count_replicas(written) <= _count_replicas(service) <= _MAX_SURGE_ONLY_REPLICAS
    return is_replaced and surges and shape.nodes == 1


def _is_stopping(written: Manifest, remote: ObservedObject) -> bool:
    """Tells whether a service was scaled to 0, and KServe does not report yet that its pods have ended."""
    service = remote.manifest
    has_stopped = is_current(service) and not _count_replicas(service)
    is_serving = integer(service, f"{_PRIMARY}.readyReplicas") > 0
    return bool(written) and not _count_replicas(written) and not (has_stopped and not is_serving)


def _compose_object(writer: ObjectWriter, key: str, service: Manifest) -> Composed:
    return _ready_if_scaled_to_zero(writer.compose(key, service, ManagementPolicy.FULL), writer.read(key))


def _ready_if_scaled_to_zero(service: Composed, remote: ObservedObject) -> Composed:
    """Returns the service; one without replicas is ready unless it is refused, because it has no pods to wait for."""
    if get(service.manifest, f"{_WRITTEN}.spec.replicas") == 0 and remote.present:
        return replace(service, ready=assess(remote.manifest).level is not Level.FAILED)
    return service


def _may_read_previous_weights(
    writer: ObjectWriter, weights: Weights, rollout: ServiceRollout, key: str, planned_uri: str
) -> bool:
    """Tells whether a pod may read other weights than the planned ones.

    None does if there is no service, or only this one, and it is ready on them. An Object that says nothing of its
    service, as after a restored backup, may have one. `planned_uri` is the plan that the status published last: an
    earlier call may have written a service for it that is not observed yet. A service that waits for its turn may use
    another copy of a token, whatever its URI.
    """
    services = rollout.composed.keys() | {name for name in writer.observed if name.startswith(SERVICE)}
    if weights.plan is None:
        return bool(services)
    if not services:
        return planned_uri not in ("", weights.plan.uri)
    if services != {key} or rollout.decision is ServiceDecision.NOT_ITS_TURN:
        return True
    remote = writer.read(key)
    return not (text(remote.manifest, _URI) == weights.plan.uri and is_up(remote))


def _read_digest(service: Manifest) -> str:
    return strings(service, "metadata.annotations").get(ANNOTATION_SPEC_DIGEST, "")


def _scale(service: Manifest, replicas: int) -> Manifest:
    return {**service, "spec": {**mapping(service, "spec"), "replicas": replicas}}


def _may_have_pods(remote: ObservedObject, *, ever_ready: bool) -> bool:
    if remote.refused:
        return False
    health = assess(remote.manifest)
    return not remote.present or health.up or (ever_ready and health.level is not Level.FAILED)


def build_serving_request(resolved: ResolvedPlacement, plan: StoragePlan, replicas: int) -> ServingRequest:
    placement, environment = resolved.placement, resolved.environment
    return ServingRequest(
        name=name_service(placement, resolved.shape),
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
        weights=plan.bound,
        bandwidth=environment.storage.read_bandwidth if plan.claim_name else None,
    )


def observe_workload(service: Manifest, writer: ObjectWriter) -> dict[str, Composed]:
    """Returns the Object that observes the Deployment of a service; none if its pods are not those of a Deployment.

    While the workload of the service is not known, an earlier Object stays. A placement is ready whether or not its
    Deployment can be read.
    """
    kind, known = text(service, f"{_PRIMARY}.kind"), writer.observed.get(WORKLOAD)
    if not kind and known:
        return {WORKLOAD: replace(reapply_observed(known), ready=True)}
    if kind != "Deployment":
        return {}
    metadata: Manifest = {"name": text(service, f"{_PRIMARY}.name"), "namespace": text(service, "metadata.namespace")}
    manifest: Manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    return {WORKLOAD: replace(writer.compose(WORKLOAD, manifest, ManagementPolicy.OBSERVE_ONLY), ready=True)}


def find_update(service: Manifest, workload: ObservedObject) -> PendingUpdate | None:
    """Returns why not all pods of a service run its current spec; None if they do.

    The rule is that of `kubectl rollout status` (kubectl, pkg/polymorphichelpers/rollout_status.go).
    """
    name = text(service, f"{_PRIMARY}.name")
    if text(service, f"{_PRIMARY}.kind") != "Deployment":
        return None
    if not workload.present:
        why = f"cannot be observed: {workload.problem}" if workload.problem else "has not been observed yet"
        return PendingUpdate(f"its Deployment {name} {why}", stalled=workload.refused)
    deployment, status = workload.manifest, mapping(workload.manifest, "status")
    wanted = strings(service, "spec.annotations").get(ANNOTATION_SPEC_DIGEST)
    has_spec = strings(deployment, "spec.template.metadata.annotations").get(ANNOTATION_SPEC_DIGEST) == wanted
    if not (has_spec and is_current(deployment)):
        return PendingUpdate(f"its Deployment {name} does not have the current spec yet")
    replicas, updated = integer(deployment, "spec.replicas"), integer(status, "updatedReplicas")
    available, total = integer(status, "availableReplicas"), integer(status, "replicas")
    if replicas <= updated and total <= updated <= available:
        return None
    progressing = condition(deployment, "Progressing")
    is_stalled = progressing.get("status") == "False"
    message = f"{updated} of {replicas} pods have the current spec ({total} exist, {available} available)"
    cause = truncate_middle(text(progressing, "message"), _MAX_CAUSE)
    return PendingUpdate(f"{message}: {cause}" if is_stalled else message, stalled=is_stalled)
