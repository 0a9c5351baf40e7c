"""The LLMInferenceService of a placement: when it is written, on which bytes, and what happens to an earlier one.

A running service changes only when the user or the platform changes an input that its pods see. The service carries the
digest of these inputs (serving/digest.py), and while the digest is unchanged the service is written as observed,
whatever this release would derive or default. Only `replicas` are always taken, as far as the placement was admitted
for them in the shape and pool that the service has. It is first composed when its weights allow, and always after that.
While other bytes are on their way, or cannot be planned, everything else waits with them: an edit is taken as one.

What the cluster refuses is no running service, nor is one that was never up: both are written as they would be now. An
earlier service of another group or namespace goes when this one may be composed, and not before; one that cannot be
written at all leaves what runs as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from function.contract import Composed
from function.domain.allocation import Share
from function.domain.model import Problem, Shape
from function.domain.placement import Placement
from function.domain.resolved import ResolvedPlacement
from function.kube.manifests import Manifest, get, integer, listing, mapping, strings, text
from function.kube.names import ANNOTATION_SPEC_DIGEST, LABEL_DEPLOYMENT, MANAGED_BY, build_name, label_value
from function.remote.carry_over import carry_over, over_version, repeated
from function.remote.health import Level, assess
from function.remote.object_writer import Lifetime, ObjectWriter
from function.remote.objects import ObservedObject, State, read
from function.scheduling.admission import Admission
from function.serving.digest import compute_spec_digest
from function.serving.request import ServingRequest
from function.serving.service import build_service, identify_service
from function.weights import hydration
from function.weights.plan import StoragePlan
from function.weights.reconcile import Weights
from function.weights.secret_copies import of_pull_secrets
from function.weights.state import Finding, StorageState
from function.weights.volume_claim import READ_WRITE_MANY

SERVICE, PULL = "service-", "pull-"
_MANIFEST = "spec.forProvider.manifest"
_MIRRORED = "status.atProvider.manifest"
_URI = "spec.model.uri"
# KServe leaves the strategy of its Deployments to Kubernetes, which up to so many replicas starts a new pod before it
# ends one: a quarter of them, rounded down, may be missing [docs/facts.md].
_ROLLS_BY_SURGE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The services to compose, what they take of which pool, and why the wanted one could not be written, if so.

    `secrets` are the copies with which their images are pulled, `uncopied` is what is wrong with the first that is not
    there. `stuck`: it is written with other pods, for which those that run have to make room first; `tied`: on their
    own nodes, where their claim is.
    """

    composed: Mapping[str, Composed] = field(default_factory=dict)
    secrets: Mapping[str, Composed] = field(default_factory=dict)
    uncopied: StorageState | None = None
    rejected: tuple[Problem, ...] = ()
    allocated: Share | None = None
    stuck: bool = False
    tied: bool = False


def service_name(placement: Placement, shape: Shape) -> str:
    """Return the service's name: another group is another object, since KServe refuses to change its size."""
    return build_name(placement.name, placement.namespace, placement.name, *identify_service(shape))


def write(
    resolved: ResolvedPlacement, writer: ObjectWriter, stored: Weights, key: str, admission: Admission
) -> Written:
    """Return the service under its key, or what was observed where it cannot or may not be written."""
    observed, placement = mapping(writer.observed.get(key), _MANIFEST), resolved.placement
    granted, running = min(placement.replicas, admission.replicas), _replicas(observed)
    unshared = stored.state.finding in {Finding.CLAIM_NOT_SHARED, Finding.CACHE_NOT_SHARED}
    same = _is_shaped(observed, resolved)
    # A grant is for the shape and pool that are requested. What runs in another does not grow: the environment takes
    # back what it granted for that once this placement has seen its new spec.
    may_grow_to = admission.replicas if same else 0
    if unshared:
        # As our own claims are refused: no pod comes that cannot mount it, and none that is there goes.
        may_grow_to = 0
    earlier = _earlier(writer, key, observed, min(placement.replicas, max(may_grow_to, running)), resolved)
    if stored.plan is None or not admission.may_compose or (unshared and not observed):
        return earlier
    replicas = min(granted, running) if unshared else granted
    if same:
        replicas = min(placement.replicas, max(replicas, running))
    request = _request(resolved, stored.plan, replicas)
    built = build_service(request)
    if isinstance(built, tuple):
        return replace(earlier, rejected=built)
    # Another service goes for bytes of which the composite itself says that they are there: what a Job says may be
    # taken back, and a later call that still sees the other one would make it anew.
    opened = stored.open and (stored.told or earlier.composed.keys() <= {writer.name(key)})
    if not opened and text(observed, _URI) != stored.plan.uri:
        return earlier
    service = built
    if observed and _runs(writer.read(key), served=placement.was_ready):
        service = _scaled(_reuse_if_unchanged(built, observed), replicas)
    composed = _composed(writer, key, service)
    if observed and not (service == built == observed and replicas == granted):
        # What was seen may be late: two readings would take turns, or change what serves by now (decision 24).
        composed = over_version(composed, writer.observed[key])
    written, tied = writer.named({key: composed}), _tied(resolved, stored)
    return Written(
        composed=written,
        secrets=writer.named(_pull_secrets(writer, request)),
        uncopied=_uncopied(writer, request),
        allocated=_takes(writer, resolved, written, key),
        stuck=_stuck(observed, service, resolved.shape) and (tied or not admission.has_room_for_pod),
        tied=tied,
    )


def _tied(resolved: ResolvedPlacement, stored: Weights) -> bool:
    """Tell whether a pod can only run where the one before it does, on a node that has not the GPUs of both."""
    node, pod = resolved.pool.gpus_per_node, resolved.shape.gpus_per_node
    return stored.access_mode not in ("", READ_WRITE_MANY) and 2 * pod > node


def _stuck(observed: Manifest, service: Manifest, shape: Shape) -> bool:
    """Tell whether pods are replaced, each by one that comes before it goes, of as many as there are or more."""
    other = _scaled(observed, 0).get("spec") != _scaled(service, 0).get("spec")
    surges = 0 < _replicas(observed) <= _replicas(service) <= _ROLLS_BY_SURGE
    return other and surges and shape.nodes == 1


def _pull_secrets(writer: ObjectWriter, request: ServingRequest) -> dict[str, Composed]:
    """Return the copies of Secrets with which the pods' images are pulled."""
    copies = of_pull_secrets(request.pulled_with)
    return {PULL + c.name: c.composed(writer, PULL + c.name, request.namespace, Lifetime.OWNED) for c in copies}


def _uncopied(writer: ObjectWriter, request: ServingRequest) -> StorageState | None:
    copies = of_pull_secrets(request.pulled_with)
    states = (hydration.of_token(writer.read(PULL + copy.name), copy.origin) for copy in copies)
    return next((state for state in states if state), None)


def _earlier(writer: ObjectWriter, key: str, observed: Manifest, replicas: int, resolved: ResolvedPlacement) -> Written:
    """Return what runs as it is, with so many replicas; it takes what it took of the pool in which it was written.

    It is written over what was seen and nothing else: a call may have given its pods other bytes since.
    """
    composed = _carried(writer, resolved.placement)
    if observed:
        same = _composed(writer, key, _scaled(observed, replicas))
        composed |= writer.named({key: over_version(same, writer.observed[key])})
    secrets = writer.named({k: repeated(m) for k, m in sorted(writer.observed.items()) if k.startswith(PULL)})
    return Written(
        composed=composed, secrets=secrets, allocated=_takes(writer, resolved, composed, key) if composed else None
    )


def _is_shaped(service: Manifest, resolved: ResolvedPlacement) -> bool:
    """Tell whether a service of the group that is asked for has the GPUs and the nodes that are asked for, too."""
    pool, containers = resolved.pool, listing(service, "spec.template.containers")
    limits = [mapping(container, "resources.limits").get(pool.gpu_resource) for container in containers]
    return _selects(service) == pool.labels and str(resolved.shape.gpus_per_node) in limits


def _selects(service: Manifest) -> tuple[tuple[str, str], ...]:
    """Return the labels of the nodes that a service selects."""
    return tuple(sorted(strings(service, "spec.template.nodeSelector").items()))


def _takes(
    writer: ObjectWriter, resolved: ResolvedPlacement, composed: Mapping[str, Composed], key: str
) -> Share | None:
    """Return what the services of a placement take: until the cluster has the one that is composed, and no other, what
    it had before, and until it has fewer replicas, as many as it had.
    """
    there = {
        **writer.ending,
        **writer.left,
        **{writer.name(key): manifest for key, manifest in writer.observed.items()},
    }
    services = {name: mapping(m, _MIRRORED) for name, m in there.items() if name.startswith(SERVICE)}
    running = {name: service for name, service in services.items() if service}
    asks, took = resolved.placement.requested, resolved.placement.allocated
    desired = {name: mapping(item.manifest, _MANIFEST) for name, item in composed.items()}
    wanted = asks and replace(asks, labels=resolved.pool.labels)
    new = all(
        name in desired and _read_digest(desired[name]) == _read_digest(service) for name, service in running.items()
    )
    shaped = _is_shaped(desired.get(writer.name(key), {}), resolved)
    share = wanted if (new and shaped) or took is None else took
    return share and replace(share, replicas=max(map(_replicas, (*desired.values(), *running.values())), default=0))


def lowered(observed: Mapping[str, Manifest], placement: Placement | None) -> dict[str, Composed]:
    """Return the services that are observed, with no more replicas than are asked for; None: nobody knows.

    Fewer need nobody's leave, nor anything that a placement refers to. A service of another group has a number of its
    own until it goes, unless none are asked for.
    """
    services = {key: manifest for key, manifest in sorted(observed.items()) if key.startswith(SERVICE)}
    return {key: _lowered(m, placement) if placement else repeated(m) for key, m in services.items()}


def _lowered(observed: Manifest, placement: Placement) -> Composed:
    asked, service, same = max(0, placement.replicas), mapping(observed, _MANIFEST), repeated(observed)
    own = placement.shape and service_name(placement, placement.shape) == text(service, "metadata.name")
    if (asked and not own) or _replicas(service) <= asked:
        return same
    spec = mapping(same.manifest, "spec")
    provided: Manifest = {**mapping(spec, "forProvider"), "manifest": _scaled(service, asked)}
    return _rested(replace(same, manifest={**same.manifest, "spec": {**spec, "forProvider": provided}}), read(observed))


def most(services: Mapping[str, Composed]) -> int:
    """Return how many replicas the largest of some services has."""
    return max((_replicas(mapping(item.manifest, _MANIFEST)) for item in services.values()), default=0)


def most_running(observed: Mapping[str, Manifest]) -> int:
    """Return how many replicas the largest of the services has that were last seen on the cluster."""
    services = (mapping(manifest, _MIRRORED) for key, manifest in observed.items() if key.startswith(SERVICE))
    return max(map(_replicas, services), default=0)


def _replicas(service: Manifest) -> int:
    return integer(service, "spec.replicas")


def _composed(writer: ObjectWriter, key: str, service: Manifest) -> Composed:
    """Return the service's Object."""
    return _rested(writer.compose(key, service, Lifetime.OWNED), writer.read(key))


def _rested(service: Composed, remote: ObservedObject) -> Composed:
    """Return a service; one without replicas is ready unless it is refused: nobody waits for its pods."""
    at_rest = get(service.manifest, f"{_MANIFEST}.spec.replicas") == 0 and remote.present
    return replace(service, ready=assess(remote.manifest).level is not Level.FAILED) if at_rest else service


def serving(writer: ObjectWriter, written: Written, key: str) -> ObservedObject:
    """Return the service that serves: the wanted one, or an earlier one that is composed in its place."""
    there = {**writer.left, **{writer.name(each): manifest for each, manifest in writer.observed.items()}}
    wanted = writer.name(key)
    return read(there.get(wanted if wanted in written.composed else next(iter(sorted(written.composed)), wanted)))


def moved(writer: ObjectWriter, stored: Weights, written: Written, key: str, planned: str) -> bool:
    """Tell whether nothing can read other bytes: there is no service at all, or this one alone, up on the planned ones.

    An Object that says nothing of its service, as after a restored backup, may have one. `planned`: what was planned
    when the composite last said so. A call before this one may have written a service for that which is not seen yet;
    once the composite says what is planned now, it is newer than that, and knows.
    """
    there = (*writer.observed, *writer.left)
    if not written.composed and not any(key.startswith(SERVICE) for key in there):
        return stored.plan is None or planned in ("", stored.plan.uri)
    if stored.plan is None or written.composed.keys() != {writer.name(key)}:
        return False
    remote = writer.read(key)
    return text(remote.manifest, _URI) == stored.plan.uri and remote.present and assess(remote.manifest).up


def left_weights(writer: ObjectWriter) -> dict[str, Composed]:
    """Return what is observed in other namespaces besides services."""
    return {name: item for name, item in carry_over(writer.left).items() if not name.startswith(SERVICE)}


def _carried(writer: ObjectWriter, placement: Placement) -> dict[str, Composed]:
    """Return every service that is observed, wherever it is."""
    return writer.named(lowered(writer.observed, placement)) | lowered(writer.left, placement)


def _reuse_if_unchanged(built: Manifest, observed: Manifest) -> Manifest:
    """Returns the service as observed while its spec digest is the same, else as built."""
    if _read_digest(built) == _read_digest(observed):
        return observed
    return built


def _read_digest(service: Manifest) -> str:
    return strings(service, "metadata.annotations").get(ANNOTATION_SPEC_DIGEST, "")


def _scaled(service: Manifest, replicas: int) -> Manifest:
    return {**service, "spec": {**mapping(service, "spec"), "replicas": replicas}}


def _runs(remote: ObservedObject, *, served: bool) -> bool:
    """Tell whether there are pods to spare; where nothing is known of them there may be."""
    if remote.state is State.REJECTED:
        return False
    health = assess(remote.manifest)
    return not remote.present or health.up or (served and health.level is not Level.FAILED)


def compute_planned_digest(resolved: ResolvedPlacement, plan: StoragePlan) -> str:
    """Returns the spec digest of the service of a placement; its pods restart when it differs from the running one."""
    return compute_spec_digest(_request(resolved, plan, resolved.placement.replicas))


def _request(resolved: ResolvedPlacement, plan: StoragePlan, replicas: int) -> ServingRequest:
    placement, environment = resolved.placement, resolved.environment
    return ServingRequest(
        name=service_name(placement, resolved.shape),
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
        bandwidth=environment.storage.read_bandwidth if plan.on_claim else None,
    )
