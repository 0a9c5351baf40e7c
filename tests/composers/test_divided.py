"""A deployment that divides its replicas, from its manifest to its placements and back to zero."""

import pytest

from function.kube.manifests import Manifest, get, listing, text
from tests.support.plane import change, only, plane, said
from tools.control_plane import ControlPlane

STORY = "two-environments"
SCALING = "spec.scaling"


def scale(control: ControlPlane, replicas: int) -> None:
    scaling: Manifest = {"replicaScheduling": "Divided", "fixed": {"replicas": replicas}}
    change(control, only(control, "ModelDeployment"), SCALING, scaling)
    control.settle()


def counts(control: ControlPlane) -> dict[str, int]:
    rows = listing(control.composites[only(control, "ModelDeployment")], "status.placements")
    return {text(row, "environment"): int(str(row["replicas"])) for row in rows}


def numbers(control: ControlPlane) -> tuple[object, ...]:
    status = control.composites[only(control, "ModelDeployment")]
    return tuple(get(status, f"status.scale.{field}") for field in ("requested", "granted", "replicas"))


def divided(replicas: int) -> ControlPlane:
    control = plane(STORY)
    change(control, only(control, "ModelDeployment"), "spec.environments", None)
    scale(control, replicas)
    return control


def test_grows_and_shrinks_over_environments() -> None:
    control = divided(2)
    deployment = only(control, "ModelDeployment")
    assert sum(counts(control).values()) == 2
    before = counts(control)
    scale(control, 3)
    assert sum(counts(control).values()) == 3
    assert all(counts(control).get(name, 0) >= had for name, had in before.items())
    assert numbers(control) == (3, 3, 3)
    assert said(control, deployment, "Ready")[0] == "True"
    scale(control, 1)
    assert sum(counts(control).values()) == 1
    assert len(counts(control)) == 1
    scale(control, 0)
    assert list(counts(control).values()) == [0]
    scale(control, 1)
    assert sum(counts(control).values()) == 1
    assert said(control, deployment, "ScaledAsRequested") == ("True", "Scaled")


def test_says_what_has_no_room_and_gives_it_room_later() -> None:
    control = divided(1000)
    deployment = only(control, "ModelDeployment")
    granted = sum(counts(control).values())
    assert 2 <= granted < 1000
    assert numbers(control) == (1000, granted, granted)
    assert said(control, deployment, "ScaledAsRequested") == ("False", "Limited")
    assert said(control, deployment, "Ready")[0] == "True", "what runs is Ready"
    ref = control.all("InferenceEnvironment")[0]
    pools = listing(control.composites[ref], "spec.nodePools")
    field = "maxNodeCount" if "maxNodeCount" in pools[0] else "nodeCount"
    larger = [{**pool, field: int(str(pool[field])) + 1} for pool in pools]
    change(control, ref, "spec.nodePools", larger)
    control.settle()
    change(control, deployment, "spec.tolerations", [])  # Crossplane reconciles once the environment has changed
    control.settle()
    assert sum(counts(control).values()) > granted


def test_replicas_beyond_fewer_environments_serve_until_others_replace_them() -> None:
    control = divided(3)
    deployment = only(control, "ModelDeployment")
    assert len(counts(control)) == 2
    change(control, deployment, "spec.environments", 1)
    running = []
    for _ in range(12):
        control.advance()
        running.append(int(str(numbers(control)[2])))
    control.settle()
    assert list(counts(control).values()) == [3]
    assert min(running) == 3


@pytest.mark.parametrize("replicas", [1, 2])
def test_keeps_replicas_while_the_model_is_missing(replicas: int) -> None:
    control = divided(2)
    before = counts(control)
    models = {ref: control.composites.pop(ref) for ref in control.all("ClusterModel")}
    control.settle()
    assert counts(control) == before
    scale(control, replicas)
    assert all(count <= replicas for count in counts(control).values())
    control.apply(models.values())
    control.settle()
    assert sum(counts(control).values()) == replicas
