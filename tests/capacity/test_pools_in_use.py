"""Grants of pools that are not valid now, or not declared any more."""

from dataclasses import replace

from function.capacity.ledger import EnvironmentLedger, admit_placements, find_serving_pools
from function.domain.allocation import Grant, Share
from function.domain.environment import Environment
from function.domain.placement import Placement
from tests.support.builders import environment, placement, pool, with_service

LABELS = (("modelplane.ai/environment", "env"),)
SHARE = Share(pool="old", nodes=1, gpus_per_node=8, replicas=2)


def serves(name: str = "a") -> Placement:
    made = placement("env", "old", deployment=name, uid=name, replicas=2, has_served=True)
    return replace(with_service(made, allocated=SHARE), labels=LABELS)


def admitted_to_old(*placements: Placement) -> Environment:
    """Returns an environment without pool `old`, which has granted its GPUs."""
    grants = (Grant(uid=p.uid, namespace=p.namespace, name=p.name, share=SHARE) for p in placements)
    return environment("env", pool("new"), uid="e", admitted=tuple(grants))


def list_grants(ledger: EnvironmentLedger) -> list[tuple[str, str, int]]:
    return [(grant.uid, grant.share.pool, grant.share.replicas) for grant in ledger.grants]


def test_keeps_the_grant_of_a_pool_that_is_gone_until_its_service_is() -> None:
    running = serves()
    there = admitted_to_old(running)
    assert list_grants(admit_placements(there, [running])) == [("a", "old", 2)]
    moving = replace(running, pool="new")
    assert list_grants(admit_placements(there, [moving])) == [("a", "new", 2), ("a", "old", 2)]
    moved = with_service(moving, allocated=replace(SHARE, pool="new"))
    assert list_grants(admit_placements(there, [moved])) == [("a", "new", 2)]


def test_a_placement_serves_where_its_service_is() -> None:
    """One that is not ready for a moment still serves; one whose status was lost may serve wherever it has grants."""
    running = replace(serves(), ready=True)
    moving = replace(serves("b"), pool="new")
    starting, stopped = (
        replace(placement("env", "new", uid="c", replicas=1), labels=LABELS),
        replace(serves("d"), replicas=0),
    )
    lost = replace(placement("env", "new", uid="e", replicas=2), lists_objects=True, labels=LABELS)
    there = admitted_to_old(running, moving, starting, stopped, lost)
    assert find_serving_pools(there, [running, starting]) == {"old"}
    assert find_serving_pools(there, [replace(moving, service=replace(moving.service, ready_replicas=1))]) == {"old"}
    assert find_serving_pools(there, [moving, starting, stopped]) == set()
    assert find_serving_pools(there, [serves("f")]) == {"old"}
    assert find_serving_pools(there, [replace(serves("g"), has_served=False)]) == set()
    assert find_serving_pools(there, [lost]) == {"old"}
