"""Contents of refusals and decisions, from which messages and later steps are built."""

from dataclasses import dataclass, replace

import pytest

from function.capacity.ledger import CapacityView
from function.capacity.pools import PoolCapacity, PoolUse
from function.domain.allocation import Free, Limits, QuotaUsage
from function.domain.environment import Environment, PoolFacts, Unusable, UnusableReason
from function.domain.placement import Preference
from function.reasons import Outlook, Refused
from function.scheduling.filters import (
    CHECKS,
    FIRST_OF_POOL,
    SELECTION,
    STEP_NEVER,
    STEP_QUOTA,
    STEP_READINESS,
    check_gpus_per_node,
    filter_environment,
    filter_for_reschedule,
)
from function.scheduling.refusals import Field, Refusal
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Assignment, Infeasible, RemovalCause, SchedulingRequest
from function.weights.faults import FaultKind, StorageFault
from tests.support.builders import (
    GIB,
    FaultyRequest,
    broken_profile,
    deployment,
    environment,
    model,
    placement,
    pool,
    profile,
    requires,
    selector,
    shape,
)

WIDE = model(profile("wide", shape(1, 16)))
EUROPE = selector(region="europe")
ASIA = environment("env", pool(), labels={"region": "asia"})


def asked(wanted: object = None, **more: object) -> SchedulingRequest:
    return SchedulingRequest(deployment=deployment(**more), model=wanted or model())  # type: ignore[arg-type]  # as named


def not_selected(field: Field, profile: str = "") -> Infeasible:
    refusal = Refusal(
        reason=Refused.NO_ENVIRONMENT_MATCHES,
        field=field,
        environment="env",
        profile=profile,
        unmet=tuple((requirement, "asia") for requirement in EUROPE.requirements),
    )
    return Infeasible(refusals=(refusal,), failed_step=SELECTION)


def unready(message: str) -> Infeasible:
    refusal = Refusal(
        reason=Refused.ENVIRONMENT_NOT_READY, field=Field.READY, environment="env", actual=message or None
    )
    return Infeasible(refusals=(refusal,), failed_step=STEP_READINESS)


def unread(*broken: str) -> Infeasible:
    reason = Refused.NO_POOL_SATISFIES_REQUIREMENTS
    refusal = Refusal(reason=reason, field=Field.NODE_POOLS, environment="env", actual=broken or None)
    return Infeasible(refusals=(refusal,), failed_step=FIRST_OF_POOL)


TOO_WIDE = Refusal(
    reason=Refused.NO_POOL_SATISFIES_REQUIREMENTS,
    field=Field.GPUS_PER_NODE,
    environment="env",
    profile="wide",
    pool="pool",
    required=16,
    actual=8,
    shape=shape(1, 16),
)


@dataclass(frozen=True)
class Case:
    id: str
    request: SchedulingRequest
    environment: Environment
    want: Infeasible


FULL = Refusal(
    reason=Refused.POOL_TOO_SMALL,
    field=Field.REPLICAS,
    environment="env",
    profile="default",
    pool="pool",
    required=5,
    actual=4,
    shape=shape(),
    use=PoolUse(nodes=4, nodes_in_use=0, placements=0),
)
TAKES = QuotaUsage(
    namespace="team", limits=Limits(gpus=12), placements=1, gpus=4, requested=16, holders=(("other", 4),)
)


def over_quota(wanted: int, step: int) -> Infeasible:
    refusal = Refusal(
        reason=Refused.QUOTA_EXCEEDED,
        field=Field.QUOTA,
        environment="env",
        profile="default",
        pool="pool",
        shape=shape(gpus=wanted),
        required=wanted,
        quota_usage=replace(TAKES, requested=wanted),
    )
    return Infeasible(refusals=(refusal,), failed_step=step)


CASES = (
    Case("beyond a quota", replace(asked(model(profile("default", shape(gpus=12)))), quota_usage=TAKES),
         environment("env", pool(gpus=16)), over_quota(12, STEP_QUOTA)),
    Case("beyond any quota", replace(asked(model(profile("default", shape(gpus=16)))), quota_usage=TAKES),
         environment("env", pool(gpus=16)), over_quota(16, STEP_NEVER)),
    Case("no room", asked(replicas=5), environment("env", pool(nodes=4)),
         Infeasible(refusals=(FULL,), failed_step=STEP_NEVER)),
    Case("deployment's selector", asked(selector=EUROPE), ASIA, not_selected(Field.DEPLOYMENT_SELECTOR)),
    Case("model's selector", asked(model(selector=EUROPE)), ASIA, not_selected(Field.MODEL_SELECTOR)),
    Case("profile's selector", asked(model(profile("here", shape(), selector=EUROPE))), ASIA,
         not_selected(Field.PROFILE_SELECTOR, "here")),
    Case("not ready", asked(), environment("env", pool(), ready=False, ready_message="away"), unready("away")),
    Case("not ready and no word", asked(), environment("env", pool(), ready=False), unready("")),
    Case("broken pools", asked(), environment("env", broken_pools=("a", "b")), unread("a", "b")),
    Case("no pools", asked(), environment("env"), unread()),
    Case("a check", asked(WIDE), environment("env", pool()),
         Infeasible(refusals=(TOO_WIDE,), failed_step=CHECKS.index(check_gpus_per_node))),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_refusal_records_everything_that_was_compared(case: Case) -> None:
    assert filter_environment(case.request, case.environment, CapacityView(())) == case.want


@pytest.mark.parametrize(("wanted", "outlook"), [(9, Outlook.CAN_WAIT), (12, Outlook.CAN_WAIT), (13, Outlook.NEVER)])
def test_request_beyond_the_limit_is_never_possible(wanted: int, outlook: Outlook) -> None:
    """Another placement uses four of twelve GPUs, and may be deleted."""
    assert over_quota(wanted, STEP_QUOTA).outlook is outlook


@pytest.mark.parametrize(("gpus", "within"), [(8, True), (9, False)])
def test_rescheduling_ignores_the_quota(gpus: int, within: bool) -> None:
    """Eight of twelve GPUs are left. `limit_decision` considers the GPUs that the placement already uses."""
    request = replace(asked(model(profile("default", shape(gpus=gpus)))), quota_usage=TAKES)
    there = environment("env", pool(gpus=16))
    assert isinstance(filter_environment(request, there, CapacityView(())), Assignment) == within
    assert isinstance(filter_for_reschedule(request, there, CapacityView(())), Assignment)


def test_pool_use_reports_unusable_nodes() -> None:
    facts = PoolFacts(nodes=4, usable=3, unusable=(Unusable(reason=UnusableReason.CORDONED, count=1, nodes=("n",)),))
    room = PoolCapacity(4, 8, unusable_nodes=1)
    seen = room.measure_use(replace(pool(nodes=4), facts=facts))
    assert seen == PoolUse(nodes=4, nodes_in_use=0, placements=0, unusable_nodes=1, unusable=facts.unusable)
    assert room.measure_use(pool(nodes=4)) == replace(seen, unusable=())


def test_capacity_is_known_for_published_pools_only() -> None:
    there = environment("env", pool(), pool("new"), uid="e", free={"pool": Free(placements=0, nodes=((8, 4),))})
    assert [CapacityView(()).has_capacity_of(there, each) for each in there.pools] == [True, False]


def test_uses_the_published_capacity() -> None:
    """A node that shrank counts with the GPUs that it has now. Unpublished capacity counts as none."""
    left = {"pool": Free(placements=2, nodes=((4, 1), (8, 2), (16, 1)))}
    room = CapacityView(()).free_capacity(environment("env", uid="e", free=left), pool())
    assert (room.free, room.placements, room.nodes) == ({4: 1, 8: 2}, 2, 4)
    nothing = CapacityView(()).free_capacity(environment("env", uid="e"), pool())
    assert (nothing.free, nothing.placements) == ({}, 0)


@pytest.mark.parametrize(
    ("free", "field"), [({}, Field.LEDGER), ({"pool": Free(placements=4, nodes=())}, Field.REPLICAS)]
)
def test_distinguishes_no_capacity_from_unpublished_capacity(free: dict[str, Free], field: Field) -> None:
    found = filter_environment(asked(), environment("env", pool(nodes=4), uid="e", free=free), CapacityView(()))
    assert isinstance(found, Infeasible)
    (refusal,) = found.refusals
    said = (refusal.reason, refusal.field, refusal.environment, refusal.required, refusal.actual)
    assert said == (Refused.INSUFFICIENT_CAPACITY, field, "env", 1, 0)


SMALLEST = Preference.SMALLEST_SUFFICIENT


@pytest.mark.parametrize(
    ("memory", "spare"), [("40Gi", 160 * GIB), (None, 320 * GIB)], ids=["asked for by GPU", "not asked for"]
)
def test_spare_memory_is_of_one_replica(memory: str | None, spare: int) -> None:
    """The replica has four GPUs of 80Gi, and the requirement applies to each GPU."""
    four = model(profile("four", shape(1, 4), requires=requires(memory=memory)))
    found = filter_environment(asked(four, prefer=SMALLEST), environment("env", pool()), CapacityView(()))
    assert isinstance(found, Assignment)
    assert found.rank is not None
    assert found.rank.spare == spare


def test_smallest_pool_is_of_the_first_feasible_profile() -> None:
    """A smaller pool of a later profile does not matter, nor a profile whose selector does not match."""
    two = model(
        profile("whole", shape(1, 8)), profile("elsewhere", shape(1, 1), selector=EUROPE), profile("one", shape(1, 1))
    )
    there = environment("env", pool("large", memory="141Gi"), pool("middle"), pool("also", memory="96Gi"))
    found = filter_environment(asked(two, prefer=SMALLEST), there, CapacityView(()))
    assert isinstance(found, Assignment)
    assert (found.profile, found.pool) == ("whole", "middle")


FAULT = StorageFault(kind=FaultKind.EMPTY_DIR, field="spec.modelCache.type")


def test_fault_of_the_deployment_places_nothing_and_is_reported() -> None:
    """Readable placements are kept; nothing is rescheduled, chosen or dropped."""
    asked_for = asked(environments=3)
    request = FaultyRequest(deployment=asked_for.deployment, model=asked_for.model, faults=(FAULT,))
    everywhere = [environment(name, pool()) for name in "abc"]
    moving = placement("b", pool="gone")
    decision = schedule(request, everywhere, [placement("a"), moving])
    assert decision.general_refusal == Refusal(reason=Refused.INVALID_DEPLOYMENT, field=Field.STORAGE, storage=FAULT)
    assert [a.environment for a in decision.assignments] == ["a"]
    assert (decision.carried, decision.dropped) == ((moving,), ())
    assert (decision.candidates, decision.desired) == (3, 3)


def test_reports_a_fault_without_any_environment() -> None:
    request = FaultyRequest(deployment=asked().deployment, model=asked().model, faults=(FAULT,))
    fault = schedule(request, [], []).general_refusal
    assert fault == Refusal(reason=Refused.INVALID_DEPLOYMENT, field=Field.STORAGE, storage=FAULT)
    none = schedule(asked(), [], []).general_refusal
    assert none == Refusal(reason=Refused.NO_ENVIRONMENTS, field=Field.ENVIRONMENTS)
    unread = replace(model(broken=(broken_profile(),)), profiles=())
    assert schedule(asked(unread), [], []).general_refusal == none, "a model without profiles has no storage fault"
    assert not schedule(request, [environment("env", pool())], []).refusals, (
        "environments do not repeat the fault of the deployment"
    )


def test_computes_capacity_on_its_own_environments() -> None:
    """The published free capacity excludes the nodes that the placement itself uses."""
    there = environment("a", pool(nodes=4), uid="e", free={"pool": Free(placements=1, nodes=())})
    decision = schedule(asked(replicas=2), [there], [placement("a", uid="me", has_served=True)])
    assert [a.replicas for a in decision.assignments] == [2]


def test_drops_all_but_one_placement_of_an_environment() -> None:
    own = [
        placement("a", name="a-1"),
        placement("a", name="a-2"),
        placement("b", name="b-1"),
        placement("b", name="b-2"),
    ]
    decision = schedule(asked(environments=2), [environment(name, pool()) for name in "ab"], own)
    assert [a.placement.name for a in decision.assignments if a.placement] == ["a-1", "b-1"]
    assert [(d.placement.name, d.cause) for d in decision.dropped] == [
        ("a-2", RemovalCause.SCALED_DOWN), ("b-2", RemovalCause.SCALED_DOWN),
    ]  # fmt: skip


def test_reschedules_in_place_past_deleted_environments() -> None:
    """One placement is kept, one has lost its environment, and one has lost its pool and is rescheduled in place."""
    own = [placement("a"), placement("b"), placement("c", pool="gone")]
    decision = schedule(asked(environments=2), [environment(name, pool()) for name in "ac"], own)
    assert [(a.environment, a.pool) for a in decision.assignments] == [("a", "pool"), ("c", "pool")]
    assert [a.placement for a in decision.assignments] == [own[0], own[2]], (
        "the placement without a pool is rescheduled in place"
    )
    one = schedule(asked(environments=1), [environment(name, pool()) for name in "ac"], own)
    assert [a.environment for a in one.assignments] == ["a"], "no more placements are assigned than desired"
