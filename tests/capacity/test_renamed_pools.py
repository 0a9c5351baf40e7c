"""Pools whose names or labels change: running services are charged to the pool that now selects their nodes."""

from dataclasses import dataclass, replace

import pytest

from function.capacity.admission import check_admission
from function.capacity.ledger import Ledger, admit_placements
from function.domain.allocation import Grant, Share
from function.domain.environment import Environment, Pool
from function.domain.placement import Placement
from function.reasons import Admitted
from tests.support.builders import environment, placement, pool, with_service

LABELS = {"modelplane.ai/environment": "env"}
X = (("type", "x"),)
XZ = (("type", "x"), ("zone", "z"))
Y = (("type", "y"),)


def share(name: str, labels: tuple[tuple[str, str], ...] | None, replicas: int = 2) -> Share:
    return Share(pool=name, nodes=1, gpus_per_node=8, replicas=replicas, labels=labels)


def serves(name: str, labels: tuple[tuple[str, str], ...] | None, uid: str = "a") -> Placement:
    """Returns a placement that serves two replicas of one node in a pool."""
    made = placement("env", name, deployment=uid, uid=uid, replicas=2, has_served=True)
    return replace(with_service(made, allocated=share(name, labels)), labels=tuple(LABELS.items()))


def newcomer(name: str, uid: str = "b") -> Placement:
    made = placement("env", name, deployment=uid, uid=uid, replicas=2, created="2026-01-09")
    return replace(made, labels=tuple(LABELS.items()))


def grant(who: Placement, name: str) -> Grant:
    return Grant(uid=who.uid, namespace=who.namespace, name=who.name, share=share(name, None))


def of(*pools: tuple[str, tuple[tuple[str, str], ...]], granted: tuple[Grant, ...] = ()) -> Environment:
    """Returns an environment with pools of two nodes, with these names and labels."""
    made: list[Pool] = [replace(pool(name, nodes=2), labels=labels) for name, labels in pools]
    return environment("env", *made, uid="e", admitted=granted)


def held(there: Environment, *placements: Placement) -> list[tuple[str, str]]:
    """Returns the uid and the pool of each grant."""
    return [(g.uid, g.share.pool) for g in admit_placements(there, placements).grants]


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    pools: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    labels: tuple[tuple[str, str], ...] | None
    want: list[tuple[str, str]]


CASES = (
    Case("renamed", "the renamed pool selects the same nodes", (("new", X),), X, [("a", "new")]),
    Case(
        "unlabelled",
        "a pool without labels selects all nodes, also under the new name",
        (("new", ()),),
        (),
        [("a", "new")],
    ),
    Case("narrower", "the new pool selects some of the nodes", (("new", XZ),), X, [("a", "new")]),
    Case("wider", "the new pool selects all of the nodes, and others", (("new", X),), XZ, [("a", "new")]),
    Case(
        "equal-first",
        "the pool with the same labels selects all of the nodes",
        (("new", X), ("wide", ())),
        X,
        [("a", "new")],
    ),
    Case(
        "split",
        "the service may run on nodes of either pool",
        (("new", X), ("other", XZ)),
        (),
        [("a", "new"), ("a", "other")],
    ),
    Case("elsewhere", "the new pool selects other nodes", (("new", Y),), X, [("a", "old"), ("b", "new")]),
    Case(
        "unrecorded",
        "without recorded labels, the nodes of the service are unknown",
        (("new", X),),
        None,
        [("a", "old"), ("b", "new")],
    ),
    Case(
        "name-taken",
        "another pool has the earlier name of this one",
        (("old", Y), ("new", X)),
        X,
        [("a", "new"), ("a", "old")],
    ),
    Case("same", "unchanged pools keep their grants", (("old", X), ("new", Y)), X, [("a", "old"), ("b", "new")]),
    Case(
        "relabelled",
        "the pool keeps its grant when it requires one more label",
        (("old", XZ), ("new", Y)),
        X,
        [("a", "old"), ("b", "new")],
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_charges_what_runs_to_the_pool_that_selects_its_nodes(case: Case) -> None:
    """Otherwise, a newcomer that is reconciled first would get the 16 GPUs in use of a renamed pool."""
    running, comes = serves("old", case.labels), newcomer("new")
    there = of(*case.pools, granted=(grant(running, "old"),))
    assert held(there, comes, running) == case.want, case.reason
    again = replace(there, admitted=admit_placements(there, (comes, running)).grants)
    assert held(again, comes, running) == case.want, "and stays so"


def test_a_renamed_pool_has_room_for_what_runs_in_it() -> None:
    """The deployment counts the nodes of its own service, and the service is admitted without a new evaluation."""
    running, comes = serves("old", X), newcomer("new")
    there = of(("new", X), granted=(grant(running, "old"),))
    (new,) = there.pools
    assert Ledger((comes,), (running,)).free_capacity(there, new).free == {8: 2}
    assert Ledger((running,), (comes,)).free_capacity(there, new).free == {8: 0, 0: 2}
    moved = replace(running, pool="new")
    published = replace(there, admitted=admit_placements(there, (comes, moved)).grants)
    assert held(published, comes, moved) == [("a", "new")]
    assert check_admission(moved, published, LABELS).reason is Admitted.ADMITTED


def test_pools_that_exchange_names_are_both_full_until_what_runs_has_moved() -> None:
    one, two = serves("a", X, "one"), serves("b", Y, "two")
    swapped = of(("a", Y), ("b", X), granted=(grant(one, "a"), grant(two, "b")))
    both = [("one", "a"), ("one", "b"), ("two", "a"), ("two", "b")]
    assert held(swapped, one, two, newcomer("a", "c"), newcomer("b", "d")) == both
    there = replace(swapped, admitted=admit_placements(swapped, (one, two)).grants)
    moved = [with_service(one, allocated=share("a", Y)), with_service(two, allocated=share("b", X))]
    assert held(there, *moved) == [("one", "a"), ("two", "b")]


def test_keeps_a_grant_in_use_when_its_pool_exchanges_names() -> None:
    """A grant had moved a service, and its status did not show this yet when the names were exchanged."""
    moving = replace(with_service(serves("a", X, "one"), allocated=replace(share("a", X), gpus_per_node=2)), pool="b")
    before = of(("a", X), ("b", Y), granted=(grant(moving, "b"),))
    swapped = replace(of(("a", Y), ("b", X)), admitted=(replace(grant(moving, "a"), requested_pool="b"),))
    assert ("one", "b") in held(before, moving, newcomer("b"))
    assert ("one", "a") in held(swapped, moving, newcomer("a"))
    published = replace(swapped, admitted=admit_placements(swapped, (moving,)).grants)
    assert ("one", "a") in held(published, moving, newcomer("a")), "and stays so"
    arrived = with_service(moving, allocated=share("b", X))
    assert ("one", "a") not in held(published, arrived), "the service already uses the requested GPUs of the pool"
    elsewhere = replace(moving, pool="c")
    assert ("one", "a") not in held(published, elsewhere), (
        "the placement requests another pool, and has observed its own spec"
    )


def test_a_pool_that_cannot_be_read_keeps_its_grants_beside_those_of_its_nodes() -> None:
    running = serves("old", X)
    there = replace(of(("new", ()), granted=(grant(running, "old"),)), broken_pools=("old",))
    assert held(there, running) == [("a", "new"), ("a", "old")]


@pytest.mark.parametrize(("asked", "granted", "moves"), [(3, 2, False), (2, 2, True), (3, 3, True)])
def test_service_moves_only_with_the_replicas_that_it_has(asked: int, granted: int, moves: bool) -> None:
    """Two pools exchanged names before an earlier grant was released. Room for two replicas must not get three."""
    running = replace(with_service(serves("old", X), allocated=share("old", X, replicas=3)), replicas=asked)
    earlier = replace(grant(running, "old"), share=share("old", None, replicas=granted))
    served = replace(grant(running, "new"), share=share("new", None, replicas=3), requested_pool="old")
    found = check_admission(running, of(("old", Y), ("new", X), granted=(earlier, served)), LABELS)
    want = (Admitted.ADMITTED, granted, True) if moves else (Admitted.WAITING, 0, False)
    assert (found.reason, found.replicas, found.admits_service) == want
