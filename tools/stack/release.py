"""One version of our product on the hub: XRDs, Compositions, the function's input, and the function itself
over mTLS.

The content is that of the built packages and of the wheel, of any source tree, so that an upgrade is two
releases one after the other. Core is given a FunctionRevision without a Function: a Function would make it
look for the package on a network, whatever its pull policy. Paused, the revision keeps the status that is
written by hand.
"""

import os
import subprocess
import sys
from pathlib import Path

from function.kube.manifests import JSON, Manifest, listing, mapping, text
from tools.stack import layout, packages
from tools.stack.api import Api
from tools.stack.kubectl import Kubectl
from tools.stack.layout import Home
from tools.stack.processes import Processes, Program
from tools.stack.waiting import listens, until

_FUNCTION = "function-modelplane"
_INPUT = "modelplane.fn.crossplane.io/v1beta1"


def install(home: Home, processes: Processes, source: Path = layout.SOURCE) -> None:
    """Install the release of a source tree, over an earlier one if there is one."""
    configuration = packages.build(source / "apis", home.packages / "configuration.xpkg")
    function = packages.build(source / "package", home.packages / "function.xpkg")
    serve(home, processes, source)
    kubectl = Kubectl(home, "hub")
    kubectl.apply([*map(_watching, configuration[1:]), *function[1:]], server_side=True)
    kubectl.apply([_revision()])
    capabilities: JSON = mapping(function[0], "spec").get("capabilities")
    status: Manifest = {
        "endpoint": f"dns:///localhost:{layout.FUNCTION}",
        "capabilities": capabilities or ["composition"],
    }
    Api(home, "hub").patch("FunctionRevision", _revision_name(), {"status": status}, part="status")
    names = [text(doc, "metadata.name") for doc in configuration if doc["kind"] == "CompositeResourceDefinition"]
    kubectl.established("xrd", *names)


def serve(home: Home, processes: Processes, source: Path = layout.SOURCE) -> None:
    """Put the function of a source tree in the place of the one that runs, if any."""
    wheel = home.packages / f"function-{source.name}"
    _install_wheel(source, wheel)
    if _FUNCTION in {record.program.name for record in processes.records()}:
        processes.stop(_FUNCTION)
    processes.start(_program(home, wheel))

    def up() -> bool:
        if _FUNCTION in processes.dead():
            raise RuntimeError(f"the function ended:\n{processes.tail(_FUNCTION)}")
        return listens(layout.FUNCTION)

    until("the function", up)


def _watching(manifest: Manifest) -> Manifest:
    """Return a manifest of ours; a Composition with the default that suits a provider with watches."""
    for step in listing(manifest, "spec.pipeline"):
        step["input"] = {"apiVersion": _INPUT, "kind": "Defaults", "objectWatch": True}
    return manifest


def _program(home: Home, wheel: Path) -> Program:
    return Program(
        name=_FUNCTION,
        argv=(
            str(wheel / "bin" / _FUNCTION),
            f"--address=127.0.0.1:{layout.FUNCTION}",
            f"--tls-server-certs-dir={home.server_tls}",
        ),
        # By variable: a release before metrics has no such option.
        env={"PYTHONPATH": str(wheel), "METRICS_ADDRESS": f"127.0.0.1:{layout.FUNCTION_METRICS}"},
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


def _revision_name() -> str:
    return f"{_FUNCTION}-e2e"


def _revision() -> Manifest:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "FunctionRevision",
        "metadata": {
            "name": _revision_name(),
            "labels": {"pkg.crossplane.io/package": _FUNCTION},
            "annotations": {"crossplane.io/paused": "true"},
        },
        "spec": {
            "image": f"registry.invalid/{_FUNCTION}:v0.0.0",
            "revision": 1,
            "desiredState": "Active",
        },
    }
