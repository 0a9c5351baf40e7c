"""`python -m bench.simulator`: the stories as a table."""

import gc
import math
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import click
from crossplane.function import logging

from bench.simulator import stories
from bench.simulator.races import play
from bench.simulator.report import HEAD, Row, exponents
from bench.simulator.settings import Settings

NUMBERS = "10,20,40,80,160"


def _numbers(_context: click.Context, _option: click.Parameter, value: str) -> list[int]:
    return [int(number) for number in value.split(",")]


_lag = click.option("--lag", default=0.05, show_default=True, help="Seconds until a write is seen in the cache.")
_seed = click.option("--seed", default=7, show_default=True, help="Another seed, another history.")
_deployments = click.option(
    "-d", "--deployments", default=NUMBERS, show_default=True, callback=_numbers, help="How many there are."
)
_fleets = click.option(
    "-e", "--environments", default="10,100", show_default=True, callback=_numbers, help="How many there are."
)


@click.group(help=__doc__)
def cli() -> None:
    """Tell what a fleet costs."""
    _prepare()


def _prepare() -> None:
    """Measure the function alone: no collector that walks the simulator's objects, no line for each call."""
    gc.disable()
    logging.configure(logging.Level.DISABLED)


@cli.command()
@_lag
@_seed
@_deployments
@click.option(
    "-e", "--environments", default="5,20,100", show_default=True, callback=_numbers, help="How many there are."
)
@click.option("--quota", is_flag=True, help="All in one namespace, with a quota that has room for them.")
def grow(lag: float, seed: int, deployments: list[int], environments: list[int], *, quota: bool) -> None:
    """One more deployment, and one change of a status, at D deployments on E environments at rest.

    The exponents are those of one more deployment where each environment holds eight placements.
    """
    sizes = [(d, e) for e in environments for d in deployments]
    rows = tell(row for d, e in sizes for row in stories.one_more(_settings(lag, seed), d, e, quota=quota))
    alike = [r for r in rows if r.story == "one more" and stories.held(r.deployments, r.environments) == stories.FEWEST]
    for line in exponents(alike):
        click.echo(line)


@cli.command()
@_lag
@_seed
@click.option("-d", "--deployments", default="80", show_default=True, callback=_numbers, help="How many there are.")
@_fleets
def scale(lag: float, seed: int, deployments: list[int], environments: list[int]) -> None:
    """An autoscaler asks for one replica more of a deployment over all environments, and for one fewer."""
    tell(row for d in deployments for e in environments for row in stories.scale(_settings(lag, seed), d, e))


@cli.command()
@_lag
@_seed
@_fleets
def reclaim(lag: float, seed: int, environments: list[int]) -> None:
    """All environments are full of lent replicas; a deployment takes two of them back, and leaves again."""
    tell(row for e in environments for row in stories.reclaim(_settings(lag, seed), e))


@cli.command()
@_lag
@_seed
@_deployments
def resident(lag: float, seed: int, deployments: list[int]) -> None:
    """All deployments on one environment; another comes and leaves: calls for each of those that stay."""
    tell(row for d in deployments for row in stories.resident(_settings(lag, seed), d))


@cli.command()
@_lag
@_seed
@click.option("--waiting", default="10,40,160", show_default=True, callback=_numbers, help="For one slot.")
def herd(lag: float, seed: int, waiting: list[int]) -> None:
    """Twenty deployments on twenty slots at once, and one slot that becomes free for many that wait."""
    tell(stories.herd(_settings(lag, seed), 20, 20))
    tell(row for number in waiting for row in stories.waiters(_settings(lag, seed), number))


@cli.command()
@click.option("--seeds", default=200, show_default=True, help="How many histories, for each lag.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--lags", default="0,0.05,1.0", show_default=True, help="Seconds until a write is seen in the cache.")
@click.option("--processes", default=2, show_default=True, help="How many at once.")
def races(seeds: int, first: int, lags: str, processes: int) -> None:
    """Random histories, looked at on every write; fails where anything was wrong and says how to see it again."""
    seeds_and_lags = [(seed, float(lag)) for lag in lags.split(",") for seed in range(first, first + seeds)]
    calls, wrong = 0, 0
    with ProcessPoolExecutor(processes, initializer=_give_way) as pool:
        for history in pool.map(play, *zip(*seeds_and_lags, strict=True)):
            calls += history.calls
            wrong += bool(history.violations)
            for violation in history.violations[:1]:
                click.echo(f"python -m bench.simulator race {history.seed} --lag {history.lag}   # {violation}")
    click.echo(f"{len(seeds_and_lags)} histories, {calls} calls, {wrong} with violations")
    if wrong:
        sys.exit(1)


def _give_way() -> None:
    _prepare()
    os.nice(5)


@cli.command()
@click.argument("seed", type=int)
@_lag
def race(seed: int, lag: float) -> None:
    """One history: what was done, and what was wrong."""
    history = play(seed, lag)
    for line in sorted([*history.done, *(f"{wrong}  <- WRONG" for wrong in history.violations)], key=_moment):
        click.echo(line)
    sys.exit(bool(history.violations))


def _moment(line: str) -> float:
    time, _, _ = line.partition(" s: ")
    return float(time) if time[:1].isdigit() and " " not in time else math.inf


def tell(rows: Iterable[Row]) -> list[Row]:
    """Print rows as they come and return them."""
    found = []
    click.echo(HEAD)
    for row in rows:
        click.echo(str(row))
        found.append(row)
    return found


def _settings(lag: float, seed: int) -> Settings:
    return replace(Settings(), lag=lag, seed=seed)


if __name__ == "__main__":
    cli()
