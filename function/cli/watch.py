"""Looking again every two seconds. A terminal is redrawn; a pipe gets what has changed, and nothing else."""

import sys
import time
from collections.abc import Callable

import click

_SECONDS = 2


def watch(look: Callable[[], str]) -> None:
    """Show what is seen until interrupted."""
    shown = None
    while True:
        seen = look()
        if seen != shown:
            if sys.stdout.isatty():
                click.clear()
            click.echo(seen)
            sys.stdout.flush()
            shown = seen
        time.sleep(_SECONDS)
