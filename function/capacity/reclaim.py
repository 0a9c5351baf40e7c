"""Reclaim: lent replicas are given back when another deployment needs their GPUs for guaranteed replicas.

A deployment may use GPUs that nobody else is entitled to: its replicas beyond the guaranteed ones are lent. A request
for guaranteed replicas that finds no room takes back lent replicas of other deployments with the same or a lower
priority: of the lowest priority first, then of the youngest placement, and as few as suffice. Where the platform allows
preemption, it then takes guaranteed replicas of a lower priority. Nothing is taken for replicas that are lent
themselves.

The environment only names what a placement has to give back. Its deployment then lowers the replicas of the placement,
or closes it, as after every other decision: requests go to other replicas first. The GPUs are granted again when the
service has ended the replicas. Until then nothing is granted that needs them. If the request is withdrawn, nothing has
to be given back any more.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from function.capacity.pools import Holdings, PoolCapacity
from function.domain.allocation import Grant, Share, Yield
from function.domain.environment import Environment
from function.domain.placement import Placement

# For so long after replicas were asked back, they may stay while others start elsewhere in their place.
MOVE_SECONDS = 600
_CLOCK_SKEW_SECONDS = 60  # between the function's instances, at most
MAX_RECLAIMS = 16  # requests of one pool for which replicas are taken back at the same time
MAX_YIELDS = 100  # placements of one pool that give back replicas at the same time; each takes 150 bytes of the status
MAX_FAILED = 32  # requests of one pool that are compared with all its lent replicas, and find too few
MAX_PRIORITIES = 8  # for which the reclaimable capacity of a pool is published


def may_lend(placement: Placement) -> bool:
    """Tells whether replicas of a placement can be taken back; without a deployment, nobody would lower them."""
    return (placement.guaranteed is not None or placement.preemptible) and bool(placement.deployment)


@dataclass(frozen=True, slots=True)
class _Lent:
    """A grant of which replicas can be taken back: the lent ones, or all of them (preemption)."""

    key: str
    placement: Placement
    grant: Grant
    least: int  # replicas that stay

    @property
    def is_preempted(self) -> bool:
        return self.least < self.placement.guaranteed_replicas

    @property
    def priority(self) -> int:
        """The lowest priority of a request that takes them back."""
        return self.placement.priority + self.is_preempted

    def keep(self, replicas: int) -> tuple[Grant, ...]:
        """Returns the grants that the placement keeps with so many replicas."""
        return (replace(self.grant, share=replace(self.grant.share, replicas=replicas)),) if replicas else ()


class ReclaimPlan:
    """What a pool will hold when lent replicas were given back, and who gives back what to whom."""

    def __init__(self, known: Mapping[str, Placement], holdings: Holdings, previous: Mapping[str, Yield]) -> None:
        """Plans nothing yet.

        `known`: the placements of the pool. `holdings`: what they have. `previous`: what was to be given back before.
        """
        self._known = known
        self._actual = holdings
        self._previous = previous
        self._planned: Holdings | None = None
        self._failed: set[tuple[int, Share, int, tuple[Share, ...]]] = set()
        self._lends = any(may_lend(placement) for placement in known.values())
        self._most: PoolCapacity | None = None  # free if nobody had lent replicas, as planned so far
        self.claimants: set[str] = set()
        self.yields: dict[str, Yield] = {}

    def limit(self, key: str, share: Share, fitting: int) -> int:
        """Returns how many of the replicas that fit leave room for what is planned."""
        if self._planned is None:
            return fitting
        if key in self.yields:  # it gets nothing back meanwhile
            own = (g.share.replicas for g in self._actual.grants_of(key) if g.share.has_same_pool_and_size(share))
            return min(fitting, max(own, default=0))
        return min(fitting, self._planned.free_capacity(without=key).count_fitting(share))

    def note(self, key: str) -> None:
        """Takes note of what a placement has been granted since."""
        if self._planned is not None:
            self._planned.replace(key, self._actual.grants_of(key))

    def find_yield(self, key: str) -> Yield | None:
        """Returns what a placement gives back to whom, and since when the same placement asks for it."""
        found, before = self.yields.get(key), self._previous.get(key)
        return replace(found, since=before.since) if found and before and before.uid == found.uid else found

    def reclaim(self, key: str, placement: Placement, request: Share, minimum: int) -> bool:
        """Plans to take back lent replicas for a request of guaranteed replicas; returns whether they suffice.

        `minimum`: the smallest number of replicas of the request that is of use to the placement.
        """
        if not self._lends or len(self.claimants) >= MAX_RECLAIMS:
            return False
        own = tuple(grant.share for grant in self._actual.grants_of(key))
        done = [other for other, past in self._previous.items() if past.uid == placement.uid]
        asked = (placement.priority, request, minimum, own)
        # What others find too little does not end what is under way for this request.
        if not done and (asked in self._failed or len(self._failed) >= MAX_FAILED):
            return False
        if not own and self._count_at_most(request) < minimum:
            return False
        planned = self._planned.copy() if self._planned else self._expect()
        planned.replace(key, ())
        lent = sorted(self._list_lent(planned, placement), key=self._order)
        without = planned.copy()
        for each in lent:
            without.replace(each.key, each.keep(each.least))
        target = without.free_capacity().count_fitting(request)
        if target < minimum:
            self._failed.add(asked)
            return False
        wanted = replace(request, replicas=target)
        taken = _take_back(planned, lent, wanted)
        if not taken and not done:
            self._failed.add(asked)  # nothing has to be taken back: it fits once others have released what they left
            return False
        if len({*self.yields, *done, *taken}) > MAX_YIELDS:
            self._failed.add(asked)
            return False
        planned.replace(key, [Grant(uid=placement.uid, namespace="", name="", share=wanted)])
        self._planned, self._most = planned, None
        self.claimants.add(key)
        for_this = Yield(
            keep=0,
            uid=placement.uid,
            namespace=placement.namespace,
            name=placement.deployment or placement.name,
            priority=placement.priority,
            gpus=wanted.gpus,
        )
        self.yields |= {other: replace(for_this, keep=kept) for other, kept in taken.items()}
        # What was given back already must not be taken again before the request has it.
        for other in done:
            has = sum(grant.share.replicas for grant in self._actual.grants_of(other))
            self.yields.setdefault(other, replace(for_this, keep=has))
        return True

    def _count_at_most(self, request: Share) -> int:
        """Returns how many replicas would fit if all that can be taken back were taken, whatever its priority."""
        if self._most is None:
            holdings = self._planned.copy() if self._planned else self._expect()
            for each in [*self._list_lent(holdings)]:
                holdings.replace(each.key, each.keep(each.least))
            self._most = holdings.free_capacity()
        return self._most.count_fitting(request)

    def list_reclaimable(self) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
        """Yields the free nodes after lent replicas were taken back, by the priority that a request needs for this."""
        if not self._lends:
            return
        lent = list(self._list_lent(self._planned or self._actual))
        if not lent:
            return
        holdings = (self._planned or self._actual).copy()
        priorities = sorted({each.priority for each in lent})
        for priority in priorities:
            for each in lent:
                if each.priority == priority:
                    holdings.replace(each.key, each.keep(each.least))
            if priority in priorities[-MAX_PRIORITIES:]:
                free = holdings.free_capacity().free
                yield priority, tuple(sorted((gpus, nodes) for gpus, nodes in free.items() if gpus and nodes))

    def _expect(self) -> Holdings:
        """Returns what is held when everything was released that placements do not request any more."""
        expected = self._actual.copy()
        for key, placement in self._known.items():
            request = placement.effective_request
            if placement.deleting:
                expected.replace(key, ())
            elif request and key not in self._previous:
                expected.replace(key, (_lower(grant, request) for grant in self._actual.grants_of(key)))
        return expected

    def _list_lent(self, holdings: Holdings, claimant: Placement | None = None) -> Iterator[_Lent]:
        """Yields what can be taken back of all grants, or by a claimant: first lent replicas, then all of a grant."""
        for key, placement in self._known.items():
            grants = holdings.grants_of(key)
            if len(grants) != 1 or not may_lend(placement) or key in self.claimants:
                continue
            if claimant and (placement.priority > claimant.priority or _are_of_one_deployment(placement, claimant)):
                continue
            lent = _Lent(key, placement, grants[0], placement.guaranteed_replicas)
            if grants[0].share.replicas > lent.least:
                yield lent
            if placement.preemptible and lent.least and (claimant is None or placement.priority < claimant.priority):
                yield replace(lent, least=0)

    def _order(self, lent: _Lent) -> tuple[bool, bool, int, "_Youngest", str]:
        """Returns the sort key by which replicas are taken back.

        First what is given back already, then lent replicas before guaranteed ones, then the lowest priority, then the
        youngest placement.
        """
        past = self._previous.get(lent.key)
        is_under_way = past is not None and (not lent.is_preempted or past.keep < lent.placement.guaranteed_replicas)
        placement = lent.placement
        return not is_under_way, lent.is_preempted, placement.priority, _Youngest(placement.created), lent.key


def find_kept(environment: Environment, placement: Placement, guaranteed: int = 0) -> tuple[int, Yield] | None:
    """Returns how many replicas a placement keeps, and for whom it gives back the others; None if it keeps all.

    Whatever the status of the environment says, the placement keeps what it is guaranteed, unless the platform allows
    that a higher priority takes this too. `guaranteed`: the replicas that are guaranteed to it from now on; what its
    spec has of them may be fewer.
    """
    request = placement.requested
    if request is None or not may_lend(placement):
        return None
    # A placement that has moved to another pool gives back nothing there.
    grants = (g for g in environment.find_grants(placement.uid) if g.share.has_same_pool_and_size(request))
    yields = next((grant.yields for grant in grants if grant.yields), None)
    if yields is None:
        return None
    is_preempted = placement.preemptible and placement.priority < yields.priority
    guaranteed = max(placement.guaranteed_replicas, guaranteed)
    return max(yields.keep, 0 if is_preempted else guaranteed), yields


def find_last_move(yields: Yield) -> int | None:
    """Returns until when replicas may stay while others start in their place, in seconds since 1970."""
    return None if yields.since is None else yields.since + MOVE_SECONDS


def find_time_to_move(yields: Yield, now: float) -> int | None:
    """Returns the same time while it lies ahead; None once the replicas must end."""
    until = find_last_move(yields)
    return until if until is not None and 0 < until - now <= MOVE_SECONDS + _CLOCK_SKEW_SECONDS else None


class _Youngest(str):
    """A time that sorts before earlier ones."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str(self) > str(other)


def _are_of_one_deployment(one: Placement, other: Placement) -> bool:
    return bool(one.deployment) and (one.namespace, one.deployment) == (other.namespace, other.deployment)


def _lower(grant: Grant, request: Share) -> Grant:
    """Returns what a placement keeps of a grant: nothing in a shape that it does not request any more."""
    replicas = min(grant.share.replicas, request.replicas) if request.has_same_pool_and_size(grant.share) else 0
    return replace(grant, share=replace(grant.share, replicas=replicas))


def _take_back(planned: Holdings, lent: Iterable[_Lent], wanted: Share) -> dict[str, int]:
    """Takes back as few replicas as suffice, in this order; returns how many each keeps, by the key of its grant."""

    def lacks_room() -> bool:
        return planned.free_capacity().count_fitting(wanted) < wanted.replicas

    tried: list[_Lent] = []
    for each in lent:
        if not lacks_room():
            break
        planned.replace(each.key, each.keep(each.least))
        tried.append(each)
    taken: dict[str, int] = {}
    for each in reversed(tried):  # the last ones first, whatever is not needed after all
        if taken.get(each.key, each.least) < each.least:
            continue  # its guaranteed replicas are needed, so the lent ones are as well

        def is_too_much(replicas: int, each: _Lent = each) -> bool:
            planned.replace(each.key, each.keep(replicas))
            return lacks_room()

        had = each.grant.share.replicas
        kept = each.least + bisect_left(range(each.least + 1, had + 1), 1, key=is_too_much)
        planned.replace(each.key, each.keep(kept))
        if kept < had:
            taken[each.key] = kept
    return taken
