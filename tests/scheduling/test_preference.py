"""Preferences choose among the pools that satisfy the first feasible profile (issue 12, point 11)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.capacity.ledger import CapacityView
from function.capacity.pools import PoolCapacity
from function.domain.allocation import Price
from function.domain.environment import Environment, Pool
from function.domain.model import Model, Shape, Spread
from function.domain.placement import Placement, Preference
from function.scheduling.filters import filter_candidates, filter_environment, rank_candidate
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Assignment, Decision, Rank, SchedulingRequest
from tests.properties.test_schedule import needs, placements, profiled, sites
from tests.support.builders import (
    GIB,
    deployment,
    environment,
    model,
    placement,
    planner,
    pool,
    profile,
    requires,
    shape,
    share,
)

GEMMA = model(profile("one", shape(1, 1)), vram="60Gi")
COMPUTED = model(profile("computed"), vram="100Gi")
DEMANDING = model(profile("one", shape(1, 1), requires=requires(memory="40Gi")))
UNSAID = model(profile("one", shape(1, 1)))


def asked(wanted: Model, environments: int = 1, replicas: int = 1, name: str = "chat") -> SchedulingRequest:
    return SchedulingRequest(
        deployment=deployment(
            name, environments=environments, replicas=replicas, prefer=Preference.SMALLEST_SUFFICIENT
        ),
        model=wanted,
        storage_request=planner(wanted),
    )


def placed(decision: Decision) -> list[str]:
    return [f"{a.environment}/{a.pool}" for a in decision.assignments]


@dataclass(frozen=True)
class Case:
    """The expected environments and pools, with the reason."""

    id: str
    reason: str
    model: Model
    environments: Sequence[Environment]
    chosen: str
    wanted: int = 1
    replicas: int = 1
    others: Sequence[Placement] = ()


H200, A100, L4 = pool("h200", memory="141Gi"), pool("a100", memory="80Gi"), pool("l4", memory="24Gi")
CASES = (
    Case("gemma", "the A100 leaves 20Gi of 80Gi unused and the H200 81Gi of 141Gi, although it is declared first",
         GEMMA,
         [environment("a", H200, A100)], "a/a100"),
    Case("across", "the pools of all environments are compared", GEMMA,
         [environment("a", H200), environment("b", A100)], "b/a100"),
    Case("gpus", "100Gi leave 60Gi unused on two A100, 41Gi on one H200, and 92Gi on eight L4", COMPUTED,
         [environment("a", L4, A100, H200)], "a/h200"),
    Case("requested", "without vram, the required memory per GPU is used: 40Gi", DEMANDING,
         [environment("a", H200, A100, L4)], "a/a100"),
    Case("nothing", "without vram and required memory, the pool with the least memory is chosen", UNSAID,
         [environment("a", H200, A100, L4)], "a/l4"),
    Case("short", "a pool with too little memory comes after all pools that have enough", GEMMA,
         [environment("a", L4, H200)], "a/h200"),
    Case("undeclared", "a pool without declared memory is not preferred as a small pool", UNSAID,
         [environment("a", pool("x", memory=None), H200)], "a/h200"),
    Case("profile", "the first feasible profile is chosen, even if a later one leaves less memory unused",
         model(profile("eight", shape(1, 8)), profile("one", shape(1, 1)), vram="60Gi"),
         [environment("a", A100), environment("b", pool("small", gpus=1, memory="60Gi"))], "a/a100"),
    Case("next-profile", "the second profile is chosen if no pool satisfies the first",
         model(profile("sixteen", shape(1, 16)), profile("one", shape(1, 1)), vram="60Gi"),
         [environment("a", H200), environment("b", A100)], "b/a100"),
    Case("packed", "of equal pools, the fuller node is chosen (8 - 5 - 1 = 2 GPUs left) before an empty node (7)",
         GEMMA, [environment("a", A100), environment("b", A100)], "b/a100",
         others=[placement("b", "a100", deployment="other", shape=shape(1, 5))]),
    Case("name", "equal pools are sorted by the name of the environment",
         GEMMA, [environment("b", A100), environment("a", A100)], "a/a100"),
    Case("pool-name", "equal pools of an environment are sorted by the name of the pool", GEMMA,
         [environment("a", replace(A100, name="z"), replace(A100, name="y"))], "a/y"),
    Case("several", "each environment is chosen at most once, the smallest pools first", GEMMA,
         [environment("a", H200), environment("b", A100), environment("c", A100)], "b/a100 c/a100", wanted=2),
    Case("room", "a full pool is not chosen", GEMMA,
         [environment("a", pool("h200", memory="141Gi"), pool("a100", nodes=1, memory="80Gi"))], "a/h200", replicas=9),
    Case("not-ready", "an environment that is not Ready is not chosen", GEMMA,
         [environment("a", H200), environment("b", A100, ready=False)], "a/h200"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_chooses_the_smallest_sufficient_pool(case: Case) -> None:
    decision = schedule(asked(case.model, case.wanted, case.replicas), case.environments, case.others)
    assert " ".join(placed(decision)) == case.chosen, case.reason


def priced(name: str, per_gpu: str, currency: str = "USD", *, memory: str = "80Gi", gpus: int = 8) -> Pool:
    price = Price(per_gpu_hour=Decimal(per_gpu), currency=currency)
    return replace(pool(name, memory=memory, gpus=gpus), price=price)


CHEAP = (
    Case("price", "a pool for 2 USD is chosen before a pool for 3 USD",
         GEMMA, [environment("a", priced("dear", "3"), priced("cheap", "2"))],
         "a/cheap"),
    Case("across", "the pools of all environments are compared", GEMMA,
         [environment("a", priced("dear", "3")), environment("b", priced("cheap", "2"))], "b/cheap"),
    Case("replica", "100Gi need two GPUs of 80Gi for 2.20 each, or one GPU of 141Gi for 4", COMPUTED,
         [environment("a", priced("small", "2.20"), priced("large", "4", memory="141Gi"))], "a/large"),
    Case("no-price", "a pool without a price comes last",
         GEMMA, [environment("a", A100, priced("dear", "9", memory="141Gi"))],
         "a/dear"),
    Case("free", "a price of 0 is a price, and the lowest",
         GEMMA, [environment("a", priced("x", "1"), priced("y", "0"))],
         "a/y"),
    Case("no-prices", "without prices, the smallest pool is chosen", GEMMA, [environment("a", H200, A100)], "a/a100"),
    Case("equal", "of pools with equal costs, the smallest is chosen", GEMMA,
         [environment("a", priced("h200", "2", memory="141Gi"), priced("a100", "2"))], "a/a100"),
    Case("currency", "prices in different currencies are sorted by the name of the currency", GEMMA,
         [environment("a", priced("x", "1", "USD"), priced("y", "9", "EUR"))], "a/y"),
    Case("profile", "the first feasible profile is chosen, even if a later one costs less",
         model(profile("eight", shape(1, 8)), profile("one", shape(1, 1)), vram="60Gi"),
         [environment("a", priced("x", "3")), environment("b", priced("y", "1", gpus=1))], "a/x"),
)  # fmt: skip


@pytest.mark.parametrize("case", CHEAP, ids=lambda c: c.id)
def test_chooses_the_cheapest_pool(case: Case) -> None:
    request = asked(case.model, case.wanted, case.replicas)
    request = replace(request, deployment=replace(request.deployment, prefer=Preference.CHEAPEST))
    assert " ".join(placed(schedule(request, case.environments, []))) == case.chosen, case.reason
    there = placement("z", "dear", profile=case.model.profiles[0].name, shape=shape(1, 1), ready=True)
    environments = [*case.environments, environment("z", priced("dear", "99"))]
    if case.model is not COMPUTED:
        decision = schedule(request, environments, [there])
        assert (placed(decision), decision.dropped) == (["z/dear"], ()), (
            "a running placement does not move to a cheaper pool"
        )


def test_declared_order_ignores_spare_capacity() -> None:
    request = replace(asked(GEMMA), deployment=deployment())
    (chosen,) = schedule(request, [environment("a", H200, A100)], []).assignments
    assert chosen.pool == "h200"
    verdict = filter_environment(request, environment("a", H200, A100), CapacityView(()))
    assert isinstance(verdict, Assignment)
    assert verdict.rank is None


def test_keeps_running_placement_on_a_larger_pool() -> None:
    there = placement("a", "h200", profile="one", shape=shape(1, 1))
    decision = schedule(asked(GEMMA), [environment("a", H200, A100)], [there])
    assert [(a.placement, a.pool) for a in decision.assignments] == [(there, "h200")]


def test_reschedules_to_the_smallest_pool_of_its_environment() -> None:
    there = placement("a", "gone", profile="one", shape=shape(1, 1), ready=True)
    decision = schedule(asked(GEMMA), [environment("a", H200, A100), environment("b", L4)], [there])
    assert placed(decision) == ["a/a100"]


@pytest.mark.parametrize(
    "who", [[("team", f"d{index}") for index in range(8)], [(f"team{index}", "d") for index in range(8)]]
)
def test_evicted_deployments_spread_over_equally_small_pools(who: list[tuple[str, str]]) -> None:
    """The deployments differ either by name or by namespace."""
    environments = [environment(letter, pool(nodes=1, memory="80Gi")) for letter in "abcdefgh"]
    winner = placement("a", "pool", deployment="winner", created="2025", has_served=True)
    chosen = set()
    for namespace, name in who:
        lost = placement("a", "pool", deployment=name, namespace=namespace, profile="default")
        request = asked(model(profile(shape=shape())), name=name)
        theirs = replace(request, deployment=replace(request.deployment, namespace=namespace))
        decision = schedule(theirs, environments, [winner, lost])
        assert [d.placement for d in decision.dropped] == [lost]
        chosen.update(placed(decision))
    assert len(chosen) > 1


PACKED = (
    ({8: 2}, shape(1, 1), 1, False, 7, "one of two empty nodes keeps 7 GPUs"),
    ({3: 1, 8: 2}, shape(1, 2), 1, False, 1, "the replica uses the fullest node that has room"),
    ({1: 4, 8: 2}, shape(1, 2), 1, False, 6, "a node without room for the replica is not used"),
    ({5: 1, 8: 4}, shape(1, 4), 3, False, 0, "the second and third replicas fill a node that was empty"),
    ({8: 1}, shape(1, 1), 3, False, 5, "three replicas share one node"),
    ({8: 3}, shape(2, 8), 1, False, 0, "the replica takes whole nodes, which keep no GPUs"),
    ({4: 1, 8: 3}, shape(1, 4), 2, True, 0, "of two replicas on exclusive nodes, one takes the fullest node"),
    ({4: 0, 8: 3}, shape(1, 2), 2, True, 6, "a level without nodes does not count"),
    ({8: 3}, shape(1, 2), 0, False, 0, "without replicas, no node is used"),
)


@pytest.mark.parametrize(("free", "wanted", "replicas", "apart", "left", "reason"), PACKED)
def test_gpus_left_on_the_fullest_node_used(
    free: dict[int, int], wanted: Shape, replicas: int, apart: bool, left: int, reason: str
) -> None:
    capacity = PoolCapacity(9, 8)
    capacity.free = {**free}
    assert (
        capacity.count_left_on_fullest(share(wanted.nodes, wanted.gpus_per_node, replicas, exclusive=apart)) == left
    ), reason
    assert capacity.free == free, "the computation does not change the capacity"


def test_rank_respects_exclusive_replica_nodes() -> None:
    wanted = model(profile("one", shape(1, 4), replicas_across_nodes=Spread.REQUIRED), vram="60Gi")
    ((candidate, _),) = filter_candidates(asked(wanted, replicas=2), environment("a", A100), CapacityView(()))
    assert candidate is not None
    assert rank_candidate(candidate, CapacityView(())) == Rank(profile=0, spare=260 * GIB, free_on_fullest_node=4)


def cost(request: SchedulingRequest, pool: Pool, wanted: Shape) -> tuple[bool, int]:
    """Returns the order that the issue specifies: memory x GPUs - vram (or the required memory, or 0)."""
    (profile,) = (p for p in request.model.profiles if p.shape == wanted or p.shape is None)
    requested = (profile.requires.memory_per_gpu or 0) * wanted.gpus
    spare = (pool.memory_per_gpu or 0) * wanted.gpus - (request.model.vram or requested)
    return spare < 0, abs(spare)


@profiled
@given(request=needs(), environments=sites(), existing=placements(("one", "two")), seed=st.integers(0, 9))
def test_no_feasible_pool_is_smaller_than_the_chosen_one(
    request: SchedulingRequest, environments: list[Environment], existing: list[Placement], seed: int
) -> None:
    """Compares the chosen pool with all feasible candidates."""
    wanted = replace(
        request,
        deployment=replace(request.deployment, environments=1, name=f"d{seed}", prefer=Preference.SMALLEST_SUFFICIENT),
    )
    known = [e for e in environments if not e.deleting]
    ledger = CapacityView(existing)
    every = [c for e in known for c, refusals in filter_candidates(wanted, e, ledger) if not refusals and c]
    decision = schedule(wanted, environments, existing)
    assert bool(decision.assignments) == (bool(every) and decision.general_refusal is None)
    for chosen in decision.assignments:
        order = [p.name for p in wanted.model.profiles]
        assert order.index(chosen.profile) == min(order.index(c.profile.name) for c in every)
        where = next(e for e in known if e.name == chosen.environment).pool(chosen.pool)
        assert where is not None
        alike = [c for c in every if c.profile.name == chosen.profile]
        costs = [cost(wanted, c.pool, c.shape) for c in alike if c.shape]
        assert cost(wanted, where, chosen.shape) == min(costs)
