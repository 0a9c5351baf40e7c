"""Names for the shell to complete: of what the files typed so far hold, else of the control plane.

A shell waits while its user does, so the control plane has little time, and whatever keeps names from coming is
passed over in silence.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import click

from function.cli.asked import Sources, Target

if TYPE_CHECKING:
    from function.cli.store import Ref

Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]

_SECONDS = 3
_NAMESPACED = ("ModelDeployment", "ModelCache")


def names(*kinds: str) -> Completer:
    """Complete the names of objects in the namespace that is in scope."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        return _beginning(incomplete, (ref.name for ref in _refs(context, kinds)))

    return complete


def namespaces(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the namespaces that deployments and caches are in."""
    context.params["everywhere"] = True
    return _beginning(incomplete, (ref.namespace for ref in _refs(context, _NAMESPACED)))


def contexts(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the contexts of the kubeconfig."""
    from function.cli import kubeconfigs  # noqa: PLC0415  # commands that read nothing do without

    found = kubeconfigs.contexts(kubeconfigs.named(context.params.get("kubeconfig")))
    return _beginning(incomplete, found)


def _refs(context: click.Context, kinds: Iterable[str]) -> "list[Ref]":
    from function.cli.errors import CliError  # noqa: PLC0415  # --help does without
    from function.cli.gathered import gather  # noqa: PLC0415  # as above

    given = context.params
    target = Target(
        **{key: given.get(key) for key in ("context", "kubeconfig", "namespace")},
        everywhere=bool(given.get("everywhere")),
        seconds=_SECONDS,
    )
    # Nobody types into standard input while the shell completes.
    files = tuple(file for file in given.get("files") or () if file != "-")
    try:
        with click.Context(context.command):  # while a shell completes, no command runs that would end a connection
            world = gather(Sources(files=files, live=bool(given.get("live")), target=target), tuple(kinds), within=True)
    except CliError:
        return []
    return [ref for ref in world.store.refs(*kinds) if not ref.namespace or world.namespace in ("", ref.namespace)]


def _beginning(incomplete: str, found: Iterable[str]) -> list[str]:
    return sorted({name for name in found if name.startswith(incomplete)})
