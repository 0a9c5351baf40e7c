"""Scheduling decisions to explain: Kimi K2 on two nodes in production, a small model, and their environments."""

from typing import NamedTuple

from function.domain.cache import ModelCache, StorageChoice
from function.domain.environment import Environment
from function.domain.model import Model
from function.domain.placement import Placement
from function.reasons import Refused, Status
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import SchedulingRequest
from function.scheduling.ways_out import Snapshot, find_ways_out
from function.status.model_deployment import build_scheduled, list_unplaced
from tests.support.builders import (
    NO_CACHE,
    deployment,
    environment,
    model,
    placement,
    planner,
    pool,
    profile,
    requires,
    selector,
    shape,
)

KIMI = model(
    profile(
        "multinode",
        shape(2),
        requires=requires(
            memory="141Gi", interconnect="nvlink", bandwidth="ib-400g-or-better", precision=("fp8",), nvlink_domain=8
        ),
    ),
    name="kimi-k2-instruct",
    selector=selector(tier="production"),
)
SMALL = model(profile("small", shape(1, 1)), name="gemma")
PRODUCTION = {"tier": "production"}
FRONTIER = pool("frontier", memory="141Gi")
MINE = placement("a", "frontier", profile="multinode", shape=shape(2))


def site(name: str, *pools: object, **fields: object) -> Environment:
    """Return an environment in production."""
    return environment(name, *pools, **{"labels": PRODUCTION, **fields})  # type: ignore[arg-type]  # its keywords


def request(
    environments: int = 1,
    replicas: int = 1,
    choice: StorageChoice = NO_CACHE,
    of: Model = KIMI,
    cache: ModelCache | None = None,
) -> SchedulingRequest:
    """Return the requirements of Kimi K2 or of another model."""
    wanted = deployment(environments=environments, replicas=replicas)
    return SchedulingRequest(deployment=wanted, model=of, storage_request=planner(of, choice, cache=cache))


class Unplaced(NamedTuple):
    """A row of `status.unplaced`."""

    environment: str
    reason: Refused
    message: str


class Explained(NamedTuple):
    """The condition Scheduled and `status.unplaced` of a decision."""

    status: Status
    reason: str
    message: str
    unplaced: tuple[Unplaced, ...]


def explained(
    wanted: SchedulingRequest, environments: tuple[Environment, ...], placements: tuple[Placement, ...] = ()
) -> Explained:
    """Return the message of the decision."""
    decision = schedule(wanted, environments, placements)
    own = [p for p in placements if p.deployment == wanted.deployment.name]
    world = Snapshot(
        request=wanted,
        environments={e.name: e for e in environments},
        own=own,
        others={e.name: [p for p in placements if p.environment == e.name and p not in own] for e in environments},
    )
    scheduled = build_scheduled(wanted, decision, find_ways_out(world, decision))
    rows = tuple(Unplaced(**row) for row in list_unplaced(decision))  # type: ignore[arg-type]  # its fields
    return Explained(scheduled.status, scheduled.reason, scheduled.message, rows)
