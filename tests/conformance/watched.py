"""An API server in small for programs that list and watch: the kinds of some objects, which never change."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from function.kube.manifests import JSON, Manifest, text

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _build_lists(manifests: Iterable[Manifest]) -> dict[str, list[JSON]]:
    """Return what is listed at each path: the objects of each kind, and the definitions of the kinds."""
    lists = defaultdict[str, list[JSON]](list)
    kinds = set()
    for manifest in manifests:
        kind, version = text(manifest, "kind"), text(manifest, "apiVersion")
        lists[f"/apis/{version}/{kind.lower()}s"].append(manifest)
        kinds.add((kind, *version.split("/")))
    for kind, group, version in sorted(kinds):
        plural = f"{kind.lower()}s"
        names: Manifest = {"kind": kind, "plural": plural}
        spec: Manifest = {"group": group, "names": names, "versions": [{"name": version}]}
        lists[_DEFINITIONS].append(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.{group}", "resourceVersion": "1"},
                "spec": spec,
            }
        )
    return lists


@contextmanager
def watching(manifests: Iterable[Manifest]) -> Iterator[str]:
    """Answer lists and watches on loopback; return the URL."""
    lists = _build_lists(manifests)
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Log nothing."""

        def do_GET(self) -> None:  # the base class's name
            """Answer a list; a watch waits until the end and sees nothing."""
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            # A client that asks for lists as events then asks for a list.
            is_refused = "sendInitialEvents" in query
            self.send_response(422 if is_refused else 200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            if is_refused:
                refusal = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}
                self.wfile.write(json.dumps(refusal).encode())
                return
            if "watch" in query:
                self.wfile.flush()
                ended.wait()
                return
            if url.path == "/version":
                body: Manifest = {"major": "1", "minor": "34", "gitVersion": "v1.34.2"}
            else:
                body = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
                body["items"] = lists.get(url.path, [])
            self.wfile.write(json.dumps(body).encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
