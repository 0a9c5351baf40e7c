"""A clean apply sends no warning event: while answers are missing that follow in seconds, nothing needs attention."""

from collections.abc import Iterator

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.kube.manifests import Manifest, listing, mapping
from tests.support.plane import APPLIED, call, manifests
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

# The control plane of the tests has no Gateway, which a ModelService is right to miss.
WITHOUT_SERVICES = [story for story in APPLIED if story != "canary"]


def _warnings(applied: list[Manifest]) -> set[tuple[str, str]]:
    """Returns kind and reason of each warning until everything is at rest."""
    found: set[tuple[str, str]] = set()

    def answer(request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        response = call(request)
        kind = request.observed.composite.resource.fields["kind"].string_value
        found.update((kind, r.reason) for r in response.results if r.severity == fnv1.SEVERITY_WARNING)
        return response

    control = ControlPlane(renderer=Engine(answer), world=World())
    control.apply(applied)
    control.settle()
    return found


@pytest.mark.parametrize("story", WITHOUT_SERVICES)
def test_a_clean_apply_warns_of_nothing(story: str) -> None:
    assert _warnings(manifests(story)) == set()


def _pools(applied: list[Manifest]) -> Iterator[Manifest]:
    for manifest in applied:
        yield from listing(manifest, "spec.nodePools")


def test_a_pool_that_is_too_small_is_a_warning() -> None:
    applied = manifests("kimi-k2-two-nodes")
    for each in _pools(applied):
        each["maxNodeCount"] = 1
    assert ("ModelDeployment", "PoolTooSmall") in _warnings(applied)


def test_a_missing_capability_is_a_warning() -> None:
    applied = manifests("gemma-one-gpu")
    for each in _pools(applied):
        mapping(each, "capabilities")["memoryPerGpu"] = "40Gi"
    assert ("ModelDeployment", "NoPoolSatisfiesRequirements") in _warnings(applied)
