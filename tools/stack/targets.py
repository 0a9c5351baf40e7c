"""What a Prometheus operator finds by the PodMonitors of placements, played: the engines, with the names of the hub.

Prometheus asks for the engines over HTTP, and adds the labels to the series of each one (docs/scale.md, Metrics of the
engines). Runs as a process of its own: `python -m tools.stack.targets HOME`.
"""

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from function.kube.manifests import Manifest, text
from tools.stack import layout
from tools.stack.api import Api
from tools.stack.layout import Home
from tools.stack.processes import Program

NAME = "targets"


def program(home: Home) -> Program:
    """Return the list of engines of a stack."""
    return Program(name=NAME, argv=(sys.executable, "-m", "tools.stack.targets", str(home.root)))


def find_targets(hub: Api, remote: Api) -> Iterator[Manifest]:
    """Return the engines of the first GPU cluster, as Prometheus reads them."""
    for placement in hub.find("ModelPlacement"):
        service = text(placement, "status.service.name")
        if not service:
            continue
        labels = f"app.kubernetes.io/name={service},kserve.io/component=workload"
        for pod in remote.find("Pod", text(placement, "status.service.namespace"), labels):
            if address := text(pod, "status.podIP"):
                yield {
                    "targets": [f"{address}:{layout.ENGINE}"],
                    "labels": {
                        "namespace": text(placement, "metadata.namespace"),
                        "deployment": text(placement, "spec.deploymentRef.name"),
                        "environment": text(placement, "spec.inferenceEnvironmentRef.name"),
                        "pod": text(pod, "metadata.name"),
                    },
                }


class _Handler(BaseHTTPRequestHandler):
    hub: Api
    remote: Api

    def do_GET(self) -> None:  # the base class's name
        """Answer with all engines."""
        body = json.dumps([*find_targets(self.hub, self.remote)]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def main() -> None:
    """Serve until ended."""
    home = Home(Path(sys.argv[1]))
    handler = type("T", (_Handler,), {"hub": Api(home, "hub"), "remote": Api(home, "remote")})
    ThreadingHTTPServer(("127.0.0.1", layout.TARGETS), handler).serve_forever()


if __name__ == "__main__":
    main()
