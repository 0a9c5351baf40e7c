"""An answer that streams longer than the default timeout of a gateway, behind a real Envoy.

Envoy ends a request after 15 seconds where its route has no timeout, and Envoy Gateway leaves the timeout out where an
HTTPRoute has none. The routes of this Envoy are made of the HTTPRoutes that the function composes, as Envoy Gateway
makes them: `timeouts.request` becomes `timeout`.
"""

import http.client
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping, text
from tests.support.ownership import collect_composed
from tools import programs

pytestmark = pytest.mark.conformance
STREAM_SECONDS = 20
DEFAULT_SECONDS = 15  # of Envoy
EVENT = b"data: token\n\n"


def collect_routes() -> dict[str, Manifest]:
    """Returns the HTTPRoutes of all stories, on the control plane and on clusters, by where they are and name."""
    routes = {}
    for _, manifest in collect_composed():
        for where, route in (("hub", manifest), ("cluster", mapping(manifest, "spec.forProvider.manifest"))):
            if route.get("kind") == "HTTPRoute":
                routes[f"{where}/{text(route, 'metadata.name')}"] = route
    return routes


def test_every_route_says_that_it_has_no_timeout() -> None:
    routes = collect_routes()
    assert {key.partition("/")[0] for key in routes} == {"hub", "cluster"}
    for key, route in routes.items():
        for rule in listing(route, "spec.rules"):
            assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}, key


class Streaming(BaseHTTPRequestHandler):
    """Answers with an event each second, as an engine does."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for _ in range(STREAM_SECONDS):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(EVENT), EVENT))
                time.sleep(1)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True  # the gateway has ended the request

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@dataclass(frozen=True)
class Envoy:
    port: int

    def count_events(self, path: str) -> int:
        """Returns how many events of a streamed answer arrive."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2 * STREAM_SECONDS)
        connection.request("GET", path)
        received = b""
        try:
            answer = connection.getresponse()
            while part := answer.read1():
                received += part
        except (http.client.HTTPException, OSError):
            pass
        finally:
            connection.close()
        return received.count(EVENT)


@pytest.fixture
def engine() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Streaming)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def envoy(engine: int, tmp_path: Path) -> Iterator[Envoy]:
    (route,) = (route for key, route in collect_routes().items() if key.startswith("hub/chat-"))
    (rule,) = listing(route, "spec.rules")
    with_timeouts = build_envoy_route("/with/", rule)
    without = build_envoy_route("/without/", {key: value for key, value in rule.items() if key != "timeouts"})
    port = find_free_port()
    config = tmp_path / "envoy.json"
    config.write_text(json.dumps(build_bootstrap(port, engine, [with_timeouts, without])))
    log = (tmp_path / "envoy.log").open("w")
    command = (str(programs.wheel("envoy")), "-c", str(config), "--concurrency", "1", "--disable-hot-restart")
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until_listening(port, process)
        yield Envoy(port)
    finally:
        process.terminate()
        process.wait(10)
        log.close()


def build_envoy_route(prefix: str, rule: Manifest) -> Manifest:
    timeout = text(rule, "timeouts.request")
    action: Manifest = {"cluster": "engine", **({"timeout": timeout} if timeout else {})}
    return {"match": {"prefix": prefix}, "route": action}


def build_bootstrap(port: int, engine: int, routes: list[JSON]) -> Manifest:
    types = "type.googleapis.com/envoy.extensions.filters"
    manager: Manifest = {
        "@type": f"{types}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [
            {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{types}.http.router.v3.Router"}}
        ],
    }
    chain: Manifest = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    endpoint: Manifest = {"endpoint": {"address": build_address(engine)}}
    cluster: Manifest = {
        "name": "engine",
        "load_assignment": {"cluster_name": "engine", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    listener: Manifest = {"name": "http", "address": build_address(port), "filter_chains": [chain]}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def build_address(port: int) -> Manifest:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def find_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        assert process.poll() is None, "Envoy has ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("Envoy does not listen")


def test_stream_ends_with_its_last_event_behind_envoy(envoy: Envoy) -> None:
    with ThreadPoolExecutor() as threads:
        complete, cut = threads.map(envoy.count_events, ("/with/stream", "/without/stream"))
    assert complete == STREAM_SECONDS
    assert 0 < cut <= DEFAULT_SECONDS + 1, "without timeouts in the HTTPRoute the gateway ends the stream"
