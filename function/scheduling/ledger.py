"""Who holds which GPUs of a pool, who is admitted to more, and who has to yield.

Every environment keeps this ledger of its own pools and publishes it; a deployment computes it where it must know what
is free without itself, and where an environment stands in a file and keeps none. All charge in one order, from what all
see:

1. What was granted, as much of it as is still asked for or taken. A grant ends when its placement is gone, asks for
   less or for another pool, and not before its service lets go.
2. What runs without a grant: the environment lost its status, or the pool has another name or other labels by now. A
   service is charged to the pools that select the nodes on which it runs.
3. What asks for anything else, where there is room: those that ever served first, then those of which something was
   composed (nothing is before it was admitted), then by creation, uid and name. One that does not fit yields, and is
   not charged to those after it.

A placement that is being deleted still holds its nodes. A pool whose nodes shrank below the GPUs of a replica that was
granted or serves is taken in whole nodes, and one that holds more than fits has nothing left. Nodes that cannot be used
now are not there for what is new; what was granted or serves keeps its place whatever becomes of them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from function.domain.environment import Environment, Pool, find_pools
from function.domain.placement import Placement
from function.domain.shares import Grant, Share
from function.kube.names import LABEL_ENVIRONMENT, label_value
from function.scheduling.holdings import Holdings, empty, take, whole
from function.scheduling.pool_capacity import PoolCapacity
from function.scheduling.verdicts import Use


def charge_order(placement: Placement) -> tuple[bool, bool, str, str, str, str]:
    """Sorts placements into the order in which they are charged for what was not granted."""
    return (
        not placement.has_served,
        not placement.begun,
        placement.created,
        placement.uid,
        placement.namespace,
        placement.name,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLedger:
    """One pool: what is left, what is held, and who has to yield."""

    room: PoolCapacity
    grants: tuple[Grant, ...]
    yields: tuple[Placement, ...]


def settle(
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
    held = _holdings(pool, known, granted, pools)
    yields, more = _grant_in_turn(pool, known.values(), held, most)
    while more:  # somebody is granted more in each turn, and nobody twice
        held = _holdings(pool, known, held.grants(), pools)
        yields, more = _grant_in_turn(pool, known.values(), held, most)
    return PoolLedger(room=held.room(), grants=tuple(sorted(held.grants(), key=by_name)), yields=yields)


def _holdings(pool: Pool, known: Mapping[str, Placement], granted: Iterable[Grant], pools: Sequence[Pool]) -> Holdings:
    """Return what is granted and what runs."""
    by_key: dict[str, list[Grant]] = defaultdict(list)
    for grant in granted:
        stays = kept(grant, known.get(grant.uid))
        if stays and _is_of(stays, pool):
            by_key[_key(stays)].append(stays)
    for key, placement in known.items():
        share = _runs_on(pool, placement, pools)
        if share and not any(grant.share.is_like(share) for grant in by_key.get(key, ())):
            by_key[key].append(_grant(placement, share))
    held = Holdings(pool)
    for key, grants in by_key.items():
        held.put(key, grants)
    return held


def _grant_in_turn(
    pool: Pool, placements: Iterable[Placement], held: Holdings, most: int | None
) -> tuple[tuple[Placement, ...], bool]:
    """Grant what is asked for and fits, in the order of the placements; return who yields, and whether anything was
    granted.
    """
    yields, more = list[Placement](), False
    room: PoolCapacity | None = None  # what all leave, as long as that is known
    refused: set[tuple[Share, ...]] = set()  # what was refused since anything was granted
    for placement in placements:
        key, asks = _key(placement), placement.claims
        if asks is None or asks.pool != pool.name or not asks.replicas:
            continue
        mine = held.of(key)
        if any(grant.share.is_like(asks) and grant.share.replicas >= asks.replicas for grant in mine):
            continue
        fitting = asks if placement.uid else _shrunk(asks, pool)
        # Of those who hold and ask for as much as one another, the first is refused for all.
        size = (fitting, *(grant.share for grant in mine))
        full = not mine and most is not None and held.rows >= most
        if size not in refused and not full:
            if not mine and room is None:
                room = held.room()
            if _fits(room if room and not mine else held.room(key), fitting):
                # What it still holds in another shape counts beside it, until its service has let go.
                held.put(key, [*(grant for grant in mine if not grant.share.is_like(asks)), _grant(placement, asks)])
                room, more = take(room, asks) if room and not mine else None, True
                refused.clear()
                continue
            refused.add(size)
        yields.append(placement)
    return tuple(yields), more


def _runs_on(pool: Pool, placement: Placement, pools: Sequence[Pool]) -> Share | None:
    """Return what the service of a placement takes of a pool, which may have another name than when it was written."""
    share = placement.takes or (placement.asks if placement.has_served else None)
    if share is None or pool.name not in find_pools(share, pools):
        return None
    return replace(share, pool=pool.name, labels=None)


def _key(who: Placement | Grant) -> str:
    """Return who it is; what stands in a file has no uid."""
    return who.uid or f"{who.namespace}/{who.name}"


def by_name(grant: Grant) -> tuple[str, str, str, str, int, int]:
    """Sorts grants by whose they are."""
    share = grant.share
    return grant.namespace, grant.name, grant.uid, share.pool, share.nodes, share.gpus_per_node


def _is_of(grant: Grant, pool: Pool) -> bool:
    return grant.share.pool == pool.name and grant.share.nodes > 0 and grant.share.gpus_per_node > 0


def _grant(placement: Placement, share: Share) -> Grant:
    return Grant(uid=placement.uid, namespace=placement.namespace, name=placement.name, share=share)


def kept(grant: Grant, placement: Placement | None) -> Grant | None:
    """Return how much of a grant stays.

    All of it until the placement has seen its present spec: with the spec before it may just have used the grant, which
    its status does not say yet (history 188).
    """
    if placement is None or not placement.acknowledged or (placement.asks is None and not placement.held_back):
        return grant
    uses = [use.replicas for use in (placement.claims, placement.takes) if use and use.is_like(grant.share)]
    if not any(uses):
        return None
    share = grant.share
    return _grant(
        placement,
        Share(
            pool=share.pool,
            nodes=share.nodes,
            gpus_per_node=share.gpus_per_node,
            replicas=min(share.replicas, max(uses)),
            apart=placement.apart,
        ),
    )


def _fits(room: PoolCapacity, asks: Share) -> bool:
    """Tell whether there is room for all of a share, on nodes that have what it asks of one."""
    return room.fits(asks.nodes, asks.gpus_per_node, asks.replicas, asks.together) >= asks.replicas


def _shrunk(asks: Share, pool: Pool) -> Share:
    """Return what stands in a file as its nodes have it now: nobody granted it, and they may have shrunk since."""
    return replace(asks, gpus_per_node=min(asks.gpus_per_node, pool.gpus_per_node))


def holds_ever(pool: Pool, asks: Share) -> bool:
    """Tell whether a pool would hold a share were nobody there and every node usable."""
    return _fits(PoolCapacity(pool.max_nodes, pool.gpus_per_node, whole=whole(pool)), asks)


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

    def knows(self, environment: Environment, pool: Pool) -> bool:
        """Tell whether it is known what is left of a pool."""
        return self._counts(environment) or pool.name in environment.free

    def room(self, environment: Environment, pool: Pool) -> PoolCapacity:
        """Return what the others leave of a pool, nothing where that is not known; not to be changed."""
        key = (environment.name, pool.name)
        if key not in self._rooms:
            counted = self._counts(environment)
            self._rooms[key] = self.left(environment, pool).room if counted else _published(environment, pool)
        return self._rooms[key]

    def counted(self, environment: Environment) -> tuple[tuple[Placement, ...], frozenset[str]] | None:
        """Return what the room on an environment is counted from besides it: the placements, the same objects always in
        one order, and whose grants do not count; None where what it says is believed.
        """
        if not self._counts(environment):
            return None
        mine = frozenset(grant.uid for grant in environment.admitted if grant.uid in self._mine)
        own = self._own.get(environment.name, ()) if environment.uid else ()
        return (*sorted(self._on.get(environment.name, ()), key=id), *own), mine

    def keeps(self, environment: Environment, pool: Pool, placement: Placement) -> bool:
        """Tell whether a placement need not yield: it has served, or there is room for it in its turn."""
        if placement.has_served:
            return True
        if environment.uid:
            return (placement.uid, placement.pool) not in environment.yields
        others = self._on.get(environment.name, ())
        return placement not in settle(pool, (*others, placement), pools=environment.pools).yields

    def _counts(self, environment: Environment) -> bool:
        return not environment.uid or environment.name in self._own

    def left(self, environment: Environment, pool: Pool) -> PoolLedger:
        """Return what others hold of a pool, and what that leaves.

        Where the environment keeps a ledger, that is what it would find when it is the deployment's own turn: what is
        granted and what runs, and of those who wait only what it grants to those who come first.
        """
        others, own = self._on.get(environment.name, []), self._own.get(environment.name)
        if not environment.uid or not own:
            granted = [grant for grant in environment.admitted if grant.uid not in self._mine]
            return settle(pool, others, granted, pools=environment.pools)
        admitted, turn = {grant.uid for grant in environment.admitted}, charge_order(own[-1])
        granted = [grant for grant in environment.admitted if grant.share.pool == pool.name]
        here = {grant.uid for grant in granted}
        counting = [
            p
            for p in others
            if (p.pool == pool.name or p.uid in here or _runs_on(pool, p, environment.pools))
            and takes_part(environment, p, admitted)
        ]
        known = {_key(p): p for p in sorted((*counting, *own), key=charge_order)}
        held = _holdings(pool, known, granted, environment.pools)
        _grant_in_turn(pool, [p for p in known.values() if charge_order(p) < turn], held, None)
        for placement in own:
            held.put(_key(placement), ())
        return PoolLedger(room=held.room(), grants=tuple(sorted(held.grants(), key=by_name)), yields=())


def takes_part(environment: Environment, placement: Placement, admitted: Collection[str]) -> bool:
    """Tell whether a placement takes part in an environment's ledger: it was admitted, runs, or has the label and does
    not go unstarted. `admitted`: the uids of all that were admitted.
    """
    if not environment.uid or placement.uid in admitted or placement.takes is not None or placement.has_served:
        return True
    labelled = dict(placement.labels).get(LABEL_ENVIRONMENT) == label_value(environment.name)
    return labelled and (placement.begun or not placement.deleting)


def _published(environment: Environment, pool: Pool) -> PoolCapacity:
    room, free = empty(pool), environment.free.get(pool.name)
    room.free = {gpus: nodes for gpus, nodes in free.nodes if gpus <= pool.gpus_per_node} if free else {}
    room.placements = free.placements if free else 0
    if room.lost:
        held = Holdings(pool)
        held.put(environment.name, [grant for grant in environment.admitted if _is_of(grant, pool)])
        room.beyond = held.room().beyond
    return room


def use(room: PoolCapacity, pool: Pool) -> Use:
    """Return how full a pool is."""
    return Use(
        nodes=room.nodes,
        nodes_in_use=room.nodes_in_use,
        placements=room.placements,
        lost=room.lost,
        unusable=pool.facts.unusable if pool.facts else (),
    )
