"""Follows references between objects: to models, settings and names, and what a deployment requests with them."""

from collections.abc import Iterator

from function.api.cluster_model import parse_model
from function.api.model_cache import parse_model_cache
from function.api.model_deployment import parse_deployment, resolve_priority
from function.api.problems import find_nearest
from function.api.settings import parse_settings
from function.cli.composing import build_first_call, find_composition
from function.cli.options import CliError
from function.cli.store import Ref, Store
from function.domain.cache import ModelCacheChoice
from function.domain.model import Model, Problem
from function.domain.placement import Deployment, Placement
from function.domain.settings import BUILT_IN, Settings
from function.kube.manifests import Manifest, text
from function.scheduling.verdicts import SchedulingRequest
from function.serving.service import find_pool_problems
from function.weights.request import WeightsRequest

NODE_POOLS = tuple(f"spec.{block}nodePools" for block in ("", "cluster.existing.", "cluster.gke."))


def find_model(store: Store, manifest: Manifest) -> tuple[Ref, Model | None]:
    """Returns the reference to the model of an object, and the model where it is known and valid."""
    kind = text(manifest, "spec.modelRef.kind") or "ClusterModel"
    ref = Ref.resolve(kind, text(manifest, "metadata.namespace"), text(manifest, "spec.modelRef.name"))
    return ref, parse_model(store[ref]).value if ref in store else None


def check_name(store: Store, ref: Ref, path: str) -> Iterator[Problem]:
    """Returns a problem where an object does not exist although others of its kind are known."""
    others = store.refs(ref.kind)
    if others and ref not in others:
        known = [other.name for other in others if other.namespace == ref.namespace]
        elsewhere = [other.namespace for other in others if other.name == ref.name]
        hint = f"; the one in namespace {elsewhere[0]} is not for other namespaces" if elsewhere else ""
        yield Problem(path, suggest_nearest(f"there is no {ref}{hint}", ref.name, known))


def suggest_nearest(message: str, name: str, known: list[str]) -> str:
    close = find_nearest(name, known)
    return f"{message}; did you mean {close}?" if close else message


def read_settings(store: Store, manifest: Manifest) -> tuple[Settings, list[Problem]]:
    """Returns the platform's settings for an object; the built-in ones, and why, where they cannot be found.

    Then Crossplane composes nothing for it, or commands cannot follow its Composition.
    """
    try:
        call = build_first_call(store, manifest)
    except CliError as error:
        return BUILT_IN, [Problem("", error.message)]
    return parse_settings(call.input, call.context).value, []


def find_priority_problems(store: Store, manifest: Manifest, deployment: Deployment) -> Iterator[Problem]:
    """Yields a problem if the priority of a deployment has a name that the known platform settings do not have."""
    settings, faults = read_settings(store, manifest)
    if not faults and find_composition(store, manifest):
        yield from resolve_priority(deployment, settings.priorities).problems


def note_unknown_priority(store: Store, manifest: Manifest) -> Iterator[str]:
    """Yields that the name of a priority cannot be resolved without the platform settings."""
    name = text(manifest, "spec.priorityName")
    if name and not find_composition(store, manifest):
        missing = "the Composition of ModelDeployments with limits.priorities is not among the files"
        yield f"spec.priorityName: what {name} means is not known, because {missing}; give it with -f"


def read_request(store: Store, manifest: Manifest) -> SchedulingRequest | None:
    """Returns what a deployment requests; None where it or its model is not known or invalid."""
    deployment = parse_deployment(manifest).value
    _, model = find_model(store, manifest)
    if deployment is None or model is None:
        return None
    storage_request = request_storage(store, deployment, model)
    return SchedulingRequest(
        deployment=deployment, model=model, storage_request=storage_request, serving_check=find_pool_problems
    )


def request_storage(store: Store, user: Deployment | Placement, model: Model) -> WeightsRequest:
    name = user.storage_choice.name if isinstance(user.storage_choice, ModelCacheChoice) else ""
    cache = store.get(Ref("ModelCache", user.namespace, name))
    return WeightsRequest(
        model=model,
        choice=user.storage_choice,
        adapters=user.adapters,
        named_cache=parse_model_cache(cache).value if cache else None,
        namespace=user.namespace,
        owner=user.name,
    )
