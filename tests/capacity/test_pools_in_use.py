"""Grants of pools that are not valid now, or not declared any more."""

from dataclasses import replace

from function.capacity.ledger import EnvironmentLedger, admit_placements
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


def test_names_the_placements_that_serve_on_each_pool() -> None:
    """A placement that moves serves where its service is. One whose status was lost may serve where it has grants."""
    running, moving = replace(serves(), ready=True), replace(serves("b"), pool="new")
    moving = replace(moving, service=replace(moving.service, ready_replicas=1))
    stopped, lost = (
        serves("d"),
        replace(placement("env", "old", uid="e", replicas=2), lists_objects=True, labels=LABELS),
    )
    starting = replace(placement("env", "new", deployment="c", uid="c", replicas=1), labels=LABELS)
    ledger = admit_placements(
        admitted_to_old(running, moving, stopped, lost), [running, moving, stopped, lost, starting]
    )
    names = {p.uid: f"{p.namespace}/{p.name}" for p in (running, moving, lost)}
    assert ledger.serving == {"old": sorted(names.values())}


def test_counts_a_placement_that_changes_its_shape_once() -> None:
    running = replace(serves(), ready=True)
    assert running.shape is not None
    moving = replace(running, shape=replace(running.shape, gpus_per_node=4))
    half = Grant(uid="a", namespace=running.namespace, name=running.name, share=replace(SHARE, gpus_per_node=4))
    there = admitted_to_old(running)
    ledger = admit_placements(replace(there, admitted=(*there.admitted, half)), [moving])
    assert list_grants(ledger) == [("a", "old", 2), ("a", "old", 2)]
    assert ledger.serving == {"old": [f"{running.namespace}/{running.name}"]}
