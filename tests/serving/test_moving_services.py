"""A service that another shape or pool replaces: how many replicas each may have, and what is charged meanwhile."""

import copy
from dataclasses import dataclass

import pytest

from function.kube.manifests import JSON, Manifest, get, listing, text
from tests.support.remote_scene import (
    SEVERAL_NODES,
    Edit,
    Scene,
    edit_model,
    edit_observed,
    edit_placement,
    load_scene,
    remote_manifests,
    set_field,
)

OLD: dict[str, JSON] = {"pool": "h200", "nodes": 2, "gpusPerNode": 8}
HALF: dict[str, JSON] = {**OLD, "gpusPerNode": 4}
WIDE: dict[str, JSON] = {**OLD, "nodes": 3}
OTHER: dict[str, JSON] = {**OLD, "pool": "other"}
OTHER_HALF: dict[str, JSON] = {**HALF, "pool": "other"}
REVISION, UNPLANNABLE = edit_model("huggingFace.revision", "v2"), edit_placement("modelCache", {"type": "EmptyDir"})
MIRRORED = "status.atProvider.manifest"


def grants(*rows: tuple[dict[str, JSON], int]) -> Edit:
    """Let the environment report the number of admitted replicas for each of these shapes."""

    def edit(found: Scene) -> None:
        uid = text(found.xr, "metadata.uid")
        set_field(found.answers["environment"], "metadata.uid", "of-the-environment")
        published: list[JSON] = [{**share, "replicas": replicas, "uid": uid} for share, replicas in rows]
        set_field(found.answers["environment"], "status.admitted", published)

    return edit


def runs(replicas: int, share: dict[str, JSON] = OLD) -> Edit:
    """Let the service of 2 x 8 GPUs have so many replicas, on the cluster as well."""

    def edit(found: Scene) -> None:
        for path in ("spec.forProvider.manifest", MIRRORED):
            edit_observed("service-", f"{path}.spec.replicas", replicas)(found)
        set_field(found.xr, "status.service", {**share, "replicas": replicas, "name": "a", "namespace": "b"})

    return edit


def asks(share: dict[str, JSON], replicas: int) -> Edit:
    """Let the placement ask for so many replicas of a shape in a pool."""

    def edit(found: Scene) -> None:
        nodes, gpus = share["nodes"], share["gpusPerNode"]
        split: JSON = {"tensor": gpus, "pipeline": nodes}
        set_field(found.xr, "spec.topology", {"nodes": nodes, "gpusPerNode": gpus, "parallelism": split})
        set_field(found.xr, "spec.pool", share["pool"])
        set_field(found.xr, "spec.replicas", replicas)
        pools = listing(found.answers["environment"], "spec.nodePools")
        if all(text(pool, "name") != "other" for pool in pools):
            other: Manifest = {**copy.deepcopy(pools[0]), "name": "other", "labels": {"pool": "other"}}
            set_field(found.answers["environment"], "spec.nodePools", [*pools, other])

    return edit


def held(found: Scene) -> dict[str, JSON]:
    """Return what the placement says that it holds."""
    status = found.outcome().status
    return {key: get(status, f"service.{key}") for key in (*OLD, "replicas")}


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    edits: tuple[Edit, ...]
    want: int


CASES = (
    Case("shape", "two replicas of the new shape and one of the old shape are admitted",
         (asks(HALF, 2), grants((OLD, 1), (HALF, 2))), 1),
    Case("pool", "two replicas in the other pool are admitted", (asks(OTHER, 2), grants((OLD, 1), (OTHER, 2))), 1),
    Case("both",
        "two replicas of another shape in another pool are admitted",
        (asks(OTHER_HALF, 2), grants((OLD, 1), (OTHER_HALF, 2))), 1),
    Case("nodes",
        "a group with another number of nodes is another service",
        (asks(WIDE, 2), grants((OLD, 1), (WIDE, 2))), 1),
    Case("own-shape", "the environment withdraws a grant for the old shape",
         (asks(HALF, 3), grants((OLD, 2), (HALF, 3))), 1),
    Case("same", "no other shape is requested", (asks(OLD, 2), grants((OLD, 2))), 2),
    Case("status-lost", "the status of the environment is lost", (asks(HALF, 2), grants()), 1),
    Case("old-grant-lost",
        "the status of the environment has no grant for the old shape",
        (asks(HALF, 2), grants((HALF, 2))), 1),
    Case("unknown", "the status of the placement does not report the allocated replicas",
         (asks(HALF, 2), grants((HALF, 2)), lambda found: set_field(found.xr, "status.service", None)), 1),
    Case("from-a-file", "without a ledger, the old shape keeps its observed replicas", (asks(HALF, 2),), 1),
)  # fmt: skip


@pytest.mark.parametrize("bytes_", [REVISION, UNPLANNABLE], ids=["bytes", "no-plan"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_keeps_old_service_at_its_replicas_while_new_shape_downloads(case: Case, bytes_: Edit) -> None:
    """A release allocated 24 of 16 GPUs, because it gave the replicas of the new shape to the old one."""
    outcome = load_scene(SEVERAL_NODES).edited(runs(1), *case.edits, bytes_).outcome()
    (service,) = remote_manifests(outcome, "service-").values()
    assert get(service, "spec.replicas") == case.want, case.reason
    if case.id != "unknown":
        assert get(outcome.status, "service.gpusPerNode") == 8, "the running pods have the old shape"


def test_scales_down_old_shape_while_new_shape_downloads() -> None:
    found = load_scene(SEVERAL_NODES).edited(runs(3), asks(HALF, 1), grants((OLD, 3), (HALF, 1)), REVISION)
    (service,) = remote_manifests(found.outcome(), "service-").values()
    assert get(service, "spec.replicas") == 1


def test_new_shape_starts_with_its_admitted_replicas() -> None:
    """The old service has three replicas, and two replicas of the new shape are admitted."""
    found = load_scene(SEVERAL_NODES).edited(runs(3), asks(HALF, 3), grants((OLD, 3), (HALF, 2)))
    (service,) = remote_manifests(found.outcome(), "service-").values()
    assert get(service, "spec.replicas") == 2


def test_old_shape_is_allocated_until_cluster_has_new_shape() -> None:
    """During an outage the old pods continue to run, so that no other placement may use their GPUs."""
    written = load_scene(SEVERAL_NODES).edited(runs(2), asks(HALF, 2), grants((OLD, 2), (HALF, 2)))
    assert held(written) == {**OLD, "replicas": 2}, "the new service is only desired and does not exist yet"
    new = written.settled().edited(
        lambda found: set_field(found.xr, "status.service", written.outcome().status["service"])
    )
    assert held(new) == {**OLD, "replicas": 2}
    (service,) = new.composed().values()
    there = new.edited(edit_observed("service-", MIRRORED, {**service, "status": {}}))
    assert held(there) == {**HALF, "replicas": 2}


def test_old_group_is_allocated_while_its_object_is_deleted() -> None:
    """Crossplane no longer lists the old service, whose pods run until it is deleted."""
    moving = load_scene(SEVERAL_NODES).edited(runs(1), asks(WIDE, 1), grants((OLD, 1), (WIDE, 1)))
    (old,) = (copy.deepcopy(m) for key, m in moving.observed.items() if key.startswith("service-"))
    after = moving.settled().edited(
        lambda found: set_field(found.xr, "status.service", moving.outcome().status["service"])
    )
    set_field(old, "metadata.deletionTimestamp", "2026-01-01T00:00:00Z")
    assert held(after.edited(lambda found: found.answers.update(objects=old))) == {**OLD, "replicas": 1}
    assert held(after) == {**WIDE, "replicas": 1}, "the old service is deleted"


def test_old_replicas_are_allocated_until_cluster_has_fewer() -> None:
    fewer = load_scene(SEVERAL_NODES).edited(runs(3), asks(OLD, 1), grants((OLD, 3)))
    assert [get(service, "spec.replicas") for service in fewer.composed().values()] == [1]
    assert held(fewer) == {**OLD, "replicas": 3}, "the last observed service counts"
    assert held(fewer.edited(edit_observed("service-", f"{MIRRORED}.spec.replicas", 1))) == {**OLD, "replicas": 1}


def test_other_group_is_allocated_while_it_is_observed() -> None:
    """The old service is no longer desired, but its pods run until it is deleted."""
    moving = load_scene(SEVERAL_NODES).edited(runs(1), asks(WIDE, 1), grants((OLD, 1), (WIDE, 1)))
    assert held(moving) == {**OLD, "replicas": 1}
    gone = moving.settled().edited(
        lambda found: set_field(found.xr, "status.service", moving.outcome().status["service"])
    )
    assert held(gone) == {**WIDE, "replicas": 1}
