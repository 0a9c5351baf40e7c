"""`python -m bench.fuzz`: anything anywhere in a request, memory over many requests, and hostile downloads.

What is done follows from a number, so that a failing one is seen again by `--first N --count 1`.
"""

import gc
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from crossplane.function import logging

from bench.fuzz import memory
from bench.fuzz.downloads import Downloads, play
from bench.fuzz.requests import Counts, ask, request, tell
from bench.servers import serving
from function.runner import Runner

# Of what is held after the first fifth: the allocator's own coming and going.
FLAT = 1.05
# Downloads mostly wait for one another's hub.
AT_ONCE = 4


@click.group(help=__doc__)
def cli() -> None:
    """Look for what must never happen."""
    logging.configure(logging.Level.DISABLED)


@cli.command()
@click.option("--first", default=0, show_default=True, help="The first number.")
@click.option("--count", default=100_000, show_default=True, help="So many.")
@click.option("--seconds", default=600.0, show_default=True, help="No longer than this.")
def requests(first: int, count: int, seconds: float) -> None:
    """Anything anywhere in a request."""
    counts, runner = Counts(), Runner()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "server", None) as server:
        until, held, before = time.monotonic() + seconds, 0.0, 0.0
        for number in range(first, first + count):
            ask(counts, runner, server, number, request(number))
            if number == first + 1000:
                gc.collect()
                held, before = server.megabytes(), memory.resident()
            if time.monotonic() > until:
                break
        gc.collect()
        click.echo(f"{counts.requests} requests: {tell(counts.kinds)}")
        click.echo(f"slowest under 1 MB: {counts.slowest:.2f} s of processor")
        click.echo(f"memory after a thousand and at the end: {before:.0f} and {memory.resident():.0f} MB")
        click.echo(f"memory of the server: {held:.0f} and {server.megabytes():.0f} MB")
    _conclude(counts, "requests")


@cli.command(name="memory")
@click.option("--count", default=100_000, show_default=True, help="So many requests.")
def flat(count: int) -> None:
    """Memory over many small requests; fails where it grows."""
    held = []
    for megabytes in memory.measured(count, count // 10):
        held.append(megabytes)
        click.echo(f"{len(held) * (count // 10)} requests: {megabytes:.1f} MB")
    sys.exit(held[-1] > FLAT * held[1])


@cli.command(name="downloads")
@click.option("--first", default=0, show_default=True, help="The first number.")
@click.option("--count", default=100, show_default=True, help="So many histories.")
def hostile(first: int, count: int) -> None:
    """Downloads from hostile repositories into hostile directories, killed at random times."""
    counts, wrong = Downloads(), 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number, found in enumerate(pool.map(_download, range(first, first + count)), first):
            counts.attempts += found.attempts
            counts.seen.update(found.seen)
            wrong += bool(found.wrong)
            for what in found.wrong:
                click.echo(f"python -m bench.fuzz downloads --first {number} --count 1   # {what}")
    click.echo(f"{count} histories, {counts.attempts} attempts: {tell(counts.seen)}")
    click.echo(f"{wrong} histories with something wrong")
    sys.exit(bool(wrong))


def _download(number: int) -> Downloads:
    found = Downloads()
    with tempfile.TemporaryDirectory() as folder:
        play(found, number, Path(folder))
    return found


def _conclude(counts: Counts, command: str) -> None:
    click.echo(f"wrong: {tell(counts.wrong) or 'nothing'}")
    for what, number in counts.first.items():
        click.echo(f"python -m bench.fuzz {command} --first {number} --count 1   # {what}")
    sys.exit(bool(counts.wrong))


if __name__ == "__main__":
    cli()
