"""The verdict cache: verdicts are reused while nothing changed, forgotten within bounds, and change no result."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.api.parse_cache import CacheStats
from function.capacity.ledger import Ledger
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
    """A call after one by ASKED over east and west with OTHER on east; the environments that are filtered again."""

    id: str
    reason: str
    evaluated: str
    request: SchedulingRequest = ASKED
    environments: Sequence[Environment] = (EAST, WEST)
    placements: Sequence[Placement] = field(default=(OTHER,))


CASES = (
    Case("same", "nothing changed", ""),
    Case("order", "nor does order", "", environments=(WEST, EAST)),
    Case("who", "who asks does not matter", "", replace(ASKED, deployment=deployment("second", namespace="else"))),
    Case("how-many", "nor on how many environments", "", replace(ASKED, deployment=deployment(environments=2))),
    Case("replicas", "another need", "east west", replace(ASKED, deployment=deployment(replicas=2))),
    Case("selector", "likewise", "east west", replace(ASKED, deployment=deployment(selector=selector(a="b")))),
    Case(
        "prefer",
        "another of the pools that fit may be meant",
        "east west",
        replace(ASKED, deployment=deployment(prefer=Preference.SMALLEST_SUFFICIENT)),
    ),
    Case("model", "likewise", "east west", replace(ASKED, model=model(profile(shape=shape(1))))),
    Case("environment", "its content changed", "east", environments=(environment("east", pool("p", nodes=9)), WEST)),
    Case("one-more", "another placement was created", "east", placements=(OTHER, ANOTHER)),
    Case("one-less", "the placement was deleted", "east", placements=()),
    Case("grown", "the placement was scaled up", "east", placements=(replace(OTHER, replicas=2),)),
    Case("equal", "what is equal takes the same", "", placements=(replace(OTHER),)),
    Case("elsewhere", "another environment", "west", placements=(OTHER, placement("west", "p", deployment="x"))),
)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the environments that are really judged from now on."""
    names: list[str] = []

    def counting(request: SchedulingRequest, environment: Environment, ledger: Ledger) -> Verdict:
        names.append(environment.name)
        return filter_environment(request, environment, ledger)

    monkeypatch.setattr(filters, "filter_environment", counting)
    return names


def ask(
    verdicts: VerdictCache, request: SchedulingRequest, environments: Sequence[Environment], others: Sequence[Placement]
) -> list[Verdict]:
    """Judge every environment, and see that nothing else is said than without a memory."""
    judging = verdicts.make_filter(request, environments)
    found = [judging(e, Ledger(others)) for e in environments]
    assert found == [filter_environment(request, e, Ledger(others)) for e in environments]
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
    """Return an environment that has granted all of its pool, half of it to each, and published that."""
    share = Share(pool="p", nodes=2, gpus_per_node=8, replicas=1)
    grants = tuple(Grant(uid=owner, namespace="team", name=owner, share=share) for owner in owners)
    return environment("east", pool("p", nodes=4), uid="e", free={"p": Free(placements=2, nodes=())}, admitted=grants)


@pytest.mark.parametrize(
    ("mine", "yours"),
    [(("a",), ()), ((), ("a",)), (("a",), ("a", "b")), (("a",), ("b",))],
    ids=["counted-and-believed", "believed-and-counted", "less-and-more", "one-and-another"],
)
def test_deployments_on_an_environment_share_no_verdicts(mine: tuple[str, ...], yours: tuple[str, ...]) -> None:
    """No other placement is listed there any more, so only the grants show what each of them leaves."""
    verdicts, there, two = VerdictCache(), granted("a", "b"), replace(ASKED, deployment=deployment(replicas=2))
    for own in (mine, yours, mine):
        ledger = Ledger((), [placement("east", "p", uid=uid) for uid in own])
        assert verdicts.make_filter(two, [there])(there, ledger) == filter_environment(two, there, ledger)


def test_forgets_a_deleted_environment(judged: list[str]) -> None:
    verdicts = VerdictCache()
    for environments in ((EAST, WEST), (EAST,), (EAST, WEST)):
        ask(verdicts, ASKED, environments, ())
    assert judged == ["east", "west", "west"]


def replicas(count: int) -> SchedulingRequest:
    """Return one of several different needs."""
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
    """With a bound of three verdicts: two for two environments, and beside them those of no other need."""
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
