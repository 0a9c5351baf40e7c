"""Draining placements serve again if they can and no other placement of their ModelService can."""

from dataclasses import replace

import pytest

from tests.support.builders import with_service
from tests.support.traffic_scene import SETTLE, at_rest, backends, listed, serving

STABLE = (serving("stable", "e1", 2), serving("stable", "e2", 1))


def test_draining_placement_returns_when_nothing_else_can_serve() -> None:
    """The draining placement still exists, because another ModelService lists it."""
    plane = at_rest(backends(stable=1), *STABLE)
    plane.replace(replace(STABLE[0], draining=True))
    plane.settle()
    assert (plane.route(), listed(plane)) == ({"10.0.0.2": 1}, {"stable-e2"})
    plane.replace(with_service(STABLE[1], ready_replicas=0))
    for _ in range(SETTLE + 3):  # the delay of every new endpoint
        plane.step()
        assert "stable-e1" in listed(plane), (
            "a placement is listed before it gets requests, because its deployment keeps listed placements"
        )
        assert plane.route() == {}
    plane.settle()
    assert (plane.route(), listed(plane)) == ({"10.0.0.1": 1}, {"stable-e1", "stable-e2"})

    plane.replace(STABLE[1])
    for _ in range(2 * SETTLE):
        plane.step()
        assert plane.route(), "one of the two placements always serves"
    plane.settle()
    assert (plane.route(), listed(plane)) == ({"10.0.0.2": 1}, {"stable-e2"})


def test_draining_placement_does_not_return_while_another_deployment_serves() -> None:
    """The deployment may be deleting the placement already, and requests to it would fail."""
    plane = at_rest(backends(stable=9, canary=1), STABLE[0], serving("canary", "e2", 1))
    plane.replace(replace(with_service(STABLE[0], ready_replicas=0), draining=True))
    plane.settle()
    plane.replace(replace(STABLE[0], draining=True))
    plane.settle()
    assert (plane.route(), listed(plane)) == ({"10.0.0.2": 1}, {"canary-e2"})


def test_draining_placement_that_cannot_serve_is_not_listed_when_nothing_serves() -> None:
    """The deployment keeps listed placements, so that a placement scaled down after an outage would keep its GPUs."""
    plane = at_rest(backends(stable=1), *STABLE)
    plane.replace(replace(with_service(STABLE[0], ready_replicas=0), draining=True))
    plane.replace(with_service(STABLE[1], ready_replicas=0))
    plane.settle()
    assert (plane.route(), listed(plane)) == ({}, {"stable-e2"})


def test_draining_placement_of_a_deployment_without_weight_does_not_return() -> None:
    plane = at_rest(backends(stable=0, canary=1), *STABLE, serving("canary", "e3", 1))
    plane.replace(replace(STABLE[0], draining=True))
    plane.settle()
    plane.replace(serving("canary", "e3", 0))
    plane.settle()
    assert (plane.route(), listed(plane)) == ({}, {"stable-e2", "canary-e3"})


def test_draining_placement_does_not_return_while_it_is_deleted() -> None:
    plane = at_rest(backends(stable=1), *STABLE)
    plane.replace(replace(STABLE[0], draining=True))
    plane.settle()
    plane.placements = [replace(STABLE[0], draining=True, deleting=True), with_service(STABLE[1], ready_replicas=0)]
    plane.settle()
    assert plane.route() == {}


@pytest.mark.parametrize(("policy", "expected"), [("Withdraw", {"10.0.0.1": 1}), ("Keep", {"10.0.0.2": 1})])
def test_draining_placement_returns_when_the_other_cluster_does_not_answer(
    policy: str, expected: dict[str, int]
) -> None:
    plane = at_rest({**backends(stable=1), "onUnreachable": policy}, *STABLE)
    plane.replace(replace(STABLE[0], draining=True))
    plane.settle()
    plane.replace(replace(STABLE[1], unreachable=True))
    plane.settle()
    assert plane.route() == expected
