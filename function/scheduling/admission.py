"""Who may start: an environment admits placements to its pools, and a placement finds out whether it was.

Nothing starts unadmitted, so that two services never hold the same GPUs. An admission is for so many replicas of one
shape in one pool, and grants that and no more, also to what served.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from function.domain.allocation import Free, Grant, QuotaUsage
from function.domain.environment import Environment, find_pools
from function.domain.placement import Placement
from function.kube.names import LABEL_ENVIRONMENT
from function.reasons import Admitted
from function.scheduling.ledger import (
    PoolLedger,
    allocate_pool,
    fits_empty_pool,
    grant_sort_key,
    is_charged,
    remaining_grant,
)

# Placements that an environment's status has room for, of the 1 MiB that an object may have: those admitted with some
# 200 bytes each, those that there is no room for with 75 (docs/performance.md). Whoever is beyond the latter is not
# judged: those before it decide again, and leave.
MAX_ADMITTED, MAX_REJECTED = 4_000, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentLedger:
    """All pools of an environment by name. `grants` are those of pools that cannot be read, too."""

    pools: Mapping[str, PoolLedger]
    grants: tuple[Grant, ...]

    @property
    def rejected(self) -> tuple[tuple[str, str], ...]:
        """Whom there is no room for, by uid and pool, as many as are named; not what users wrote, as there may be any
        number of it.
        """
        found = sorted((p.uid, p.pool) for ledger in self.pools.values() for p in ledger.rejected if p.owner)
        return tuple(found[:MAX_REJECTED])


def admit_placements(environment: Environment, placements: Collection[Placement]) -> EnvironmentLedger:
    """Return the ledger of an environment from all that is on it, and from what it has published."""
    admitted = {grant.uid for grant in environment.admitted}
    mine = [p for p in placements if p.environment == environment.name and is_charged(environment, p, admitted)]
    there = {p.uid: p for p in mine}
    # What names another environment by now has not moved: its objects are here until it is deleted.
    stays = there.keys() | {p.uid for p in placements if p.environment != environment.name and p.allocated is not None}
    granted = [grant for grant in environment.admitted if grant.uid in stays]
    concerned = _group_by_pool(environment, mine, granted)
    rows = Counter(grant.share.pool for grant in granted)
    pools: dict[str, PoolLedger] = {}
    for pool in environment.pools:
        here, grants = concerned[pool.name]
        most = MAX_ADMITTED - len(granted) + rows[pool.name]
        pools[pool.name] = allocate_pool(pool, here, grants, most, environment.pools)
    unread = (
        _remaining_grant_of_unreadable_pool(environment, grant, there.get(grant.uid))
        for grant in granted
        if grant.share.pool not in pools
    )
    every = [*(grant for grant in unread if grant), *(grant for ledger in pools.values() for grant in ledger.grants)]
    return EnvironmentLedger(pools=pools, grants=tuple(sorted(every, key=grant_sort_key)))


def _group_by_pool(
    environment: Environment, placements: Iterable[Placement], granted: Iterable[Grant]
) -> Mapping[str, tuple[list[Placement], list[Grant]]]:
    """Return for each pool those who ask for it, are granted or use some of it, and its grants."""
    grants: dict[str, list[Grant]] = defaultdict(list)
    names: dict[str, set[str]] = defaultdict(set)
    for grant in granted:
        grants[grant.share.pool].append(grant)
        names[grant.uid].add(grant.share.pool)
    found: dict[str, list[Placement]] = defaultdict(list)
    for placement in placements:
        uses = find_pools(placement.allocated, environment.pools) if placement.allocated else ()
        for name in {placement.pool, *uses, *names[placement.uid]} if placement.uid else {placement.pool, *uses}:
            found[name].append(placement)
    return {pool.name: (found[pool.name], grants[pool.name]) for pool in environment.pools}


def _remaining_grant_of_unreadable_pool(
    environment: Environment, grant: Grant, placement: Placement | None
) -> Grant | None:
    """Return how much stays of a grant of a pool that is gone or cannot be read; none, where the pool has another name
    by now and is charged.
    """
    takes, name = placement.allocated if placement else None, grant.share.pool
    if name not in environment.broken_pools and takes and takes.is_like(grant.share):
        return None if name not in find_pools(takes, environment.pools) else remaining_grant(grant, placement)
    return remaining_grant(grant, placement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether a placement may start.

    `replicas`: how many of those that it asks for it was admitted for. `free` is what its environment says is left of
    its pool, None where it does not say; `whole` whether each pod needs a node's GPUs though it takes fewer; `spare`
    whether there is room for one more pod beside those that it has; `never` whether the pool would not hold what it
    asks for if it were empty. `labels`: those that it lacks, as they should be. `excess`: why its namespace may not
    take what it asks for. `bound`: as many placements its environment names, where that is why it waits.
    """

    reason: Admitted
    replicas: int = 0
    evaluated: bool = False
    free: Free | None = None
    exclusive_node: bool = False
    has_room_for_pod: bool = True
    exceeds_pool: bool = False
    labels: Mapping[str, str]
    quota_usage: QuotaUsage | None = None
    status_limit: int | None = None

    @property
    def may_compose(self) -> bool:
        """Whether what it asks for may be composed, be it with fewer replicas."""
        return self.reason is Admitted.ADMITTED or (self.replicas > 0 and self.reason is not Admitted.LABEL_MISSING)


def check_admission(placement: Placement, environment: Environment, labels: Mapping[str, str]) -> Admission:
    """Judge a placement by what its environment published; one from a file admits everything.

    `labels` are those by which it must be found.
    """
    asks, has = placement.requested, dict(placement.labels)
    if not environment.uid or asks is None:
        return Admission(reason=Admitted.ADMITTED, replicas=max(0, placement.replicas), labels={})
    granted = [grant.share.replicas for grant in environment.find_grants(placement.uid) if grant.share.is_like(asks)]
    # Whom the environment has admitted it finds by name as well.
    known = {LABEL_ENVIRONMENT} if granted else set[str]()
    missing = {key: value for key, value in labels.items() if key not in known and has.get(key) != value}
    # Of what users wrote only who is admitted is published.
    judged = not placement.owner or (placement.uid, placement.pool) in environment.rejected
    if missing:
        reason = Admitted.LABEL_MISSING
    elif max(granted, default=0) >= asks.replicas:
        reason = Admitted.ADMITTED
    else:
        # What no deployment composed is moved by nobody: it is admitted when there is room.
        reason = Admitted.REJECTED if judged and placement.owner else Admitted.WAITING
    pool, free = environment.pool(placement.pool), environment.free.get(placement.pool)
    whole = pool is not None and pool.needs_exclusive_node(asks.nodes, asks.gpus_per_node)
    pod = pool.gpus_per_node if pool and whole else asks.gpus_per_node
    return Admission(
        reason=reason,
        replicas=max(granted, default=0),
        evaluated=judged,
        free=free,
        exclusive_node=whole,
        has_room_for_pod=free is None or any(gpus >= pod for gpus, _ in free.nodes),
        exceeds_pool=pool is not None and not fits_empty_pool(pool, asks),
        labels=missing,
        status_limit=None if reason is Admitted.ADMITTED or granted else _status_limit(environment, judged=judged),
    )


def _status_limit(environment: Environment, *, judged: bool) -> int | None:
    """Return how many placements an environment names, of those that this one would be among, if it names no more."""
    if judged:
        return MAX_ADMITTED if len(environment.admitted) >= MAX_ADMITTED else None
    return MAX_REJECTED if len(environment.rejected) >= MAX_REJECTED else None


def apply_quota(
    found: Admission, placement: Placement, environment: Environment, excess: QuotaUsage | None
) -> Admission:
    """Return an admission within the quota of a namespace: beyond it a placement has what it has.

    One that has said that it is beyond, or that it cannot start, and starts nothing, is left out of its environment's
    ledger. Once that is over it says so when the environment has done that, and then is admitted again: what it was
    granted before is another's.
    """
    left_out = (placement.over_quota or placement.cannot_start) and not placement.has_resources
    stale = left_out and bool(environment.find_grants(placement.uid))
    if found.reason is Admitted.LABEL_MISSING or (excess is None and not stale):
        return found
    if excess is None and placement.cannot_start:
        return replace(found, reason=Admitted.CANNOT_START, replicas=0)
    asks, has = placement.requested, placement.allocated
    took = has.replicas if has and asks and has.is_like(asks) else 0
    return replace(found, reason=Admitted.QUOTA_EXCEEDED, replicas=min(found.replicas, took), quota_usage=excess)
