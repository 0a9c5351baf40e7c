"""The resources that composers require, under names that are stable within a reconcile."""

from collections.abc import Mapping

from function.contract import Requirement
from function.domain.model import ModelRef
from function.kube.names import LABEL_CACHE, LABEL_DEPLOYMENT, LABEL_ENVIRONMENT, LABEL_OWNER, VERSION, label_value
from function.remote.node_facts import DEFINITION, MEMBERSHIP
from function.remote.object_writer import API_VERSION as OBJECT_VERSION

MODEL = "model"
ENVIRONMENT = "environment"
SELECTED = "selected-environments"
ENVIRONMENTS = "environments"
OWN = "own-placements"
PLACEMENTS = "placements"
NAMESPACE = "placements-of-the-namespace"
CACHE = "cache"
OBJECTS = "objects"
NODES = "nodes"
NODES_DEFINITION = "nodes-definition"
_ENVIRONMENT = "environment-"
_ON = "placements-on-"
_PLACEMENT = "placement-"


def model(ref: ModelRef, namespace: str) -> Requirement:
    """Requires a model; a Model is in the namespace of the composite."""
    if ref.kind == "Model":
        return Requirement(api_version=VERSION, kind="Model", name=ref.name, namespace=namespace)
    return Requirement(api_version=VERSION, kind="ClusterModel", name=ref.name)


def environment(name: str) -> Requirement:
    """Requires one environment."""
    return Requirement(api_version=VERSION, kind="InferenceEnvironment", name=name)


def key_environment(name: str) -> str:
    """Returns the requirement's name for one of several environments."""
    return f"{_ENVIRONMENT}{name}"


def environments(labels: Mapping[str, str] | None = None) -> Requirement:
    """Requires every environment that has these labels."""
    return Requirement(api_version=VERSION, kind="InferenceEnvironment", labels=labels or {})


def placements(namespace: str | None = None) -> Requirement:
    """Requires every placement of a namespace, or of all."""
    return Requirement(api_version=VERSION, kind="ModelPlacement", namespace=namespace)


def placements_of(deployment: str, namespace: str) -> Requirement:
    """Requires the placements of a deployment."""
    labels = {LABEL_DEPLOYMENT: label_value(deployment)}
    return Requirement(api_version=VERSION, kind="ModelPlacement", namespace=namespace, labels=labels)


def placements_on(environment: str) -> Requirement:
    """Requires the placements on an environment, of all namespaces."""
    labels = {LABEL_ENVIRONMENT: label_value(environment)}
    return Requirement(api_version=VERSION, kind="ModelPlacement", labels=labels)


def placements_reading(cache: str, namespace: str) -> Requirement:
    """Requires the placements that name a ModelCache."""
    labels = {LABEL_CACHE: label_value(cache)}
    return Requirement(api_version=VERSION, kind="ModelPlacement", namespace=namespace, labels=labels)


def key_placements_on(environment: str) -> str:
    """Returns the requirement's name for the placements on one of several environments."""
    return f"{_ON}{environment}"


def key_placement(name: str, namespace: str = "") -> str:
    """Returns the requirement's name for one of several placements; by default in the same namespace."""
    return f"{_PLACEMENT}{namespace}/{name}" if namespace else f"{_PLACEMENT}{name}"


def placement(name: str, namespace: str) -> Requirement:
    """Requires one placement."""
    return Requirement(api_version=VERSION, kind="ModelPlacement", name=name, namespace=namespace)


def objects_of(owner: str, namespace: str) -> Requirement:
    """Requires the Objects of a composite."""
    labels = {LABEL_OWNER: label_value(owner)}
    return Requirement(api_version=OBJECT_VERSION, kind="Object", namespace=namespace, labels=labels)


def cache(name: str, namespace: str) -> Requirement:
    """Requires one ModelCache."""
    return Requirement(api_version=VERSION, kind="ModelCache", name=name, namespace=namespace)


def nodes(collection: str, namespace: str) -> Requirement:
    """Requires the Objects of a collection."""
    return Requirement(api_version=OBJECT_VERSION, kind="Object", namespace=namespace, labels={MEMBERSHIP: collection})


def nodes_definition() -> Requirement:
    """Requires the CRD of collections."""
    return Requirement(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=DEFINITION)
