"""A control plane on which an example runs: what an API server would list once everything has come up."""

import copy
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from function.kube.manifests import Manifest
from tests.cli.api import ApiServer, serving
from tests.support.plane import call, manifests, plane
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

Live = Callable[..., list[str]]


def controlled(applied: list[Manifest]) -> ControlPlane:
    """Return a control plane with these manifests, at rest: the controller itself, not the command line."""
    control = ControlPlane(Engine(call), World())
    control.apply(applied)
    control.settle()
    return control


def example(story: str) -> list[Manifest]:
    """Return the manifests of an example."""
    return manifests(story)


def find_manifest(manifests: Iterable[Manifest], kind: str) -> Manifest:
    """Return the only manifest of a kind."""
    (manifest,) = [manifest for manifest in manifests if manifest["kind"] == kind]
    return manifest


def _at_rest(story: str) -> list[Manifest]:
    # An API server writes into what it holds.
    return copy.deepcopy(list(plane(story).store.values()))


@pytest.fixture(scope="session")
def kimi() -> list[Manifest]:
    """The example of Kimi K2, at rest and Ready."""
    return _at_rest("kimi-k2-two-nodes")


@pytest.fixture(scope="session")
def cached() -> list[Manifest]:
    """The example of a ModelCache with a deployment on it."""
    return _at_rest("model-cache")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server without any object."""
    with serving(ApiServer()) as running:
        yield running


@pytest.fixture
def live(server: ApiServer, kimi: list[Manifest], tmp_path: Path) -> Live:
    """Return the options with which a command reads the control plane on which Kimi K2 runs."""

    def options(*more: Manifest, namespace: str = "assistants") -> list[str]:
        server.put([*kimi, *more])
        return ["--kubeconfig", server.kubeconfig(tmp_path, namespace)]

    return options
