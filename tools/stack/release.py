"""One release of our product on the hub: the function and configuration packages of a source tree, pushed under a
version and installed by Crossplane's package manager, and the function itself over mTLS.

A release may come after another, and an earlier one after a later. The order is the one that docs/install.md asks
for: whichever comes first, no function ever writes a field of the status that its XRD does not know.
"""

import os
import tomllib
from pathlib import Path

from function.kube.manifests import JSON, mapping, text
from tools import package_roots
from tools.stack import layout, manager, packages, runtime, upstream
from tools.stack.api import Api
from tools.stack.kubectl import Kubectl
from tools.stack.layout import Home
from tools.stack.processes import Processes
from tools.stack.waiting import listens, until

VERSION = f"v{tomllib.loads((layout.SOURCE / 'pyproject.toml').read_text())['project']['version']}"
FUNCTION = runtime.NAME
CONFIGURATION = "configuration-modelplane"
IMAGE_VARIABLE = "MODELPLANE_IMAGE"


def publish(home: Home, source: Path = layout.SOURCE, version: str = VERSION) -> None:
    """Push both packages of a source tree under a version."""
    packages.publish(home, source / "package", _reference(FUNCTION, version), _image(source))
    packages.publish(home, source / "apis", _reference(CONFIGURATION, version))


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
    run(home, processes, source, version)


def run(
    home: Home, processes: Processes, source: Path = layout.SOURCE, version: str = VERSION, name: str = FUNCTION
) -> None:
    """Wait until the Function of a release is installed under a name, and run it in the place of the one that runs."""
    endpoint = f"dns:///localhost:{layout.FUNCTION}"
    manager.install(home, "Function", name, lambda: _serve(home, processes, source, version), endpoint)


def publish_bundle(home: Home, version: str = VERSION) -> str:
    """Push the package that brings all others under a version, and return its reference."""
    bundle = describe_release(version)
    root = package_roots.write_bundle(home.packages / f"{package_roots.BUNDLE}-{version}", bundle)
    reference = f"{bundle.registry}/modelplane/{package_roots.BUNDLE}:{version}"
    packages.push(home, root, reference)
    return reference


def describe_release(version: str = VERSION) -> package_roots.Release:
    """Return where the packages of a version are on this stack."""
    return package_roots.Release(registry=packages.REGISTRY, provider_registry=packages.REGISTRY, tag=version)


def _serve(home: Home, processes: Processes, source: Path, version: str) -> None:
    """Put the function of a release in the place of the one that runs, if any."""
    carried = _image(source) is not None
    reference = _reference(FUNCTION, version)
    program = runtime.from_package(home, reference) if carried else runtime.from_source(home, source)
    if FUNCTION in {record.program.name for record in processes.records()}:
        processes.stop(FUNCTION)
    processes.start(program)

    def up() -> bool:
        if FUNCTION in processes.dead():
            raise RuntimeError(f"the function ended:\n{processes.tail(FUNCTION)}")
        return listens(layout.FUNCTION)

    until("the function", up)


def _image(source: Path) -> Path | None:
    """Return the runtime image of this tree, where the stack was given one; that of an earlier tree was not built."""
    given = os.environ.get(IMAGE_VARIABLE)
    return Path(given) if given and source == layout.SOURCE else None


def _want(home: Home, kind: str, name: str, version: str, **more: JSON) -> None:
    Api(home, "hub").patch(kind, name, {"spec": {"package": _reference(name, version), **more}})


def _reference(name: str, version: str) -> str:
    return f"{packages.REGISTRY}/modelplane/{name}:{version}"
