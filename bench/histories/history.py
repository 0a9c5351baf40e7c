"""One history: from its seed to what was wrong in it."""

import gc
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from bench.histories.auditor import Auditor, FoundError
from bench.histories.cloud import CloudAuditor
from bench.histories.governance import PlatformSettings
from bench.histories.harm import Everybody
from bench.histories.plane import MOST_ROUNDS, Plane, forget
from bench.histories.tight import GUARANTEES, TightWorld
from bench.histories.words import Words
from bench.simulator.plane import UnsettledError
from bench.simulator.rounds import LISTS_CHANGED
from bench.simulator.settings import Settings
from function.domain.allocation import Limits

STEPS, TIGHT_STEPS = 10, 8  # more happens in each step in a tight world
# Longer than any TTL: a controller that missed an event has reconciled by then.
LOOKS_AGAIN_SECONDS = 700.0
LAGS = (0.0, 0.05, 0.05, 1.0, 5.0)
# How many histories have users who mean harm, a quota for each namespace, nodes that are looked at.
HOSTILE, LIMITED, OBSERVED = 0.2, 0.25, 0.3
# How many play in a tight world, where no nodes are looked at.
TIGHT = 0.15
# Of the tight ones, how many have a platform that allows preemption, and one that guarantees GPUs to namespaces.
PREEMPTS, GUARANTEED = 0.3, 0.3
# How many have maintenance of environments and pools, settings and labels that change, and clusters that delete slowly.
MAINTAINED, GOVERNED, RELABELLED, SLOW = 0.25, 0.3, 0.25, 0.3
# How many have ModelServices and gateways; no tight world has them.
ROUTED = 0.25
# How many have environments that create their clusters.
CREATED = 0.2
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


def draws(seed: int, what: str, share: float) -> bool:
    """Tells whether the history of a seed has something that so many have."""
    return Random(f"{seed} {what}").random() < share  # noqa: S311  # the same for the same seed


def draw_guarantee(seed: int) -> int:
    """Returns how many GPUs each namespace is guaranteed in the history of a seed."""
    return Random(f"{seed} guarantee").choice(GUARANTEES)  # noqa: S311  # the same for the same seed


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What there is in a history; None: the seed decides."""

    tight: bool | None = None  # little room
    routed: bool | None = None  # ModelServices and gateways
    created: bool | None = None  # environments that create their clusters


ANY = World()


def play(
    seed: int, without: Collection[int] = (), aim: Sequence[str] = (), world: World = ANY, *, plain: bool = False
) -> History:
    """Return what happens, `without` some of the steps; `aim` names what users do, in this order.

    A `plain` history has no settings or labels that change, and nothing that goes slowly.
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
    limits = Limits(placements=3, gpus=drawn.choice((0, 24, 40))) if drawn.random() < LIMITED else Limits()
    tight = draws(seed, "tight", TIGHT) if world.tight is None else world.tight
    if tight:
        guaranteed = draw_guarantee(seed) if draws(seed, "guaranteed", GUARANTEED) else None
        limits = replace(limits, preempts=draws(seed, "preempts", PREEMPTS), guaranteed_gpus=guaranteed)
    routed = not (tight or aim) and draws(seed, "routed", ROUTED) if world.routed is None else world.routed
    plane.provider.gateways.playing = routed
    created = not (tight or aim) and draws(seed, "created", CREATED) if world.created is None else world.created
    if created:
        plane.cloud.begin(CloudAuditor(plane.server, auditor.say).hit)
    settings = PlatformSettings(plane, auditor)
    if limits != Limits() or routed:
        settings.limit(limits)
    plane.provider.slow_downloads = tight
    if drawn.random() < OBSERVED and not tight:
        plane.nodes.show()
    users = (TightWorld if tight else Everybody)(plane, auditor, words, seed)
    users.hostile, users.aim = hostile and not aim, tuple(aim)
    users.settings, users.routed, users.created = settings, routed, created
    if not aim:
        _draw_features(users, plain=plain)
    history = History(seed, hostile=hostile, tight=tight, done=users.done)
    _play_out(plane, users, auditor, drawn, without)
    _conclude(history, plane, auditor)
    return history


def _play_out(plane: Plane, users: Everybody, auditor: Auditor, drawn: Random, without: Collection[int]) -> None:
    """Play until the end, or until something is found."""
    try:
        _play(plane, users, auditor, drawn, without)
    except FoundError:
        pass  # the violation says what
    except UnsettledError as error:
        auditor.ends = False
        auditor.say(str(error))


def _draw_features(users: Everybody, *, plain: bool) -> None:
    """Decide what else happens in a history whose users are aimed at nothing."""
    users.maintained = draws(users.seed, "maintained", MAINTAINED)
    if plain:
        return
    users.governed = draws(users.seed, "governed", GOVERNED)
    users.relabelled = draws(users.seed, "relabelled", RELABELLED)
    users.slow = draws(users.seed, "slow", SLOW)
    if users.slow:
        users.slow_deletions()


def _conclude(history: History, plane: Plane, auditor: Auditor) -> None:
    """Count what a history took, and what failed in it."""
    history.violations, history.faults = auditor.violations, plane.provider.faults
    history.faults["core died"] = plane.core.deaths
    history.calls, history.reconciles = plane.meter.calls.total(), plane.meter.rounds.total()
    failed = plane.meter.failed
    history.violations += [f"{count} x {what}" for what, count in failed.items() if count > RETRIED.get(what, 0)]
    most = max((rounds for rounds, count in plane.meter.quiet_rounds.items() if count), default=0)
    if most > MOST_ROUNDS:
        history.violations.append(f"a reconcile of {most} rounds, under which nothing changed")


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
    plane.cloud.come_back(down=False)
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
