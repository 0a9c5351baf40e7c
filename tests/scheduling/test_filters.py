"""The filter chooses the first pool that satisfies everything, or reports why the nearest pool is refused."""

from dataclasses import dataclass, replace

import pytest

from function.capacity.ledger import CapacityView
from function.capacity.pools import PoolUse
from function.domain.cache import CacheType, CreatedStorage
from function.domain.environment import Environment
from function.domain.model import EngineName
from function.domain.placement import Placement
from function.domain.pods import InterNode
from function.domain.settings import Kserve
from function.reasons import Refused
from function.scheduling.filters import filter_candidates, filter_environment, filter_for_reschedule
from function.scheduling.refusals import Field
from function.scheduling.verdicts import Assignment, Infeasible, SchedulingRequest
from function.serving.service import find_pool_problems
from tests.support.builders import (
    deployment,
    engine,
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

TWO_NODES = profile("two", shape(2))
ONE_GPU = profile("one", shape(1, 1))


def request(*profiles: object, replicas: int = 1, **fields: object) -> SchedulingRequest:
    return SchedulingRequest(
        deployment=deployment(replicas=replicas),
        model=model(*profiles, **fields),  # type: ignore[arg-type]  # arguments of model()
    )


def taker(pool: str, replicas: int = 1, **fields: object) -> Placement:
    return placement("env", pool, deployment="other", replicas=replicas, **fields)  # type: ignore[arg-type]  # its keywords


@dataclass(frozen=True)
class Wins:
    id: str
    reason: str
    request: SchedulingRequest
    environment: Environment
    want: tuple[str, str]
    others: tuple[Placement, ...] = ()


WINS = (
    Wins(
        "first-pool",
        "pools are tried in the declared order",
        request(ONE_GPU),
        environment("env", pool("b"), pool("a")),
        ("one", "b"),
    ),
    Wins(
        "first-profile",
        "a profile is tried on all pools before the next profile is tried",
        request(TWO_NODES, ONE_GPU),
        environment("env", pool("small", multi_node=False), pool("big")),
        ("two", "big"),
    ),
    Wins(
        "second-profile",
        "the second profile is chosen if the first profile fits no pool",
        request(TWO_NODES, ONE_GPU),
        environment("env", pool("small", multi_node=False)),
        ("one", "small"),
    ),
    Wins(
        "profile-for-other-environments",
        "a profile is skipped if its selector does not match the environment",
        request(profile("eu", shape(1, 1), selector=selector(region="eu")), ONE_GPU),
        environment("env", pool("a"), labels={"region": "us"}),
        ("one", "a"),
    ),
    Wins(
        "full-pool",
        "a pool without free capacity is skipped",
        request(ONE_GPU),
        environment("env", pool("full", nodes=1), pool("free")),
        ("one", "free"),
        (taker("full"),),
    ),
)


@pytest.mark.parametrize("case", WINS, ids=lambda c: c.id)
def test_chooses_the_first_feasible_pool(case: Wins) -> None:
    verdict = filter_environment(case.request, case.environment, CapacityView(case.others))
    assert isinstance(verdict, Assignment), case.reason
    assert (verdict.profile, verdict.pool) == case.want, case.reason


def test_vram_is_recorded_where_it_made_the_shape() -> None:
    """810Gi on 8 x 80Gi: 2 nodes x 8."""
    computed = filter_environment(request(profile(), vram="810Gi"), environment("env", pool()), CapacityView(()))
    declared = filter_environment(request(TWO_NODES, vram="810Gi"), environment("env", pool()), CapacityView(()))
    assert isinstance(computed, Assignment)
    assert isinstance(declared, Assignment)
    assert (computed.shape, computed.vram) == (shape(2), 810 * 2**30)
    assert (declared.shape, declared.vram) == (shape(2), None)


@dataclass(frozen=True)
class Nearest:
    id: str
    reason: str
    request: SchedulingRequest
    environment: Environment
    want: tuple[Refused, str, Field]
    others: tuple[Placement, ...] = ()


NEAREST = (
    Nearest(
        "furthest-first-failure",
        "memory is checked after multiNodeCapable, so the second pool passes more checks",
        request(profile("two", shape(2), requires=requires(memory="141Gi"))),
        environment("env", pool("first", multi_node=False), pool("second")),
        (Refused.NO_POOL_SATISFIES_REQUIREMENTS, "second", Field.MEMORY_PER_GPU),
    ),
    Nearest(
        "nearer-comes-first",
        "a later pool that passes fewer checks does not replace the nearest one",
        request(profile("two", shape(2), requires=requires(memory="141Gi"))),
        environment("env", pool("first"), pool("second", multi_node=False)),
        (Refused.NO_POOL_SATISFIES_REQUIREMENTS, "first", Field.MEMORY_PER_GPU),
    ),
    Nearest(
        "fewer-faults",
        "of pools that fail at the same check, the pool with fewer refusals is nearer",
        request(profile("one", shape(), requires=requires(memory="141Gi", precision=("fp4",)))),
        environment("env", pool("worse"), pool("better", precision=("fp4",))),
        (Refused.NO_POOL_SATISFIES_REQUIREMENTS, "better", Field.MEMORY_PER_GPU),
    ),
    Nearest(
        "first-of-equals",
        "of equally near pools, the first in the declared order is reported",
        request(profile("one", shape(), requires=requires(memory="141Gi"))),
        environment("env", pool("b"), pool("a")),
        (Refused.NO_POOL_SATISFIES_REQUIREMENTS, "b", Field.MEMORY_PER_GPU),
    ),
    Nearest(
        "never-before-not-now",
        "a full pool is nearer than a pool that is too small",
        request(TWO_NODES),
        environment("env", pool("small", nodes=1), pool("full", nodes=2)),
        (Refused.INSUFFICIENT_CAPACITY, "full", Field.REPLICAS),
        (taker("full"),),
    ),
    Nearest(
        "not-ready-comes-last",
        "everything else fits, so the refusal is that the environment is not Ready",
        request(ONE_GPU),
        environment("env", pool("a"), ready=False, ready_message="kubeconfig missing"),
        (Refused.ENVIRONMENT_NOT_READY, "", Field.READY),
    ),
    Nearest(
        "not-ready-and-full",
        "the reason is the reason of the first failing check",
        request(TWO_NODES),
        environment("env", pool("full", nodes=2), ready=False),
        (Refused.INSUFFICIENT_CAPACITY, "full", Field.REPLICAS),
        (taker("full"),),
    ),
    Nearest(
        "no-pools",
        "an environment without pools cannot satisfy any profile",
        request(ONE_GPU),
        environment("env"),
        (Refused.NO_POOL_SATISFIES_REQUIREMENTS, "", Field.NODE_POOLS),
    ),
    Nearest(
        "broken-environment",
        "an invalid environment is never chosen",
        request(ONE_GPU),
        environment("env", broken=True),
        (Refused.NO_POOL_SATISFIES_REQUIREMENTS, "", Field.ENVIRONMENT),
    ),
    Nearest(
        "every-profile-for-other-environments",
        "no selector of a profile matches the environment",
        request(profile("eu", shape(), selector=selector(region="eu"))),
        environment("env", pool()),
        (Refused.NO_ENVIRONMENT_MATCHES, "", Field.PROFILE_SELECTOR),
    ),
)


@pytest.mark.parametrize("case", NEAREST, ids=lambda c: c.id)
def test_reports_the_refusals_of_the_nearest_pool(case: Nearest) -> None:
    verdict = filter_environment(case.request, case.environment, CapacityView(case.others))
    assert isinstance(verdict, Infeasible), case.reason
    first = verdict.refusals[0]
    assert (verdict.reason, first.pool, first.field) == case.want, case.reason


def test_reports_both_selectors_and_checks_nothing_else() -> None:
    """The pool is also too small, but it is not checked if a selector does not match."""
    chosen = SchedulingRequest(
        deployment=deployment(selector=selector(team="a")),
        model=model(TWO_NODES, selector=selector(tier="production", region="us")),
    )
    verdict = filter_environment(chosen, environment("env", pool(nodes=1), labels={"region": "us"}), CapacityView(()))
    assert isinstance(verdict, Infeasible)
    fields = [(r.field, str(r.unmet[0][0]) if r.unmet else "") for r in verdict.refusals]
    assert fields == [(Field.DEPLOYMENT_SELECTOR, "team=a"), (Field.MODEL_SELECTOR, "tier=production")]


def test_distinguishes_a_small_pool_from_a_full_one() -> None:
    """Two replicas of 2 x 8 never fit on three nodes. They fit on four nodes once the other placement is deleted."""
    twice, other = request(TWO_NODES, replicas=2), taker("a")
    never = filter_environment(twice, environment("env", pool("a", nodes=3)), CapacityView((other,)))
    not_now = filter_environment(twice, environment("env", pool("a", nodes=4)), CapacityView((other,)))
    assert isinstance(never, Infeasible)
    assert isinstance(not_now, Infeasible)
    assert (never.reason, never.refusals[0].required, never.refusals[0].actual) == (Refused.POOL_TOO_SMALL, 2, 1)
    assert (not_now.reason, not_now.refusals[0].required, not_now.refusals[0].actual) == (
        Refused.INSUFFICIENT_CAPACITY,
        2,
        1,
    )
    assert not_now.refusals[0].use == PoolUse(nodes=4, nodes_in_use=1, placements=1)


def test_reschedules_on_an_environment_that_is_not_ready() -> None:
    """An outage does not move an existing placement, but no new placement is scheduled there."""
    down = environment("env", pool(), ready=False)
    assert isinstance(filter_for_reschedule(request(ONE_GPU), down, CapacityView(())), Assignment)
    assert isinstance(filter_environment(request(ONE_GPU), down, CapacityView(())), Infeasible)


def test_storage_for_one_node_skips_profiles_of_several() -> None:
    asked = model(TWO_NODES, ONE_GPU)
    choice = CreatedStorage(type=CacheType.EMPTY_DIR)
    wanted = SchedulingRequest(deployment=deployment(), model=asked, storage_request=planner(asked, choice))
    found = filter_environment(wanted, environment("env", pool()), CapacityView(()))
    assert isinstance(found, Assignment)
    assert found.profile == "one"


def test_flags_that_contradict_the_maths_name_the_argument() -> None:
    """The author wrote tensor 4 for a pool where 810Gi take 8 GPUs on each of 2 nodes."""
    args = engine(EngineName.VLLM, "--max-model-len=1", "--tensor-parallel-size=4")
    request = SchedulingRequest(deployment=deployment(), model=model(profile(engine=args), vram="810Gi"))
    verdict = filter_environment(request, environment("env", pool()), CapacityView(()))
    assert isinstance(verdict, Infeasible)
    (refusal,) = verdict.refusals
    assert (refusal.reason, refusal.field) == (Refused.INVALID_PROFILE, Field.ENGINE_ARGS)
    assert "engine.args[1]" in str(refusal.actual)


def test_an_engine_without_https_is_no_candidate_where_kserve_speaks_nothing_else() -> None:
    old = replace(engine(EngineName.SGLANG), image="lmsysorg/sglang:v0.5.9")
    request = SchedulingRequest(deployment=deployment(), model=model(profile("old", shape(), engine=old)))
    plain = environment("env", pool())
    assert isinstance(filter_environment(request, plain, CapacityView(())), Assignment)
    verdict = filter_environment(request, replace(plain, kserve=Kserve(tls=True)), CapacityView(()))
    assert isinstance(verdict, Infeasible)
    (refusal,) = verdict.refusals
    assert (refusal.reason, refusal.field) == (Refused.INVALID_PROFILE, Field.TLS)
    assert refusal.message == (
        "on pool pool spec.serving[old].engine.image: 'lmsysorg/sglang:v0.5.9' cannot serve HTTPS, which kserve.tls of "
        "the environment requires; must be SGLang 0.5.10 or later"
    )


def test_what_a_pools_preset_sets_no_profile_sets() -> None:
    given = InterNode(preset="eks-efa", preset_env=frozenset({"NCCL_NET"}))
    author = replace(engine(), env=({"name": "NCCL_NET", "value": "Socket"},))
    request = SchedulingRequest(
        deployment=deployment(), model=model(profile("wide", shape(2), engine=author)), serving_check=find_pool_problems
    )
    verdict = filter_environment(request, environment("env", replace(pool("efa"), inter_node=given)), CapacityView(()))
    assert isinstance(verdict, Infeasible)
    (refusal,) = verdict.refusals
    assert (refusal.reason, refusal.field) == (Refused.INVALID_PROFILE, Field.INTER_NODE)
    assert refusal.message == (
        "on pool efa spec.serving[wide].engine.env[0]: NCCL_NET must be left out, preset eks-efa of pool efa sets it"
    )


def test_a_pool_keeps_every_refusal_in_the_order_of_the_table() -> None:
    """The user sees all faults at once."""
    demanding = requires(
        memory="141Gi",
        nvlink_domain=72,
        interconnect="nvswitch",
        accelerator_type="x",
        bandwidth="ib-800g",
        precision=("fp4",),
    )
    asked = model(profile(shape=shape(5, 16), requires=demanding))
    choice = CreatedStorage(type=CacheType.EMPTY_DIR)
    request = SchedulingRequest(deployment=deployment(), model=asked, storage_request=planner(asked, choice))
    poor = environment("env", pool(multi_node=False), storage_class=None, ready=False)
    verdict = filter_environment(request, poor, CapacityView(()))
    assert isinstance(verdict, Infeasible)
    assert [r.field for r in verdict.refusals] == [
        Field.STORAGE,
        Field.MULTI_NODE,
        Field.GPUS_PER_NODE,
        Field.MEMORY_PER_GPU,
        Field.NVLINK_DOMAIN,
        Field.INTERCONNECT,
        Field.ACCELERATOR_TYPE,
        Field.BANDWIDTH,
        Field.PRECISION,
        Field.STORAGE,
        Field.READY,
    ]
    ranks = [r.reason.rank for r in verdict.refusals]
    assert ranks == sorted(ranks), "the order of the checks agrees with the order of Refused"


def test_every_attempt_can_be_told() -> None:
    """The candidates include those after the first feasible one, each with all its refusals."""
    here = environment("env", pool("fits"), pool("lone", multi_node=False), ready=False)
    found = filter_candidates(request(TWO_NODES), here, CapacityView(()))
    assert [(candidate and candidate.pool.name, [r.field for r in refusals]) for candidate, refusals in found] == [
        ("fits", [Field.READY]),
        ("lone", [Field.MULTI_NODE, Field.READY]),
    ]
    up = filter_candidates(request(TWO_NODES), environment("env", pool("fits")), CapacityView(()))
    assert [refusals for _, refusals in up] == [()]


def test_an_environment_that_comes_to_no_pool_is_one_attempt() -> None:
    other_label = request(TWO_NODES, selector=selector(tier="x"))
    ((broken, of_broken),) = filter_candidates(request(TWO_NODES), environment("env", broken=True), CapacityView(()))
    ((refused, of_refused),) = filter_candidates(other_label, environment("env", pool()), CapacityView(()))
    assert (broken, [r.field for r in of_broken]) == (None, [Field.ENVIRONMENT])
    assert (refused, [r.field for r in of_refused]) == (None, [Field.MODEL_SELECTOR])
