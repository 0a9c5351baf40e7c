"""A placement that Crossplane composed and does not observe, as its list was read from before its last write.

On the real stack two deployments in a race lost sight of their placements so: both ran on, with nobody to delete them.
"""

import copy
from dataclasses import dataclass

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.resource import dict_to_struct

from function.adapter import requests
from function.composers import compose
from function.exchange import Outcome
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.kube.names import COMPOSITION_KEY
from tests.composers.plane import only, plane

ME, OTHER = "uid-of-the-deployment", "uid-of-somebody-else"
_READY: list[JSON] = [{"type": "Ready", "status": "True"}]


def at_rest() -> tuple[Manifest, Manifest, dict[str, list[Manifest]]]:
    """Return a deployment, its placement, and what it is answered; the environment has room for one."""
    control = plane("kimi-k2-two-nodes")
    model, environment, deployment, placement = (
        copy.deepcopy(control.composites[only(control, kind)])
        for kind in ("ClusterModel", "InferenceEnvironment", "ModelDeployment", "ModelPlacement")
    )
    for pool in listing(environment, "spec.nodePools"):
        pool["maxNodeCount"] = 2
    mapping(deployment, "metadata")["uid"] = ME
    return deployment, placement, {"model": [model], "environments": [environment]}


def owned(placement: Manifest, *, by: str, served: bool, created: str, **more: JSON) -> Manifest:
    """Return a placement as the API server has it."""
    copied = copy.deepcopy(placement)
    metadata = mapping(copied, "metadata")
    owner: Manifest = {"apiVersion": "v1", "kind": "ModelDeployment", "name": "x", "uid": by, "controller": True}
    metadata.update({"ownerReferences": [owner], "creationTimestamp": created, **more})
    metadata["annotations"] = {**mapping(metadata, "annotations"), COMPOSITION_KEY: "placement-h200-east"}
    copied["status"] = {"served": True, "conditions": _READY} if served else {}
    return copied


def composed(deployment: Manifest, answers: dict[str, list[Manifest]], *placements: Manifest) -> Outcome:
    """Return what is composed while nothing is observed."""
    request = fnv1.RunFunctionRequest()
    request.observed.composite.resource.CopyFrom(dict_to_struct(deployment))
    for name, items in {**answers, "placements": [*placements]}.items():
        found = [fnv1.Resource(resource=dict_to_struct(item)) for item in items]
        request.required_resources[name].CopyFrom(fnv1.Resources(items=found))
    return compose(requests.read(request))


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    by: str = ME
    served: bool = False
    deleting: bool = False
    first: bool = True
    stays: bool = True
    scheduled: str = "Placed"


CASES = (
    Case("never-served", "it is ours and has its room"),
    Case("served", "what served is never left to itself", served=True),
    Case(
        "must-yield",
        "it goes once it is observed; left out now, nobody would delete it",
        first=False,
        scheduled="InsufficientCapacity",
    ),
    Case("deleting", "what goes is not brought back", deleting=True, stays=False, scheduled="InsufficientCapacity"),
    Case(
        "of-another",
        "a placement that only names the deployment takes its room like anybody's",
        by=OTHER,
        stays=False,
        scheduled="InsufficientCapacity",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_stray_is_composed_again(case: Case) -> None:
    deployment, placement, answers = at_rest()
    more: dict[str, JSON] = {"deletionTimestamp": "2026-01-01T00:00:09Z"} if case.deleting else {}
    orphan = owned(placement, by=case.by, served=case.served, created="2026-01-01T00:00:05Z", **more)
    rival = owned(placement, by=OTHER, served=False, created="2026-01-01T00:00:01Z", name="rival", uid="rival")
    mapping(rival, "spec")["deploymentRef"] = {"name": "another"}
    outcome = composed(deployment, answers, orphan, *([] if case.first else [rival]))
    found = outcome.composed.get("placement-h200-east")
    assert (found is not None) == case.stays, case.reason
    if found is not None:
        assert text(found.manifest, "metadata.name") == text(placement, "metadata.name"), case.reason
        assert get(found.manifest, "spec.topology") == get(placement, "spec.topology"), case.reason
    (scheduled,) = (c.reason for c in outcome.conditions if c.type == "Scheduled")
    assert scheduled == case.scheduled, case.reason
