"""Waiting for a ModelCache: a bar where a terminal shows it, a line for each change where none does."""

import sys
import time

import click

from function.cli.errors import CliError, Code
from function.cli.live import Cluster
from function.cli.store import Ref
from function.kube.manifests import Manifest, condition, get, integer, text
from function.reasons import ConditionType, Hydrated, ModelResolved, Status

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
        shown = _show(cache, text(found, "message") if current else "", shown)
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


def _show(cache: Manifest, message: str, before: str) -> str:
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
