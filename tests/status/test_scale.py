"""Requested, granted and running replicas: the numbers of the status, and the condition ScaledAsRequested."""

from dataclasses import dataclass, replace

import pytest

from function.domain.placement import Deployment, Placement
from function.kube.manifests import Manifest
from function.reasons import Refused, ScaledAsRequested, Status
from function.scheduling.refusals import Field, Refusal
from function.scheduling.verdicts import Assignment, Decision, Infeasible
from function.status.scale import Scale, build_scaled_as_requested, lower_scale, measure_scale
from tests.support import builders
from tests.support.builders import deployment, placement, with_service

DUPLICATED = deployment(replicas=3)
DIVIDED = replace(DUPLICATED, divides_replicas=True)


def running(name: str, replicas: int, ready: int) -> Placement:
    return with_service(placement(name, replicas=replicas, ready=True), ready_replicas=ready)


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    deployment: Deployment
    placed: tuple[Placement, ...]
    want: Scale
    others: tuple[Placement, ...] = ()


CASES = (
    Case("nothing", DUPLICATED, (), Scale(3, 0, 0)),
    Case("fewest", DUPLICATED, (running("a", 3, 2), running("b", 1, 1)), Scale(3, 1, 1)),
    Case("total", DIVIDED, (running("a", 2, 1), running("b", 1, 1)), Scale(3, 3, 2)),
    Case("starting", DIVIDED, (placement("a", replicas=3),), Scale(3, 3, 0)),
    Case("not-reported", DIVIDED, (running("a", 3, 0),), Scale(3, 3, 3)),
    Case("more-than-granted", DIVIDED, (running("a", 1, 2),), Scale(3, 1, 1)),
    Case("leaving", DIVIDED, (placement("a", replicas=3),), Scale(3, 3, 2), (running("b", 2, 2),)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_measures_replicas(case: Case) -> None:
    assert measure_scale(case.deployment, granted=case.placed, serving=(*case.placed, *case.others)) == case.want


def refused(environment: str, granted: int | None) -> Infeasible:
    refusal = Refusal(
        reason=Refused.NO_POOL_SATISFIES_REQUIREMENTS,
        field=Field.MULTI_NODE,
        environment=environment,
        profile="default",
        pool="pool",
        required=2,
    )
    return Infeasible(refusals=(refusal,), granted_replicas=granted)


def decided(replicas: int, *refusals: Infeasible, divided: int | None = None) -> Decision:
    assigned = Assignment(environment="a", profile="default", pool="pool", shape=builders.ONE_NODE, replicas=replicas)
    return Decision(assignments=(assigned,), refusals=refusals, divided_replicas=divided)


HAD: Manifest = {"status": {"conditions": [{"type": "ScaledAsRequested", "status": "False"}]}}
WHY = "profile default: pool pool is not multiNodeCapable, 2 nodes required"


@pytest.mark.parametrize(
    ("xr", "decision", "scale", "want"),
    [
        ({}, decided(3), Scale(3, 3, 3), None),
        (
            HAD,
            decided(3),
            Scale(3, 3, 3),
            (Status.TRUE, ScaledAsRequested.SCALED, "asked for 3 replicas on each environment, 3 granted, 3 running"),
        ),
        (
            {},
            decided(3, divided=3),
            Scale(3, 3, 1),
            (Status.FALSE, ScaledAsRequested.SCALING, "asked for 3 replicas, 3 granted, 1 running"),
        ),
        (
            {},
            decided(1, refused("a", 1), refused("b", None)),
            Scale(3, 1, 1),
            (
                Status.FALSE,
                ScaledAsRequested.LIMITED,
                f"asked for 3 replicas on each environment, 1 granted, 1 running; a: has 1 replica; {WHY}",
            ),
        ),
        (
            {},
            decided(1, refused("a", 1), refused("b", None), divided=3),
            Scale(3, 1, 1),
            (
                Status.FALSE,
                ScaledAsRequested.LIMITED,
                f"asked for 3 replicas, 1 granted, 1 running; a: has 1 replica; {WHY}; b: {WHY}",
            ),
        ),
        ({}, Decision(refusals=(refused("a", None),)), Scale(3, 0, 0), None),
    ],
)
def test_says_what_is_missing(
    xr: Manifest, decision: Decision, scale: Scale, want: tuple[Status, ScaledAsRequested, str] | None
) -> None:
    found = [(c.status, c.reason, c.message) for c in build_scaled_as_requested(xr, decision, scale)]
    assert found == ([want] if want else [])


def test_lowers_an_observed_scale() -> None:
    observed: Manifest = {"selector": "a=b", "requested": 5, "granted": 4, "replicas": 2}
    assert lower_scale(observed, 3) == {"selector": "a=b", "requested": 3, "granted": 3, "replicas": 2}
