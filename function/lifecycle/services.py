"""The LLMInferenceService of a placement: when it is written, on which bytes, and what happens to an earlier one.

It is first composed when its weights allow, and always after that. While other bytes are being fetched it stays on
those that it serves, so everything else about it can still change. An earlier service of another group goes when this
one may be composed, and not before; one that cannot be written at all leaves what runs as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from function.domain.resolved import ResolvedPlacement
from function.domain.settings import INITIALIZER_IMAGE
from function.exchange import Composed, Condition
from function.kube.manifests import Manifest, listing, mapping, text
from function.kube.names import LABEL_DEPLOYMENT, MANAGED_BY, label_value, named
from function.lifecycle.carry_over import carried
from function.lifecycle.object_writer import Lifetime, ObjectWriter
from function.lifecycle.weights import Weights
from function.observe.health import assess
from function.observe.objects import ObservedObject
from function.report import services
from function.serving.request import Initializer, ServingRequest
from function.serving.service import build, identity

SERVICE = "service-"
_URI = "spec.model.uri"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The services to compose, and why the wanted one could not be written, if so."""

    composed: Mapping[str, Composed] = field(default_factory=dict)
    refusal: Condition | None = None


def service_name(resolved: ResolvedPlacement) -> str:
    """Return the service's name: another group is another object, since KServe refuses to change its size."""
    placement = resolved.placement
    return named(placement.name, placement.namespace, placement.name, *identity(resolved.shape))


def write(resolved: ResolvedPlacement, writer: ObjectWriter, stored: Weights, key: str) -> Written:
    """Return the service under its key, or what was observed where it cannot or may not be written."""
    earlier = {k: carried(m) for k, m in sorted(writer.observed.items()) if k.startswith(SERVICE)}
    uri = _uri(writer, stored, key)
    if not uri:
        return Written(composed=earlier)
    built = build(_request(resolved, stored, uri, mapping(writer.observed.get(key), "spec.forProvider.manifest")))
    if isinstance(built, tuple):
        return Written(composed=earlier, refusal=services.invalid(built))
    return Written(composed={key: writer.compose(key, built, Lifetime.OWNED)})


def _uri(writer: ObjectWriter, stored: Weights, key: str) -> str:
    """Return where the service reads: the planned bytes once they are there, else those it is on; empty if none."""
    if stored.plan is None:
        return ""
    if stored.open:
        return stored.plan.uri
    earlier = text(writer.observed.get(key), f"spec.forProvider.manifest.{_URI}")
    # What downloads in its pods has an initializer that only the plan for those bytes describes.
    return earlier if earlier.startswith("pvc://") else ""


def moved(remote: ObservedObject, stored: Weights, written: Written, key: str) -> bool:
    """Tell whether nothing reads other bytes: no earlier service stays, and this one is up on the planned ones."""
    if stored.plan is None or any(other != key for other in written.composed):
        return False
    if not remote.seen:
        return True
    return text(remote.manifest, _URI) == stored.plan.uri and remote.present and assess(remote.manifest).up


def _request(resolved: ResolvedPlacement, stored: Weights, uri: str, earlier: Manifest) -> ServingRequest:
    placement, environment = resolved.placement, resolved.environment
    return ServingRequest(
        name=service_name(resolved),
        namespace=resolved.namespace,
        labels={**MANAGED_BY, LABEL_DEPLOYMENT: label_value(placement.deployment or placement.name)},
        model=resolved.model,
        profile=resolved.profile,
        shape=resolved.shape,
        pool=resolved.pool,
        replicas=placement.replicas,
        uri=uri,
        kserve=environment.kserve,
        initializer=_initializer(stored, uri, earlier),
        weights=_weights(resolved),
    )


def _initializer(stored: Weights, uri: str, earlier: Manifest) -> Initializer | None:
    """Return what downloads in the pods. Another release's own image alone restarts none of them: they would all
    download again.
    """
    given = stored.plan.initializer if stored.plan else None
    if given is None:
        return None
    image = given.image
    if image == INITIALIZER_IMAGE and text(earlier, _URI) == uri:
        written = [text(container, "image") for container in listing(earlier, "spec.template.initContainers")]
        image = next((each for each in written if _repository(each) == _repository(image)), image)
    return Initializer(image=image, resources=given.resources, env=given.env, env_from=given.env_from)


def _repository(image: str) -> str:
    return image.partition(":")[0]


def _weights(resolved: ResolvedPlacement) -> int | None:
    """Return how many bytes an engine loads at most; not from the pool, whose drift must restart nothing."""
    return resolved.model.disk or resolved.model.vram
