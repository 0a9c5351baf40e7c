"""An edit of pods of one node on a full pool: what cannot be rolled out is said as it is written, and nothing else is.

KServe leaves the strategy of its Deployment to Kubernetes: a quarter may be missing, rounded down, and a quarter be
there beside, rounded up. So up to three replicas are replaced by pods that come first [docs/facts.md].
"""

from dataclasses import dataclass

import pytest

from function.kube.manifests import JSON, integer, mapping, text
from tests.support.remote_scene import (
    ONE_NODE,
    SEVERAL_NODES,
    Edit,
    Scene,
    composed_service,
    edit_environment,
    edit_model,
    edit_observed,
    edit_placement,
    load_scene,
    set_field,
)

IMAGE = edit_model("serving.0.engine.image", "vllm/vllm-openai:v9")


def replicas(number: int, runs: int | None = None) -> Edit:
    """Let the placement ask for so many replicas, and its service have as many, or so many."""

    def edit(found: Scene) -> None:
        edit_placement("replicas", number)(found)
        path = "spec.forProvider.manifest.spec.replicas"
        edit_observed("service-", path, number if runs is None else runs)(found)

    return edit


def free(*levels: tuple[int, int]) -> Edit:
    """Let the environment have admitted the placement, and say of its pool that this is left: (free GPUs, nodes)."""

    def edit(found: Scene) -> None:
        spec, topology = mapping(found.xr, "spec"), mapping(found.xr, "spec.topology")
        row: JSON = {
            "uid": text(found.xr, "metadata.uid"),
            "pool": spec["pool"],
            "nodes": topology["nodes"],
            "gpusPerNode": topology["gpusPerNode"],
            "replicas": spec["replicas"],
        }
        left: JSON = [{"gpus": gpus, "nodes": nodes} for gpus, nodes in levels]
        set_field(found.answers["environment"], "metadata.uid", "of-the-environment")
        set_field(found.answers["environment"], "status.admitted", [row])
        set_field(found.answers["environment"], "status.pools", [{"name": spec["pool"], "placements": 1, "free": left}])

    return edit


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    edits: tuple[Edit, ...]
    stuck: bool
    story: str = ONE_NODE


HOST_NETWORK = edit_environment("nodePools.0.pod", {"hostNetwork": True})
CASES = (
    Case(
        "full",
        "an edit is stuck if no GPU is free for the new pod, which starts first",
        (replicas(1), free(), IMAGE),
        True,
    ),
    Case(
        "one-free", "an edit is not stuck if a GPU is free for the new pod", (replicas(1), free((1, 1)), IMAGE), False
    ),
    Case(
        "whole",
        "a pod in the host network needs a node whose ports are free",
        (replicas(1), HOST_NETWORK, free((3, 1)), IMAGE),
        True,
    ),
    Case(
        "whole-free",
        "a pod in the host network has room on a free node",
        (replicas(1), HOST_NETWORK, free((3, 1), (4, 1)), IMAGE),
        False,
    ),
    Case("three", "of three replicas, none may be missing during a rollout", (replicas(3), free(), IMAGE), True),
    Case("four", "of four replicas, one may be missing during a rollout", (replicas(4), free(), IMAGE), False),
    Case(
        "fewer", "a replica that is scaled down makes room for the new pod", (replicas(1, runs=2), free(), IMAGE), False
    ),
    Case(
        "from-zero",
        "a service without running pods has no pod that blocks the new one",
        (replicas(1, runs=0), free(), IMAGE),
        False,
    ),
    Case("no-edit", "without an edit, no pod is replaced", (replicas(1), free()), False),
    Case("more", "another number of replicas replaces no pod", (replicas(2, runs=1), free()), False),
    Case(
        "groups",
        "a LeaderWorkerSet deletes a group before it creates the next one",
        (replicas(1), free(), IMAGE),
        False,
        SEVERAL_NODES,
    ),
)


def _said(found: Scene) -> list[str]:
    return [event.message for event in found.outcome().events if event.reason == "RolloutNeedsRoom"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reports_blocked_rollout(case: Case) -> None:
    edited = load_scene(case.story).edited(*case.edits)
    assert bool(_said(edited)) is case.stuck, case.reason
    assert _said(edited.settled()) == [], "the event is sent only when the edit is applied"


def test_blocked_rollout_names_missing_capacity() -> None:
    (said,) = _said(load_scene(ONE_NODE).edited(replicas(1), free(), IMAGE))
    assert said == (
        "The edit is applied, and KServe starts a new pod before it stops an old one: pool h100 of h100-west has no "
        "room for 1 replica of 1 node x 1 GPU beside the running ones, no GPU is free. The old pods keep serving "
        "until there is room. With rollout.whenFull: Replace, they end before the new pods start"
    )


def test_environment_in_file_blocks_no_rollout() -> None:
    assert _said(load_scene(ONE_NODE).edited(replicas(1), IMAGE)) == []


REPLACE = edit_placement("rollout", {"whenFull": "Replace"})
_MIRROR = "status.atProvider.manifest"


def _count(found: Scene) -> int:
    return integer(composed_service(found), "spec.replicas")


def test_stops_all_replicas_before_new_pods_start_where_that_is_requested() -> None:
    edited = load_scene(ONE_NODE).edited(replicas(2), free(), IMAGE, REPLACE)
    assert _said(edited) == [], "the update does not wait for room"
    assert _count(edited) == 0
    assert "vllm/vllm-openai:v9" in str(composed_service(edited))

    written = edited.settled()
    assert _count(written) == 0, "the cluster still has the earlier service"
    ready = f"{_MIRROR}.status.workloads.primary.readyReplicas"
    seen = written.edited(edit_observed("service-", _MIRROR, composed_service(edited)))
    assert _count(seen.edited(edit_observed("service-", ready, 1))) == 0, "a pod of the earlier spec has not ended"
    outdated = edit_observed("service-", f"{_MIRROR}.metadata.generation", 2)
    behind = edit_observed("service-", f"{_MIRROR}.status.observedGeneration", 1)
    assert _count(seen.edited(outdated, behind)) == 0, "KServe has not observed the change"
    assert seen.condition("ServiceReady").status == "False", (
        "the service has no available pod, although KServe reports Ready"
    )

    started = seen.edited(edit_observed("service-", ready, 0))
    assert _count(started) == 2
    assert _count(started.settled()) == 2, "the update is complete"


@pytest.mark.parametrize("edit", [free((1, 1)), replicas(4)], ids=["room", "four"])
def test_replaces_one_pod_after_the_other_where_kubernetes_can(edit: Edit) -> None:
    edited = load_scene(ONE_NODE).edited(replicas(1), free(), edit, IMAGE, REPLACE)
    assert _count(edited) > 0


def test_starts_replicas_after_a_scale_to_zero_at_once() -> None:
    scaled = load_scene(ONE_NODE).edited(replicas(0), free(), REPLACE).settled()
    scaled = scaled.edited(edit_observed("service-", _MIRROR, composed_service(scaled)))
    assert _count(scaled.edited(edit_placement("replicas", 2), free((2, 1)))) == 2
