"""An API server in small, on loopback: lists, reads and writes objects that are given as they would be stored.

`forbidden` names plurals that the caller may not read. `controller` receives every object that is written, and
may write more, as controllers do. `paths`: a cluster of any other kinds, which answers these with a body or a status
and all else with 404; `denied` are the resources and verbs that its reviews of rights refuse.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from function.cli.live import API_VERSIONS
from function.cli.store import CLUSTER_SCOPED
from function.kube.manifests import JSON, Manifest, mapping, text

_KINDS = {f"{kind.lower()}s": kind for kind in API_VERSIONS}
TOKEN = "let-me-in"


@dataclass
class ApiServer:
    """Objects by plural, namespace and name, and the requests so far."""

    objects: dict[tuple[str, str, str], Manifest] = field(default_factory=dict)
    forbidden: frozenset[str] = frozenset()
    controller: Callable[["ApiServer", Manifest], None] | None = None
    requests: list[str] = field(default_factory=list)
    address: str = ""
    paths: dict[str, Manifest | int] = field(default_factory=dict)
    denied: frozenset[tuple[str, str]] = frozenset()

    def put(self, manifests: Iterable[Manifest]) -> None:
        """Store objects; those of other kinds have no part here."""
        for manifest in manifests:
            kind = text(manifest, "kind")
            if kind in API_VERSIONS:
                namespace = "" if kind in CLUSTER_SCOPED else text(manifest, "metadata.namespace")
                self.objects[f"{kind.lower()}s", namespace, text(manifest, "metadata.name")] = manifest

    def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """Return an object."""
        return self.objects.get((f"{kind.lower()}s", namespace, name))

    def kubeconfig(self, folder: Path, namespace: str = "default") -> str:
        """Write a kubeconfig for this server and return its name."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": namespace}}],
            "clusters": [{"name": "here", "cluster": {"server": self.address}}],
            "users": [{"name": "me", "user": {"token": TOKEN}}],
        }
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        return str(file)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes, and the second would wait for 40 ms
    server_state: ApiServer

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:  # the base class's name
        """Answer a list or one object."""
        if self.server_state.paths:
            self._path()
            return
        plural, namespace, name = self._asked()
        if plural == "version":
            self._send(200, {"major": "1", "minor": "34", "gitVersion": "v1.34.2"})
        elif plural in self.server_state.forbidden:
            self._refuse(403, f'{plural} is forbidden: User "me" cannot list resource "{plural}"')
        elif name:
            self._one(plural, namespace, name)
        else:
            stored = self.server_state.objects
            items: list[JSON] = [m for (p, n, _), m in stored.items() if p == plural and namespace in ("", n)]
            self._send(200, {"kind": "List", "items": items})

    def do_POST(self) -> None:  # the base class's name
        """Review a right."""
        self.server_state.requests.append(f"{self.command} {self.path}")
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        refusal = self.server_state.paths.get(urlsplit(self.path).path)
        if isinstance(refusal, int):
            self._refuse(refusal, "no")
            return
        right = mapping(asked, "spec.resourceAttributes")
        allowed = (text(right, "resource"), text(right, "verb")) not in self.server_state.denied
        self._send(201, {**asked, "status": {"allowed": allowed}})

    def do_PATCH(self) -> None:  # the base class's name
        """Apply or merge."""
        plural, namespace, name = self._asked()
        change = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        stored = self.server_state.objects.get((plural, namespace, name))
        if stored is None and "apply" not in self.headers["Content-Type"]:
            self._refuse(404, f'{plural} "{name}" not found')
            return
        merged = {**(stored or {}), **change, "spec": {**mapping(stored, "spec"), **mapping(change, "spec")}}
        self.server_state.objects[plural, namespace, name] = merged
        if self.server_state.controller:
            self.server_state.controller(self.server_state, merged)
        self._send(200, merged)

    def do_DELETE(self) -> None:  # the base class's name
        """Delete at once."""
        found = self.server_state.objects.pop(self._asked(), None)
        self._send(200 if found else 404, found or {"message": "not found"})

    def _path(self) -> None:
        path = urlsplit(self.path).path.rstrip("/")
        self.server_state.requests.append(f"{self.command} {path}")
        found = self.server_state.paths.get(path, 404)
        if isinstance(found, int):
            self._refuse(found, "no")
        else:
            self._send(200, found)

    def _one(self, plural: str, namespace: str, name: str) -> None:
        found = self.server_state.objects.get((plural, namespace, name))
        if found is None:
            self._refuse(404, f'{plural} "{name}" not found')
        else:
            self._send(200, found)

    def _asked(self) -> tuple[str, str, str]:
        """Return plural, namespace and name of `/apis/<group>/<version>[/namespaces/<n>]/<plural>[/<name>]`."""
        path = urlsplit(self.path).path
        self.server_state.requests.append(f"{self.command} {path}")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return "unauthorised", "", ""
        parts = path.strip("/").split("/")
        if parts == ["version"]:
            return "version", "", ""
        parts = parts[3:]
        namespace = parts[1] if parts[0] == "namespaces" else ""
        plural, *name = parts[2:] if namespace else parts
        return plural, namespace, name[0] if name else ""

    def _refuse(self, status: int, message: str) -> None:
        self._send(status, {"kind": "Status", "status": "Failure", "code": status, "message": message})

    def _send(self, status: int, body: Manifest) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(state: ApiServer) -> Iterator[ApiServer]:
    """Answer while the block runs."""
    handler = type("BoundHandler", (_Handler,), {"server_state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    state.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
