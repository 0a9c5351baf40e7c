"""Who is woken by what: by name exactly, by label in one namespace or in all."""

from dataclasses import dataclass

import pytest

from bench.simulator.objects import Selector, Version
from bench.simulator.tracker import Tracker
from function.cli.store import Ref

XR = Ref("Parent", "team", "xr")


def _version(name: str, namespace: str, **labels: str) -> Version:
    ref = Ref("Thing", namespace, name)
    return Version(ref, {"kind": "Thing", "metadata": {"labels": {**labels}}}, 1)


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    reason: str
    asked: Selector
    changed: Version
    woken: bool


CASES = (
    Case(
        id="name",
        reason="the one that was asked for",
        asked=Selector("Thing", "team", "a"),
        changed=_version("a", "team"),
        woken=True,
    ),
    Case(
        id="name-of-another-namespace",
        reason="a name is one namespace's",
        asked=Selector("Thing", "team", "a"),
        changed=_version("a", "other"),
        woken=False,
    ),
    Case(
        id="name-without-namespace",
        reason="an empty namespace is no wildcard for a name",
        asked=Selector("Thing", "", "a"),
        changed=_version("a", "team"),
        woken=False,
    ),
    Case(
        id="all-of-a-kind",
        reason="no labels are carried by all",
        asked=Selector("Thing"),
        changed=_version("a", "team"),
        woken=True,
    ),
    Case(
        id="label-in-all-namespaces",
        reason="an empty namespace is every one for labels",
        asked=Selector("Thing", labels=(("env", "one"),)),
        changed=_version("a", "team", env="one"),
        woken=True,
    ),
    Case(
        id="another-value",
        reason="the label does not match",
        asked=Selector("Thing", labels=(("env", "one"),)),
        changed=_version("a", "team", env="two"),
        woken=False,
    ),
    Case(
        id="label-of-another-namespace",
        reason="the selector names another namespace",
        asked=Selector("Thing", "other", labels=(("env", "one"),)),
        changed=_version("a", "team", env="one"),
        woken=False,
    ),
    Case(
        id="another-kind", reason="kinds are apart", asked=Selector("Other"), changed=_version("a", "team"), woken=False
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_dependants(case: Case) -> None:
    tracker = Tracker()
    tracker.track(XR, (), {"asked": case.asked})
    assert tracker.dependants(case.changed) == ([XR] if case.woken else []), case.reason
    tracker.forget(XR)
    assert tracker.dependants(case.changed) == [], "a forgotten composite is not woken"


def test_what_is_composed_wakes_until_something_else_is() -> None:
    tracker, changed = Tracker(), _version("a", "team")
    tracker.track(XR, [changed.ref], {})
    assert tracker.dependants(changed) == [XR]
    tracker.track(XR, [], {"model": Selector("Model", "", "m")})
    assert (tracker.dependants(changed), set(tracker.required(XR))) == ([], {"model"})


def test_quiet_spares_those_alone_who_ask_for_everything() -> None:
    tracker, changed = Tracker(), _version("a", "team", env="one")
    everyone, labelled = Ref("Parent", "team", "everyone"), Ref("Parent", "team", "labelled")
    tracker.track(everyone, (), {"things": Selector("Thing")})
    tracker.track(labelled, (), {"things": Selector("Thing", labels=(("env", "one"),))})
    assert tracker.dependants(changed) == [everyone, labelled]
    assert tracker.dependants(changed, quiet=True) == [labelled]
