"""Runs the real Envoy as the gateway of a GPU cluster, and tells it what the cluster's routes say (`envoy.py`).

Envoy watches the files that the controller writes. Statuses are played elsewhere (`players.py`). Runs as a process of
its own: `python -m tools.stack.envoy_controller HOME`.
"""

import json
import sys
import time
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from function.kube.manifests import JSON, Manifest
from tools import programs
from tools.stack import envoy, layout
from tools.stack.api import Api
from tools.stack.layout import Home
from tools.stack.pickers import find_ports
from tools.stack.processes import Program


class Mode(StrEnum):
    """How a gateway reaches pickers: by the ready endpoints of their Service, or by its address, as Envoy AI Gateway
    does (docs/facts.md, AI gateway). There, a connection is refused while no endpoint is ready.
    """

    ENDPOINTS = "endpoints"
    ADDRESS = "address"


ADDRESS = "10.99.1.1"
ADMIN = 19001
_ROUND_SECONDS = 0.25


def list_programs(home: Home) -> tuple[Program, Program]:
    """Return the controller and Envoy."""
    folder = home.root / "envoy"
    folder.mkdir(exist_ok=True)
    bootstrap = folder / "bootstrap.json"
    bootstrap.write_text(json.dumps(envoy.build_bootstrap(ADDRESS, layout.GATEWAY, ADMIN, folder)))
    set_mode(home, Mode.ENDPOINTS)
    for kind in (envoy.ROUTES, envoy.CLUSTERS):
        write(folder / f"{kind}.json", [], 0)
    controller = (sys.executable, "-m", "tools.stack.envoy_controller", str(home.root))
    gateway = (str(programs.wheel("envoy")), "-c", str(bootstrap), "--concurrency", "1", "--disable-hot-restart")
    return Program(name="envoy-controller", argv=controller), Program(name="envoy", argv=gateway)


def set_mode(home: Home, mode: Mode) -> None:
    """Decide how Envoy reaches the pickers from now on."""
    _mode(home).write_text(mode)


def _mode(home: Home) -> Path:
    return home.root / "envoy" / "mode"


@dataclass(slots=True)
class Controller:
    """What Envoy was told last."""

    folder: Path
    version: int = 0
    clusters: dict[str, Manifest] = field(default_factory=dict)  # none goes, as requests may still be on their way
    written: dict[str, JSON] = field(default_factory=dict)

    def tell(self, view: envoy.View) -> None:
        """Write what has changed: endpoints, then clusters, and routes once Envoy has had a round for new clusters."""
        routes, clusters = envoy.build_routes(view)
        for each in clusters:
            self._write(each.name, [envoy.build_endpoints(each)])
        known = len(self.clusters)
        self.clusters |= {each.name: envoy.build_cluster(each, self.folder) for each in clusters}
        self._write(envoy.CLUSTERS, [*self.clusters.values()])
        if known == len(self.clusters):
            self._write(envoy.ROUTES, [envoy.build_route_table(routes)])

    def _write(self, name: str, resources: list[JSON]) -> None:
        if self.written.get(name) != resources:
            self.version += 1
            write(self.folder / f"{name}.json", resources, self.version)
            self.written[name] = resources


def write(path: Path, resources: list[JSON], version: int) -> None:
    """Replace a file at once: Envoy notices that another one has been moved there."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"version_info": str(version), "resources": resources}))
    partial.rename(path)


def main() -> None:
    """Tell until ended; an API server that is away is waited for."""
    home = Home(Path(sys.argv[1]))
    remote, controller = Api(home, "remote"), Controller(home.root / "envoy")
    while True:
        try:
            view = envoy.View(
                routes=remote.find("HTTPRoute"),
                slices=remote.find("EndpointSlice"),
                pools=remote.find("InferencePool"),
                pods=remote.find("Pod"),
                picker_ports=find_ports(home),
                refuses_without_picker=_mode(home).read_text() == Mode.ADDRESS,
            )
            controller.tell(view)
        except OSError as error:
            print(error, flush=True)
        time.sleep(_ROUND_SECONDS)


if __name__ == "__main__":
    main()
