"""Reads files, a live control plane, or both, into one store of objects, and names what is wrong with them.

Files are applied over what is live. An environment from a file without a status counts as Ready, since its author asks
where deployments would go once everything is up; --strict takes every status as it is.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import groupby

import click
import yaml

from function.api.cluster_model import parse_model
from function.api.inference_environment import parse_environment
from function.api.model_cache import parse_model_cache
from function.api.model_deployment import parse_deployment
from function.api.model_placement import parse_placement
from function.api.problems import SPECS, Parsed, find_nearest, find_unknown_fields
from function.cli import files
from function.cli.composing import CONFIG, asks_for_configs
from function.cli.live import Cluster, connect
from function.cli.options import CliError, Code, Sources
from function.cli.store import Ref, Store, adopt_placements, is_known, is_ours, set_namespaces
from function.composers import COMPOSERS
from function.domain.environment import Environment
from function.domain.model import Problem
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, copy_manifest, listing, mapping, text

_SET = re.compile(r"([^/=]+)/([^./=]+)\.([A-Za-z0-9.]+)=(.*)")


def set_values(store: Store, values: Iterable[str]) -> frozenset[Ref]:
    """Change values of pools, each as ENVIRONMENT/POOL.FIELD=VALUE with YAML as its value; return the environments."""
    changed = set[Ref]()
    for each in values:
        found = _SET.fullmatch(each)
        if found is None:
            raise CliError(f"--set {each} is not ENVIRONMENT/POOL.FIELD=VALUE, such as us-east/h100.maxNodeCount=8")
        environment, pool, field, value = found.groups()
        ref = Ref("InferenceEnvironment", "", environment)
        manifest = store.get(ref)
        if manifest is None:
            raise _refuse_value(each, str(ref), environment, [other.name for other in store.refs(ref.kind)])
        pools = [text(item, "name") for item in listing(manifest, "spec.nodePools")]
        if pool not in pools:
            raise _refuse_value(each, f"pool {pool} of {ref}", pool, pools)
        try:
            parsed: JSON = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise CliError(f"--set {each}: {value} is not YAML") from error
        edited = copy_manifest(manifest)
        (target,) = (item for item in listing(edited, "spec.nodePools") if text(item, "name") == pool)
        *path, last = field.split(".")
        for key in path:
            inner = mapping(target, key)
            target[key] = inner
            target = inner
        if parsed is None:
            target.pop(last, None)
        else:
            target[last] = parsed
        _check_fields(each, manifest, edited)
        store.put(edited)
        changed.add(ref)
    return frozenset(changed)


def _refuse_value(said: str, what: str, name: str, known: Sequence[str]) -> CliError:
    close = find_nearest(name, known)
    advice = f"Did you mean {close}?" if close else f"There are {', '.join(known) or 'none'}"
    return CliError(f"--set {said}: there is no {what}. {advice}", Code.NOT_FOUND)


def _check_fields(said: str, before: Manifest, after: Manifest) -> None:
    unknown = [
        set(find_unknown_fields(SPECS["InferenceEnvironment"], mapping(m, "spec"), "spec")) for m in (before, after)
    ]
    for problem in sorted(unknown[1] - unknown[0]):
        raise CliError(f"--set {said}: {problem}")


_POOL = re.compile(r"(.*\.nodePools\[[0-9]+\])")


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidPool:
    """A pool with all of its faults; one that has no name is called by its path."""

    environment: Environment
    name: str
    faults: tuple[Problem, ...]

    @property
    def message(self) -> str:
        """Everything that is wrong with it."""
        return "; ".join(map(str, self.faults))


def find_invalid_pools(store: Store, environments: Iterable[Environment]) -> list[InvalidPool]:
    """Return the invalid pools of some environments, in their order."""
    found: list[InvalidPool] = []
    for environment in (e for e in environments if e.broken_pools):
        parsed = parse_environment(store[Ref("InferenceEnvironment", "", environment.name)], BUILT_IN)
        # As they stand in the manifest, which is how the names are listed, too.
        by_pool = [(path, tuple(sorted(faults))) for path, faults in groupby(parsed.pool_problems, key=_pool_path)]
        found += (
            InvalidPool(environment=environment, name=name or path, faults=faults)
            for name, (path, faults) in zip(environment.broken_pools, by_pool, strict=True)
        )
    return found


def _pool_path(problem: Problem) -> str:
    return _POOL.split(problem.path)[1]


READ: Mapping[str, Callable[[Manifest], Parsed[object]]] = {
    "ClusterModel": parse_model,
    "Model": parse_model,
    "InferenceEnvironment": lambda manifest: parse_environment(manifest, BUILT_IN),
    "ModelPlacement": parse_placement,
    "ModelDeployment": parse_deployment,
    "ModelCache": parse_model_cache,
}


def warn_of_invalid(store: Store, kinds: Iterable[str]) -> None:
    """Name objects of some kinds that have faults, and pools that are left out, on standard error."""
    for kind in kinds:
        found = _find_invalid_environments(store) if kind == "InferenceEnvironment" else _find_invalid(store, kind)
        for what, faults in found:
            click.echo(f"warning: {what}: {faults}", err=True)


def _find_invalid(store: Store, kind: str) -> Iterator[tuple[str, str]]:
    for manifest in store.all(kind):
        problems = READ[kind](manifest).problems
        if problems:
            yield str(Ref.of(manifest)), "; ".join(map(str, problems))


def _find_invalid_environments(store: Store) -> Iterator[tuple[str, str]]:
    for manifest in store.all("InferenceEnvironment"):
        read = parse_environment(manifest, BUILT_IN)
        if read.other_problems:
            yield str(Ref.of(manifest)), "; ".join(map(str, read.other_problems))
        for pool in find_invalid_pools(store, [read.value]):
            yield f"pool {pool.name} of {Ref.of(manifest)} is left out", pool.message


KINDS = tuple(COMPOSERS)
_READY: Manifest = {"conditions": [{"type": "Ready", "status": "True", "reason": "Assumed"}]}


@dataclass(slots=True)
class World:
    """Everything that was read.

    `given`: the composites in the files of -f. `namespace` empty: all are in scope. `chosen` False: the namespace is
    only the context's own, which does not exclude files. `edited`: environments whose spec may differ from the one for
    which they published their ledger. `before`: the world without the values of --set, None where there are none.
    """

    store: Store
    namespace: str
    given: frozenset[Ref] = frozenset()
    chosen: bool = False
    before: "World | None" = None
    edited: frozenset[Ref] = frozenset()

    def deployments(self, names: Sequence[str] = ()) -> list[Ref]:
        """Return the deployments that are meant: those named, else those in files, else all that are in scope."""
        every = self.store.refs("ModelDeployment")
        if names:
            return [self._named(name, every) for name in names]
        scope = [ref for ref in every if self.in_scope(ref)]
        found = [ref for ref in scope if ref in self.given] or scope
        if not found:
            where = f" in namespace {self.namespace} (-A looks everywhere)" if self.namespace else ""
            raise CliError(f"there is no ModelDeployment{where}. Give one with -f", Code.NOT_FOUND)
        return found

    def deployment(self, name: str | None) -> Ref:
        """Return the deployment of a name; where there is but one, it needs none."""
        if name:
            return self._named(name, self.store.refs("ModelDeployment"))
        found = self.deployments()
        if len(found) > 1:
            raise CliError(f"which ModelDeployment? There are {', '.join(f'{r.namespace}/{r.name}' for r in found)}")
        return found[0]

    def _named(self, name: str, every: Iterable[Ref]) -> Ref:
        scope = [ref for ref in every if self.in_scope(ref)]
        found = [ref for ref in scope if ref.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            spaces = ", ".join(ref.namespace for ref in found)
            raise CliError(f"ModelDeployment {name} is in the namespaces {spaces}. Choose one with -n")
        close = get_close_matches(name, [ref.name for ref in scope], n=1)
        hint = f" Did you mean {close[0]}?" if close else " Look for it with -n NAMESPACE or -A"
        where = f" in namespace {self.namespace}" if self.namespace else ""
        raise CliError(f"there is no ModelDeployment {name}{where}.{hint}", Code.NOT_FOUND)

    def in_scope(self, ref: Ref) -> bool:
        """Tell whether an object is of the namespace that is meant, or of none."""
        meant = not ref.namespace or self.namespace in ("", ref.namespace)
        return meant or (ref in self.given and not self.chosen)


def gather(sources: Sources, kinds: Sequence[str] = KINDS, *, within: bool = False) -> World:
    """Read what was asked for; `within`: of the one namespace that is in scope, and no settings."""
    target, store = sources.target, Store()
    # Without a control plane there is no namespace that is the caller's own.
    namespace = target.namespace or ""
    if sources.connects:
        cluster = connect(target)
        namespace = cluster.namespace
        narrow = namespace if within and not target.everywhere else ""
        for manifest in (*cluster.objects(kinds, narrow), *([] if within else _read_settings(cluster))):
            store.put(manifest)
    given = _lay_over(store, sources.files, namespace or "default")
    if not sources.strict:
        _mark_ready(store, given)
    adopt_placements(store, given)
    scope = "" if target.everywhere else namespace
    world = World(store, scope, given, chosen=bool(target.namespace), edited=_select_environments(given))
    if sources.sets:
        world.before = replace(world, store=Store(store.values()))
        world.edited |= set_values(store, sources.sets)
    return world


def _select_environments(refs: Iterable[Ref]) -> frozenset[Ref]:
    return frozenset(ref for ref in refs if ref.kind == "InferenceEnvironment")


def _read_settings(cluster: Cluster) -> list[Manifest]:
    """Return what sets the function's input; who may not read all of it is told that the built-in settings count."""
    try:
        compositions = cluster.objects(["Composition"])
        asked = any(asks_for_configs(step) for c in compositions for step in listing(c, "spec.pipeline"))
        return [*compositions, *(cluster.objects([CONFIG]) if asked else [])]
    except CliError as error:
        if error.code != Code.NOT_FOUND:
            click.echo(f"warning: {error.message}; the built-in settings are assumed", err=True)
        return []


def _lay_over(store: Store, paths: Sequence[str], namespace: str) -> frozenset[Ref]:
    """Apply manifests from files over what is there, and return which composites they are."""
    manifests = [found.manifest for found in files.read(paths) if is_known(found.manifest)]
    laid = list(set_namespaces(manifests, namespace))
    for manifest in laid:
        store.lay_over(manifest)
    return frozenset(Ref.of(manifest) for manifest in laid if is_ours(manifest))


def _mark_ready(store: Store, refs: Iterable[Ref]) -> None:
    for ref in refs:
        environment = store.get(ref) if ref.kind == "InferenceEnvironment" else None
        if environment is not None and not environment.get("status"):
            store.put({**environment, "status": _READY})
