"""All resources that composers compose, in the test cases and in the examples at rest."""

import functools
from collections.abc import Iterator

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.resource import struct_to_dict

from function.composers import COMPOSERS
from function.kube.manifests import Manifest, mapping, text
from tests import test_cases
from tests.support import plane
from tools.cases import NAMES
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

CASES = NAMES
_EXAMPLES = [name for name in plane.APPLIED if name != "recipes"]


# Resources that no example has: a copied pull Secret, a sequential rollout, the service of a deployment, a kept claim.
EVERYTHING = "everything"
STORIES = [*_EXAMPLES, EVERYTHING]
SETTINGS: Manifest = {"gateway": {"name": "models", "url": "https://models.example.com"}}


@functools.cache
def example_requests(story: str) -> tuple[fnv1.RunFunctionRequest, ...]:
    """Returns the request for each composite of an example at rest that observes something."""
    control = _settle_everything() if story == EVERYTHING else plane.plane(story)
    requests = [plane.request_of(control, ref) for ref in control.store.refs(*COMPOSERS)]
    return tuple(request for request in requests if request.observed.resources)


def _settle_everything() -> ControlPlane:
    control = ControlPlane(renderer=Engine(plane.call, SETTINGS), world=_KServe())
    for manifest in plane.manifests("gemma-one-gpu"):
        spec = mapping(manifest, "spec")
        if manifest["kind"] == "InferenceEnvironment":
            spec |= {"imagePullSecrets": [{"secretRef": {"name": "registry"}}], "storage": {"storageClassName": "fast"}}
        if manifest["kind"] == "ModelDeployment":
            retained: Manifest = {"type": "PVC", "retain": True, "size": "60Gi"}
            spec |= {"rollout": {"environments": "OneByOne"}, "service": {}, "modelCache": retained}
        control.apply([manifest])
    control.settle()
    return control


class _KServe(World):
    """Clusters on which KServe reports the Deployment of a service's pods."""

    def advance(self, resource: Manifest, step: int) -> Manifest:
        observed = super().advance(resource, step)
        remote = mapping(observed, "status.atProvider.manifest")
        if remote.get("kind") == "LLMInferenceService":
            name = text(remote, "metadata.name")
            mapping(remote, "status")["workloads"] = {"primary": {"kind": "Deployment", "name": f"{name}-kserve"}}
        return observed


@functools.cache
def collect_composed() -> tuple[tuple[str, Manifest], ...]:
    """Returns all composed resources under their composition-resource-names."""
    return tuple((name, manifest) for _, name, manifest in collect_by_composite())


@functools.cache
def collect_by_composite() -> tuple[tuple[str, str, Manifest], ...]:
    """Returns all composed resources with the kind of their composite and their composition-resource-names."""
    requests = [test_cases.request_of(test_cases.load(name)) for name in CASES]
    requests += [request for story in STORIES for request in example_requests(story)]
    return tuple(_compose_all(requests))


def _compose_all(requests: list[fnv1.RunFunctionRequest]) -> Iterator[tuple[str, str, Manifest]]:
    for request in requests:
        kind = request.observed.composite.resource.fields["kind"].string_value
        for state in (request.observed.resources, plane.call(request).desired.resources):
            for name, item in state.items():
                yield kind, name, struct_to_dict(item.resource)
