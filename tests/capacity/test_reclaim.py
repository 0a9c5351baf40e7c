"""Lent replicas are given back for guaranteed ones: what is taken, from whom, and what never happens meanwhile."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.capacity.ledger import PoolLedger, allocate_pool
from function.capacity.pools import Holdings
from function.capacity.reclaim import MAX_FAILED, MAX_PRIORITIES, MAX_RECLAIMS, MAX_YIELDS, ReclaimPlan, find_kept
from function.domain.allocation import Grant, Share, Yield
from function.domain.placement import Placement
from tests.support.builders import environment, placement, pool, shape, with_service
from tests.support.plain_ledger import charge_one_by_one

FOUR = pool("pool", gpus=8, nodes=4)
FIVE = pool("pool", gpus=8, nodes=5)


def holds(uid: str, replicas: int, guaranteed: int | None = None, **more: object) -> Placement:
    """Returns a placement whose service runs with all replicas, each on a node of 8 GPUs unless `shape` says more."""
    made = asks(uid, replicas, guaranteed, **more)
    assert made.requested
    return with_service(replace(made, has_served=True), allocated=made.requested)


def asks(uid: str, replicas: int = 1, guaranteed: int | None = None, **more: object) -> Placement:
    made = placement("env", deployment=uid, uid=uid, replicas=replicas)
    return replace(made, guaranteed=guaranteed, **more)  # type: ignore[arg-type]  # fields of a placement


def allocate(*placements: Placement, earlier: Iterable[Grant] = ()) -> PoolLedger:
    return allocate_pool(FOUR, placements, earlier)


def kept(ledger: PoolLedger) -> dict[str, int]:
    """Returns how many replicas each placement keeps that has to give back some."""
    return {grant.uid: grant.yields.keep for grant in ledger.grants if grant.yields}


def rejected(ledger: PoolLedger) -> list[str]:
    return [p.uid for p in ledger.rejected]


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    placements: tuple[Placement, ...]
    kept: dict[str, int]
    rejected: tuple[str, ...] = ()


TWO = shape(2, 8)
CASES = (
    Case("room", "nothing is taken while there is room", (holds("a", 3, 1), asks("b")), {}),
    Case("as-few-as-suffice", "one node is needed", (holds("a", 4, 1), asks("b")), {"a": 3}),
    Case("all-that-is-lent", "three nodes are needed", (holds("a", 4, 1), asks("b", 3)), {"a": 1}),
    Case("more-than-is-lent", "nothing is taken in vain", (holds("a", 4, 1), asks("b", 4)), {}, ("b",)),
    Case("guaranteed", "guaranteed replicas are not taken", (holds("a", 4), asks("b")), {}, ("b",)),
    Case("asks-for-lent", "b is guaranteed one of two", (holds("a", 4, 2), asks("b", 2, 1)), {"a": 3}),
    Case(
        "lowest-priority-first",
        "b has the lowest priority, although a is younger",
        (holds("a", 2, 1, created="2026-02"), holds("b", 2, 1, priority=-1, created="2026-01"), asks("c")),
        {"b": 1},
    ),
    Case(
        "youngest-first",
        "both have the same priority, and a is younger",
        (holds("a", 2, 1, created="2026-02"), holds("b", 2, 1, created="2026-01"), asks("c")),
        {"a": 1},
    ),
    Case("higher-priority", "a has a higher priority", (holds("a", 4, 1, priority=1), asks("b")), {}, ("b",)),
    Case(
        "by-hand",
        "no deployment would lower the replicas of a placement without one",
        (holds("a", 4, 1, deployment=""), asks("b")),
        {},
        ("b",),
    ),
    Case(
        "whole-groups",
        "a replica of two nodes is taken as a whole, although one node is needed",
        (holds("a", 2, 1, shape=TWO), asks("b")),
        {"a": 1},
    ),
    Case(
        "both-for-one",
        "a replica of two nodes needs a node of each",
        (holds("a", 2, 1), holds("b", 2, 1), asks("c", shape=TWO)),
        {"a": 1, "b": 1},
    ),
    Case(
        "not-needed-after-all",
        "b is the youngest, but its half of a node makes no room for a whole one",
        (
            holds("a", 3, 2, created="2026-01"),
            holds("b", 1, 0, shape=shape(1, 4), created="2026-02"),
            holds("c", 1, shape=shape(1, 4)),
            asks("d"),
        ),
        {"a": 2},
    ),
    Case(
        "is-deleted",
        "a ends anyway, so only one lent replica is needed for b",
        (replace(holds("a", 2), deleting=True), holds("c", 2, 0), asks("b", 3)),
        {"c": 1},
    ),
    Case(
        "own-deployment",
        "a deployment takes nothing from itself",
        (holds("a", 4, 1), asks("b", deployment="a")),
        {},
        ("b",),
    ),
    Case(
        "higher-priority-asks-first",
        "one node is lent, and c has the higher priority",
        (holds("a", 4, 3), asks("b", priority=1, created="2026-01"), asks("c", priority=2, created="2026-02")),
        {"a": 3},
        ("b",),
    ),
    Case(
        "reserved",
        "the free node is needed for b, so a gets no further lent replica, and c may not start there",
        (holds("a", 3, 1), asks("b", shape=TWO), asks("c", created="2026-02"), asks("d", 1, 0)),
        {"a": 1},
        ("d",),
    ),
    Case(
        "preempts",
        "the platform allows a higher priority to take guaranteed replicas",
        (holds("a", 4, preemptible=True), asks("b", priority=1)),
        {"a": 3},
    ),
    Case("preempts-no-equal", "the priorities are the same", (holds("a", 4, preemptible=True), asks("b")), {}, ("b",)),
    Case(
        "lent-before-guaranteed",
        "c has the higher priority, but lends; a is guaranteed both",
        (holds("a", 2, preemptible=True, priority=-1), holds("c", 2, 1, preemptible=True), asks("b", priority=1)),
        {"c": 1},
    ),
    Case(
        "lent-then-guaranteed",
        "of three nodes, c lends one, and a has the lower priority",
        (holds("a", 2, preemptible=True, priority=-1), holds("c", 2, 1, preemptible=True), asks("b", 3, priority=1)),
        {"c": 1, "a": 0},
    ),
    Case(
        "lent-and-guaranteed-of-one",
        "a lends three nodes, and b needs four",
        (holds("a", 4, 1, preemptible=True), asks("b", 4, priority=1)),
        {"a": 0},
    ),
    Case(
        "guaranteed-as-few-as-suffice",
        "a lends two nodes, and b needs three",
        (holds("a", 4, 2, preemptible=True), asks("b", 3, priority=1)),
        {"a": 1},
    ),
    Case(
        "guaranteed-without-permission",
        "only c may be preempted",
        (holds("a", 2, priority=-1), holds("c", 2, preemptible=True), asks("b", 3, priority=1)),
        {},
        ("b",),
    ),
    Case(
        "preempts-for-guaranteed-only",
        "b asks for a lent replica",
        (holds("a", 4, preemptible=True), asks("b", 1, 0, priority=1)),
        {},
        ("b",),
    ),
    Case(
        "grows",
        "b has one of three guaranteed replicas",
        (holds("a", 3, 1), replace(holds("b", 1), replicas=3)),
        {"a": 1},
    ),
    Case(
        "leaves-anyway",
        "a gives up three nodes by itself, so b waits for them like everybody else",
        (replace(holds("a", 4, 1), replicas=1), asks("b", 2)),
        {},
        ("b",),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_takes_back(case: Case) -> None:
    ledger = allocate(*case.placements)
    assert (kept(ledger), tuple(rejected(ledger))) == (case.kept, case.rejected), case.reason


def test_names_who_needs_the_gpus() -> None:
    ledger = allocate(holds("a", 4, 1), asks("b", 2, priority=7))
    (found,) = (grant.yields for grant in ledger.grants if grant.yields)
    assert str(found) == "team/b (priority 7), which needs 16 GPUs"
    assert (found.uid, found.keep) == ("b", 2)


def test_nothing_is_granted_that_a_waiting_request_needs() -> None:
    """One node is free and one is to be given back, and both are for b."""
    ledger = allocate(holds("a", 3, 1), asks("b", shape=TWO), asks("c", priority=-1), asks("d", 1, 0))
    assert {g.uid: g.share.replicas for g in ledger.grants} == {"a": 3}
    assert (kept(ledger), sorted(rejected(ledger))) == ({"a": 2}, ["c", "d"])


def test_what_a_waiting_request_does_not_need_is_granted() -> None:
    """Beside c, half a node is free and stays free when b has its two nodes."""
    half = shape(1, 4)
    ledger = allocate(holds("a", 2, 1), holds("c", 1, shape=half), asks("b", shape=TWO), asks("d", shape=half))
    assert {g.uid: g.share.replicas for g in ledger.grants} == {"a": 2, "c": 1, "d": 1}
    assert (kept(ledger), rejected(ledger)) == ({"a": 1}, [])


def test_goes_on_with_those_who_began_to_give_back() -> None:
    """The younger one gives back already; that a still younger one has come since changes nothing."""
    old, young = holds("a", 2, 1, created="2026-01"), holds("b", 2, 1, created="2026-02")
    first = allocate(old, young, asks("c"))
    assert kept(first) == {"b": 1}
    older = replace(old, created="2026-03")
    assert kept(allocate(older, young, asks("c"), earlier=first.grants)) == {"b": 1}


def test_who_has_given_back_gets_nothing_again_before_the_other_starts() -> None:
    a, b, c = holds("a", 2, 1), holds("b", 2, 1), asks("c", 2)
    first = allocate(a, b, c)
    assert kept(first) == {"a": 1, "b": 1}
    done = with_service(replace(a, replicas=1), allocated=share(1))
    second = allocate(done, b, c, earlier=first.grants)
    assert kept(second) == {"a": 1, "b": 1}
    third = allocate(replace(done, replicas=2), b, c, earlier=second.grants)
    assert {g.uid: g.share.replicas for g in third.grants} == {"a": 1, "b": 2}


def share(replicas: int) -> Share:
    return Share(pool="pool", nodes=1, gpus_per_node=8, replicas=replicas)


def test_publishes_what_can_be_taken_back_by_priority() -> None:
    ledger = allocate(holds("a", 2, 1, priority=-1), holds("b", 2, 1, priority=3))
    assert ledger.reclaimable == ((-1, ((8, 1),)), (3, ((8, 2),)))
    assert allocate(holds("a", 4)).reclaimable == ()


def test_bounds_what_it_publishes_and_what_it_takes_back_at_once() -> None:
    many = [holds(f"{n:03}", 2, 1, priority=n, shape=shape(1, 1)) for n in range(MAX_PRIORITIES + 4)]
    found = allocate(*many).reclaimable
    assert [priority for priority, _ in found] == list(range(4, MAX_PRIORITIES + 4))
    waiting = [asks(f"w{n:03}", shape=shape(1, 1)) for n in range(MAX_RECLAIMS + 4)]
    assert len(rejected(allocate(holds("a", 32, 1, shape=shape(1, 1)), *waiting))) == 4
    large = pool("pool", gpus=8, nodes=MAX_YIELDS + 1)
    lenders = [holds(f"{n:03}", 1, 0) for n in range(MAX_YIELDS + 1)]
    assert rejected(allocate_pool(large, [*lenders, asks("w", MAX_YIELDS + 1)])) == ["w"]
    assert len(kept(allocate_pool(large, [*lenders, asks("w", MAX_YIELDS)]))) == MAX_YIELDS


# -- what happens over time, whoever acts first
@dataclass
class Actor:
    """A deployment with one placement: what it wants, and what its placement requests and runs now."""

    placement: Placement
    wants: int
    runs: int = 0

    def seen(self) -> Placement:
        assert self.placement.requested
        allocated = replace(self.placement.requested, replicas=self.runs) if self.runs else None
        return with_service(replace(self.placement, has_served=self.runs > 0), allocated=allocated)

    def obey(self, grant: Grant | None) -> None:
        keep = grant.yields.keep if grant and grant.yields else self.wants
        self.placement = replace(self.placement, replicas=min(self.wants, keep))

    def act(self, grant: Grant | None) -> None:
        self.runs = min(self.placement.replicas, grant.share.replicas if grant else 0)


def draw_actor(drawn: random.Random, number: int, *, preemptible: bool) -> Actor:
    wants = drawn.randint(1, 4)
    made = asks(
        f"{number:02}",
        wants,
        drawn.choice((None, drawn.randint(0, wants))),
        priority=drawn.randint(-1, 1),
        created=f"2026-{drawn.randint(1, 9)}",
        shape=drawn.choice((shape(1, 8), shape(1, 4), shape(2, 8), shape(1, 2))),
        preemptible=preemptible,
    )
    return Actor(made, wants)


@pytest.mark.parametrize("preemptible", [False, True])
@given(st.integers(0, 2**32))
def test_no_gpu_twice_nobody_below_its_guarantee_and_an_end(preemptible: bool, seed: int) -> None:
    """Only a higher priority takes guaranteed replicas, and only where the platform allows it."""
    drawn = random.Random(seed)
    actors: dict[str, Actor] = {}
    granted: tuple[Grant, ...] = ()
    for moment in range(50):
        if moment < 25 and drawn.random() < 0.25:
            actor = draw_actor(drawn, moment, preemptible=preemptible)
            actors[actor.placement.uid] = actor
        if moment < 25 and actors and drawn.random() < 0.05:
            del actors[drawn.choice(sorted(actors))]
        before = {grant.uid: grant.share.replicas for grant in granted}
        told = {grant.uid: grant.yields for grant in granted if grant.yields}
        ledger = allocate_pool(FIVE, [actor.seen() for actor in actors.values()], granted)
        grants = {grant.uid: grant for grant in ledger.grants}
        for uid, actor in actors.items():
            least = min(before.get(uid, 0), actor.placement.guaranteed_replicas, actor.wants)
            yields = grants[uid].yields if uid in grants else None
            asks_for_it = yields or told.get(uid)
            if preemptible and asks_for_it and asks_for_it.priority > actor.placement.priority:
                continue
            assert yields is None or yields.keep >= least
            assert (grants[uid].share.replicas if uid in grants else 0) >= least
        settled = granted == ledger.grants
        granted = ledger.grants
        for uid, actor in actors.items():
            actor.obey(grants.get(uid))
            if moment >= 25 or drawn.random() < 0.5:
                actor.act(grants.get(uid))
        running = [
            replace(grants[uid], share=replace(grants[uid].share, replicas=actor.runs))
            for uid, actor in actors.items()
            if actor.runs
        ]
        assert charge_one_by_one(FIVE, running).free or sum(g.share.gpus for g in running) == 40
    assert settled, "it comes to an end"
    assert not any(grant.yields for grant in granted), "at rest, nobody has anything to give back"


def test_a_request_is_judged_by_what_its_placement_has() -> None:
    """Nobody can take back what b needs, and a lacks one node, which is lent."""
    lender, b, a = holds("l", 3, 2), asks("b", 3, created="2026-01"), replace(holds("a", 2), replicas=3)
    ledger = allocate_pool(FIVE, [lender, b, a])
    assert (kept(ledger), rejected(ledger)) == ({"l": 2}, ["b"])


@pytest.mark.parametrize(("failed", "is_tried"), [(MAX_FAILED - 1, True), (MAX_FAILED, False)])
def test_bounds_how_many_requests_are_compared_with_all_that_is_lent(failed: int, *, is_tried: bool) -> None:
    """One node is lent with priority 1. Requests of priority 0 find nothing, and one of priority 1 would."""
    lender = holds("l", 4, 3, priority=1)
    plan = ReclaimPlan({"l": lender}, _holding(lender), {})

    def is_met(placement: Placement) -> bool:
        assert placement.requested
        return plan.reclaim(placement.uid, placement, placement.requested, 1)

    assert not any(is_met(asks(f"w{n:03}", n + 1, shape=shape(1, 1))) for n in range(failed))
    assert is_met(asks("x", priority=1)) is is_tried


def test_what_is_under_way_goes_on_whatever_others_find() -> None:
    """Each of the others asks for another size, and finds too little."""
    lender, claimant = holds("l", 4, 3, priority=1), asks("x", priority=1)
    told = Yield(keep=3, uid="x", namespace="team", name="x", priority=1, gpus=8)
    plan = ReclaimPlan({"l": lender}, _holding(lender), {"l": told})
    for number in range(MAX_FAILED):
        other = asks(f"w{number:03}", number + 1, shape=shape(1, 1))
        assert other.requested
        assert not plan.reclaim(other.uid, other, other.requested, 1)
    assert claimant.requested
    assert plan.reclaim("x", claimant, claimant.requested, 1)
    assert plan.yields == {"l": told}


def _holding(placement: Placement) -> Holdings:
    found = Holdings(FOUR)
    assert placement.requested
    found.add(placement.uid, Grant(uid=placement.uid, namespace="", name="", share=placement.requested))
    return found


@pytest.mark.parametrize(("keep", "want"), [(0, 2), (-3, 2), (1, 2), (3, 3), (9, 9)])
def test_no_status_takes_what_is_guaranteed(keep: int, want: int) -> None:
    told = Yield(keep=keep, uid="o", namespace="team", name="o", priority=0, gpus=8)
    there = environment(
        "env", FOUR, uid="e", admitted=(Grant(uid="a", namespace="", name="", share=share(4), yields=told),)
    )
    assert find_kept(there, holds("a", 4, 2)) == (want, told)
    assert find_kept(there, holds("a", 4)) is None
    assert find_kept(there, holds("b", 4, 2)) is None


@pytest.mark.parametrize(
    "moved",
    [
        holds("a", 4, 2, pool="other"),
        holds("a", 4, 2, shape=shape(1, 4)),
        holds("a", 4, 2, pool="other", preemptible=True),
        replace(asks("a", 4, 2), shape=None),
    ],
    ids=["pool", "shape", "preempted", "unreadable"],
)
def test_a_placement_that_has_moved_gives_back_nothing_where_it_is(moved: Placement) -> None:
    """Histories, seed 501006: it went to and fro between two pools, because the earlier grant counted for both."""
    told = Yield(keep=0, uid="o", namespace="team", name="o", priority=1, gpus=8)
    there = environment(
        "env", FOUR, uid="e", admitted=(Grant(uid="a", namespace="", name="", share=share(4), yields=told),)
    )
    assert find_kept(there, holds("a", 4, 2, preemptible=True)) == (0, told)
    assert find_kept(there, moved) is None
