"""examples/ai-gateway against the schemas of Envoy Gateway and Envoy AI Gateway, and its policies in a real Envoy.

Envoy's filters are built of the example's resources, as Envoy Gateway would: keys, and limits that are charged when an
answer has ended. Played are the rate limit service, and the processor of Envoy AI Gateway that reads the usage: here a
filter of Envoy's own reads it, from answers that are not streamed. The name of the model is not translated.
"""

import contextlib
import http.client
import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from function.kube.manifests import JSON, Manifest, integer, listing, mapping, text
from tests.conformance import crossplane
from tests.hub.test_streams import find_free_port, wait_until_listening
from tools import envoy_gateway, programs
from tools.stack.envoy import build_address

pytestmark = pytest.mark.conformance
FOLDER = programs.ROOT / "examples" / "ai-gateway"
KEYS = {"search": "key-of-search", "mail": "key-of-mail"}
LIMIT, TOKENS = 400, 150
FILTERS = "type.googleapis.com/envoy.extensions.filters"
SERVICE = "envoy.service.ratelimit.v3.RateLimitService"


def _read() -> list[Manifest]:
    return [each for path in sorted(FOLDER.glob("*.yaml")) for each in crossplane.read(path)]


def _find(kind: str) -> Manifest:
    (found,) = (each for each in _read() if each["kind"] == kind)
    return found


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project whose resources the example has."""

    id: str
    groups: frozenset[str]
    crds: Sequence[Path]
    kinds: frozenset[str]
    wrong: tuple[str, str]  # a field that its schemas require, and the kind that has it


def _list_projects() -> Iterator[Project]:
    """Yields those whose schemas are there; those of Envoy AI Gateway are where AI_GATEWAY names its source."""
    standard = programs.module_dir("kserve", "sigs.k8s.io/gateway-api") / "config/crd/standard"
    yield Project(
        id="envoy-gateway",
        groups=frozenset({"gateway.envoyproxy.io", "gateway.networking.k8s.io"}),
        crds=[*envoy_gateway.list_crds(), *standard.glob("gateway.networking.k8s.io_gateway*.yaml")],
        kinds=frozenset({"GatewayClass", "Gateway", "EnvoyProxy", "Backend", "SecurityPolicy", "BackendTrafficPolicy"}),
        wrong=("spec.apiKeyAuth.extractFrom", "SecurityPolicy"),
    )
    if crds := envoy_gateway.list_ai_crds():
        yield Project(
            id="envoy-ai-gateway",
            groups=frozenset({"aigateway.envoyproxy.io"}),
            crds=crds,
            kinds=frozenset({"AIGatewayRoute", "AIServiceBackend"}),
            wrong=("spec.schema.name", "AIServiceBackend"),
        )


def test_resources_pass_the_schemas_of_their_projects(tmp_path: Path) -> None:
    for project in _list_projects():
        schemas = tmp_path / project.id
        found = [each for path in project.crds for each in crossplane.read(path) if each]
        crossplane.write(schemas / "crds.yaml", found)
        resources = [each for each in _read() if text(each, "apiVersion").partition("/")[0] in project.groups]
        assert {each["kind"] for each in resources} == project.kinds
        assert crossplane.validate(schemas, resources, tmp_path) == []
        (parent, _, field_name), kind = project.wrong[0].rpartition("."), project.wrong[1]
        broken = next(each for each in resources if each["kind"] == kind)
        mapping(broken, parent).pop(field_name)
        assert crossplane.validate(schemas, resources, tmp_path) != [], "the schemas refuse what is wrong"


class Engine(BaseHTTPRequestHandler):
    """Answers with a usage, and notes what it was asked."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, dict[str, str]]]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        usage = {"prompt_tokens": TOKENS - 10, "completion_tokens": 10, "total_tokens": TOKENS}
        answer = json.dumps({"choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 64}}})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@dataclass
class Limiter:
    """What a rate limit service counts: the tokens of each caller."""

    used: Counter[str] = field(default_factory=Counter)

    def check(self, callers: list[tuple[str, int]]) -> bool:
        """Adds hits, and tells whether a caller had exceeded its limit before."""
        is_over = any(self.used[caller] > LIMIT for caller, _ in callers)
        for caller, hits in callers:
            self.used[caller] += hits
        return is_over


@contextlib.contextmanager
def serving_limits(limiter: Limiter) -> Iterator[int]:
    """Serves the rate limit service; its messages have only the fields that are read here."""
    file = descriptor_pb2.FileDescriptorProto(name="limits.proto", package="limits")
    kinds = descriptor_pb2.FieldDescriptorProto
    fields = {
        "Entry": [("key", 1, kinds.TYPE_STRING, ""), ("value", 2, kinds.TYPE_STRING, "")],
        "Hits": [("value", 1, kinds.TYPE_UINT64, "")],
        "Descriptor": [("entries", 1, kinds.TYPE_MESSAGE, "*Entry"), ("hits", 3, kinds.TYPE_MESSAGE, "Hits")],
        "Request": [("descriptors", 2, kinds.TYPE_MESSAGE, "*Descriptor")],
        "Response": [("code", 1, kinds.TYPE_INT32, "")],
    }
    for name, members in fields.items():
        message = file.message_type.add(name=name)
        for member, number, kind, of in members:
            label = kinds.LABEL_REPEATED if of.startswith("*") else kinds.LABEL_OPTIONAL
            made = message.field.add(name=member, number=number, type=kind, label=label)
            if of:
                made.type_name = f".limits.{of.removeprefix('*')}"
    messages = message_factory.GetMessages([file], pool=descriptor_pool.DescriptorPool())
    response = messages["limits.Response"]

    def decide(request: Any, _: grpc.ServicerContext) -> object:
        found = [
            (each.entries[0].value, each.hits.value if each.HasField("hits") else 1) for each in request.descriptors
        ]
        return response(code=2 if limiter.check(found) else 1)

    handler = grpc.unary_unary_rpc_method_handler(
        decide, messages["limits.Request"].FromString, response.SerializeToString
    )
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"ShouldRateLimit": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def build_filters() -> list[JSON]:
    """Returns the filters that the policies of the example ask for."""
    authentication = mapping(_find("SecurityPolicy"), "spec.apiKeyAuth")
    (source,) = listing(authentication, "extractFrom")
    headers = source["headers"]
    assert isinstance(headers, list)
    keys: Manifest = {
        "@type": f"{FILTERS}.http.api_key_auth.v3.ApiKeyAuth",
        "credentials": [{"key": key, "client": client} for client, key in KEYS.items()],
        "key_sources": [{"header": header} for header in headers],
        "forwarding": {
            "header": authentication["forwardClientIDHeader"],
            "hide_credentials": authentication["sanitize"],
        },
    }
    limits: Manifest = {
        "@type": f"{FILTERS}.http.ratelimit.v3.RateLimit",
        "domain": "ai",
        "rate_limit_service": {
            "transport_api_version": "V3",
            "grpc_service": {"envoy_grpc": {"cluster_name": "limits"}},
        },
        "failure_mode_deny": True,
    }
    usage = {"InputToken": ("prompt_tokens",), "OutputToken": ("completion_tokens",), "TotalToken": ("total_tokens",)}
    paths = {**usage, "CachedInputToken": ("prompt_tokens_details", "cached_tokens")}
    rules: list[JSON] = [
        {
            "selectors": [{"key": key} for key in ("usage", *paths[text(cost, "type")])],
            "on_present": {
                "metadata_namespace": "io.envoy.ai_gateway",
                "key": text(cost, "metadataKey"),
                "type": "NUMBER",
            },
        }
        for cost in listing(_find("AIGatewayRoute"), "spec.llmRequestCosts")
    ]
    reader: Manifest = {
        "@type": f"{FILTERS}.http.json_to_metadata.v3.JsonToMetadata",
        "response_rules": {"rules": rules},
    }
    router: Manifest = {"@type": f"{FILTERS}.http.router.v3.Router"}
    parts = {"keys": keys, "limits": limits, "usage": reader, "router": router}
    return [{"name": name, "typed_config": part} for name, part in parts.items()]


def build_route() -> Manifest:
    """Returns the route: what it adds to paths, and its limits."""
    (rule,) = listing(_find("BackendTrafficPolicy"), "spec.rateLimit.global.rules")
    (selector,) = listing(rule, "clientSelectors")
    (header,) = listing(selector, "headers")
    by_caller: Manifest = {"request_headers": {"header_name": text(header, "name"), "descriptor_key": "caller"}}
    metadata = mapping(rule, "cost.response.metadata")
    spent = f"%DYNAMIC_METADATA({text(metadata, 'namespace')}:{text(metadata, 'key')})%"
    limits: list[JSON] = [
        {"actions": [by_caller], "hits_addend": {"number": integer(rule, "cost.request.number")}},
        {"actions": [by_caller], "hits_addend": {"format": spent}, "apply_on_stream_done": True},
    ]
    prefix = text(_find("AIServiceBackend"), "spec.schema.prefix")
    # A route's own `rate_limits` would not send how many hits a request counts.
    per_route: Manifest = {"@type": f"{FILTERS}.http.ratelimit.v3.RateLimitPerRoute", "rate_limits": limits}
    return {
        "match": {"prefix": "/v1/"},
        "route": {"cluster": "engine", "timeout": "0s", "prefix_rewrite": f"{prefix}/"},
        "typed_per_filter_config": {"limits": per_route},
    }


def build_bootstrap(port: int, engine: int, limiter: int, log: Path) -> Manifest:
    """Returns Envoy's configuration."""
    (settings,) = listing(_find("EnvoyProxy"), "spec.telemetry.accessLog.settings")
    access_log: Manifest = {
        "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
        "path": str(log),
        "log_format": {"json_format": mapping(settings, "format.json")},
    }
    manager: Manifest = {
        "@type": f"{FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [build_route()]}]},
        "http_filters": build_filters(),
        "access_log": [{"name": "usage", "typed_config": access_log}],
    }
    chain: Manifest = {"filters": [{"name": "http", "typed_config": manager}]}
    listener: Manifest = {"name": "http", "address": build_address("127.0.0.1", port), "filter_chains": [chain]}
    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    http2: Manifest = {
        "@type": f"type.googleapis.com/{options}",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    clusters: list[JSON] = [
        {
            "name": name,
            "load_assignment": {
                "cluster_name": name,
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": build_address("127.0.0.1", each)}}]}],
            },
            **({"typed_extension_protocol_options": {options: http2}} if name == "limits" else {}),
        }
        for name, each in (("engine", engine), ("limits", limiter))
    ]
    return {"static_resources": {"listeners": [listener], "clusters": clusters}}


@dataclass
class Gateway:
    """A running Envoy, and what stands behind it."""

    port: int
    log: Path
    limiter: Limiter
    asked: list[tuple[str, dict[str, str]]]

    def ask(self, key: str) -> int:
        """Sends a request, and returns the status once its tokens are charged."""
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        before, requests = self.limiter.used.total(), len(self.asked)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/chat/completions", json.dumps({"model": "chat"}), headers)
            answer = connection.getresponse()
            answer.read()
        charged = before + TOKENS * (len(self.asked) - requests)
        wait_for(lambda: self.limiter.used.total() == charged)
        return answer.status

    def read_log(self, lines: int) -> list[Manifest]:
        """Returns the access log, once it has so many lines."""
        wait_for(lambda: self.log.exists() and len(self.log.read_text().splitlines()) >= lines)
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def wait_for(holds: Callable[[], bool]) -> None:
    """Waits until something holds."""
    for _ in range(200):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it does not hold after 20 s")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    asked: list[tuple[str, dict[str, str]]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Noting", (Engine,), {"asked": asked}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    limiter, port, log = Limiter(), find_free_port(), tmp_path / "access.log"
    config = tmp_path / "envoy.json"
    with serving_limits(limiter) as limits, (tmp_path / "envoy.log").open("w") as output:
        config.write_text(json.dumps(build_bootstrap(port, server.server_address[1], limits, log)))
        command = (str(programs.wheel("envoy")), "-c", str(config), "--concurrency", "1", "--disable-hot-restart")
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            wait_until_listening(port, process)
            yield Gateway(port, log, limiter, asked)
        finally:
            process.terminate()
            process.wait(10)
            server.shutdown()
            server.server_close()


def test_a_request_needs_a_key_which_the_model_service_does_not_see(gateway: Gateway) -> None:
    assert [gateway.ask(key) for key in ("", "another", KEYS["search"])] == [401, 401, 200]
    ((path, headers),) = gateway.asked
    assert path == f"{text(_find('AIServiceBackend'), 'spec.schema.prefix')}/chat/completions"
    assert (headers.get("authorization"), headers["x-caller"]) == (None, "search")
    assert not any(key in value for key in KEYS.values() for value in headers.values())


def test_a_caller_that_exceeds_its_tokens_is_refused_and_others_are_not(gateway: Gateway) -> None:
    """Tokens are counted when an answer has ended: the request that exceeds the limit is the last one answered."""
    statuses = [gateway.ask(KEYS["search"]) for _ in range(5)]
    answered = LIMIT // TOKENS + 1
    assert statuses == [200] * answered + [429] * (5 - answered)
    assert gateway.ask(KEYS["mail"]) == 200
    assert gateway.limiter.used == {"search": answered * TOKENS, "mail": TOKENS}
    usage = Counter[str]()
    for line in gateway.read_log(6):
        usage[text(line, "caller")] += integer(line, "input_tokens") + integer(line, "output_tokens")
    assert usage == {"search": answered * TOKENS, "mail": TOKENS}
