"""What `tests/e2e/rest.py` takes for rest: Objects of an earlier scenario may be deleted meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest

from function.kube.manifests import Manifest
from tests.e2e import rest
from tests.e2e.world import World

STAYS: Manifest = {"metadata": {"name": "serves", "resourceVersion": "1"}}
LEAVES: Manifest = {"metadata": {"name": "earlier", "resourceVersion": "2", "deletionTimestamp": "2026-11-24T01:03Z"}}
WRITTEN: Manifest = {"metadata": {"name": "serves", "resourceVersion": "3"}}


@dataclass
class Cluster:
    """Answers each question for Objects with the next of its lists, and with the last from then on."""

    lists: Iterator[list[Manifest]]
    last: list[Manifest]

    def find(self, kind: str) -> list[Manifest]:
        return next(self.lists, self.last) if kind == "Object" else []


@dataclass
class Stack:
    hub: Cluster
    remote: Cluster


@dataclass
class Played:
    stack: Stack


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "QUIET_SECONDS", 0)


def _world(*lists: list[Manifest]) -> World:
    return cast("World", Played(Stack(Cluster(iter(lists), lists[-1]), Cluster(iter([]), []))))


def test_what_is_on_its_way_out_is_waited_for() -> None:
    world = _world(*[[STAYS, LEAVES]] * 3, [STAYS])
    assert rest.require_rest(world, 0, lambda: 40) == 0


def test_a_write_after_that_is_one() -> None:
    world = _world(*[[STAYS]] * 4, [WRITTEN])
    with pytest.raises(AssertionError, match="Object /serves"):
        rest.require_rest(world, 0, lambda: 40)
