"""What stays, what is decided again, and what yields.

A placement that exists stays where it is: also when its environment is not Ready, the capabilities or the
storage of its pool drifted, a better profile became possible, or its pool is overcommitted and it ever
served. Where an environment, a pool or a profile is declared but cannot be read, it stays as well: invalid
input tears nothing down.

It is decided again where its environment or pool is gone or going, its profile is gone or has another
shape, a selector no longer admits the environment, or it shall run another model than was decided there and the pool
does not suit that. For VRAM maths the shape is computed again when the
model's vram is another one, not when the memory of the pool drifted.

It yields where it never served and its environment has no room for it in its turn (see ledger.py): two deployments
that decided at the same moment took the same room. It yields as well where its environment has not admitted it and
nothing of it was composed, and would not be chosen any more: nobody waits for what does not come up. One that served
and has no room for another shape that it was given is decided again, and runs on meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from function.domain.environment import Environment, Pool
from function.domain.model import Profile
from function.domain.placement import Placement
from function.scheduling.judge import suits, unselected, unselected_by
from function.scheduling.ledger import Ledger
from function.scheduling.request import SchedulingRequest
from function.scheduling.shape import replica_shape
from function.scheduling.verdicts import DropCause, Dropped


class Standing(Enum):
    """What becomes of a placement."""

    STAYS = "stays"
    AGAIN = "again"
    YIELDS = "yields"


@dataclass(frozen=True, slots=True)
class Retained:
    """Own placements by what becomes of them, each by name of its environment; at most one an environment."""

    stays: tuple[Placement, ...] = ()
    again: tuple[Placement, ...] = ()
    dropped: tuple[Dropped, ...] = ()


def keep_first(placement: Placement) -> tuple[bool, bool, bool, bool, str, str]:
    """Sorts placements so that those which shall stay longest come first: who is Ready, was once, has begun."""
    served, begun = placement.served, placement.begun
    return placement.deleting, not placement.ready, not served, not begun, placement.environment, placement.name


def retain(
    request: SchedulingRequest, environments: Mapping[str, Environment], own: Iterable[Placement], ledger: Ledger
) -> Retained:
    """Sort a deployment's own placements; `environments` are those that are not being deleted."""
    seen: set[str] = set()
    dropped: list[Dropped] = []
    by_standing: dict[Standing, list[Placement]] = {standing: [] for standing in Standing}
    for placement in sorted(own, key=keep_first):
        if placement.environment in seen:
            dropped.append(Dropped(placement=placement, cause=DropCause.SCALED_DOWN))
            continue
        seen.add(placement.environment)
        environment = environments.get(placement.environment)
        by_standing[_standing(request, environment, placement, ledger)].append(placement)
    dropped += (Dropped(placement=placement, cause=DropCause.YIELDED) for placement in by_standing[Standing.YIELDS])
    return Retained(tuple(by_standing[Standing.STAYS]), tuple(by_standing[Standing.AGAIN]), tuple(dropped))


def profile_of(request: SchedulingRequest, name: str) -> Profile | None:
    """Return the valid profile of a name, if there is one."""
    return next((p for p in request.model.profiles if p.name == name), None)


def _standing(
    request: SchedulingRequest, environment: Environment | None, placement: Placement, ledger: Ledger
) -> Standing:
    if environment is None:
        return Standing.AGAIN
    pool = environment.pool(placement.pool)
    if pool is not None and not ledger.keeps(environment, pool, placement):
        return Standing.YIELDS
    if _waits_in_vain(environment, placement):
        return Standing.YIELDS
    if _outgrown(environment, placement) or not _stays(request, environment, pool, placement):
        return Standing.AGAIN
    return Standing.STAYS


def _waits_in_vain(environment: Environment, placement: Placement) -> bool:
    chosen_anew = environment.ready and not environment.broken
    admitted = not environment.uid or environment.find_grants(placement.uid)
    return not (chosen_anew or admitted or placement.begun)


def _outgrown(environment: Environment, placement: Placement) -> bool:
    """Tell whether there is no room for another shape, or in another pool, than those it was admitted for."""
    asks = placement.asks
    if asks is None or (placement.uid, placement.pool) not in environment.yields:
        return False
    return not any(grant.share.is_like(asks) for grant in environment.find_grants(placement.uid))


def _stays(request: SchedulingRequest, environment: Environment, pool: Pool | None, placement: Placement) -> bool:
    if environment.broken:
        return True
    if unselected(request, environment):
        return False
    if _unreadable(request, environment, placement):
        return True
    profile = profile_of(request, placement.profile)
    if profile is None or pool is None or unselected_by(profile, environment) is not None:
        return False
    if placement.model != request.deployment.model and not suits(request, environment, profile, pool):
        return False
    return not _reshaped(request, profile, pool, placement)


def _unreadable(request: SchedulingRequest, environment: Environment, placement: Placement) -> bool:
    """Tell whether the profile or the pool is declared in a way that cannot be read."""
    broken = {profile.name for profile in request.model.broken}
    return placement.profile in broken or placement.pool in environment.broken_pools


def _reshaped(request: SchedulingRequest, profile: Profile, pool: Pool, placement: Placement) -> bool:
    if placement.shape is None:
        return False
    if profile.shape is not None:
        return profile.shape != placement.shape
    if placement.vram is not None and placement.vram == request.model.vram:
        return False  # whatever became of the pool's memory
    computed = replica_shape(profile, request.model.vram, pool)
    return computed is not None and computed != placement.shape
