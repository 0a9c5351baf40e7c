"""A placement is deleted once no ModelService of its namespace sends requests to it."""

from dataclasses import replace

import pytest

from function.domain.model_service import ServiceView
from function.domain.placement import Placement
from function.domain.records.weights import WeightsRecord
from function.scheduling.scheduler import delay_deletion_while_serving, drains_first
from function.scheduling.verdicts import Decision, Removal, RemovalCause
from tests.support.builders import placement

READY = placement("e1", ready=True)
SERVICE = ServiceView(name="chat", deployments=frozenset(["chat"]), placements=frozenset([READY.name]))


def _drop(*placements: Placement) -> Decision:
    return Decision(dropped=tuple(Removal(placement=p, cause=RemovalCause.REPLACED) for p in placements))


def test_placement_waits_while_services_are_not_known() -> None:
    held = delay_deletion_while_serving(_drop(READY), None)
    assert held == Decision(draining=_drop(READY).dropped)


def test_placement_is_deleted_at_once_without_services() -> None:
    decision = _drop(READY)
    assert drains_first(decision)
    assert delay_deletion_while_serving(decision, []) == decision
    assert (
        delay_deletion_while_serving(
            decision, [ServiceView(name="x", deployments=frozenset("y"), placements=frozenset())]
        )
        == decision
    )


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
