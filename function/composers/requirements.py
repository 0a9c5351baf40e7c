"""The resources that composers require, under names that are stable within a reconcile."""

from collections.abc import Iterable, Mapping

from function.contract import Answered, Call, Requirement
from function.domain.model import ModelRef
from function.kube.manifests import listing, text
from function.kube.names import LABEL_CACHE, LABEL_DEPLOYMENT, LABEL_ENVIRONMENT, LABEL_OWNER, VERSION, label_value
from function.remote.node_observation import DEFINITION, MEMBERSHIP
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
_OBJECT = "object-"


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


def unobserved_objects(call: Call) -> dict[str, Requirement]:
    """Requires each Object that the composite lists and that Crossplane does not observe.

    By its label alone such an Object is seen in every second call where lists are always equally late, and what one
    call writes the next one takes back, without end (tests/simulator/test_races.py).
    """
    namespace = text(call.xr, "metadata.namespace")
    refs = listing(call.xr, "spec.crossplane.resourceRefs")
    listed = {text(r, "name") for r in refs if (r.get("apiVersion"), r.get("kind")) == (OBJECT_VERSION, "Object")}
    unobserved = listed - {text(manifest, "metadata.name") for manifest in call.observed.values()} - {""}
    return {
        f"{_OBJECT}{name}": Requirement(api_version=OBJECT_VERSION, kind="Object", name=name, namespace=namespace)
        for name in sorted(unobserved)
    }


def collect_objects(call: Call, required: Iterable[str]) -> tuple[Answered, bool]:
    """Returns the required Objects of a composite that are answered, and whether all are."""
    answers = [call.answer(name) for name in required if name == OBJECTS or name.startswith(_OBJECT)]
    return tuple(item for answer in answers for item in answer or ()), None not in answers


def cache(name: str, namespace: str) -> Requirement:
    """Requires one ModelCache."""
    return Requirement(api_version=VERSION, kind="ModelCache", name=name, namespace=namespace)


def nodes(collection: str, namespace: str) -> Requirement:
    """Requires the Objects of a collection."""
    return Requirement(api_version=OBJECT_VERSION, kind="Object", namespace=namespace, labels={MEMBERSHIP: collection})
