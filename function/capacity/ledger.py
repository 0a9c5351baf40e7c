"""The ledger: which placements have which GPUs of a pool, which are admitted to more, and which are rejected.

Environments publish the ledger (decision 15). A deployment computes a ledger itself in two cases: it needs to know what
is free without its own placements, or the environment comes from a file. Environments and deployments charge in the
same order, from what both can observe:

1. Grants, as far as they are still requested or allocated.
2. Services that run without a grant, because the environment lost its status.
3. Every other request, if there is room: requests for guaranteed replicas before those for lent replicas, and among
   them first placements that were ever Ready, then placements with composed resources, then by priority, creation, uid
   and name. (A placement has composed resources only after it was admitted. If its status was lost, its Objects show
   this.) A request for guaranteed replicas that does not fit waits if lent replicas can be taken back for it
   (reclaim.py). Every other request that does not fit is rejected, and leaves its GPUs to the requests after it. Only a
   placement that has replicas of this size already is granted fewer than it requests: as many as fit.

A placement that is being deleted still has its nodes. If the nodes of a pool have fewer GPUs by now than a granted or
serving replica, the replica is charged whole nodes. An overcommitted pool has nothing left. Unusable nodes are not
available to new placements; granted and serving placements keep their nodes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from function.capacity.pools import Holdings, PoolCapacity, empty_pool, take_share
from function.capacity.reclaim import ReclaimPlan, may_lend
from function.domain.allocation import Claim, Free, Grant, Share
from function.domain.environment import Environment, Pool
from function.domain.placement import Placement, Stage
from function.kube.names import LABEL_ENVIRONMENT, label_value

# Limits that keep the status of an environment within the 1 MiB that an object may have: an admitted placement takes
# some 200 bytes, a rejected placement 75 (docs/performance.md). Placements beyond MAX_REJECTED are evaluated once the
# listed placements have left.
MAX_ADMITTED = 4_000
MAX_REJECTED = 1_000


def charge_order(placement: Placement) -> tuple[bool, bool, int, str, str, str, str]:
    """Returns the sort key by which the requests of placements are charged."""
    return (
        placement.stage < Stage.SERVED,
        not placement.may_have_resources,
        -placement.priority,
        placement.created,
        placement.uid,
        placement.namespace,
        placement.name,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLedger:
    capacity: PoolCapacity  # what is left
    grants: tuple[Grant, ...]
    rejected: tuple[Placement, ...]
    # Free nodes after lent replicas were taken back, by the priority that a request needs for this (`Free`).
    reclaimable: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()


def allocate_pool(
    pool: Pool, placements: Iterable[Placement], granted: Iterable[Grant] = (), max_grants: int | None = None
) -> PoolLedger:
    """Charges the placements of an environment to one of its pools.

    A grant remains if its placement is not among `placements` or cannot be read. Once there are `max_grants` grants, no
    new placement gets one. Requests that are granted one by one may fit closer together once all of them are known, so
    rejected requests are tried again.
    """
    known = {_key(p): p for p in sorted(placements, key=charge_order)}
    granted = [*granted]
    previous = {_key(grant): grant.yields for grant in granted if grant.yields}
    granted_more = True
    while granted_more:  # each pass except the last makes a grant; no grant is made twice
        holdings = _collect_holdings(pool, known, granted)
        plan = ReclaimPlan(known, holdings, previous)
        rejected, granted_more = _grant_in_turn(pool, known.values(), holdings, max_grants, plan)
        granted = holdings.all_grants()
    if previous or plan.yields:
        granted = [replace(grant, yields=plan.find_yield(_key(grant))) for grant in granted]
    return PoolLedger(
        capacity=holdings.free_capacity(),
        grants=tuple(sorted(granted, key=_grant_sort_key)),
        rejected=rejected,
        reclaimable=tuple(plan.list_reclaimable()),
    )


def _collect_holdings(pool: Pool, known: Mapping[str, Placement], granted: Iterable[Grant]) -> Holdings:
    """Returns what is granted, and what runs without a grant."""
    holdings = Holdings(pool)
    for grant in granted:
        remaining = remaining_grant(grant, known.get(grant.uid))
        if remaining and _is_grant_of(remaining, pool):
            holdings.add(_key(remaining), remaining)
    for key, placement in known.items():
        share = _find_allocated(placement)
        is_granted = any(share and grant.share.has_same_pool_and_size(share) for grant in holdings.grants_of(key))
        if share and share.pool == pool.name and not is_granted:
            holdings.add(key, _make_grant(placement, share))
    return holdings


def _grant_in_turn(
    pool: Pool, placements: Collection[Placement], holdings: Holdings, max_grants: int | None, plan: ReclaimPlan
) -> tuple[tuple[Placement, ...], bool]:
    """Grants what fits, in the order of the placements; returns the rejected ones, and whether any grant was made.

    The free capacity depends on all holdings in their own order, and not on the order in which they were granted. It is
    therefore computed again after a grant. If the grant sorts last among the holdings, it is subtracted instead, with
    the same result.
    """
    rejected: dict[str, Placement] = {}
    granted_more = False
    capacity: PoolCapacity | None = None  # what all grants leave; None: to be computed
    refused: set[tuple[Share | int, ...]] = set()  # sizes that did not fit since the last grant
    for placement, request, is_guaranteed in _list_requests(pool, placements):
        key = _key(placement)
        own = holdings.grants_of(key)
        has = max((grant.share.replicas for grant in own if grant.share.has_same_pool_and_size(request)), default=0)
        if has >= request.replicas or key in rejected or key in plan.claimants:
            continue
        claim = Claim(requested=request, minimum=has + 1 if has else request.replicas)
        fitting = request
        if not placement.uid:  # no grant records that nodes had more GPUs when a placement from a file was written
            fitting = replace(request, gpus_per_node=min(request.gpus_per_node, pool.gpus_per_node))
        # Placements with the same request and the same grants get the same answer, so a refused size is not tried
        # again.
        size = (fitting, *(grant.share for grant in own))
        is_full = not own and max_grants is not None and holdings.rows >= max_grants
        if size not in refused and not is_full:
            if not own and capacity is None:
                capacity = holdings.free_capacity()
            left = capacity if capacity and not own else holdings.free_capacity(without=key)
            if granted := claim.limit(plan.limit(key, fitting, left.count_fitting(fitting))):
                # The grants in other shapes are charged too, until the service has released them.
                in_other_shapes = (grant for grant in own if not grant.share.has_same_pool_and_size(request))
                holdings.replace(key, [*in_other_shapes, _make_grant(placement, granted)])
                plan.note(key)
                capacity = (
                    take_share(capacity, granted) if capacity and not own and holdings.charges_last(granted) else None
                )
                granted_more = True
                refused.clear()
                if granted == request:
                    continue
            else:
                refused.add(size)
        if not (is_guaranteed and not is_full and plan.reclaim(key, placement, fitting, claim.minimum)):
            rejected[key] = placement
    return tuple(rejected.values()), granted_more


def _list_requests(pool: Pool, placements: Collection[Placement]) -> Iterator[tuple[Placement, Share, bool]]:
    """Yields what placements request of a pool, and whether this is guaranteed: first all that is guaranteed."""
    lent: list[tuple[Placement, Share]] = []
    for placement in placements:
        request = placement.effective_request
        if request is None or request.pool != pool.name or not request.replicas:
            continue
        if placement.guaranteed is None:
            yield placement, request, True
            continue
        guaranteed = placement.guaranteed_replicas
        if guaranteed < request.replicas:
            lent.append((placement, request))
        if guaranteed:
            yield placement, replace(request, replicas=min(guaranteed, request.replicas)), True
    for placement, request in lent:
        yield placement, request, False


def _find_allocated(placement: Placement) -> Share | None:
    """Returns what a service has of a pool."""
    return placement.service.allocated or (placement.requested if placement.stage is Stage.SERVED else None)


def _key(item: Placement | Grant) -> str:
    """Identifies a placement: by its uid, or by its namespace and name if it comes from a file."""
    return item.uid or f"{item.namespace}/{item.name}"


def _grant_sort_key(grant: Grant) -> tuple[str, str, str, str, int, int]:
    share = grant.share
    return grant.namespace, grant.name, grant.uid, share.pool, share.nodes, share.gpus_per_node


def _is_grant_of(grant: Grant, pool: Pool) -> bool:
    return grant.share.pool == pool.name and grant.share.nodes > 0 and grant.share.gpus_per_node > 0


def _make_grant(placement: Placement, share: Share) -> Grant:
    return Grant(
        uid=placement.uid,
        namespace=placement.namespace,
        name=placement.name,
        share=share,
        generation=placement.generation,
    )


def remaining_grant(grant: Grant, placement: Placement | None) -> Grant | None:
    """Returns how much of a grant remains.

    The whole grant remains until the placement has observed its current spec: under the earlier spec, it may have used
    the grant a moment ago, and its status does not say so yet.

    A placement that is held back may have used the grant under its current spec, so its generation
    does not show whether it still does. The environment therefore revokes the grant first. The grant ends once the
    placement has repeated the revocation in its status: from then on, it never uses more than its status says.
    """
    if (
        placement is None
        or not placement.status_is_current
        or (placement.requested is None and not placement.admission.cannot_start)
    ):
        return grant
    if grant.revoked and grant.revoked not in placement.admission.revoked:
        return grant
    shares = (placement.effective_request, placement.service.allocated)
    replicas = max(
        (share.replicas for share in shares if share and share.has_same_pool_and_size(grant.share)), default=0
    )
    unrevoked = replace(grant, revoked="") if grant.revoked else grant
    usable = count_usable(unrevoked, placement)
    remaining = min(usable, replicas)
    if placement.is_held_back and remaining < usable and not grant.revoked and placement.version:
        return replace(grant, revoked=placement.version)
    if not remaining:
        return None
    exclusive = placement.exclusive_replica_nodes
    share = grant.share
    if (share.replicas, share.exclusive_replica_nodes) == (remaining, exclusive):
        return unrevoked
    return replace(unrevoked, share=replace(share, replicas=remaining, exclusive_replica_nodes=exclusive))


def count_usable(grant: Grant, placement: Placement) -> int:
    """Returns how many replicas of a grant a placement may use.

    GPUs that the placement has released since, or that are revoked, may be granted to another placement by now. Both
    the placement and its environment may have read an older version of the other. The placement therefore uses only
    what its service still has, until a later grant gives it more.
    """
    released = placement.admission.released
    allocated = placement.service.allocated
    has = allocated.replicas if allocated and allocated.has_same_pool_and_size(grant.share) else 0
    if grant.revoked:
        return min(grant.share.replicas, has)
    # A release of the current spec takes nothing from what this spec requests.
    if released is None or released.generation >= placement.generation:
        return grant.share.replicas
    return max(released.limit(grant.share, grant.generation), min(grant.share.replicas, has))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentLedger:
    pools: Mapping[str, PoolLedger]  # by name; valid pools only
    grants: tuple[Grant, ...]  # of all pools, including pools that cannot be read
    # The uid and the pool of one rejected placement of each deployment. Placements that users wrote are left out,
    # because nothing limits their number.
    rejected: tuple[tuple[str, str], ...]


def admit_placements(environment: Environment, placements: Collection[Placement]) -> EnvironmentLedger:
    """Computes the ledger of an environment from the placements on it and from what it has published."""
    admitted = {grant.uid for grant in environment.admitted}
    charged = [p for p in placements if p.environment == environment.name and is_charged(environment, p, admitted)]
    by_uid = {p.uid: p for p in charged}
    # A placement that now names another environment has not moved: its objects are here until it is deleted.
    moved = {p.uid for p in placements if p.environment != environment.name and p.service.allocated is not None}
    granted = [grant for grant in environment.admitted if grant.uid in by_uid or grant.uid in moved]
    by_pool = _group_by_pool(environment, charged, granted)
    pools: dict[str, PoolLedger] = {}
    for pool in environment.pools:
        placements_of, grants_of = by_pool[pool.name]
        max_grants = MAX_ADMITTED - len(granted) + len(grants_of)
        pools[pool.name] = allocate_pool(pool, placements_of, grants_of, max_grants)
    of_other_pools = (grant for grant in granted if grant.share.pool not in pools)
    remaining = (remaining_grant(grant, by_uid.get(grant.uid)) for grant in of_other_pools)
    grants = [*filter(None, remaining), *(grant for ledger in pools.values() for grant in ledger.grants)]
    # A deployment has one placement here. Further placements with its uid as their owner are about to be deleted, or
    # were written by a user.
    of_deployments = (p for ledger in pools.values() for p in ledger.rejected if p.owner)
    by_owner = {(p.namespace, p.owner): (p.uid, p.pool) for p in sorted(of_deployments, key=charge_order, reverse=True)}
    rejected = tuple(sorted(by_owner.values())[:MAX_REJECTED])
    return EnvironmentLedger(pools=pools, grants=tuple(sorted(grants, key=_grant_sort_key)), rejected=rejected)


def find_serving_pools(environment: Environment, placements: Iterable[Placement]) -> frozenset[str]:
    """Returns the pools on which placements serve, or have served and are to serve again.

    A service that is not Ready for a moment must not move to other nodes because of that. A placement whose status was
    lost may serve wherever it has grants.
    """
    serving: set[str] = set()
    for placement in placements:
        share = _find_allocated(placement)
        if share and (placement.ready or placement.service.ready_replicas > 0 or _returns_to(placement, share)):
            serving.add(share.pool)
        elif share is None and placement.lists_objects:
            serving |= {grant.share.pool for grant in environment.find_grants(placement.uid)}
    return frozenset(serving)


def _returns_to(placement: Placement, share: Share) -> bool:
    return placement.has_served and placement.replicas > 0 and placement.pool == share.pool


def _group_by_pool(
    environment: Environment, placements: Iterable[Placement], granted: Iterable[Grant]
) -> Mapping[str, tuple[list[Placement], list[Grant]]]:
    """Returns for each pool the placements that request it, are granted it or run on it, and its grants."""
    grants_of: dict[str, list[Grant]] = defaultdict(list)
    granted_pools: dict[str, set[str]] = defaultdict(set)
    for grant in granted:
        grants_of[grant.share.pool].append(grant)
        granted_pools[grant.uid].add(grant.share.pool)
    placements_of: dict[str, list[Placement]] = defaultdict(list)
    for placement in placements:
        names = {placement.pool}
        if placement.service.allocated:
            names.add(placement.service.allocated.pool)
        if placement.uid:
            names |= granted_pools[placement.uid]
        for name in names:
            placements_of[name].append(placement)
    return {pool.name: (placements_of[pool.name], grants_of[pool.name]) for pool in environment.pools}


_NOTHING = Free(placements=0, nodes=())


class CapacityView:
    """What all placements except those of one deployment have; each pool is computed at its first use.

    `own`: the placements of this deployment. `others`: all other placements on environments where `own` are, and on
    environments that publish no ledger. For every other environment, the published ledger is used.
    """

    def __init__(self, others: Iterable[Placement], own: Iterable[Placement] = ()) -> None:
        self._others: dict[str, list[Placement]] = defaultdict(list)  # by environment
        self._own: dict[str, list[Placement]] = defaultdict(list)  # by environment
        self._free: dict[tuple[str, str], PoolCapacity] = {}
        for placement in others:
            self._others[placement.environment].append(placement)
        for placement in sorted(own, key=charge_order):
            self._own[placement.environment].append(placement)
        self._own_uids = {placement.uid for each in self._own.values() for placement in each if placement.uid}

    def has_capacity_of(self, environment: Environment, pool: Pool) -> bool:
        """Tells whether the capacity of a pool is known."""
        return self._computes_capacity(environment) or pool.name in environment.free

    def lends(self, environment: Environment) -> bool:
        """Tells whether an environment may have lent replicas that can be taken back."""
        if environment.uid:
            return environment.lends
        return any(may_lend(placement) for placement in self._others.get(environment.name, ()))

    def reclaimable_capacity(self, environment: Environment, pool: Pool, priority: int) -> PoolCapacity | None:
        """Returns what is free once lent replicas were taken back for a request of a priority; None if none can be."""
        nodes = self._find_reclaimable(environment, pool).find_reclaimable(priority)
        if not nodes:
            return None
        capacity = empty_pool(pool)
        capacity.free = dict(nodes)
        return capacity

    def count_lent(self, environment: Environment, pool: Pool) -> tuple[int, int] | None:
        """Returns the GPUs of lent replicas, and the lowest priority that takes back any; None if there are none."""
        levels = self._find_reclaimable(environment, pool).reclaimable if self.lends(environment) else ()
        if not levels:
            return None
        free = self.free_capacity(environment, pool).free
        gpus = sum(each * count for each, count in levels[-1][1]) - sum(each * count for each, count in free.items())
        return (gpus, levels[0][0]) if gpus > 0 else None

    def _find_reclaimable(self, environment: Environment, pool: Pool) -> Free:
        if environment.uid:
            return environment.free.get(pool.name, _NOTHING)
        granted = [grant for grant in environment.admitted if grant.uid not in self._own_uids]
        ledger = allocate_pool(pool, self._others.get(environment.name, ()), granted)
        return replace(_NOTHING, reclaimable=ledger.reclaimable)

    def _computes_capacity(self, environment: Environment) -> bool:
        return not environment.uid or environment.name in self._own

    def free_capacity(self, environment: Environment, pool: Pool) -> PoolCapacity:
        """Returns the capacity that others leave in a pool; none if it is not known. Callers must not change it."""
        key = (environment.name, pool.name)
        if key not in self._free:
            if not environment.uid:
                granted = [grant for grant in environment.admitted if grant.uid not in self._own_uids]
                others = self._others.get(environment.name, ())
                self._free[key] = allocate_pool(pool, others, granted).capacity
            elif environment.name in self._own:
                self._free[key] = self._compute_free_capacity(environment, pool)
            else:
                self._free[key] = _published_capacity(environment, pool)
        return self._free[key]

    def _compute_free_capacity(self, environment: Environment, pool: Pool) -> PoolCapacity:
        """Returns the free GPUs when the environment reaches the deployment's placement in the charge order.

        Grants and running services are charged. Waiting placements are charged only if they come before this placement.
        """
        own = self._own[environment.name]
        admitted = {grant.uid for grant in environment.admitted}
        own_position = charge_order(own[-1])
        charged = [p for p in self._others.get(environment.name, ()) if is_charged(environment, p, admitted)]
        placements_of_pool, granted = _group_by_pool(environment, charged, environment.admitted)[pool.name]
        placements_by_key = {_key(p): p for p in sorted((*placements_of_pool, *own), key=charge_order)}
        holdings = _collect_holdings(pool, placements_by_key, granted)
        earlier = [p for p in placements_by_key.values() if charge_order(p) < own_position]
        _grant_in_turn(pool, earlier, holdings, None, ReclaimPlan(placements_by_key, holdings, {}))
        for placement in own:
            holdings.replace(_key(placement), ())
        return holdings.free_capacity()

    def counted_placements(self, environment: Environment) -> tuple[tuple[Placement, ...], frozenset[str]] | None:
        """Returns the placements that capacity is computed from, and the uids of own grants that do not count.

        The same objects are always in the same order. None where the published ledger is used.
        """
        if not self._computes_capacity(environment):
            return None
        own_grants = frozenset(grant.uid for grant in environment.admitted if grant.uid in self._own_uids)
        own = self._own.get(environment.name, ()) if environment.uid else ()
        return (*sorted(self._others.get(environment.name, ()), key=id), *own), own_grants

    def may_stay(self, environment: Environment, pool: Pool, placement: Placement) -> bool:
        """Tells whether a placement may stay: it was ever Ready, or its environment has room for it in its turn.

        A placement with Objects may have been Ready before its status was lost. An environment from a file admits
        everything, so Objects prove nothing there.
        """
        if placement.stage is Stage.SERVED:
            return True
        if environment.uid:
            return placement.lists_objects or (placement.uid, placement.pool) not in environment.rejected
        others = self._others.get(environment.name, ())
        return placement not in allocate_pool(pool, (*others, placement)).rejected


def is_charged(environment: Environment, placement: Placement, admitted: Collection[str]) -> bool:
    """Tells whether an environment charges a placement: it was admitted (by uid), runs, or has the label.

    A placement without resources that is being deleted is not charged.
    """
    if (
        not environment.uid
        or placement.uid in admitted
        or placement.service.allocated is not None
        or placement.stage is Stage.SERVED
    ):
        return True
    has_label = dict(placement.labels).get(LABEL_ENVIRONMENT) == label_value(environment.name)
    return has_label and (placement.may_have_resources or not placement.deleting)


def _published_capacity(environment: Environment, pool: Pool) -> PoolCapacity:
    capacity = empty_pool(pool)
    free = environment.free.get(pool.name)
    capacity.free = {gpus: nodes for gpus, nodes in free.nodes if gpus <= pool.gpus_per_node} if free else {}
    capacity.placements = free.placements if free else 0
    if capacity.unusable_nodes:
        capacity.overcommitted_nodes = _free_beside_grants(environment, pool).overcommitted_nodes
    return capacity


def _free_beside_grants(environment: Environment, pool: Pool) -> PoolCapacity:
    holdings = Holdings(pool)
    holdings.replace(environment.name, [grant for grant in environment.admitted if _is_grant_of(grant, pool)])
    return holdings.free_capacity()


def publish_free(environment: Environment) -> dict[str, Free]:
    """Returns what an environment with these pools and grants would publish as free, for pools that it published."""
    free: dict[str, Free] = {}
    for pool in environment.pools:
        if pool.name in environment.free:
            capacity = _free_beside_grants(environment, pool)
            free[pool.name] = Free(placements=capacity.placements, nodes=tuple(sorted(capacity.free.items())))
    return free
