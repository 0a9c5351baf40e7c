"""A placement that served is deleted once it is marked and no ModelService of its namespace sends it requests."""

from dataclasses import replace

import pytest

from function.domain.model_service import ServiceView
from function.domain.placement import Placement
from function.domain.records.weights import WeightsRecord
from function.scheduling.scheduler import delay_deletion_while_serving, drains_first, schedule
from function.scheduling.verdicts import Decision, Removal, RemovalCause, SchedulingRequest
from tests.support.builders import deployment, environment, model, placement, planner, pool, profile, shape

READY = placement("e1", ready=True)
SERVICE = ServiceView(name="chat", deployments=frozenset(["chat"]), placements=frozenset([READY.name]))


def _drop(*placements: Placement) -> Decision:
    return Decision(dropped=tuple(Removal(placement=p, cause=RemovalCause.REPLACED) for p in placements))


def test_placement_waits_while_services_are_not_known() -> None:
    held = delay_deletion_while_serving(_drop(READY), None)
    assert held == Decision(draining=_drop(READY).dropped)


OTHER = ServiceView(name="x", deployments=frozenset("y"), placements=frozenset())


@pytest.mark.parametrize("services", [[], [OTHER]], ids=["none", "of-another"])
def test_placement_without_services_is_deleted_once_it_is_marked(services: list[ServiceView]) -> None:
    """A list that is late then shows the mark, and no later decision takes the placement for one that serves."""
    assert drains_first(_drop(READY))
    assert delay_deletion_while_serving(_drop(READY), services) == Decision(draining=_drop(READY).dropped)
    marked = _drop(replace(READY, draining=True))
    assert delay_deletion_while_serving(marked, services) == marked


@pytest.mark.parametrize(
    ("draining", "listed", "held"),
    [(False, True, True), (False, False, True), (True, True, True), (True, False, False)],
)
def test_placement_is_deleted_once_it_drains_and_is_not_listed(draining: bool, listed: bool, held: bool) -> None:
    service = SERVICE if listed else replace(SERVICE, placements=frozenset())
    dropped = replace(READY, draining=draining)
    decision = delay_deletion_while_serving(_drop(dropped), [service])
    assert [d.placement for d in decision.dropped] == ([] if held else [dropped])
    assert [d.held_by for d in decision.draining] == ([("chat",)] if held else [])


def test_service_that_left_the_deployment_out_still_holds_what_it_lists() -> None:
    left = replace(SERVICE, deployments=frozenset())
    assert delay_deletion_while_serving(_drop(replace(READY, draining=True)), [left]).draining


def test_placement_that_has_lost_its_status_drains_first() -> None:
    """Its Objects exist, so it may serve. Only the lost status reported that it was Ready."""
    lost = replace(placement("e1"), lists_objects=True)
    assert drains_first(_drop(lost))
    assert delay_deletion_while_serving(_drop(lost), [SERVICE]).draining


STARTING = replace(placement("e1"), lists_objects=True, weights=WeightsRecord(planned_uri="hf://example/chat"))


@pytest.mark.parametrize(
    "dropped", [placement("e1"), STARTING, replace(READY, deleting=True)], ids=["nothing", "starting", "deleting"]
)
def test_placement_that_gets_no_requests_is_deleted_at_once(dropped: Placement) -> None:
    assert not drains_first(_drop(dropped))
    assert delay_deletion_while_serving(_drop(dropped), None) == _drop(dropped)


@pytest.mark.parametrize("divides", [False, True], ids=["each", "divided"])
def test_marked_placement_does_not_replace_one_that_must_leave(divides: bool) -> None:
    """Histories, seed 401253: the marked placement was deleted a moment ago, and the list is late."""
    wanted = replace(deployment(), divides_replicas=divides)
    fits = model(profile(shape=shape()))
    request = SchedulingRequest(deployment=wanted, model=fits, storage_request=planner(fits))
    staying, leaving = placement("a", ready=True), placement("gone", ready=True)
    sites = [environment("a", pool())]
    marked = schedule(request, sites, [replace(staying, draining=True), leaving])
    assert ([p.environment for p in marked.carried], marked.dropped) == (["gone"], ())
    assert [d.placement for d in schedule(request, sites, [staying, leaving]).dropped] == [leaving]
