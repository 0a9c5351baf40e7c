"""Who holds which GPUs of a pool, who is admitted to more, and who has to yield.

Every environment keeps this ledger of its own pools and publishes it; a deployment computes it where it must know what
is free without itself, and where an environment stands in a file and keeps none. All charge in one order, from what all
see:

1. What was granted, as much of it as is still asked for or taken. A grant ends when its placement is gone, asks for
   less or for another pool, and not before its service lets go.
2. What serves without a grant, since it runs: an earlier release started it, or the environment lost its status.
3. What asks for anything else, where there is room: those that ever served first, then those of which something was
   composed (nothing is before it was admitted), then by creation, uid and name. One that does not fit yields, and is
   not charged to those after it.

A placement that is being deleted still holds its nodes. A pool whose nodes shrank below the GPUs of a replica that was
granted or serves is taken in whole nodes, and one that holds more than fits has nothing left. Nodes that cannot be used
now are not there for what is new; what was granted or serves keeps its place whatever becomes of them.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from function.domain.environment import Environment, Pool
from function.domain.placement import Placement
from function.domain.shares import Grant, Share
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
    pool: Pool, placements: Iterable[Placement], granted: Iterable[Grant] = (), most: int | None = None
) -> PoolLedger:
    """Charge what is on an environment to one of its pools; `granted` are the environment's grants so far.

    A grant whose placement is not among these, or cannot be read, stays. Beyond `most` nobody new is granted anything.
    What is granted one by one may fit closer together once all of it is known, so whoever was refused is asked again.
    """
    known = {_key(p): p for p in sorted(placements, key=charge_order)}
    found, more = _settled(pool, known, granted, most)
    while more:  # somebody is granted more in each turn, and nobody twice
        found, more = _settled(pool, known, found.grants, most)
    return found


def _settled(
    pool: Pool, known: Mapping[str, Placement], granted: Iterable[Grant], most: int | None
) -> tuple[PoolLedger, bool]:
    """Return the ledger after one turn, and whether anybody was granted anything in it."""
    held: dict[str, list[Grant]] = defaultdict(list)
    for grant in granted:
        stays = kept(grant, known.get(grant.uid))
        if stays and _is_of(stays, pool):
            held[_key(stays)].append(stays)
    for key, placement in known.items():
        share = placement.takes or placement.asks
        if placement.has_served and key not in held and share and share.pool == pool.name:
            held[key].append(_grant(placement, share))
    room, yields, rows, more = _charged(pool, _all(held)), list[Placement](), sum(map(len, held.values())), False
    for key, placement in known.items():
        asks = placement.claims
        if asks is None or asks.pool != pool.name or not asks.replicas:
            continue
        mine = held.get(key, [])
        if any(grant.share.is_like(asks) and grant.share.replicas >= asks.replicas for grant in mine):
            continue
        full = not mine and most is not None and rows >= most
        others = (grant for grant in _all(held) if _key(grant) != key)
        fitting = asks if placement.uid else _shrunk(asks, pool)
        if full or not _fits(_charged(pool, others) if mine else room, fitting):
            yields.append(placement)
            continue
        # What it still holds in another shape counts beside it, until its service has let go.
        held[key] = [*(grant for grant in mine if not grant.share.is_like(asks)), _grant(placement, asks)]
        rows += len(held[key]) - len(mine)
        room, more = _charged(pool, _all(held)) if mine else take(room, asks), True
    every = tuple(sorted(_all(held), key=by_name))
    return PoolLedger(room=_charged(pool, every), grants=every, yields=tuple(yields)), more


def _all(held: Mapping[str, Iterable[Grant]]) -> Iterable[Grant]:
    return itertools.chain.from_iterable(held.values())


def _key(who: Placement | Grant) -> str:
    """Return who it is; what stands in a file has no uid."""
    return who.uid or f"{who.namespace}/{who.name}"


def by_name(grant: Grant) -> tuple[str, str, str, str, int, int]:
    """Sorts grants by whose they are."""
    share = grant.share
    return grant.namespace, grant.name, grant.uid, share.pool, share.nodes, share.gpus_per_node


def _hardest_first(room: PoolCapacity, grant: Grant) -> tuple[bool, int, int, tuple[str, str, str, str, int, int]]:
    """Sorts so that what is hardest to fit is charged first: what was granted one by one fits together."""
    share = grant.share
    return not share.apart, -room.charged(share.nodes, share.gpus_per_node), -share.nodes, by_name(grant)


def _is_of(grant: Grant, pool: Pool) -> bool:
    return grant.share.pool == pool.name and grant.share.nodes > 0 and grant.share.gpus_per_node > 0


def _grant(placement: Placement, share: Share) -> Grant:
    return Grant(uid=placement.uid, namespace=placement.namespace, name=placement.name, share=share)


def kept(grant: Grant, placement: Placement | None) -> Grant | None:
    """Return how much of a grant stays."""
    if placement is None or placement.asks is None:
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


def _empty(pool: Pool) -> PoolCapacity:
    return PoolCapacity(pool.max_nodes, pool.gpus_per_node, lost=pool.max_nodes - pool.usable_nodes, whole=whole(pool))


def whole(pool: Pool) -> tuple[bool, bool]:
    """Return whether pods of a pool have their nodes to themselves, of replicas of one node and of several."""
    return pool.keeps_whole(1, 0), pool.keeps_whole(2, 0)


def _charged(pool: Pool, held: Iterable[Grant]) -> PoolCapacity:
    room = _empty(pool)
    for grant in sorted(held, key=partial(_hardest_first, room)):
        take(room, grant.share)
    return room


def take(room: PoolCapacity, share: Share) -> PoolCapacity:
    """Take a share, in place; where it does not fit whole nothing is left: nobody knows where the rest of it runs."""
    gpus = min(share.gpus_per_node, room.gpus_per_node)
    if min(gpus, share.nodes, share.replicas) > 0:  # a status may say anything
        if lacking := room.take(share.nodes, gpus, share.replicas, share.together):
            room.free.clear()
            room.beyond += math.ceil(
                lacking / (1 if share.apart else room.gpus_per_node // room.charged(share.nodes, gpus))
            )
        room.placements += 1
    return room


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

    __slots__ = ("_mine", "_on", "_rooms", "_used")

    def __init__(self, others: Iterable[Placement], own: Iterable[Placement] = ()) -> None:
        self._on: dict[str, list[Placement]] = defaultdict(list)
        self._rooms: dict[tuple[str, str], PoolCapacity] = {}
        for placement in others:
            self._on[placement.environment].append(placement)
        self._used = {placement.environment for placement in own}
        self._mine = {placement.uid for placement in own if placement.uid}

    def knows(self, environment: Environment, pool: Pool) -> bool:
        """Tell whether it is known what is left of a pool."""
        return self._counts(environment) or pool.name in environment.free

    def room(self, environment: Environment, pool: Pool) -> PoolCapacity:
        """Return what the others leave of a pool, nothing where that is not known; not to be changed."""
        key = (environment.name, pool.name)
        if key not in self._rooms:
            counted = self._counts(environment)
            self._rooms[key] = self._settled(environment, pool).room if counted else _published(environment, pool)
        return self._rooms[key]

    def counted(self, environment: Environment) -> tuple[tuple[Placement, ...], frozenset[str]] | None:
        """Return what the room on an environment is counted from besides it: the placements, the same objects always in
        one order, and whose grants do not count; None where what it says is believed.
        """
        if not self._counts(environment):
            return None
        mine = frozenset(grant.uid for grant in environment.admitted if grant.uid in self._mine)
        return tuple(sorted(self._on.get(environment.name, ()), key=id)), mine

    def keeps(self, environment: Environment, pool: Pool, placement: Placement) -> bool:
        """Tell whether a placement need not yield: it has served, or there is room for it in its turn."""
        if placement.has_served:
            return True
        if environment.uid:
            return (placement.uid, placement.pool) not in environment.yields
        return placement not in self._settled(environment, pool, placement).yields

    def _counts(self, environment: Environment) -> bool:
        return not environment.uid or environment.name in self._used

    def _settled(self, environment: Environment, pool: Pool, *more: Placement) -> PoolLedger:
        granted = [grant for grant in environment.admitted if grant.uid not in self._mine]
        return settle(pool, (*self._on.get(environment.name, ()), *more), granted)


def _published(environment: Environment, pool: Pool) -> PoolCapacity:
    room, free = _empty(pool), environment.free.get(pool.name)
    room.free = {gpus: nodes for gpus, nodes in free.nodes if gpus <= pool.gpus_per_node} if free else {}
    room.placements = free.placements if free else 0
    if room.lost:
        room.beyond = _charged(pool, (grant for grant in environment.admitted if _is_of(grant, pool))).beyond
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
