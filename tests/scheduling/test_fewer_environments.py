"""Divided replicas while `spec.environments` is lowered or a service grows: what serves, serves on."""

from dataclasses import replace

import pytest

from tests.scheduling.test_division import Case, check, fleet, partly, running, starting

CASES = (
    Case(
        id="fewer-environments",
        reason="only one environment may be used; the replicas on b serve until as many more serve on a",
        replicas=4,
        fleet=fleet(a=4, b=4),
        own=[running("a", 2), running("b", 2)],
        environments=1,
        want={"a": 4},
        carried=("b",),
    ),
    Case(
        id="fewer-environments-in-progress",
        reason="KServe reports a service as not Ready while it grows; the choice stays, although b was there first",
        replicas=4,
        fleet=fleet(a=4, b=4),
        own=[running("a", 2), replace(partly("b", 4, 2), ready=False)],
        environments=1,
        want={"b": 4},
        carried=("a",),
    ),
    Case(
        id="fewer-environments-done",
        reason="all four replicas serve on a",
        replicas=4,
        fleet=fleet(a=4, b=4),
        own=[running("a", 4), running("b", 2)],
        environments=1,
        want={"a": 4},
        dropped=("b",),
    ),
    Case(
        id="fewer-environments-without-room",
        reason="a has room for two of four replicas, which serve: nothing more will come, and b must leave",
        replicas=4,
        fleet=fleet(a=2, b=2),
        own=[running("a", 2), running("b", 2)],
        environments=1,
        want={"a": 2},
        missing=2,
        dropped=("b",),
    ),
    Case(
        id="fewer-environments-that-start",
        reason="what never served serves nobody",
        replicas=4,
        fleet=fleet(a=4, b=4),
        own=[running("a", 2), starting("b", 2)],
        environments=1,
        want={"a": 4},
        dropped=("b",),
    ),
    Case(
        id="keeps-the-replicas-that-run-while-others-start",
        reason="KServe reports the service of a as not Ready, because two of three replicas start: the third serves",
        replicas=3,
        fleet=fleet(a=4, b=4),
        own=[replace(partly("a", 3, 1), ready=False), partly("b", 3, 2)],
        want={"a": 1, "b": 2},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_replicas_serve_until_others_replace_them(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("ready", "unreachable", "ready_replicas", "want"),
    [
        (True, False, 0, 4),  # KServe reports no number
        (True, False, 3, 3),
        (True, False, 5, 4),  # it shrinks
        (False, False, 2, 2),  # it grows
        (False, False, 0, 0),
        (False, True, 2, 0),
    ],
)
def test_running_replicas_are_those_that_serve(
    *, ready: bool, unreachable: bool, ready_replicas: int, want: int
) -> None:
    made = running("a", 4, ready=ready)
    service = replace(made.service, ready_replicas=ready_replicas)
    assert replace(made, service=service, unreachable=unreachable).running_replicas == want
