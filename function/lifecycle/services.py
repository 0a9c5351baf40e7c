"""The LLMInferenceService of a placement: when it is written, on which bytes, and what happens to an earlier one.

A running service changes only when the user asked for something that its pods must see. It carries its wish
(serving/wish.py), and while that stays it is written as it is observed, whatever would be derived or built in by now.
Only `replicas` are always taken, as far as the
placement was admitted for them. It is first composed when its weights allow, and always after that. While other bytes
are on their way, or cannot be planned, everything else waits with them: an edit is taken as one.

What the cluster refuses is no running service, nor is one that was never up: both are written as they would be now. An
earlier service of another group or namespace goes when this one may be composed, and not before; one that cannot be
written at all leaves what runs as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from function.domain.model import Shape
from function.domain.placement import Placement
from function.domain.resolved import ResolvedPlacement
from function.domain.shares import Share
from function.exchange import Composed, Condition
from function.kube.manifests import Manifest, integer, mapping, strings, text
from function.kube.names import ANNOTATION_WISH, LABEL_DEPLOYMENT, MANAGED_BY, label_value, named
from function.lifecycle import hydration
from function.lifecycle.carry_over import carry_over, over_version, repeated
from function.lifecycle.object_writer import Lifetime, ObjectWriter
from function.lifecycle.secret_copies import of_pull_secrets
from function.lifecycle.weights import Weights
from function.observe.health import Level, assess
from function.observe.objects import ObservedObject, State, read
from function.observe.weights import Finding, StorageState
from function.report import services
from function.scheduling.admission import Admission
from function.serving.derived import (
    as_observed,
    initializer_as_observed,
    shared_memory_as_built,
    spread_as_observed,
)
from function.serving.request import ServingRequest
from function.serving.service import build, identity
from function.serving.spread import keeps_pods_apart
from function.serving.wish import earlier_wish, wish
from function.storage.plan import StoragePlan

SERVICE, PULL = "service-", "pull-"
_MANIFEST = "spec.forProvider.manifest"
_URI = "spec.model.uri"
_WORKER = "spec.worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The services to compose, what they take of which pool, and why the wanted one could not be written, if so.

    `secrets` are the copies with which their images are pulled, `uncopied` is what is wrong with the first that is not
    there.
    """

    composed: Mapping[str, Composed] = field(default_factory=dict)
    secrets: Mapping[str, Composed] = field(default_factory=dict)
    uncopied: StorageState | None = None
    refusal: Condition | None = None
    takes: Share | None = None


def service_name(placement: Placement, shape: Shape) -> str:
    """Return the service's name: another group is another object, since KServe refuses to change its size."""
    return named(placement.name, placement.namespace, placement.name, *identity(shape))


def write(
    resolved: ResolvedPlacement, writer: ObjectWriter, stored: Weights, key: str, admission: Admission
) -> Written:
    """Return the service under its key, or what was observed where it cannot or may not be written."""
    observed, placement = mapping(writer.observed.get(key), _MANIFEST), resolved.placement
    granted = min(placement.replicas, admission.replicas)
    replicas = min(placement.replicas, max(admission.replicas, _replicas(observed)))
    unshared = stored.state.finding in {Finding.CLAIM_NOT_SHARED, Finding.CACHE_NOT_SHARED}
    if unshared:
        # As our own claims are refused: no pod comes that cannot mount it, and none that is there goes.
        replicas = min(replicas, _replicas(observed))
    earlier = _earlier(writer, key, observed, replicas, placement)
    if stored.plan is None or not admission.open or (unshared and not observed):
        return earlier
    request = _request(resolved, stored.plan, replicas)
    built = build(request)
    if isinstance(built, tuple):
        return replace(earlier, refusal=services.invalid(built))
    if not stored.open and text(observed, _URI) != stored.plan.uri:
        return earlier
    service = built
    if observed and _runs(writer.read(key), served=placement.served):
        service = _scaled(_kept(built, observed, request), replicas)
    composed = _composed(writer, key, service)
    if observed and not (service == built == observed and replicas == granted):
        # What was seen may be late: two readings would take turns, or change what serves by now (decision 24).
        composed = over_version(composed, writer.observed[key])
    asks = placement.asks
    takes = replace(asks, replicas=replicas) if asks else None
    return Written(
        composed=writer.named({key: composed}),
        secrets=writer.named(_pull_secrets(writer, request)),
        uncopied=_uncopied(writer, request),
        takes=takes,
    )


def _pull_secrets(writer: ObjectWriter, request: ServingRequest) -> dict[str, Composed]:
    """Return the copies of Secrets with which the pods' images are pulled."""
    copies = of_pull_secrets(request.pulled_with)
    return {PULL + c.name: c.composed(writer, PULL + c.name, request.namespace, Lifetime.OWNED) for c in copies}


def _uncopied(writer: ObjectWriter, request: ServingRequest) -> StorageState | None:
    copies = of_pull_secrets(request.pulled_with)
    states = (hydration.of_token(writer.read(PULL + copy.name), copy.origin) for copy in copies)
    return next((state for state in states if state), None)


def _earlier(writer: ObjectWriter, key: str, observed: Manifest, replicas: int, placement: Placement) -> Written:
    """Return what runs as it is, with no more replicas; it takes what it took of the pool in which it was written.

    It is written over what was seen and nothing else: a call may have given its pods other bytes since.
    """
    composed = _carried(writer)
    if observed:
        same = _composed(writer, key, _scaled(observed, replicas))
        composed |= writer.named({key: over_version(same, writer.observed[key])})
    took = placement.takes or placement.asks
    secrets = writer.named({k: repeated(m) for k, m in sorted(writer.observed.items()) if k.startswith(PULL)})
    most = max((_replicas(mapping(item.manifest, _MANIFEST)) for item in composed.values()), default=0)
    takes = replace(took, replicas=most) if composed and took else None
    return Written(composed=composed, secrets=secrets, takes=takes)


def _replicas(service: Manifest) -> int:
    return integer(service, "spec.replicas")


def _composed(writer: ObjectWriter, key: str, service: Manifest) -> Composed:
    """Return the service's Object; one without replicas is ready unless it is refused: nobody waits for its pods."""
    composed, remote = writer.compose(key, service, Lifetime.OWNED), writer.read(key)
    at_rest = mapping(service, "spec").get("replicas") == 0 and remote.present
    return replace(composed, ready=assess(remote.manifest).level is not Level.FAILED) if at_rest else composed


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
    if not written.composed and not _carried(writer):
        return stored.plan is None or planned in ("", stored.plan.uri)
    if stored.plan is None or written.composed.keys() != {writer.name(key)}:
        return False
    remote = writer.read(key)
    return text(remote.manifest, _URI) == stored.plan.uri and remote.present and assess(remote.manifest).up


def left_weights(writer: ObjectWriter) -> dict[str, Composed]:
    """Return what is observed in other namespaces besides services."""
    return {name: item for name, item in carry_over(writer.left).items() if not name.startswith(SERVICE)}


def _carried(writer: ObjectWriter) -> dict[str, Composed]:
    """Return every service that is observed, wherever it is."""
    here = writer.named({key: repeated(m) for key, m in sorted(writer.observed.items()) if key.startswith(SERVICE)})
    return here | {name: repeated(m) for name, m in sorted(writer.left.items()) if name.startswith(SERVICE)}


def _kept(built: Manifest, observed: Manifest, request: ServingRequest) -> Manifest:
    """Return the service as observed, unless its pods must see something else now."""
    asked, carries = _wish(built), _wish(observed)
    if asked == carries or (carries == earlier_wish(request) and not keeps_pods_apart(mapping(observed, _WORKER))):
        return observed
    same = as_observed(built, observed, request)
    if carries:
        # Since there are wishes nothing but one decides the size of shared memory.
        same = shared_memory_as_built(same, built)
    else:
        # An earlier release wrote it. Where a wish is carried, what is said no longer shall go at once.
        same = spread_as_observed(same, observed, request)
        if request.initializer:
            same = initializer_as_observed(same, observed, request.initializer)
    if _scaled(same, 0).get("spec") == _scaled(observed, 0).get("spec"):
        return same
    return built


def _wish(service: Manifest) -> str:
    return strings(service, "metadata.annotations").get(ANNOTATION_WISH, "")


def _scaled(service: Manifest, replicas: int) -> Manifest:
    return {**service, "spec": {**mapping(service, "spec"), "replicas": replicas}}


def _runs(remote: ObservedObject, *, served: bool) -> bool:
    """Tell whether there are pods to spare; where nothing is known of them there may be."""
    if remote.state is State.REJECTED:
        return False
    health = assess(remote.manifest)
    return not remote.present or health.up or (served and health.level is not Level.FAILED)


def wished(resolved: ResolvedPlacement, plan: StoragePlan) -> str:
    """Return the wish of the service of a placement: where it is another one, its pods restart."""
    return wish(_request(resolved, plan, resolved.placement.replicas))


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
