"""Taints and unschedulable pools: which placements are created, scaled up, kept and moved."""

from dataclasses import replace

import pytest

from function.domain.environment import BEING_CREATED, Environment, Pool
from function.domain.placement import Placement
from function.kube.selectors import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration
from function.reasons import Refused
from function.scheduling.filters import STEP_NEVER, STEP_TAINTED, STEP_UNSCHEDULABLE
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Decision, RemovalCause, SchedulingRequest
from tests.support.builders import deployment, environment, model, placement, pool, profile, shape

RESERVED = Taint(key="team", value="a", effect=NO_SCHEDULE)
DRAIN = Taint(key="modelplane.ai/drain", effect=NO_EXECUTE, reason="new switch")
TOLERATES = (Toleration(key="team", value="a"), Toleration(key="modelplane.ai/drain", any_value=True))
OPEN_B = environment("b", pool())
CORDONED = replace(pool(), unschedulable=True, unschedulable_reason="new firmware")


def tainted(taint: Taint, name: str = "a", *pools: Pool, broken: bool = False) -> Environment:
    """Return an environment with a taint."""
    return environment(name, *(pools or (pool(),)), taints=(taint,), broken=broken)


def decide(
    *environments: Environment,
    own: tuple[Placement, ...] = (),
    tolerations: tuple[Toleration, ...] = (),
    replicas: int = 1,
    desired: int = 1,
) -> Decision:
    """Schedules a deployment whose replicas have one node each."""
    wanted = deployment(replicas=replicas, tolerations=tolerations, environments=desired)
    return schedule(SchedulingRequest(deployment=wanted, model=model(profile(shape=shape()))), environments, own)


def summarize(decision: Decision) -> tuple[list[str], list[str], list[str]]:
    """Return the environments of what is assigned, carried over and dropped."""
    return (
        [assignment.environment for assignment in decision.assignments],
        [p.environment for p in decision.carried],
        [d.placement.environment for d in decision.dropped],
    )


def reasons(decision: Decision) -> list[tuple[str, list[Refused]]]:
    """Return every refusal by its environment."""
    return [(each.environment, [refusal.reason for refusal in each.refusals]) for each in decision.refusals]


@pytest.mark.parametrize("taint", [RESERVED, DRAIN], ids=str)
def test_places_nothing_new_on_tainted_environment(taint: Taint) -> None:
    decision = decide(tainted(taint))
    assert (summarize(decision), reasons(decision)) == (([], [], []), [("a", [Refused.ENVIRONMENT_TAINTED])])
    assert summarize(decide(tainted(taint), OPEN_B)) == (["b"], [], [])
    assert summarize(decide(tainted(taint), OPEN_B, tolerations=TOLERATES)) == (["a"], [], [])


@pytest.mark.parametrize("ready", [True, False])
def test_no_schedule_moves_nothing(ready: bool) -> None:
    own = (placement("a", ready=ready),)
    assert summarize(decide(tainted(RESERVED), OPEN_B, own=own)) == (["a"], [], [])


@pytest.mark.parametrize("place", [tainted(RESERVED), environment("a", CORDONED)], ids=["tainted", "cordoned"])
def test_refuses_growth_and_keeps_replicas(place: Environment) -> None:
    decision = decide(place, own=(placement("a", ready=True),), replicas=2)
    assert [(a.environment, a.replicas) for a in decision.assignments] == [("a", 1)]
    assert [each.granted_replicas for each in decision.refusals] == [1]
    shrunk = decide(place, own=(placement("a", ready=True, replicas=3),), replicas=2)
    assert [(a.environment, a.replicas) for a in shrunk.assignments] == [("a", 2)]


def test_tolerated_taint_allows_growth() -> None:
    decision = decide(tainted(RESERVED), own=(placement("a"),), replicas=2, tolerations=TOLERATES)
    assert ([a.replicas for a in decision.assignments], decision.refusals) == ([2], ())


class TestNoExecute:
    def test_keeps_service_until_replacement_is_ready(self) -> None:
        old, new = placement("a", ready=True), placement("b")
        assert summarize(decide(tainted(DRAIN), OPEN_B, own=(old,))) == (["b"], ["a"], [])
        assert summarize(decide(tainted(DRAIN), OPEN_B, own=(old, new))) == (["b"], ["a"], [])
        moved = decide(tainted(DRAIN), OPEN_B, own=(old, replace(new, ready=True)))
        assert (summarize(moved), [d.cause for d in moved.dropped]) == ((["b"], [], ["a"]), [RemovalCause.REPLACED])

    def test_what_cannot_move_keeps_serving_and_is_named(self) -> None:
        decision = decide(tainted(DRAIN), own=(placement("a", ready=True),))
        assert (summarize(decision), reasons(decision)) == (([], ["a"], []), [("a", [Refused.ENVIRONMENT_TAINTED])])

    def test_tolerated_taint_moves_nothing(self) -> None:
        own = (placement("a", ready=True),)
        assert summarize(decide(tainted(DRAIN), OPEN_B, own=own, tolerations=TOLERATES)) == (["a"], [], [])

    def test_moves_nothing_while_the_environment_is_invalid(self) -> None:
        own = (placement("a", ready=True),)
        assert summarize(decide(tainted(DRAIN, broken=True), OPEN_B, own=own)) == (["a"], [], [])

    def test_moves_what_never_started(self) -> None:
        assert summarize(decide(tainted(DRAIN), OPEN_B, own=(placement("a"),))) == (["b"], ["a"], [])

    def test_removed_taint_moves_nothing_back(self) -> None:
        own = (placement("a"), placement("b", ready=True))
        assert summarize(decide(environment("a", pool()), OPEN_B, own=own)) == (["b"], [], ["a"])

    def test_moves_one_of_several_environments(self) -> None:
        own = (placement("a", ready=True), placement("b", ready=True))
        sites = (tainted(DRAIN), OPEN_B, environment("c", pool()))
        assert summarize(decide(*sites, own=own, desired=2)) == (["b", "c"], ["a"], [])


def test_unschedulable_pool_gets_nothing_new_and_keeps_what_runs() -> None:
    cordoned = environment("a", CORDONED)
    decision = decide(cordoned)
    assert (summarize(decision), reasons(decision)) == (([], [], []), [("a", [Refused.POOL_UNSCHEDULABLE])])
    assert summarize(decide(cordoned, OPEN_B)) == (["b"], [], [])
    assert [a.pool for a in decide(environment("a", CORDONED, pool("spare"))).assignments] == ["spare"]
    assert summarize(decide(cordoned, OPEN_B, own=(placement("a", ready=True),))) == (["a"], [], [])


def test_pool_that_is_not_created_gets_nothing_and_keeps_what_runs() -> None:
    """For example an autoscaled pool whose quota Google refuses: it has no nodes, and nothing would add some."""
    refused = environment("a", replace(pool(), not_created="Google Cloud: no quota"))
    decision = decide(refused)
    assert (summarize(decision), reasons(decision)) == (([], [], []), [("a", [Refused.POOL_NOT_CREATED])])
    (refusal,) = decision.refusals
    assert refusal.message == "profile default: pool pool is not created yet: Google Cloud: no quota"
    assert not refusal.refusals[0].is_starting, "somebody has to act"
    (soon,) = decide(environment("a", replace(pool(), not_created=BEING_CREATED))).refusals
    assert soon.refusals[0].is_starting, "it is normal"
    assert summarize(decide(refused, OPEN_B)) == (["b"], [], [])
    assert summarize(decide(refused, OPEN_B, own=(placement("a", ready=True),))) == (["a"], [], [])


def test_nearest_refusal_comes_last_of_all_that_apply() -> None:
    small = replace(CORDONED, max_nodes=0)
    (only,) = decide(tainted(RESERVED, "a", small)).refusals
    assert [refusal.reason for refusal in only.refusals] == [
        Refused.POOL_TOO_SMALL,
        Refused.ENVIRONMENT_TAINTED,
        Refused.POOL_UNSCHEDULABLE,
    ]
    assert only.failed_step == STEP_NEVER < STEP_TAINTED < STEP_UNSCHEDULABLE


def test_message_names_the_taint_and_its_reason() -> None:
    (refused,) = decide(tainted(DRAIN)).refusals
    assert refused.message == (
        "profile default: the environment has taint modelplane.ai/drain:NoExecute (new switch), which the deployment "
        "does not tolerate"
    )
    (refused,) = decide(environment("a", CORDONED)).refusals
    assert refused.message == "profile default: pool pool is unschedulable: new firmware"
    (refused,) = decide(environment("a", replace(CORDONED, unschedulable_reason=""))).refusals
    assert refused.message == "profile default: pool pool is unschedulable"
