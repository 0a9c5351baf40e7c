"""A deployment decides growth as its environment does: beside what others hold, and before those who only wait."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.capacity.ledger import Ledger, admit_placements
from function.domain.allocation import Grant, Share
from function.domain.environment import Environment
from function.domain.model import Shape
from function.domain.placement import Placement
from function.domain.records.service import ServiceRecord
from function.reasons import Refused
from function.scheduling.scheduler import scale_existing, schedule
from function.scheduling.verdicts import Decision, SchedulingRequest
from tests.support.builders import (
    deployment,
    environment,
    model,
    placement,
    planner,
    pool,
    profile,
    shape,
    with_service,
)

OLD, YOUNG = "2026-01-01", "2026-01-09"
LABELS = (("modelplane.ai/environment", "env"),)
ONE, TWO_NODES, HALF = shape(), shape(2), shape(1, 4)


def share(replicas: int, of: Shape = ONE) -> Share:
    return Share(pool="pool", nodes=of.nodes, gpus_per_node=of.gpus_per_node, replicas=replicas)


def asks(uid: str, replicas: int, of: Shape = ONE, created: str = "2026-01-05", **more: object) -> Placement:
    """Return a labelled placement that the deployment of its name composed."""
    made = placement(deployment=uid, uid=uid, shape=of, replicas=replicas, created=created)
    return replace(made, labels=LABELS, owner=f"of-{uid}", **more)  # type: ignore[arg-type]  # fields of a placement


def serves(uid: str, replicas: int, of: Shape = ONE) -> Placement:
    """Return a placement whose service has all that it asks for."""
    return asks(uid, replicas, of, has_served=True, service=ServiceRecord(allocated=share(replicas, of)))


def grant(who: Placement, replicas: int, of: Shape = ONE) -> Grant:
    return Grant(uid=who.uid, namespace=who.namespace, name=who.name, share=share(replicas, of))


def published(nodes: int, placements: list[Placement], *granted: Grant) -> Environment:
    """Return an environment that has judged these placements, from what it had granted."""
    there = environment("env", pool(nodes=nodes), uid="e", admitted=granted)
    found = admit_placements(there, placements)
    return replace(there, admitted=found.grants, rejected=frozenset(found.rejected))


def decided(there: Environment, me: Placement, others: list[Placement], replicas: int, of: Shape = ONE) -> Decision:
    """Return what the deployment of a placement decides where it wants so many replicas of a shape."""
    asked = model(profile(shape=of))
    request = SchedulingRequest(
        deployment=deployment(me.deployment, replicas=replicas), model=asked, storage_request=planner(asked)
    )
    return schedule(request, [there], [me, *others])


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    me: Placement
    others: tuple[Placement, ...]
    replicas: int
    want: int
    shape: Shape = ONE


ME = serves("me", 1)
WAITS = asks("waits", 2, created=OLD)
CASES = (
    Case("waits", "it waits for two nodes and holds none", ME, (WAITS,), 2, 2),
    Case("waits-by-hand", "also if a user wrote it", ME, (replace(WAITS, owner="", deployment=""),), 2, 2),
    Case("waits-for-one-group", "nor one of two nodes", ME, (asks("waits", 1, TWO_NODES, OLD),), 2, 2),
    Case("holds", "the second node is another's", ME, (serves("other", 1),), 2, 1),
    Case("serves-ungranted", "what runs holds its node", ME, (replace(serves("other", 1), labels=()),), 2, 1),
    Case("smaller-shape", "the room is its own", ME, (WAITS,), 1, 1, HALF),
    Case("larger-shape", "and what is free", ME, (WAITS,), 1, 1, TWO_NODES),
    Case("two-wait", "beside each other they hold no more", ME, (WAITS, replace(WAITS, uid="w", name="w")), 2, 2),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_waiting_placement_holds_nothing(case: Case) -> None:
    others = list(case.others)
    there = published(2, [case.me, *others], grant(case.me, 1))
    (assignment,) = decided(there, case.me, others, case.replicas, case.shape).assignments
    assert (assignment.replicas, assignment.shape) == (case.want, case.shape), case.reason
    asked = replace(case.me, replicas=assignment.replicas, shape=assignment.shape)
    grown = admit_placements(there, [asked, *others])
    assert assignment.placement == case.me
    assert asked.requested in [g.share for g in grown.grants if g.uid == "me"], "its environment admits what is decided"


def test_message_counts_the_placements_that_hold_the_nodes() -> None:
    """Two of three nodes are held by another: that one waits for three nodes is not said."""
    holder, waits = serves("holder", 1), asks("waits", 3, created=OLD)
    there = published(3, [ME, holder, waits], grant(ME, 1), grant(holder, 1))
    (miss,) = decided(there, ME, [holder, waits], 3).refusals
    (refusal,) = miss.refusals
    assert refusal.reason is Refused.INSUFFICIENT_CAPACITY
    assert refusal.use is not None
    assert (refusal.use.nodes, refusal.use.nodes_in_use, refusal.use.placements) == (3, 1, 1)


def test_deleting_placement_without_resources_takes_no_room() -> None:
    """The environment does not admit it any more, however long a finalizer keeps it."""
    going = asks("going", 1, deleting=True)
    there = published(2, [ME, going], grant(ME, 1))
    (assignment,) = decided(there, ME, [going], 2).assignments
    assert assignment.replicas == 2


def test_first_placement_with_room_keeps_its_turn() -> None:
    """Neither has served: the older one asks for the free node, which the environment is about to admit it to."""
    me, first = asks("me", 1, created=YOUNG), asks("first", 1, created=OLD)
    there = environment("env", pool(nodes=2), uid="e", admitted=(grant(me, 1),))
    (assignment,) = decided(there, me, [first], 2).assignments
    assert assignment.replicas == 1


def test_grant_stays_until_the_placement_has_seen_its_present_spec() -> None:
    """It had just grown to two by this grant when it was edited, and its status said one still."""
    edited = replace(with_service(asks("edited", 2, HALF, OLD), allocated=share(1)), has_served=True)
    there = environment("env", pool(nodes=3), uid="e", admitted=(grant(edited, 2),))
    newcomer = asks("newcomer", 2, created=YOUNG)
    unseen = admit_placements(there, [replace(edited, status_is_current=False), newcomer])
    assert [g.share.replicas for g in unseen.grants if g.uid == "edited" and g.share.gpus_per_node == 8] == [2]
    assert [p.uid for p in unseen.pools["pool"].rejected] == ["newcomer"]
    seen = admit_placements(there, [edited, newcomer])
    assert [g.share.replicas for g in seen.grants if g.uid == "edited" and g.share.gpus_per_node == 8] == [1]


WORLDS = st.lists(
    st.tuples(
        st.integers(1, 4),  # replicas
        st.sampled_from((ONE, TWO_NODES, HALF, shape(1, 2), shape(2, 4))),
        st.sampled_from(("waits", "granted", "serves", "less")),
        st.integers(1, 9),  # day
    ),
    max_size=6,
)
MINE = st.tuples(st.integers(1, 3), st.sampled_from((ONE, TWO_NODES, HALF)), st.sampled_from(("granted", "serves")),
                 st.integers(1, 9))  # fmt: skip


def _placed(uid: str, row: tuple[int, Shape, str, int]) -> tuple[Placement, list[Grant]]:
    replicas, of, state, day = row
    made = asks(uid, replicas, of, f"2026-01-0{day}")
    if state == "waits":
        return made, []
    has = max(1, replicas - 1) if state == "less" else replicas
    if state in {"serves", "less"}:
        made = replace(with_service(made, allocated=share(has, of)), has_served=True)
    return made, [grant(made, has, of)]


@given(
    rows=WORLDS,
    mine=MINE,
    wanted=st.integers(1, 6),
    of=st.sampled_from((ONE, TWO_NODES, HALF)),
    nodes=st.integers(1, 8),
)
def test_deployment_and_environment_agree(
    rows: list[tuple[int, Shape, str, int]], mine: tuple[int, Shape, str, int], wanted: int, of: Shape, nodes: int
) -> None:
    """What a deployment decides in place its environment admits: nothing is decided, refused and decided again.

    Only what was never started gives its turn up with its shape: then the environment admits those that come first.
    """
    made = [_placed(str(number), row) for number, row in enumerate(rows)]
    me, own = _placed("me", mine)
    others = [p for p, _ in made]
    there = published(nodes, [me, *others], *own, *(g for _, each in made for g in each))
    asked = model(profile(shape=of))
    request = SchedulingRequest(
        deployment=deployment("me", replicas=wanted), model=asked, storage_request=planner(asked)
    )
    found = schedule(request, [there], [me, *others])
    for assignment in (
        a for a in found.assignments if a.placement == me and (me.service.allocated or a.shape == me.shape)
    ):
        grown = replace(me, shape=assignment.shape, replicas=assignment.replicas)
        assert grown.requested is not None
        admitted = [g.share for g in admit_placements(there, [grown, *others]).grants if g.uid == "me"]
        assert any(
            held.has_same_size(grown.requested) and held.replicas >= grown.requested.replicas for held in admitted
        )


@given(rows=WORLDS, mine=MINE, nodes=st.integers(1, 8))
def test_nothing_that_only_waits_blocks_growth(
    rows: list[tuple[int, Shape, str, int]], mine: tuple[int, Shape, str, int], nodes: int
) -> None:
    """At rest those who wait change nothing: without them the same number of replicas is decided."""
    made = [_placed(str(number), row) for number, row in enumerate(rows)]
    me, own = _placed("me", mine)
    others = [p for p, _ in made]
    there = published(nodes, [me, *others], *own, *(g for _, each in made for g in each))
    holders = [p for p in others if there.find_grants(p.uid)]
    assert me.shape is not None
    asked = model(profile(shape=me.shape))
    for wanted in range(me.replicas, me.replicas + 4):
        request = SchedulingRequest(
            deployment=deployment("me", replicas=wanted), model=asked, storage_request=planner(asked)
        )
        found = [scale_existing(request, there, me, Ledger(seen, (me,)))[0].replicas for seen in (others, holders)]
        assert found[0] == found[1]


@given(rows=WORLDS, nodes=st.integers(1, 8))
def test_no_placement_waits_beside_free_capacity(rows: list[tuple[int, Shape, str, int]], nodes: int) -> None:
    """At rest what is not admitted does not fit beside what is."""
    made = [_placed(str(number), row) for number, row in enumerate(rows)]
    others = [p for p, _ in made]
    there = published(nodes, others, *(g for _, each in made for g in each))
    capacity = admit_placements(there, others).pools["pool"].capacity
    for waiting in (p for p in others if not there.find_grants(p.uid)):
        assert waiting.shape is not None
        assert (
            capacity.count_fitting_replicas(waiting.shape.nodes, waiting.shape.gpus_per_node, waiting.replicas)
            < waiting.replicas
        )
