"""Who holds which GPUs of a pool, who is admitted to more, and who is rejected.

Every environment keeps this ledger of its own pools and publishes it; a deployment computes it where it must know what
is free without itself, and where an environment stands in a file and keeps none. All charge in one order, from what all
see:

1. What was granted, as much of it as is still asked for or taken. A grant ends when its placement is gone, asks for
   less or for another pool, and not before its service lets go.
2. What runs without a grant: the environment lost its status, or the pool has another name or other labels by now. A
   service is charged to the pools that select the nodes on which it runs.
3. What asks for anything else, where there is room: those that ever served first, then those of which something was
   composed (nothing is before it was admitted), then by creation, uid and name. One that does not fit is
   rejected, and not charged to those after it.

A placement that is being deleted still holds its nodes. A pool whose nodes shrank below the GPUs of a replica that was
granted or serves is taken in whole nodes, and one that holds more than fits has nothing left. Nodes that cannot be used
now are not there for what is new; what was granted or serves keeps its place whatever becomes of them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from function.domain.allocation import Grant, Share
from function.domain.environment import Environment, Pool, find_pools
from function.domain.placement import Placement
from function.kube.names import LABEL_ENVIRONMENT, label_value
from function.scheduling.capacity import Holdings, PoolCapacity, empty_pool, exclusive_nodes, take_share
from function.scheduling.verdicts import PoolUse


def charge_order(placement: Placement) -> tuple[bool, bool, str, str, str, str]:
    """Sorts placements into the order in which they are charged for what was not granted."""
    return (
        not placement.ever_ready,
        not placement.has_resources,
        placement.created,
        placement.uid,
        placement.namespace,
        placement.name,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLedger:
    """One pool: what is left, what is held, and who is rejected."""

    room: PoolCapacity
    grants: tuple[Grant, ...]
    rejected: tuple[Placement, ...]


def allocate_pool(
    pool: Pool,
    placements: Iterable[Placement],
    granted: Iterable[Grant] = (),
    most: int | None = None,
    pools: Sequence[Pool] = (),
) -> PoolLedger:
    """Charge what is on an environment to one of its pools; `granted` are the environment's grants so far.

    `pools` are all pools of the environment, where the nodes of a service may be another pool's by now. A grant whose
    placement is not among these, or cannot be read, stays. Beyond `most` nobody new is granted anything.
    What is granted one by one may fit closer together once all of it is known, so whoever was refused is asked again.
    """
    known = {_key(p): p for p in sorted(placements, key=charge_order)}
    held = _collect_holdings(pool, known, granted, pools)
    rejected, more = _grant_in_turn(pool, known.values(), held, most)
    while more:  # somebody is granted more in each turn, and nobody twice
        held = _collect_holdings(pool, known, held.grants(), pools)
        rejected, more = _grant_in_turn(pool, known.values(), held, most)
    return PoolLedger(room=held.room(), grants=tuple(sorted(held.grants(), key=grant_sort_key)), rejected=rejected)


def _collect_holdings(
    pool: Pool, known: Mapping[str, Placement], granted: Iterable[Grant], pools: Sequence[Pool]
) -> Holdings:
    """Return what is granted and what runs."""
    by_key: dict[str, list[Grant]] = defaultdict(list)
    for grant in granted:
        stays = remaining_grant(grant, known.get(grant.uid))
        if stays and _is_grant_of(stays, pool):
            by_key[_key(stays)].append(stays)
    for key, placement in known.items():
        share = _allocated_share(pool, placement, pools)
        if share and not any(grant.share.is_like(share) for grant in by_key.get(key, ())):
            by_key[key].append(_make_grant(placement, share))
    held = Holdings(pool)
    for key, grants in by_key.items():
        held.put(key, grants)
    return held


def _grant_in_turn(
    pool: Pool, placements: Iterable[Placement], held: Holdings, most: int | None
) -> tuple[tuple[Placement, ...], bool]:
    """Grants what fits, in the order of the placements; returns the rejected ones, and whether any grant was made."""
    rejected, more = list[Placement](), False
    room: PoolCapacity | None = None  # what all leave, as long as that is known
    refused: set[tuple[Share, ...]] = set()  # what was refused since anything was granted
    for placement in placements:
        key, asks = _key(placement), placement.effective_request
        if asks is None or asks.pool != pool.name or not asks.replicas:
            continue
        mine = held.of(key)
        if any(grant.share.is_like(asks) and grant.share.replicas >= asks.replicas for grant in mine):
            continue
        fitting = asks if placement.uid else _limit_to_node_size(asks, pool)
        # Of those who hold and ask for as much as one another, the first is refused for all.
        size = (fitting, *(grant.share for grant in mine))
        full = not mine and most is not None and held.rows >= most
        if size not in refused and not full:
            if not mine and room is None:
                room = held.room()
            if _fits(room if room and not mine else held.room(key), fitting):
                # What it still holds in another shape counts beside it, until its service has let go.
                held.put(
                    key, [*(grant for grant in mine if not grant.share.is_like(asks)), _make_grant(placement, asks)]
                )
                room, more = take_share(room, asks) if room and not mine else None, True
                refused.clear()
                continue
            refused.add(size)
        rejected.append(placement)
    return tuple(rejected), more


def _allocated_share(pool: Pool, placement: Placement, pools: Sequence[Pool]) -> Share | None:
    """Return what the service of a placement takes of a pool, which may have another name than when it was written."""
    share = placement.allocated or (placement.requested if placement.ever_ready else None)
    if share is None or pool.name not in find_pools(share, pools):
        return None
    return replace(share, pool=pool.name, labels=None)


def _key(who: Placement | Grant) -> str:
    """Return who it is; what stands in a file has no uid."""
    return who.uid or f"{who.namespace}/{who.name}"


def grant_sort_key(grant: Grant) -> tuple[str, str, str, str, int, int]:
    """Sorts grants by whose they are."""
    share = grant.share
    return grant.namespace, grant.name, grant.uid, share.pool, share.nodes, share.gpus_per_node


def _is_grant_of(grant: Grant, pool: Pool) -> bool:
    return grant.share.pool == pool.name and grant.share.nodes > 0 and grant.share.gpus_per_node > 0


def _make_grant(placement: Placement, share: Share) -> Grant:
    return Grant(uid=placement.uid, namespace=placement.namespace, name=placement.name, share=share)


def remaining_grant(grant: Grant, placement: Placement | None) -> Grant | None:
    """Return how much of a grant stays.

    All of it until the placement has seen its present spec: with the spec before it may just have used the grant, which
    its status does not say yet (history 188).
    """
    if placement is None or not placement.acknowledged or (placement.requested is None and not placement.cannot_start):
        return grant
    uses = [
        share.replicas
        for share in (placement.effective_request, placement.allocated)
        if share and share.is_like(grant.share)
    ]
    if not any(uses):
        return None
    share = grant.share
    return _make_grant(
        placement,
        Share(
            pool=share.pool,
            nodes=share.nodes,
            gpus_per_node=share.gpus_per_node,
            replicas=min(share.replicas, max(uses)),
            exclusive_replica_nodes=placement.exclusive_replica_nodes,
        ),
    )


def _fits(room: PoolCapacity, asks: Share) -> bool:
    """Tell whether there is room for all of a share, on nodes that have what it asks of one."""
    return room.fits(asks.nodes, asks.gpus_per_node, asks.replicas, asks.max_replicas_per_node) >= asks.replicas


def _limit_to_node_size(asks: Share, pool: Pool) -> Share:
    """Return what stands in a file as its nodes have it now: nobody granted it, and they may have shrunk since."""
    return replace(asks, gpus_per_node=min(asks.gpus_per_node, pool.gpus_per_node))


def fits_empty_pool(pool: Pool, asks: Share) -> bool:
    """Tell whether a pool would hold a share were nobody there and every node usable."""
    return _fits(PoolCapacity(pool.max_nodes, pool.gpus_per_node, exclusive_nodes=exclusive_nodes(pool)), asks)


class Ledger:
    """What everybody but one deployment takes; a pool is counted when it is asked for first.

    `others` are all placements of others on the environments that the deployment uses (its `own` are there), and on
    those that keep no ledger. Every other environment is believed.
    """

    __slots__ = ("_mine", "_on", "_own", "_rooms")

    def __init__(self, others: Iterable[Placement], own: Iterable[Placement] = ()) -> None:
        self._on: dict[str, list[Placement]] = defaultdict(list)
        self._own: dict[str, list[Placement]] = defaultdict(list)
        self._rooms: dict[tuple[str, str], PoolCapacity] = {}
        for placement in others:
            self._on[placement.environment].append(placement)
        for placement in sorted(own, key=charge_order):
            self._own[placement.environment].append(placement)
        self._mine = {placement.uid for each in self._own.values() for placement in each if placement.uid}

    def has_capacity_of(self, environment: Environment, pool: Pool) -> bool:
        """Tell whether it is known what is left of a pool."""
        return self._computes_capacity(environment) or pool.name in environment.free

    def room(self, environment: Environment, pool: Pool) -> PoolCapacity:
        """Return what the others leave of a pool, nothing where that is not known; not to be changed."""
        key = (environment.name, pool.name)
        if key not in self._rooms:
            counted = self._computes_capacity(environment)
            self._rooms[key] = (
                self.allocate_without_own(environment, pool).room if counted else _published_capacity(environment, pool)
            )
        return self._rooms[key]

    def counted_placements(self, environment: Environment) -> tuple[tuple[Placement, ...], frozenset[str]] | None:
        """Return what the room on an environment is counted from besides it: the placements, the same objects always in
        one order, and whose grants do not count; None where what it says is believed.
        """
        if not self._computes_capacity(environment):
            return None
        mine = frozenset(grant.uid for grant in environment.admitted if grant.uid in self._mine)
        own = self._own.get(environment.name, ()) if environment.uid else ()
        return (*sorted(self._on.get(environment.name, ()), key=id), *own), mine

    def keeps_place(self, environment: Environment, pool: Pool, placement: Placement) -> bool:
        """Tell whether a placement is not rejected: it has served, or there is room for it in its turn."""
        if placement.ever_ready:
            return True
        if environment.uid:
            return (placement.uid, placement.pool) not in environment.rejected
        others = self._on.get(environment.name, ())
        return placement not in allocate_pool(pool, (*others, placement), pools=environment.pools).rejected

    def _computes_capacity(self, environment: Environment) -> bool:
        return not environment.uid or environment.name in self._own

    def allocate_without_own(self, environment: Environment, pool: Pool) -> PoolLedger:
        """Return what others hold of a pool, and what that leaves.

        Where the environment keeps a ledger, that is what it would find when it is the deployment's own turn: what is
        granted and what runs, and of those who wait only what it grants to those who come first.
        """
        others, own = self._on.get(environment.name, []), self._own.get(environment.name)
        if not environment.uid or not own:
            granted = [grant for grant in environment.admitted if grant.uid not in self._mine]
            return allocate_pool(pool, others, granted, pools=environment.pools)
        admitted, turn = {grant.uid for grant in environment.admitted}, charge_order(own[-1])
        granted = [grant for grant in environment.admitted if grant.share.pool == pool.name]
        here = {grant.uid for grant in granted}
        counting = [
            p
            for p in others
            if (p.pool == pool.name or p.uid in here or _allocated_share(pool, p, environment.pools))
            and is_charged(environment, p, admitted)
        ]
        known = {_key(p): p for p in sorted((*counting, *own), key=charge_order)}
        held = _collect_holdings(pool, known, granted, environment.pools)
        _grant_in_turn(pool, [p for p in known.values() if charge_order(p) < turn], held, None)
        for placement in own:
            held.put(_key(placement), ())
        return PoolLedger(room=held.room(), grants=tuple(sorted(held.grants(), key=grant_sort_key)), rejected=())


def is_charged(environment: Environment, placement: Placement, admitted: Collection[str]) -> bool:
    """Tell whether a placement takes part in an environment's ledger: it was admitted, runs, or has the label and does
    not go unstarted. `admitted`: the uids of all that were admitted.
    """
    if not environment.uid or placement.uid in admitted or placement.allocated is not None or placement.ever_ready:
        return True
    labelled = dict(placement.labels).get(LABEL_ENVIRONMENT) == label_value(environment.name)
    return labelled and (placement.has_resources or not placement.deleting)


def _published_capacity(environment: Environment, pool: Pool) -> PoolCapacity:
    room, free = empty_pool(pool), environment.free.get(pool.name)
    room.free = {gpus: nodes for gpus, nodes in free.nodes if gpus <= pool.gpus_per_node} if free else {}
    room.placements = free.placements if free else 0
    if room.unusable_nodes:
        held = Holdings(pool)
        held.put(environment.name, [grant for grant in environment.admitted if _is_grant_of(grant, pool)])
        room.overcommitted_nodes = held.room().overcommitted_nodes
    return room


def pool_use(room: PoolCapacity, pool: Pool) -> PoolUse:
    """Return how full a pool is."""
    return PoolUse(
        nodes=room.nodes,
        nodes_in_use=room.nodes_in_use,
        placements=room.placements,
        unusable_nodes=room.unusable_nodes,
        unusable=pool.facts.unusable if pool.facts else (),
    )
