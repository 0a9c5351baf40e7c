"""Placements that are kept, rescheduled or evicted: docs/concepts.md, "What stays"."""

from dataclasses import dataclass, field, replace

import pytest

from function.capacity.ledger import CapacityView
from function.domain.allocation import Grant, Share
from function.domain.environment import Environment
from function.domain.model import Model, ModelRef, Parallelism
from function.domain.placement import Placement
from function.domain.records.weights import WeightsRecord
from function.scheduling.scheduler import retain, schedule
from function.scheduling.verdicts import RemovalCause, SchedulingRequest
from tests.support.builders import (
    broken_profile,
    deployment,
    environment,
    model,
    placement,
    planner,
    pool,
    profile,
    requires,
    selector,
    shape,
)

KEEP, RESCHEDULE, EVICT = "keep", "reschedule", "evict"
MODEL = model(profile(shape=shape()))
COMPUTED = model(profile(), vram="640Gi")


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    reason: str
    want: str
    model: Model = MODEL
    environment: Environment | None = environment("env", pool())
    placement: Placement = placement()
    others: tuple[Placement, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)


# A placement with a uid, and environments that keep a ledger for it.
MINE = placement(uid="me")
HALF = Grant(
    uid="me", namespace="team", name="chat-env", share=Share(pool="pool", nodes=1, gpus_per_node=4, replicas=1)
)
YIELDING = environment("env", pool(), uid="e", rejected=(("me", "pool"),))
FULL = tuple(placement(deployment=f"other-{n}", created="2025", has_served=True) for n in range(4))
ANOTHER = ModelRef(kind="ClusterModel", name="another")
CASES = (
    Case(id="nothing-changed", reason="an unchanged placement is kept", want=KEEP),
    Case(
        id="environment-not-ready",
        reason="an outage does not move placements",
        environment=environment("env", pool(), ready=False),
        want=KEEP,
    ),
    Case(
        id="capabilities-drifted",
        reason="changed capabilities do not move a placement that was scheduled before",
        model=model(profile(shape=shape(), requires=requires(memory="80Gi", interconnect="nvlink"))),
        environment=environment("env", pool(memory="40Gi", interconnect="pcie", multi_node=False)),
        want=KEEP,
    ),
    Case(
        id="fewer-gpus-per-node",
        reason="acceleratorCount is a capability, and changed capabilities do not move a placement",
        environment=environment("env", pool(gpus=4)),
        want=KEEP,
    ),
    Case(
        id="another-model-that-suits",
        reason="the new model can run in the place of the earlier one",
        placement=placement(model=ANOTHER),
        want=KEEP,
    ),
    Case(
        id="another-model-that-does-not-suit",
        reason="the pool does not satisfy the requirements of the new model",
        model=model(profile(shape=shape(), requires=requires(memory="141Gi"))),
        placement=placement(model=ANOTHER),
        want=RESCHEDULE,
    ),
    Case(
        id="another-model-of-as-many-nodes",
        reason="15 GPUs of 80 GiB need two nodes, and the pool is no longer capable of multiple nodes",
        model=model(profile(), vram="1200Gi"),
        environment=environment("env", pool(multi_node=False)),
        placement=placement(model=ANOTHER, shape=shape(2)),
        want=RESCHEDULE,
    ),
    Case(
        id="another-model-of-one-node",
        reason="the shape computed for the new model is the shape of the placement",
        model=COMPUTED,
        environment=environment("env", pool(multi_node=False)),
        placement=placement(model=ANOTHER),
        want=KEEP,
    ),
    Case(
        id="another-model-where-there-is-no-room",
        reason="a placement that has served keeps its GPUs in a full pool",
        placement=placement(model=ANOTHER, has_served=True),
        others=FULL,
        want=KEEP,
    ),
    Case(
        id="another-model-whose-weights-cannot-be-had",
        reason="a placement waits in its place for weights that cannot be stored yet",
        model=model(profile(shape=shape(2))),
        environment=environment("env", pool(), storage_class=None),
        placement=placement(model=ANOTHER, shape=shape(2)),
        want=KEEP,
    ),
    Case(
        id="another-model-in-an-outage",
        reason="an outage does not move placements",
        environment=environment("env", pool(), ready=False),
        placement=placement(model=ANOTHER),
        want=KEEP,
    ),
    Case(
        id="storage-class-removed",
        reason="the claim of the placement exists already, so it needs no storage class",
        environment=environment("env", pool(), storage_class=None),
        want=KEEP,
    ),
    Case(
        id="better-profile-possible",
        reason="a feasible profile of higher priority does not move placements",
        model=model(profile("better", shape(1, 1)), profile(shape=shape())),
        want=KEEP,
    ),
    Case(
        id="overcommitted-but-served",
        reason="a placement that has served is not moved for capacity",
        placement=placement(has_served=True),
        others=FULL,
        want=KEEP,
    ),
    Case(
        id="overcommitted-and-never-served",
        reason="a placement that never served is evicted if it does not fit in its turn",
        others=FULL,
        want=EVICT,
    ),
    Case(
        id="profile-broken",
        reason="an invalid profile does not remove placements",
        model=model(profile("valid", shape()), broken=(broken_profile("default"),)),
        want=KEEP,
    ),
    Case(
        id="pool-broken",
        reason="an invalid pool does not remove placements",
        environment=environment("env", broken_pools=("pool",)),
        want=KEEP,
    ),
    Case(
        id="environment-broken",
        reason="an invalid environment has no readable labels, and keeps its placements",
        model=model(profile(shape=shape()), selector=selector(tier="production")),
        environment=environment("env", broken=True),
        want=KEEP,
    ),
    Case(
        id="topology-unreadable",
        reason="a placement with an unreadable topology is left unchanged",
        placement=placement(shape=None),
        want=KEEP,
    ),
    Case(
        id="environment-gone",
        reason="a placement is rescheduled if its environment does not exist",
        environment=None,
        want=RESCHEDULE,
    ),
    Case(
        id="pool-gone",
        reason="a placement is rescheduled if its pool no longer exists",
        environment=environment("env", pool("new")),
        want=RESCHEDULE,
    ),
    Case(
        id="profile-gone",
        reason="a placement is rescheduled if its profile no longer exists",
        model=model(profile("new", shape())),
        want=RESCHEDULE,
    ),
    Case(
        id="shape-changed",
        reason="a placement is rescheduled if its profile has another number of nodes",
        model=model(profile(shape=shape(2))),
        want=RESCHEDULE,
    ),
    Case(
        id="parallelism-changed",
        reason="the parallelism is part of the shape",
        model=model(profile(shape=shape(1, 8, Parallelism(tensor=8, expert=True)))),
        want=RESCHEDULE,
    ),
    Case(
        id="deployment-selector-refuses",
        reason="the selector of the deployment no longer matches the environment",
        labels={"team": "a"},
        want=RESCHEDULE,
    ),
    Case(
        id="model-selector-refuses",
        reason="the selector of the model no longer matches the environment",
        model=model(profile(shape=shape()), selector=selector(tier="production")),
        want=RESCHEDULE,
    ),
    Case(
        id="profile-selector-refuses",
        reason="the selector of the profile no longer matches the environment",
        model=model(profile(shape=shape(), selector=selector(tier="production"))),
        want=RESCHEDULE,
    ),
    Case(
        id="selector-refuses-though-profile-broken",
        reason="the selector of the deployment is valid, and applies although the profile is invalid",
        model=model(profile("valid", shape()), broken=(broken_profile("default"),)),
        labels={"team": "a"},
        want=RESCHEDULE,
    ),
    Case(
        id="vram-same",
        reason="only the pool's memory changed (40Gi would need 16 GPUs), and the model's vram did not",
        model=COMPUTED,
        environment=environment("env", pool(memory="40Gi")),
        placement=placement(vram="640Gi"),
        want=KEEP,
    ),
    Case(
        id="vram-changed-and-not-the-shape",
        reason="the changed vram needs the same shape: 600Gi / 80Gi = 7.5 -> 8 GPUs",
        model=model(profile(), vram="600Gi"),
        placement=placement(vram="640Gi"),
        want=KEEP,
    ),
    Case(
        id="vram-changed-and-the-shape",
        reason="the changed vram needs another shape: 320Gi / 80Gi = 4 GPUs",
        model=model(profile(), vram="320Gi"),
        placement=placement(vram="640Gi"),
        want=RESCHEDULE,
    ),
    Case(
        id="vram-not-recorded-same-shape",
        reason="without a recorded vram, the computed shape is the current shape: 640Gi / 80Gi = 8 GPUs",
        model=COMPUTED,
        want=KEEP,
    ),
    Case(
        id="vram-not-recorded-other-shape",
        reason="without a recorded vram, the computed shape differs: 640Gi / 160Gi = 4 GPUs",
        model=COMPUTED,
        environment=environment("env", pool(memory="160Gi")),
        want=RESCHEDULE,
    ),
    Case(
        id="waits-for-its-environment",
        reason="the environment has not evaluated the placement yet",
        environment=environment("env", pool(), uid="e"),
        placement=MINE,
        want=KEEP,
    ),
    Case(
        id="no-room",
        reason="the environment has rejected the placement",
        environment=YIELDING,
        placement=MINE,
        want=EVICT,
    ),
    Case(
        id="never-admitted-and-not-ready",
        reason="the placement was never admitted, and its environment could not be chosen now",
        environment=environment("env", pool(), uid="e", ready=False),
        placement=MINE,
        want=EVICT,
    ),
    Case(
        id="admitted-and-not-ready",
        reason="an admitted placement may compose its resources at any moment",
        environment=environment("env", pool(), uid="e", ready=False, admitted=(HALF,)),
        placement=MINE,
        want=KEEP,
    ),
    Case(
        id="begun-and-not-ready",
        reason="a placement with composed resources was admitted earlier",
        environment=environment("env", pool(), uid="e", ready=False),
        placement=replace(MINE, weights=replace(MINE.weights, planned_uri="pvc://claim/models/0")),
        want=KEEP,
    ),
    Case(
        id="objects-and-not-ready",
        reason="the Objects of the placement show that it was admitted before the statuses were lost",
        environment=environment("env", pool(), uid="e", ready=False),
        placement=replace(MINE, lists_objects=True),
        want=KEEP,
    ),
    Case(
        id="objects-and-no-room",
        reason="the placement may be serving, so it is rescheduled and not evicted",
        environment=YIELDING,
        placement=replace(MINE, lists_objects=True),
        want=RESCHEDULE,
    ),
    Case(
        id="objects-and-no-room-to-grow",
        reason="the placement keeps the replicas that were admitted",
        environment=replace(YIELDING, admitted=(replace(HALF, share=replace(HALF.share, gpus_per_node=8)),)),
        placement=replace(MINE, lists_objects=True, replicas=2),
        want=KEEP,
    ),
    Case(
        id="objects-from-a-file-and-no-room",
        reason="an environment without a ledger admits two concurrent placements, and one of them is evicted",
        placement=replace(placement(), lists_objects=True),
        others=FULL,
        want=EVICT,
    ),
    Case(
        id="no-room-for-another-shape",
        reason="the placement serves in the old shape until there is room for the new shape",
        environment=environment("env", pool(), uid="e", admitted=(HALF,), rejected=(("me", "pool"),)),
        placement=replace(MINE, has_served=True),
        want=RESCHEDULE,
    ),
    Case(
        id="no-room-to-grow",
        reason="the placement keeps its replicas if there is no room for more",
        environment=replace(YIELDING, admitted=(replace(HALF, share=replace(HALF.share, gpus_per_node=8)),)),
        placement=replace(MINE, has_served=True, replicas=2),
        want=KEEP,
    ),
    Case(
        id="vram-not-recorded-and-not-computable",
        reason="a pool that no longer declares its memory does not move placements",
        model=COMPUTED,
        environment=environment("env", pool(memory=None)),
        want=KEEP,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_decides_retention(case: Case) -> None:
    wanted = deployment(selector=selector(**case.labels))
    request = SchedulingRequest(deployment=wanted, model=case.model, storage_request=planner(case.model))
    known = {} if case.environment is None else {"env": case.environment}
    found = retain(request, known, (case.placement,), CapacityView(case.others))
    yielded = tuple(d.placement for d in found.dropped if d.cause is RemovalCause.EVICTED)
    got = {KEEP: found.kept, RESCHEDULE: found.to_reschedule, EVICT: yielded}
    assert {name for name, placements in got.items() if placements} == {case.want}, case.reason


def test_keeps_one_placement_for_each_environment() -> None:
    """Of two placements on the same environment, the Ready one is kept, and the other one is dropped."""
    request = SchedulingRequest(deployment=deployment(), model=MODEL)
    ready, other = placement(name="b", ready=True), placement(name="a")
    found = retain(request, {"env": environment("env", pool())}, (other, ready), CapacityView(()))
    assert found.kept == [ready]
    assert [(d.placement, d.cause) for d in found.dropped] == [(other, RemovalCause.SCALED_DOWN)]


def test_retention_order_keeps_the_most_advanced_longest() -> None:
    """The order is: Ready, not Ready, being deleted; and by the name of the environment within each group."""
    names = ("a", "b", "c", "d")
    known = {name: environment(name, pool()) for name in names}
    own = [placement(name, ready=name in "bc") for name in names]
    own[1] = replace(own[1], deleting=True)
    found = retain(SchedulingRequest(deployment=deployment(), model=MODEL), known, own, CapacityView(()))
    assert [p.environment for p in found.kept] == ["c", "a", "d", "b"]


def test_carries_the_placement_that_was_ready() -> None:
    """Histories, seed 9772: the placement moved, its new environment was deleted, and its pods were briefly gone."""
    own = [
        placement("a"),
        replace(placement("b"), weights=WeightsRecord(planned_uri="pvc://x")),
        placement("c", has_served=True),
    ]
    request = SchedulingRequest(deployment=deployment(environments=1), model=model(), storage_request=planner(model()))
    assert [p.environment for p in retain(request, {}, own, CapacityView(())).to_reschedule] == ["c", "b", "a"]
    assert [p.environment for p in schedule(request, [], own).carried] == ["c"]
