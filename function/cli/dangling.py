"""What objects say of each other: a name that leads nowhere, with the nearest that exists."""

from collections.abc import Callable, Iterator, Mapping

from function.cli.composition import first_call
from function.cli.errors import CliError
from function.cli.store import CLUSTER_SCOPED, Ref, Store, environments, is_ours
from function.domain.cache import NamedCache
from function.domain.environment import Environment
from function.domain.model import Model, ModelRef
from function.domain.placement import Deployment, Placement
from function.domain.problem import Problem
from function.domain.settings import BUILT_IN, Settings
from function.kube.manifests import Manifest, get, text
from function.parse.caches import read_cache
from function.parse.deployments import read_deployment
from function.parse.models import read_model
from function.parse.placements import read_placement
from function.parse.problems import nearest
from function.parse.settings import read_settings
from function.reasons import Refused
from function.report.storage_faults import problem
from function.report.weights import again
from function.scheduling.request import SchedulingRequest
from function.scheduling.schedule import NO_POOL, unsuited
from function.storage.checks import faults as faults_of
from function.storage.placed import PlacedWeights, cached_weights
from function.storage.request import Case


def faults(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Return every reference of an object that leads nowhere, or to what does not go with it."""
    check = _CHECKS.get(text(manifest, "kind"))
    if check and is_ours(manifest):
        yield from _model(store, manifest)
        yield from check(store, manifest)


def _model(store: Store, manifest: Manifest) -> Iterator[Problem]:
    name = text(manifest, "spec.modelRef.name")
    ref = _model_ref(ModelRef(kind=text(manifest, "spec.modelRef.kind") or "ClusterModel", name=name), manifest)
    if name:
        yield from _named(store, ref, "spec.modelRef.name")


def _model_ref(ref: ModelRef, manifest: Manifest) -> Ref:
    namespace = "" if ref.kind in CLUSTER_SCOPED else text(manifest, "metadata.namespace")
    return Ref(ref.kind, namespace, ref.name)


def remarks(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Return what is no fault of an object and worth knowing."""
    of_ours = is_ours(manifest) and text(manifest, "kind") == "ModelDeployment"
    deployment = read_deployment(manifest).value if of_ours else None
    model = _model_of(store, deployment.model, manifest) if deployment else None
    if deployment is None or model is None:
        return
    weights = _weights(store, deployment, model, BUILT_IN)
    for profile in model.profiles:
        if profile.shape and weights.on(Environment(name=""), NO_POOL, profile.shape, 1).case is Case.INITIALIZER:
            yield Problem("spec.modelCache", f"is EmptyDir with profile {profile.name}: {again(model.disk)}")


def _deployment(store: Store, manifest: Manifest) -> Iterator[Problem]:
    deployment = read_deployment(manifest).value
    if deployment is None:
        return
    if isinstance(deployment.cache, NamedCache):
        ref = Ref("ModelCache", deployment.namespace, deployment.cache.name)
        yield from _named(store, ref, "spec.modelCache.name")
    model = _model_of(store, deployment.model, manifest)
    if model is None:
        return
    settings = _settings(store, manifest)
    weights = _weights(store, deployment, model, settings)
    request = SchedulingRequest(deployment=deployment, model=model, unstorable=weights)
    fault = unsuited(request, environments(store, settings), (Refused.INVALID_DEPLOYMENT, Refused.STORAGE_TOO_SMALL))
    if fault is not None:
        yield problem(fault)


def _model_of(store: Store, ref: ModelRef, manifest: Manifest) -> Model | None:
    found = store.get(_model_ref(ref, manifest))
    return read_model(found).value if found else None


def _cache(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Return what the planner would say on the environments that are named and known."""
    cache = read_cache(manifest).value
    names = get(manifest, "spec.environments")
    for index, name in enumerate(names if isinstance(names, list) else []):
        yield from _named(store, Ref("InferenceEnvironment", "", str(name)), f"spec.environments[{index}]")
    model = _model_of(store, cache.model, manifest) if cache else None
    if cache is None or model is None:
        return
    settings = _settings(store, manifest)
    for environment in environments(store, settings):
        if cache.selects(environment):
            yield from map(problem, faults_of(cached_weights(model, cache, environment, settings)))


def _placement(store: Store, manifest: Manifest) -> Iterator[Problem]:
    name = text(manifest, "spec.inferenceEnvironmentRef.name")
    yield from _named(store, Ref("InferenceEnvironment", "", name), "spec.inferenceEnvironmentRef.name")
    settings = _settings(store, manifest)
    environment = next((e for e in environments(store, settings) if e.name == name), None)
    placement = read_placement(manifest).value
    if environment is None or placement is None:
        return
    pool = environment.pool(placement.pool)
    if placement.pool and pool is None:
        known = [pool.name for pool in environment.pools]
        message = f"InferenceEnvironment {name} has no pool {placement.pool}"
        yield Problem("spec.pool", _leads_nowhere(message, placement.pool, known))
    model = _model_of(store, placement.model, manifest)
    if model is None or pool is None or placement.shape is None:
        return
    weights = _weights(store, placement, model, settings)
    yield from map(problem, weights(environment, pool, placement.shape, placement.replicas))


_CHECKS: Mapping[str, Callable[[Store, Manifest], Iterator[Problem]]] = {
    "ModelDeployment": _deployment,
    "ModelCache": _cache,
    "ModelPlacement": _placement,
}


def _settings(store: Store, manifest: Manifest) -> Settings:
    """Return what the platform's settings are for an object, as far as they are known."""
    try:
        call = first_call(store, manifest)
    except CliError:
        return BUILT_IN
    return read_settings(call.input, call.context).value


def _weights(store: Store, of: Deployment | Placement, model: Model, settings: Settings) -> PlacedWeights:
    cache = store.get(Ref("ModelCache", of.namespace, of.cache.name)) if isinstance(of.cache, NamedCache) else None
    return PlacedWeights(
        model=model,
        choice=of.cache,
        cache=read_cache(cache).value if cache else None,
        settings=settings,
        namespace=of.namespace,
        owner=of.name,
    )


def _named(store: Store, ref: Ref, path: str) -> Iterator[Problem]:
    """Return a problem where an object does not exist although others of its kind are known."""
    others = store.refs(ref.kind)
    if others and ref not in others:
        near = [other.name for other in others if other.namespace == ref.namespace]
        yield Problem(path, _leads_nowhere(f"there is no {ref}", ref.name, near))


def _leads_nowhere(message: str, name: str, known: list[str]) -> str:
    close = nearest(name, known)
    return f"{message}; did you mean {close}?" if close else message
