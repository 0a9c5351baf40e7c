"""One release of our product on the hub: the function and configuration packages of a source tree, pushed under a
version and installed by Crossplane's package manager, and the function itself over mTLS.

A release may come after another, and an earlier one after a later. The order is the one that docs/install.md asks
for: whichever comes first, no function ever writes a field of the status that its XRD does not know.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from function.kube.manifests import JSON, mapping, text
from tools.stack import layout, manager, packages, upstream
from tools.stack.api import Api
from tools.stack.kubectl import Kubectl
from tools.stack.layout import Home
from tools.stack.processes import Processes, Program
from tools.stack.waiting import listens, until

VERSION = f"v{tomllib.loads((layout.SOURCE / 'pyproject.toml').read_text())['project']['version']}"
FUNCTION = "function-modelplane"
CONFIGURATION = "configuration-modelplane"


def publish(home: Home, source: Path = layout.SOURCE, version: str = VERSION) -> None:
    """Push both packages of a source tree under a version."""
    for root, name in ((source / "package", FUNCTION), (source / "apis", CONFIGURATION)):
        packages.publish(home, root, _reference(name, version))


def upgrade(home: Home, processes: Processes, source: Path, version: str) -> None:
    """Install a later release over the one that is there: first what the function writes, then the function."""
    configure(home, source, version)
    exchange(home, processes, source, version)


def roll_back(home: Home, processes: Processes, source: Path, version: str) -> None:
    """Install an earlier release over the one that is there, in the opposite order."""
    exchange(home, processes, source, version)
    configure(home, source, version)


def configure(home: Home, source: Path = layout.SOURCE, version: str = VERSION) -> None:
    """Have the Configuration of a release, its XRDs established."""
    (meta,) = upstream.read(source / "apis/crossplane.yaml")
    # What a release from before decision 16 depends on has no registry in its name.
    _want(home, "Configuration", CONFIGURATION, version, skipDependencyResolution="dependsOn" in mapping(meta, "spec"))
    manager.install(home, "Configuration", CONFIGURATION)
    definitions = upstream.read(*sorted(source.glob("apis/*/definition.yaml")))
    Kubectl(home, "hub").established("xrd", *(text(doc, "metadata.name") for doc in definitions))


def exchange(home: Home, processes: Processes, source: Path = layout.SOURCE, version: str = VERSION) -> None:
    """Have the Function of a release, and its process in the place of the one that runs."""
    _want(home, "Function", FUNCTION, version)
    endpoint = f"dns:///localhost:{layout.FUNCTION}"
    manager.install(home, "Function", FUNCTION, lambda: serve(home, processes, source), endpoint)


def serve(home: Home, processes: Processes, source: Path = layout.SOURCE) -> None:
    """Put the function of a source tree in the place of the one that runs, if any."""
    wheel = home.packages / f"function-{source.name}"
    _install_wheel(source, wheel)
    if FUNCTION in {record.program.name for record in processes.records()}:
        processes.stop(FUNCTION)
    processes.start(_program(home, wheel))

    def up() -> bool:
        if FUNCTION in processes.dead():
            raise RuntimeError(f"the function ended:\n{processes.tail(FUNCTION)}")
        return listens(layout.FUNCTION)

    until("the function", up)


def _want(home: Home, kind: str, name: str, version: str, **more: JSON) -> None:
    Api(home, "hub").patch(kind, name, {"spec": {"package": _reference(name, version), **more}})


def _reference(name: str, version: str) -> str:
    return f"{packages.REGISTRY}/modelplane/{name}:{version}"


def _program(home: Home, wheel: Path) -> Program:
    return Program(
        name=FUNCTION,
        argv=(
            str(wheel / "bin" / FUNCTION),
            f"--address=127.0.0.1:{layout.FUNCTION}",
            f"--tls-server-certs-dir={home.server_tls}",
        ),
        env={"PYTHONPATH": str(wheel)},
    )


def _install_wheel(source: Path, target: Path) -> None:
    subprocess.run(
        (
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"),
            *(
                "--no-deps",
                "--no-build-isolation",
                "--no-index",
                "--upgrade",
                f"--target={target}",
                str(source),
            ),
        ),
        check=True,
        env=os.environ | {"PIP_CACHE_DIR": str(target.parent / "pip")},
    )
