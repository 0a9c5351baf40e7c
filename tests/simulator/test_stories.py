"""What the tables are made of: a fleet at rest, and one change of it."""

from collections.abc import Iterator

import pytest
import structlog

from bench.simulator import stories
from bench.simulator.settings import Settings


@pytest.fixture(autouse=True)
def _no_logs() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


def test_what_is_measured_is_the_change_alone() -> None:
    more, status = stories.one_more(Settings(), 2, 2)
    assert (more.notes, more.meter.made["ModelPlacement"]) == (("3/3 Ready",), 1)
    assert (status.notes, status.meter.made.total()) == (("2/3 Ready",), 0)
    assert more.meter.calls.total() > status.meter.calls.total() > 0
    assert set(more.meter.called) >= set(status.meter.called), (
        "every composite that a status wakes, a new placement wakes too"
    )


def test_with_a_quota_a_status_wakes_no_other_placement_of_the_namespace() -> None:
    more, status = stories.one_more(Settings(), 4, 4, quota=True)
    assert more.notes == ("5/5 Ready",)
    for kind in ("ModelPlacement", "ModelDeployment"):
        assert len([xr for xr in status.meter.called if xr.kind == kind]) == 1


def test_a_herd_comes_to_rest_in_its_slots() -> None:
    (row,) = stories.herd(Settings(), 3, 3)
    assert row.notes[0] == "3/3 Ready"


def test_one_of_those_who_wait_gets_the_slot() -> None:
    (row,) = stories.waiters(Settings(), 3)
    assert row.notes[0] == "1/3 Ready"
    assert row.notes[2] == "1 left"


def test_who_comes_and_who_leaves() -> None:
    comes, leaves = stories.resident(Settings(), 2)
    assert (comes.notes[0], leaves.notes[0]) == ("3/3 Ready", "2/2 Ready")
    assert comes.meter.made["ModelPlacement"] == 1
