"""A quota limits admissions and decisions: existing replicas are kept, and new ones wait for room."""

from dataclasses import dataclass, replace

import pytest

from function.capacity.admission import Admission, apply_quota
from function.domain.allocation import Limits, QuotaUsage, Share
from function.domain.placement import Placement
from function.reasons import Admitted, Refused
from function.scheduling.filters import STEP_READINESS
from function.scheduling.limits import limit_decision
from function.scheduling.refusals import Field, Refusal
from function.scheduling.verdicts import Assignment, Decision, Infeasible
from tests.support.builders import placement, shape, with_service

ONE = Share(pool="pool", nodes=1, gpus_per_node=8, replicas=1)
BEYOND = QuotaUsage(
    namespace="team", limits=Limits(placements=1), placements=1, gpus=8, requested=16, holders=(("a", 8),)
)
MINE = placement(uid="me", replicas=2)
SERVES = replace(with_service(MINE, allocated=ONE), has_served=True)
FOUND = Admission(reason=Admitted.ADMITTED, replicas=2, missing_labels={})
NOTHING_GRANTED = Admission(reason=Admitted.WAITING, missing_labels={})
BARE = Admission(reason=Admitted.LABEL_MISSING, replicas=2, missing_labels={"a": "b"})


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    placement: Placement
    quota_usage: QuotaUsage | None
    want: Admission
    found: Admission = FOUND


def left(replicas: int, excess: QuotaUsage | None = BEYOND) -> Admission:
    return replace(FOUND, reason=Admitted.QUOTA_EXCEEDED, replicas=replicas, quota_usage=excess)


CASES = (
    Case("within", "within the quota, the admission is unchanged", MINE, None, FOUND),
    Case("unlabelled", "the missing label is reported before the quota", MINE, BEYOND, BARE, BARE),
    Case("beyond", "a placement without allocated GPUs gets none beyond the quota", MINE, BEYOND, left(0)),
    Case("serves-one-of-two", "the placement keeps the replica that it serves with", SERVES, BEYOND, left(1)),
    Case("admitted-for-none", "the quota does not increase the granted replicas",
         SERVES, BEYOND, left(0), NOTHING_GRANTED),
    Case("serves-another-shape", "the allocated GPUs are of another shape than the request",
         replace(SERVES, shape=shape(2)), BEYOND, left(0)),
    Case("cannot-be-read", "an unknown request cannot be compared with the allocated GPUs",
         replace(SERVES, shape=None), BEYOND, left(0)),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_admission_within_the_quota(case: Case) -> None:
    assert apply_quota(case.found, case.placement, case.quota_usage) == case.want, case.reason


def _assigned(name: str, there: Placement | None = None) -> Assignment:
    return Assignment(environment=name, profile="default", pool="pool", shape=shape(), replicas=1, placement=there)


def _made(assignment: Assignment) -> Placement:
    return placement(assignment.environment, name=assignment.environment)


def test_refuses_only_new_placements_beyond_the_quota() -> None:
    mine = placement("b", name="b", has_served=True)
    mine = with_service(mine, allocated=mine.requested)
    earlier = Infeasible(refusals=(Refusal(environment="d", reason=Refused.ENVIRONMENT_NOT_READY, field=Field.READY),))
    decision = Decision(
        assignments=(_assigned("a"), _assigned("b", mine), _assigned("c")), refusals=(earlier,), desired=3
    )
    found = limit_decision(decision, _made, [mine], Limits(placements=2))
    assert [a.environment for a in found.assignments] == ["a", "b"], (
        "the existing placement and one of two new ones are within the quota"
    )
    beyond = QuotaUsage(
        namespace="team", limits=Limits(placements=2), placements=2, gpus=16, requested=8, holders=(("a", 8), ("b", 8))
    )
    miss, other = found.refusals
    assert other == earlier
    assert (miss.environment, miss.granted_replicas) == ("c", None)
    assert miss.failed_step > STEP_READINESS, "the placement passes all checks before the quota"
    assert miss.refusals == (
        Refusal(
            reason=Refused.QUOTA_EXCEEDED,
            field=Field.QUOTA,
            environment="c",
            profile="default",
            pool="pool",
            shape=shape(),
            required=8,
            quota_usage=beyond,
        ),
    )
    assert replace(found, assignments=decision.assignments, refusals=decision.refusals) == decision


def test_keeps_existing_placements_whatever_the_quota() -> None:
    there = [placement(name, name=name) for name in "ab"]
    decision = Decision(assignments=tuple(_assigned(each.environment, each) for each in there))
    assert limit_decision(decision, _made, there, Limits(placements=1)) == decision


def test_charges_new_placements_after_existing_ones() -> None:
    """This includes waiting placements: otherwise, each of two deployments would expect the other one to wait."""
    waits = placement("z", name="z")
    found = limit_decision(Decision(assignments=(_assigned("a"),)), _made, [waits], Limits(placements=1))
    assert found.assignments == ()
