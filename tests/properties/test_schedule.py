"""What holds for every decision, whatever the environments and placements are.

Pools are taken in whole nodes here (8 GPUs of 8), so that over-commitment is one sum and needs no second ledger.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from function.domain.cache import CreatedStorage, StorageChoice, UserClaim
from function.domain.environment import Environment, PoolFacts
from function.domain.model import Model
from function.domain.placement import Placement, Preference
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Assignment, Decision, SchedulingRequest
from function.status.model_deployment import build_scheduled
from tests.support.builders import (
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

NAMES = ("a", "b", "c", "d")
POOLS = ("p", "q")
WIDE, NARROW = profile("wide", shape(2)), profile("narrow", shape(1))
MODELS = (
    model(WIDE, NARROW),
    model(NARROW),
    model(WIDE, selector=selector(tier="x")),
    model(profile("wide", shape(2), requires=requires(memory="80Gi")), NARROW),
    model(profile("computed"), vram="810Gi"),
)
profiled = settings(max_examples=80, deadline=None)


@st.composite
def facts(draw: st.DrawFn) -> PoolFacts:
    nodes = draw(st.integers(0, 5))
    return PoolFacts(nodes=nodes, usable=draw(st.integers(0, nodes)))


@st.composite
def an_environment(draw: st.DrawFn, name: str) -> Environment:
    pools = [
        replace(
            pool(p, nodes=draw(st.integers(0, 4)), memory=draw(st.sampled_from(["80Gi", "141Gi", "40Gi"]))),
            facts=draw(st.none() | facts()),
            autoscaled=draw(st.booleans()),
        )
        for p in POOLS
    ]
    return environment(
        name,
        *pools[: draw(st.integers(0, 2))],
        labels={"tier": draw(st.sampled_from("xy"))},
        storage_class=draw(st.sampled_from([None, "shared"])),
        ready=draw(st.booleans()),
        broken=draw(st.integers(0, 9)) == 0,
        deleting=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def sites(draw: st.DrawFn) -> list[Environment]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return [draw(an_environment(name)) for name in names]


@st.composite
def a_placement(draw: st.DrawFn, owner: str, where: str) -> Placement:
    chosen = draw(st.sampled_from(["wide", "narrow", "gone", "computed"]))
    return placement(
        where,
        draw(st.sampled_from(POOLS)),
        deployment=owner,
        name=f"{owner}-{where}",
        profile=chosen,
        shape=draw(st.sampled_from([shape(1), shape(2), None])),
        replicas=draw(st.integers(0, 3)),
        created=f"2026-01-0{draw(st.integers(1, 3))}",
        uid=f"{owner}-{where}",
        has_served=draw(st.booleans()),
        ready=draw(st.booleans()),
        deleting=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def placements(draw: st.DrawFn, owners: Sequence[str] = ("chat", "one", "two")) -> list[Placement]:
    places = draw(st.lists(st.tuples(st.sampled_from(owners), st.sampled_from(NAMES)), unique=True, max_size=8))
    return [draw(a_placement(owner, where)) for owner, where in places]


@st.composite
def needs(draw: st.DrawFn, name: str = "chat") -> SchedulingRequest:
    asked = draw(st.sampled_from(MODELS))
    choices: tuple[StorageChoice, ...] = (CreatedStorage(), UserClaim(claim="mine"))
    choice = draw(st.sampled_from(choices))
    return SchedulingRequest(
        deployment=deployment(
            name,
            environments=draw(st.integers(1, 3)),
            replicas=draw(st.integers(0, 3)),
            prefer=draw(st.sampled_from(Preference)),
        ),
        model=asked,
        storage_request=planner(asked, choice),
    )


def left(limit: int, others: Sequence[Placement]) -> int:
    """Return the free nodes of a pool after all others took theirs, in the order of the design."""
    free = limit
    for other in sorted(others, key=lambda p: (not (p.has_served or p.ready), p.created, p.uid, p.namespace, p.name)):
        wanted = 0 if other.shape is None else other.shape.nodes * other.replicas
        if other.has_served or other.ready:
            free = max(0, free - wanted)
        elif wanted <= free:
            free -= wanted
    return free


def changed(assignment: Assignment) -> bool:
    """Tell whether an assignment asks for more than its placement has."""
    old = assignment.placement
    return old is None or (old.profile, old.pool, old.shape) != (assignment.profile, assignment.pool, assignment.shape)


def layout(decision: Decision) -> list[tuple[str, str, str, int]]:
    return [(a.environment, a.profile, a.pool, a.replicas) for a in decision.assignments]


def fed_back(
    request: SchedulingRequest, decision: Decision, others: Sequence[Placement], created: str
) -> list[Placement]:
    """Return what there is once a decision was carried out."""
    name = request.deployment.name
    mine = [
        replace(
            a.placement
            or placement(a.environment, deployment=name, name=f"{name}-{a.environment}", uid=name, created=created),
            profile=a.profile,
            pool=a.pool,
            shape=a.shape,
            replicas=a.replicas,
            vram=a.vram,
        )
        for a in decision.assignments
    ]
    return [*others, *mine, *decision.carried]


def without(name: str, everything: Sequence[Placement]) -> list[Placement]:
    return [p for p in everything if p.deployment != name]


@profiled
@given(request=needs(), environments=sites(), existing=placements(), seed=st.integers(0, 99))
def test_the_order_of_the_inputs_changes_nothing(
    request: SchedulingRequest, environments: list[Environment], existing: list[Placement], seed: int
) -> None:
    decision = schedule(request, environments, existing)
    shuffled = random.Random(seed)
    other = schedule(
        request, shuffled.sample(environments, len(environments)), shuffled.sample(existing, len(existing))
    )
    assert other == decision
    assert build_scheduled(request, other) == build_scheduled(request, decision)


@profiled
@given(request=needs(), environments=sites(), existing=placements())
def test_new_placements_never_overcommit(
    request: SchedulingRequest, environments: list[Environment], existing: list[Placement]
) -> None:
    known = {e.name: e for e in environments}
    for a in schedule(request, environments, existing).assignments:
        grown = a.placement is not None and a.replicas > a.placement.replicas
        if not (changed(a) or grown):
            continue
        where = known[a.environment].pool(a.pool)
        assert where is not None
        others = [p for p in without("chat", existing) if (p.environment, p.pool) == (a.environment, a.pool)]
        assert a.shape.nodes * a.replicas <= left(where.usable_nodes, others)


@profiled
@given(request=needs(), environments=sites(), existing=placements())
def test_every_placement_is_kept_carried_or_dropped(
    request: SchedulingRequest, environments: list[Environment], existing: list[Placement]
) -> None:
    decision = schedule(request, environments, existing)
    accounted = [
        *(a.placement.name for a in decision.assignments if a.placement is not None),
        *(p.name for p in decision.carried),
        *(d.placement.name for d in decision.dropped),
    ]
    assert sorted(accounted) == sorted(p.name for p in existing if p.deployment == "chat")
    assert decision.placed <= decision.desired
    assert len({a.environment for a in decision.assignments}) == len(decision.assignments)


@profiled
@given(
    where=st.lists(st.sampled_from(NAMES), unique=True, min_size=1),
    before=st.data(),
    others=placements(("one", "two")),
    replicas=st.integers(1, 3),
)
def test_ready_placements_never_move_for_others(
    where: list[str], before: st.DataObject, others: list[Placement], replicas: int
) -> None:
    """Its pool may shrink, drift and fill up, its environment may fail: it stays as long as it is wanted."""
    own = [placement(name, "p", profile="narrow", shape=shape(1), replicas=replicas, ready=True) for name in where]
    environments = [
        environment(
            name,
            pool("p", nodes=before.draw(st.integers(0, 2)), memory="1Gi", multi_node=False, bandwidth=None),
            pool("q"),
            storage_class=None,
            ready=before.draw(st.booleans()),
        )
        for name in NAMES
    ]
    request = SchedulingRequest(
        deployment=deployment(environments=len(where), replicas=replicas), model=model(WIDE, NARROW)
    )
    decision = schedule(request, environments, [*own, *others])
    assert layout(decision) == [(name, "narrow", "p", replicas) for name in sorted(where)]
    assert decision.dropped == ()


@profiled
@given(request=needs(), environments=sites(), existing=placements())
def test_decision_is_a_fixed_point(
    request: SchedulingRequest, environments: list[Environment], existing: list[Placement]
) -> None:
    """Within three rounds, while nothing else changes."""
    others = without("chat", existing)
    view, layouts = existing, []
    for _ in range(4):
        decision = schedule(request, environments, view)
        layouts.append(layout(decision))
        view = fed_back(request, decision, others, "2027")
    assert layouts[2] == layouts[3]


@profiled
@given(
    nodes=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    models=st.lists(st.sampled_from(MODELS[:2]), min_size=2, max_size=3),
    replicas=st.integers(1, 2),
    prefer=st.sampled_from(Preference),
)
def test_racing_deployments_come_to_rest(
    nodes: list[int], models: list[Model], replicas: int, prefer: Preference
) -> None:
    """All from the same view in every round; at rest nothing is overcommitted."""
    environments = [environment(name, pool("p", nodes=n)) for name, n in zip(NAMES, nodes, strict=False)]
    every = [
        SchedulingRequest(deployment=deployment(f"d{index}", replicas=replicas, prefer=prefer), model=each)
        for index, each in enumerate(models)
    ]
    view: list[Placement] = []
    layouts = []
    for turn in range(3 + len(every) * len(environments)):
        decisions = [schedule(request, environments, view) for request in every]
        layouts.append([layout(decision) for decision in decisions])
        view = [
            p
            for request, decision in zip(every, decisions, strict=True)
            for p in fed_back(request, decision, (), f"2026-01-{turn:02}")
        ]
    assert layouts[-1] == layouts[-2]
    for name, limit in zip(NAMES, nodes, strict=False):
        taken = [p.shape.nodes * p.replicas for p in view if p.environment == name and p.shape]
        assert sum(taken) <= limit
