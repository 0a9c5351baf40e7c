"""The function as a process, and the control plane around it."""

import copy
import itertools
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from function.kube.manifests import Manifest
from tests.conformance import crossplane
from tests.conformance.rest import Rest, at_rest
from tools import programs
from tools.control_plane import ControlPlane
from tools.world import World

EVERYTHING_THERE = World()
ACCEPTANCE = programs.ROOT / "tests" / "acceptance"


@pytest.fixture(scope="session")
def function(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the function on loopback; a bug that it caught and logged fails the run at the end."""
    log = tmp_path_factory.mktemp("function") / "log"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = (str(Path(sys.executable).with_name("function-modelplane")), "--insecure", "--metrics-address", "")
    with log.open("w") as output:
        server = subprocess.Popen((*command, "--address", f"127.0.0.1:{port}"), stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait(server, port, log)
            yield f"localhost:{port}"
        finally:
            server.terminate()
            server.wait(30)
    assert "cannot compose" not in log.read_text(), log.read_text()[-4000:]


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(300):
        if server.poll() is not None:
            pytest.fail(f"the function ended at once:\n{log.read_text()}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the function does not listen")


@pytest.fixture(scope="session")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every schema that manifests are checked against."""
    return crossplane.extensions(tmp_path_factory.mktemp("extensions"))


@pytest.fixture(scope="session")
def control_plane(function: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[World], ControlPlane]:
    """Make control planes, each with files of its own."""
    numbers = itertools.count()

    def make(world: World) -> ControlPlane:
        folder = tmp_path_factory.mktemp(f"control-plane-{next(numbers)}")
        return ControlPlane(crossplane.Renderer(function, folder), world)

    return make


@pytest.fixture(scope="session")
def settle(control_plane: Callable[[World], ControlPlane], schemas: Path) -> Callable[..., Rest]:
    """Apply manifests to a control plane of their own and wait until it is at rest."""

    def apply_and_wait(*manifests: Manifest, world: World = EVERYTHING_THERE) -> Rest:
        plane = control_plane(world)
        plane.apply(manifests)
        return at_rest(plane, schemas)

    return apply_and_wait


@pytest.fixture(scope="session")
def acceptance() -> Callable[..., list[Manifest]]:
    """Read acceptance manifests, all of a file or those of some kinds."""

    def read(name: str, *kinds: str) -> list[Manifest]:
        found = crossplane.read(ACCEPTANCE / f"{name}.yaml")
        return [copy.deepcopy(m) for m in found if not kinds or m["kind"] in kinds]

    return read
