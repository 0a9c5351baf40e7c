"""A decision in words: the reason, the message and `status.unplaced` say the same."""

from dataclasses import replace
from itertools import permutations

import pytest

from function.domain.model import BrokenEntry, Parallelism, Problem
from function.domain.pods import PodAdditions
from function.reasons import Refused, Status
from function.scheduling.refusals import join_messages
from function.weights.faults import SHARED_STORAGE
from tests.support.builders import model, placement, pool, profile, shape
from tests.support.decisions import FRONTIER, KIMI, MINE, explained, request, site


def test_header_counts_reasons_and_lines_name_environments() -> None:
    """The design's example: three environments, three reasons, the nearest first."""
    found = explained(
        request(replicas=2),
        (
            site("dev", FRONTIER, labels={"tier": "dev"}),
            site("bare", FRONTIER, storage_class=None),
            site("full", pool("medium", multi_node=False), FRONTIER),
        ),
        (placement("full", "frontier", deployment="other", replicas=3),),
    )
    assert found.status is Status.FALSE
    assert found.reason is Refused.INSUFFICIENT_CAPACITY
    assert found.message.splitlines() == [
        (
            "0/3 environments can run kimi-k2-instruct: "
            "1 is not selected, 1 has no shared storage, 1 has insufficient capacity."
        ),
        (
            "full: profile multinode: pool frontier has no capacity now: 2 replicas of 2 nodes x 8 GPUs required, "
            "0 fit: 3 of 4 nodes in use by 1 other placement"
        ),
        "bare: profile multinode: multi-node model requires shared storage on the inference environment.",
        "dev: the model's environmentSelector requires tier=production (found dev)",
        "Add 3 nodes to pool frontier of InferenceEnvironment full (maxNodeCount 7)",
    ]
    assert [(u.environment, u.reason) for u in found.unplaced] == [
        ("bare", Refused.SHARED_STORAGE_MISSING),
        ("dev", Refused.NO_ENVIRONMENT_MATCHES),
        ("full", Refused.INSUFFICIENT_CAPACITY),
    ]
    assert (
        found.unplaced[0].message
        == "profile multinode: multi-node model requires shared storage on the inference environment."
    )


def test_explains_why_half_a_node_has_no_room() -> None:
    """Of 16 GPUs three replicas of four would be."""
    host = replace(pool("x", nodes=2), pod=PodAdditions(host_network=True))
    found = explained(request(of=model(profile("p", shape(1, 4)), name="m"), replicas=3), (site("a", host),))
    assert found.message.splitlines() == [
        "0/1 environments can run m: 1 is too small.",
        (
            "a: profile p: pool x is too small: 3 replicas of 1 node x 4 GPUs, each pod with a node to itself "
            "(it uses the node's network ports, or all of its devices), required, the whole pool (2 nodes) holds 2"
        ),
        "Add 1 node to pool x of InferenceEnvironment a (maxNodeCount 3)",
    ]


def test_gives_no_remedy_for_unpublished_capacity() -> None:
    found = explained(request(), (site("a", FRONTIER, uid="1"),))
    assert found.message.splitlines() == [
        "0/1 environments can run kimi-k2-instruct: 1 has insufficient capacity.",
        (
            "a: profile multinode: the environment has not published the free GPUs of pool frontier yet: "
            "1 replica of 2 nodes x 8 GPUs required"
        ),
    ]


def test_placed_names_at_most_five() -> None:
    found = explained(request(7), tuple(site(f"env-{n}", FRONTIER) for n in range(7)))
    assert "env-4" in found.message
    assert "env-5" not in found.message
    assert found.message.endswith(" and 2 more")
    assert found.unplaced == ()


def test_forty_refusals_keep_within_a_kibibyte() -> None:
    """Five lines and how many more there are; 32 entries in the status, each in full."""
    long = tuple(site(f"environment-with-a-long-name-{n:02}", pool(precision=None, bandwidth=None)) for n in range(40))
    found = explained(request(), long)
    assert len(found.message.encode()) <= 1024
    lines = found.message.splitlines()
    assert len(lines) == 7
    assert lines[0].endswith("40 have no pool that satisfies the requirements.")
    assert all("..." in line for line in lines[1:6])
    assert lines[6] == "and 35 more"
    assert len(found.unplaced) == 32
    assert found.unplaced[0].message.endswith("pool pool does not declare precisionSupport, fp8 required")


def test_message_within_the_limit_is_not_truncated() -> None:
    """A long line takes what short ones leave of the limit, wherever it stands."""
    long = site("mislabelled", FRONTIER, ready=False, ready_message="Creating: " + "unready " * 40)
    found = explained(request(), (long, *(site(f"dev-{n}", FRONTIER, labels={"tier": "dev"}) for n in range(4))))
    assert found.message.splitlines()[1:6] == [
        f"mislabelled: {found.unplaced[4].message}",
        *(f"dev-{n}: the model's environmentSelector requires tier=production (found dev)" for n in range(4)),
    ]
    assert "..." not in found.message


def test_counts_more_than_five_kept_placements() -> None:
    own = tuple(placement(f"env-{n}", ready=True) for n in range(7))
    found = explained(request(7), (), own)
    assert "Kept on env-0, env-1, env-2, env-3, env-4 and 2 more" in found.message


@pytest.mark.parametrize("length", [60, 253])
def test_names_of_any_length_keep_within_a_kibibyte(length: int) -> None:
    long = "é" * (length // 2)
    own = tuple(placement(f"{long}{n}", ready=True) for n in range(7))
    for environments in ((), tuple(site(f"{n}{long}", ready_message=long) for n in range(7))):
        found = explained(replace(request(7), model=replace(KIMI, name=long)), environments, own)
        assert len(found.message.encode()) <= 1024


def test_the_order_of_the_inputs_changes_nothing() -> None:
    environments = (site("a", FRONTIER, storage_class=None), site("b"), site("c", FRONTIER, ready=False))
    placements = (MINE, placement("c", "frontier", deployment="other"), placement("b", deployment="third"))
    found = {explained(request(), e, p) for e in permutations(environments) for p in permutations(placements)}
    assert len(found) == 1


def test_every_reason_has_a_text_for_one_and_for_several_environments() -> None:
    verbs = {(r.describe(1).split()[1], r.describe(2).split()[1]) for r in Refused}
    assert verbs == {("has", "have"), ("is", "are"), ("lacks", "lack"), ("rejects", "reject")}
    assert Refused.POOL_TOO_SMALL.describe(1) == "1 is too small"
    assert Refused.SHARED_STORAGE_MISSING.describe(12) == "12 have no shared storage"


def test_reports_placement_with_changed_parallelism() -> None:
    """Expert parallelism switched on: the placement is updated where it is."""
    split = model(profile("multinode", shape(2, 8, Parallelism(tensor=8, pipeline=2, expert=True))))
    found = explained(request(of=split), (site("a", FRONTIER),), (MINE,))
    assert found.message == ("Placed on a (profile multinode, pool frontier, 1 replica of 2 nodes x 8 GPUs)")


def test_joins_messages_after_the_full_stop_of_the_api() -> None:
    said = join_messages([SHARED_STORAGE, "pool a is too small", "so is b"])
    assert said == f"{SHARED_STORAGE} pool a is too small; so is b"


def test_reports_invalid_profile_when_scaling_up() -> None:
    faults = (Problem("spec.serving[0].engine.image", "must not be empty"), Problem("spec.serving[0].a", "b"))
    broken = replace(KIMI, broken=(BrokenEntry(name=MINE.profile, problems=faults),), profiles=(profile("other"),))
    found = explained(request(replicas=2, of=broken), (site("a", FRONTIER),), (MINE,))
    assert found.reason is Refused.INVALID_PROFILE
    assert found.message.splitlines() == [
        "1/1 environments can run kimi-k2-instruct: 1 cannot be scaled up to 2 replicas.",
        (
            f"a: has 1 replica; profile {MINE.profile}: it is invalid: spec.serving[0].engine.image: must not "
            "be empty, spec.serving[0].a: b"
        ),
    ]
