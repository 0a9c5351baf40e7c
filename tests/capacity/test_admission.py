"""Admission of a placement by the published ledger of its environment, and the labels that the placement lacks."""

from dataclasses import dataclass, replace

import pytest

from function.capacity import ledger as module
from function.capacity.admission import check_admission, find_release
from function.capacity.ledger import MAX_ADMITTED, MAX_REJECTED, admit_placements
from function.domain.allocation import Free, Grant, Release, Share, Yield
from function.domain.environment import Environment
from function.domain.placement import Placement
from function.domain.pods import PodAdditions
from function.reasons import Admitted
from tests.support import builders
from tests.support.builders import with_service

LABELS = {"modelplane.ai/environment": "env"}
FREE = {"pool": Free(placements=1, nodes=((8, 3),))}
TAKEN = {"pool": Free(placements=1, nodes=())}
MINE = replace(builders.placement(uid="me", replicas=2), labels=tuple(LABELS.items()), owner="deployment")


def grant(replicas: int, uid: str = "me", pool: str = "pool", nodes: int = 1, generation: int = 0) -> Grant:
    share = Share(pool=pool, nodes=nodes, gpus_per_node=8, replicas=replicas)
    return Grant(uid=uid, namespace="team", name="chat-env", share=share, generation=generation)


# Generation 8 of its spec requested one replica, and generation 9 requests two again.
RELEASED_ONE = replace(
    with_service(MINE, allocated=grant(1).share),
    generation=9,
    admission=replace(MINE.admission, released=Release(generation=8, request=grant(1).share)),
)


def environment(**more: object) -> Environment:
    made = builders.environment("env", builders.pool(), uid="environment", free=FREE)
    return replace(made, **more)  # type: ignore[arg-type]  # fields of an environment


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    environment: Environment
    want: Admitted
    open: bool = False
    replicas: int = 0
    placement: Placement = MINE


CASES = (
    Case(
        "admitted",
        "the environment has granted all requested replicas",
        environment(admitted=(grant(2),)),
        Admitted.ADMITTED,
        True,
        2,
    ),
    Case(
        "from-a-file", "an environment without a uid admits everything", environment(uid=""), Admitted.ADMITTED, True, 2
    ),
    Case(
        "none-from-a-file",
        "a placement without replicas is admitted for none",
        environment(uid=""),
        Admitted.ADMITTED,
        True,
        0,
        replace(MINE, replicas=0),
    ),
    Case("not-judged", "the ledger does not list the placement, so it waits", environment(), Admitted.WAITING),
    Case(
        "one-not-judged",
        "a placement with one replica also waits for a grant",
        environment(),
        Admitted.WAITING,
        placement=replace(MINE, replicas=1),
    ),
    Case(
        "another-uid",
        "the grant is for an earlier placement with the same name",
        environment(admitted=(grant(2, "old"),)),
        Admitted.WAITING,
    ),
    Case(
        "other-pool",
        "a grant for another pool does not count",
        environment(admitted=(grant(2, pool="x"),)),
        Admitted.WAITING,
    ),
    Case(
        "other-shape",
        "a grant for another shape does not count",
        environment(admitted=(grant(2, nodes=2),)),
        Admitted.WAITING,
    ),
    Case(
        "fewer",
        "one of two replicas is granted, and this one may run",
        environment(admitted=(grant(1),)),
        Admitted.WAITING,
        True,
        1,
    ),
    Case(
        "no-room-to-grow",
        "the environment has rejected the second replica",
        environment(admitted=(grant(1),), rejected=frozenset({("me", "pool")})),
        Admitted.REJECTED,
        True,
        1,
    ),
    Case(
        "rejected",
        "the environment has no room, and the deployment reschedules the placement",
        environment(rejected=frozenset({("me", "pool")})),
        Admitted.REJECTED,
    ),
    Case(
        "by-hand",
        "no deployment can reschedule a placement that a user created, so it waits",
        environment(rejected=frozenset({("me", "pool")})),
        Admitted.WAITING,
        placement=replace(MINE, owner=""),
    ),
    Case(
        "no-replicas",
        "a placement without replicas needs no grant",
        environment(),
        Admitted.ADMITTED,
        True,
        placement=replace(MINE, replicas=0),
    ),
    Case(
        "unlabelled",
        "an environment cannot find a placement without the label",
        environment(),
        Admitted.LABEL_MISSING,
        placement=replace(MINE, labels=()),
    ),
    Case(
        "other-label",
        "another environment finds a placement with its label",
        environment(),
        Admitted.LABEL_MISSING,
        placement=replace(MINE, labels=(("modelplane.ai/environment", "x"),)),
    ),
    Case(
        "label-removed",
        "the environment still requires an admitted placement by its name",
        environment(admitted=(grant(2),)),
        Admitted.ADMITTED,
        True,
        2,
        placement=replace(MINE, labels=()),
    ),
    Case(
        "released-since",
        "the second replica was released, and may be granted to another placement by now",
        environment(admitted=(grant(2, generation=7),)),
        Admitted.WAITING,
        True,
        1,
        placement=RELEASED_ONE,
    ),
    Case(
        "not-released-yet",
        "the service still uses both replicas, so neither is released",
        environment(admitted=(grant(2, generation=7),)),
        Admitted.ADMITTED,
        True,
        2,
        placement=with_service(RELEASED_ONE, allocated=grant(2).share),
    ),
    Case(
        "granted-since",
        "the grant is for the current generation of the spec",
        environment(admitted=(grant(2, generation=9),)),
        Admitted.ADMITTED,
        True,
        2,
        placement=RELEASED_ONE,
    ),
    Case(
        "requested-another-size-since",
        "the whole grant was released, and may be granted to another placement by now",
        environment(admitted=(grant(2, generation=7),)),
        Admitted.WAITING,
        placement=replace(
            with_service(RELEASED_ONE, allocated=None),
            admission=replace(RELEASED_ONE.admission, released=Release(generation=8, request=grant(1, nodes=2).share)),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_admits_placements_by_what_the_environment_published(case: Case) -> None:
    found = check_admission(case.placement, case.environment, LABELS)
    assert (found.reason, found.admits_service, found.replicas) == (case.want, case.open, case.replicas), case.reason
    assert found.free == (FREE["pool"] if case.environment.uid and case.placement.requested else None), (
        "the free GPUs are reported for placements that wait"
    )
    assert bool({**found.missing_labels}) is (case.want is Admitted.LABEL_MISSING)


def test_reports_that_a_waiting_placement_needs_exclusive_nodes() -> None:
    """A pod with all 8 GPUs of a node needs no further rule to have the node to itself."""
    for gpus, whole in ((4, True), (8, False)):
        own = builders.pool(gpus=8)
        there = environment(pools=(replace(own, pod=PodAdditions(host_network=True)),))
        assert check_admission(replace(MINE, shape=builders.shape(1, gpus)), there, LABELS).exclusive_node is whole


def test_reports_whether_a_request_was_evaluated() -> None:
    """Rejected placements are published where a deployment composed them, not where users wrote them."""
    yielding = environment(rejected=frozenset({("me", "pool")}))
    assert [check_admission(MINE, there, LABELS).evaluated for there in (environment(), yielding)] == [False, True]
    assert check_admission(replace(MINE, owner=""), environment(), LABELS).evaluated is True


def test_requires_the_label_of_the_cache_also_when_admitted() -> None:
    wanted = {**LABELS, "modelplane.ai/cache": "weights"}
    found = check_admission(MINE, environment(admitted=(grant(2),)), wanted)
    assert (found.reason, found.admits_service) == (Admitted.LABEL_MISSING, False)
    assert found.missing_labels == {"modelplane.ai/cache": "weights"}


def _uids(found: Environment, *placements: Placement) -> list[str]:
    return [g.uid for g in admit_placements(found, placements).grants]


def test_charges_unlabelled_placements_only_if_running_or_admitted() -> None:
    unlabelled = replace(MINE, labels=())
    assert _uids(environment(), unlabelled) == []
    assert _uids(environment(), replace(with_service(unlabelled, allocated=unlabelled.requested), has_served=True)) == [
        "me"
    ]
    assert _uids(environment(admitted=(grant(2),)), unlabelled) == ["me"]


def test_releases_grant_of_deleted_pool_when_neither_requested_nor_allocated() -> None:
    """The pool was renamed, and the service moved to the new name. A pool that is still requested keeps its grant."""
    old, new = grant(2, pool="old"), grant(2)
    moving = with_service(MINE, allocated=old.share)
    there = environment(admitted=(old, new))
    assert admit_placements(there, [moving]).grants == (old, new), (
        "the service still uses the old pool, so both grants stay"
    )
    assert admit_placements(there, [with_service(MINE, allocated=new.share)]).grants == (new,)
    assert admit_placements(there, [replace(MINE, pool="old")]).grants == (old,), (
        "only the grant of the requested pool stays"
    )


def test_does_not_admit_deleting_placement_without_resources() -> None:
    assert _uids(environment(), replace(MINE, deleting=True)) == []
    assert _uids(environment(), replace(MINE, deleting=True, weights=replace(MINE.weights, planned_uri="pvc://x"))) == [
        "me"
    ]
    assert _uids(environment(), replace(MINE, deleting=True, lists_objects=True)) == ["me"], (
        "Objects show that the placement has resources, although its status was lost"
    )


def test_grants_released_replicas_again_if_there_is_room() -> None:
    """Another placement may use the released nodes by then. This one gets only the nodes that are left of four."""
    there = environment(admitted=(grant(2, generation=7),))
    assert admit_placements(there, [RELEASED_ONE]).grants == (grant(2, generation=9),)
    other = replace(MINE, uid="other", name="other", replicas=3, has_served=True, created="2025-12-31T00:00:00Z")
    found = admit_placements(there, [replace(RELEASED_ONE, has_served=True), other])
    assert [(g.uid, g.share.replicas, g.generation) for g in found.grants] == [("me", 1, 7), ("other", 3, 0)]
    assert found.rejected == (("me", "pool"),)


@pytest.mark.parametrize("generation", [0, 8])
def test_release_of_the_current_spec_limits_nothing(generation: int) -> None:
    """Users can forge a status. With such a release, the ledger would grant the same replicas in an endless loop."""
    forged = replace(with_service(RELEASED_ONE, allocated=None), generation=generation)
    assert admit_placements(environment(), [forged]).grants == (grant(2, generation=generation),)


@dataclass(frozen=True)
class ReleaseCase:
    id: str
    reason: str
    placement: Placement
    grants: tuple[Grant, ...]
    want: Release | None


ONE_REQUESTED = replace(MINE, generation=8, replicas=1)
RELEASES = (
    ReleaseCase(
        "fewer",
        "the spec requests one of two granted replicas, so one is released",
        ONE_REQUESTED,
        (grant(2),),
        Release(generation=8, request=grant(1).share),
    ),
    ReleaseCase(
        "as-many",
        "the spec requests all granted replicas, so none is released",
        replace(ONE_REQUESTED, replicas=2),
        (grant(2),),
        None,
    ),
    ReleaseCase(
        "from-a-file",
        "without a generation, specs cannot be told apart, so nothing is released",
        replace(ONE_REQUESTED, generation=0),
        (grant(2),),
        None,
    ),
    ReleaseCase(
        "unreadable",
        "a spec with an unknown shape releases nothing",
        replace(ONE_REQUESTED, shape=None),
        (grant(2),),
        None,
    ),
    ReleaseCase(
        "unknown-grants",
        "the service uses two replicas and the spec requests one, so one is released",
        with_service(ONE_REQUESTED, allocated=grant(2).share),
        (),
        Release(generation=8, request=grant(1).share),
    ),
    ReleaseCase(
        "another-size",
        "the grant for replicas of two nodes is released completely",
        ONE_REQUESTED,
        (grant(1), grant(3, nodes=2)),
        Release(generation=8, request=grant(1).share),
    ),
    ReleaseCase(
        "released-before",
        "an earlier release stays recorded when the replicas are requested again",
        RELEASED_ONE,
        (grant(2, generation=7),),
        RELEASED_ONE.admission.released,
    ),
    ReleaseCase(
        "recorded",
        "a recorded release stays while grants of exchanged pools and of another size exist",
        replace(with_service(RELEASED_ONE, allocated=grant(1, pool="earlier").share), generation=9, replicas=1),
        (grant(2), grant(1, nodes=2)),
        RELEASED_ONE.admission.released,
    ),
    ReleaseCase(
        "again",
        "replicas that were granted since the last release are released again",
        replace(RELEASED_ONE, generation=11, replicas=1),
        (grant(2, generation=9),),
        Release(generation=11, request=grant(1).share),
    ),
)


@pytest.mark.parametrize("case", RELEASES, ids=lambda c: c.id)
def test_records_what_a_spec_releases(case: ReleaseCase) -> None:
    assert find_release(case.placement, case.grants) == case.want, case.reason


def test_releases_grant_of_deleted_placement() -> None:
    assert _uids(environment(admitted=(grant(2, "gone"),))) == []


def test_keeps_grant_of_placement_that_names_another_environment() -> None:
    """The placement does not move: its objects stay on this environment until it is deleted."""
    there = environment(admitted=(grant(2),))
    renamed = replace(MINE, environment="elsewhere")
    found = admit_placements(there, [with_service(renamed, allocated=grant(2).share)])
    assert found.grants == (grant(2),)
    assert found.pools["pool"].capacity.free == {8: 2, 0: 2}, "the grant uses two of four nodes"
    assert found.rejected == ()
    assert admit_placements(there, [renamed]).grants == (), (
        "a placement without resources on this environment loses its grant"
    )


def test_a_pool_that_cannot_be_read_keeps_its_grants() -> None:
    found = admit_placements(environment(pools=(), admitted=(grant(2),)), [MINE])
    assert [g.uid for g in found.grants] == ["me"]
    assert found.pools == {}


def test_publishes_no_rejected_placements_that_users_wrote() -> None:
    """Users can create any number of them, and no deployment reschedules them. Their list would fill the status."""
    ours, theirs = replace(MINE, replicas=9), replace(MINE, uid="by-hand", name="by-hand", replicas=9, owner="")
    assert admit_placements(environment(), [ours, theirs]).rejected == (("me", "pool"),)


def _many(count: int, **more: object) -> list[Placement]:
    one = replace(MINE, replicas=9, **more)  # type: ignore[arg-type]  # fields of a placement
    return [replace(one, uid=f"{number:04}", name=f"p-{number}", owner=f"{number}") for number in range(count)]


def test_publishes_one_rejected_placement_of_a_deployment() -> None:
    """A deployment has only one placement on an environment. A user forged the owner of the others."""
    forged = [replace(p, owner="deployment") for p in _many(2)]
    assert admit_placements(environment(), forged).rejected == (("0000", "pool"),)
    elsewhere = replace(forged[1], namespace="victim")
    assert admit_placements(environment(), [*forged, elsewhere]).rejected == (("0000", "pool"), ("0001", "pool"))


def test_publishes_a_bounded_number_of_rejected_placements() -> None:
    found = admit_placements(environment(), _many(MAX_REJECTED + 1))
    assert len(found.rejected) == MAX_REJECTED
    there = environment(rejected=frozenset(found.rejected))
    first, last = (check_admission(p, there, LABELS) for p in (_many(1)[0], _many(MAX_REJECTED + 1)[-1]))
    assert (first.reason, first.evaluated, first.status_limit) == (Admitted.REJECTED, True, None)
    assert (last.reason, last.evaluated, last.status_limit) == (Admitted.WAITING, False, MAX_REJECTED), (
        "a placement beyond the bound waits, and the bound is reported"
    )


def test_reports_the_bound_when_the_list_of_admitted_placements_is_full() -> None:
    full = environment(admitted=tuple(grant(1, f"{number}") for number in range(MAX_ADMITTED)))
    yielding = replace(full, rejected=frozenset({("me", "pool")}))
    assert check_admission(MINE, yielding, LABELS).status_limit == MAX_ADMITTED
    assert check_admission(MINE, full, LABELS).status_limit is None, (
        "the bound is reported only for rejected placements"
    )
    there = replace(full, rejected=frozenset({("7", "pool")}))
    assert check_admission(replace(MINE, uid="7", replicas=1), there, LABELS).status_limit is None, (
        "the bound is not reported for an admitted placement"
    )
    assert check_admission(replace(MINE, uid="7", replicas=2), there, LABELS).status_limit is None, (
        "the bound does not prevent the growth of an admitted placement"
    )


def test_bounds_admitted_placements_of_all_pools_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ADMITTED", 2)
    there = environment(pools=(builders.pool(), builders.pool("other")), admitted=(grant(1),))
    mine = replace(MINE, replicas=1)
    more = [replace(mine, uid=uid, name=name, pool="other") for uid, name in (("b", "a-first"), ("c", "b-second"))]
    found = admit_placements(there, [mine, *more])
    assert [(g.name, g.share.pool) for g in found.grants] == [("a-first", "other"), ("chat-env", "pool")], (
        "new placements are admitted in the order of their names"
    )
    assert found.rejected == (("c", "other"),)


def test_charges_every_placement_from_files() -> None:
    assert [g.name for g in admit_placements(environment(uid=""), [replace(MINE, uid="", labels=())]).grants] == [
        MINE.name
    ]


@pytest.mark.parametrize(
    ("nodes", "gpus", "replicas", "never"),
    [(1, 8, 4, False), (1, 8, 5, True), (2, 8, 2, False), (5, 8, 1, True), (1, 16, 1, True)],
)
def test_reports_requests_that_exceed_an_empty_pool(nodes: int, gpus: int, replicas: int, never: bool) -> None:
    """Four nodes of 8 GPUs fit four replicas of one node, two of two nodes, none of five nodes, and no pod of 16."""
    wide = replace(MINE, shape=builders.shape(nodes, gpus), replicas=replicas)
    at = replace(environment(), pools=(builders.pool(nodes=4),))
    assert check_admission(wide, at, LABELS).exceeds_pool == never
    assert bool(admit_placements(replace(at, admitted=()), [wide]).grants) == (not never)


@pytest.mark.parametrize(("replicas", "never"), [(4, False), (5, True)])
def test_reports_more_exclusive_pods_than_nodes_as_exceeding_the_pool(replicas: int, never: bool) -> None:
    ports = replace(builders.pool(nodes=4), pod=PodAdditions(host_network=True))
    half = replace(MINE, shape=builders.shape(1, 4), replicas=replicas)
    assert check_admission(half, replace(environment(), pools=(ports,)), LABELS).exceeds_pool == never


def test_names_who_has_replicas_to_end_and_until_when() -> None:
    """Of two that give back, the first one has ended what it had to; the third one gives back for somebody else."""
    told = Yield(keep=1, uid="me", namespace="team", name="chat", priority=0, gpus=16, since=1_000)
    rows = [(1, told), (3, told), (3, replace(told, uid="another"))]
    others = (
        Grant(uid=f"o-{n}", namespace="b", name=f"lent-{n}", share=grant(replicas).share, yields=yields)
        for n, (replicas, yields) in enumerate(rows)
    )
    found = check_admission(MINE, environment(admitted=tuple(others), free=TAKEN), LABELS)
    assert (found.reason, found.taken_back, found.taken_back_until) == (
        Admitted.WAITING,
        ("2 replicas of b/lent-1",),
        1_600,
    )
