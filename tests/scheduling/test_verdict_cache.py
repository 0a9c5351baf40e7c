"""The verdict cache: verdicts are reused until something changes, are bounded in number, and do not change results."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.api.parse_cache import CacheStats
from function.capacity.ledger import CapacityView
from function.domain.allocation import Free, Grant, Share
from function.domain.environment import Environment
from function.domain.placement import Placement, Preference
from function.scheduling import filters
from function.scheduling.filters import VerdictCache, filter_environment
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import SchedulingRequest, Verdict
from function.status.model_deployment import build_scheduled
from tests.properties.test_schedule import needs, placements, profiled, sites
from tests.support.builders import deployment, environment, model, placement, planner, pool, profile, selector, shape

TWO_NODES = model(profile(shape=shape(2)))
ASKED = SchedulingRequest(deployment=deployment(), model=TWO_NODES, storage_request=planner(TWO_NODES))
EAST, WEST = environment("east", pool("p", nodes=4)), environment("west", pool("p", nodes=4))
OTHER, ANOTHER = placement("east", "p", deployment="other"), placement("east", "p", deployment="another")


@dataclass(frozen=True)
class Case:
    """A second call after a call for ASKED with OTHER on east; `evaluated` names the environments filtered again."""

    id: str
    reason: str
    evaluated: str
    request: SchedulingRequest = ASKED
    environments: Sequence[Environment] = (EAST, WEST)
    placements: Sequence[Placement] = field(default=(OTHER,))


CASES = (
    Case("same", "nothing changed, so all verdicts are reused", ""),
    Case("order", "the order of the environments does not matter", "", environments=(WEST, EAST)),
    Case(
        "who",
        "the name of the deployment does not matter",
        "",
        replace(ASKED, deployment=deployment("second", namespace="else")),
    ),
    Case(
        "how-many",
        "the desired number of environments does not matter",
        "",
        replace(ASKED, deployment=deployment(environments=2)),
    ),
    Case(
        "replicas",
        "another number of replicas needs new verdicts",
        "east west",
        replace(ASKED, deployment=deployment(replicas=2)),
    ),
    Case(
        "selector",
        "another selector needs new verdicts",
        "east west",
        replace(ASKED, deployment=deployment(selector=selector(a="b"))),
    ),
    Case(
        "prefer",
        "another preference may choose another feasible pool",
        "east west",
        replace(ASKED, deployment=deployment(prefer=Preference.SMALLEST_SUFFICIENT)),
    ),
    Case(
        "model", "another model needs new verdicts", "east west", replace(ASKED, model=model(profile(shape=shape(1))))
    ),
    Case(
        "environment",
        "a changed environment is filtered again",
        "east",
        environments=(environment("east", pool("p", nodes=9)), WEST),
    ),
    Case("one-more", "a new placement on an environment needs a new verdict", "east", placements=(OTHER, ANOTHER)),
    Case("one-less", "a deleted placement on an environment needs a new verdict", "east", placements=()),
    Case(
        "grown", "a placement that was scaled up needs a new verdict", "east", placements=(replace(OTHER, replicas=2),)
    ),
    Case("equal", "an equal placement takes the same GPUs", "", placements=(replace(OTHER),)),
    Case(
        "elsewhere",
        "a placement on another environment affects only this environment",
        "west",
        placements=(OTHER, placement("west", "p", deployment="x")),
    ),
)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the names of the environments that are filtered without the cache from now on."""
    names: list[str] = []

    def counting(request: SchedulingRequest, environment: Environment, ledger: CapacityView) -> Verdict:
        names.append(environment.name)
        return filter_environment(request, environment, ledger)

    monkeypatch.setattr(filters, "filter_environment", counting)
    return names


def ask(
    verdicts: VerdictCache, request: SchedulingRequest, environments: Sequence[Environment], others: Sequence[Placement]
) -> list[Verdict]:
    """Filters every environment, and checks that the verdicts equal those without the cache."""
    judging = verdicts.make_filter(request, environments)
    found = [judging(e, CapacityView(others)) for e in environments]
    assert found == [filter_environment(request, e, CapacityView(others)) for e in environments]
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_filters_again_only_what_changed(judged: list[str], case: Case) -> None:
    verdicts = VerdictCache()
    ask(verdicts, ASKED, (EAST, WEST), (OTHER,))
    judged.clear()
    ask(verdicts, case.request, case.environments, case.placements)
    assert " ".join(judged) == case.evaluated, case.reason
    filtered = 2 + len(case.evaluated.split())
    assert verdicts.stats == CacheStats(hits=4 - filtered, misses=filtered), (
        "two environments are looked up in each call"
    )


def test_placements_count_in_any_order(judged: list[str]) -> None:
    verdicts = VerdictCache()
    ask(verdicts, ASKED, (EAST,), (OTHER, ANOTHER))
    judged.clear()
    ask(verdicts, ASKED, (EAST,), (ANOTHER, OTHER))
    assert judged == []


def granted(*owners: str) -> Environment:
    """Returns an environment that has published two nodes of its pool as granted to each owner."""
    share = Share(pool="p", nodes=2, gpus_per_node=8, replicas=1)
    grants = tuple(Grant(uid=owner, namespace="team", name=owner, share=share) for owner in owners)
    return environment("east", pool("p", nodes=4), uid="e", free={"p": Free(placements=2, nodes=())}, admitted=grants)


@pytest.mark.parametrize(
    ("mine", "yours"),
    [(("a",), ()), ((), ("a",)), (("a",), ("a", "b")), (("a",), ("b",))],
    ids=["counted-and-believed", "believed-and-counted", "less-and-more", "one-and-another"],
)
def test_deployments_on_an_environment_share_no_verdicts(mine: tuple[str, ...], yours: tuple[str, ...]) -> None:
    """No other placements are listed, so only the grants show the remaining capacity."""
    verdicts, there, two = VerdictCache(), granted("a", "b"), replace(ASKED, deployment=deployment(replicas=2))
    for own in (mine, yours, mine):
        ledger = CapacityView((), [placement("east", "p", uid=uid) for uid in own])
        assert verdicts.make_filter(two, [there])(there, ledger) == filter_environment(two, there, ledger)


def test_forgets_a_deleted_environment(judged: list[str]) -> None:
    verdicts = VerdictCache()
    for environments in ((EAST, WEST), (EAST,), (EAST, WEST)):
        ask(verdicts, ASKED, environments, ())
    assert judged == ["east", "west", "west"]


def replicas(count: int) -> SchedulingRequest:
    """Returns a request that differs by its replicas."""
    return replace(ASKED, deployment=deployment(replicas=count))


def test_keeps_verdicts_of_64_requests(judged: list[str]) -> None:
    verdicts, needs = VerdictCache(), [replicas(n) for n in range(64)]
    for need in needs:
        ask(verdicts, need, (EAST,), ())
    judged.clear()
    for need in needs:
        ask(verdicts, need, (EAST,), ())
    assert judged == []


def test_forgets_the_oldest_request_beyond_64(judged: list[str]) -> None:
    verdicts, needs = VerdictCache(), [replicas(n) for n in range(65)]
    for need in needs:
        ask(verdicts, need, (EAST,), ())
    judged.clear()
    for need in reversed(needs):
        ask(verdicts, need, (EAST,), ())
    assert judged == ["east"]


def test_bounds_verdicts_and_keeps_the_latest_request(judged: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is three verdicts: next to the two verdicts of one request there is room for one more."""
    monkeypatch.setattr(filters, "MAX_VERDICTS", 3)
    verdicts, both = VerdictCache(), (EAST, WEST)
    for asked, environments, found in (
        (1, both, "east west"),
        (2, (EAST,), "east"),
        (1, both, ""),
        (2, (EAST,), ""),
        (3, both, "east west"),  # 2 + 1 of 3
        (2, (EAST,), ""),
        (1, both, "east west"),
        (4, (EAST, WEST, environment("north"), environment("south")), "east west north south"),
        (4, (EAST, WEST), ""),
        (1, both, "east west"),
    ):
        judged.clear()
        ask(verdicts, replicas(asked), environments, ())
        assert " ".join(judged) == found


_MEMORY = VerdictCache()


@profiled
@given(
    request=needs(),
    environments=sites(),
    existing=placements(),
    name=st.sampled_from(["chat", "one", "none"]),
    seed=st.integers(0, 99),
)
def test_cache_changes_no_decision(
    request: SchedulingRequest, environments: list[Environment], existing: list[Placement], name: str, seed: int
) -> None:
    for asked in (request, replace(request, deployment=replace(request.deployment, name=name)), request):
        plain = schedule(asked, environments, existing)
        random.Random(seed).shuffle(environments)
        random.Random(seed).shuffle(existing)
        found = schedule(asked, environments, existing, partial(_MEMORY.make_filter, environments=environments))
        assert found == plain
        assert build_scheduled(asked, found) == build_scheduled(asked, plain)
