"""`cache`: ModelCaches over all environments, and the only commands that write: preload and clear."""

import click

from function.cli.asked import EVERY_FORM, Form, Sources, Target
from function.cli.cachelist import entries, listed
from function.cli.errors import CliError, Code
from function.cli.gathered import gather
from function.cli.live import Cluster, connect
from function.cli.options import WATCH, examples, form, sources, target
from function.cli.progress import wait_for
from function.cli.purge import purge
from function.cli.store import CLUSTER_SCOPED, Ref, Store
from function.cli.tables import hint, show, structured
from function.cli.users import users
from function.kube.manifests import JSON, Manifest, prune, text
from function.kube.names import VERSION
from function.parse.caches import read_cache
from function.parse.problems import nearest

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
        world = gather(sources, _KINDS, within=True)
        return listed(entries(world.store, world.namespace), form)

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
    manifest = _manifest(cluster.namespace, asked)
    ref = Ref.of(manifest)
    _refer(Store(cluster.objects([text(manifest, "spec.modelRef.kind"), "InferenceEnvironment"])), manifest)
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
    store, ref = _found(cluster, name, (*_KINDS, "Object"))
    used = users(store, ref, bytes_too=purges)
    if used:
        raise CliError(
            f"{ref} is used by {', '.join(used)}. Remove them first, or move them to other weights", Code.REFUSED
        )
    removals = purge(store, ref) if purges else ()
    for removal in removals:
        click.echo(f"{removal} {'would be removed' if dry_run else 'is removed'}")
    if not dry_run:
        cluster.delete(ref)
        for removal in removals:
            removal.run(cluster, ref, timeout)
    click.echo(f"{ref} {'would be deleted' if dry_run else 'deleted'}")
    hint(f"cache list -n {ref.namespace}")


def _manifest(namespace: str, asked: dict[str, object]) -> Manifest:
    """Return the ModelCache that was asked for, checked by the function's own parser."""
    storage = prune(
        {
            "claimName": _said(asked["claim"]),
            "size": _said(asked["size"]),
            "storageClassName": _said(asked["storage_class"]),
            "retain": True if asked["retain"] else None,
        }
    )
    model = str(asked["model"])
    manifest: Manifest = {
        "apiVersion": VERSION,
        "kind": "ModelCache",
        "metadata": {"name": _said(asked["name"]) or model, "namespace": namespace},
        "spec": prune(
            {
                "modelRef": {"kind": str(asked["kind"]), "name": model},
                **_where(asked["environments"], asked["selector"]),
                "storage": storage or None,
            }
        ),
    }
    problems = read_cache(manifest).problems
    if problems:
        raise CliError("; ".join(map(str, problems)))
    return manifest


def _said(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _where(environments: object, selector: object) -> Manifest:
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


def _refer(store: Store, manifest: Manifest) -> None:
    """Refuse a model or environment that does not exist: waiting for its weights would never end."""
    kind, name = text(manifest, "spec.modelRef.kind"), text(manifest, "spec.modelRef.name")
    wanted = [Ref(kind, "" if kind in CLUSTER_SCOPED else text(manifest, "metadata.namespace"), name)]
    cache_ = read_cache(manifest).value
    assert cache_  # it was checked when it was made
    wanted += [Ref("InferenceEnvironment", "", environment) for environment in cache_.environments or ()]
    for ref in wanted:
        if store.get(ref) is None:
            raise _missing(store, ref)


def _found(cluster: Cluster, name: str, kinds: tuple[str, ...]) -> tuple[Store, Ref]:
    """Return a ModelCache with what there is in its namespace."""
    store = Store(cluster.objects(kinds, cluster.namespace))
    ref = Ref("ModelCache", cluster.namespace, name)
    if store.get(ref) is None:
        raise _missing(store, ref, " Look for it with 'cache list -A'")
    return store, ref


def _missing(store: Store, ref: Ref, otherwise: str = "") -> CliError:
    close = nearest(ref.name, [other.name for other in store.refs(ref.kind)])
    return CliError(f"there is no {ref}.{f' Did you mean {close}?' if close else otherwise}", Code.NOT_FOUND)
