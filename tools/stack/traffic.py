"""What carries requests, played: the gateway in front, and behind every fake pod's address an engine that answers.

The gateway follows what KServe wrote: the HTTPRoute whose path fits, its rewrite, the Service's endpoints. An engine
is whichever pod has the address that was called; it knows no model but those that the pod's own arguments name. So an
answer proves the way from the URL to the pod, and nothing about a model: the sentence is always the same. A request
with `max_tokens` takes the engine time, and each engine works on one such request at a time and serves the metrics of
vLLM. Runs as a process of its own: `python -m tools.stack.traffic HOME`.
"""

import contextlib
import http.client
import json
import random
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from function.kube.manifests import JSON, Manifest, get, integer, listing, text
from tools.stack import layout
from tools.stack.api import Api
from tools.stack.layout import Home
from tools.stack.processes import Program

NAME = "traffic"
_SECONDS = 300  # a real engine may be long at it
_LONGEST = 1 << 20
_TOKEN_SECONDS = 0.02
_BACKLOG = 128  # connections that are not accepted yet; the default of 5 delays parallel clients by a second
_SENTENCE = "This is a played engine: it has no GPU and no weights, so it answers everything alike."


def program(home: Home) -> Program:
    """Return the traffic of a stack."""
    return Program(name=NAME, argv=(sys.executable, "-m", "tools.stack.traffic", str(home.root)))


class Queues:
    """The requests of each engine, by the address of its pod. An engine works on one at a time, the others wait."""

    def __init__(self) -> None:
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._requests: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def turn(self, address: str) -> Iterator[None]:
        """Wait until the engine has finished the earlier requests."""
        with self._lock:
            turn = self._turns[address]
            self._requests[address] += 1
        try:
            with turn:
                yield
        finally:
            with self._lock:
                self._requests[address] -= 1

    def metrics(self, address: str) -> str:
        """Return the metrics of an engine, with the names of vLLM."""
        with self._lock:
            requests = self._requests[address]
        running = min(requests, 1)
        return f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {requests - running}\n"


class _Server(ThreadingHTTPServer):
    request_queue_size = _BACKLOG


class _Handler(BaseHTTPRequestHandler, ABC):
    """Reads a request and writes JSON."""

    protocol_version = "HTTP/1.1"
    remote: Api

    def do_GET(self) -> None:  # the base class's name
        """Answer."""
        self.answer(b"")

    def do_POST(self) -> None:  # the base class's name
        """Answer."""
        self.answer(self.rfile.read(min(int(self.headers.get("Content-Length", "0")), _LONGEST)))

    @abstractmethod
    def answer(self, body: bytes) -> None:
        """Answer a request."""

    def send(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        """Write an answer."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status: int, message: str) -> None:
        """Write an error as engines do."""
        self.send(status, json.dumps({"error": {"message": message, "code": status}}).encode())


class Gateway(_Handler):
    """Sends a request where the routes say."""

    def answer(self, body: bytes) -> None:
        """Pass a request on, and its answer back."""
        found = max(_fitting(self.remote, self.path), default=None)
        if found is None:
            self.refuse(404, f"no route for {self.path}")
            return
        prefix, namespace, service, port, path = found
        addresses = list(_endpoints(self.remote, namespace, service))
        if not addresses:
            self.refuse(503, f"no endpoint of Service {namespace}/{service} is ready")
            return
        connection = http.client.HTTPConnection(random.choice(addresses), port, timeout=_SECONDS)  # noqa: S311  # no secret
        connection.request(self.command, path + self.path[len(prefix) :], body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        self.send(reply.status, reply.read())
        connection.close()


class Engine(_Handler):
    """Answers as the engine of the pod whose address was called."""

    queues: Queues

    def answer(self, body: bytes) -> None:
        """Answer for a model that the pod serves."""
        address = self.connection.getsockname()[0]
        if self.path == "/metrics":
            self.send(200, self.queues.metrics(address).encode(), "text/plain; version=0.0.4")
            return
        pods = [pod for pod in self.remote.find("Pod") if text(pod, "status.podIP") == address]
        served = [name for pod in pods for name in _served(pod)]
        if self.path == "/v1/models":
            self.send(200, json.dumps({"object": "list", "data": [{"id": name} for name in served]}).encode())
        elif self.path == "/v1/chat/completions":
            asked: JSON = json.loads(body or b"{}")
            model = text(asked, "model")
            if model in served:
                if tokens := integer(asked, "max_tokens"):
                    with self.queues.turn(address):
                        time.sleep(tokens * _TOKEN_SECONDS)
                self.send(200, json.dumps(_completion(model)).encode())
            else:
                self.refuse(404, f"The model `{model}` does not exist.")
        else:
            self.refuse(404, "Not Found")


def _completion(model: str) -> Manifest:
    message: Manifest = {"role": "assistant", "content": _SENTENCE}
    choice: Manifest = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"object": "chat.completion", "model": model, "choices": [choice]}


def _served(pod: Manifest) -> Iterator[str]:
    """Return the names of models in a pod's command; a headless worker has an engine and no server."""
    main = next((c for c in listing(pod, "spec.containers") if c["name"] == "main"), {})
    parts = [part for key in ("command", "args") if isinstance(part := get(main, key), list)]
    # KServe's own preset has the engine's arguments inside a script of its shell.
    words = " ".join(str(word) for part in parts for word in part).split()
    if "--headless" in words or "--served-model-name" not in words:
        return
    for word in words[words.index("--served-model-name") + 1 :]:
        if word.startswith(("-", "\\")):
            return
        yield word.strip('"')


def _fitting(remote: Api, path: str) -> Iterator[tuple[str, str, str, int, str]]:
    """Return prefix, namespace, Service, port and new prefix of every rule that fits a path."""
    for route in remote.find("HTTPRoute"):
        for rule in listing(route, "spec.rules"):
            for match in listing(rule, "matches"):
                prefix = text(match, "path.value")
                if not prefix or not path.startswith(prefix):
                    continue
                rewrites = [text(f, "urlRewrite.path.replacePrefixMatch") for f in listing(rule, "filters")]
                for backend in listing(rule, "backendRefs"):
                    namespace, new = text(route, "metadata.namespace"), next(iter(rewrites), prefix)
                    yield prefix, namespace, text(backend, "name"), integer(backend, "port"), new


def _endpoints(remote: Api, namespace: str, service: str) -> Iterator[str]:
    for part in remote.find("EndpointSlice", namespace, f"kubernetes.io/service-name={service}"):
        for endpoint in listing(part, "endpoints"):
            addresses = get(endpoint, "addresses")
            if get(endpoint, "conditions.ready") and isinstance(addresses, list):
                yield from map(str, addresses)


def main() -> None:
    """Serve until ended. The engines' addresses are those of pods, which are local to the stack's own namespace."""
    home = Home(Path(sys.argv[1]))
    subprocess.run(("ip", "route", "replace", "local", layout.EAST.pods, "dev", "lo"), check=True)
    gateway = type("G", (Gateway,), {"remote": Api(home, "remote")})
    engine = type("E", (Engine,), {"remote": Api(home, "remote"), "queues": Queues()})
    places = ((("127.0.0.1", layout.GATEWAY), gateway), (("", layout.ENGINE), engine))
    threads = [threading.Thread(target=_Server(*place).serve_forever) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
