"""Replicas that are divided over environments: where they go, what stays, and what is never exceeded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.capacity.quota import namespace_usage
from function.domain.allocation import Grant, Limits, Price, Share
from function.domain.cache import CacheEntry, CacheType, CreatedStorage, ModelCache
from function.domain.environment import Environment, PoolFacts
from function.domain.placement import Placement, Preference
from function.kube.selectors import NO_EXECUTE, Taint
from function.reasons import Phase, Refused
from function.scheduling.limits import limit_decision
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Decision, RemovalCause, SchedulingRequest
from function.scheduling.ways_out import Snapshot, Way, find_ways_out
from tests.support.builders import MODEL, deployment, environment, model, placement, planner, pool, profile, shape

ONE = shape()


def request(
    replicas: int, environments: int = 100, prefer: Preference = Preference.DECLARED, cache: ModelCache | None = None
) -> SchedulingRequest:
    """Returns a request for replicas of one node of 8 GPUs each."""
    asked = model(profile(shape=ONE))
    divided = deployment(replicas=replicas, environments=environments, prefer=prefer)
    return SchedulingRequest(
        deployment=replace(divided, divides_replicas=True), model=asked, storage_request=planner(asked, cache=cache)
    )


def fleet(**nodes: int) -> list[Environment]:
    """Returns environments from files, each with a pool of this many nodes."""
    return [environment(name, pool(nodes=count)) for name, count in nodes.items()]


def priced(name: str, nodes: int, per_hour: int) -> Environment:
    price = Price(per_gpu_hour=Decimal(per_hour), currency="USD")
    return environment(name, replace(pool(nodes=nodes), price=price))


def running(name: str, replicas: int, *, ready: bool = True) -> Placement:
    """Returns a placement that serves with all its replicas."""
    share = Share(pool="pool", nodes=1, gpus_per_node=8, replicas=replicas)
    made = placement(name, replicas=replicas, ready=ready, has_served=True)
    return replace(made, service=replace(made.service, allocated=share, ready_replicas=replicas))


def partly(name: str, replicas: int, ready: int) -> Placement:
    """Returns a placement that serves with some of its replicas."""
    made = running(name, replicas)
    return replace(made, service=replace(made.service, ready_replicas=ready))


def starting(name: str, replicas: int) -> Placement:
    """Returns a placement that never served."""
    made = running(name, replicas, ready=False)
    return replace(made, has_served=False, service=replace(made.service, ready_replicas=0))


def tainted(name: str) -> Environment:
    return environment(name, pool(), taints=(Taint(key="x", effect=NO_EXECUTE),))


def numbers(decision: Decision) -> dict[str, int]:
    return {assignment.environment: assignment.replicas for assignment in decision.assignments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    id: str
    reason: str
    replicas: int
    fleet: Sequence[Environment]
    own: Sequence[Placement] = ()
    others: Sequence[Placement] = ()
    environments: int = 100
    prefer: Preference = Preference.DECLARED
    want: dict[str, int]
    missing: int = 0
    dropped: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()


CASES = (
    Case(
        id="one", reason="all replicas fit on the first environment", replicas=2, fleet=fleet(a=2, b=2), want={"a": 2}
    ),
    Case(
        id="spills-over",
        reason="a has room for 2 of 5 replicas, b for 2, and c for the rest",
        replicas=5,
        fleet=fleet(a=2, b=2, c=4),
        want={"a": 2, "b": 2, "c": 1},
    ),
    Case(
        id="fits-nowhere",
        reason="4 of 6 replicas fit",
        replicas=6,
        fleet=fleet(a=2, b=2),
        want={"a": 2, "b": 2},
        missing=2,
    ),
    Case(
        id="bounded",
        reason="only one environment may be used",
        replicas=3,
        fleet=fleet(a=2, b=2),
        environments=1,
        want={"a": 2},
        missing=1,
    ),
    Case(
        id="running-first",
        reason="where nothing is preferred, the placement that exists grows before another environment is used",
        replicas=3,
        fleet=fleet(a=4, b=4),
        own=[running("b", 1)],
        want={"b": 3},
    ),
    Case(
        id="running-then-next",
        reason="b has room for one replica more",
        replicas=3,
        fleet=fleet(a=4, b=2),
        own=[running("b", 1)],
        want={"a": 1, "b": 2},
    ),
    Case(
        id="beside-others",
        reason="another deployment has 2 of the 3 nodes of a",
        replicas=3,
        fleet=fleet(a=3, b=4),
        others=[placement("a", deployment="other", replicas=2, has_served=True)],
        want={"a": 1, "b": 2},
    ),
    Case(
        id="cheaper-first",
        reason="the cheaper environment is preferred to the one that runs",
        replicas=3,
        fleet=[priced("a", 4, 9), priced("b", 1, 1)],
        own=[running("a", 1)],
        prefer=Preference.CHEAPEST,
        want={"a": 2, "b": 1},
    ),
    Case(
        id="equal-price",
        reason="of two equal prices, the placement that exists comes first",
        replicas=3,
        fleet=[priced("a", 4, 1), priced("b", 4, 1)],
        own=[running("b", 1)],
        prefer=Preference.CHEAPEST,
        want={"b": 3},
    ),
    Case(
        id="shrinks-the-dearest",
        reason="the dearest placement gives up its replicas first",
        replicas=3,
        fleet=[priced("a", 4, 9), priced("b", 4, 1)],
        own=[running("a", 2), running("b", 2)],
        prefer=Preference.CHEAPEST,
        want={"a": 1, "b": 2},
    ),
    Case(
        id="closes-the-dearest",
        reason="the two cheap replicas suffice",
        replicas=2,
        fleet=[priced("a", 4, 9), priced("b", 4, 1)],
        own=[running("a", 2), running("b", 2)],
        prefer=Preference.CHEAPEST,
        want={"b": 2},
        dropped=("a",),
    ),
    Case(
        id="closes-what-does-not-serve",
        reason="where nothing is preferred, the placement that does not serve yet goes first",
        replicas=2,
        fleet=fleet(a=4, b=4),
        own=[replace(running("a", 2, ready=False), has_served=False), running("b", 2)],
        want={"b": 2},
        dropped=("a",),
    ),
    Case(
        id="does-not-move",
        reason="a cheaper environment that became free takes no replica that has a place",
        replicas=2,
        fleet=[priced("a", 4, 9), priced("b", 4, 1)],
        own=[running("a", 2)],
        prefer=Preference.CHEAPEST,
        want={"a": 2},
    ),
    Case(
        id="to-zero",
        reason="one placement stays without replicas, so that its weights stay",
        replicas=0,
        fleet=fleet(a=4, b=4),
        own=[running("a", 2), running("b", 1)],
        want={"a": 0},
        dropped=("b",),
    ),
    Case(
        id="from-zero",
        reason="the placement without replicas is the first to grow",
        replicas=1,
        fleet=fleet(a=4, b=4),
        own=[running("b", 0)],
        want={"b": 1},
    ),
    Case(id="zero-from-nothing", reason="a place for the weights", replicas=0, fleet=fleet(a=4), want={"a": 0}),
    Case(
        id="from-zero-elsewhere",
        reason="its own environment is full, so the placement without replicas is closed",
        replicas=1,
        fleet=fleet(a=4, b=1),
        own=[running("b", 0)],
        others=[placement("b", deployment="other", has_served=True)],
        want={"a": 1},
        dropped=("b",),
    ),
    Case(
        id="moves-away",
        reason="a must be left: its placement stays until the replicas elsewhere are Ready",
        replicas=2,
        fleet=[environment("a", pool(), taints=(Taint(key="x", effect=NO_EXECUTE),)), *fleet(b=4)],
        own=[running("a", 2)],
        want={"b": 2},
        carried=("a",),
    ),
    Case(
        id="has-moved-away",
        reason="two replicas are Ready on b, so the placement on a goes",
        replicas=2,
        fleet=[environment("a", pool(), taints=(Taint(key="x", effect=NO_EXECUTE),)), *fleet(b=4)],
        own=[running("a", 2), running("b", 2)],
        want={"b": 2},
        dropped=("a",),
    ),
    Case(
        id="reschedules-in-place",
        reason="its pool is gone, and another pool of the environment has room for one of its two replicas",
        replicas=2,
        fleet=[environment("a", pool("new", nodes=1)), *fleet(b=4)],
        own=[running("a", 2)],
        want={"a": 1, "b": 1},
    ),
    Case(
        id="no-room-in-place",
        reason="its pool is gone, and no other pool of the environment has room",
        replicas=1,
        fleet=[environment("a", pool("new", gpus=4)), *fleet(b=4)],
        own=[running("a", 1)],
        want={"b": 1},
        carried=("a",),
    ),
    Case(
        id="unreadable",
        reason="a placement whose topology cannot be read keeps its 2 replicas, and 1 of 3 goes elsewhere",
        replicas=3,
        fleet=fleet(a=4, b=4),
        own=[replace(running("a", 2), shape=None)],
        want={"b": 1},
        carried=("a",),
    ),
    Case(
        id="invalid-pool",
        reason="the pool cannot be read: what runs there stays, and growth goes elsewhere",
        replicas=3,
        fleet=[environment("a", broken_pools=("pool",)), *fleet(b=4)],
        own=[running("a", 2)],
        prefer=Preference.CHEAPEST,
        want={"a": 2, "b": 1},
    ),
    Case(
        id="keeps-what-serves",
        reason="the cheaper placement has not started, so the dearer one that serves keeps its replicas",
        replicas=2,
        fleet=[priced("a", 4, 1), priced("b", 4, 9)],
        own=[starting("a", 2), running("b", 2)],
        prefer=Preference.CHEAPEST,
        want={"b": 2},
        dropped=("a",),
    ),
    Case(
        id="keeps-the-replicas-that-run",
        reason="one of the four cheaper replicas runs: three of the dearer ones stay",
        replicas=4,
        fleet=[priced("a", 4, 1), priced("b", 4, 9)],
        own=[partly("a", 4, 1), running("b", 4)],
        prefer=Preference.CHEAPEST,
        want={"a": 1, "b": 3},
    ),
    Case(
        id="to-zero-keeps-weights",
        reason="the placement that serves has the weights",
        replicas=0,
        fleet=[priced("a", 4, 1), priced("b", 4, 9)],
        own=[starting("a", 2), running("b", 2)],
        prefer=Preference.CHEAPEST,
        want={"b": 0},
        dropped=("a",),
    ),
    Case(
        id="from-zero-elsewhere-bounded",
        reason="a placement without replicas does not use up the only environment",
        replicas=1,
        fleet=fleet(a=4, b=1),
        own=[running("b", 0)],
        others=[placement("b", deployment="other", has_served=True)],
        environments=1,
        want={"a": 1},
        dropped=("b",),
    ),
    Case(
        id="from-zero-elsewhere-cheapest",
        reason="nothing is left of its pool, and its rank is known all the same",
        replicas=1,
        fleet=[priced("a", 4, 9), priced("b", 1, 1)],
        own=[running("b", 0)],
        others=[placement("b", deployment="other", has_served=True)],
        prefer=Preference.CHEAPEST,
        want={"a": 1},
        dropped=("b",),
    ),
    Case(
        id="stays-in-an-overcommitted-pool",
        reason="its pool lost a node, and the replica that runs stays",
        replicas=2,
        fleet=[priced("a", 4, 9), priced("b", 1, 1)],
        own=[running("b", 1)],
        others=[placement("b", deployment="other", has_served=True)],
        prefer=Preference.SMALLEST_SUFFICIENT,
        want={"a": 1, "b": 1},
    ),
    Case(
        id="wakes-in-another-pool",
        reason="its pool was replaced while it had no replicas: the same placement takes the new pool",
        replicas=1,
        fleet=[environment("a", pool("new", nodes=4))],
        own=[running("a", 0)],
        want={"a": 1},
    ),
    Case(
        id="sleeps-in-another-pool",
        reason="its pool was replaced while it had no replicas: the same placement takes the new pool",
        replicas=0,
        fleet=[environment("a", pool("new", nodes=4))],
        own=[running("a", 0)],
        want={"a": 0},
    ),
    Case(
        id="grows-where-it-can-start",
        reason="a is not Ready: what runs there stays, and new replicas go to b",
        replicas=4,
        fleet=[replace(fleet(a=4)[0], ready=False), *fleet(b=4)],
        own=[running("a", 2)],
        want={"a": 2, "b": 2},
    ),
    Case(
        id="waits-for-a-ready-environment",
        reason="the only environment is not Ready",
        replicas=4,
        fleet=[replace(fleet(a=4)[0], ready=False)],
        own=[running("a", 2)],
        want={"a": 2},
        missing=2,
    ),
    Case(
        id="does-not-grow-while-deleted",
        reason="new replicas would go with the placement that is being deleted",
        replicas=3,
        fleet=fleet(a=4, b=4),
        own=[replace(running("a", 1), deleting=True)],
        want={"a": 1, "b": 2},
    ),
    Case(
        id="moves-while-some-run",
        reason="4 of 8 replicas run elsewhere, 1 on a and 4 on c: both must stay",
        replicas=8,
        fleet=[tainted("a"), fleet(b=8)[0], tainted("c")],
        own=[partly("a", 4, 1), partly("b", 8, 4), running("c", 4)],
        want={"b": 8},
        carried=("a", "c"),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_divides_replicas(case: Case) -> None:
    check(case)


def check(case: Case) -> None:
    """Compares the decision with the expected one."""
    asked = request(case.replicas, case.environments, case.prefer)
    decision = schedule(asked, case.fleet, [*case.own, *case.others])
    assert numbers(decision) == case.want, case.reason
    assert decision.missing_replicas == case.missing, case.reason
    assert tuple(d.placement.environment for d in decision.dropped) == case.dropped, case.reason
    assert tuple(p.environment for p in decision.carried) == case.carried, case.reason


def test_names_who_has_no_room_for_the_rest() -> None:
    """5 replicas on 2 nodes of a and 1 of b: each refusal says how many of those that it was asked for fit."""
    decision = schedule(request(5), fleet(a=2, b=1), [running("a", 1)])
    found = [
        (i.environment, i.granted_replicas, i.refusals[0].required, i.refusals[0].actual) for i in decision.refusals
    ]
    assert found == [("a", 2, 5, 2), ("b", 1, 3, 1)]
    assert not decision.is_satisfied


def test_forgets_refusals_once_every_replica_has_a_place() -> None:
    decision = schedule(request(3), fleet(a=2, b=1), [running("a", 1)])
    assert numbers(decision) == {"a": 2, "b": 1}
    assert decision.refusals == ()
    assert decision.is_satisfied


@pytest.mark.parametrize("prefer", [Preference.DECLARED, Preference.CHEAPEST])
def test_prefers_environments_that_have_the_weights(prefer: Preference) -> None:
    entries = (CacheEntry(environment="a", phase=Phase.DOWNLOADING), CacheEntry(environment="b", phase=Phase.READY))
    cache = ModelCache(namespace="team", name="weights", model=MODEL, entries=entries)
    alike = [priced("a", 4, 1), priced("b", 4, 1)]
    assert numbers(schedule(request(2, prefer=prefer, cache=cache), alike, [])) == {"b": 2}


def test_rejected_replicas_go_elsewhere() -> None:
    """The environment admitted 1 of the 3 replicas in the spec: 2 go to the next environment."""
    share = Share(pool="pool", nodes=1, gpus_per_node=8, replicas=1)
    grant = Grant(uid="me", namespace="team", name="chat-a", share=share)
    full = environment("a", pool(nodes=1), uid="e", admitted=(grant,), rejected=(("me", "pool"),))
    mine = replace(running("a", 3), uid="me", service=replace(running("a", 1).service))
    decision = schedule(request(3), [full, *fleet(b=4)], [mine])
    assert numbers(decision) == {"a": 1, "b": 2}


def test_evicted_placement_makes_way_for_the_winner() -> None:
    """Two deployments chose a at the same moment: the one that lost it has its replicas on b."""
    lost = replace(placement("a", uid="me"), owner="d")
    share = Share(pool="pool", nodes=1, gpus_per_node=8, replicas=1)
    winner = Grant(uid="other", namespace="team", name="other-a", share=share)
    full = environment("a", pool(nodes=1), uid="e", admitted=(winner,), rejected=(("me", "pool"),))
    decision = schedule(request(1), [full, *fleet(b=4)], [lost])
    assert numbers(decision) == {"b": 1}
    assert [(d.placement.environment, d.cause) for d in decision.dropped] == [("a", RemovalCause.EVICTED)]


def test_places_as_many_as_the_quota_allows() -> None:
    """16 of 24 GPUs are left beside another deployment: two replicas of 8 GPUs."""
    other = placement("b", deployment="other", name="other", uid="o", has_served=True)
    other = replace(
        other, service=replace(other.service, allocated=Share(pool="pool", nodes=1, gpus_per_node=8, replicas=1))
    )
    asked = request(4)
    limits = Limits(gpus=24)
    decision = schedule(asked, fleet(a=4, b=4), [other])
    limited = limit_decision(decision, asked.to_placement, [other], limits)
    assert numbers(limited) == {"a": 2}
    assert limited.missing_replicas == 2
    assert [(i.environment, i.reason, i.granted_replicas) for i in limited.refusals] == [
        ("a", Refused.QUOTA_EXCEEDED, 2)
    ]


def test_way_out_is_for_the_missing_replicas() -> None:
    """3 of 5 replicas fit: a needs one node more for each of the two that are missing."""
    asked = request(5)
    environments = fleet(a=2, b=1)
    own = [running("a", 1)]
    decision = schedule(asked, environments, own)
    snapshot = Snapshot(request=asked, environments={e.name: e for e in environments}, own=own)
    ways = find_ways_out(snapshot, decision)
    assert {(way.way, way.refusal.environment, way.nodes) for way in ways} == {
        (Way.ADD_NODES, "a", 2),
        (Way.ADD_NODES, "b", 2),
    }


def test_says_that_the_quota_refuses_growth() -> None:
    """The only environment has room, and 16 of 16 GPUs are in use once it has two replicas."""
    own = [running("a", 1)]
    limits = Limits(gpus=16)
    asked = request(4)
    decision = schedule(asked, fleet(a=4), own, usage=namespace_usage("team", own, limits))
    limited = limit_decision(decision, asked.to_placement, own, limits)
    assert numbers(limited) == {"a": 2}
    assert [(i.environment, i.reason, i.granted_replicas) for i in limited.refusals] == [
        ("a", Refused.QUOTA_EXCEEDED, 2)
    ]


def test_storage_for_one_replica_takes_one_on_each_environment() -> None:
    once = CreatedStorage(type=CacheType.PVC, class_name="disk", access_mode="ReadWriteOnce")
    asked = request(2)
    asked = replace(asked, storage_request=planner(asked.model, once))
    decision = schedule(asked, fleet(a=4, b=4), [running("a", 1)])
    assert decision.general_refusal is None
    assert numbers(decision) == {"a": 1, "b": 1}


NAMES = "abcd"
COUNTS = st.fixed_dictionaries({name: st.integers(1, 4) for name in NAMES})
HAS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 4), max_size=4)
PREFER = st.sampled_from(Preference)


@given(nodes=COUNTS, has=HAS, prices=COUNTS, replicas=st.integers(0, 20), most=st.integers(1, 4), prefer=PREFER)
def test_invariants(
    nodes: dict[str, int], has: dict[str, int], prices: dict[str, int], replicas: int, most: int, prefer: Preference
) -> None:
    environments = [priced(name, count, prices[name]) for name, count in nodes.items()]
    has = {name: min(count, nodes[name]) for name, count in has.items()}
    own = [running(name, count) for name, count in has.items()]
    asked = request(replicas, most, prefer)
    decision = schedule(asked, environments, own)
    found = numbers(decision)
    assert sum(found.values()) <= replicas, "never more than requested"
    assert len(found) <= most
    assert all(count <= nodes[name] for name, count in found.items()), "no GPU twice"
    room = sum(sorted((nodes[name] for name in found), reverse=True)) if len(found) == most else sum(nodes.values())
    assert sum(found.values()) == min(replicas, room), "no replica waits beside room"
    if replicas >= sum(has.values()) and len(has) <= most:
        assert all(found.get(name, 0) >= count for name, count in has.items() if count), "growth moves nothing"
    if replicas <= sum(has.values()) and len(has) <= most:
        assert all(count <= has.get(name, 0) for name, count in found.items()), "shrinking moves nothing"
    assert schedule(asked, environments[::-1], own[::-1]) == decision, "the order of the inputs does not matter"
    # Once this is carried out, nothing changes any more.
    settled = [running(name, count) for name, count in found.items()]
    assert numbers(schedule(asked, environments, settled)) == found


def test_placement_whose_nodes_are_gone_keeps_its_replicas() -> None:
    """The nodes of the pool cannot be used now, so nothing is free there, and what runs stays."""
    lost = priced("a", 4, 1)
    facts = PoolFacts(nodes=4, usable=0)
    lost = replace(lost, pools=tuple(replace(each, facts=facts) for each in lost.pools))
    asked = request(3, prefer=Preference.CHEAPEST)
    decision = schedule(asked, [lost, priced("b", 4, 9)], [running("a", 2)])
    assert numbers(decision) == {"a": 2, "b": 1}


@pytest.mark.parametrize(("limit", "nodes"), [(40, {"a": 2, "b": 2}), (39, {})])
def test_way_out_charges_placed_replicas_to_the_quota_once(limit: int, nodes: dict[str, int]) -> None:
    """3 of 5 new replicas of 8 GPUs fit: with two more nodes, all of them need 40 GPUs."""
    asked = request(5)
    environments = fleet(a=2, b=1)
    usage = namespace_usage("team", [], Limits(gpus=limit))
    decision = schedule(asked, environments, [], usage=usage)
    assert decision.missing_replicas == 2
    snapshot = Snapshot(
        request=replace(asked, quota_usage=usage), environments={each.name: each for each in environments}
    )
    ways = find_ways_out(snapshot, decision)
    assert {way.refusal.environment: way.nodes for way in ways if way.way is Way.ADD_NODES} == nodes


def test_lists_environments_without_room_where_the_cheapest_is_preferred() -> None:
    other = replace(running("b", 1), deployment="other", name="other-b")
    fleet_of_two = [priced("a", 1, 1), priced("b", 1, 2)]
    decision = schedule(request(3, prefer=Preference.CHEAPEST), fleet_of_two, [other])
    assert numbers(decision) == {"a": 1}
    assert [(i.environment, i.reason, i.granted_replicas) for i in decision.refusals] == [
        ("a", Refused.POOL_TOO_SMALL, 1),
        ("b", Refused.INSUFFICIENT_CAPACITY, None),
    ]


def test_opens_no_environment_beyond_the_quota() -> None:
    """Another deployment has all 8 GPUs that the namespace may have."""
    other = replace(running("b", 1), deployment="other", name="other-b", uid="o")
    usage = namespace_usage("team", [other], Limits(gpus=8))
    decision = schedule(request(2), fleet(a=4), [other], usage=usage)
    assert numbers(decision) == {}
    assert [(i.environment, i.reason, i.granted_replicas) for i in decision.refusals] == [
        ("a", Refused.QUOTA_EXCEEDED, None)
    ]


def test_way_out_beside_a_placement_that_is_made_anew() -> None:
    """Its topology cannot be read and its pool is gone, so it is placed like a new one: 1 of 3 replicas fits."""
    asked = request(3)
    there = environment("a", pool("new", nodes=1))
    own = [replace(running("a", 0), shape=None)]
    decision = schedule(asked, [there], own)
    assert numbers(decision) == {"a": 1}
    ways = find_ways_out(Snapshot(request=asked, environments={"a": there}, own=own), decision)
    assert [(way.way, way.nodes) for way in ways] == [(Way.ADD_NODES, 2)]
