"""The refusal of the nearest environment is the reason of the condition Scheduled (docs/reference.md)."""

from dataclasses import dataclass, replace

import pytest

from function.domain.allocation import Limits, QuotaUsage
from function.domain.environment import Environment
from function.kube.manifests import get, text
from function.reasons import Refused
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import SchedulingRequest
from function.status.model_deployment import build_scheduled, list_unplaced
from tests.support.builders import deployment, environment, model, placement, pool, profile, selector, shape

BIG, SMALL = shape(gpus=8), shape(gpus=2)
MODEL = model(
    profile("big", BIG, selector=selector(size="big")), profile("small", SMALL, selector=selector(size="small"))
)


def place(name: str, size: str, *, ready: bool = True) -> Environment:
    """Returns an environment with one node, on which one of the two profiles fits."""
    return environment(name, pool(gpus=8 if size == "big" else 2, nodes=1), labels={"size": size}, ready=ready)


@dataclass(frozen=True, kw_only=True)
class Case:
    """The namespace uses `taken` GPUs of `limit`, and `want` is the nearest environment; `full` names the full ones."""

    id: str
    reason: str
    environments: tuple[Environment, ...]
    full: str = ""
    taken: int
    limit: int
    want: tuple[str, Refused]


CASES = (
    Case(
        id="quota-and-capacity",
        reason="the environment has room and is Ready, so only the quota refuses the placement",
        environments=(place("a", "small"), place("b", "big")),
        full="a",
        taken=8,
        limit=15,
        want=("b", Refused.QUOTA_EXCEEDED),
    ),
    Case(
        id="quota-and-readiness",
        reason="the quota is checked last, so the environment that only exceeds the quota is nearest",
        environments=(place("a", "small", ready=False), place("b", "big")),
        taken=8,
        limit=15,
        want=("b", Refused.QUOTA_EXCEEDED),
    ),
    Case(
        id="quota-too-small-and-capacity",
        reason="8 GPUs of at most 7 are never allowed, while 2 GPUs fit as soon as others leave",
        environments=(place("a", "small"), place("b", "big")),
        full="a",
        taken=0,
        limit=7,
        want=("a", Refused.INSUFFICIENT_CAPACITY),
    ),
    Case(
        id="quota-too-small-and-readiness",
        reason="8 GPUs of at most 7 are never allowed, while the environment may become Ready",
        environments=(place("a", "small", ready=False), place("b", "big")),
        taken=0,
        limit=7,
        want=("a", Refused.ENVIRONMENT_NOT_READY),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_reports_the_environment_that_needs_the_fewest_changes(case: Case) -> None:
    others = [
        placement(name, deployment="other", namespace="other", shape=BIG if name == "b" else SMALL)
        for name in case.full
    ]
    excess = QuotaUsage(
        namespace="team", limits=Limits(gpus=case.limit), placements=1, gpus=case.taken, requested=0, holders=()
    )
    request = SchedulingRequest(deployment=deployment(), model=MODEL)
    decision = schedule(request, case.environments, others, usage=excess)
    found = build_scheduled(replace(request, quota_usage=excess), decision)
    assert found.reason is case.want[1], case.reason
    name, reason = case.want
    assert {text(row, "environment"): get(row, "reason") for row in list_unplaced(decision)}[name] is reason
    assert found.message.splitlines()[1].startswith(f"{name}: "), "the nearest environment is on the first line"
