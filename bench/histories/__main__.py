"""`python -m bench.histories`: play histories, one of them, or the mutants that they must find."""

import gc
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor

import click
from crossplane.function import logging

from bench.histories.history import History, World, play, shrink
from bench.histories.mutants import MUTANTS, named
from bench.histories.planting import planted

PIECE = 100


@click.group(help=__doc__)
def cli() -> None:
    """Look for what must never happen."""
    prepare()


def prepare() -> None:
    """Run the function without a line for each call, and look for garbage only among what a history makes."""
    gc.disable()
    gc.freeze()
    logging.configure(logging.Level.DISABLED)


def _give_way() -> None:
    prepare()
    os.nice(5)


@cli.command()
@click.option("--first", default=0, show_default=True, help="The first seed: where an earlier run was stopped.")
@click.option("--seeds", default=10_000, show_default=True, help="How many.")
@click.option("--processes", default=2, show_default=True, help="How many at once.")
@click.option("--routed", is_flag=True, help="All of them with ModelServices and gateways.")
def run(first: int, seeds: int, processes: int, *, routed: bool) -> None:
    """Histories one after the other; fails where anything was wrong and says how to see it again."""
    begun, wrong, calls, reconciles, faults = time.monotonic(), 0, 0, 0, Counter[str]()
    hostile = 0
    with ProcessPoolExecutor(processes, initializer=_give_way) as pool:
        for begin in range(first, first + seeds, PIECE):
            chosen = range(begin, min(begin + PIECE, first + seeds))
            for found in pool.map(_play_routed if routed else play, chosen, chunksize=4):
                calls, reconciles, hostile = calls + found.calls, reconciles + found.reconciles, hostile + found.hostile
                faults.update(found.faults)
                if found.violations:
                    wrong += 1
                    options = " --routed" if routed else ""
                    click.echo(f"python -m bench.histories play {found.seed}{options}   # {found.violations[0]}")
            if seeds > PIECE:
                click.echo(f"go on with --first {begin + PIECE}", err=True)
    minutes = (time.monotonic() - begun) / 60
    click.echo(f"{seeds} histories ({hostile} hostile), {reconciles} reconciles, {calls} calls, {minutes:.1f} minutes")
    click.echo(", ".join(f"{count} x {what}" for what, count in sorted(faults.items())))
    click.echo(f"{wrong} with violations")
    sys.exit(bool(wrong))


@cli.command(name="play")
@click.argument("seed", type=int)
@click.option("--smaller", is_flag=True, help="Leave out what is not needed for it to fail.")
@click.option("--routed", is_flag=True, help="With ModelServices and gateways.")
def one(seed: int, *, smaller: bool, routed: bool) -> None:
    """One history: what was done, and what was wrong."""
    player = _play_routed if routed else play
    without, found = shrink(seed, player) if smaller else (set[int](), player(seed))
    show(found)
    if without:
        click.echo(f"without steps {sorted(without)}")
    sys.exit(bool(found.violations))


@cli.command()
@click.argument("names", nargs=-1)
@click.option("--histories", default=300, show_default=True, help="So many, aimed at each.")
@click.option("--processes", default=2, show_default=True, help="How many at once.")
def mutants(names: tuple[str, ...], histories: int, processes: int) -> None:
    """Bring defects back, one after the other, and look for each; fails where one is not found."""
    missed, wanted = 0, names or [mutant.name for mutant in MUTANTS]
    with ProcessPoolExecutor(processes, initializer=_give_way) as pool:
        for name, found in zip(wanted, pool.map(_found, wanted, [histories] * len(wanted)), strict=True):
            missed += found is None
            said = f"seed {found.seed}: {found.violations[0]}" if found else "NOT FOUND"
            click.echo(f"{name}: {said}")
    sys.exit(bool(missed))


def _play_routed(seed: int, without: Collection[int] = ()) -> History:
    """Return a history with ModelServices and gateways; no tight world has them."""
    return play(seed, without, world=World(tight=False, routed=True))


def _found(name: str, histories: int) -> History | None:
    """Return the first history in which a defect shows and which is clean without it; few show as a crash."""
    mutant = named(name)
    world = World(tight=mutant.tight, routed=mutant.routed, created=mutant.created)
    for seed in range(histories):
        with planted(mutant):
            found = play(seed, aim=mutant.aim, world=world)
        is_found = found.violations and (mutant.crashes or "an internal error" not in found.violations[0])
        if is_found and not play(seed, aim=mutant.aim, world=world).violations:
            return found
    return None


def show(history: History) -> None:
    """Print a history."""
    lines = [*history.done, *(f"{wrong}  <- WRONG" for wrong in history.violations)]
    for line in sorted(lines, key=_moment):
        click.echo(line)


def _moment(line: str) -> float:
    moment, _, _ = line.partition(" s: ")
    return float(moment) if moment[:1].isdigit() and " " not in moment else math.inf


if __name__ == "__main__":
    cli()
