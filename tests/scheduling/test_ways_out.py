"""The ways out of a refusal: their selection, order and messages."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial

import pytest

from function.capacity.ledger import admit_placements
from function.capacity.quota import namespace_usage
from function.domain.allocation import Cost, Free, Limits, Price
from function.domain.environment import Environment, PoolFacts
from function.domain.model import Problem
from function.domain.placement import Placement
from function.kube.names import LABEL_ENVIRONMENT
from function.kube.selectors import NO_SCHEDULE, Taint
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import SchedulingRequest
from function.scheduling.ways_out import Snapshot, Way, WayOut, WayOutCache, find_ways_out
from tests.support.builders import deployment, environment, model, placement, pool, profile, requires, selector, shape

USD_2_50 = Price(per_gpu_hour=Decimal("2.50"), currency="USD", price_class="Reserved")


def wants(gpus: int = 8, replicas: int = 1, **labels: str) -> SchedulingRequest:
    return SchedulingRequest(
        deployment=deployment("mine", replicas=replicas, selector=selector(**labels)),
        model=model(profile("p", shape(1, gpus))),
    )


def holds(name: str, where: str, gpus: int = 4, *, deleting: bool = False) -> Placement:
    """Return a placement of another deployment on the pool of an environment."""
    return placement(where, "p", deployment=name, shape=shape(1, gpus), deleting=deleting)


def find(
    request: SchedulingRequest,
    environments: tuple[Environment, ...],
    placements: tuple[Placement, ...] = (),
    requests: Mapping[str, SchedulingRequest] | None = None,
    own: tuple[Placement, ...] = (),
) -> tuple[WayOut, ...]:
    """Returns the ways out of the decision on a request; `requests` has the requests of the other deployments."""
    others = defaultdict[str, list[Placement]](list)
    for each in placements:
        others[each.environment].append(each)
    world = Snapshot(
        request=request,
        environments={e.name: e for e in environments},
        own=own,
        others=others,
        find_request=lambda p: (requests or {}).get(p.deployment),
    )
    decision = schedule(request, environments, (*placements, *own), usage=request.quota_usage)
    return find_ways_out(world, decision)


def read(ways: tuple[WayOut, ...]) -> list[str]:
    return [way.message for way in ways]


def test_lists_what_costs_least_first() -> None:
    priced = replace(pool("p", nodes=2), price=USD_2_50)
    small = environment("b", pool("p", gpus=4, nodes=1))
    held = (holds("leaving", "a", 8, deleting=True), holds("small", "a"))
    found = find(wants(), (environment("a", priced), small), held, {"small": wants(4)})
    assert read(found) == [
        "Wait for team/leaving-a, which is about to leave pool p of InferenceEnvironment a",
        "Move team/small from a to b (pool p), so that pool p of InferenceEnvironment a has room",
        "Add 1 node to pool p of InferenceEnvironment a (maxNodeCount 3; 20.00 USD per hour)",
    ]
    assert found[-1].cost == Cost("USD", Decimal(20))


def test_adds_nodes_where_they_cost_least() -> None:
    """Nodes with a price come first, since the cost of the others is unknown."""
    cheap, dear = (replace(pool("p", nodes=1), price=replace(USD_2_50, per_gpu_hour=Decimal(n))) for n in (1, 3))
    environments = (environment("a", pool("p", nodes=1)), environment("b", dear), environment("c", cheap))
    found = find(wants(), environments, tuple(holds(f"other-{name}", name, 8) for name in "abc"))
    assert [way.refusal.environment for way in found] == ["c", "b", "a"]


def test_moves_no_placement_that_has_no_place() -> None:
    environments = (environment("a", pool("p", nodes=1)), environment("b", pool("p", gpus=2, nodes=1)))
    found = find(wants(), environments, (holds("small", "a"),), {"small": wants(4)})
    assert [way.way for way in found] == [Way.ADD_NODES]


def test_moves_no_placement_whose_deployment_is_not_known() -> None:
    environments = (environment("a", pool("p", nodes=1)), environment("b", pool("p", gpus=4, nodes=1)))
    assert [way.way for way in find(wants(), environments, (holds("small", "a"),))] == [Way.ADD_NODES]


@pytest.mark.parametrize("is_limited", [False, True])
def test_moves_two_of_one_namespace_only_where_no_quota_limits_them(*, is_limited: bool) -> None:
    """Each move is checked against the current quota usage, not against the usage after the other move."""
    places = (environment(name, pool("p", gpus=4, nodes=1)) for name in "bc")
    held = (holds("one", "a"), holds("two", "a"))
    usage = namespace_usage("team", held, Limits(gpus=16)) if is_limited else None
    request = replace(wants(4), quota_usage=usage)
    found = find(wants(), (environment("a", pool("p", nodes=1)), *places), held, {"one": request, "two": request})
    moves = [way.message for way in found if way.way is Way.MOVE]
    both = (
        "Move team/one from a to b (pool p) and team/two from a to c (pool p), "
        "so that pool p of InferenceEnvironment a has room"
    )
    assert moves == ([] if is_limited else [both])


def test_waits_for_nodes_that_cannot_be_used() -> None:
    down = replace(pool("p", nodes=2), facts=PoolFacts(nodes=2, usable=1))
    found = find(wants(), (environment("a", down),), (holds("other", "a", 8),))
    assert read(found)[0] == (
        "Wait until all nodes of pool p of InferenceEnvironment a are usable (see its condition HardwareAsDeclared)"
    )


def test_sets_a_requirement_to_what_a_pool_has() -> None:
    needs = model(profile("p", shape(1, 8), requires=requires(precision=("fp4", "fp8"))))
    found = find(replace(wants(), model=needs), (environment("a", pool("p")),))
    assert read(found) == [
        "If the model runs with it, set precisionSupport of profile p to fp8, as pool p of InferenceEnvironment a has"
    ]


def test_declares_a_network_where_replicas_on_several_nodes_would_fit() -> None:
    needs = model(profile("p", shape(2, 8)))
    advice = "If a network connects its nodes, set capabilities.multiNodeCapable to true on pool p of"
    found = find(replace(wants(), model=needs), (environment("a", pool("p", nodes=2, multi_node=False)),))
    assert read(found) == [f"{advice} InferenceEnvironment a"]
    assert read(find(replace(wants(), model=needs), (environment("a", pool("p", nodes=1, multi_node=False)),))) == []


def test_declares_no_network_that_would_not_help() -> None:
    """The pods could not run with the network that the pool sets up for replicas on several nodes."""
    refused = (Problem("interNode", "needs --host-network"),)
    needs = model(profile("p", shape(2, 8)))
    asked = replace(wants(), model=needs, serving_check=lambda _, __, there: refused if there.multi_node else ())
    assert read(find(asked, (environment("a", pool("p", nodes=2, multi_node=False)),))) == []


def test_does_not_lower_memory_to_a_size_without_its_unit() -> None:
    """A pool of 80 bytes was meant to have 80Gi."""
    needs = model(profile("p", shape(1, 8), requires=requires(memory="80Gi")))
    assert read(find(replace(wants(), model=needs), (environment("a", pool("p", memory="80")),))) == []


def test_declares_a_requirement_or_removes_it() -> None:
    needs = model(profile("p", shape(1, 8), requires=requires(memory="80Gi")))
    found = find(replace(wants(), model=needs), (environment("a", pool("p", memory=None)),))
    assert read(found) == [
        (
            "If its nodes have it, declare memoryPerGpu on pool p of InferenceEnvironment a; "
            "else remove the requirement from profile p"
        )
    ]


def test_what_was_chosen_must_still_fit() -> None:
    """Two environments are desired: another type would fit the second environment, but no longer the first one."""
    needs = model(profile("p", shape(1, 8), requires=requires(accelerator_type="h100")))
    environments = tuple(environment(t, pool("p", accelerator_type=t)) for t in ("h100", "h200"))
    twice = deployment("mine", environments=2)
    assert find(SchedulingRequest(deployment=twice, model=needs), environments) == ()


@pytest.mark.parametrize(("limit", "found"), [(15, []), (16, ["Wait until InferenceEnvironment b is Ready"])])
def test_what_was_chosen_counts_towards_the_quota(limit: int, found: list[str]) -> None:
    """The deployment needs eight GPUs on each of two environments."""
    usage = namespace_usage("team", (), Limits(gpus=limit))
    twice = replace(wants(), deployment=deployment("mine", environments=2), quota_usage=usage)
    environments = (environment("a", pool("p")), environment("b", pool("p"), ready=False))
    assert read(find(twice, environments)) == found


@pytest.mark.parametrize("field", ["interNodeBandwidth", "multiNodeBandwidth"])
def test_advises_a_bandwidth_that_better_networks_have_too(field: str) -> None:
    """A profile that requires both names would be invalid."""
    needs = requires(bandwidth="ib-400g")
    assert needs.bandwidth
    needs = replace(needs, bandwidth=replace(needs.bandwidth, field=field))
    fast = replace(wants(), model=model(profile("p", shape(2, 8), requires=needs)))
    found = find(fast, (environment("a", pool("p", bandwidth="ib-200g")),))
    assert read(found) == [
        (
            f"If the model runs with it, set {field} of profile p to ib-200g-or-better, "
            "as pool p of InferenceEnvironment a has"
        )
    ]
    assert found[0].refusal.message == "pool p has interNodeBandwidth ib-200g, " + (
        "ib-400g required" if field == "interNodeBandwidth" else "multiNodeBandwidth ib-400g required"
    )
    (undeclared, *_) = find(fast, (environment("a", pool("p", bandwidth=None)),))
    assert undeclared.message.startswith("If its nodes have it, declare interNodeBandwidth on pool p of ")


def test_names_a_way_out_once_for_several_profiles() -> None:
    needs = model(profile("p", shape(1, 8)), profile("q", shape(1, 8)))
    unready = environment("a", pool("p"), ready=False)
    assert read(find(replace(wants(), model=needs), (unready,))) == ["Wait until InferenceEnvironment a is Ready"]


def test_unpauses_an_environment() -> None:
    """Crossplane does not reconcile a paused environment, so it does not become Ready by itself."""
    paused = replace(environment("a", pool("p"), ready=False), paused=True)
    assert read(find(wants(), (paused,))) == [
        "Remove annotation crossplane.io/paused of InferenceEnvironment a, and wait until it is Ready"
    ]


def test_admits_an_environment_whose_one_label_differs() -> None:
    environments = tuple(environment(name, pool("p"), labels={"tier": "test", "region": name}) for name in "ab")
    assert read(find(wants(tier="production", region="b"), environments)) == [
        "Change the deployment's environmentSelector to match InferenceEnvironment b, which has tier=test"
    ]


def test_tolerates_a_taint() -> None:
    drained = environment("a", pool("p"), taints=(Taint(key="drain", effect=NO_SCHEDULE, reason="new racks"),))
    assert read(find(wants(), (drained,))) == [
        (
            "Tolerate drain:NoSchedule (new racks) of InferenceEnvironment a in spec.tolerations, "
            "or wait until the taint is removed"
        )
    ]


def test_lowers_replicas() -> None:
    found = find(wants(replicas=3), (environment("a", pool("p", nodes=2)),))
    assert read(found) == [
        "Add 1 node to pool p of InferenceEnvironment a (maxNodeCount 3)",
        "Lower spec.scaling.fixed.replicas to 2, for which pool p of InferenceEnvironment a has room",
    ]


def test_lowers_replicas_where_both_room_and_quota_are_too_small() -> None:
    """Four nodes of 8 GPUs are required. The pool has three, and the quota leaves 8 of 16 GPUs."""
    other = (holds("other", "a", 8),)
    request = replace(wants(replicas=4), quota_usage=namespace_usage("team", other, Limits(gpus=16)))
    assert read(find(request, (environment("a", pool("p", nodes=3)),), other)) == [
        (
            "Lower spec.scaling.fixed.replicas to 1, for which pool p of InferenceEnvironment a has room "
            "and which the limits of namespace team allow"
        )
    ]


def test_lowers_replicas_to_no_fewer_than_run() -> None:
    """Two of three nodes are unusable, and two replicas run."""
    damaged = replace(pool("p", nodes=3), facts=PoolFacts(nodes=3, usable=1))
    running = placement("a", "p", deployment="mine", profile="p", shape=shape(1, 8), replicas=2, has_served=True)
    found = find(wants(replicas=4), (environment("a", damaged),), own=(running,))
    assert [way.message.partition(",")[0] for way in found if way.way is Way.RELAX] == [
        "Lower spec.scaling.fixed.replicas to 2"
    ]


def test_removes_a_requirement_of_which_a_pool_has_nothing() -> None:
    needs = model(profile("p", shape(1, 8), requires=requires(precision=("fp8",))))
    found = find(replace(wants(), model=needs), (environment("a", pool("p", precision=("bf16",))),))
    assert read(found) == [
        (
            "If the model runs without it, remove precisionSupport from profile p, "
            "as pool p of InferenceEnvironment a does not have it"
        )
    ]


def test_waits_for_what_leaves_before_what_has_to_be_repaired() -> None:
    damaged = replace(pool("p", nodes=2), facts=PoolFacts(nodes=2, usable=1))
    leaving = holds("leaving", "a", 8, deleting=True)
    assert read(find(wants(), (environment("a", damaged),), (leaving,)))[:2] == [
        "Wait for team/leaving-a, which is about to leave pool p of InferenceEnvironment a",
        "Wait until all nodes of pool p of InferenceEnvironment a are usable (see its condition HardwareAsDeclared)",
    ]


def test_a_placement_that_leaves_without_having_run_waits_for_nothing() -> None:
    """The only node is held by `held`; `leftover` is being deleted and never got GPUs."""
    one = environment("a", pool("p", nodes=1), uid="a")
    held = replace(holds("held", "a", 8), uid="held", labels=((LABEL_ENVIRONMENT, "a"),))
    leftover = replace(holds("leftover", "a", 8, deleting=True), uid="leftover")
    grants = admit_placements(one, (held, leftover)).grants
    published = replace(one, admitted=grants, free={"p": Free(placements=1, nodes=((0, 1),))})
    assert [way.way for way in find(wants(), (published,), (held, leftover))] == [Way.ADD_NODES]


def test_several_causes_have_no_way_out() -> None:
    needs = model(profile("p", shape(1, 16), requires=requires(memory="141Gi")))
    assert find(replace(wants(), model=needs), (environment("a", pool("p")),)) == ()


def test_price_and_cost_of_an_assignment() -> None:
    priced = replace(pool("p"), price=USD_2_50)
    (assignment,) = schedule(wants(replicas=2), (environment("a", priced),), ()).assignments
    assert (str(assignment.price), str(assignment.cost)) == ("2.50 USD Reserved", "40.00 USD per hour")


def test_finds_again_only_after_a_change() -> None:
    cache, found = WayOutCache(), list[int]()
    ways = find(wants(replicas=3), (environment("a", pool("p", nodes=2)),))

    def find_counted() -> tuple[WayOut, ...]:
        found.append(1)
        return ways

    for name, basis in (("a", 1), ("b", 1), ("a", 1), ("b", 2), ("a", 1)):
        assert cache.find(("team", name), basis, find_counted) is ways
    assert len(found) == 3, "a changed basis needs one more search"
    cache.forget(("team", "a"))
    cache.find(("team", "b"), 2, find_counted)
    assert len(found) == 3
    cache.find(("team", "a"), 1, find_counted)
    assert len(found) == 4, "a forgotten deployment is searched again"


def test_remembers_the_64_latest_deployments() -> None:
    cache, searched = WayOutCache(), list[str]()

    def search(name: str) -> tuple[WayOut, ...]:
        searched.append(name)
        return ()

    for name in (*map(str, range(65)), "64", "0"):
        cache.find(("team", name), 1, partial(search, name))
    assert searched[65:] == ["0"], "the least recently refused deployment is searched again"
