"""Which placement of a roll-out may change next."""

from dataclasses import dataclass, replace

import pytest

from function.domain.placement import Placement, Rollout
from function.scheduling.turns import assign_turns
from tests.support.builders import placement


def at(name: str, served: str, requested: str, allowed: str | None = "1", *, ready: bool = True) -> Placement:
    """Return a placement on an environment with these digests."""
    base = placement(name, ready=ready)
    return replace(base, served_digest=served, requested_digest=requested, allowed_digest=allowed)


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
    Case("next", "the first is done", (at("a", "2", "2", "2"), at("b", "1", "2")), {"a": "2", "b": "2"}),
    Case(
        "fix",
        "one that does not serve takes a fix first",
        (at("a", "2", "3", "2"), at("b", "2", "3", "2", ready=False), at("c", "1", "3")),
        {"a": "2", "b": "3", "c": "1"},
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


def test_without_a_rollout_any_digest_is_allowed() -> None:
    assert [p.allowed_digest for p in assign_turns(None, [at("a", "1", "2")])] == [None]
