"""The replicas of a placement that is kept, and the complete refusal if it cannot get all of them."""

from dataclasses import dataclass, replace

import pytest

from function.capacity.ledger import CapacityView
from function.capacity.pools import PoolUse
from function.domain.allocation import Grant, Share
from function.domain.environment import Environment
from function.domain.model import BrokenEntry, Problem
from function.domain.placement import Placement
from function.domain.records.weights import DownloadRecord, WeightsRecord
from function.reasons import Refused
from function.scheduling.filters import CHECKS, FIRST_OF_POOL, STEP_CAPACITY, STEP_NEVER, check_shared_storage
from function.scheduling.refusals import Field, Refusal
from function.scheduling.scaling import scale_existing
from function.scheduling.verdicts import Infeasible, SchedulingRequest
from function.weights.faults import FaultKind, StorageFault
from tests.support.builders import GIB, FaultyRequest, deployment, environment, model, placement, pool, profile, shape

ONE = shape()
FAULT = StorageFault(kind=FaultKind.STORAGE_CLASS, field="spec.storage.storageClassName")
FOUR = environment("env", pool(nodes=4))


def storage(*faults: StorageFault) -> SchedulingRequest:
    """Returns a request for three replicas for which the planner reports these faults."""
    return FaultyRequest(deployment=deployment(replicas=3), model=model(), faults=faults)


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    environment: Environment
    want: Infeasible | None
    replicas: int = 1
    others: tuple[Placement, ...] = ()
    request: SchedulingRequest = storage()
    mine: Placement = placement()


def free_capacity(reason: Refused, found: int, use: PoolUse) -> Refusal:
    return Refusal(
        reason=reason,
        field=Field.REPLICAS,
        environment="env",
        profile="default",
        pool="pool",
        required=3,
        actual=found,
        shape=ONE,
        use=use,
    )


def unstorable(*refusals: Refusal, fault: StorageFault = FAULT) -> Infeasible:
    storage = Refusal(
        reason=Refused.SHARED_STORAGE_MISSING,
        field=Field.STORAGE,
        environment="env",
        profile="default",
        pool="pool",
        shape=ONE,
        storage=fault,
    )
    return Infeasible(refusals=(storage, *refusals), failed_step=CHECKS.index(check_shared_storage), granted_replicas=1)


def unread(field: Field, *broken: str) -> Infeasible:
    refusal = Refusal(
        reason=Refused.NO_POOL_SATISFIES_REQUIREMENTS, field=field, environment="env", actual=broken or None
    )
    return Infeasible(refusals=(refusal,), failed_step=FIRST_OF_POOL, granted_replicas=1)


FULL = free_capacity(
    Refused.INSUFFICIENT_CAPACITY, 2, PoolUse(nodes=4, nodes_in_use=2, placements=1, unusable_nodes=0, unusable=())
)
# Three replicas of one node each need three nodes.
SMALL = free_capacity(Refused.POOL_TOO_SMALL, 2, PoolUse(nodes=2, nodes_in_use=0, placements=0))
TAKEN = replace(SMALL, use=PoolUse(nodes=2, nodes_in_use=1, placements=1))
TWO_OF_OTHERS = (placement(deployment="other", replicas=2),)
FAULTS = (Problem("spec.serving[0].engine.image", "must not be empty"),)
DONE = DownloadRecord(claim="c", path="models/k", completed_at="2026-01-01T00:00:00Z")
THERE = replace(placement(), weights=WeightsRecord(download=DONE))
ONE_POD = StorageFault(
    kind=FaultKind.CLAIM_NOT_SHARED,
    field="spec.modelCache",
    actual="ReadWriteOnce",
    required="ReadWriteMany",
    replicas=3,
)
UNREADABLE = model(
    profile("other"), broken=(BrokenEntry(name="another", problems=()), BrokenEntry(name="default", problems=FAULTS))
)
UNREAD = Refusal(
    reason=Refused.INVALID_PROFILE, field=Field.PROFILE, environment="env", profile="default", actual=FAULTS
)
CASES = (
    Case("room", "three replicas fit on four nodes", FOUR, None, replicas=3),
    Case("full", "another placement uses two of the four nodes",
         FOUR, Infeasible(refusals=(FULL,), failed_step=STEP_CAPACITY, granted_replicas=2),
         replicas=2, others=TWO_OF_OTHERS),
    Case("too-small", "three replicas never fit on two nodes", environment("env", pool(nodes=2)),
         Infeasible(refusals=(SMALL,), failed_step=STEP_NEVER, granted_replicas=2), replicas=2),
    Case("too-small-and-full", "the refusal counts the replicas that fit in the empty pool: two",
         environment("env", pool(nodes=2)),
         Infeasible(refusals=(TAKEN,), failed_step=STEP_NEVER, granted_replicas=1),
         others=(placement(deployment="other"),)),
    Case("unstorable", "the fault of the planner becomes a refusal", FOUR, unstorable(), request=storage(FAULT)),
    Case("unstorable-and-full", "storage is checked before capacity", FOUR, unstorable(FULL), request=storage(FAULT),
         others=TWO_OF_OTHERS),
    Case("class-of-a-claim-that-is-there", "the existing claim is used, so it needs no storage class",
         FOUR, None, replicas=3, request=storage(FAULT),
         mine=THERE),
    Case("claim-of-one-pod", "an existing ReadWriteOnce claim cannot serve several replicas",
         FOUR, unstorable(fault=ONE_POD),
         mine=replace(THERE, weights=replace(THERE.weights, access_mode="ReadWriteOnce"))),
    Case("claim-of-many", "an existing ReadWriteMany claim serves all replicas", FOUR, None, replicas=3,
         mine=replace(THERE, weights=replace(THERE.weights, access_mode="ReadWriteMany"))),
    Case("no-pool", "the capacity of an invalid pool is unknown", environment("env", broken_pools=("pool",)),
         unread(Field.NODE_POOLS, "pool")),
    Case("broken", "the capacity of an invalid environment is unknown",
         environment("env", broken=True), unread(Field.ENVIRONMENT)),
    Case("broken-beside-its-pool", "an invalid environment admits no growth, even with a valid pool",
         replace(FOUR, broken=True), unread(Field.ENVIRONMENT)),
    Case("broken-profile", "an invalid profile prevents growth until it is valid", FOUR,
         Infeasible(refusals=(UNREAD,), granted_replicas=1),
         request=replace(storage(), model=UNREADABLE)),
    Case("another-broken-profile", "another invalid profile does not prevent growth", FOUR, None, replicas=3,
         request=replace(storage(), model=model(*model().profiles, broken=UNREADABLE.broken[:1]))),
    Case("fewer-of-a-broken-profile", "fewer replicas are always allowed, even if the profile is invalid",
         FOUR, None, replicas=3, mine=placement(replicas=5),
         request=replace(storage(), model=UNREADABLE)),
    Case("fewer", "fewer replicas are always allowed, even without a pool",
         environment("env"), None, replicas=3, mine=placement(replicas=5)),
    Case("as-many", "the same number of replicas needs no capacity",
         environment("env"), None, replicas=3, mine=placement(replicas=3)),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_scales_as_far_as_storage_and_capacity_allow(case: Case) -> None:
    assignment, miss = scale_existing(case.request, case.environment, case.mine, CapacityView(case.others))
    assert miss == case.want, case.reason
    assert (assignment.environment, assignment.profile, assignment.pool) == ("env", "default", "pool")
    assert (assignment.shape, assignment.replicas, assignment.placement) == (ONE, case.replicas, case.mine)


@pytest.mark.parametrize(
    ("declared", "want", "reason"),
    [
        (shape(), "40Gi", "the vram that determined the shape is kept"),
        (None, "600Gi", "600Gi on GPUs of 80Gi make the same shape of 8 GPUs"),
    ],
)
def test_keeps_the_vram_that_made_the_shape(declared: object, want: str, reason: str) -> None:
    asked = model(profile(shape=declared), vram="600Gi")  # type: ignore[arg-type]  # a shape or none
    request = SchedulingRequest(deployment=deployment(), model=asked)
    assignment, _ = scale_existing(request, FOUR, placement(vram="40Gi"), CapacityView(()))
    assert assignment.vram == int(want.removesuffix("Gi")) * GIB, reason


@pytest.mark.parametrize(("granted", "want"), [((), 0), ((1,), 1), ((2,), 2), ((9,), 3)])
def test_rejected_placement_keeps_admitted_replicas(granted: tuple[int, ...], want: int) -> None:
    shares = (Share(pool="pool", nodes=1, gpus_per_node=8, replicas=replicas) for replicas in granted)
    grants = tuple(Grant(uid="me", namespace="team", name="chat-env", share=share) for share in shares)
    there = environment("env", pool(nodes=4), uid="e", admitted=grants, rejected=(("me", "pool"),))
    mine, others = (
        placement(uid="me", replicas=3),
        placement(deployment="other", replicas=4, uid="other", has_served=True),
    )
    request = replace(storage(), deployment=deployment(replicas=9))
    assignment, _ = scale_existing(request, there, mine, CapacityView((others,), (mine,)))
    assert assignment.replicas == want


def test_records_the_memory_for_which_the_shape_was_computed() -> None:
    """An edit of the model that reaches a placement while its pool is invalid must count once the pool is valid again.

    Pools of 8 GPUs with 80Gi each: 150Gi need 2 GPUs, 160Gi as well, and 300Gi need 4.
    """
    made = placement(shape=shape(1, 2), vram="150Gi")

    def recorded(vram: str, there: Environment) -> int | None:
        request = SchedulingRequest(deployment=deployment(), model=model(profile(), vram=vram))
        assignment, _ = scale_existing(request, there, made, CapacityView(()))
        assert assignment.shape == shape(1, 2)
        return assignment.vram

    valid = environment("env", pool(gpus=8, memory="80Gi"))
    assert recorded("160Gi", valid) == 160 * GIB
    assert recorded("300Gi", valid) == 150 * GIB
    assert recorded("300Gi", environment("env", broken_pools=("pool",))) == 150 * GIB
