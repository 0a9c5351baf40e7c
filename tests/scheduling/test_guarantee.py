"""What is taken back and guaranteed to a deployment, as far as the guarantee of its namespace reaches."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.capacity.guarantee import find_guarantee
from function.domain.allocation import Grant, Limits, QuotaUsage, Yield
from function.domain.environment import Environment
from function.domain.model import Model
from function.domain.placement import Deployment, Placement
from function.scheduling.guarantee import count_possible, share_guaranteed
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Assignment, Decision, SchedulingRequest
from tests.support.builders import deployment, environment, model, placement, planner, pool, profile, shape

SMALL, MIDDLE, LARGE = (
    profile(name, shape=shape(gpus=gpus)) for name, gpus in (("small", 1), ("mid", 2), ("large", 4))
)


def lender(where: str, gpus: int, of_pool: str = "pool", *, kept: int = 0) -> Placement:
    """Returns a placement of another namespace whose replicas of one GPU are lent, except those that it keeps."""
    lent = placement(
        where, of_pool, deployment="lender", namespace="lab", shape=shape(gpus=1), replicas=gpus, ready=True
    )
    return replace(lent, guaranteed=kept, name=f"lender-{where}-{of_pool}")


def ask(deployed: Deployment, of: Model, gpus: int | None) -> SchedulingRequest:
    return SchedulingRequest(deployment=deployed, model=of, storage_request=planner(of), guaranteed_gpus=gpus)


def decide(
    request: SchedulingRequest,
    where: Iterable[Environment],
    others: Iterable[Placement],
    usage: QuotaUsage | None = None,
) -> Decision:
    return schedule(request, [*where], [*others], usage=usage)


def summarize(decision: Decision) -> dict[str, tuple[str, int]]:
    return {a.environment: (a.profile, a.replicas) for a in decision.assignments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    id: str
    reason: str
    gpus: int | None  # that can still be guaranteed
    replicas: int = 4
    environments: int = 1
    divided: bool = False
    model: Model = field(default_factory=lambda: model(SMALL))
    pools: tuple[int, ...] = (8,)  # GPUs of the only node of each pool, all lent
    own: tuple[Placement, ...] = ()
    usage: QuotaUsage | None = None
    want: dict[str, tuple[str, int]]


FULL = QuotaUsage(namespace="chat", limits=Limits(gpus=10), placements=1, gpus=8, requested=0, holders=())
OWN = placement("a", shape=shape(gpus=1), profile="small", replicas=1, ready=True)

CASES = (
    Case(id="no-limit", reason="without a guarantee, all are guaranteed", gpus=None, want={"a": ("small", 4)}),
    Case(id="enough", reason="all four fit the guarantee", gpus=4, want={"a": ("small", 4)}),
    Case(id="some", reason="three fit it", gpus=3, want={"a": ("small", 3)}),
    Case(id="none", reason="nothing is taken back", gpus=0, want={}),
    Case(id="no-replica", reason="nobody asks for a replica", gpus=4, replicas=0, want={"a": ("small", 0)}),
    Case(
        id="whole-replicas", reason="a replica of 4 GPUs is guaranteed whole, and 3 GPUs are too few for one",
        gpus=7, replicas=2, model=model(LARGE), want={"a": ("large", 1)},
    ),
    Case(
        id="another-shape", reason="of two shapes, the one that fits the guarantee",
        gpus=2, replicas=1, model=model(LARGE, MIDDLE), want={"a": ("mid", 1)},
    ),
    Case(
        id="most-replicas", reason="more replicas of a smaller shape come before fewer of a larger one",
        gpus=4, replicas=2, model=model(LARGE, MIDDLE), want={"a": ("mid", 2)},
    ),
    Case(
        id="two-environments", reason="two replicas on each of two: three can be guaranteed",
        gpus=3, replicas=2, environments=2, want={"a": ("small", 2), "b": ("small", 1)},
    ),
    Case(
        id="used-up", reason="the first environment uses up the guarantee",
        gpus=2, replicas=2, environments=2, want={"a": ("small", 2)},
    ),
    Case(
        id="ceiling", reason="the ceiling leaves 2 GPUs, and the guarantee 3", gpus=3, replicas=2,
        usage=FULL, want={"a": ("small", 2)},
    ),
    Case(
        id="below-ceiling", reason="the ceiling leaves 2 GPUs, and the guarantee 1", gpus=1, replicas=2,
        usage=FULL, want={"a": ("small", 1)},
    ),
    Case(id="grows", reason="one runs, and two more can be guaranteed", gpus=3, own=(OWN,), want={"a": ("small", 3)}),
    Case(
        id="grows-not", reason="what runs is guaranteed, and nothing else", gpus=1, own=(OWN,),
        want={"a": ("small", 1)},
    ),
    Case(
        id="runs-unguaranteed", reason="what runs stays, although nothing is guaranteed", gpus=0, own=(OWN,),
        want={"a": ("small", 1)},
    ),
    Case(
        id="older-grows-first", reason="of two placements, the older one grows, and the guarantee is used up",
        gpus=3, replicas=2, environments=2,
        own=(OWN, replace(OWN, name="chat-b", environment="b", created="2025-01-01T00:00:00Z", uid="b"),
             ),
        want={"a": ("small", 1), "b": ("small", 2)},
    ),
    Case(
        id="another-shape-in-place",
        reason="what gets another shape where it is uses up the guarantee",
        gpus=1,
        replicas=1,
        environments=2,
        own=(replace(OWN, shape=shape(gpus=2)),),
        want={"a": ("small", 1)},
    ),
    Case(
        id="divided", reason="of four replicas, three can be guaranteed", gpus=3, divided=True, environments=2,
        want={"a": ("small", 3)},
    ),
    Case(
        id="divided-over-two", reason="the first environment has 2 GPUs", gpus=3, divided=True, environments=2,
        pools=(2,), want={"a": ("small", 2), "b": ("small", 1)},
    ),
    Case(
        id="divided-grows", reason="one runs, and one more can be guaranteed", gpus=2, divided=True, environments=2,
        own=(OWN,), want={"a": ("small", 2)},
    ),
    Case(
        id="divided-too-large", reason="the replicas are larger than the guarantee", gpus=3, divided=True,
        replicas=2, model=model(LARGE), want={},
    ),
    Case(id="divided-none", reason="nothing is left of it", gpus=0, divided=True, want={}),
    Case(
        id="divided-none-grows", reason="what runs uses it up", gpus=1, divided=True, own=(OWN,),
        want={"a": ("small", 1)},
    ),
    Case(
        id="divided-unlimited", reason="without a guarantee, all are guaranteed", gpus=None, divided=True,
        want={"a": ("small", 4)},
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_takes_back_as_much_as_the_guarantee_reaches(case: Case) -> None:
    pools = [pool(f"pool-{gpus}" if len(case.pools) > 1 else "pool", gpus=gpus, nodes=1) for gpus in case.pools]
    deployed = replace(
        deployment(replicas=case.replicas, environments=case.environments), divides_replicas=case.divided
    )
    others = [
        lender(name, each.gpus_per_node - sum(own.environment == name for own in case.own), each.name)
        for name in ("a", "b")
        for each in pools
    ]
    request = ask(deployed, case.model, case.gpus)
    decision = decide(request, [environment(name, *pools) for name in ("a", "b")], [*others, *case.own], case.usage)
    assert summarize(decision) == case.want, case.reason
    assert all(refusal.reason.value != "QuotaExceeded" for each in decision.refusals for refusal in each.refusals)


def test_free_gpus_are_used_beyond_the_guarantee() -> None:
    request = ask(deployment(replicas=4), model(SMALL), 0)
    assert summarize(decide(request, [environment("a", pool(gpus=8, nodes=1))], [])) == {"a": ("small", 4)}


def test_divided_replicas_of_a_larger_shape_are_limited_too() -> None:
    """One replica of the first profile fits its pool. For two, only the other one has room: its are larger."""
    pools = (pool("one", gpus=1, nodes=1, accelerator_type="x"), pool("many", gpus=8, nodes=1, accelerator_type="y"))
    deployed = replace(deployment(replicas=2, environments=1), divides_replicas=True)
    found = model(replace(SMALL, requires=replace(SMALL.requires, accelerator_type="x")),
                  replace(LARGE, requires=replace(LARGE.requires, accelerator_type="y")))  # fmt: skip
    lenders = [lender("a", 1, "one"), lender("a", 8, "many")]
    for gpus, want in ((None, {"a": ("large", 2)}), (4, {"a": ("large", 1)}), (3, {}), (1, {})):
        assert summarize(decide(ask(deployed, found, gpus), [environment("a", *pools)], lenders)) == want


def test_counts_what_could_be_guaranteed_to_replicas_without_a_place() -> None:
    placed = Assignment(environment="a", profile="mid", pool="pool", shape=shape(gpus=2), replicas=1)
    decision = Decision(assignments=(placed,), desired=2)
    request = ask(deployment(replicas=2), model(SMALL), 7)
    (shared,) = share_guaranteed(request, [placed], [request.to_placement(placed)])
    assert shared.guaranteed == 2
    assert count_possible(request, decision, [shared]) == (3, 4), "one has a place, and 5 GPUs are left for others of 2"
    assert count_possible(replace(request, guaranteed_gpus=None), decision, [shared]) == (4, 4)
    assert count_possible(request, Decision(desired=1), []) == (2, 2), "replicas of one GPU"
    unknown = model(profile(shape=None), vram="80Gi")
    assert count_possible(replace(request, model=unknown, guaranteed_gpus=1), Decision(desired=1), []) == (1, 2)


def test_a_placement_with_fewer_replicas_leaves_the_others_more_of_the_guarantee() -> None:
    """Of two replicas of the older placement, one has a place. What is written does not change with that."""
    older = replace(OWN, name="chat-b", environment="b", created="2025-01-01T00:00:00Z", uid="b", replicas=1)
    younger = replace(OWN, uid="a", replicas=2)
    request = ask(deployment(replicas=2, environments=2), model(SMALL), 3)
    shared = {each.environment: each.guaranteed for each in share_guaranteed(request, [], [younger, older])}
    assert shared == {"b": 2, "a": 2}
    new = replace(older, uid="", created="", replicas=2)
    shared = {each.environment: each.guaranteed for each in share_guaranteed(request, [], [new, younger])}
    assert shared == {"b": 1, "a": 2}, "one that does not exist yet comes last"
    grown = share_guaranteed(request, [], [younger, replace(older, replicas=2)])
    assert {each.environment: each.guaranteed for each in grown} == {"b": 2, "a": 1}


NAMES = ("a", "b", "c", "d", "e")


@dataclass(frozen=True, slots=True)
class Team:
    """A deployment on one environment, and all that its reconciles depend on."""

    name: str
    priority: int
    created: int
    gpus: int  # of a replica
    replicas: int
    guaranteed: int | None


TEAMS = st.lists(
    st.builds(
        Team,
        name=st.sampled_from(NAMES),
        priority=st.integers(-1, 1),
        created=st.integers(0, 2),
        gpus=st.integers(1, 4),
        replicas=st.integers(0, 4),
        guaranteed=st.none() | st.integers(1, 5),
    ),
    max_size=len(NAMES),
    unique_by=lambda team: team.name,
)


def reconcile(team: Team, seen: Iterable[Placement], gpus: int, existing: Placement | None) -> Placement:
    """Returns the placement that a deployment writes after it has seen the placements of its namespace."""
    created = f"2026-01-01T00:00:0{team.created}Z"
    deployed = replace(
        deployment(team.name, replicas=team.replicas), priority=team.priority, fixed_guaranteed=team.guaranteed
    )
    guarantee = find_guarantee(deployed, created, seen, Limits(guaranteed_gpus=gpus))
    assert guarantee is not None
    assert 0 <= guarantee.used <= gpus
    of_size = model(profile("only", shape=shape(gpus=team.gpus)))
    request = ask(deployed, of_size, guarantee.left)
    assigned = Assignment(
        environment="a", profile="only", pool="pool", shape=shape(gpus=team.gpus), replicas=team.replicas,
        placement=existing,
    )  # fmt: skip
    (shared,) = share_guaranteed(request, [assigned], [request.to_placement(assigned)])
    return replace(shared, uid=team.name, created="2026-02-01T00:00:00Z", deployment_created=created)


def count(teams: Iterable[Team], gpus: int) -> dict[str, int]:
    """Returns the guaranteed replicas: in the order of priority, age and name, as many as fit."""
    found: dict[str, int] = {}
    for team in sorted(teams, key=lambda team: (-team.priority, team.created, team.name)):
        claimed = team.replicas if team.guaranteed is None else min(team.guaranteed, team.replicas)
        found[team.name] = min(claimed, gpus // team.gpus)
        gpus -= found[team.name] * team.gpus
    return found


@given(teams=TEAMS, gpus=st.integers(0, 12), data=st.data())
def test_settles_whatever_order_and_however_old_the_view(teams: list[Team], gpus: int, data: st.DataObject) -> None:
    """Deployments reconcile in any order, and each sees any earlier state. Then each sees the latest state."""
    states: list[dict[str, Placement]] = [{}]
    for team in data.draw(st.lists(st.sampled_from(teams), max_size=12)) if teams else []:
        seen = states[data.draw(st.integers(0, len(states) - 1))]
        written = reconcile(team, seen.values(), gpus, states[-1].get(team.name))
        states.append({**states[-1], team.name: written})
    state = states[-1]
    for _ in teams:
        for team in data.draw(st.permutations(teams)):
            state = {**state, team.name: reconcile(team, state.values(), gpus, state.get(team.name))}
    assert {name: each.guaranteed_replicas for name, each in state.items()} == count(teams, gpus)
    for team in teams:
        assert reconcile(team, state.values(), gpus, state[team.name]) == state[team.name], "nothing flips"


@pytest.mark.parametrize(("gpus", "kept"), [(None, 2), (16, 2), (15, 1), (8, 1), (0, 0)])
def test_replicas_that_are_guaranteed_from_now_on_are_not_given_back(gpus: int | None, kept: int) -> None:
    """Its two replicas of 8 GPUs were lent until now, and the environment takes both back."""
    told = Yield(keep=0, uid="owner", namespace="team-b", name="owner", priority=0, gpus=16)
    lent = replace(placement("a", replicas=2, ready=True, has_served=True), uid="own", guaranteed=0)
    assert lent.requested
    grant = Grant(uid="own", namespace=lent.namespace, name=lent.name, share=lent.requested, yields=told)
    there = replace(environment("a", pool(nodes=2)), admitted=(grant,))
    decision = schedule(ask(deployment(replicas=2), model(profile(shape=shape())), gpus), [there], [lent])
    assert [a.replicas for a in decision.assignments] == [kept]
