"""A deployment and its environment agree on growth: next to existing grants, and before waiting placements."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.capacity.ledger import CapacityView, admit_placements
from function.domain.allocation import Grant, Share
from function.domain.environment import Environment
from function.domain.model import Shape
from function.domain.placement import Placement
from function.domain.records.service import ServiceRecord
from function.reasons import Refused
from function.scheduling.scaling import scale_existing
from function.scheduling.scheduler import schedule
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
    """Returns a labelled placement that the deployment of its name composed."""
    made = placement(deployment=uid, uid=uid, shape=of, replicas=replicas, created=created)
    return replace(made, labels=LABELS, owner=f"of-{uid}", **more)  # type: ignore[arg-type]  # fields of a placement


def serves(uid: str, replicas: int, of: Shape = ONE) -> Placement:
    """Returns a placement whose service uses all requested GPUs."""
    return asks(uid, replicas, of, has_served=True, service=ServiceRecord(allocated=share(replicas, of)))


def grant(who: Placement, replicas: int, of: Shape = ONE) -> Grant:
    return Grant(uid=who.uid, namespace=who.namespace, name=who.name, share=share(replicas, of))


def published(nodes: int, placements: list[Placement], *granted: Grant) -> Environment:
    """Returns an environment that has evaluated these placements, starting from these grants."""
    there = environment("env", pool(nodes=nodes), uid="e", admitted=granted)
    found = admit_placements(there, placements)
    return replace(there, admitted=found.grants, rejected=frozenset(found.rejected))


def decided(there: Environment, me: Placement, others: list[Placement], replicas: int, of: Shape = ONE) -> Decision:
    """Returns the decision of the placement's deployment for this number of replicas of a shape."""
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
    Case("waits", "a placement that waits for two nodes holds none", ME, (WAITS,), 2, 2),
    Case(
        "waits-by-hand",
        "a waiting placement that a user created holds no nodes",
        ME,
        (replace(WAITS, owner="", deployment=""),),
        2,
        2,
    ),
    Case(
        "waits-for-one-group",
        "a placement that waits for one replica of two nodes holds none",
        ME,
        (asks("waits", 1, TWO_NODES, OLD),),
        2,
        2,
    ),
    Case("holds", "another placement holds the second node", ME, (serves("other", 1),), 2, 1),
    Case(
        "serves-ungranted",
        "a running placement holds its node without a grant",
        ME,
        (replace(serves("other", 1), labels=()),),
        2,
        1,
    ),
    Case("smaller-shape", "a smaller shape fits on the node of the placement itself", ME, (WAITS,), 1, 1, HALF),
    Case("larger-shape", "a larger shape may also use the free node", ME, (WAITS,), 1, 1, TWO_NODES),
    Case("two-wait", "two waiting placements hold no nodes", ME, (WAITS, replace(WAITS, uid="w", name="w")), 2, 2),
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
    assert asked.requested in [g.share for g in grown.grants if g.uid == "me"], (
        "the environment admits the decided share"
    )


def test_message_counts_the_placements_that_hold_the_nodes() -> None:
    """The message counts the placement that holds nodes, and not the placement that waits for three nodes."""
    holder, waits = serves("holder", 1), asks("waits", 3, created=OLD)
    there = published(3, [ME, holder, waits], grant(ME, 1), grant(holder, 1))
    (miss,) = decided(there, ME, [holder, waits], 3).refusals
    (refusal,) = miss.refusals
    assert refusal.reason is Refused.INSUFFICIENT_CAPACITY
    assert refusal.use is not None
    assert (refusal.use.nodes, refusal.use.nodes_in_use, refusal.use.placements) == (3, 1, 1)


def test_deleting_placement_without_resources_takes_no_room() -> None:
    """The environment does not admit a placement that is being deleted, even if a finalizer delays the deletion."""
    going = asks("going", 1, deleting=True)
    there = published(2, [ME, going], grant(ME, 1))
    (assignment,) = decided(there, ME, [going], 2).assignments
    assert assignment.replicas == 2


def test_first_placement_with_room_keeps_its_turn() -> None:
    """Neither has served. The environment is about to grant the free node to the older placement."""
    me, first = asks("me", 1, created=YOUNG), asks("first", 1, created=OLD)
    there = environment("env", pool(nodes=2), uid="e", admitted=(grant(me, 1),))
    (assignment,) = decided(there, me, [first], 2).assignments
    assert assignment.replicas == 1


def test_grant_stays_until_the_placement_has_seen_its_present_spec() -> None:
    """The grant had just grown to two replicas when the spec was edited, and the status still had one."""
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
    """The environment admits what a deployment decides in place, so no decision is refused and repeated.

    A placement that never started loses its turn when its shape changes, so it is not compared.
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
            held.has_same_pool_and_size(grown.requested) and held.replicas >= grown.requested.replicas
            for held in admitted
        )


@given(rows=WORLDS, mine=MINE, nodes=st.integers(1, 8))
def test_nothing_that_only_waits_blocks_growth(
    rows: list[tuple[int, Shape, str, int]], mine: tuple[int, Shape, str, int], nodes: int
) -> None:
    """In a stable state, waiting placements do not matter: without them, the decided replicas are the same."""
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
        found = [
            scale_existing(request, there, me, CapacityView(seen, (me,)))[0].replicas for seen in (others, holders)
        ]
        assert found[0] == found[1]


@given(rows=WORLDS, nodes=st.integers(1, 8))
def test_no_placement_waits_beside_free_capacity(rows: list[tuple[int, Shape, str, int]], nodes: int) -> None:
    """In a stable state, a placement that is not admitted does not fit next to the admitted ones."""
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
