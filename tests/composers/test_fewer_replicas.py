"""A deployment that is scaled down scales its placements down, whatever else is missing or invalid."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from function.composers import compose
from function.contract import Call
from function.kube.manifests import get, listing, mapping
from tests.support.plane import change, composed_placements, fetched, only, plane, remote, said
from tools.control_plane import ControlPlane

STORY = "gemma-one-gpu"
REPLICAS = "spec.scaling.fixed.replicas"


@dataclass(frozen=True, kw_only=True)
class Case:
    """An input that is removed, and the condition that the deployment then reports."""

    id: str
    loss: Callable[[ControlPlane], None]
    condition: str
    want: tuple[str, str]


def _delete_model(control: ControlPlane) -> None:
    del control.composites[only(control, "ClusterModel")]


def _invalidate_model(control: ControlPlane) -> None:
    change(control, only(control, "ClusterModel"), "spec.source", "Torrent")


def _invalidate_every_profile(control: ControlPlane) -> None:
    ref = only(control, "ClusterModel")
    serving = [{**profile, "engine": {"name": "vLLM"}} for profile in listing(control.composites[ref], "spec.serving")]
    change(control, ref, "spec.serving", serving)


def _delete_environment(control: ControlPlane) -> None:
    del control.composites[only(control, "InferenceEnvironment")]


def _invalidate_environment(control: ControlPlane) -> None:
    change(control, only(control, "InferenceEnvironment"), "spec.storage", "shared-vast")


CASES = (
    Case(id="model-deleted", loss=_delete_model, condition="ModelResolved", want=("False", "ModelNotFound")),
    Case(id="model-invalid", loss=_invalidate_model, condition="ModelResolved", want=("False", "ModelInvalid")),
    Case(
        id="every-profile-invalid",
        loss=_invalidate_every_profile,
        condition="ModelResolved",
        want=("False", "ModelInvalid"),
    ),
    Case(id="environment-deleted", loss=_delete_environment, condition="Scheduled", want=("False", "NoEnvironments")),
    Case(id="environment-invalid", loss=_invalidate_environment, condition="Scheduled", want=("True", "Placed")),
)


def serving(replicas: int) -> ControlPlane:
    """Returns a control plane on which the model serves with this number of replicas."""
    control = plane(STORY)
    change(control, only(control, "ModelDeployment"), REPLICAS, replicas)
    control.settle()
    assert counts(control) == (replicas, replicas)
    return control


def counts(control: ControlPlane) -> tuple[object, object]:
    """Return the replicas of the placement's spec, and those of the service that it composes."""
    placement = only(control, "ModelPlacement")
    (service,) = remote(control, placement, "service-").values()
    return get(control.store[placement], "spec.replicas"), get(service, "spec.replicas")


@pytest.mark.parametrize("wanted", [1, 0], ids=lambda n: f"to-{n}")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_scales_down_while_an_input_is_missing_or_invalid(case: Case, wanted: int) -> None:
    control = serving(3)
    placement, deployment = only(control, "ModelPlacement"), only(control, "ModelDeployment")
    (service,) = remote(control, placement, "service-").values()
    spec = mapping(control.store[placement], "spec")
    case.loss(control)
    control.settle()
    change(control, deployment, REPLICAS, wanted)
    control.settle()
    assert said(control, deployment, case.condition) == case.want
    # Only the number of replicas changes, both of the placement and of the service.
    assert mapping(control.store[placement], "spec") == {**spec, "replicas": wanted}
    (scaled,) = remote(control, placement, "service-").values()
    assert scaled == {**service, "spec": {**mapping(service, "spec"), "replicas": wanted}}
    status = mapping(control.store[deployment], "status")
    assert [get(row, "replicas") for row in listing(status, "placements")] == [wanted]
    # One replica is one pod of one GPU.
    assert status["gpus"] == wanted
    assert get(status, "scale.replicas") == wanted


@pytest.mark.parametrize("case", CASES[:4], ids=lambda c: c.id)
def test_does_not_scale_up_while_input_is_missing(case: Case) -> None:
    control = serving(2)
    case.loss(control)
    control.settle()
    change(control, only(control, "ModelDeployment"), REPLICAS, 3)
    control.settle()
    assert counts(control) == (2, 2)


def test_uses_no_grant_that_it_released_earlier() -> None:
    """Another placement may have the grant. Neither of them may have observed the latest status of the environment."""
    control = serving(2)
    placement, environment = only(control, "ModelPlacement"), only(control, "InferenceEnvironment")
    before = copy.deepcopy(control.composites[environment])
    assert [get(row, "replicas") for row in listing(before, "status.admitted")] == [2]
    change(control, placement, "metadata.generation", 8)
    change(control, only(control, "ModelDeployment"), REPLICAS, 1)
    control.settle()
    released = mapping(control.composites[placement], "status.released")
    assert (released["generation"], released["replicas"]) == (8, 1)

    change(control, placement, "metadata.generation", 9)
    change(control, placement, "spec.replicas", 2)
    others = [m for ref, m in control.composites.items() if ref != environment]
    first = Call(xr=control.composites[placement], observed=control.store.owned(placement))
    outcome = compose(fetched(first, [*others, before]))
    (service,) = (item for key, item in outcome.composed.items() if key.startswith("service-"))
    assert get(service.manifest, "spec.forProvider.manifest.spec.replicas") == 1

    change(control, only(control, "ModelDeployment"), REPLICAS, 2)
    control.settle()
    assert counts(control) == (2, 2)
    (row,) = listing(control.composites[environment], "status.admitted")
    assert (row["replicas"], row["generation"]) == (2, 9)


def test_keeps_environments_while_model_is_missing() -> None:
    """The scheduler needs the model to decide which environment to leave."""
    control = plane("two-environments")
    placements = control.all("ModelPlacement")
    assert len(placements) == 2
    _delete_model(control)
    change(control, only(control, "ModelDeployment"), "spec.environments", 1)
    control.settle()
    assert control.all("ModelPlacement") == placements


def test_scales_down_before_the_model_is_answered() -> None:
    control = serving(3)
    change(control, only(control, "ModelDeployment"), REPLICAS, 1)
    ref = only(control, "ModelDeployment")
    first = Call(xr=control.composites[ref], observed=control.store.owned(ref))
    (placement,) = composed_placements(compose(first)).values()
    assert get(placement, "spec.replicas") == 1


def test_keeps_replicas_of_invalid_deployment() -> None:
    """The replicas of an invalid deployment are unknown."""
    control = serving(3)
    deployment = only(control, "ModelDeployment")
    change(control, deployment, REPLICAS, 1)
    change(control, deployment, "spec.environments", "two")
    control.settle()
    assert said(control, deployment, "ModelResolved")[0] != "True"
    assert counts(control) == (3, 3)
