"""The resources that composers require, under names that are stable within a reconcile."""

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from function.contract import Answered, Call, Requirement
from function.domain.model import ModelRef
from function.kube.manifests import listing, text
from function.kube.names import LABEL_CACHE, LABEL_DEPLOYMENT, LABEL_ENVIRONMENT, LABEL_OWNER, VERSION, label_value
from function.remote.nodes import DEFINITION, MEMBERSHIP
from function.remote.object_writer import API_VERSION as OBJECT_VERSION
from function.weights.consumers import USAGE_API_VERSION, USAGE_KIND

MODEL = "model"
ENVIRONMENT = "environment"
SELECTED = "selected-environments"
ENVIRONMENTS = "environments"
OWN = "own-placements"
PLACEMENTS = "placements"
NAMESPACE = "placements-of-the-namespace"
CACHE = "cache"
OBJECTS = "objects"
SERVICE = "model-service"
SERVICES = "model-services"
GATE = "gate"
NODES = "nodes"
NODES_DEFINITION = "nodes-definition"
COLLECTIONS_CRD = Requirement(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=DEFINITION)
ResourceKind: TypeAlias = tuple[str, str]  # apiVersion and kind
OBJECT: ResourceKind = (OBJECT_VERSION, "Object")
_RESOURCE = "resource-"
_LISTED = {OBJECT, (USAGE_API_VERSION, USAGE_KIND)}


def model(ref: ModelRef, namespace: str) -> Requirement:
    """Requires a model; a Model is in the namespace of the composite."""
    return one(ref.kind, ref.name, namespace if ref.kind == "Model" else None)


def one(kind: str, name: str, namespace: str | None = None) -> Requirement:
    """Requires one object of our API."""
    return Requirement(api_version=VERSION, kind=kind, name=name, namespace=namespace)


def environments_by_name(names: Iterable[str]) -> dict[str, Requirement]:
    """Requires each of several environments."""
    return {f"environment-{name}": one("InferenceEnvironment", name) for name in names}


def environments(labels: Mapping[str, str] | None = None) -> Requirement:
    """Requires every environment that has these labels."""
    return Requirement(api_version=VERSION, kind="InferenceEnvironment", labels=labels or {})


def placements(
    namespace: str | None = None, *, deployment: str = "", environment: str = "", cache: str = ""
) -> Requirement:
    """Requires every placement of a namespace, or of all: of a deployment, on an environment, naming a ModelCache."""
    names = {LABEL_DEPLOYMENT: deployment, LABEL_ENVIRONMENT: environment, LABEL_CACHE: cache}
    labels = {label: label_value(name) for label, name in names.items() if name}
    return Requirement(api_version=VERSION, kind="ModelPlacement", namespace=namespace, labels=labels)


def services(namespace: str) -> Requirement:
    """Requires every ModelService of a namespace."""
    return Requirement(api_version=VERSION, kind="ModelService", namespace=namespace)


def key_placements_on(environment: str) -> str:
    """Returns the requirement's name for the placements on one of several environments."""
    return f"placements-on-{environment}"


def key_placements_of(deployment: str) -> str:
    """Returns the requirement's name for the placements of one of several deployments."""
    return f"placements-of-{deployment}"


def key_placement(name: str, namespace: str = "") -> str:
    """Returns the requirement's name for one of several placements; by default in the same namespace."""
    return f"placement-{namespace}/{name}" if namespace else f"placement-{name}"


def resources_of(owner: str, namespace: str, kind: ResourceKind = OBJECT) -> Requirement:
    """Requires the resources of a kind that have the label of a composite."""
    labels = {LABEL_OWNER: label_value(owner)}
    return Requirement(api_version=kind[0], kind=kind[1], namespace=namespace, labels=labels)


def key_resources_of(kind: ResourceKind) -> str:
    """Returns the requirement's name for the resources of one of several kinds."""
    return OBJECTS if kind == OBJECT else f"{_RESOURCE}{kind[1]}"


def unobserved_resources(call: Call, kinds: Collection[ResourceKind] = _LISTED) -> dict[str, Requirement]:
    """Requires each resource of some kinds that the composite lists and that Crossplane does not observe.

    An Object that only its label finds is seen in every second call where lists are always equally late, and what one
    call writes the next one takes back, without end (tests/simulator/test_races.py). A Usage has no such label, and is
    found by its name alone (decision 14).
    """
    namespace = text(call.xr, "metadata.namespace")
    observed = {(text(manifest, "kind"), text(manifest, "metadata.name")) for manifest in call.observed.values()}
    required: dict[str, Requirement] = {}
    for ref in listing(call.xr, "spec.crossplane.resourceRefs"):
        api_version, kind, name = (text(ref, field) for field in ("apiVersion", "kind", "name"))
        if (api_version, kind) in kinds and name and (kind, name) not in observed:
            key = f"{_RESOURCE}{kind}-{name}"
            required[key] = Requirement(api_version=api_version, kind=kind, name=name, namespace=namespace)
    return dict(sorted(required.items()))


def collect_resources(call: Call, required: Iterable[str]) -> tuple[Answered, bool]:
    """Returns the required resources of a composite that are answered, and whether all are."""
    answers = [call.answers.get(name) for name in required if name == OBJECTS or name.startswith(_RESOURCE)]
    return tuple(item for answer in answers for item in answer or ()), None not in answers


def nodes(collection: str, namespace: str) -> Requirement:
    """Requires the Objects of a collection."""
    return Requirement(api_version=OBJECT_VERSION, kind="Object", namespace=namespace, labels={MEMBERSHIP: collection})
