"""The control plane in small: what it applies, takes away and never does; deciding is tested elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from function.cli.store import Ref, Store
from function.kube.manifests import JSON, Manifest, condition, get, listing
from function.kube.names import VERSION
from tools.control_plane import ControlPlane, Rendered, UnsettledError

DEPLOYMENT, PLACEMENT = Ref("ModelDeployment", "team", "run"), Ref("ModelPlacement", "team", "run-east")
OBJECT = Ref("Object", "team", "run-east-job")


def manifest(ref: Ref, spec: JSON = None, version: str = VERSION) -> Manifest:
    metadata: Manifest = {"name": ref.name, "namespace": ref.namespace}
    return {"apiVersion": version, "kind": ref.kind, "metadata": metadata, "spec": spec or {}}


JOB: Manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
DESCRIBED = manifest(
    OBJECT,
    {"forProvider": {"manifest": JOB}, "readiness": {"policy": "DeriveFromCelQuery"}},
    "kubernetes.m.crossplane.io/v1alpha1",
)


@dataclass
class FixedRenderer:
    """Renders fixed resources: by reference, what a composite composes now."""

    composes: dict[Ref, Callable[[], dict[str, Manifest]]]

    def render(self, store: Store, refs: Sequence[Ref]) -> list[Rendered]:
        """Return the fixed resources; a composite is ready at once."""
        ready: Manifest = {"conditions": [{"type": "Ready", "status": "True"}]}
        return [
            Rendered(composite={**store[ref], "status": ready}, composed=self.composes.get(ref, dict)()) for ref in refs
        ]


def running() -> tuple[ControlPlane, FixedRenderer]:
    """Return a control plane at rest on which a deployment composes a placement, and that an Object."""
    renderer = FixedRenderer(
        {DEPLOYMENT: lambda: {"placement": manifest(PLACEMENT)}, PLACEMENT: lambda: {"job": DESCRIBED}}
    )
    plane = ControlPlane(renderer)
    plane.apply([manifest(DEPLOYMENT)])
    plane.settle()
    return plane, renderer


def test_composed_resources_are_owned_and_come_up_in_stages() -> None:
    plane, _ = running()
    owners = listing(plane.store[OBJECT], "metadata.ownerReferences")
    assert [(o["kind"], o["name"]) for o in owners] == [("ModelPlacement", PLACEMENT.name)]
    seen = [r.observed[PLACEMENT].get("job") for r in plane.rounds if PLACEMENT in r.observed]
    assert seen[0] is None, "it is not there before it is composed"
    assert get(seen[1], "status") is None, "it is not looked at in the step in which it is created"
    ready = [condition(item, "Ready").get("status") for item in seen[2:]]
    assert ready[:3] == ["False", "False", "True"], "a Job is there, runs, and completes"


def test_deletes_what_is_no_longer_composed() -> None:
    plane, renderer = running()
    renderer.composes[DEPLOYMENT] = dict
    plane.settle()
    assert list(plane.store) == [DEPLOYMENT]


def test_deletes_owned_objects() -> None:
    plane, _ = running()
    plane.delete(DEPLOYMENT)
    assert list(plane.store) == []


def test_recreates_deleted_objects_without_status() -> None:
    plane, renderer = running()
    renderer.composes[PLACEMENT] = dict
    plane.settle()
    renderer.composes[PLACEMENT] = lambda: {"job": DESCRIBED}
    plane.advance()
    assert get(plane.store[OBJECT], "status") is None


def test_keeps_defaults_of_a_schema() -> None:
    plane, _ = running()
    plane.store[PLACEMENT] = {**plane.store[PLACEMENT], "spec": {"defaulted": True}}
    plane.settle()
    assert get(plane.store[PLACEMENT], "spec.defaulted") is True


def test_names_what_keeps_changing() -> None:
    numbers = iter(range(1000))
    plane = ControlPlane(FixedRenderer({DEPLOYMENT: lambda: {"placement": manifest(PLACEMENT, {"n": next(numbers)})}}))
    plane.apply([manifest(DEPLOYMENT)])
    with pytest.raises(UnsettledError, match="still changing after 40 rounds: ModelPlacement team/run-east"):
        plane.settle()
