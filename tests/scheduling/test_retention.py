"""What stays, what is decided again, what is evicted: docs/concepts.md, "What stays"."""

from dataclasses import dataclass, field, replace

import pytest

from function.capacity.ledger import Ledger
from function.domain.allocation import Grant, Share
from function.domain.environment import Environment
from function.domain.model import Model, ModelRef, Parallelism
from function.domain.placement import Placement
from function.domain.records.weights import WeightsRecord
from function.scheduling.scheduler import retain, schedule
from function.scheduling.verdicts import DropCause, SchedulingRequest
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


# Environments that keep a ledger, and a placement with a uid on one of them.
MINE = placement(uid="me")
HALF = Grant(
    uid="me", namespace="team", name="chat-env", share=Share(pool="pool", nodes=1, gpus_per_node=4, replicas=1)
)
YIELDING = environment("env", pool(), uid="e", rejected=(("me", "pool"),))
FULL = tuple(placement(deployment=f"other-{n}", created="2025", has_served=True) for n in range(4))
ANOTHER = ModelRef(kind="ClusterModel", name="another")
CASES = (
    Case(id="nothing-changed", reason="it stays", want=KEEP),
    Case(
        id="environment-not-ready",
        reason="an outage moves nothing",
        environment=environment("env", pool(), ready=False),
        want=KEEP,
    ),
    Case(
        id="capabilities-drifted",
        reason="what was true when it was decided counts",
        model=model(profile(shape=shape(), requires=requires(memory="80Gi", interconnect="nvlink"))),
        environment=environment("env", pool(memory="40Gi", interconnect="pcie", multi_node=False)),
        want=KEEP,
    ),
    Case(
        id="fewer-gpus-per-node",
        reason="acceleratorCount is a capability as well",
        environment=environment("env", pool(gpus=4)),
        want=KEEP,
    ),
    Case(
        id="another-model-that-suits",
        reason="it can run where the other one ran",
        placement=placement(model=ANOTHER),
        want=KEEP,
    ),
    Case(
        id="another-model-that-does-not-suit",
        reason="no profile of another model was ever placed here: what it asks for was never true",
        model=model(profile(shape=shape(), requires=requires(memory="141Gi"))),
        placement=placement(model=ANOTHER),
        want=RESCHEDULE,
    ),
    Case(
        id="another-model-of-as-many-nodes",
        reason="15 GPUs of 80 GiB are two nodes, as it has, and between those there is no way any more",
        model=model(profile(), vram="1200Gi"),
        environment=environment("env", pool(multi_node=False)),
        placement=placement(model=ANOTHER, shape=shape(2)),
        want=RESCHEDULE,
    ),
    Case(
        id="another-model-of-one-node",
        reason="what is computed for it is what it has",
        model=COMPUTED,
        environment=environment("env", pool(multi_node=False)),
        placement=placement(model=ANOTHER),
        want=KEEP,
    ),
    Case(
        id="another-model-where-there-is-no-room",
        reason="room is no question for what has it",
        placement=placement(model=ANOTHER, has_served=True),
        others=FULL,
        want=KEEP,
    ),
    Case(
        id="another-model-whose-weights-cannot-be-had",
        reason="it waits for them here",
        model=model(profile(shape=shape(2))),
        environment=environment("env", pool(), storage_class=None),
        placement=placement(model=ANOTHER, shape=shape(2)),
        want=KEEP,
    ),
    Case(
        id="another-model-in-an-outage",
        reason="an outage moves nothing",
        environment=environment("env", pool(), ready=False),
        placement=placement(model=ANOTHER),
        want=KEEP,
    ),
    Case(
        id="storage-class-removed",
        reason="its claim exists",
        environment=environment("env", pool(), storage_class=None),
        want=KEEP,
    ),
    Case(
        id="better-profile-possible",
        reason="a profile of higher priority moves nothing",
        model=model(profile("better", shape(1, 1)), profile(shape=shape())),
        want=KEEP,
    ),
    Case(
        id="overcommitted-but-served",
        reason="nothing that served moves for capacity",
        placement=placement(has_served=True),
        others=FULL,
        want=KEEP,
    ),
    Case(id="overcommitted-and-never-served", reason="it does not fit in its turn", others=FULL, want=EVICT),
    Case(
        id="profile-broken",
        reason="invalid input tears nothing down",
        model=model(profile("valid", shape()), broken=(broken_profile("default"),)),
        want=KEEP,
    ),
    Case(
        id="pool-broken",
        reason="invalid input tears nothing down",
        environment=environment("env", broken_pools=("pool",)),
        want=KEEP,
    ),
    Case(
        id="environment-broken",
        reason="not even its labels can be read",
        model=model(profile(shape=shape()), selector=selector(tier="production")),
        environment=environment("env", broken=True),
        want=KEEP,
    ),
    Case(
        id="topology-unreadable",
        reason="what is not understood is left alone",
        placement=placement(shape=None),
        want=KEEP,
    ),
    Case(id="environment-gone", reason="or being deleted", environment=None, want=RESCHEDULE),
    Case(id="pool-gone", reason="vanished", environment=environment("env", pool("new")), want=RESCHEDULE),
    Case(id="profile-gone", reason="vanished", model=model(profile("new", shape())), want=RESCHEDULE),
    Case(id="shape-changed", reason="another number of nodes", model=model(profile(shape=shape(2))), want=RESCHEDULE),
    Case(
        id="parallelism-changed",
        reason="the shape includes how it is split",
        model=model(profile(shape=shape(1, 8, Parallelism(tensor=8, expert=True)))),
        want=RESCHEDULE,
    ),
    Case(id="deployment-selector-refuses", reason="no longer admitted", labels={"team": "a"}, want=RESCHEDULE),
    Case(
        id="model-selector-refuses",
        reason="no longer admitted",
        model=model(profile(shape=shape()), selector=selector(tier="production")),
        want=RESCHEDULE,
    ),
    Case(
        id="profile-selector-refuses",
        reason="no longer admitted",
        model=model(profile(shape=shape(), selector=selector(tier="production"))),
        want=RESCHEDULE,
    ),
    Case(
        id="selector-refuses-though-profile-broken",
        reason="where it may run is said clearly",
        model=model(profile("valid", shape()), broken=(broken_profile("default"),)),
        labels={"team": "a"},
        want=RESCHEDULE,
    ),
    Case(
        id="vram-same",
        reason="the pool's memory drifted (40Gi would need 16 GPUs), the model's vram did not",
        model=COMPUTED,
        environment=environment("env", pool(memory="40Gi")),
        placement=placement(vram="640Gi"),
        want=KEEP,
    ),
    Case(
        id="vram-changed-and-not-the-shape",
        reason="shapes are compared: 600Gi / 80Gi = 7.5 -> 8, as before",
        model=model(profile(), vram="600Gi"),
        placement=placement(vram="640Gi"),
        want=KEEP,
    ),
    Case(
        id="vram-changed-and-the-shape",
        reason="320Gi / 80Gi = 4",
        model=model(profile(), vram="320Gi"),
        placement=placement(vram="640Gi"),
        want=RESCHEDULE,
    ),
    Case(id="vram-not-recorded-same-shape", reason="640Gi / 80Gi = 8", model=COMPUTED, want=KEEP),
    Case(
        id="vram-not-recorded-other-shape",
        reason="640Gi / 160Gi = 4",
        model=COMPUTED,
        environment=environment("env", pool(memory="160Gi")),
        want=RESCHEDULE,
    ),
    Case(
        id="waits-for-its-environment",
        reason="it was not judged yet",
        environment=environment("env", pool(), uid="e"),
        placement=MINE,
        want=KEEP,
    ),
    Case(id="no-room", reason="its environment says so", environment=YIELDING, placement=MINE, want=EVICT),
    Case(
        id="never-admitted-and-not-ready",
        reason="it would wait for an environment that would not be chosen any more",
        environment=environment("env", pool(), uid="e", ready=False),
        placement=MINE,
        want=EVICT,
    ),
    Case(
        id="admitted-and-not-ready",
        reason="it was admitted, so something may be composed at any moment",
        environment=environment("env", pool(), uid="e", ready=False, admitted=(HALF,)),
        placement=MINE,
        want=KEEP,
    ),
    Case(
        id="begun-and-not-ready",
        reason="what was composed was admitted once",
        environment=environment("env", pool(), uid="e", ready=False),
        placement=replace(MINE, weights=replace(MINE.weights, uri="pvc://claim/models/0")),
        want=KEEP,
    ),
    Case(
        id="objects-and-not-ready",
        reason="its status and that of its environment were lost, and its Objects say that it was admitted",
        environment=environment("env", pool(), uid="e", ready=False),
        placement=replace(MINE, lists_objects=True),
        want=KEEP,
    ),
    Case(
        id="objects-and-no-room",
        reason="it may serve, and nothing says any more that it did not",
        environment=YIELDING,
        placement=replace(MINE, lists_objects=True),
        want=RESCHEDULE,
    ),
    Case(
        id="objects-and-no-room-to-grow",
        reason="it keeps what it was admitted for",
        environment=replace(YIELDING, admitted=(replace(HALF, share=replace(HALF.share, gpus_per_node=8)),)),
        placement=replace(MINE, lists_objects=True, replicas=2),
        want=KEEP,
    ),
    Case(
        id="objects-from-a-file-and-no-room",
        reason="an environment without a ledger admits both of two that race",
        placement=replace(placement(), lists_objects=True),
        others=FULL,
        want=EVICT,
    ),
    Case(
        id="no-room-for-another-shape",
        reason="it serves in the old one until there is room for the new one, here or elsewhere",
        environment=environment("env", pool(), uid="e", admitted=(HALF,), rejected=(("me", "pool"),)),
        placement=replace(MINE, has_served=True),
        want=RESCHEDULE,
    ),
    Case(
        id="no-room-to-grow",
        reason="it keeps what it has",
        environment=replace(YIELDING, admitted=(replace(HALF, share=replace(HALF.share, gpus_per_node=8)),)),
        placement=replace(MINE, has_served=True, replicas=2),
        want=KEEP,
    ),
    Case(
        id="vram-not-recorded-and-not-computable",
        reason="a pool that no longer declares its memory only drifted",
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
    found = retain(request, known, (case.placement,), Ledger(case.others))
    yielded = tuple(d.placement for d in found.dropped if d.cause is DropCause.EVICTED)
    got = {KEEP: found.kept, RESCHEDULE: found.to_reschedule, EVICT: yielded}
    assert {name for name, placements in got.items() if placements} == {case.want}, case.reason


def test_keeps_one_placement_for_each_environment() -> None:
    """Of two on the same environment the Ready one counts, the other goes."""
    request = SchedulingRequest(deployment=deployment(), model=MODEL)
    ready, other = placement(name="b", ready=True), placement(name="a")
    found = retain(request, {"env": environment("env", pool())}, (other, ready), Ledger(()))
    assert found.kept == [ready]
    assert [(d.placement, d.cause) for d in found.dropped] == [(other, DropCause.SCALED_DOWN)]


def test_retention_order_keeps_the_most_advanced_longest() -> None:
    """Ready before not Ready, what is being deleted last, then by environment."""
    names = ("a", "b", "c", "d")
    known = {name: environment(name, pool()) for name in names}
    own = [placement(name, ready=name in "bc") for name in names]
    own[1] = replace(own[1], deleting=True)
    found = retain(SchedulingRequest(deployment=deployment(), model=MODEL), known, own, Ledger(()))
    assert [p.environment for p in found.kept] == ["c", "a", "d", "b"]


def test_carries_the_placement_that_was_ready() -> None:
    """Histories, seed 9772: moved, where it moved to was deleted, and its pods were away for a moment."""
    own = [
        placement("a"),
        replace(placement("b"), weights=WeightsRecord(uri="pvc://x")),
        placement("c", has_served=True),
    ]
    request = SchedulingRequest(deployment=deployment(environments=1), model=model(), storage_request=planner(model()))
    assert [p.environment for p in retain(request, {}, own, Ledger(())).to_reschedule] == ["c", "b", "a"]
    assert [p.environment for p in schedule(request, [], own).carried] == ["c"]
