"""A deployment that divides its replicas goes to zero: one placement stays, and always the same."""

from dataclasses import replace

import pytest

from function.domain.placement import Deployment
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import SchedulingRequest
from tests.support.builders import (
    deployment,
    environment,
    model,
    placement,
    planner,
    pool,
    profile,
    shape,
    with_service,
)

MODEL = model(profile(shape=shape()))
DIVIDED: Deployment = replace(deployment(replicas=0, environments=2), divides_replicas=True)
REQUEST = SchedulingRequest(deployment=DIVIDED, model=MODEL, storage_request=planner(MODEL))
FLEET = [environment(name, pool(nodes=2)) for name in ("east", "west")]


@pytest.mark.parametrize("running", [("east", "west"), ("east",), ("west",), ()])
def test_the_most_preferred_placement_stays_whoever_has_stopped_first(running: tuple[str, ...]) -> None:
    own = [
        with_service(replace(placement(name, replicas=1, has_served=True), ready=name in running), ready_replicas=1)
        for name in ("east", "west")
    ]
    assert [(a.environment, a.replicas) for a in schedule(REQUEST, FLEET, own).assignments] == [("east", 0)]
