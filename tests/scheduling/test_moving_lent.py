"""Divided replicas that are given back stay until as many serve elsewhere, but not for longer than ten minutes."""

from dataclasses import dataclass, field, replace

import pytest

from function.domain.allocation import Grant, Yield
from function.domain.environment import Environment
from function.domain.placement import Placement
from function.scheduling.scheduler import schedule
from tests.scheduling.test_division import fleet, partly, request, running, starting

SINCE = 1_000_000
OWNER = Yield(keep=0, uid="owner-uid", namespace="team-b", name="owner", priority=100, gpus=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    id: str
    reason: str
    own: tuple[Placement, ...]
    keeps: dict[str, int]  # by environment that takes replicas back
    after: float = 0  # seconds since it was told so
    replicas: int = 4
    nodes: dict[str, int] = field(default_factory=lambda: {"a": 4, "b": 2})
    want: dict[str, tuple[int, int]]  # by environment: its replicas, and those that it holds


CASES = (
    Case(
        id="others-start",
        reason="two of four go to b, and stay on a until they serve there",
        own=(running("a", 4),), keeps={"a": 2}, want={"a": (2, 2), "b": (2, 0)},
    ),
    Case(
        id="others-have-not-started",
        reason="the same decision while they start",
        own=(running("a", 4), starting("b", 2)), keeps={"a": 2}, want={"a": (2, 2), "b": (2, 0)},
    ),
    Case(
        id="one-serves",
        reason="one of two serves on b, so one is left to wait for",
        own=(running("a", 4), partly("b", 2, 1)), keeps={"a": 2}, want={"a": (2, 1), "b": (2, 0)},
    ),
    Case(
        id="all-serve",
        reason="two serve on b",
        own=(running("a", 4), running("b", 2)), keeps={"a": 2}, want={"a": (2, 0), "b": (2, 0)},
    ),
    Case(
        id="room-for-fewer",
        reason="three are given back, and b has room for two: nothing replaces the third",
        own=(running("a", 4),), keeps={"a": 1}, want={"a": (1, 2), "b": (2, 0)},
    ),
    Case(
        id="room-nowhere",
        reason="nothing starts elsewhere, so nothing is waited for",
        own=(running("a", 4),), keeps={"a": 2}, nodes={"a": 4}, want={"a": (2, 0)},
    ),
    Case(
        id="not-running",
        reason="what does not run is not waited for: three of four run",
        own=(partly("a", 4, 3),), keeps={"a": 2}, want={"a": (2, 1), "b": (2, 0)},
    ),
    Case(
        id="all-of-them",
        reason="a keeps nothing, and its placement stays for now",
        own=(running("a", 2),), replicas=2, keeps={"a": 0}, want={"a": (0, 2), "b": (2, 0)},
    ),
    Case(
        id="of-two-environments",
        reason="two start on c: they are waited for once, on a",
        own=(running("a", 2), running("b", 2)), nodes={"a": 2, "b": 2, "c": 2}, keeps={"a": 1, "b": 1},
        want={"a": (1, 1), "b": (1, 1), "c": (2, 0)},
    ),
    Case(
        id="fewer-requested",
        reason="the deployment asks for two by now, and none of them starts",
        own=(running("a", 4),), replicas=2, keeps={"a": 2}, want={"a": (2, 0)},
    ),
    Case(
        id="last-second",
        reason="ten minutes are not over",
        own=(running("a", 4),), keeps={"a": 2}, after=599, want={"a": (2, 2), "b": (2, 0)},
    ),
    Case(
        id="too-late",
        reason="after ten minutes nothing is waited for",
        own=(running("a", 4), starting("b", 2)), keeps={"a": 2}, after=600, want={"a": (2, 0), "b": (2, 0)},
    ),
    Case(
        id="clocks-differ",
        reason="the clock of the instance that wrote it is 30 seconds ahead",
        own=(running("a", 4),), keeps={"a": 2}, after=-30, want={"a": (2, 2), "b": (2, 0)},
    ),
    Case(
        id="in-the-future",
        reason="a time that nobody can have written would hold them for ever",
        own=(running("a", 4),), keeps={"a": 2}, after=-3600, want={"a": (2, 0), "b": (2, 0)},
    ),
)  # fmt: skip


def _take_back(environment: Environment, own: Placement, keep: int, since: int | None) -> Environment:
    assert own.requested
    yields = replace(OWNER, keep=keep, since=since)
    grant = Grant(uid=own.uid, namespace=own.namespace, name=own.name, share=own.requested, yields=yields)
    return replace(environment, admitted=(grant,))


def _decide(case: Case, since: int | None = SINCE) -> dict[str, tuple[int, int]]:
    lent = {p.environment: replace(p, uid=f"uid-{p.environment}", guaranteed=0) for p in case.own}
    sites = [
        _take_back(each, lent[each.name], case.keeps[each.name], since) if each.name in case.keeps else each
        for each in fleet(**case.nodes)
    ]
    asked = request(case.replicas)
    asked = replace(asked, deployment=replace(asked.deployment, fixed_guaranteed=0))
    decision = schedule(asked, sites, [*lent.values()], now=SINCE + case.after)
    return {a.environment: (a.replicas, a.held.replicas if a.held else 0) for a in decision.assignments}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_stays_until_others_serve(case: Case) -> None:
    assert _decide(case) == case.want, case.reason


def test_without_a_time_nothing_is_waited_for() -> None:
    assert _decide(CASES[0], since=None) == {"a": (2, 0), "b": (2, 0)}
