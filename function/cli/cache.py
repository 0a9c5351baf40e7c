"""`cache`: lists ModelCaches over all environments, and preloads and clears them: the only commands that write."""

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import click

from function.api.model_cache import parse_model_cache
from function.api.problems import find_nearest
from function.cli.inputs import load_inventory
from function.cli.live import Cluster, connect
from function.cli.options import (
    EVERY_FORM,
    WATCH,
    CliError,
    Code,
    Form,
    Sources,
    Target,
    examples,
    form,
    sources,
    target,
)
from function.cli.purge import plan_removals
from function.cli.store import CLUSTER_SCOPED, Ref, Store
from function.cli.tables import BAD, GOOD, WAIT, age, hint, paint, show, structured, table
from function.kube.manifests import JSON, Manifest, condition, get, integer, listing, prune, text
from function.kube.names import VERSION
from function.reasons import ConditionType, Hydrated, ModelResolved, Phase, Status


def find_users(store: Store, cache: Ref, *, bytes_too: bool) -> list[str]:
    """Return what uses a ModelCache; deployments that are not placed yet count."""
    found = set(_find_named_by(store, cache))
    if bytes_too:
        found |= set(_find_sharing(store, cache))
    return sorted(found)


def _find_named_by(store: Store, cache: Ref) -> Iterator[str]:
    for manifest in (*store.all("ModelDeployment"), *store.all("ModelPlacement")):
        named = text(manifest, "spec.modelCache.name") == cache.name
        if named and text(manifest, "metadata.namespace") == cache.namespace:
            yield _name_user(manifest, cache)
    used = get(store.get(cache), "status.usedBy")
    yield from (f"ModelDeployment {cache.namespace}/{name}" for name in (used if isinstance(used, list) else []))


def _find_sharing(store: Store, cache: Ref) -> Iterator[str]:
    """Return who else has its weights in a directory that the cache filled."""
    places = set(_list_places(store.get(cache)))
    for manifest in store.all("ModelPlacement"):
        here = text(manifest, "spec.inferenceEnvironmentRef.name")
        stored = (here, text(manifest, "status.storage.claimName"), text(manifest, "status.storage.path"))
        if stored in places and text(manifest, "metadata.namespace") == cache.namespace:
            yield _name_user(manifest, cache)
    for manifest in store.all("ModelCache"):
        other = Ref.of(manifest)
        if other != cache and other.namespace == cache.namespace and places.intersection(_list_places(manifest)):
            yield str(other)


def _list_places(cache: Manifest | None) -> Iterator[tuple[str, str, str]]:
    for entry in listing(cache, "status.environments"):
        if text(entry, "claimName"):
            yield text(entry, "name"), text(entry, "claimName"), text(entry, "path")


def _name_user(manifest: Manifest, cache: Ref) -> str:
    deployment = text(manifest, "spec.deploymentRef.name")
    return f"ModelDeployment {cache.namespace}/{deployment}" if deployment else str(Ref.of(manifest))


_SECONDS = 2
_HOPELESS = {
    Hydrated.DOWNLOAD_FAILED,
    Hydrated.CLAIM_NOT_FOUND,
    Hydrated.NO_ENVIRONMENT_MATCHES,
    Hydrated.INVALID_CACHE,
    ModelResolved.MODEL_NOT_FOUND,
    ModelResolved.MODEL_INVALID,
}


def wait_for(cluster: Cluster, ref: Ref, timeout: int) -> None:
    """Wait until every environment has the weights; may be interrupted, the download goes on."""
    deadline = time.monotonic() + timeout
    shown = ""
    while True:
        cache = cluster.get(ref)
        if cache is None:
            raise CliError(f"{ref} was deleted meanwhile", Code.NOT_FOUND)
        found = condition(cache, ConditionType.HYDRATED)
        current = _is_current(cache)
        shown = _show_progress(cache, text(found, "message") if current else "", shown)
        if current and found.get("status") == Status.TRUE:
            click.echo("", err=True, nl=sys.stderr.isatty())
            return
        if current and text(found, "reason") in _HOPELESS:
            raise CliError(f"{text(found, 'message')}. Then set another value of spec.retry", Code.REFUSED)
        if time.monotonic() > deadline:
            raise CliError(
                f"{ref} is not complete after {timeout} seconds; it goes on. Watch 'cache list'", Code.REFUSED
            )
        time.sleep(_SECONDS)


def _is_current(cache: Manifest) -> bool:
    """Tell whether the controller has seen the latest change; Crossplane says so on its own conditions at least."""
    generation = get(cache, "metadata.generation")
    conditions = (condition(cache, name) for name in (ConditionType.HYDRATED, "Synced", "Ready"))
    seen = next((c["observedGeneration"] for c in conditions if "observedGeneration" in c), generation)
    return seen == generation


def _show_progress(cache: Manifest, message: str, before: str) -> str:
    """Show how far it is, and return what was shown."""
    ready, desired = integer(cache, "status.ready"), integer(cache, "status.desired")
    if not sys.stderr.isatty():
        if message != before:
            click.echo(message, err=True)
        return message
    width = 30
    full = width * ready // desired if desired else 0
    click.echo(f"\r\033[K[{'#' * full}{'-' * (width - full)}] {ready}/{desired} {message[:80]}", err=True, nl=False)
    return message


_COLOURS = {Phase.READY: GOOD, Phase.FAILED: BAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A ModelCache on one environment; no environment: it has not reported any."""

    ref: Ref
    model: str
    size: str
    created: str
    users: tuple[str, ...]
    environment: str = ""
    phase: str = ""
    claim: str = ""
    path: str = ""
    message: str = ""


def list_entries(store: Store, namespace: str) -> list[Entry]:
    """Return the caches of a namespace, of all where it is empty."""
    found = (store.get(ref) for ref in store.refs("ModelCache") if namespace in ("", ref.namespace))
    return [entry for cache in found if cache for entry in _list_entries(store, cache)]


def _list_entries(store: Store, cache: Manifest) -> Iterator[Entry]:
    ref = Ref.of(cache)
    whole = Entry(
        ref=ref,
        model=text(cache, "spec.modelRef.name"),
        size=text(cache, "status.size"),
        created=text(cache, "metadata.creationTimestamp"),
        users=tuple(find_users(store, ref, bytes_too=False)),
    )
    rows = listing(cache, "status.environments")
    for row in rows:
        yield replace(
            whole,
            environment=text(row, "name"),
            phase=text(row, "phase"),
            claim=text(row, "claimName"),
            path=text(row, "path"),
            message=text(row, "message"),
        )
    if not rows:
        yield whole


def format_entries(found: list[Entry], form: Form) -> str:
    """Return the lines."""
    match form:
        case Form.NAME:
            return "\n".join(dict.fromkeys(f"modelcache.modelplane.ai/{entry.ref.name}" for entry in found))
        case Form.TABLE | Form.WIDE:
            return _format_table(found, wide=form is Form.WIDE) if found else "There is no ModelCache"
        case _:
            return structured(form, [_build_data(entry) for entry in found])


def _format_table(found: list[Entry], *, wide: bool) -> str:
    headers = ["NAMESPACE", "NAME", "MODEL", "ENVIRONMENT", "STATE", "SIZE", "USED BY", "AGE"]
    if wide:
        headers += ["CLAIM", "PATH", "MESSAGE"]
    rows = []
    for e in found:
        names = ", ".join(user.rpartition("/")[2] for user in e.users)
        state = paint(e.phase, _COLOURS.get(Phase(e.phase), WAIT)) if e.phase in tuple(Phase) else e.phase
        row = [e.ref.namespace, e.ref.name, e.model, e.environment, state, e.size, names, age(e.created)]
        rows.append([*row, e.claim, e.path, e.message] if wide else row)
    return table(headers, rows)


def _build_data(entry: Entry) -> Manifest:
    found = {key: value for key, value in asdict(entry).items() if key not in ("ref", "users")}
    return {"namespace": entry.ref.namespace, "name": entry.ref.name, **found, "usedBy": list(entry.users)}


_KINDS = ("ModelCache", "ModelPlacement", "ModelDeployment")
_DAY = 86400
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done and change nothing.")
_WAIT = click.option("--wait", is_flag=True, help="Wait until every environment has the weights.")
_TIMEOUT = click.option(
    "--timeout", type=click.IntRange(1), metavar="SECONDS", default=_DAY, show_default=True, help="Wait no longer."
)


@click.group(
    epilog=examples(
        "modelplane cache list -A", "modelplane cache preload kimi-k2-instruct --environment h200-east --wait"
    )
)
def cache() -> None:
    """List, preload and clear ModelCaches."""


@cache.command("list", epilog=examples("modelplane cache list -A", "modelplane cache list -n assistants --watch"))
@sources
@WATCH
@form(*EVERY_FORM)
def list_(*, sources: Sources, watch: bool, form: Form) -> None:
    """List ModelCaches, one line for each environment, with size, state and users."""

    def look() -> str:
        world = load_inventory(sources, _KINDS, one_namespace=True)
        return format_entries(list_entries(world.store, world.namespace), form)

    show(look, watch=watch)
    if form.for_people:
        hint("cache preload MODEL -e ENVIRONMENT --wait")


@cache.command(
    epilog=examples(
        "modelplane cache preload kimi-k2-instruct -e h200-east -n assistants --wait",
        "modelplane cache preload kimi-k2-instruct -l modelplane.ai/tier=production --dry-run -o yaml",
    )
)
@click.argument("model")
@click.option("--kind", type=click.Choice(["ClusterModel", "Model"]), default="ClusterModel", show_default=True)
@click.option("--name", metavar="NAME", help="Name of the ModelCache; the model's by default.")
@click.option(
    "-e",
    "--environment",
    "environments",
    metavar="NAME",
    multiple=True,
    help="Where; may be repeated.",
)
@click.option("-l", "--selector", metavar="KEY=VALUE,...", help="Where, by labels; '' is everywhere.")
@click.option("--size", metavar="QUANTITY", help="Size of the claim.")
@click.option("--storage-class", metavar="NAME", help="Class of the claim.")
@click.option("--claim", metavar="NAME", help="A claim of yours to fill, instead of one that is made.")
@click.option("--retain", is_flag=True, help="Keep claim and bytes when the ModelCache goes.")
@_WAIT
@_TIMEOUT
@_DRY_RUN
@target
@form(Form.TABLE, Form.YAML, Form.JSON, Form.NAME)
def preload(  # click's options
    *, target: Target, wait: bool, timeout: int, dry_run: bool, form: Form, **asked: object
) -> None:
    """Bring a model's weights to environments before anything is deployed."""
    cluster = connect(target)
    manifest = _build_manifest(cluster.namespace, asked)
    ref = Ref.of(manifest)
    _check_references(Store(cluster.objects([text(manifest, "spec.modelRef.kind"), "InferenceEnvironment"])), manifest)
    if not dry_run:
        cluster.apply(manifest)
    done = "would be applied" if dry_run else "applied"
    match form:
        case Form.TABLE:
            click.echo(f"{ref} {done}")
        case Form.NAME:
            click.echo(f"modelcache.modelplane.ai/{ref.name}")
        case _:
            click.echo(structured(form, manifest))
    if wait and not dry_run:
        wait_for(cluster, ref, timeout)
    if form.for_people:
        hint(f"cache list -n {ref.namespace}" + ("" if wait else " --watch"))


@cache.command(
    epilog=examples(
        "modelplane cache clear kimi-k2-instruct -n assistants",
        "modelplane cache clear kimi-weights -n assistants --purge",
    )
)
@click.argument("name")
@click.option("--purge", "purges", is_flag=True, help="Remove the bytes from claims that stay, by a Job.")
@_TIMEOUT
@_DRY_RUN
@target
def clear(name: str, *, purges: bool, timeout: int, dry_run: bool, target: Target) -> None:
    """Delete a ModelCache and the claims that were made for it, unless somebody uses it."""
    cluster = connect(target)
    store, ref = _find_cache(cluster, name, (*_KINDS, "Object"))
    used = find_users(store, ref, bytes_too=purges)
    if used:
        raise CliError(
            f"{ref} is used by {', '.join(used)}. Remove them first, or move them to other weights", Code.REFUSED
        )
    removals = plan_removals(store, ref) if purges else ()
    for removal in removals:
        click.echo(f"{removal} {'would be removed' if dry_run else 'is removed'}")
    if not dry_run:
        cluster.delete(ref)
        for removal in removals:
            removal.run(cluster, ref, timeout)
    click.echo(f"{ref} {'would be deleted' if dry_run else 'deleted'}")
    hint(f"cache list -n {ref.namespace}")


def _build_manifest(namespace: str, asked: dict[str, object]) -> Manifest:
    """Return the ModelCache that was asked for, checked by the function's own parser."""
    storage = prune(
        {
            "claimName": _take_text(asked["claim"]),
            "size": _take_text(asked["size"]),
            "storageClassName": _take_text(asked["storage_class"]),
            "retain": True if asked["retain"] else None,
        }
    )
    model = str(asked["model"])
    manifest: Manifest = {
        "apiVersion": VERSION,
        "kind": "ModelCache",
        "metadata": {"name": _take_text(asked["name"]) or model, "namespace": namespace},
        "spec": prune(
            {
                "modelRef": {"kind": str(asked["kind"]), "name": model},
                **_build_placement(asked["environments"], asked["selector"]),
                "storage": storage or None,
            }
        ),
    }
    problems = parse_model_cache(manifest).problems
    if problems:
        raise CliError("; ".join(map(str, problems)))
    return manifest


def _take_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _build_placement(environments: object, selector: object) -> Manifest:
    if isinstance(environments, tuple) and environments:
        return {"environments": [str(name) for name in environments]}
    if not isinstance(selector, str):
        raise CliError("say where: -e ENVIRONMENT, or -l KEY=VALUE (-l '' is every environment)")
    labels: dict[str, JSON] = {}
    for pair in filter(None, selector.split(",")):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise CliError(f"-l {selector}: {pair} is not KEY=VALUE")
        labels[key.strip()] = value.lstrip("=").strip()
    return {"environmentSelector": {"matchLabels": labels} if labels else {}}


def _check_references(store: Store, manifest: Manifest) -> None:
    """Refuse a model or environment that does not exist: waiting for its weights would never end."""
    kind, name = text(manifest, "spec.modelRef.kind"), text(manifest, "spec.modelRef.name")
    wanted = [Ref(kind, "" if kind in CLUSTER_SCOPED else text(manifest, "metadata.namespace"), name)]
    cache_ = parse_model_cache(manifest).value
    assert cache_  # it was checked when it was made
    wanted += [Ref("InferenceEnvironment", "", environment) for environment in cache_.environments or ()]
    for ref in wanted:
        if store.get(ref) is None:
            raise _refuse_missing(store, ref)


def _find_cache(cluster: Cluster, name: str, kinds: tuple[str, ...]) -> tuple[Store, Ref]:
    """Return a ModelCache with what there is in its namespace."""
    store = Store(cluster.objects(kinds, cluster.namespace))
    ref = Ref("ModelCache", cluster.namespace, name)
    if store.get(ref) is None:
        raise _refuse_missing(store, ref, " Look for it with 'cache list -A'")
    return store, ref


def _refuse_missing(store: Store, ref: Ref, otherwise: str = "") -> CliError:
    close = find_nearest(ref.name, [other.name for other in store.refs(ref.kind)])
    return CliError(f"there is no {ref}.{f' Did you mean {close}?' if close else otherwise}", Code.NOT_FOUND)
