"""The placement that may change next in a rollout."""

from dataclasses import dataclass, replace

import pytest

from function.domain.placement import Gate, Placement, Rollout
from function.domain.records.rollout import PendingUpdate, RolloutRecord
from function.scheduling.turns import assign_turns, needs_gate, sort_turns
from tests.support.builders import placement

STUCK = PendingUpdate("1 of 2 pods")


MODEL_GENERATION = 2


def at(
    name: str,
    served: str,
    requested: str,
    allowed: str | None = "1",
    *,
    ready: bool = True,
    model: int = MODEL_GENERATION,
) -> Placement:
    """Returns a placement on an environment with these digests, which has read this generation of the model."""
    record = RolloutRecord(served_digest=served, requested_digest=requested, model_generation=model)
    return replace(placement(name, ready=ready), allowed_digest=allowed, rollout=record)


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
    Case(
        "up-to-date",
        "all placements have their requested digest",
        (at("a", "1", "1"), at("b", "1", "1")),
        {"a": "1", "b": "1"},
    ),
    Case(
        "first",
        "the first placement by name changes first",
        (at("b", "1", "2"), at("a", "1", "2")),
        {"a": "2", "b": "1"},
    ),
    Case(
        "order",
        "the order of the deployment takes precedence over names",
        (at("a", "1", "2"), at("b", "1", "2"), at("c", "1", "2")),
        {"a": "1", "b": "1", "c": "2"},
        Rollout(order=("c", "elsewhere")),
    ),
    Case(
        "changing",
        "the next placement waits until the service of this one has its new digest",
        (at("a", "1", "2", "2"), at("b", "1", "2")),
        {"a": "2", "b": "1"},
    ),
    Case(
        "not-ready",
        "the next placement waits until this one is Ready with its new digest",
        (at("a", "2", "2", "2", ready=False), at("b", "1", "2")),
        {"a": "2", "b": "1"},
    ),
    Case(
        "says-nothing",
        "a service that had its turn and reports no digest may still be changing",
        (at("a", "", "2", "2"), at("b", "1", "2"), at("c", "1", "2")),
        {"a": "2", "b": "1", "c": "1"},
    ),
    Case(
        "lost-status",
        "a service whose status is lost may still be changing",
        (at("a", "", "", "2", ready=False), at("b", "1", "2")),
        {"a": "2", "b": "1"},
    ),
    Case(
        "never-started",
        "a placement that never had a service has no turn",
        (at("a", "", "", "", ready=False), at("b", "1", "2")),
        {"a": "", "b": "2"},
    ),
    Case(
        "next",
        "the first placement has changed, so the second one may change",
        (at("a", "2", "2", "2"), at("b", "1", "2")),
        {"a": "2", "b": "2"},
    ),
    Case(
        "fix",
        "a placement that is not Ready gets the fix first",
        (at("a", "2", "3", "2"), at("b", "2", "3", "2", ready=False), at("c", "1", "3")),
        {"a": "2", "b": "3", "c": "1"},
    ),
    Case(
        "fix-of-an-update",
        "a placement whose new pods do not start gets the fix first, although it is Ready",
        (at("a", "2", "3", "2"), stuck(at("b", "2", "3", "2")), at("c", "1", "3")),
        {"a": "2", "b": "3", "c": "1"},
    ),
    Case(
        "updating",
        "the next placement waits until all new pods of this service have started",
        (stuck(at("a", "2", "2", "2")), at("b", "1", "2")),
        {"a": "2", "b": "1"},
    ),
    Case(
        "outdated-model",
        "the last placement is the first to report what it requests of a changed model",
        (at("a", "1", "1", model=1), at("b", "1", "2", model=2)),
        {"a": "1", "b": "1"},
    ),
    Case(
        "outdated-spec",
        "the last placement is the first to report what it requests after a change of the deployment",
        (replace(at("a", "1", "1"), status_is_current=False), at("b", "1", "2")),
        {"a": "1", "b": "1"},
    ),
    Case("paused", "a paused rollout changes no placement", (at("a", "1", "2"),), {"a": "1"}, Rollout(paused=True)),
    Case(
        "new",
        "a placement that never had a service takes no part in the rollout",
        (at("a", "", "2", None, ready=False), at("b", "1", "2")),
        {"a": "", "b": "2"},
    ),
    Case("unreported", "no digest is allowed before digests are reported", (at("a", "", "", None),), {"a": ""}),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_one_may_change_while_all_others_are_ready(case: Case) -> None:
    assigned = assign_turns(case.rollout, case.placements, model_generation=MODEL_GENERATION)
    assert {p.environment: p.allowed_digest for p in assigned} == case.want, case.reason


@pytest.mark.parametrize(("allowed", "want"), [("2", "1"), ("1", "2")], ids=["changes", "has no turn"])
def test_one_that_leaves_keeps_others_waiting_only_while_it_changes(allowed: str, want: str) -> None:
    """For example, a placement on a drained environment gets no turn, and stays until its replacement is Ready."""
    leaving = at("a", "1", "2", allowed, ready=False)
    (assigned,) = assign_turns(Rollout(), [at("b", "1", "2")], [leaving])
    assert assigned.allowed_digest == want


def test_change_of_replicas_keeps_an_up_to_date_rollout_up_to_date() -> None:
    """An autoscaler changes the spec of placements often, and nothing waits for that."""
    scaled = replace(at("a", "1", "1"), status_is_current=False)
    turns = sort_turns(Rollout(), [scaled, at("b", "1", "1")], model_generation=MODEL_GENERATION)
    assert (len(turns.changed), turns.total, turns.outdated) == (2, 2, ())


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
        "first", "the gate needs one environment with the change", (at("a", "1", "2"), at("b", "1", "2")), asks=False
    ),
    GateCase(
        "next",
        "the first placement has changed, so the gate decides about the second one",
        (at("a", "2", "2", "2"), at("b", "1", "2")),
        asks=True,
    ),
    GateCase(
        "no-gate",
        "the rollout names no gate",
        (at("a", "2", "2", "2"), at("b", "1", "2")),
        asks=False,
        rollout=Rollout(),
    ),
    GateCase("done", "all placements have changed", (at("a", "2", "2", "2"), at("b", "2", "2", "2")), asks=False),
    GateCase(
        "paused",
        "a paused rollout changes no placement, so it needs no gate",
        (at("a", "2", "2", "2"), at("b", "1", "2")),
        asks=False,
        rollout=replace(GATED, paused=True),
    ),
    GateCase(
        "not-ready",
        "a placement that is not Ready gets a fix without the gate",
        (at("a", "2", "2", "2"), at("b", "1", "2", ready=False)),
        asks=False,
    ),
    GateCase(
        "rollback",
        "a rejected change may be rolled back while the gate is closed",
        (at("a", "2", "1", "2"), at("b", "1", "1"), at("c", "1", "1")),
        asks=False,
    ),
    GateCase(
        "order",
        "the order of the deployment takes precedence over names",
        (at("a", "1", "2"), at("b", "2", "2", "2")),
        asks=True,
        rollout=replace(GATED, order=("b", "a")),
    ),
    GateCase(
        "newcomer",
        "a placement that started with the new spec does not count as changed",
        (at("a", "2", "2", "2"), at("b", "1", "2"), at("c", "2", "2", "")),
        asks=True,
    ),
)


@pytest.mark.parametrize("case", GATE_CASES, ids=lambda case: case.id)
def test_gate_is_asked_before_a_change_goes_further(case: GateCase) -> None:
    assert needs_gate(case.rollout, case.placements, model_generation=MODEL_GENERATION) is case.asks, case.reason


def test_nothing_changes_while_the_gate_is_closed() -> None:
    placements = (at("a", "2", "2", "2"), at("b", "1", "2"))
    assert [p.allowed_digest for p in assign_turns(GATED, placements, gate_is_closed=True)] == ["2", "1"]
