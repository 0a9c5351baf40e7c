"""Environments are chosen one after the other within a quota: each choice uses the quota that the earlier ones left."""

from dataclasses import replace

from function.capacity import quota
from function.domain.allocation import Limits, QuotaUsage, Share
from function.domain.environment import Environment
from function.reasons import Refused
from function.scheduling.scheduler import schedule
from function.scheduling.verdicts import Decision, SchedulingRequest
from tests.support.builders import deployment, environment, model, placement, pool, profile, shape, with_service

BOTH = model(profile("big", shape(gpus=8)), profile("small", shape(gpus=2)))


def asked(environments: int, replicas: int = 1) -> SchedulingRequest:
    return SchedulingRequest(deployment=deployment(environments=environments, replicas=replicas), model=BOTH)


def places(names: str, nodes: int = 4) -> list[Environment]:
    return [environment(name, pool(nodes=nodes)) for name in names]


def taken(gpus: int, limit: int, placements: int = 0, most: int = 0) -> QuotaUsage:
    """Returns the quota usage of the other placements of the namespace."""
    limits = Limits(gpus=limit, placements=most)
    return QuotaUsage(namespace="team", limits=limits, placements=placements, gpus=gpus, requested=0, holders=())


def chosen(decision: Decision) -> list[tuple[str, str]]:
    return [(assignment.environment, assignment.profile) for assignment in decision.assignments]


def test_without_a_quota_the_first_profile_is_chosen_everywhere() -> None:
    assert chosen(schedule(asked(2), places("ab"), [])) == [("a", "big"), ("b", "big")]


def test_each_placement_takes_what_earlier_ones_left() -> None:
    """Eight of twenty GPUs are in use. The first placement gets eight, the second two, and the third two."""
    decision = schedule(asked(4), places("abcd"), [], usage=taken(8, 20))
    assert chosen(decision) == [("a", "big"), ("b", "small"), ("c", "small")]
    (miss,) = decision.refusals
    assert (miss.environment, miss.reason) == ("d", Refused.QUOTA_EXCEEDED)
    excess = miss.refusals[0].quota_usage
    assert excess is not None
    assert excess.holders == (("its own on a", 8), ("its own on b", 2), ("its own on c", 2))


def test_chooses_no_more_than_the_quota_allows() -> None:
    decision = schedule(asked(3), places("abc"), [], usage=taken(0, 0, placements=1, most=2))
    assert chosen(decision) == [("a", "big")]
    assert [miss.reason for miss in decision.refusals] == [Refused.QUOTA_EXCEEDED] * 2


def test_does_not_charge_an_existing_placement_twice() -> None:
    """Four replicas of one node did not fit. Two fit in place, and two more on the other environment."""
    other = placement("a", deployment="other", created="2025-01-01T00:00:00Z")
    own = replace(placement("a", replicas=4, profile="big", shape=shape(gpus=8)), created="2026-01-01T00:00:00Z")
    decision = schedule(asked(2, replicas=2), places("ab", nodes=3), [own, other], usage=taken(32, 48, 1, 2))
    assert chosen(decision) == [("a", "big"), ("b", "big")]
    assert [a.placement for a in decision.assignments] == [own, None]


def test_does_not_count_a_placement_against_itself() -> None:
    """The quota usage includes the four replicas of the placement itself, so two replicas keep the larger profile."""
    other = placement("a", deployment="other", created="2025-01-01T00:00:00Z")
    own = replace(placement("a", replicas=4, profile="big", shape=shape(gpus=8)), created="2026-01-01T00:00:00Z")
    decision = schedule(asked(1, replicas=2), places("a", nodes=3), [own, other], usage=taken(32, 40))
    assert chosen(decision) == [("a", "big")]


def test_what_grows_is_charged_before_what_is_new() -> None:
    """Eight of 24 GPUs are in use. The second replica takes eight more, so the new placement is small."""
    own = replace(placement("a", profile="big", shape=shape(gpus=8), uid="own"), has_served=True)
    decision = schedule(asked(2, replicas=2), places("ab"), [own], usage=taken(8, 24, 1))
    assert chosen(decision) == [("a", "big"), ("b", "small")]
    assert decision.refusals == ()


def test_growth_beyond_the_quota_is_not_charged() -> None:
    """Eight of twelve GPUs are in use. The second replica is refused later, so four are left for the new placement."""
    own = replace(placement("a", profile="big", shape=shape(gpus=8), uid="own"), has_served=True)
    decision = schedule(asked(2, replicas=2), places("ab"), [own], usage=taken(8, 12, 1))
    assert chosen(decision) == [("a", "big"), ("b", "small")]


def test_counts_the_namespace_in_charge_order() -> None:
    """16 of 24 GPUs are in use, so one of two waiting placements of 8 GPUs fits. Other namespaces do not count."""
    share = Share(pool="pool", nodes=1, gpus_per_node=8, replicas=2)
    runs = with_service(placement(deployment="runs", uid="r", replicas=2, has_served=True), allocated=share)
    first, second = (placement(deployment=name, uid=name) for name in ("first", "second"))
    elsewhere = placement(deployment="elsewhere", uid="e", namespace="other")
    found = quota.namespace_usage("team", [second, elsewhere, first, runs], Limits(gpus=24))
    assert found is not None
    assert (found.placements, found.gpus, found.requested) == (2, 24, 0)
    assert found.holders == (("runs-env", 16), ("first-env", 8))
    assert quota.namespace_usage("team", [runs], Limits()) is None
