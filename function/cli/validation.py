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
    find_unknown_fields,
    invalid_value,
    not_text,
    unknown_value,
)
from function.api.settings import ENVIRONMENT_KEY, parse_settings
from function.api.values import find_invalid_label
from function.cli.composing import CONFIG, is_settings_step
from function.cli.object_warnings import find_ignored_namespace, find_warnings
from function.cli.options import Code, InvalidInput, is_quiet
from function.cli.references import (
    NODE_POOLS,
    check_name,
    find_model,
    find_priority_problems,
    read_request,
    read_settings,
    request_storage,
    suggest_nearest,
)
from function.cli.secret_references import find_secret_faults, is_secret
from function.cli.store import Ref, Store, has_misspelt_group, is_known, is_ours, read_environments, set_namespace
from function.cli.tables import BAD, WAIT, paint
from function.composers import COMPOSERS
from function.composers.model_deployment import refuse_foreign_service
from function.domain.cache import ModelCacheChoice
from function.domain.model import Problem
from function.domain.settings import BUILT_IN
from function.kube.manifests import Manifest, get, list_texts, listing, mapping, strings, text
from function.kube.names import VERSION
from function.reasons import Refused
from function.scheduling.scheduler import find_unsatisfiable_storage
from function.weights.faults import FaultKind, find_faults
from function.weights.request import build_cache_request

Level: TypeAlias = Literal["error", "warning"]
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL, re.ASCII)
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_MAX_NAME = 253
_MAX_LABEL = 63
_MAX_COMPOSITE_NAME = 63  # Crossplane sets it in the CRDs that it generates from XRDs
_SEGMENT = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")  # of `spec.pools[0]` or `metadata.labels[example.org/tier]`
_METADATA = (
    "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation "
    "labels managedFields name namespace ownerReferences resourceVersion selfLink uid"
)
_ANY: Any = (Any, None)
_OBJECT, _OBJECT_META = (
    create_model("Fields", __base__=schemas.BaseModel, **dict.fromkeys(fields.split(), _ANY))
    for fields in ("apiVersion kind metadata spec status", _METADATA)
)
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
        raise InvalidInput(code, [str(fault) for fault in faults if fault.level != "warning"])


def list_known(items: Iterable[Item | Fault], namespace: str) -> list[Item]:
    """Returns the objects that have a part in decisions, in a namespace where they name none."""
    known = (item for item in items if isinstance(item, Item) and is_known(item.manifest))
    return [replace(item, manifest=set_namespace(item.manifest, namespace or "default")) for item in known]


def _list_secrets(items: Iterable[Item | Fault], namespace: str) -> list[Manifest]:
    """Returns the Secrets of files, in a namespace where they name none."""
    found = (item.manifest for item in items if isinstance(item, Item) and is_secret(item.manifest))
    default: Manifest = {"namespace": namespace or "default"}
    return [{**secret, "metadata": {**default, **mapping(secret, "metadata")}} for secret in found]


def check_items(items: Sequence[Item | Fault], store: Store, namespace: str) -> list[Fault]:
    """Returns every fault of files, and lays their objects over those of the store, which are the control plane's.

    The API server has accepted these: their own faults are warnings.
    """
    faults = [item for item in items if isinstance(item, Fault)]
    known = list_known(items, namespace)
    secrets = _list_secrets(items, namespace)
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
    for each in items:
        if isinstance(each, Item) and (problem := find_ignored_namespace(each.manifest)):
            add(replace(each, manifest=set_namespace(each.manifest, "")), [problem], "warning")
    for item in known:
        settings, faults_of_settings = read_settings(store, item.manifest)
        problems = (*find_problems(item.manifest), *faults_of_settings)
        add(item, (*problems, *_find_unresolved_references(store, item.manifest)))
        add(item, find_secret_faults(item.manifest, settings, secrets), "warning")
        add(item, find_warnings(store, item.manifest), "warning")
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
            for p in parse_settings(fields, {}).problems if is_settings_step(step) else ():
                yield Problem(p.path.replace("input", f"spec.pipeline[{index}].input", 1), p.message)
    elif is_ours(manifest):
        yield from (Problem(p.path.lstrip("."), p.message) for p in find_unknown_fields(_OBJECT, manifest, ""))
        yield from find_unknown_fields(_OBJECT_META, manifest.get("metadata"), "metadata")
        yield from find_unknown_fields(SPECS[kind], manifest.get("spec"), "spec")
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
        yield from (not_text(f"metadata.annotations[{key}]", value) for key, value in others)
    elif annotations is not None:
        yield invalid_value("metadata.annotations", annotations, "a map")
    for path in NODE_POOLS if is_ours(manifest) else ():
        for index, pool in enumerate(listing(manifest, path)):
            yield from _find_invalid_labels(strings(pool, "labels"), f"{path}[{index}].labels")


def _find_invalid_labels(labels: Mapping[str, object], path: str) -> Iterator[Problem | None]:
    return (find_invalid_label(key, value, f"{path}[{key}]") for key, value in labels.items())


def _find_malformed(path: str, value: object, form: re.Pattern[str], allowed: str, longest: int) -> Problem | None:
    if not isinstance(value, str):
        return not_text(path, value)
    is_valid = len(value) <= longest and form.fullmatch(value)
    return None if is_valid else invalid_value(path, value, f"{allowed}, {longest} at most")


def _find_unresolved_references(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Returns every reference of an object that leads nowhere, or to an object that does not fit it."""
    check = _REFERENCE_CHECKS.get(text(manifest, "kind"))
    if check is None or not is_ours(manifest):
        return
    ref, _ = find_model(store, manifest)
    if ref.name:
        yield from _check_model(store, ref, text(manifest, "metadata.namespace"))
    yield from check(store, manifest)


def _check_model(store: Store, ref: Ref, namespace: str) -> Iterator[Problem]:
    """Returns a problem where a model does not exist, also if only a model of the other kind has its name."""
    other_kind = "Model" if ref.kind == "ClusterModel" else "ClusterModel"
    other = Ref.resolve(other_kind, namespace, ref.name)
    if ref in store or other not in store:
        yield from check_name(store, ref, "spec.modelRef.name")
        return
    remedy = "set kind: Model" if other_kind == "Model" else "leave out kind"
    yield Problem("spec.modelRef.kind", f"there is no {ref}, and {other} exists; {remedy}")


def _check_deployment(store: Store, manifest: Manifest) -> Iterator[Problem]:
    deployment = parse_deployment(manifest).value
    if deployment is None:
        return
    yield from find_priority_problems(store, manifest, deployment)
    if isinstance(deployment.storage_choice, ModelCacheChoice):
        ref = Ref("ModelCache", deployment.namespace, deployment.storage_choice.name)
        yield from check_name(store, ref, "spec.modelCache.name")
    service = store.get(Ref("ModelService", deployment.namespace, deployment.name))
    if deployment.composes_model_service and service and service not in store.owned(Ref.of(manifest)).values():
        yield refuse_foreign_service(deployment.name)
    request = read_request(store, manifest)
    reasons = (Refused.INVALID_DEPLOYMENT, Refused.STORAGE_TOO_SMALL)
    environments = read_environments(store, read_settings(store, manifest)[0])
    if request and (fault := find_unsatisfiable_storage(request, environments, reasons)):
        yield fault.problem


def _check_cache(store: Store, manifest: Manifest) -> Iterator[Problem]:
    cache = parse_model_cache(manifest).value
    _, model = find_model(store, manifest)
    names = get(manifest, "spec.environments")
    for index, name in enumerate(names if isinstance(names, list) else []):
        yield from check_name(store, Ref("InferenceEnvironment", "", str(name)), f"spec.environments[{index}]")
    if cache is None or model is None:
        return
    settings, _ = read_settings(store, manifest)
    namespace = settings.remote_namespace(cache.namespace)
    for environment in filter(cache.selects, read_environments(store, settings)):
        yield from (fault.problem for fault in find_faults(build_cache_request(model, cache, environment, namespace)))


def _check_placement(store: Store, manifest: Manifest) -> Iterator[Problem]:
    placement = parse_placement(manifest).value
    model_ref, model = find_model(store, manifest)
    ref = Ref("InferenceEnvironment", "", text(manifest, "spec.inferenceEnvironmentRef.name"))
    yield from check_name(store, ref, "spec.inferenceEnvironmentRef.name")
    if placement is None:
        return
    profiles = [profile.name for profile in model.profiles] if model else []
    if model is not None and placement.profile not in ("", *profiles):
        message = f"{model_ref} has no valid profile {placement.profile}"
        yield Problem("spec.profile", suggest_nearest(message, placement.profile, profiles))
    if ref not in store:
        return
    settings, _ = read_settings(store, manifest)
    environment = parse_environment(store[ref], settings).value
    pool = environment.pool(placement.pool)
    if placement.pool and pool is None:
        message = f"{ref} has no pool {placement.pool}"
        yield Problem("spec.pool", suggest_nearest(message, placement.pool, [p.name for p in environment.pools]))
    if model is not None and pool is not None and placement.shape is not None:
        storage_request = request_storage(store, placement, model)
        faults = find_faults(storage_request.with_pool(environment, pool, placement.shape, placement.replicas))
        # As `plan` does, it assumes that a ModelCache will have the weights: until then the placement waits.
        yield from (fault.problem for fault in faults if fault.kind is not FaultKind.CACHE_PENDING)


def _check_service(store: Store, manifest: Manifest) -> Iterator[Problem]:
    namespace = text(manifest, "metadata.namespace")
    for index, backend in enumerate(listing(manifest, "spec.backends")):
        ref = Ref("ModelDeployment", namespace, text(backend, "deployment"))
        yield from check_name(store, ref, f"spec.backends[{index}].deployment")
    for index, name in enumerate(list_texts(manifest, "spec.environments")):
        yield from check_name(store, Ref("InferenceEnvironment", "", name), f"spec.environments[{index}]")


_REFERENCE_CHECKS = {
    "ModelDeployment": _check_deployment,
    "ModelCache": _check_cache,
    "ModelPlacement": _check_placement,
    "ModelService": _check_service,
}
