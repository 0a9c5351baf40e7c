"""The resources that composites require, by names that are stable within a reconcile, and what they resolve to.

A requirement that is not answered yet makes a condition Unknown; an empty answer makes the condition False.
"""

from collections.abc import Collection, Iterable, Mapping

from function.api import model_deployment
from function.api.cluster_model import parse_model
from function.api.inference_environment import name_provider_config, parse_environment
from function.api.model_cache import parse_model_cache
from function.contract import Answered, Call, Condition, RequiredResource, Requirement
from function.domain.cache import ModelCache, ModelCacheChoice
from function.domain.environment import Environment
from function.domain.model import Model, ModelRef
from function.domain.placement import Placement, ResolvedPlacement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, condition, flag, listing, text
from function.kube.names import LABEL_CACHE, LABEL_DEPLOYMENT, LABEL_ENVIRONMENT, LABEL_OWNER, VERSION, label_value
from function.reasons import ConditionType, ReferencesResolved, Status
from function.remote.composed_kinds import (
    OBJECT,
    OBJECT_VERSION,
    PROVIDER_USAGE_KIND,
    USAGE_KIND,
    USAGE_VERSION,
    ResourceKind,
)
from function.remote.object_writer import find_remote_namespace
from function.status import references

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
TLS_DEFINITION = "tls-definition"
PROVIDER_USAGE: ResourceKind = (OBJECT_VERSION, PROVIDER_USAGE_KIND)
RESOLVED = Condition(
    ConditionType.REFERENCES_RESOLVED, Status.TRUE, ReferencesResolved.RESOLVED, "Model, environment and pool are known"
)
_RESOURCE = "resource-"
_LISTED = {OBJECT, (USAGE_VERSION, USAGE_KIND)}


def model(ref: ModelRef, namespace: str) -> Requirement:
    """Requires a model; a Model is in the namespace of the composite."""
    return one(ref.kind, ref.name, namespace if ref.kind == "Model" else None)


def one(kind: str, name: str, namespace: str | None = None) -> Requirement:
    """Requires one object of our API."""
    return Requirement(api_version=VERSION, kind=kind, name=name, namespace=namespace)


def require_definition(name: str) -> Requirement:
    """Requires a CRD by name, to know whether the control plane serves a kind before a resource of it is composed."""
    return Requirement(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=name)


def is_served(answer: Answered, version: str) -> bool:
    """Tells whether the answer to `require_definition` shows that a version of the kind is served: `v1`."""
    for item in answer:
        manifest = item.load()
        served = {text(row, "name") for row in listing(manifest, "spec.versions") if flag(row, "served")}
        if condition(manifest, "Established").get("status") == "True" and version in served:
            return True
    return False


def environments_by_name(names: Iterable[str]) -> dict[str, Requirement]:
    return {f"environment-{name}": one("InferenceEnvironment", name) for name in names}


def environments(labels: Mapping[str, str]) -> Requirement:
    return Requirement(api_version=VERSION, kind="InferenceEnvironment", labels=labels)


def placements(
    namespace: str | None = None, *, deployment: str = "", environment: str = "", cache: str = ""
) -> Requirement:
    """Requires the placements of a namespace (None: of all namespaces) that match every filter that is set.

    The filters are the deployment of a placement, its environment, and the ModelCache that it names.
    """
    names = {LABEL_DEPLOYMENT: deployment, LABEL_ENVIRONMENT: environment, LABEL_CACHE: cache}
    labels = {label: label_value(name) for label, name in names.items() if name}
    return Requirement(api_version=VERSION, kind="ModelPlacement", namespace=namespace, labels=labels)


def services(namespace: str) -> Requirement:
    return Requirement(api_version=VERSION, kind="ModelService", namespace=namespace)


def placements_on(environments_: Iterable[str]) -> dict[str, Requirement]:
    return {f"placements-on-{name}": placements(environment=name) for name in environments_}


def placements_by_name(names: Iterable[str], namespace: str) -> dict[str, Requirement]:
    return {f"placement-{name}": one("ModelPlacement", name, namespace) for name in names}


def labelled_resources(call: Call, kinds: Iterable[ResourceKind] = (OBJECT,)) -> dict[str, Requirement]:
    """Requires the resources of some kinds that have the label of the composite."""
    labels = {LABEL_OWNER: label_value(text(call.xr, "metadata.name"))}
    namespace = text(call.xr, "metadata.namespace")
    required: dict[str, Requirement] = {}
    for version, kind in kinds:
        key = OBJECTS if kind == "Object" else f"{_RESOURCE}{kind}"
        required[key] = Requirement(api_version=version, kind=kind, namespace=namespace, labels=labels)
    return required


def unobserved_resources(call: Call, kinds: Collection[ResourceKind] = _LISTED) -> dict[str, Requirement]:
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


def collect_own_resources(call: Call, names: Iterable[str]) -> tuple[Answered, bool]:
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
    return {**labelled, **placements_by_name(missing, namespace)}


class NotComposableError(Exception):
    """A composite cannot be composed further now, and stays as observed; the last condition says why.

    Either a reference does not resolve (yet), or a placement waits for its admission and has nothing on the cluster.
    """

    def __init__(self, *conditions: Condition) -> None:
        self.conditions = conditions


def resolve_placement(call: Call, placement: Placement, settings: Settings) -> ResolvedPlacement:
    """Returns a placement with its model, profile, environment, pool and cache.

    Raises:
        NotComposableError: One of them does not resolve.
    """
    if placement.shape is None:
        raise NotComposableError(references.unreadable_topology())
    model = resolve_model(call, placement.model, placement.namespace, ConditionType.REFERENCES_RESOLVED, settings)
    environment = _resolve_environment(call, placement.environment, settings)
    cache = _resolve_cache(call, placement)
    profile = next((p for p in model.profiles if p.name == placement.profile), None)
    if profile is None:
        raise NotComposableError(references.profile_not_found(placement.model, model, placement.profile))
    pool = environment.pool(placement.pool)
    if pool is None:
        raise NotComposableError(references.pool_not_found(environment.name, placement.pool))
    return ResolvedPlacement(
        placement=placement,
        shape=placement.shape,
        model=model,
        profile=profile,
        environment=environment,
        pool=pool,
        cache=cache,
        settings=settings,
        namespace=find_remote_namespace(call.observed) or settings.remote_namespace(placement.namespace),
    )


def find_other_cluster(observed: Mapping[str, Manifest], environment: Environment) -> str:
    """Returns the ClusterProviderConfig of an Object on another cluster than the environment's; empty if there is none.

    If an Object were pointed at another cluster, nothing would delete the remote object on the first cluster. The
    environment of a placement therefore never changes. A recreated environment has the same ClusterProviderConfig by
    the rule of names, whatever the earlier environment had in its status.
    """
    known = {"", environment.provider_config, name_provider_config(environment.name)}
    configs = (text(observed[key], "spec.providerConfigRef.name") for key in sorted(observed))
    return next((name for name in configs if name not in known), "")


def resolve_model(call: Call, ref: ModelRef, namespace: str, type_: ConditionType, settings: Settings) -> Model:
    """Returns the model; raises NotComposableError with a condition of the given type if there is none.

    It also raises the error while the settings are invalid, so that existing resources stay as observed.
    """
    if not settings.valid:
        raise NotComposableError(references.settings_invalid(type_))
    not_found = references.model_not_found(type_, ref, namespace)
    parsed = parse_model(_load(call, MODEL, not_found), settings)
    if parsed.value is None:
        raise NotComposableError(references.model_invalid(type_, ref, parsed.problems))
    return parsed.value


def _resolve_environment(call: Call, name: str, settings: Settings) -> Environment:
    """Returns the environment of a placement, which must still be on the cluster on which the placement started."""
    manifest = _load(call, ENVIRONMENT, references.environment_not_found(name))
    parsed = parse_environment(manifest, settings)
    if parsed.value.broken:
        reason = ReferencesResolved.ENVIRONMENT_NOT_FOUND
        subject = f"InferenceEnvironment {name}"
        raise NotComposableError(references.reference_invalid(reason, subject, parsed.other_problems))
    other_cluster = find_other_cluster(call.observed, parsed.value)
    if other_cluster:
        raise NotComposableError(references.environment_changed(name, other_cluster))
    return parsed.value


def _resolve_cache(call: Call, placement: Placement) -> ModelCache | None:
    if not isinstance(placement.cache, ModelCacheChoice):
        return None
    name = placement.cache.name
    parsed = parse_model_cache(_load(call, CACHE, references.cache_not_found(name, placement.namespace)))
    if parsed.value is None:
        reason = ReferencesResolved.CACHE_NOT_FOUND
        subject = f"ModelCache {name}"
        raise NotComposableError(references.reference_invalid(reason, subject, parsed.problems))
    return parsed.value


def _load(call: Call, requirement: str, not_found: Condition) -> Manifest:
    answer = call.answers.get(requirement)
    if answer is None:
        raise NotComposableError(references.resolving(not_found.type))
    if not answer:
        raise NotComposableError(not_found)
    return answer[0].load()
