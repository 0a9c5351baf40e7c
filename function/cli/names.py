"""Completes names on the command line: of the objects in the files of -f, or else of the control plane.

A shell waits for the answer, so that a control plane that does not answer within a second completes nothing.
"""

import asyncio
import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import click

from function.cli.options import Sources, find_kind
from function.cli.store import Ref

Complete = Callable[[click.Context, click.Parameter, str], list[str]]

_SECONDS = 1.0
_NAMESPACED = ("ModelDeployment", "ModelService", "ModelCache")


def complete_names(*kinds: str) -> Complete:
    """Returns what completes names of some kinds, in the forms that `split_name` reads."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        prefix, slash, _name = incomplete.partition("/")
        type_ = prefix if slash and find_kind(prefix, kinds) else ""
        namespace = prefix if slash and not type_ else ""
        candidates = []
        for ref in _list_refs(context, kinds, namespace):
            if type_ and ref.kind == find_kind(prefix, kinds):
                candidates.append(f"{type_}/{ref.name}")
            elif not type_:
                is_long = ref.namespace and (namespace or context.params.get("all_namespaces"))
                candidates.append(f"{ref.namespace}/{ref.name}" if is_long else ref.name)
        return sorted({name for name in candidates if name.startswith(incomplete)})

    return complete


def complete_namespaces(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Completes the namespaces in which deployments, ModelServices or ModelCaches are."""
    context.params["all_namespaces"] = True
    namespaces = {ref.namespace for ref in _list_refs(context, _NAMESPACED, "")}
    return sorted(namespace for namespace in namespaces if namespace.startswith(incomplete))


def _list_refs(context: click.Context, kinds: Sequence[str], namespace: str) -> list[Ref]:
    """Returns the objects of some kinds that the options so far select; none of what cannot be read."""
    given = context.params
    namespace = namespace or given.get("namespace") or ""
    sources = Sources(
        files=tuple(given.get("files") or ()),
        namespace=namespace or None,
        all_namespaces=bool(given.get("all_namespaces")),
        context=given.get("context"),
        kubeconfig=given.get("kubeconfig"),
    )
    refs: list[Ref] = []
    if sources.files:
        refs += _read_files(sources, kinds)
    if given.get("live") or not sources.files:
        refs += _read_cluster(sources, kinds)
    return [ref for ref in refs if namespace in ("", ref.namespace) or not ref.namespace]


def _read_files(sources: Sources, kinds: Sequence[str]) -> Iterator[Ref]:
    from function.cli.inputs import read_files  # noqa: PLC0415  # only what a completion needs is loaded
    from function.cli.validation import Item  # noqa: PLC0415  # likewise

    with contextlib.suppress(click.ClickException):
        items = (item for item in read_files(sources.files) if isinstance(item, Item))
        yield from (ref for ref in (Ref.of(item.manifest) for item in items) if ref.kind in kinds)


def _read_cluster(sources: Sources, kinds: Iterable[str]) -> list[Ref]:
    deadline = time.monotonic() + _SECONDS
    found: list[Ref] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        before, tempfile.tempdir = tempfile.tempdir, folder  # kr8s leaves the client's key there
        try:
            thread = threading.Thread(target=_list_cluster, args=(sources, kinds, found), daemon=True)
            thread.start()
            thread.join(deadline - time.monotonic())
        finally:
            tempfile.tempdir = before
    return [*found]


def _list_cluster(sources: Sources, kinds: Iterable[str], found: list[Ref]) -> None:
    from function.cli.live import Cluster  # noqa: PLC0415  # likewise

    # Whatever prevents an answer, nothing may be printed between the words that a user types.
    with contextlib.suppress(Exception), asyncio.Runner() as runner:
        cluster = Cluster(sources, runner)
        namespace = "" if sources.all_namespaces else cluster.namespace
        found += map(Ref.of, cluster.objects(kinds, namespace))
        cluster.close()
