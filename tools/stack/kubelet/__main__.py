"""Runs the pods of the nodes that carry its label, until it is ended: `python -m tools.stack.kubelet HOME`."""

import signal
import sys
import time
from pathlib import Path

from function.kube.manifests import JSON, Manifest, strings, text
from tools.stack.api import Api
from tools.stack.kubelet.node import LABEL
from tools.stack.kubelet.pods import Place, PodRunner
from tools.stack.kubelet.sandbox import build_bridge
from tools.stack.kubelet.status import write_time
from tools.stack.kubelet.variables import hostname
from tools.stack.layout import Home

_ROUND, _HEARTBEAT = 0.5, 30


class Kubelet:
    """The pods of some nodes."""

    def __init__(self, home: Home) -> None:
        self._api = Api(home, "remote")
        folder = home.root / "kubelet"
        self._place = Place(
            pods=folder / "pods",
            claims=folder / "claims",
            images=folder / "images",
            logs=home.logs,
            hosts=folder / "hosts",
        )
        for path in (self._place.pods, self._place.claims, self._place.images):
            path.mkdir(parents=True, exist_ok=True)
        self._place.hosts.touch()
        self._runners: dict[str, PodRunner] = {}
        self._started, self._beat = 0, 0.0

    def look(self) -> None:
        """Starts pods that are new, tells the others how they are wanted, and says that the nodes are there."""
        nodes = self._api.find("Node", labels=LABEL)
        if time.monotonic() - self._beat > _HEARTBEAT:
            for node in nodes:
                self._write_node(node)
            self._beat = time.monotonic()
        names = {text(node, "metadata.name") for node in nodes}
        pods = {text(p, "metadata.uid"): p for p in self._api.find("Pod") if text(p, "spec.nodeName") in names}
        for uid, pod in pods.items():
            if uid not in self._runners:
                self._runners[uid] = PodRunner(self._api, pod, self._started, self._place)
                self._started += 1
                self._write_hosts()
                self._runners[uid].start()
            self._runners[uid].pod = pod
        for uid in self._runners.keys() - pods.keys():
            self._runners.pop(uid).is_gone = True
            self._write_hosts()

    def end(self) -> None:
        """Ends every pod at once."""
        for runner in self._runners.values():
            runner.is_gone = True
        for runner in self._runners.values():
            runner.join(30)

    def _write_node(self, node: Manifest) -> None:
        now = write_time(time.time())
        ready: JSON = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": now,
            "lastTransitionTime": text(node, "metadata.creationTimestamp"),
        }
        self._api.patch("Node", text(node, "metadata.name"), {"status": {"conditions": [ready]}}, part="status")

    def _write_hosts(self) -> None:
        """Writes the names of all pods, in place, as their containers see this very file."""
        lines = ["127.0.0.1 localhost"]
        for runner in self._runners.values():
            name, spec = hostname(runner.pod), strings(runner.pod, "spec")
            domain = f"{name}.{spec.get('subdomain', '')}.{text(runner.pod, 'metadata.namespace')}"
            full = f"{domain}.svc.cluster.local {domain}.svc {domain} " if "subdomain" in spec else ""
            lines.append(f"{runner.address} {full}{name}")
        with self._place.hosts.open("r+") as file:
            file.write("\n".join(lines) + "\n")
            file.truncate()


def main() -> None:
    """Run until ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    build_bridge()
    kubelet = Kubelet(Home(Path(sys.argv[1])))
    try:
        while True:
            try:
                kubelet.look()
            except OSError as error:  # the API server is away
                print(error, flush=True)
            time.sleep(_ROUND)
    finally:
        kubelet.end()


if __name__ == "__main__":
    main()
