"""Reads files, a live control plane, or both, into one store of objects.

Files are applied over what is live. An environment from a file without a status counts as Ready, since its author asks
where deployments would go once everything is up; --strict takes every status as it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

import click

from function.cli import files
from function.cli.asked import Sources
from function.cli.composition import CONFIG, asks_for_configs
from function.cli.errors import CliError, Code
from function.cli.live import Cluster, connect
from function.cli.overlay import set_values
from function.cli.store import Ref, Store, adopt, is_known, is_ours, namespaced
from function.composers import COMPOSERS
from function.kube.manifests import Manifest, listing

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
        for manifest in (*cluster.objects(kinds, narrow), *([] if within else _settings(cluster))):
            store.put(manifest)
    given = _lay_over(store, sources.files, namespace or "default")
    if not sources.strict:
        _assume_ready(store, given)
    adopt(store, given)
    scope = "" if target.everywhere else namespace
    world = World(store, scope, given, chosen=bool(target.namespace), edited=_environments(given))
    if sources.sets:
        world.before = replace(world, store=Store(store.values()))
        world.edited |= set_values(store, sources.sets)
    return world


def _environments(refs: Iterable[Ref]) -> frozenset[Ref]:
    return frozenset(ref for ref in refs if ref.kind == "InferenceEnvironment")


def _settings(cluster: Cluster) -> list[Manifest]:
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
    laid = list(namespaced(manifests, namespace))
    for manifest in laid:
        store.lay_over(manifest)
    return frozenset(Ref.of(manifest) for manifest in laid if is_ours(manifest))


def _assume_ready(store: Store, refs: Iterable[Ref]) -> None:
    for ref in refs:
        environment = store.get(ref) if ref.kind == "InferenceEnvironment" else None
        if environment is not None and not environment.get("status"):
            store.put({**environment, "status": _READY})
