"""Pools that get other names or labels: what runs is charged to the pool that selects its nodes now."""

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
    """Return a placement that serves two replicas of a node in a pool."""
    made = placement("env", name, deployment=uid, uid=uid, replicas=2, has_served=True)
    return replace(with_service(made, allocated=share(name, labels)), labels=tuple(LABELS.items()))


def newcomer(name: str, uid: str = "b") -> Placement:
    made = placement("env", name, deployment=uid, uid=uid, replicas=2, created="2026-01-09")
    return replace(made, labels=tuple(LABELS.items()))


def grant(who: Placement, name: str) -> Grant:
    return Grant(uid=who.uid, namespace=who.namespace, name=who.name, share=share(name, None))


def of(*pools: tuple[str, tuple[tuple[str, str], ...]], granted: tuple[Grant, ...] = ()) -> Environment:
    """Return an environment with pools of two nodes, by name and labels."""
    made: list[Pool] = [replace(pool(name, nodes=2), labels=labels) for name, labels in pools]
    return environment("env", *made, uid="e", admitted=granted)


def held(there: Environment, *placements: Placement) -> list[tuple[str, str]]:
    """Return who holds GPUs of which pool."""
    return [(g.uid, g.share.pool) for g in admit_placements(there, placements).grants]


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    pools: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    labels: tuple[tuple[str, str], ...] | None
    want: list[tuple[str, str]]


CASES = (
    Case("renamed", "the nodes are those of the new name", (("new", X),), X, [("a", "new")]),
    Case("unlabelled", "all nodes, under another name", (("new", ()),), (), [("a", "new")]),
    Case("narrower", "some of its nodes are the new pool's", (("new", XZ),), X, [("a", "new")]),
    Case("wider", "so are all of them", (("new", X),), XZ, [("a", "new")]),
    Case("equal-first", "one with the same labels has them all", (("new", X), ("wide", ())), X, [("a", "new")]),
    Case("split", "it may run in either", (("new", X), ("other", XZ)), (), [("a", "new"), ("a", "other")]),
    Case("elsewhere", "those are other nodes", (("new", Y),), X, [("a", "old"), ("b", "new")]),
    Case("unrecorded", "nothing says on which nodes it runs", (("new", X),), None, [("a", "old"), ("b", "new")]),
    Case("name-taken", "another pool has the name", (("old", Y), ("new", X)), X, [("a", "new"), ("a", "old")]),
    Case("same", "nothing has changed", (("old", X), ("new", Y)), X, [("a", "old"), ("b", "new")]),
    Case("relabelled", "its nodes have one label more", (("old", XZ), ("new", Y)), X, [("a", "old"), ("b", "new")]),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_charges_what_runs_to_the_pool_that_selects_its_nodes(case: Case) -> None:
    """A newcomer that was reconciled first got the 16 GPUs of a renamed pool, on which 16 were in use."""
    running, comes = serves("old", case.labels), newcomer("new")
    there = of(*case.pools, granted=(grant(running, "old"),))
    assert held(there, comes, running) == case.want, case.reason
    again = replace(there, admitted=admit_placements(there, (comes, running)).grants)
    assert held(again, comes, running) == case.want, "and stays so"


def test_a_renamed_pool_has_room_for_what_runs_in_it() -> None:
    """Its deployment finds the room that it has, and its service is admitted without another judgement."""
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
    """A service was moved by a grant and its status did not say so yet when the names were exchanged."""
    moving = replace(with_service(serves("a", X, "one"), allocated=replace(share("a", X), gpus_per_node=2)), pool="b")
    before = of(("a", X), ("b", Y), granted=(grant(moving, "b"),))
    swapped = replace(of(("a", Y), ("b", X)), admitted=(replace(grant(moving, "a"), requested_pool="b"),))
    assert ("one", "b") in held(before, moving, newcomer("b"))
    assert ("one", "a") in held(swapped, moving, newcomer("a"))
    published = replace(swapped, admitted=admit_placements(swapped, (moving,)).grants)
    assert ("one", "a") in held(published, moving, newcomer("a")), "and stays so"
    arrived = with_service(moving, allocated=share("b", X))
    assert ("one", "a") not in held(published, arrived), "its service has what it requests from the pool of that name"
    elsewhere = replace(moving, pool="c")
    assert ("one", "a") not in held(published, elsewhere), "it requests something else, and has observed that"


def test_a_pool_that_cannot_be_read_keeps_its_grants_beside_those_of_its_nodes() -> None:
    running = serves("old", X)
    there = replace(of(("new", ()), granted=(grant(running, "old"),)), broken_pools=("old",))
    assert held(there, running) == [("a", "new"), ("a", "old")]


@pytest.mark.parametrize(("asked", "granted", "moves"), [(3, 2, False), (2, 2, True), (3, 3, True)])
def test_service_moves_only_with_the_replicas_that_it_has(asked: int, granted: int, moves: bool) -> None:
    """Two pools exchanged names before an earlier grant was released: three replicas moved to room for two."""
    running = replace(with_service(serves("old", X), allocated=share("old", X, replicas=3)), replicas=asked)
    earlier = replace(grant(running, "old"), share=share("old", None, replicas=granted))
    served = replace(grant(running, "new"), share=share("new", None, replicas=3), requested_pool="old")
    found = check_admission(running, of(("old", Y), ("new", X), granted=(earlier, served)), LABELS)
    want = (Admitted.ADMITTED, granted, True) if moves else (Admitted.WAITING, 0, False)
    assert (found.reason, found.replicas, found.admits_service) == want
