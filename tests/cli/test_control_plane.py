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
class Told:
    """Renders what it is told: by reference, what a composite composes now."""

    composes: dict[Ref, Callable[[], dict[str, Manifest]]]

    def render(self, store: Store, refs: Sequence[Ref]) -> list[Rendered]:
        """Return what was told; a composite is ready at once."""
        ready: Manifest = {"conditions": [{"type": "Ready", "status": "True"}]}
        return [
            Rendered(composite={**store[ref], "status": ready}, composed=self.composes.get(ref, dict)()) for ref in refs
        ]


def running() -> tuple[ControlPlane, Told]:
    """Return a control plane at rest on which a deployment composes a placement, and that an Object."""
    told = Told({DEPLOYMENT: lambda: {"placement": manifest(PLACEMENT)}, PLACEMENT: lambda: {"job": DESCRIBED}})
    plane = ControlPlane(told)
    plane.apply([manifest(DEPLOYMENT)])
    plane.settle()
    return plane, told


def test_what_is_composed_is_owned_and_comes_up_step_by_step() -> None:
    plane, _ = running()
    owners = listing(plane.store[OBJECT], "metadata.ownerReferences")
    assert [(o["kind"], o["name"]) for o in owners] == [("ModelPlacement", PLACEMENT.name)]
    seen = [r.observed[PLACEMENT].get("job") for r in plane.rounds if PLACEMENT in r.observed]
    assert seen[0] is None, "it is not there before it is composed"
    assert get(seen[1], "status") is None, "it is not looked at in the step in which it is created"
    ready = [condition(item, "Ready").get("status") for item in seen[2:]]
    assert ready[:3] == ["False", "False", "True"], "a Job is there, runs, and completes"


def test_what_is_not_composed_any_more_goes_with_all_that_it_composed() -> None:
    plane, told = running()
    told.composes[DEPLOYMENT] = dict
    plane.settle()
    assert list(plane.store) == [DEPLOYMENT]


def test_the_garbage_collector_takes_what_is_below() -> None:
    plane, _ = running()
    plane.delete(DEPLOYMENT)
    assert list(plane.store) == []


def test_what_comes_back_is_created_anew() -> None:
    plane, told = running()
    told.composes[PLACEMENT] = dict
    plane.settle()
    told.composes[PLACEMENT] = lambda: {"job": DESCRIBED}
    plane.advance()
    assert get(plane.store[OBJECT], "status") is None


def test_defaults_that_a_schema_added_stay() -> None:
    plane, _ = running()
    plane.store[PLACEMENT] = {**plane.store[PLACEMENT], "spec": {"defaulted": True}}
    plane.settle()
    assert get(plane.store[PLACEMENT], "spec.defaulted") is True


def test_what_keeps_changing_is_named() -> None:
    numbers = iter(range(1000))
    plane = ControlPlane(Told({DEPLOYMENT: lambda: {"placement": manifest(PLACEMENT, {"n": next(numbers)})}}))
    plane.apply([manifest(DEPLOYMENT)])
    with pytest.raises(UnsettledError, match="still changing after 40 rounds: ModelPlacement team/run-east"):
        plane.settle()
