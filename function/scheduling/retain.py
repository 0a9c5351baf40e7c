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
from function.scheduling.judge import refused_by_profile_selector, refused_by_selectors, satisfies_requirements
from function.scheduling.ledger import Ledger
from function.scheduling.request import SchedulingRequest
from function.scheduling.shape import replica_shape
from function.scheduling.verdicts import DropCause, Dropped


class Retention(Enum):
    """What becomes of a placement."""

    KEEP = "keep"
    RESCHEDULE = "reschedule"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class Retained:
    """Own placements by what becomes of them, each by name of its environment; at most one an environment."""

    retained: tuple[Placement, ...] = ()
    to_reschedule: tuple[Placement, ...] = ()
    dropped: tuple[Dropped, ...] = ()


def retention_order(placement: Placement) -> tuple[bool, bool, bool, bool, str, str]:
    """Sorts placements so that those which shall stay longest come first: who is Ready, was once, has begun."""
    served, begun = placement.was_ready, placement.has_resources
    return placement.deleting, not placement.ready, not served, not begun, placement.environment, placement.name


def retain(
    request: SchedulingRequest, environments: Mapping[str, Environment], own: Iterable[Placement], ledger: Ledger
) -> Retained:
    """Sort a deployment's own placements; `environments` are those that are not being deleted."""
    seen: set[str] = set()
    dropped: list[Dropped] = []
    by_standing: dict[Retention, list[Placement]] = {standing: [] for standing in Retention}
    for placement in sorted(own, key=retention_order):
        if placement.environment in seen:
            dropped.append(Dropped(placement=placement, cause=DropCause.SCALED_DOWN))
            continue
        seen.add(placement.environment)
        environment = environments.get(placement.environment)
        by_standing[_decide_retention(request, environment, placement, ledger)].append(placement)
    dropped += (Dropped(placement=placement, cause=DropCause.EVICTED) for placement in by_standing[Retention.EVICT])
    return Retained(tuple(by_standing[Retention.KEEP]), tuple(by_standing[Retention.RESCHEDULE]), tuple(dropped))


def find_profile(request: SchedulingRequest, name: str) -> Profile | None:
    """Return the valid profile of a name, if there is one."""
    return next((p for p in request.model.profiles if p.name == name), None)


def _decide_retention(
    request: SchedulingRequest, environment: Environment | None, placement: Placement, ledger: Ledger
) -> Retention:
    if environment is None:
        return Retention.RESCHEDULE
    pool = environment.pool(placement.pool)
    if pool is not None and not ledger.keeps_place(environment, pool, placement):
        return Retention.EVICT
    if _admission_impossible(environment, placement):
        return Retention.EVICT
    if _new_shape_rejected(environment, placement) or not _is_still_valid(request, environment, pool, placement):
        return Retention.RESCHEDULE
    return Retention.KEEP


def _admission_impossible(environment: Environment, placement: Placement) -> bool:
    chosen_anew = environment.ready and not environment.broken
    admitted = not environment.uid or environment.find_grants(placement.uid)
    return not (chosen_anew or admitted or placement.has_resources)


def _new_shape_rejected(environment: Environment, placement: Placement) -> bool:
    """Tell whether there is no room for another shape, or in another pool, than those it was admitted for."""
    asks = placement.requested
    if asks is None or (placement.uid, placement.pool) not in environment.rejected:
        return False
    return not any(grant.share.is_like(asks) for grant in environment.find_grants(placement.uid))


def _is_still_valid(
    request: SchedulingRequest, environment: Environment, pool: Pool | None, placement: Placement
) -> bool:
    if environment.broken:
        return True
    if refused_by_selectors(request, environment):
        return False
    if _is_unreadable(request, environment, placement):
        return True
    profile = find_profile(request, placement.profile)
    if profile is None or pool is None or refused_by_profile_selector(profile, environment) is not None:
        return False
    if placement.model != request.deployment.model and not satisfies_requirements(request, environment, profile, pool):
        return False
    return not _is_reshaped(request, profile, pool, placement)


def _is_unreadable(request: SchedulingRequest, environment: Environment, placement: Placement) -> bool:
    """Tell whether the profile or the pool is declared in a way that cannot be read."""
    broken = {profile.name for profile in request.model.broken}
    return placement.profile in broken or placement.pool in environment.broken_pools


def _is_reshaped(request: SchedulingRequest, profile: Profile, pool: Pool, placement: Placement) -> bool:
    if placement.shape is None:
        return False
    if profile.shape is not None:
        return profile.shape != placement.shape
    if placement.vram is not None and placement.vram == request.model.vram:
        return False  # whatever became of the pool's memory
    computed = replica_shape(profile, request.model.vram, pool)
    return computed is not None and computed != placement.shape
