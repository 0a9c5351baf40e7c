"""Which placement of a roll-out may change next."""

from dataclasses import dataclass, replace

import pytest

from function.domain.placement import Gate, Placement, Rollout
from function.domain.records.rollout import PendingUpdate
from function.scheduling.turns import assign_turns, needs_gate
from tests.support.builders import placement

STUCK = PendingUpdate("1 of 2 pods")


def at(name: str, served: str, requested: str, allowed: str | None = "1", *, ready: bool = True) -> Placement:
    """Return a placement on an environment with these digests."""
    base = placement(name, ready=ready)
    return replace(
        base, allowed_digest=allowed, rollout=replace(base.rollout, served_digest=served, requested_digest=requested)
    )


def stuck(placement: Placement) -> Placement:
    return replace(placement, rollout=replace(placement.rollout, update=STUCK))


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    placements: tuple[Placement, ...]
    want: dict[str, str]
    rollout: Rollout = Rollout()


CASES = (
    Case("up-to-date", "nothing is to be done", (at("a", "1", "1"), at("b", "1", "1")), {"a": "1", "b": "1"}),
    Case("first", "the first by name changes", (at("b", "1", "2"), at("a", "1", "2")), {"a": "2", "b": "1"}),
    Case(
        "order",
        "the order of the deployment comes before names",
        (at("a", "1", "2"), at("b", "1", "2"), at("c", "1", "2")),
        {"a": "1", "b": "1", "c": "2"},
        Rollout(order=("c", "elsewhere")),
    ),
    Case(
        "changing",
        "a service that has not its new digest yet keeps the next one waiting",
        (at("a", "1", "2", "2"), at("b", "1", "2")),
        {"a": "2", "b": "1"},
    ),
    Case(
        "not-ready",
        "a service that is not Ready with its new digest keeps the next one waiting",
        (at("a", "2", "2", "2", ready=False), at("b", "1", "2")),
        {"a": "2", "b": "1"},
    ),
    Case(
        "says-nothing",
        "a service that had its turn and says nothing now may be changing",
        (at("a", "", "2", "2"), at("b", "1", "2"), at("c", "1", "2")),
        {"a": "2", "b": "1", "c": "1"},
    ),
    Case(
        "lost-status",
        "so may one whose status is lost",
        (at("a", "", "", "2", ready=False), at("b", "1", "2")),
        {"a": "2", "b": "1"},
    ),
    Case(
        "never-started",
        "one that never had a service had no turn",
        (at("a", "", "", "", ready=False), at("b", "1", "2")),
        {"a": "", "b": "2"},
    ),
    Case("next", "the first is done", (at("a", "2", "2", "2"), at("b", "1", "2")), {"a": "2", "b": "2"}),
    Case(
        "fix",
        "one that does not serve takes a fix first",
        (at("a", "2", "3", "2"), at("b", "2", "3", "2", ready=False), at("c", "1", "3")),
        {"a": "2", "b": "3", "c": "1"},
    ),
    Case(
        "fix-of-an-update",
        "one whose new pods do not start takes a fix first, although it is Ready",
        (at("a", "2", "3", "2"), stuck(at("b", "2", "3", "2")), at("c", "1", "3")),
        {"a": "2", "b": "3", "c": "1"},
    ),
    Case(
        "updating",
        "a service whose new pods have not all started keeps the next one waiting",
        (stuck(at("a", "2", "2", "2")), at("b", "1", "2")),
        {"a": "2", "b": "1"},
    ),
    Case("paused", "nothing changes", (at("a", "1", "2"),), {"a": "1"}, Rollout(paused=True)),
    Case(
        "new",
        "what never had a service takes no part",
        (at("a", "", "2", None, ready=False), at("b", "1", "2")),
        {"a": "", "b": "2"},
    ),
    Case("unreported", "nothing is allowed before digests are reported", (at("a", "", "", None),), {"a": ""}),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_one_may_change_while_all_others_are_ready(case: Case) -> None:
    assigned = assign_turns(case.rollout, case.placements)
    assert {p.environment: p.allowed_digest for p in assigned} == case.want, case.reason


@pytest.mark.parametrize(("allowed", "want"), [("2", "1"), ("1", "2")], ids=["changes", "has no turn"])
def test_one_that_leaves_keeps_others_waiting_only_while_it_changes(allowed: str, want: str) -> None:
    """As on a drained environment until another one is Ready; it gets no turn there."""
    leaving = at("a", "1", "2", allowed, ready=False)
    (assigned,) = assign_turns(Rollout(), [at("b", "1", "2")], [leaving])
    assert assigned.allowed_digest == want


def test_without_a_rollout_any_digest_is_allowed() -> None:
    assert [p.allowed_digest for p in assign_turns(None, [at("a", "1", "2")])] == [None]


GATED = Rollout(gate=Gate(api_version="batch/v1", kind="Job", name="smoke", condition="Complete"))


@dataclass(frozen=True)
class GateCase:
    id: str
    reason: str
    placements: tuple[Placement, ...]
    asks: bool
    rollout: Rollout = GATED


GATE_CASES = (
    GateCase(
        "first", "the test needs one environment with the change", (at("a", "1", "2"), at("b", "1", "2")), asks=False
    ),
    GateCase("next", "the first has changed", (at("a", "2", "2", "2"), at("b", "1", "2")), asks=True),
    GateCase("no-gate", "nothing is named", (at("a", "2", "2", "2"), at("b", "1", "2")), asks=False, rollout=Rollout()),
    GateCase("done", "nothing is left", (at("a", "2", "2", "2"), at("b", "2", "2", "2")), asks=False),
    GateCase(
        "paused",
        "nothing changes in any case",
        (at("a", "2", "2", "2"), at("b", "1", "2")),
        asks=False,
        rollout=replace(GATED, paused=True),
    ),
    GateCase(
        "not-ready",
        "a fix is for what does not serve",
        (at("a", "2", "2", "2"), at("b", "1", "2", ready=False)),
        asks=False,
    ),
    GateCase(
        "rollback",
        "what a test refused may go back although the gate is closed",
        (at("a", "2", "1", "2"), at("b", "1", "1"), at("c", "1", "1")),
        asks=False,
    ),
    GateCase(
        "order",
        "the order of the deployment counts, not names",
        (at("a", "1", "2"), at("b", "2", "2", "2")),
        asks=True,
        rollout=replace(GATED, order=("b", "a")),
    ),
    GateCase(
        "newcomer",
        "a placement that started with the new spec shows nothing about a change",
        (at("a", "2", "2", "2"), at("b", "1", "2"), at("c", "2", "2", "")),
        asks=True,
    ),
)


@pytest.mark.parametrize("case", GATE_CASES, ids=lambda case: case.id)
def test_gate_is_asked_before_a_change_goes_further(case: GateCase) -> None:
    assert needs_gate(case.rollout, case.placements) is case.asks, case.reason


def test_nothing_changes_while_the_gate_is_closed() -> None:
    placements = (at("a", "2", "2", "2"), at("b", "1", "2"))
    assert [p.allowed_digest for p in assign_turns(GATED, placements, gate_is_closed=True)] == ["2", "1"]
