"""Finds what the API server would refuse, what it would drop silently, and references that lead nowhere.

The rules are those of the function's own parser, which checks all that the XRDs and their CEL rules demand, and for
names, namespaces and labels those of the API server. A reference is followed where an object of its kind is known;
otherwise it cannot be checked. Every command prints what is found before it decides anything, and `validate` prints
nothing else.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import click
import yaml
from pydantic import create_model

from function import schemas
from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.api.model_cache import parse_model_cache
from function.api.model_deployment import parse_deployment, parse_placement
from function.api.model_service import parse_model_service
from function.api.problems import (
    SPECS,
    Parsed,
    find_duplicates,
    find_nearest,
    find_unknown_fields,
    invalid_value,
    join_path,
    unknown_value,
)
from function.api.settings import ENVIRONMENT_KEY, parse_settings
from function.api.values import find_invalid_label
from function.capacity.admission import build_required_labels
from function.capacity.ledger import CapacityView
from function.capacity.pools import count_in_empty_pool
from function.cli.composing import CONFIG, INPUT_GROUP, build_first_call
from function.cli.gpus import find_contradictions
from function.cli.options import CliError, Code, is_quiet
from function.cli.store import Ref, Store, has_misspelt_group, is_known, is_ours, read_environments, set_namespace
from function.cli.tables import BAD, WAIT, paint
from function.composers import COMPOSERS
from function.composers.model_deployment import refuse_foreign_service
from function.domain.allocation import format_replicas
from function.domain.cache import ModelCacheChoice
from function.domain.environment import Environment
from function.domain.model import DownloadedSource, Model, Problem
from function.domain.placement import Deployment, Placement
from function.domain.settings import BUILT_IN, Settings
from function.kube.manifests import JSON, Manifest, get, list_texts, listing, mapping, strings, text
from function.kube.names import VERSION
from function.kube.quantity import gib
from function.reasons import Refused
from function.scheduling.filters import REQUIREMENT_REASONS, filter_candidates
from function.scheduling.scheduler import NO_POOL, find_unsatisfiable_storage
from function.scheduling.verdicts import SchedulingRequest
from function.serving.service import find_pool_problems
from function.status.cluster_model import list_notes
from function.status.inference_environment import NO_GPUS, list_pool_notes
from function.status.model_deployment import note_missing_prices
from function.status.model_placement import describe_missing_labels
from function.status.weights import format_redownload_note, note_costs
from function.weights.claim import READ_WRITE_MANY
from function.weights.faults import FaultKind, find_faults, find_remarks
from function.weights.request import StorageType, WeightsRequest, build_cache_request, cache_key

Level: TypeAlias = Literal["error", "warning"]
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL, re.ASCII)
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_MAX_NAME = 253
_MAX_LABEL = 63
_MAX_COMPOSITE_NAME = 63  # Crossplane sets it in the CRDs that it generates from XRDs
NODE_POOLS = tuple(f"spec.{block}nodePools" for block in ("", "cluster.existing.", "cluster.gke."))
_SEGMENT = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")  # of `spec.pools[0]` or `metadata.labels[example.org/tier]`
_SCALING = "; set fixed.replicas, as nothing scales replicas"
_SIZE_FIELDS = frozenset({"memoryPerGpu", "vram", "disk", "size", "shm"})
_SMALLEST_SIZE = 2**20  # bytes; no GPU and no claim has less
_NOWHERE = Environment(name="")
_METADATA = (
    "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation "
    "labels managedFields name namespace ownerReferences resourceVersion selfLink uid"
)
_ANY: Any = (Any, None)
_OBJECT, _OBJECT_META = (
    create_model("Fields", __base__=schemas.BaseModel, **dict.fromkeys(fields.split(), _ANY))
    for fields in ("apiVersion kind metadata spec status", _METADATA)
)
# Reasons that refuse even an empty pool, until the deployment, the model or the environment is corrected.
_REFUSING_EMPTY_POOLS = (Refused.INVALID_DEPLOYMENT, Refused.INVALID_PROFILE, Refused.SHARED_STORAGE_MISSING)
_PARSERS: Mapping[str, Callable[[Manifest], Parsed[object]]] = {
    "ClusterModel": parse_model,
    "Model": parse_model,
    "InferenceEnvironment": lambda manifest: parse_environment(manifest, BUILT_IN),
    "ModelPlacement": parse_placement,
    "ModelDeployment": parse_deployment,
    "ModelCache": parse_model_cache,
    "ModelService": parse_model_service,
}


@dataclass(frozen=True, slots=True)
class Item:
    manifest: Manifest
    file: str = ""  # empty: the control plane
    node: yaml.Node | None = None  # the YAML of the manifest

    def find_line(self, path: str) -> int:
        """Returns the line of a field, or of the nearest block around it that exists; 0 where it is not known."""
        node = self.node
        line = node.start_mark.line + 1 if node else 0
        for bracketed, plain in _SEGMENT.findall(path):
            place, node = find_entry(node, bracketed or plain)
            line = place.start_mark.line + 1 if place else line
        return line


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of one object, or why a file cannot be read."""

    file: str  # empty: the control plane
    line: int = 0  # 0: not known
    ref: Ref = Ref("", "", "")  # empty: nothing could be read
    problem: Problem
    level: Level = "error"  # warning: it is allowed, and most likely not meant

    def __str__(self) -> str:
        level = paint(self.level, BAD if self.level == "error" else WAIT)
        place = format_place(self.file, self.line)
        ref = str(self.ref) if self.ref.kind else ""
        return ": ".join(filter(None, (level, place, ref, self.problem.path, self.problem.message)))


def format_place(file: str, line: int) -> str:
    """Returns a file and a line as errors show them; without a line where it is not known."""
    return f"{file}:{line}" if line else file


def find_code(faults: Iterable[Fault]) -> Code:
    errors = [fault for fault in faults if fault.level == "error"]
    return Code.OK if not errors else Code.REFUSED if all(fault.ref.kind for fault in errors) else Code.USAGE


def print_faults(faults: Iterable[Fault]) -> None:
    """Prints faults on standard error, the same only once a command, and ends the command unless all are warnings."""
    faults = list(faults)
    context = click.get_current_context(silent=True)
    printed = context.find_root().meta.setdefault(__name__, set()) if context else set[Fault]()
    for fault in faults:
        if fault not in printed and not (fault.level == "warning" and is_quiet()):
            click.echo(str(fault), err=True)
        printed.add(fault)
    if code := find_code(faults):
        raise click.exceptions.Exit(code)


def list_known(items: Iterable[Item | Fault], namespace: str) -> list[Item]:
    """Returns the objects that have a part in decisions, in a namespace where they name none."""
    known = (item for item in items if isinstance(item, Item) and is_known(item.manifest))
    return [replace(item, manifest=set_namespace(item.manifest, namespace or "default")) for item in known]


def check_items(items: Sequence[Item | Fault], store: Store, namespace: str) -> list[Fault]:
    """Returns every fault of files, and lays their objects over those of the store, which are the control plane's.

    The API server has accepted these: their own faults are warnings.
    """
    faults = [item for item in items if isinstance(item, Fault)]
    known = list_known(items, namespace)
    first_items: dict[Ref, Item] = {}

    def add(item: Item, problems: Iterable[Problem], level: Level = "error") -> None:
        ref = Ref.of(item.manifest)
        for problem in set(problems):
            line = item.find_line(problem.path)
            faults.append(Fault(file=item.file, line=line, ref=ref, problem=problem, level=level))

    for item in known:
        ref = Ref.of(item.manifest)
        first = first_items.setdefault(ref, item)
        if first is not item and ref.name:
            place = format_place(first.file, first.find_line("metadata.name"))
            add(item, [Problem("metadata.name", f"{ref} is given twice, in {place} too")])
        store.put(item.manifest)
    for item in known:
        problems = (*find_problems(item.manifest), *_read_settings(store, item.manifest)[1])
        add(item, (*problems, *_find_unresolved_references(store, item.manifest)))
        add(item, _find_warnings(store, item.manifest), "warning")
    for ref in store.keys() - first_items.keys():
        add(Item(store[ref]), find_problems(store[ref]), "warning")
    return sorted(faults, key=lambda fault: (fault.level, fault.file, fault.line, fault.ref, fault.problem))


def find_entry(node: yaml.Node | None, key: str) -> tuple[yaml.Node, yaml.Node] | tuple[None, None]:
    """Returns where an entry of a map or list starts, and the entry; of a list by number or by name."""
    if isinstance(node, yaml.MappingNode):
        return next(((name, value) for name, value in node.value if name.value == key), (None, None))
    for index, entry in enumerate(node.value if isinstance(node, yaml.SequenceNode) else ()):
        name = find_entry(entry, "name")[1]
        if key in (str(index), name.value if name else None):
            return entry, entry
    return None, None


def find_problems(manifest: Manifest) -> Iterator[Problem]:
    kind = text(manifest, "kind")
    yield from filter(None, _find_metadata_problems(manifest))
    if kind == CONFIG:
        context: Manifest = {ENVIRONMENT_KEY: mapping(manifest, "data")}
        yield from (Problem(f"data.{p.path}", p.message) for p in parse_settings({}, context).problems)
    if kind == "Composition":
        for index, step in enumerate(listing(manifest, "spec.pipeline")):
            input_ = mapping(step, "input")
            fields: Manifest = {k: v for k, v in input_.items() if k not in ("apiVersion", "kind", "metadata")}
            is_settings = text(input_, "apiVersion").startswith(INPUT_GROUP)
            for p in parse_settings(fields, {}).problems if is_settings else ():
                yield Problem(p.path.replace("input", f"spec.pipeline[{index}].input", 1), p.message)
    elif is_ours(manifest):
        yield from (Problem(p.path.lstrip("."), p.message) for p in find_unknown_fields(_OBJECT, manifest, ""))
        yield from find_unknown_fields(_OBJECT_META, manifest.get("metadata"), "metadata")
        unknown = find_unknown_fields(SPECS[kind], manifest.get("spec"), "spec")
        yield from (
            Problem(p.path, p.message + (_SCALING if p.path.startswith("spec.scaling.") else "")) for p in unknown
        )
        refused = _PARSERS[kind](manifest).problems
        paths = {p.path for p in refused}
        yield from refused
        yield from (p for p in find_duplicates(SPECS[kind], manifest.get("spec"), "spec") if p.path not in paths)
    elif has_misspelt_group(manifest):
        if text(manifest, "apiVersion") != VERSION:
            yield unknown_value("apiVersion", manifest.get("apiVersion"), (VERSION,))
        if kind not in COMPOSERS:
            yield unknown_value("kind", manifest.get("kind"), tuple(COMPOSERS))


def find_invalid_name(name: object, longest: int = _MAX_COMPOSITE_NAME) -> Problem | None:
    """Returns why an object cannot have a name, by default an object of this project's kinds; None if it can."""
    if name is None:
        return Problem("metadata.name", "is required")
    return _find_malformed("metadata.name", name, _NAME, "lower-case letters, digits, - and .", longest)


def _find_metadata_problems(manifest: Manifest) -> Iterator[Problem | None]:
    """Yields what the API server refuses in the metadata of an object, and labels that no node can have."""
    yield find_invalid_name(get(manifest, "metadata.name"), _MAX_COMPOSITE_NAME if is_ours(manifest) else _MAX_NAME)
    namespace = get(manifest, "metadata.namespace")
    if namespace not in (None, ""):
        allowed = "lower-case letters, digits and -"
        yield _find_malformed("metadata.namespace", namespace, _NAMESPACE, allowed, _MAX_LABEL)
    labels = get(manifest, "metadata.labels")
    if isinstance(labels, dict):
        yield from _find_invalid_labels(labels, "metadata.labels")
    elif labels is not None:
        yield invalid_value("metadata.labels", labels, "a map")
    annotations = get(manifest, "metadata.annotations") if is_ours(manifest) else None
    if isinstance(annotations, dict):
        others = ((key, value) for key, value in annotations.items() if not isinstance(value, str))
        yield from (invalid_value(f"metadata.annotations[{key}]", value, "text") for key, value in others)
    elif annotations is not None:
        yield invalid_value("metadata.annotations", annotations, "a map")
    for path in NODE_POOLS if is_ours(manifest) else ():
        for index, pool in enumerate(listing(manifest, path)):
            yield from _find_invalid_labels(strings(pool, "labels"), f"{path}[{index}].labels")


def _find_invalid_labels(labels: Mapping[str, object], path: str) -> Iterator[Problem | None]:
    return (find_invalid_label(key, value, f"{path}[{key}]") for key, value in labels.items())


def _find_malformed(path: str, value: object, form: re.Pattern[str], allowed: str, longest: int) -> Problem | None:
    if not isinstance(value, str):
        return invalid_value(path, value, "text")
    is_valid = len(value) <= longest and form.fullmatch(value)
    return None if is_valid else invalid_value(path, value, f"{allowed}, {longest} at most")


def _find_unresolved_references(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Returns every reference of an object that leads nowhere, or to an object that does not fit it."""
    check = _REFERENCE_CHECKS.get(text(manifest, "kind"))
    if check is None or not is_ours(manifest):
        return
    ref, _ = _find_model(store, manifest)
    if ref.name:
        yield from _check_model(store, ref, text(manifest, "metadata.namespace"))
    yield from check(store, manifest)


def _check_model(store: Store, ref: Ref, namespace: str) -> Iterator[Problem]:
    """Returns a problem where a model does not exist, also if only a model of the other kind has its name."""
    other_kind = "Model" if ref.kind == "ClusterModel" else "ClusterModel"
    other = Ref.resolve(other_kind, namespace, ref.name)
    if ref in store or other not in store:
        yield from _check_name(store, ref, "spec.modelRef.name")
        return
    remedy = "set kind: Model" if other_kind == "Model" else "leave out kind"
    yield Problem("spec.modelRef.kind", f"there is no {ref}, and {other} exists; {remedy}")


def _find_model(store: Store, manifest: Manifest) -> tuple[Ref, Model | None]:
    """Returns the reference to the model of an object, and the model where it is known and valid."""
    kind = text(manifest, "spec.modelRef.kind") or "ClusterModel"
    ref = Ref.resolve(kind, text(manifest, "metadata.namespace"), text(manifest, "spec.modelRef.name"))
    return ref, parse_model(store[ref]).value if ref in store else None


def _check_deployment(store: Store, manifest: Manifest) -> Iterator[Problem]:
    deployment = parse_deployment(manifest).value
    if deployment is None:
        return
    if isinstance(deployment.storage_choice, ModelCacheChoice):
        ref = Ref("ModelCache", deployment.namespace, deployment.storage_choice.name)
        yield from _check_name(store, ref, "spec.modelCache.name")
    service = store.get(Ref("ModelService", deployment.namespace, deployment.name))
    if deployment.composes_model_service and service and service not in store.owned(Ref.of(manifest)).values():
        yield refuse_foreign_service(deployment.name)
    request = _read_request(store, manifest)
    reasons = (Refused.INVALID_DEPLOYMENT, Refused.STORAGE_TOO_SMALL)
    environments = read_environments(store, _read_settings(store, manifest)[0])
    if request and (fault := find_unsatisfiable_storage(request, environments, reasons)):
        yield fault.problem


def _check_cache(store: Store, manifest: Manifest) -> Iterator[Problem]:
    cache = parse_model_cache(manifest).value
    _, model = _find_model(store, manifest)
    names = get(manifest, "spec.environments")
    for index, name in enumerate(names if isinstance(names, list) else []):
        yield from _check_name(store, Ref("InferenceEnvironment", "", str(name)), f"spec.environments[{index}]")
    if cache is None or model is None:
        return
    settings, _ = _read_settings(store, manifest)
    namespace = settings.remote_namespace(cache.namespace)
    for environment in filter(cache.selects, read_environments(store, settings)):
        yield from (fault.problem for fault in find_faults(build_cache_request(model, cache, environment, namespace)))


def _check_placement(store: Store, manifest: Manifest) -> Iterator[Problem]:
    placement = parse_placement(manifest).value
    model_ref, model = _find_model(store, manifest)
    ref = Ref("InferenceEnvironment", "", text(manifest, "spec.inferenceEnvironmentRef.name"))
    yield from _check_name(store, ref, "spec.inferenceEnvironmentRef.name")
    if placement is None:
        return
    profiles = [profile.name for profile in model.profiles] if model else []
    if model is not None and placement.profile not in ("", *profiles):
        message = f"{model_ref} has no valid profile {placement.profile}"
        yield Problem("spec.profile", _suggest_nearest(message, placement.profile, profiles))
    if ref not in store:
        return
    settings, _ = _read_settings(store, manifest)
    environment = parse_environment(store[ref], settings).value
    pool = environment.pool(placement.pool)
    if placement.pool and pool is None:
        message = f"{ref} has no pool {placement.pool}"
        yield Problem("spec.pool", _suggest_nearest(message, placement.pool, [p.name for p in environment.pools]))
    if model is not None and pool is not None and placement.shape is not None:
        storage_request = _request_storage(store, placement, model)
        faults = find_faults(storage_request.with_pool(environment, pool, placement.shape, placement.replicas))
        # As `plan` does, it assumes that a ModelCache will have the weights: until then the placement waits.
        yield from (fault.problem for fault in faults if fault.kind is not FaultKind.CACHE_PENDING)


def _check_service(store: Store, manifest: Manifest) -> Iterator[Problem]:
    namespace = text(manifest, "metadata.namespace")
    for index, backend in enumerate(listing(manifest, "spec.backends")):
        ref = Ref("ModelDeployment", namespace, text(backend, "deployment"))
        yield from _check_name(store, ref, f"spec.backends[{index}].deployment")
    for index, name in enumerate(list_texts(manifest, "spec.environments")):
        yield from _check_name(store, Ref("InferenceEnvironment", "", name), f"spec.environments[{index}]")


_REFERENCE_CHECKS = {
    "ModelDeployment": _check_deployment,
    "ModelCache": _check_cache,
    "ModelPlacement": _check_placement,
    "ModelService": _check_service,
}


def _check_name(store: Store, ref: Ref, path: str) -> Iterator[Problem]:
    """Returns a problem where an object does not exist although others of its kind are known."""
    others = store.refs(ref.kind)
    if others and ref not in others:
        known = [other.name for other in others if other.namespace == ref.namespace]
        elsewhere = [other.namespace for other in others if other.name == ref.name]
        hint = f"; the one in namespace {elsewhere[0]} is not for other namespaces" if elsewhere else ""
        yield Problem(path, _suggest_nearest(f"there is no {ref}{hint}", ref.name, known))


def _suggest_nearest(message: str, name: str, known: list[str]) -> str:
    close = find_nearest(name, known)
    return f"{message}; did you mean {close}?" if close else message


def _read_settings(store: Store, manifest: Manifest) -> tuple[Settings, list[Problem]]:
    """Returns the platform's settings for an object; the built-in ones, and why, where they cannot be found.

    Then Crossplane composes nothing for it, or commands cannot follow its Composition.
    """
    try:
        call = build_first_call(store, manifest)
    except CliError as error:
        return BUILT_IN, [Problem("", error.message)]
    return parse_settings(call.input, call.context).value, []


def _read_request(store: Store, manifest: Manifest) -> SchedulingRequest | None:
    """Returns what a deployment requests; None where it or its model is not known or invalid."""
    deployment = parse_deployment(manifest).value
    _, model = _find_model(store, manifest)
    if deployment is None or model is None:
        return None
    storage_request = _request_storage(store, deployment, model)
    return SchedulingRequest(
        deployment=deployment, model=model, storage_request=storage_request, serving_check=find_pool_problems
    )


def _request_storage(store: Store, user: Deployment | Placement, model: Model) -> WeightsRequest:
    name = user.storage_choice.name if isinstance(user.storage_choice, ModelCacheChoice) else ""
    cache = store.get(Ref("ModelCache", user.namespace, name))
    return WeightsRequest(
        model=model,
        choice=user.storage_choice,
        named_cache=parse_model_cache(cache).value if cache else None,
        namespace=user.namespace,
        owner=user.name,
    )


def _find_warnings(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Returns what is allowed and looks like a slip, or costs more than it seems."""
    if not is_ours(manifest):
        return
    yield from _find_missing_units(manifest.get("spec"), "spec")
    yield from _find_default_class(manifest)
    match text(manifest, "kind"):
        case "ModelDeployment":
            yield from _find_costs(store, manifest)
            for index, name in enumerate(list_texts(manifest, "spec.rollout.order")):
                yield from _check_name(store, Ref("InferenceEnvironment", "", name), f"spec.rollout.order[{index}]")
        case "ModelPlacement":
            yield from _find_obstacles(store, manifest)
        case "ClusterModel" | "Model":
            model = parse_model(manifest).value
            yield from (*list_notes(model), *_find_misfits(store, model)) if model else ()
        case "InferenceEnvironment":
            environment = parse_environment(manifest, BUILT_IN).value
            pools = environment.pools
            path = next((path for path in NODE_POOLS[1:] if get(manifest, path)), NODE_POOLS[0])
            has_none = not pools and not environment.broken_pools
            yield from (Problem(path, note) for note in ([NO_GPUS] if has_none else list_pool_notes(pools)))
            yield from find_contradictions(store, manifest)


def _find_missing_units(value: JSON, path: str) -> Iterator[Problem]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_missing_units(item, join_path(path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            is_number = str(item).isdecimal() and isinstance(item, int | str)
            if key in _SIZE_FIELDS and is_number and 0 < int(str(item)) < _SMALLEST_SIZE:
                yield Problem(join_path(path, key), f"{item} is a number of bytes; was {item}Gi meant?")
            else:
                yield from _find_missing_units(item, join_path(path, key))


def _find_obstacles(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Returns why a placement would wait in vain: for its labels, or for more than its pool holds when it is empty."""
    placement = parse_placement(manifest).value
    if placement is None:
        return
    if missing := dict(build_required_labels(placement, None).items() - set(placement.labels)):
        yield Problem("metadata.labels", describe_missing_labels(missing))
    ref = Ref("InferenceEnvironment", "", placement.environment)
    if placement.requested is None or ref not in store:
        return
    request = placement.requested
    pool = parse_environment(store[ref], BUILT_IN).value.pool(placement.pool)
    if pool is not None and count_in_empty_pool(pool, request) < request.replicas:
        size = format_replicas(request.replicas, request)
        yield Problem("spec.pool", f"{size} required, more than the empty pool {pool.name} of {ref.name} holds")


def _find_costs(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Returns storage settings of a deployment that are costly or have no effect on any environment it may go to."""
    scheduling = _read_request(store, manifest)
    if scheduling is None:
        return
    environments = read_environments(store, _read_settings(store, manifest)[0])
    if without_price := note_missing_prices(scheduling.deployment, environments):
        yield Problem("spec.placement.prefer", without_price)
    requests = [*_list_requests(scheduling, environments or (_NOWHERE,))]
    for request in requests:
        yield from find_remarks(request)
        if request.storage_type is StorageType.EMPTY_DIR:
            note = format_redownload_note(request.model.disk, scheduling.deployment.replicas)
            yield Problem("spec.modelCache", f"is EmptyDir: {note}")
        else:
            yield from note_costs(request)
    yield from _find_common_refusal(scheduling, environments)
    others = (ref for ref in store.refs("ModelDeployment") if ref.namespace == scheduling.deployment.namespace)
    sharing = filter(None, (_read_request(store, store[other]) for other in others))
    yield from _find_full_claims([scheduling, *sharing], environments)


def _find_common_refusal(request: SchedulingRequest, environments: Sequence[Environment]) -> Iterator[Problem]:
    """Warns if every pool that has what a profile requires is refused all the same, with the reason of the first."""
    refused = [
        next((refusal for refusal in refusals if refusal.reason in _REFUSING_EMPTY_POOLS), None)
        for environment in environments
        for candidate, refusals in filter_candidates(request, environment, CapacityView(()))
        if candidate and all(refusal.reason is not Refused.NO_POOL_SATISFIES_REQUIREMENTS for refusal in refusals)
    ]
    first = refused[0] if refused else None
    if first and all(refused) and find_unsatisfiable_storage(request, environments) is None:  # else it is an error
        message = first.message.rstrip(".")
        on_environment = f"InferenceEnvironment {first.environment}: {message}"
        yield Problem("spec.modelRef", f"{message}. {first.remedy}" if first.remedy else on_environment)


def _list_requests(request: SchedulingRequest, environments: Iterable[Environment]) -> Iterator[WeightsRequest]:
    """Returns the request for each pool that satisfies a profile; without pools those of profiles with a shape."""
    storage_request = request.storage_request
    replicas = request.deployment.replicas
    assert storage_request is not None
    for environment in environments:
        if not environment.pools:
            shapes = (profile.shape for profile in request.model.profiles)
            yield from (storage_request.with_pool(environment, NO_POOL, shape, replicas) for shape in shapes if shape)
        for candidate, refusals in filter_candidates(request, environment, CapacityView(())):
            is_refused = any(refusal.reason in REQUIREMENT_REASONS for refusal in refusals)
            if candidate and candidate.shape and not is_refused:
                yield storage_request.with_pool(environment, candidate.pool, candidate.shape, replicas)


def _find_full_claims(sharing: Sequence[SchedulingRequest], environments: Iterable[Environment]) -> Iterator[Problem]:
    """Returns the Shared claims that cannot hold the model of the first deployment and those of the others on them."""
    for environment in environments:
        storage = environment.storage
        disks = [_find_shared(each, environment) for each in sharing]
        known = dict(filter(None, disks))
        needed = sum(disk for _, disk in known.values())
        if disks[0] and len(known) > 1 and needed > storage.shared_size and storage.size_enforced:
            models = ", ".join(f"{name} {gib(disk)}" for name, disk in sorted(known.values()))
            claim = f"claim {storage.shared_claim} of InferenceEnvironment {environment.name}"
            room = f"{claim} has {gib(storage.shared_size)}, and the models that share it need {gib(needed)}"
            yield Problem("spec.modelRef", f"{room}: {models}")


def _find_shared(request: SchedulingRequest, environment: Environment) -> tuple[str, tuple[str, int]] | None:
    """Returns cache key, name and disk of a model that is kept on the Shared claim of an environment."""
    model = request.model
    if not model.disk or not isinstance(model.source, DownloadedSource):
        return None
    is_shared = any(each.storage_type is StorageType.SHARED for each in _list_requests(request, (environment,)))
    return (cache_key(model.source), (model.name, model.disk)) if is_shared else None


def _find_default_class(manifest: Manifest) -> Iterator[Problem]:
    """Yields a remark if a ReadWriteMany claim is left to the default class of the cluster."""
    path = "spec.modelCache" if text(manifest, "kind") == "ModelDeployment" else "spec.storage"
    storage = mapping(manifest, path)
    if storage.get("storageClassName") == "" and storage.get("accessMode") in (None, READ_WRITE_MANY):
        message = "leaves claims to the cluster's default class, and many of those cannot do ReadWriteMany; name one"
        yield Problem(f"{path}.storageClassName", f'"" {message}')


def _find_accelerator(required: str, offered: Iterable[str]) -> str:
    """Returns the accelerator that is meant: the only one with all words of the required type, else a similar one."""
    words = set(required.lower().replace("_", "-").split("-")) - {""}
    with_words = [name for name in sorted(set(offered)) if words and words <= set(name.lower().split("-"))]
    return with_words[0] if len(with_words) == 1 else find_nearest(required, offered)


def _find_misfits(store: Store, model: Model) -> Iterator[Problem]:
    """Returns what does not fit the model's own profiles, or what the known environments offer."""
    environments = read_environments(store)
    offered = {pool.accelerator_type for environment in environments for pool in environment.pools}
    for profile in model.profiles:
        required = profile.requires.accelerator_type or ""
        if required not in offered and (close := _find_accelerator(required, offered)):
            path = f"spec.serving[{profile.name}].replicaTopology.requires.acceleratorType"
            yield Problem(path, f"no pool has {required}; did you mean {close}?")
        shape = profile.shape
        memory = profile.requires.memory_per_gpu
        if model.vram and shape and memory and shape.gpus * memory < model.vram:
            total = f"{shape.gpus} x {gib(memory)} of profile {profile.name} are {gib(shape.gpus * memory)}"
            yield Problem("spec.resources.vram", f"is {gib(model.vram)}, and {total}")
    for environment in environments:
        storage = environment.storage
        if storage.is_shared and model.disk and model.disk > storage.shared_size:
            claim = f"the claim {storage.shared_claim} that all models share on InferenceEnvironment {environment.name}"
            yield Problem("spec.resources.disk", f"is {gib(model.disk)}, and {claim} has {gib(storage.shared_size)}")
