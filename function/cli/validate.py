"""`validate`: finds what the API server would refuse, what it would drop in silence, and what refers to nothing.

The rules are those of the function's own parser, which checks all that the XRDs and their CEL rules say. A reference is
followed where an object of its kind is among the files, or with --live on the control plane; otherwise nothing can be
said about it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import click

from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.api.model_cache import parse_model_cache
from function.api.model_deployment import parse_deployment
from function.api.model_placement import parse_placement
from function.api.problems import SPECS, find_nearest, find_unknown_fields, join_path, unknown_value
from function.api.settings import ENVIRONMENT_KEY, parse_settings
from function.cli.composing import CONFIG, first_call
from function.cli.files import Found, read
from function.cli.inputs import KINDS, READ, gather
from function.cli.nodes import find_contradictions
from function.cli.options import FILES, CliError, Code, Form, Sources, Target, examples, form, target
from function.cli.store import CLUSTER_SCOPED, Ref, Store, is_known, is_ours, read_environments, set_namespaces
from function.cli.tables import BAD, GOOD, WAIT, paint, structured
from function.composers import COMPOSERS
from function.domain.cache import NamedCache
from function.domain.environment import Environment, StorageMode
from function.domain.model import Model, ModelRef, Problem
from function.domain.placement import Deployment, Placement
from function.domain.settings import BUILT_IN, Settings
from function.kube import quantity
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.kube.names import GROUP, VERSION
from function.kube.quantity import gib
from function.reasons import Refused
from function.scheduling.request import SchedulingRequest
from function.scheduling.schedule import NO_POOL, unsatisfiable_storage
from function.status.sentences import count
from function.status.weights import again
from function.weights.faults import find_faults
from function.weights.placed import PlacedWeights, cached_weights
from function.weights.request import Case


def find_dangling(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Return every reference of an object that leads nowhere, or to what does not go with it."""
    check = _CHECKS.get(text(manifest, "kind"))
    if check and is_ours(manifest):
        yield from _check_model(store, manifest)
        yield from check(store, manifest)


def _check_model(store: Store, manifest: Manifest) -> Iterator[Problem]:
    name = text(manifest, "spec.modelRef.name")
    ref = _make_model_ref(ModelRef(kind=text(manifest, "spec.modelRef.kind") or "ClusterModel", name=name), manifest)
    if name:
        yield from _check_name(store, ref, "spec.modelRef.name")


def _make_model_ref(ref: ModelRef, manifest: Manifest) -> Ref:
    namespace = "" if ref.kind in CLUSTER_SCOPED else text(manifest, "metadata.namespace")
    return Ref(ref.kind, namespace, ref.name)


def find_repeated_downloads(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Return what is no fault of an object and worth knowing."""
    of_ours = is_ours(manifest) and text(manifest, "kind") == "ModelDeployment"
    deployment = parse_deployment(manifest).value if of_ours else None
    model = _find_model(store, deployment.model, manifest) if deployment else None
    if deployment is None or model is None:
        return
    weights = _place_weights(store, deployment, model, BUILT_IN)
    for profile in model.profiles:
        if profile.shape and weights.on(Environment(name=""), NO_POOL, profile.shape, 1).case is Case.INITIALIZER:
            yield Problem("spec.modelCache", f"is EmptyDir with profile {profile.name}: {again(model.disk)}")


def _check_deployment(store: Store, manifest: Manifest) -> Iterator[Problem]:
    deployment = parse_deployment(manifest).value
    if deployment is None:
        return
    if isinstance(deployment.cache, NamedCache):
        ref = Ref("ModelCache", deployment.namespace, deployment.cache.name)
        yield from _check_name(store, ref, "spec.modelCache.name")
    model = _find_model(store, deployment.model, manifest)
    if model is None:
        return
    settings = _read_settings(store, manifest)
    weights = _place_weights(store, deployment, model, settings)
    request = SchedulingRequest(deployment=deployment, model=model, storage_check=weights)
    fault = unsatisfiable_storage(
        request, read_environments(store, settings), (Refused.INVALID_DEPLOYMENT, Refused.STORAGE_TOO_SMALL)
    )
    if fault is not None:
        yield fault.problem


def _find_model(store: Store, ref: ModelRef, manifest: Manifest) -> Model | None:
    found = store.get(_make_model_ref(ref, manifest))
    return parse_model(found).value if found else None


def _check_cache(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Return what the planner would say on the environments that are named and known."""
    cache = parse_model_cache(manifest).value
    names = get(manifest, "spec.environments")
    for index, name in enumerate(names if isinstance(names, list) else []):
        yield from _check_name(store, Ref("InferenceEnvironment", "", str(name)), f"spec.environments[{index}]")
    model = _find_model(store, cache.model, manifest) if cache else None
    if cache is None or model is None:
        return
    settings = _read_settings(store, manifest)
    for environment in read_environments(store, settings):
        if cache.selects(environment):
            faults = find_faults(cached_weights(model, cache, environment, settings))
            yield from (fault.problem for fault in faults)


def _check_placement(store: Store, manifest: Manifest) -> Iterator[Problem]:
    name = text(manifest, "spec.inferenceEnvironmentRef.name")
    yield from _check_name(store, Ref("InferenceEnvironment", "", name), "spec.inferenceEnvironmentRef.name")
    settings = _read_settings(store, manifest)
    environment = next((e for e in read_environments(store, settings) if e.name == name), None)
    placement = parse_placement(manifest).value
    if environment is None or placement is None:
        return
    pool = environment.pool(placement.pool)
    if placement.pool and pool is None:
        known = [pool.name for pool in environment.pools]
        message = f"InferenceEnvironment {name} has no pool {placement.pool}"
        yield Problem("spec.pool", _suggest_nearest(message, placement.pool, known))
    model = _find_model(store, placement.model, manifest)
    if model is None or pool is None or placement.shape is None:
        return
    weights = _place_weights(store, placement, model, settings)
    faults = weights(environment, pool, placement.shape, placement.replicas)
    yield from (fault.problem for fault in faults)


_CHECKS: Mapping[str, Callable[[Store, Manifest], Iterator[Problem]]] = {
    "ModelDeployment": _check_deployment,
    "ModelCache": _check_cache,
    "ModelPlacement": _check_placement,
}


def _read_settings(store: Store, manifest: Manifest) -> Settings:
    """Return what the platform's settings are for an object, as far as they are known."""
    try:
        call = first_call(store, manifest)
    except CliError:
        return BUILT_IN
    return parse_settings(call.input, call.context).value


def _place_weights(store: Store, of: Deployment | Placement, model: Model, settings: Settings) -> PlacedWeights:
    cache = store.get(Ref("ModelCache", of.namespace, of.cache.name)) if isinstance(of.cache, NamedCache) else None
    return PlacedWeights(
        model=model,
        choice=of.cache,
        cache=parse_model_cache(cache).value if cache else None,
        settings=settings,
        namespace=of.namespace,
        owner=of.name,
    )


def _check_name(store: Store, ref: Ref, path: str) -> Iterator[Problem]:
    """Return a problem where an object does not exist although others of its kind are known."""
    others = store.refs(ref.kind)
    if others and ref not in others:
        near = [other.name for other in others if other.namespace == ref.namespace]
        yield Problem(path, _suggest_nearest(f"there is no {ref}", ref.name, near))


def _suggest_nearest(message: str, name: str, known: list[str]) -> str:
    close = find_nearest(name, known)
    return f"{message}; did you mean {close}?" if close else message


_MEMORY = frozenset({"memoryPerGpu", "vram", "disk", "size", "shm"})
# Nobody has a GPU or a claim of less.
_LEAST = 2**20


def find_cautions(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Return everything about an object that is allowed and looks like a slip, or costs more than it seems."""
    if not is_ours(manifest):
        return
    yield from _find_bytes(manifest.get("spec"), "spec")
    yield from find_repeated_downloads(store, manifest)
    match text(manifest, "kind"):
        case "ClusterModel" | "Model":
            model = parse_model(manifest).value
            yield from _find_beyond_gpus(model) if model else ()
            yield from _find_beyond_shared_claims(store, model) if model else ()
        case "InferenceEnvironment":
            yield from _find_unlabelled(manifest)


def _find_bytes(value: JSON, path: str) -> Iterator[Problem]:
    """Find sizes that are so many bytes: the unit was forgotten."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_bytes(item, join_path(path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _MEMORY and isinstance(item, int | str) and _is_tiny(item):
                yield Problem(join_path(path, key), f"{item} is so many bytes; was {item}Gi meant?")
            else:
                yield from _find_bytes(item, join_path(path, key))


def _is_tiny(value: int | str) -> bool:
    if isinstance(value, bool) or not str(value).isdecimal():
        return False
    return 0 < quantity.parse(value) < _LEAST


def _find_beyond_gpus(model: Model) -> Iterator[Problem]:
    said, needed = ("vram", model.vram) if model.vram else ("disk", model.disk)
    for profile in model.profiles:
        shape, memory = profile.shape, profile.requires.memory_per_gpu
        if needed and shape and memory and shape.gpus * memory < needed:
            has = f"{shape.gpus} x {gib(memory)} of profile {profile.name} are {gib(shape.gpus * memory)}"
            yield Problem(f"spec.resources.{said}", f"is {gib(needed)}, and {has}: the weights may not fit its GPUs")


def _find_beyond_shared_claims(store: Store, model: Model) -> Iterator[Problem]:
    for environment in read_environments(store):
        storage = environment.storage
        if storage and storage.mode is StorageMode.SHARED and model.disk and model.disk > storage.shared_size:
            claim = f"the claim {storage.shared_claim} that all models share on InferenceEnvironment {environment.name}"
            yield Problem("spec.resources.disk", f"is {gib(model.disk)}, and {claim} has {gib(storage.shared_size)}")


def _find_unlabelled(manifest: Manifest) -> Iterator[Problem]:
    read = parse_environment(manifest, BUILT_IN).value
    names = {pool.name for pool in read.pools if not pool.labels}
    if len(read.pools) < 2:  # the GPUs alone say which nodes
        return
    for index, pool in enumerate(listing(manifest, "spec.nodePools")):
        if text(pool, "name") in names and not get(pool, "labels"):
            path = join_path(join_path("spec.nodePools", index), "labels")
            yield Problem(path, "are not set, and other pools have GPUs too: its pods may land on their nodes")


_INPUT = "modelplane.fn.crossplane.io/"
# A DNS subdomain, as the API server wants every name to be.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LONGEST = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of one object in one file; `caution`: it is allowed, and most likely not meant."""

    file: str
    ref: Ref
    problem: Problem
    caution: bool = False


@click.command(
    epilog=examples(
        "modelplane validate examples/",
        "modelplane validate deployment.yaml --live",
        "cat model.yaml | modelplane validate - -o json",
    )
)
@click.argument("paths", metavar="FILE...", nargs=-1, type=click.Path())
@FILES
@click.option(
    "--live", is_flag=True, help="Follow references to the control plane as well, and compare pools with nodes."
)
@target
@click.option("--strict", is_flag=True, help="Exit 1 for a warning, too.")
@form(Form.TABLE, Form.JSON, Form.YAML)
@click.pass_context
def validate(  # noqa: PLR0913  # click's options
    context: click.Context,
    /,
    paths: tuple[str, ...],
    *,
    files: tuple[str, ...],
    live: bool,
    target: Target,
    strict: bool,
    form: Form,
) -> None:
    """Check files: fields, rules across fields, references. Exits 1 where there is a fault.

    What is allowed and most likely not meant is a warning: memory without its unit, weights that the GPUs may not hold.

    Objects of other groups are passed over. FILE is a file, a folder or - for standard input.
    """
    if not paths and not files:
        raise click.UsageError("Missing FILE")
    found = [item for item in read((*paths, *files)) if is_known(item.manifest)]
    store = gather(Sources(live=True, target=target), (*KINDS, "Object")).store if live else Store()
    told = check_manifests(found, store, target.namespace or "default")
    if form is Form.TABLE:
        _print_faults(found, told)
    else:
        click.echo(structured(form, [_build_data(fault) for fault in told]))
    if any(strict or not fault.caution for fault in told):
        context.exit(Code.REFUSED)


def check_manifests(found: list[Found], store: Store, namespace: str) -> list[Fault]:
    """Return every fault, file by file; the objects are laid over those of the store."""
    ours = [Found(m, item.file) for item in found for m in set_namespaces([item.manifest], namespace)]
    seen: dict[Ref, str] = {}
    wrong: list[Fault] = []
    for item in ours:
        ref = Ref.of(item.manifest)
        if ref in seen:
            twice = Problem("metadata.name", f"{ref} is given twice, in {seen[ref]} too")
            wrong.append(_build_fault(item, twice))
        seen[ref] = item.file
        store.put(item.manifest)
    for item in ours:
        problems = sorted({*_find_problems(item.manifest), *find_dangling(store, item.manifest)})
        wrong += (_build_fault(item, problem) for problem in problems)
        doubts = sorted({*find_cautions(store, item.manifest), *find_contradictions(store, item.manifest)})
        wrong += (_build_fault(item, problem, caution=True) for problem in doubts)
    return sorted(wrong, key=lambda fault: (fault.caution, fault.file, fault.ref, fault.problem))


def _build_fault(item: Found, problem: Problem, *, caution: bool = False) -> Fault:
    return Fault(file=item.file, ref=Ref.of(item.manifest), problem=problem, caution=caution)


def _find_problems(manifest: Manifest) -> Iterator[Problem]:
    name = text(manifest, "metadata.name")
    if len(name) > _LONGEST or _NAME.fullmatch(name) is None:
        allowed = f"must be lower-case letters, digits, - and ., {_LONGEST} at most"
        yield Problem("metadata.name", f"{json.dumps(name)} is not allowed; {allowed}")
    if text(manifest, "kind") == CONFIG:
        context: Manifest = {ENVIRONMENT_KEY: mapping(manifest, "data")}
        yield from (Problem(f"data.{p.path}", p.message) for p in parse_settings({}, context).problems)
    if text(manifest, "kind") == "Composition":
        yield from _check_composition(manifest)
    elif is_ours(manifest):
        yield from find_unknown_fields(SPECS[text(manifest, "kind")], manifest.get("spec"), "spec")
        yield from READ[text(manifest, "kind")](manifest).problems
    elif text(manifest, "apiVersion").startswith(f"{GROUP}/"):
        if text(manifest, "apiVersion") != VERSION:
            yield unknown_value("apiVersion", manifest.get("apiVersion"), (VERSION,))
        if text(manifest, "kind") not in COMPOSERS:
            yield unknown_value("kind", manifest.get("kind"), tuple(COMPOSERS))


def _check_composition(manifest: Manifest) -> Iterator[Problem]:
    """Return what is wrong with the function's input in a Composition."""
    for index, step in enumerate(listing(manifest, "spec.pipeline")):
        input_ = mapping(step, "input")
        if not text(input_, "apiVersion").startswith(_INPUT):
            continue
        path = join_path(join_path("spec.pipeline", index), "input")
        fields: Manifest = {k: v for k, v in input_.items() if k not in ("apiVersion", "kind", "metadata")}
        yield from (Problem(p.path.replace("input", path, 1), p.message) for p in parse_settings(fields, {}).problems)


def _print_faults(found: list[Found], told: list[Fault]) -> None:
    for fault in told:
        path = paint(fault.problem.path, WAIT if fault.caution else BAD)
        level = "warning: " if fault.caution else ""
        click.echo(f"{level}{fault.file}: {fault.ref}: {path}: {fault.problem.message}")
    wrong, doubts = ([f for f in told if f.caution is caution] for caution in (False, True))
    objects = count(len(found), "object")
    summary = f"{count(len(wrong), 'fault')} in {objects}" if wrong else f"{objects} {paint('valid', GOOD)}"
    click.echo(("\n" if told else "") + summary + (f", {count(len(doubts), 'warning')}" if doubts else ""))


def _build_data(fault: Fault) -> Manifest:
    return {
        "file": fault.file,
        "kind": fault.ref.kind,
        "namespace": fault.ref.namespace,
        "name": fault.ref.name,
        "path": fault.problem.path,
        "message": fault.problem.message,
        "level": "warning" if fault.caution else "error",
    }
