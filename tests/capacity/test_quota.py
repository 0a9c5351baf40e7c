"""Placements that exceed the quota of their namespace. A replica of one node takes four GPUs."""

from dataclasses import dataclass, replace

import pytest

from function.capacity.quota import find_excess, may_exceed
from function.domain.allocation import Limits, QuotaUsage, Share
from function.domain.placement import Placement
from function.domain.records.admission import AdmissionRecord
from function.domain.records.weights import WeightsRecord
from function.scheduling.limits import limit_decision
from function.scheduling.verdicts import Assignment, Decision
from tests.support import builders
from tests.support.builders import with_service

GPUS = 4


def placement(name: str, *, begun: bool = False, replicas: int = 1, has: int = 0, namespace: str = "team") -> Placement:
    """Returns a placement, created in the order of names; its service uses `has` replicas."""
    found = builders.placement(
        name=name,
        namespace=namespace,
        uid=name,
        created=f"2026-01-01T00:00:0{name[-1]}Z",
        shape=builders.shape(gpus=GPUS),
        replicas=replicas,
        has_served=begun,
    )
    return with_service(found, allocated=Share(pool="pool", nodes=1, gpus_per_node=GPUS, replicas=has) if has else None)


ONE = builders.shape(gpus=GPUS)
FIRST, SECOND, THIRD = (placement(f"p{n}") for n in (1, 2, 3))
SERVES = placement("p9", begun=True, has=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`taken` has the placements and GPUs in use if the quota is exceeded; None: within the quota."""

    id: str
    reason: str
    me: Placement = SECOND
    others: tuple[Placement, ...] = (FIRST, THIRD)
    limits: Limits
    taken: tuple[int, int] | None = None
    holders: tuple[tuple[str, int], ...] = ()


CASES = (
    Case(id="no-limit", reason="a limit of 0 means no limit", limits=Limits()),
    Case(id="within", reason="two placements are within a limit of two", limits=Limits(placements=2)),
    Case(
        id="one-too-many",
        reason="the placements before this one use the whole limit",
        limits=Limits(placements=1),
        taken=(1, 4),
        holders=(("p1", 4),),
    ),
    Case(id="gpus", reason="4 + 4 GPUs exceed a limit of 7", limits=Limits(gpus=7), taken=(1, 4), holders=(("p1", 4),)),
    Case(id="gpus-just-so", reason="4 + 4 GPUs are within a limit of 8", limits=Limits(gpus=8)),
    Case(
        id="what-does-not-fit-is-not-charged",
        reason="a placement that exceeds the limit alone does not block others",
        others=(replace(FIRST, replicas=5),),
        limits=Limits(gpus=8),
    ),
    Case(
        id="what-runs-comes-first",
        reason="a younger placement that was admitted is charged first",
        me=FIRST,
        others=(SERVES,),
        limits=Limits(placements=1),
        taken=(1, 4),
        holders=(("p9", 4),),
    ),
    Case(
        id="what-was-admitted-stays",
        reason="a lowered limit does not affect admitted placements",
        me=SERVES,
        others=(placement("p8", begun=True, has=1),),
        limits=Limits(placements=1, gpus=1),
    ),
    Case(
        id="growth",
        reason="growth from one to three replicas exceeds the limit: 4 + 4 + 8 of 12 GPUs",
        me=placement("p9", begun=True, has=1, replicas=3),
        others=(placement("p8", begun=True, has=1),),
        limits=Limits(gpus=12),
        taken=(2, 8),
        holders=(("p8", 4), ("p9", 4)),
    ),
    Case(
        id="created-first-comes-first",
        reason="the creation time determines the order, and not the name",
        me=placement("a2"),
        others=(placement("b1"),),
        limits=Limits(placements=1),
        taken=(1, 4),
        holders=(("b1", 4),),
    ),
    Case(
        id="holders",
        reason="the holders are sorted by their GPUs, the largest first, and then by name",
        me=placement("a9"),
        others=(placement("b1"), placement("a2"), placement("c3", replicas=2)),
        limits=Limits(gpus=16),
        taken=(3, 16),
        holders=(("c3", 8), ("a2", 4), ("b1", 4)),
    ),
    Case(
        id="one-that-asks-for-nothing-known",
        reason="a placement with an unknown shape counts as a placement without GPUs",
        others=(replace(FIRST, shape=None),),
        limits=Limits(placements=2, gpus=4),
    ),
    Case(
        id="begun-without-a-service",
        reason="a placement that exceeds the quota and has no service is charged no GPUs",
        others=(placement("p1", begun=True),),
        limits=Limits(gpus=3),
        taken=(1, 0),
        holders=(("p1", 0),),
    ),
    Case(
        id="another-namespace",
        reason="each namespace has its own quota",
        others=(placement("p1", namespace="other"),),
        limits=Limits(placements=1),
    ),
    Case(
        id="one-that-goes-unstarted",
        reason="a placement that is deleted before it starts is not charged",
        others=(replace(FIRST, deleting=True),),
        limits=Limits(placements=1),
    ),
    Case(
        id="one-that-goes-and-runs",
        reason="a placement that is being deleted is charged while its service exists",
        others=(replace(SERVES, deleting=True),),
        limits=Limits(placements=1),
        taken=(1, 4),
        holders=(("p9", 4),),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_finds_what_exceeds_the_quota(case: Case) -> None:
    found = find_excess(case.me, case.others, case.limits)
    want = case.taken and QuotaUsage(
        namespace="team",
        limits=case.limits,
        placements=case.taken[0],
        gpus=case.taken[1],
        requested=(case.me.replicas - (case.me.service.allocated.replicas if case.me.service.allocated else 0)) * GPUS,
        holders=case.holders,
    )
    assert found == want, case.reason
    assert find_excess(case.me, case.others[::-1], case.limits) == found, (
        "the order of the other placements does not matter"
    )
    assert find_excess(case.me, (*case.others, case.me), case.limits) == found, (
        "the placement itself is charged only once"
    )


# These placements have served, and exhaust each of the limits below.
GREEDY = tuple(placement(f"g{n}", begun=True, has=5) for n in range(5))


@pytest.mark.parametrize(
    "limits", [Limits(), Limits(placements=2), Limits(gpus=8), Limits(placements=2, gpus=8)], ids=str
)
@pytest.mark.parametrize(
    "me",
    [
        FIRST,
        SERVES,
        placement("p9", begun=True),
        placement("p9", begun=True, has=1, replicas=2),
        placement("p9", begun=True, has=2, replicas=1),
        placement("p9", replicas=0),
        placement("p9", begun=True, has=1, replicas=0),
        replace(FIRST, shape=None),
        replace(SERVES, shape=None),
        replace(SERVES, deleting=True),
        replace(SERVES, replicas=3, admission=replace(SERVES.admission, over_quota=True)),
        replace(placement("p9"), weights=WeightsRecord(planned_uri="pvc://weights")),
    ],
    ids=lambda p: (
        f"{p.stage.name}-{p.replicas}-{p.service.allocated and p.service.allocated.replicas}-{p.shape and p.shape.gpus}"
    ),
)
def test_may_exceed_exactly_where_others_can_exhaust_the_quota(me: Placement, limits: Limits) -> None:
    """A placement for which the result is False does not require the other placements."""
    assert may_exceed(me, limits) is (find_excess(me, GREEDY, limits) is not None)
    assert find_excess(me, (), limits) is None or may_exceed(me, limits)


def test_keeps_waiting_placement_beyond_the_quota_as_it_is() -> None:
    """The condition Admitted of the placement explains why it does not start, and it has no replicas to keep."""
    mine = replace(placement("p2", replicas=5), admission=AdmissionRecord(over_quota=True))
    asked = Assignment(environment="env", profile="default", pool="pool", shape=ONE, replicas=5, placement=mine)
    decision = Decision(assignments=(asked,))
    assert limit_decision(decision, lambda _: mine, (FIRST, mine), Limits(gpus=4)) == decision
