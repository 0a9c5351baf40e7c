"""A grant of a placement that exceeds its quota is revoked, but never while the placement may still use the grant.

The placement and its environment read each other through caches, and a placement may even read an earlier version of
its own status (histories, seed 200970).
"""

import random
from dataclasses import dataclass, field, replace

import pytest

from function.capacity.admission import apply_quota, apply_restart_limit, check_admission
from function.capacity.ledger import admit_placements
from function.domain.allocation import Grant, Limits, QuotaUsage, Share
from function.domain.environment import Environment
from function.domain.placement import Placement
from function.domain.records.admission import AdmissionRecord
from function.domain.records.restarts import RestartRecord
from function.reasons import Admitted
from tests.support.builders import environment, placement, pool, with_service

POOL = pool("pool", gpus=8, nodes=1)
BEYOND = QuotaUsage(namespace="team", limits=Limits(gpus=8), placements=1, gpus=8, requested=8, holders=())


def asks(uid: str, **status: object) -> Placement:
    """Returns a placement of one node of 8 GPUs."""
    made = placement(deployment=uid, uid=uid)
    labels = (("modelplane.ai/environment", "env"),)
    return replace(made, **{"labels": labels, "generation": 1, "version": "1", **status})  # type: ignore[arg-type]  # its fields


def evaluate(before: Environment, *placements: Placement) -> Environment:
    """Returns an environment once it has published its ledger."""
    ledger = admit_placements(before, placements)
    return replace(before, admitted=ledger.grants, rejected=frozenset(ledger.rejected))


def holders(found: Environment) -> dict[str, str]:
    """Returns the version for which each grant of GPUs is taken back, by uid."""
    return {grant.uid: grant.revoked for grant in found.admitted if grant.share.replicas}


EMPTY = environment("env", POOL, uid="uid-of-env")
BEYOND_QUOTA = asks("a", version="7", admission=AdmissionRecord(over_quota=True))
HELD_BACK = asks("a", version="7", admission=AdmissionRecord(cannot_start=True))
STOPPED = with_service(
    asks("a", version="7", restarts=RestartRecord(stopped=True)),
    allocated=Share(pool="pool", nodes=1, gpus_per_node=8, replicas=0),
)


@pytest.mark.parametrize("held_back", [BEYOND_QUOTA, HELD_BACK, STOPPED], ids=["quota", "cannot-start", "stopped"])
def test_takes_a_grant_back_once_its_placement_has_seen_that(held_back: Placement) -> None:
    granted = evaluate(EMPTY, asks("a"))
    assert holders(granted) == {"a": ""}
    revoked = evaluate(granted, held_back, asks("b"))
    assert holders(revoked) == {"a": "7"}, "the other placement waits, because the first one may still use the GPUs"
    assert holders(evaluate(revoked, replace(held_back, version="8"), asks("b"))) == {"a": "7"}
    seen = replace(held_back, version="9", admission=replace(held_back.admission, revoked=frozenset({"7"})))
    assert holders(evaluate(revoked, seen, asks("b"))) == {"b": ""}


def test_returns_a_grant_to_a_placement_that_needs_it_again() -> None:
    revoked = evaluate(evaluate(EMPTY, asks("a")), BEYOND_QUOTA)
    assert check_admission(asks("a"), revoked, {}).reason is Admitted.WAITING, (
        "a placement with a revoked grant waits, even if its status allows a start"
    )
    assert holders(evaluate(revoked, asks("a"), asks("b"))) == {"a": "7"}, (
        "the grant stays revoked until the placement has observed the revocation"
    )
    returned = evaluate(revoked, asks("a", admission=AdmissionRecord(revoked=frozenset({"7"}))), asks("b"))
    assert holders(returned) == {"a": ""}
    assert check_admission(asks("a"), returned, {}).reason is Admitted.ADMITTED


def test_keeps_what_is_used() -> None:
    using = replace(with_service(BEYOND_QUOTA, allocated=asks("a").requested), has_served=True)
    granted = evaluate(EMPTY, asks("a"))
    assert holders(evaluate(granted, using, asks("b"))) == {"a": ""}, "a grant in use is not revoked"
    revoked = evaluate(granted, BEYOND_QUOTA)
    assert check_admission(using, revoked, {}).replicas == 1
    assert holders(
        evaluate(revoked, replace(using, admission=replace(using.admission, revoked=frozenset({"7"}))), asks("b"))
    ) == {"a": ""}


def test_grant_of_a_placement_that_is_gone_is_not_kept_for_its_answer() -> None:
    revoked = evaluate(evaluate(EMPTY, asks("a")), BEYOND_QUOTA)
    assert holders(evaluate(revoked, asks("b"))) == {"b": ""}


@dataclass
class _Cached:
    """The reads of an object by one process, which never go back to an earlier version."""

    versions: list[Placement] | list[Environment]
    read_last: int = 0

    def read(self, drawn: random.Random) -> int:
        self.read_last = drawn.randint(self.read_last, len(self.versions) - 1)
        return self.read_last


@dataclass
class _Fleet:
    """One node, and two placements that request it. Each of them may exceed its quota at any moment."""

    drawn: random.Random
    environments: list[Environment] = field(default_factory=lambda: [EMPTY])
    statuses: dict[str, list[Placement]] = field(default_factory=lambda: {"a": [asks("a")], "b": [asks("b")]})
    serving: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._of_placements = {uid: _Cached(versions) for uid, versions in self.statuses.items()}
        self._own = {uid: _Cached(versions) for uid, versions in self.statuses.items()}
        self._of_environment = {uid: _Cached(self.environments) for uid in self.statuses}

    def reconcile_environment(self) -> None:
        seen = [self.statuses[uid][cached.read(self.drawn)] for uid, cached in self._of_placements.items()]
        self.environments.append(evaluate(self.environments[-1], *seen))  # its ledger is never written over another

    def reconcile_placement(self, uid: str) -> None:
        versions = self.statuses[uid]
        number = self._own[uid].read(self.drawn)
        published = versions[number]
        place = self.environments[self._of_environment[uid].read(self.drawn)]
        excess = BEYOND if self.drawn.random() < 0.5 and uid not in self.serving else None
        admission = apply_quota(check_admission(published, place, {}), published, excess)
        starts = admission.replicas > 0 and uid not in self.serving
        if starts:
            self.serving.add(uid)
        if number < len(versions) - 1 and not starts:
            return  # the API server refuses a status of another version; where a service is new there is no version
        grants: list[Grant] = [grant for grant in place.admitted if grant.uid == uid]
        published = replace(
            with_service(published, allocated=published.requested if uid in self.serving else None),
            version=str(len(versions) + 1),
            admission=replace(
                published.admission,
                over_quota=admission.reason is Admitted.QUOTA_EXCEEDED,
                revoked=frozenset(grant.revoked for grant in grants if grant.revoked),
            ),
        )
        versions.append(published)


def test_no_order_of_reads_gives_the_same_gpus_to_two_services() -> None:
    started = 0
    for seed in range(2_000):
        drawn = random.Random(seed)
        fleet = _Fleet(drawn)
        for _ in range(25):
            step = drawn.choice(["environment", "a", "b"])
            fleet.reconcile_environment() if step == "environment" else fleet.reconcile_placement(step)
            assert len(fleet.serving) < 2, f"seed {seed}: both services use the same node"
        started += len(fleet.serving)
    assert started > 1_000, "services must have started in most of the histories"


class _StoppingFleet(_Fleet):
    """One node, and two placements that request it. The service of one that has it may be stopped, and start again."""

    def reconcile_placement(self, uid: str) -> None:
        versions = self.statuses[uid]
        number = self._own[uid].read(self.drawn)
        published = versions[number]
        place = self.environments[self._of_environment[uid].read(self.drawn)]
        admission = apply_restart_limit(check_admission(published, place, {}), published)
        if admission.stops_service:
            self.serving.discard(uid)
        elif admission.replicas > 0:
            self.serving.add(uid)
        if number < len(versions) - 1:
            return  # the API server refuses a status of another version
        crashes = uid in self.serving and self.drawn.random() < 0.3
        is_stopped = crashes or (published.restarts.stopped and self.drawn.random() < 0.9)
        grants = [grant for grant in place.admitted if grant.uid == uid]
        request = published.requested
        assert request is not None
        had = published.service.allocated
        has = request if uid in self.serving else replace(request, replicas=0) if had else None
        published = replace(
            with_service(published, allocated=has),
            version=str(len(versions) + 1),
            restarts=RestartRecord(stopped=is_stopped),
            admission=AdmissionRecord(revoked=frozenset(grant.revoked for grant in grants if grant.revoked)),
        )
        versions.append(published)


def test_no_order_of_reads_gives_the_gpus_of_a_stopped_service_to_two() -> None:
    changed_hands = 0
    for seed in range(2_000):
        drawn = random.Random(seed)
        fleet, served = _StoppingFleet(drawn), set[str]()
        for _ in range(50):
            step = drawn.choice(["environment", "a", "b"])
            fleet.reconcile_environment() if step == "environment" else fleet.reconcile_placement(step)
            assert len(fleet.serving) < 2, f"seed {seed}: both services use the same node"
            served |= fleet.serving
        changed_hands += len(served) == 2
    assert changed_hands > 300, "in many of the histories, the GPUs of one must have gone to the other"
