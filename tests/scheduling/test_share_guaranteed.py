"""The guaranteed replicas of a deployment that divides its replicas, shared among its placements."""

from dataclasses import replace

from function.domain.placement import Deployment, Placement
from function.scheduling.guarantee import share_guaranteed
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import SchedulingRequest
from tests.support.builders import deployment, environment, model, placement, planner, pool, profile, shape

MODEL = model(profile(shape=shape()))
DIVIDED: Deployment = replace(deployment(replicas=4, environments=2), divides_replicas=True)
REQUEST = SchedulingRequest(deployment=DIVIDED, model=MODEL, storage_request=planner(MODEL))
FLEET = [environment(name, pool(nodes=2)) for name in ("east", "west")]


def test_running_replicas_are_guaranteed_first() -> None:
    """Two replicas are guaranteed. A part that waits is not worth more than one that serves, whoever had it before."""
    two = replace(DIVIDED, fixed_guaranteed=2)

    def share(west: Placement, east: Placement) -> dict[str, int | None]:
        assignments = schedule(REQUEST, FLEET, [west, east]).assignments
        shared = share_guaranteed(replace(REQUEST, deployment=two), assignments, [west, east])
        return {each.environment: each.guaranteed for each in shared}

    waits = replace(placement("west", replicas=2), guaranteed=2)
    serves = replace(placement("east", replicas=2), ready=True, guaranteed=0)
    assert share(waits, serves) == {"west": 0, "east": 2}
    both = replace(waits, ready=True, guaranteed=1)
    assert share(both, replace(serves, guaranteed=1)) == {"west": 0, "east": 2}
    assert share(both, serves) == {"west": 2, "east": 0}
    assert share(waits, replace(serves, ready=False)) == {"west": 2, "east": 0}
    assert share_guaranteed(REQUEST, (), [waits]) == [waits]
