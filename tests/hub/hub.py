"""A model hub on loopback that can misbehave: the part of its API that the initializer's client uses.

Every revision is the same commit; a fault is a status for every call whose path contains some text, or a file that
breaks off half-way. Files of `redirects` are sent under another host name, as by a content delivery network. `requests`
lists what was asked for.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """One repository, `owner/model`, and how the hub behaves."""

    files: dict[str, bytes]
    endpoint: str = ""
    token: str = ""
    statuses: dict[str, int] = field(default_factory=dict)
    redirects: set[str] = field(default_factory=set)
    cut: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # of files, where they are said to be larger than they are
    hold: threading.Event | None = None
    requests: list[str] = field(default_factory=list)

    def status(self, path: str) -> int:
        """Return the status for a path."""
        return next((status for text, status in self.statuses.items() if text in path), 200)

    def fetched(self) -> list[str]:
        """Return the files whose bytes were sent, in the order of their names."""
        return sorted(r.split("/", 6)[-1] for r in self.requests if r.startswith("GET") and "/resolve/" in r)


AnyHub = TypeVar("AnyHub", bound=Hub)


class Handler(BaseHTTPRequestHandler):
    """Answers as the hub does."""

    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:  # the base class's name
        """Answer with the headers alone."""
        self._answer(body=False)

    def do_GET(self) -> None:  # the base class's name
        """Answer with the body."""
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        status = self.hub.status(path)
        if self.hub.token and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            status = 401
        if status != 200:
            self._send(status, b'{"error": "no"}', {"Content-Type": "application/json"}, body=body)
        elif "/resolve/" in path:
            self._resolve(path.partition("/resolve/")[2].partition("/")[2], body=body)
        elif path.startswith("/cdn/"):
            self._file(path.removeprefix("/cdn/"), body=body)
        else:
            self._send(200, json.dumps(self._listing(path)).encode(), {"Content-Type": "application/json"}, body=body)

    def _listing(self, path: str) -> object:
        if "/tree/" in path:
            return [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in self.hub.files.items()
            ]
        sizes = {name: len(data) for name, data in self.hub.files.items()} | self.hub.sizes
        siblings = [{"rfilename": name, "size": size} for name, size in sizes.items()]
        return {"id": "owner/model", "modelId": "owner/model", "sha": COMMIT, "siblings": siblings}

    def _resolve(self, name: str, *, body: bool) -> None:
        """Send the file, or a link to the content delivery network: this server under another name."""
        if name not in self.hub.redirects:
            self._file(name, body=body)
            return
        data = self.hub.files[name]
        location = f"{self.hub.endpoint.replace('127.0.0.1', 'localhost')}/cdn/{name}"
        headers = {"Location": location, "X-Linked-Size": str(len(data)), "X-Linked-ETag": self._headers(data)["ETag"]}
        self._send(302, b"", self._headers(data) | headers, body=body)

    def _headers(self, data: bytes) -> dict[str, str]:
        return {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}

    def _file(self, name: str, *, body: bool) -> None:
        data = self.hub.files[name]
        headers = self._headers(data)
        start = self._start()
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        limit = self.hub.cut.get(name) if body else None
        self._send(206 if start else 200, data[start:], headers, body=body, limit=limit)

    def _start(self) -> int:
        found = self.headers.get("Range", "")
        return int(found.removeprefix("bytes=").split("-")[0]) if found else 0

    def _send(self, status: int, data: bytes, headers: dict[str, str], *, body: bool, limit: int | None = None) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data if limit is None else data[:limit])
            self.wfile.flush()
        if limit is not None:
            if self.hub.hold:
                self.hub.hold.wait(20)
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing: a client that was killed hangs up."""


@contextmanager
def serving(hub: AnyHub, address: str = "127.0.0.1", handler: type[Handler] = Handler) -> Iterator[AnyHub]:
    """Run the hub while the block runs."""
    bound = type("BoundHandler", (handler,), {"hub": hub})
    server = _Server((address, 0), bound)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    hub.endpoint = f"http://{address}:{server.server_address[1]}"
    try:
        yield hub
    finally:
        if hub.hold:
            hub.hold.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
