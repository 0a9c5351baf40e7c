"""One history: from its seed to what was wrong in it."""

import gc
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from bench.histories.auditor import Auditor, FoundError
from bench.histories.gateways import SETTINGS as GATEWAY
from bench.histories.harm import Everybody
from bench.histories.plane import MOST_ROUNDS, Plane, forget
from bench.histories.tight import TightWorld
from bench.histories.words import Words
from bench.simulator.plane import UnsettledError
from bench.simulator.rounds import LISTS_CHANGED
from bench.simulator.settings import Settings
from function.domain.allocation import Limits
from function.kube.manifests import Manifest

STEPS, TIGHT_STEPS = 10, 8  # more happens in each step in a tight world
# Longer than any TTL: a controller that missed an event has reconciled by then.
LOOKS_AGAIN_SECONDS = 700.0
BEGAN = 1_767_225_600  # in seconds since 1970: when histories begin
LAGS = (0.0, 0.05, 0.05, 1.0, 5.0)
# How many histories have users who mean harm, a quota for each namespace, nodes that are looked at.
HOSTILE, LIMITED, OBSERVED = 0.2, 0.25, 0.3
# How many play in a tight world, where no nodes are looked at.
TIGHT = 0.15
# How many have maintenance of environments and pools.
MAINTAINED = 0.25
# How many answers are asked for a second time where something is aimed at.
TWICE_AIMED = 0.25
# How often a reconcile may fail, by cause: core begins again, and no function can prevent either.
RETRIED = {"conflict": math.inf, LISTS_CHANGED: 5}


@dataclass(slots=True)
class History:
    """What was done and what was wrong, each with its time; what went wrong on clusters, by kind, and what it took."""

    seed: int
    hostile: bool = False
    tight: bool = False
    done: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    reconciles: int = 0


def is_tight(seed: int) -> bool:
    """Tells whether the history of a seed plays in a tight world."""
    return Random(f"{seed} tight").random() < TIGHT  # noqa: S311  # the same for the same seed


def is_maintained(seed: int) -> bool:
    """Tells whether environments and pools are taken out of service in the history of a seed."""
    return Random(f"{seed} maintained").random() < MAINTAINED  # noqa: S311  # the same for the same seed


def play(
    seed: int,
    without: Collection[int] = (),
    aim: Sequence[str] = (),
    *,
    tight: bool | None = None,
    routed: bool = False,
) -> History:
    """Return what happens, `without` some of the steps; `aim` names what users do, in this order.

    The seed decides whether the world is tight, unless `tight` does; `routed`: with ModelServices and gateways.
    """
    gc.collect()
    forget()
    drawn = Random(seed)  # noqa: S311  # the same history for the same seed
    hostile, lag = drawn.random() < HOSTILE, drawn.choice(LAGS)
    plane = Plane(replace(Settings(), seed=seed, lag=lag, lag_varies=True, ttl=True))
    words = Words()
    auditor = Auditor(plane, words)
    plane.core.function.say = auditor.say
    if aim:
        plane.core.function.twice, auditor.ends = TWICE_AIMED, True
    if drawn.random() < LIMITED:
        auditor.limits = Limits(placements=3, gpus=drawn.choice((0, 24, 40)))
    tight = is_tight(seed) if tight is None else tight
    plane.provider.gateways.playing = routed
    _configure(plane, auditor.limits)
    plane.provider.slow_downloads = tight
    if drawn.random() < OBSERVED and not tight:
        plane.nodes.show()
    users = (TightWorld if tight else Everybody)(plane, auditor, words, seed)
    users.hostile, users.aim = hostile and not aim, tuple(aim)
    users.maintained, users.routed = is_maintained(seed), plane.provider.gateways.playing
    history = History(seed, hostile=hostile, tight=tight, done=users.done)
    try:
        _play(plane, users, auditor, drawn, without)
    except FoundError:
        pass  # the violation says what
    except UnsettledError as error:
        auditor.ends = False
        auditor.say(str(error))
    history.violations, history.faults = auditor.violations, plane.provider.faults
    history.faults["core died"] = plane.core.deaths
    history.calls, history.reconciles = plane.meter.calls.total(), plane.meter.rounds.total()
    failed = plane.meter.failed
    history.violations += [f"{count} x {what}" for what, count in failed.items() if count > RETRIED.get(what, 0)]
    most = max((rounds for rounds, count in plane.meter.quiet_rounds.items() if count), default=0)
    if most > MOST_ROUNDS:
        history.violations.append(f"a reconcile of {most} rounds, under which nothing changed")
    return history


def _configure(plane: Plane, limits: Limits) -> None:
    """Set what the input of the pipeline step has."""
    said: Manifest = {"limits": {"placementsPerNamespace": limits.placements, "gpusPerNamespace": limits.gpus}}
    routed = plane.provider.gateways.playing
    if limits != Limits() or routed:
        plane.core.function.configure({**said, **(GATEWAY if routed else {})}, lambda: BEGAN + plane.kernel.now)


def _play(plane: Plane, users: Everybody, auditor: Auditor, drawn: Random, without: Collection[int]) -> None:
    users.begin()
    plane.rest()
    for step in range(TIGHT_STEPS if isinstance(users, TightWorld) else STEPS):
        rests, waits = (
            drawn.random() < (0.7 if users.aim else 0.25),
            drawn.choice((0.0, 0.1, 1.0, 5.0, 60.0)) * drawn.random(),
        )
        if step not in without:
            users.act(step)
        if rests:
            plane.rest()
        else:
            plane.kernel.pass_time(waits)
    plane.provider.answers(())
    plane.rest()
    plane.kernel.pass_time(LOOKS_AGAIN_SECONDS)
    plane.rest()
    auditor.at_rest()


def shrink(seed: int, player: Callable[..., History] = play) -> tuple[set[int], History]:
    """Return the steps without which a failing history still fails, one after the other left out, and that history."""
    without, found = set[int](), player(seed)
    for step in reversed(range(STEPS)):
        tried = player(seed, without | {step})
        if tried.violations:
            without, found = without | {step}, tried
    return without, found
