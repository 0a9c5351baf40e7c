"""If an input is removed or invalid while a model serves, its service is kept, and a condition reports the cause."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, listing, mapping, text
from function.kube.names import LABEL_ENVIRONMENT
from tests.support.plane import change, only, plane, remote, said
from tools.control_plane import ControlPlane

STORY = "kimi-k2-two-nodes"
ROUNDS = 4


def _edit(kind: str, change: Callable[[Manifest], None]) -> Callable[[ControlPlane], None]:
    def apply(control: ControlPlane) -> None:
        ref = only(control, kind)
        edited = copy.deepcopy(control.composites[ref])
        change(edited)
        control.composites[ref] = edited

    return apply


def _delete(kind: str) -> Callable[[ControlPlane], None]:
    def apply(control: ControlPlane) -> None:
        del control.composites[only(control, kind)]

    return apply


def _unready(environment: Manifest) -> None:
    mapping(environment, "status")["conditions"] = [
        {"type": "Ready", "status": "False", "reason": "Creating", "message": "Unready resources: kserve-crd"}
    ]


def _break_model(model: Manifest) -> None:
    mapping(model, "spec")["source"] = "Torrent"


def _break_profile(model: Manifest) -> None:
    for profile in listing(model, "spec.serving"):
        mapping(profile, "replicaTopology")["nodes"] = 3


def _drop_pool(environment: Manifest) -> None:
    pools = listing(environment, "spec.nodePools")
    mapping(environment, "spec")["nodePools"] = [
        pool for pool in pools if mapping(pool, "capabilities").get("multiNodeCapable") is not True
    ]


def _break_pool(environment: Manifest) -> None:
    for pool in listing(environment, "spec.nodePools"):
        mapping(pool, "capabilities")["memoryPerGpu"] = "141 gigs"


def _drop_storage(environment: Manifest) -> None:
    del mapping(environment, "spec")["storage"]


def _break_environment(environment: Manifest) -> None:
    mapping(environment, "spec")["storage"] = "shared-vast"


@dataclass(frozen=True, kw_only=True)
class Case:
    """An input that is removed, and the condition that must report it."""

    id: str
    reason: str
    loss: Callable[[ControlPlane], None]
    kind: str
    condition: str
    want: tuple[str, str]


CASES = (
    Case(
        id="model-deleted",
        reason="a missing model is missing input, not a request to stop serving",
        loss=_delete("ClusterModel"),
        kind="ModelDeployment",
        condition="ModelResolved",
        want=("False", "ModelNotFound"),
    ),
    Case(
        id="model-deleted-placement",
        reason="the placement also reports the missing model",
        loss=_delete("ClusterModel"),
        kind="ModelPlacement",
        condition="ReferencesResolved",
        want=("False", "ModelNotFound"),
    ),
    Case(
        id="model-invalid",
        reason="an invalid edit of a shared model must not take its deployments down",
        loss=_edit("ClusterModel", _break_model),
        kind="ModelDeployment",
        condition="ModelResolved",
        want=("False", "ModelInvalid"),
    ),
    Case(
        id="profile-invalid",
        reason="an invalid profile gets no new placements, but keeps the placement that serves",
        loss=_edit("ClusterModel", _break_profile),
        kind="ModelPlacement",
        condition="ReferencesResolved",
        want=("False", "ModelInvalid"),
    ),
    Case(
        id="environment-not-ready",
        reason="an environment that is not Ready gets no new placements and keeps the existing ones",
        loss=_edit("InferenceEnvironment", _unready),
        kind="ModelDeployment",
        condition="Scheduled",
        want=("True", "Placed"),
    ),
    Case(
        id="environment-deleted",
        reason="a placement on a deleted environment is kept until its replacement is Ready",
        loss=_delete("InferenceEnvironment"),
        kind="ModelPlacement",
        condition="ReferencesResolved",
        want=("False", "EnvironmentNotFound"),
    ),
    Case(
        id="environment-list-empty",
        reason="an empty list of environments does not remove placements",
        loss=_delete("InferenceEnvironment"),
        kind="ModelDeployment",
        condition="Scheduled",
        want=("False", "NoEnvironments"),
    ),
    Case(
        id="environment-invalid",
        reason="an invalid environment keeps its placements",
        loss=_edit("InferenceEnvironment", _break_environment),
        kind="InferenceEnvironment",
        condition="StorageReady",
        want=("False", "NotConfigured"),
    ),
    Case(
        id="pool-removed",
        reason="no other pool fits, so the placement is kept and reports the missing pool",
        loss=_edit("InferenceEnvironment", _drop_pool),
        kind="ModelPlacement",
        condition="ReferencesResolved",
        want=("False", "PoolNotFound"),
    ),
    Case(
        id="pool-removed-deployment",
        reason="the deployment cannot be rescheduled, because the remaining pools are too small",
        loss=_edit("InferenceEnvironment", _drop_pool),
        kind="ModelDeployment",
        condition="Scheduled",
        want=("False", "NoPoolSatisfiesRequirements"),
    ),
    Case(
        id="pool-invalid",
        reason="an invalid pool is not a removed pool",
        loss=_edit("InferenceEnvironment", _break_pool),
        kind="InferenceEnvironment",
        condition="PoolsValid",
        want=("False", "InvalidPool"),
    ),
    Case(
        id="storage-removed",
        reason="the claim exists already, and needs no storage class",
        loss=_edit("InferenceEnvironment", _drop_storage),
        kind="InferenceEnvironment",
        condition="StorageReady",
        want=("False", "NotConfigured"),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_service_stays(case: Case) -> None:
    control = plane(STORY)
    placement = only(control, "ModelPlacement")
    before = control.rounds[-1].rendered[placement].composed
    served = remote(control, placement, "service-")
    assert len(served) == 1, "the story must serve before anything is taken away"
    case.loss(control)
    for _ in range(ROUNDS):
        control.advance()
        after = control.rounds[-1].rendered[placement].composed
        assert remote(control, placement, "service-") == served, case.reason
        assert set(after) == set(before), case.reason
    assert said(control, only(control, case.kind), case.condition) == case.want, case.reason


def test_keeps_what_runs_when_every_status_is_lost() -> None:
    """A restored backup has no statuses. The composed resources are in the spec, also those of a waiting placement."""
    control = plane(STORY)
    environment, placement = only(control, "InferenceEnvironment"), only(control, "ModelPlacement")
    (pool,) = listing(control.composites[environment], "spec.nodePools")
    change(control, environment, "spec.nodePools", [{**pool, "maxNodeCount": 2}])
    control.settle()
    running, services = control.composites[placement], remote(control, placement, "service-")
    waiting = {"name": "waiting", "namespace": "other", "uid": "0", "creationTimestamp": "2020-01-01T00:00:00Z"}
    labels: Manifest = {LABEL_ENVIRONMENT: environment.name}
    control.composites[Ref("ModelPlacement", "other", "waiting")] = {
        **{key: running[key] for key in ("apiVersion", "kind", "spec")},
        "metadata": {**waiting, "labels": labels},
    }
    objects: list[JSON] = [
        {key: composed[key] for key in ("apiVersion", "kind")} | {"name": text(composed, "metadata.name")}
        for composed in control.store.owned(placement).values()
    ]
    change(control, placement, "spec.crossplane", {"resourceRefs": objects})
    for ref in list(control.composites):
        if "status" in control.composites[ref] and ref.kind != "Object":
            change(control, ref, "status", None)
    for _ in range(ROUNDS):
        control.advance()
        assert remote(control, placement, "service-") == services
    admitted = listing(control.composites[environment], "status.admitted")
    assert [text(row, "name") for row in admitted] == [placement.name]
