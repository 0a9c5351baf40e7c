"""The resources that composites require, by names that are stable within a reconcile, and what they resolve to.

A requirement that is not answered yet makes a condition Unknown; an empty answer makes the condition False.
"""

from collections.abc import Collection, Iterable, Mapping

from function.api import model_deployment
from function.contract import Answer, Call, RequiredResource, Requirement
from function.domain.model import ModelRef
from function.domain.placement import Placement
from function.kube.manifests import condition, flag, listing, text
from function.kube.names import LABEL_CACHE, LABEL_DEPLOYMENT, LABEL_ENVIRONMENT, LABEL_OWNER, VERSION, label_value
from function.remote.composed_kinds import (
    OBJECT,
    OBJECT_VERSION,
    PROVIDER_USAGE_KIND,
    USAGE_KIND,
    USAGE_VERSION,
    ResourceKind,
)

MODEL = "model"
ENVIRONMENT = "environment"
SELECTED = "selected-environments"
ENVIRONMENTS = "environments"
OWN_PLACEMENTS = "own-placements"
PLACEMENTS = "placements"
PLACEMENTS_IN_NAMESPACE = "placements-of-the-namespace"
CACHE = "cache"
OBJECTS = "objects"
MODEL_SERVICE = "model-service"
MODEL_SERVICES = "model-services"
GATE = "gate"
NODES = "nodes"
NODES_DEFINITION = "nodes-definition"
CLUSTER_DEFINITION = "cluster-definition"
NODE_POOL_DEFINITION = "node-pool-definition"
TLS_DEFINITION = "tls-definition"
PROVIDER_USAGE: ResourceKind = (OBJECT_VERSION, PROVIDER_USAGE_KIND)
_RESOURCE = "resource-"
_LISTED = {OBJECT, (USAGE_VERSION, USAGE_KIND)}


def require_model(ref: ModelRef, namespace: str) -> Requirement:
    """Requires a model; a Model is in the namespace of the composite."""
    return require_object(ref.kind, ref.name, namespace if ref.kind == "Model" else None)


def require_object(kind: str, name: str, namespace: str | None = None) -> Requirement:
    """Requires one object of our API."""
    return Requirement(api_version=VERSION, kind=kind, name=name, namespace=namespace)


def require_definition(name: str) -> Requirement:
    """Requires a CRD by name, to know whether the control plane serves a kind before a resource of it is composed."""
    return Requirement(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=name)


def is_served(answer: Answer, version: str) -> bool:
    """Tells whether the answer to `require_definition` shows that a version of the kind is served: `v1`."""
    for item in answer:
        manifest = item.load()
        served = {text(row, "name") for row in listing(manifest, "spec.versions") if flag(row, "served")}
        if condition(manifest, "Established").get("status") == "True" and version in served:
            return True
    return False


def require_environments_by_name(names: Iterable[str]) -> dict[str, Requirement]:
    return {f"environment-{name}": require_object("InferenceEnvironment", name) for name in names}


def require_environments(labels: Mapping[str, str]) -> Requirement:
    return Requirement(api_version=VERSION, kind="InferenceEnvironment", labels=labels)


def require_placements(
    namespace: str | None = None, *, deployment: str = "", environment: str = "", cache: str = ""
) -> Requirement:
    """Requires the placements of a namespace (None: of all namespaces) that match every filter that is set.

    The filters are the deployment of a placement, its environment, and the ModelCache that it names.
    """
    names = {LABEL_DEPLOYMENT: deployment, LABEL_ENVIRONMENT: environment, LABEL_CACHE: cache}
    labels = {label: label_value(name) for label, name in names.items() if name}
    return Requirement(api_version=VERSION, kind="ModelPlacement", namespace=namespace, labels=labels)


def require_model_services(namespace: str) -> Requirement:
    return Requirement(api_version=VERSION, kind="ModelService", namespace=namespace)


def require_placements_on(environments: Iterable[str]) -> dict[str, Requirement]:
    return {f"placements-on-{name}": require_placements(environment=name) for name in environments}


def require_placements_by_name(names: Iterable[str], namespace: str) -> dict[str, Requirement]:
    return {f"placement-{name}": require_object("ModelPlacement", name, namespace) for name in names}


def require_labelled_resources(call: Call, kinds: Iterable[ResourceKind] = (OBJECT,)) -> dict[str, Requirement]:
    """Requires the resources of some kinds that have the label of the composite."""
    labels = {LABEL_OWNER: label_value(text(call.xr, "metadata.name"))}
    namespace = text(call.xr, "metadata.namespace")
    required: dict[str, Requirement] = {}
    for version, kind in kinds:
        key = OBJECTS if kind == "Object" else f"{_RESOURCE}{kind}"
        required[key] = Requirement(api_version=version, kind=kind, namespace=namespace, labels=labels)
    return required


def require_unobserved_resources(call: Call, kinds: Collection[ResourceKind] = _LISTED) -> dict[str, Requirement]:
    """Requires each resource of some kinds that the composite lists and that Crossplane does not observe.

    A list by label is always late. If an Object were found only by its label, the list would show it in every second
    call, and each call would undo the previous one for ever (tests/simulator/test_races.py). A Usage has no such label,
    and is found only by its name (decision 14).
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


def collect_own_resources(call: Call, names: Iterable[str]) -> tuple[Answer, bool]:
    """Returns the answered resources of the composite itself, and whether all requirements for them are answered."""
    answers = [call.answers.get(name) for name in names if name == OBJECTS or name.startswith(_RESOURCE)]
    return tuple(item for answer in answers for item in answer or ()), None not in answers


def collect_items(call: Call, required: Iterable[str]) -> list[RequiredResource] | None:
    """Returns all answers to some requirements; None while one of them is not answered."""
    answers = [call.answers.get(name) for name in required]
    return None if None in answers else [item for answer in answers for item in answer or ()]


def collect_placements(call: Call, required: Iterable[str]) -> list[Placement] | None:
    """Returns the readable placements of all answers; None while a requirement is not answered."""
    items = collect_items(call, required)
    return (
        None
        if items is None
        else [placement for placement in model_deployment.PLACEMENT_CACHE.parse(items) if placement]
    )


def with_recorded_placements(
    call: Call, labelled: Mapping[str, Requirement], recorded: Iterable[str], namespace: str
) -> dict[str, Requirement]:
    """Requires placements by label and, once these are answered, by name the recorded ones that the label misses."""
    found = collect_placements(call, labelled)
    if found is None:
        return dict(labelled)
    missing = sorted(set(recorded) - {placement.name for placement in found})
    return {**labelled, **require_placements_by_name(missing, namespace)}
