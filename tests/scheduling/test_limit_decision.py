"""A decision limited by the quota of its namespace: new placements without room are refused, existing ones are kept.

A replica takes four GPUs, or eight GPUs if it has the larger shape.
"""

from dataclasses import dataclass, replace

import pytest

from function.domain.allocation import Limits, Share
from function.domain.model import ModelRef
from function.domain.placement import Placement
from function.domain.records.service import ServiceRecord
from function.reasons import Refused
from function.scheduling.limits import limit_decision
from function.scheduling.refusals import Field, Refusal
from function.scheduling.verdicts import Assignment, Decision, Infeasible
from tests.support import builders
from tests.support.builders import with_service

HALF, WHOLE = builders.shape(gpus=4), builders.shape(gpus=8)
OTHER = Placement(
    namespace="team", name="other", deployment="x", model=ModelRef(kind="ClusterModel", name="kimi"), environment="a",
    profile="default", pool="pool", shape=HALF, uid="other", has_served=True,
    service=ServiceRecord(allocated=Share(pool="pool", nodes=1, gpus_per_node=4, replicas=1)),
)  # fmt: skip
MINE = replace(OTHER, name="mine", uid="mine", environment="env", created="2026-01-02")
NEW = replace(with_service(MINE, allocated=None), uid="", name="new", has_served=False, created="")
# This placement exceeds its quota already, and keeps its replicas.
BEYOND = replace(MINE, admission=replace(MINE.admission, over_quota=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`has`: the existing placement, or None for a new one. `kept`: the decided replicas, None without an assignment.

    `refused`: the refused GPUs, or None without a refusal. `granted_replicas`: the replicas that the refusal reports.
    """

    id: str
    reason: str
    has: Placement | None
    made: Placement
    gpus: int
    kept: int | None = None
    carried: bool = False
    refused: int | None = None
    granted_replicas: int | None = None


CASES = (
    Case(id="new", reason="4 + 4 GPUs are within a limit of 8", has=None, made=NEW, gpus=8, kept=1),
    Case(id="new-beyond", reason="4 + 4 GPUs exceed a limit of 7", has=None, made=NEW, gpus=7, refused=4),
    Case(id="as-it-is", reason="the quota does not limit an unchanged placement", has=MINE, made=MINE, gpus=1, kept=1),
    Case(
        id="fewer",
        reason="the quota does not limit a placement that shrinks",
        has=replace(MINE, replicas=3),
        made=MINE,
        gpus=1,
        kept=1,
    ),
    Case(
        id="grows",
        reason="4 + 12 GPUs are within a limit of 16",
        has=MINE,
        made=replace(MINE, replicas=3),
        gpus=16,
        kept=3,
    ),
    Case(
        id="grows-beyond",
        reason="4 + 12 GPUs exceed a limit of 15, and 4 + 8 do not, so the placement gets two replicas",
        has=MINE,
        made=replace(MINE, replicas=3),
        gpus=15,
        kept=2,
        refused=8,
        granted_replicas=2,
    ),
    Case(
        id="written-beyond",
        reason="its spec has three replicas, its service has one, and the limit allows two",
        has=replace(BEYOND, replicas=3),
        made=replace(BEYOND, replicas=3),
        gpus=15,
        kept=2,
        refused=8,
        granted_replicas=2,
    ),
    Case(
        id="larger",
        reason="4 + 4 + 4 GPUs are within a limit of 12",
        has=MINE,
        made=replace(MINE, shape=WHOLE),
        gpus=12,
        kept=1,
    ),
    Case(
        id="larger-beyond",
        reason="4 + 4 + 4 GPUs exceed a limit of 11, so the placement is carried over",
        has=MINE,
        made=replace(MINE, shape=WHOLE),
        gpus=11,
        carried=True,
        refused=4,
    ),
    Case(
        id="larger-and-given",
        reason="the placement already requests the larger shape, and reports the excess in its own status",
        has=replace(BEYOND, shape=WHOLE),
        made=replace(BEYOND, shape=WHOLE),
        gpus=11,
        kept=1,
    ),
    Case(
        id="unreadable",
        reason="an unknown shape cannot be compared with the request",
        has=replace(MINE, shape=None),
        made=replace(MINE, shape=WHOLE),
        gpus=11,
        kept=1,
    ),
    Case(
        id="wanted-is-unreadable",
        reason="an unknown shape requests no additional GPUs",
        has=MINE,
        made=replace(MINE, shape=None),
        gpus=1,
        kept=1,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_limits_one_assignment_by_the_quota(case: Case) -> None:
    asked = Assignment(
        environment="env",
        profile="default",
        pool="pool",
        shape=case.made.shape or WHOLE,
        replicas=case.made.replicas,
        placement=case.has,
    )
    found = limit_decision(
        Decision(assignments=(asked,)), lambda _: case.made, (OTHER, *filter(None, (case.has,))), Limits(gpus=case.gpus)
    )
    assert found.assignments == (() if case.kept is None else (replace(asked, replicas=case.kept),)), case.reason
    assert found.carried == ((case.has,) if case.carried else ())
    if case.refused is None:
        assert found.refusals == ()
        return
    (miss,) = found.refusals
    (refusal,) = miss.refusals
    assert (miss.environment, miss.reason, miss.granted_replicas) == (
        "env",
        Refused.QUOTA_EXCEEDED,
        case.granted_replicas,
    )
    assert (refusal.field, refusal.required) == (Field.QUOTA, case.refused)


STAYS = replace(MINE, environment="a", name="z")


def asked(environment: str, there: Placement | None = None) -> Assignment:
    return Assignment(environment=environment, profile="default", pool="pool", shape=HALF, replicas=1, placement=there)


def within(made: dict[str, Placement], *assignments: Assignment, before: tuple[Infeasible, ...] = ()) -> Decision:
    """Returns the limited decision; the two existing placements take 4 + 4 GPUs of 12."""
    carried = replace(OTHER, environment="d")
    decision = Decision(assignments=assignments, carried=(carried,), refusals=before)
    return limit_decision(decision, lambda each: made[each.environment], (carried, STAYS), Limits(gpus=12))


NEWS = {name: replace(NEW, environment=name, name=name) for name in "bc"}


def test_accepts_the_first_of_two_new_placements() -> None:
    before = Infeasible(refusals=(Refusal(environment="bb", reason=Refused.POOL_TOO_SMALL, field=Field.REPLICAS),))
    larger = replace(STAYS, shape=builders.shape(2, 8))
    found = within({**NEWS, "a": larger}, asked("c"), asked("b"), asked("a", STAYS), before=(before,))
    assert found.assignments == (asked("c"),)
    assert [placement.environment for placement in found.carried] == ["a", "d"], (
        "the carried placements are sorted by environment"
    )
    assert [miss.environment for miss in found.refusals] == ["a", "b", "bb"]


def test_scales_existing_placements_before_new_ones() -> None:
    found = within({**NEWS, "a": replace(STAYS, shape=WHOLE)}, asked("c"), asked("a", STAYS))
    assert found.assignments == (asked("a", STAYS),)
    assert [miss.environment for miss in found.refusals] == ["c"]


def test_limited_decision_keeps_its_order() -> None:
    last = replace(STAYS, environment="e")
    found = within({**NEWS, "e": last}, asked("b"), asked("e", last))
    assert [each.environment for each in found.assignments] == ["b", "e"]


def test_scales_the_older_of_two_placements() -> None:
    """Either placement could take the last four GPUs, and the older one gets them."""
    young = replace(STAYS, environment="a", name="young", uid="young", created="2026-01-09")
    old = replace(STAYS, environment="e", name="old")
    made = {"a": replace(young, replicas=2), "e": replace(old, replicas=2)}
    asks = [replace(asked(each.environment, each), replicas=2) for each in (young, old)]
    found = limit_decision(
        Decision(assignments=tuple(asks)), lambda each: made[each.environment], (young, old), Limits(gpus=12)
    )
    assert [(each.environment, each.replicas) for each in found.assignments] == [("a", 1), ("e", 2)]


def test_scales_waiting_placements_by_age() -> None:
    """Neither placement has GPUs yet, so the older one gets all 12."""
    old, young = (replace(NEW, name=name, uid=name, created=f"2026-01-0{day}") for name, day in (("old", 1), ("y", 5)))
    asks = replace(asked("env", old), replicas=3)
    found = limit_decision(
        Decision(assignments=(asks,)), lambda _: replace(old, replicas=3), (old, young), Limits(gpus=12)
    )
    assert found.assignments == (asks,)
