"""`cache`: lists kept weights over all environments, and preloads and clears ModelCaches.

For `clear --purge` a Job with the image, user and node settings of the download removes each directory, described by an
Object that is deleted when it is done. Only directories of the function's own downloads are removed: models/<key>.
"""

import copy
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import click

from function.api.model_cache import parse_model_cache
from function.cli import options, tables
from function.cli.inputs import Inventory, load_inventory
from function.cli.kept_claims import KeptClaim, find_kept_claims
from function.cli.live import Cluster, connect, pause
from function.cli.names import complete_names
from function.cli.options import EVERY_FORM, WATCH, CliError, Code, Form, Sources, examples, form
from function.cli.progress import format_progress
from function.cli.store import Ref, Store
from function.kube.manifests import JSON, Manifest, condition, get, list_texts, listing, mapping, prune, text
from function.kube.names import MANAGED_BY, VERSION, build_name
from function.kube.selectors import Operator, Selector
from function.reasons import ConditionType, Hydrated, Phase, ReferencesResolved, Status
from function.remote.composed_kinds import assess, build_readiness
from function.remote.health import Level
from function.remote.object_writer import deletes
from function.remote.observed_object import read_object, read_written
from function.weights.request import StorageType

_KINDS = ("ModelCache", "ModelPlacement", "ModelDeployment")
_KEPT = (StorageType.RETAINED, StorageType.SHARED, StorageType.USER_CLAIM)  # claims that outlive the deployment
_DIRECTORY = ("environment", "claim", "path")
_COLUMNS = {
    "NAMESPACE": "namespace", "NAME": "name", "MODEL": "model", "ENVIRONMENT": "environment", "STATE": "phase",
    "SIZE": "size", "USED BY": "usedBy", "AGE": "created",
}  # fmt: skip
_PROGRESS_COLUMN = {"PROGRESS": "progress"}  # only while something is downloaded
_WIDE_COLUMNS = {"CLAIM": "claim", "PATH": "path", "MESSAGE": "message"}
_COLOURS: Mapping[str, str] = {Phase.READY: tables.GOOD, Phase.FAILED: tables.BAD}
# Reasons that waiting does not clear.
_TERMINAL = {
    Hydrated.DOWNLOAD_FAILED,
    Hydrated.CLAIM_NOT_FOUND,
    Hydrated.NO_ENVIRONMENT_MATCHES,
    Hydrated.INVALID_CACHE,
    ReferencesResolved.MODEL_NOT_FOUND,
    ReferencesResolved.MODEL_INVALID,
}


@click.group(epilog=examples("cache"))
def cache() -> None:
    """List, preload and clear ModelCaches."""


@cache.command("list", epilog=examples("cache list"))
@options.sources
@options.SELECTOR
@WATCH
@form(*EVERY_FORM)
def list_(*, sources: Sources, selector: Selector | None, watch: bool, form: Form) -> None:
    """List ModelCaches, one line for each environment, with size, state and users.

    Weights that deployments keep on retained, Shared and own claims follow, by the name of the claim. Retained claims
    without a deployment come last, with STATE Kept: their Objects show them, to those who may read Objects.
    """

    def render() -> str:
        inventory = load_inventory(sources, _KINDS, one_namespace=True)
        inventory.warn_of_empty_namespace()
        store = inventory.store
        in_scope = filter(inventory.in_scope, store.refs("ModelCache", "ModelPlacement"))
        refs = [ref for ref in in_scope if store.is_selected(ref, selector)]
        caches = [(store[ref], _find_users(store, ref)) for ref in refs if ref.kind == "ModelCache"]
        rows = [row for manifest, users in caches for row in _list_rows(manifest, users)]
        rows += _list_kept_weights(store[ref] for ref in refs if ref.kind == "ModelPlacement")
        if sources.live or not sources.files:
            rows += _list_unused_claims(connect(sources), inventory, selector)
        return _format_rows(rows, form)

    tables.print_watched(render, watch=watch)


@cache.command(epilog=examples("cache preload"))
@click.argument("model", shell_complete=complete_names("ClusterModel", "Model"))
@click.option("--name", metavar="NAME", help="Name of the ModelCache; the model's by default.")
@click.option(
    "-e",
    "--environment",
    "environments",
    metavar="NAME",
    multiple=True,
    help="Where; may be repeated.",
    shell_complete=complete_names("InferenceEnvironment"),
)
@click.option(
    "-l", "--selector", metavar="SELECTOR", type=options.parse_selector, help="Where, by labels; '' is everywhere."
)
@click.option("--wait", is_flag=True, help="Wait until every environment has the weights.")
@options.TIMEOUT
@options.DRY_RUN
@options.target
@form(Form.TABLE, Form.YAML, Form.JSON, Form.NAME)
def preload(  # noqa: PLR0913  # click's options
    *, model: str, name: str | None, environments: tuple[str, ...], selector: Selector | None, wait: bool,
    timeout: int, dry_run: bool, sources: Sources, form: Form,
) -> None:  # fmt: skip
    """Bring a model's weights to environments before anything is deployed.

    MODEL is a ClusterModel, or model/NAME in the namespace, or NAMESPACE/NAME. For a claim of another size, class or
    owner, edit what --dry-run -o yaml writes.
    """
    kind, model, namespace = named = options.split_name(model, "ClusterModel", "Model")
    cluster = connect(sources.narrow(named))
    kind = kind or ("Model" if namespace else "")
    manifest: Manifest = {
        "apiVersion": VERSION,
        "kind": "ModelCache",
        "metadata": {"name": name or model, "namespace": cluster.namespace},
        "spec": {"modelRef": {"kind": kind or "ClusterModel", "name": model}, **_choose(environments, selector)},
    }
    if problems := parse_model_cache(manifest).problems:
        raise CliError("; ".join(map(str, problems)))
    ref = Ref.of(manifest)
    model_ref = Ref.resolve(kind or "ClusterModel", cluster.namespace, model)
    existing = Store(cluster.objects([model_ref.kind, "InferenceEnvironment"]))
    # Without one of them, the wait for the weights would never end.
    for required in (model_ref, *(Ref("InferenceEnvironment", "", environment) for environment in environments)):
        existing.require(required, "Create it first")
    if not dry_run:
        cluster.apply(manifest)
    applied = f"{ref} {'would be applied' if dry_run else 'applied'}"
    lines = {Form.TABLE: applied, Form.NAME: f"modelcache.modelplane.ai/{ref.name}"}
    click.echo(lines.get(form) or tables.format_data(form, manifest))
    if wait and not dry_run:
        try:
            _wait_for_weights(cluster, ref, timeout)
        finally:
            tables.draw_line("")


@cache.command(epilog=examples("cache clear"))
@click.argument(
    "named",
    metavar="[NAME]",
    type=options.read_namespaced("ModelCache"),
    required=False,
    shell_complete=complete_names("ModelCache"),
)
@click.option("--all", "every", is_flag=True, help="Every ModelCache of the namespace that is not in use.")
@click.option("--purge", is_flag=True, help="Remove the bytes from claims that stay, by a Job.")
@options.TIMEOUT
@options.DRY_RUN
@options.target
@form(Form.TABLE, Form.JSON, Form.YAML)
def clear(  # noqa: PLR0913  # click's options
    named: options.Name | None, *, every: bool, purge: bool, timeout: int, dry_run: bool, sources: Sources, form: Form
) -> None:
    """Delete a ModelCache and the claims that were made for it, unless it is in use."""
    if bool(named) == every:
        raise click.UsageError("Name a ModelCache, or give --all")
    cluster = connect(sources.narrow(named))
    store = Store(cluster.objects((*_KINDS, "Object"), cluster.namespace))
    refs = [Ref("ModelCache", cluster.namespace, named.name)] if named else store.refs("ModelCache")
    rows = [*_list_staying(cluster, store, named.name if named else "")]
    for staying in rows if form is Form.TABLE else ():
        click.echo(text(staying, "message"))
    for ref in refs:
        store.require(ref, "Look for it with 'cache list -A'")
        users = _find_users(store, ref) | (_find_readers(store, ref) if purge else set())
        if users and named:
            message = f"{ref} is used by {', '.join(sorted(users))}"
            raise CliError(f"{message}. Remove them first, or move them to other weights", Code.REFUSED)
        removals = _plan_removals(store, ref) if purge and not users else {}
        row: Manifest = {"namespace": ref.namespace, "name": ref.name, "usedBy": [*sorted(users)]}
        rows.append({**row, "removes": [*removals], "deleted": not users and not dry_run, "dryRun": dry_run})
        if form is Form.TABLE:
            click.echo("\n".join(_describe_clearing(ref, rows[-1])))
        if not users and not dry_run:
            cluster.delete(ref)
            for what, removal in removals.items():
                _remove(cluster, ref, what, removal, timeout)
    if form is not Form.TABLE:
        click.echo(tables.format_data(form, [*rows]))


def _list_staying(cluster: Cluster, store: Store, name: str) -> Iterator[Manifest]:
    """Yields a row for each retained claim that no placement uses and no ModelCache keeps; refuses a named one."""
    for claim in _list_unused(find_kept_claims(cluster, cluster.namespace), _list_claims(store)):
        message = f"claim {claim.name} on {claim.environment} keeps weights for no deployment and is no ModelCache's"
        if claim.name == name:
            raise CliError(f"{message}. {claim.advice}", Code.REFUSED)
        if not name:
            row: Manifest = {"namespace": claim.namespace, "name": f"claim {claim.name}", "deleted": False}
            yield {**row, "message": f"{message}, and stays. {claim.advice}"}


def _describe_clearing(ref: Ref, row: Manifest) -> Iterator[str]:
    if users := list_texts(row, "usedBy"):
        yield f"{ref} is used by {', '.join(users)}, and stays"
        return
    words = ("would be removed", "would be deleted") if row["dryRun"] else ("is removed", "deleted")
    yield from (f"{what} {words[0]}" for what in list_texts(row, "removes"))
    yield f"{ref} {words[1]}"


def _choose(environments: Sequence[str], selector: Selector | None) -> Manifest:
    if environments:
        return {"environments": [*environments]}
    if selector is None:
        raise CliError("say where: -e ENVIRONMENT, or -l KEY=VALUE (-l '' is every environment)")
    labels = selector.equalities
    others: list[JSON] = [
        prune({"key": r.key, "operator": str(r.operator), "values": [*r.values] or None})
        for r in selector.requirements
        if r.operator is not Operator.IN or r.values != (labels.get(r.key),)
    ]
    match_labels: Manifest = {**labels}
    return {"environmentSelector": prune({"matchLabels": match_labels or None, "matchExpressions": others or None})}


def _wait_for_weights(cluster: Cluster, ref: Ref, timeout: int) -> None:
    """Waits until every environment has the weights; the download continues after an interrupt."""
    deadline = time.monotonic() + timeout
    last_message = ""
    while True:
        manifest = cluster.get(ref)
        if manifest is None:
            raise CliError(f"{ref} was deleted meanwhile", Code.NOT_FOUND)
        hydrated = condition(manifest, ConditionType.HYDRATED)
        generation = get(manifest, "metadata.generation")
        # Crossplane's conditions show the observed change if the condition of the function does not.
        conditions = (hydrated, condition(manifest, "Synced"), condition(manifest, "Ready"))
        if next((c["observedGeneration"] for c in conditions if "observedGeneration" in c), generation) != generation:
            hydrated = {}
        message = text(hydrated, "message")
        if message != last_message:
            tables.draw_line("")
            click.echo(message, err=True)
            last_message = message
        tables.draw_line(format_progress(_list_progress(manifest)))
        if hydrated.get("status") == Status.TRUE:
            return
        if text(hydrated, "reason") in _TERMINAL:
            is_invalid = text(hydrated, "reason") == Hydrated.INVALID_CACHE
            advice = "Correct the ModelCache" if is_invalid else "Then set another value of spec.retry"
            raise CliError(f"{message}. {advice}", Code.REFUSED)
        pause(deadline, f"{ref} is not complete after {timeout} seconds; it goes on. Watch 'cache list'")


def _list_progress(cache: Manifest) -> list[Manifest]:
    """Returns the progress of each environment that downloads the weights in parts."""
    blocks = (mapping(row, "progress") for row in listing(cache, "status.environments"))
    return [block for block in blocks if block]


def _find_users(store: Store, ref: Ref) -> set[str]:
    """Returns the objects that name a ModelCache, including deployments that are not placed yet."""
    reported = (Ref("ModelDeployment", ref.namespace, name) for name in list_texts(store[ref], "status.usedBy"))
    users = (user for user in store.refs("ModelDeployment", "ModelPlacement") if user.namespace == ref.namespace)
    named = (store[user] for user in users if text(store[user], "spec.modelCache.name") == ref.name)
    return {*map(str, reported), *map(_name_user, named)}


def _find_readers(store: Store, ref: Ref) -> set[str]:
    """Returns the other objects whose weights are in a directory of a ModelCache."""
    directories = _list_directories(store[ref])
    others = (other for other in store.refs("ModelPlacement", "ModelCache") if other != ref)
    return {
        _name_user(store[other])
        for other in others
        if other.namespace == ref.namespace and directories & _list_directories(store[other])
    }


def _list_directories(manifest: Manifest) -> set[tuple[str, ...]]:
    """Returns environment, claim and path of each directory of a ModelCache, or of a placement's weights."""
    return {tuple(text(row, key) for key in _DIRECTORY) for row in _list_rows(manifest) if row["claim"]}


def _name_user(manifest: Manifest) -> str:
    deployment = text(manifest, "spec.deploymentRef.name")
    namespace = text(manifest, "metadata.namespace")
    return str(Ref("ModelDeployment", namespace, deployment) if deployment else Ref.of(manifest))


def _list_kept_weights(placements: Iterable[Manifest]) -> Iterable[Manifest]:
    """Returns a row for each directory of a claim that outlives the deployments which read it."""
    rows: dict[tuple[str, ...], Manifest] = {}
    for placement in placements:
        if text(placement, "status.storage.type") in _KEPT:
            (row,) = _list_rows(placement)
            row = rows.setdefault(tuple(text(row, key) for key in ("namespace", *_DIRECTORY)), row)
            row["usedBy"] = [*sorted({*list_texts(row, "usedBy"), _name_user(placement)})]
    return rows.values()


def _list_unused_claims(cluster: Cluster, inventory: Inventory, selector: Selector | None) -> Iterator[Manifest]:
    """Yields a row for each retained claim that no placement uses; a selector is about the labels of the claim."""
    for claim in _list_unused(find_kept_claims(cluster, inventory.namespace), _list_claims(inventory.store)):
        if selector is None or not selector.find_unmet(claim.labels):
            yield {
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": f"claim {claim.name}",
                "model": claim.model,
                "size": claim.size,
                "created": claim.created,
                "environment": claim.environment,
                "phase": "Kept",
                "claim": claim.name,
                "path": f"models/{claim.key}" if claim.key else "",
                "message": f"No deployment uses it. {claim.advice}",
                "progress": {},
                "usedBy": [],
            }


def _list_unused(claims: Iterable[KeptClaim], used: Collection[tuple[str, str]]) -> list[KeptClaim]:
    return [claim for claim in claims if (claim.environment, claim.name) not in used]


def _list_claims(store: Store) -> set[tuple[str, str]]:
    """Returns environment and claim of the weights of each placement."""
    placements = (store[ref] for ref in store.refs("ModelPlacement"))
    return {
        (text(placement, "spec.inferenceEnvironmentRef.name"), text(placement, "status.storage.claimName"))
        for placement in placements
    }


def _list_rows(manifest: Manifest, users: Iterable[str] = ()) -> Iterator[Manifest]:
    """Yields a row for each environment of a ModelCache, an empty one if it has none, or for a placement's weights."""
    kind = "ModelCache"
    name = text(manifest, "metadata.name")
    size = text(manifest, "status.size")
    storages = listing(manifest, "status.environments") or [{}]
    if text(manifest, "kind") == "ModelPlacement":
        storage = mapping(manifest, "status.storage")
        ready = condition(manifest, ConditionType.STORAGE_READY)
        kind = "PersistentVolumeClaim"
        name = f"claim {text(storage, 'claimName')}"
        size = text(storage, "size")
        environment = text(manifest, "spec.inferenceEnvironmentRef.name")
        phase = Phase.READY if text(ready, "status") == Status.TRUE else text(manifest, "status.phase")
        storages = [{**storage, "name": environment, "phase": phase, "message": text(ready, "message")}]
    for storage in storages:
        yield {
            "kind": kind,
            "namespace": text(manifest, "metadata.namespace"),
            "name": name,
            "model": text(manifest, "spec.modelRef.name"),
            "size": size,
            "created": text(manifest, "metadata.creationTimestamp"),
            "environment": text(storage, "name"),
            "phase": text(storage, "phase"),
            "claim": text(storage, "claimName"),
            "path": text(storage, "path"),
            "message": text(storage, "message"),
            "progress": mapping(storage, "progress"),
            "usedBy": [*sorted(users)],
        }


def _format_rows(rows: list[Manifest], form: Form) -> str:
    if form is Form.NAME:
        caches = (text(row, "name") for row in rows if row["kind"] == "ModelCache")
        return "\n".join(dict.fromkeys(f"modelcache.modelplane.ai/{name}" for name in caches))
    if not form.for_people:
        return tables.format_data(form, [*rows])
    if not rows:
        return "There is no ModelCache, and no deployment keeps its weights on a claim that stays"
    shown = [
        {
            **row,
            "phase": tables.paint(text(row, "phase"), _COLOURS.get(text(row, "phase"), tables.WAIT)),
            "usedBy": ", ".join(user.rpartition("/")[2] for user in list_texts(row, "usedBy")),
            "created": tables.format_age(text(row, "created")),
            "progress": format_progress([mapping(row, "progress")]),
        }
        for row in rows
    ]
    columns = _COLUMNS | (_PROGRESS_COLUMN if any(row["progress"] for row in shown) else {})
    return tables.format_columns(columns | (_WIDE_COLUMNS if form is Form.WIDE else {}), shown)


# A directory that does not exist is removed already.
SCRIPT = "import os, shutil, sys\nif os.path.lexists(sys.argv[1]):\n    shutil.rmtree(sys.argv[1])\n"
_PURGED = re.compile(r"/mnt/models/models/[0-9a-f]{16}", re.ASCII)


def _remove(cluster: Cluster, ref: Ref, what: str, removal: Manifest, timeout: int) -> None:
    """Removes a directory once the ModelCache `ref` is deleted, so that nothing is downloaded meanwhile."""
    deadline = time.monotonic() + timeout
    job = Ref.of(removal)
    while cluster.get(ref) is not None:
        pause(deadline, f"{ref} is still being deleted. Run 'kubectl describe' on it")
    cluster.apply(removal)
    while True:
        remote = read_object(cluster.get(job))
        health = assess(remote.manifest)
        if remote.present and health.up:
            break
        if health.level is Level.FAILED:
            raise CliError(f"{what} is not removed: {health.message}. {job} has the Job", Code.REFUSED)
        why = remote.message or health.message
        pause(deadline, f"{what} is not removed yet ({why}). {job} goes on; delete it once it is Ready")
    cluster.delete(job)


def _plan_removals(store: Store, ref: Ref) -> dict[str, Manifest]:
    """Returns by its description the removal of each directory on a claim that is not deleted with the ModelCache."""
    for row in listing(store[ref], "status.environments"):
        if text(row, "phase") == Phase.DOWNLOADING:
            where = text(row, "name")
            raise CliError(f"{ref} is downloading on {where}. Wait for it, or clear without --purge", Code.REFUSED)
    # A cache names what it composes after the environment.
    owned = [(key.partition("/")[0], manifest) for key, manifest in store.owned(ref).items()]
    deleted = {
        (environment, text(claim, "metadata.name"))
        for environment, manifest in owned
        for claim in [read_written(manifest)]
        if text(claim, "kind") == "PersistentVolumeClaim" and deletes(manifest)
    }
    removals: dict[str, Manifest] = {}
    for environment, manifest in owned:
        if text(read_written(manifest), "kind") == "Job":
            claim, directory, removal = _plan_removal(manifest)
            if (environment, claim) not in deleted:
                what = f"{directory.removeprefix('/mnt/models/')} of claim {claim} on {environment}"
                removals[what] = removal
    return removals


def _plan_removal(download: Manifest) -> tuple[str, str, Manifest]:
    """Returns the claim and the directory of a download's Object, and an Object that removes the directory."""
    job = copy.deepcopy(read_written(download))
    pod = mapping(job, "spec.template.spec")
    container = listing(pod, "containers")[0]
    directory = "".join(list_texts(container, "args")[1:2])
    if not _PURGED.fullmatch(directory):
        fills = f"{Ref.of(download)} fills {directory or 'nothing'}"
        raise CliError(f"{fills}, which is no directory of ours", Code.REFUSED)
    volume = next(v for v in listing(pod, "volumes") if "persistentVolumeClaim" in v)
    # Without the download's variables: none is needed, and the token may be deleted.
    purge: Manifest = {key: value for key, value in container.items() if key in ("image", "securityContext")}
    purge |= {"name": "purge", "command": ["python3", "-c", SCRIPT, directory]}
    purge["volumeMounts"] = [m for m in listing(container, "volumeMounts") if m.get("name") == volume.get("name")]
    pod |= {"containers": [purge], "volumes": [volume]}
    pod.pop("initContainers", None)  # its script is deleted once the download is complete

    def build_metadata(source: Manifest, *parts: str) -> Manifest:
        name = text(source, "metadata.name")
        namespace = text(source, "metadata.namespace")
        return {"name": build_name(f"purge-{name}", name, *parts), "namespace": namespace, "labels": {**MANAGED_BY}}

    removal: Manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": build_metadata(job, directory),
        "spec": {"backoffLimit": 2, "template": {**mapping(job, "spec.template"), "spec": pod}},
    }
    written: Manifest = {
        "apiVersion": download["apiVersion"],
        "kind": "Object",
        "metadata": build_metadata(download, "purge"),
        "spec": {
            "providerConfigRef": mapping(download, "spec.providerConfigRef"),
            "forProvider": {"manifest": removal},
            "readiness": build_readiness(removal),
        },
    }
    return text(volume, "persistentVolumeClaim.claimName"), directory, written
