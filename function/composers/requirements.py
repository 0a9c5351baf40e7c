"""The resources that composers require, under names that are stable within a reconcile."""

from collections.abc import Iterable, Mapping

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
COLLECTIONS_CRD = Requirement(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=DEFINITION)
_ENVIRONMENT = "environment-"
_ON = "placements-on-"
_PLACEMENT = "placement-"


def model(ref: ModelRef, namespace: str) -> Requirement:
    """Requires a model; a Model is in the namespace of the composite."""
    return Requirement(
        api_version=VERSION, kind=ref.kind, name=ref.name, namespace=namespace if ref.kind == "Model" else None
    )


def environment(name: str) -> Requirement:
    """Requires one environment."""
    return Requirement(api_version=VERSION, kind="InferenceEnvironment", name=name)


def environments_by_name(names: Iterable[str]) -> dict[str, Requirement]:
    """Requires each of several environments."""
    return {f"{_ENVIRONMENT}{name}": environment(name) for name in names}


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
