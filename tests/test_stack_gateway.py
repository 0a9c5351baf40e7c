"""Gateways that are played, and the parts of the picker scenario (tests/e2e/long_41_pickers.py)."""

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from function.kube.manifests import JSON, Manifest, listing, mapping, text
from tools import programs
from tools.stack import envoy, pickers, players
from tools.stack.api import Api
from tools.stack.engines import BLOCK_TOKENS, TOKEN_BYTES, Engine, PrefixCache, read_prompt
from tools.stack.envoy_controller import Controller
from tools.stack.kubelet.probes import ask

BLOCK = BLOCK_TOKENS * TOKEN_BYTES
PATH = "/services/team/chat"
POOL: Manifest = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "stable-pool", "port": 8000}
SERVICE: Manifest = {"kind": "Service", "name": "stable", "port": 8000}


def _make_prompt(*blocks: str, end: str = "") -> bytes:
    return ("".join(block * BLOCK for block in blocks) + end).encode()


def test_a_cache_finds_the_full_blocks_at_the_beginning_of_a_prompt() -> None:
    cache = PrefixCache(capacity=8)
    assert cache.use(_make_prompt("a", "b", end="first")) == 0
    assert cache.use(_make_prompt("a", "b", end="other")) == 2 * BLOCK_TOKENS
    assert cache.use(_make_prompt("a", "c")) == BLOCK_TOKENS
    assert cache.use(_make_prompt("b")) == 0, "a block counts only after the same beginning"


def test_a_cache_forgets_the_block_that_was_used_longest_ago() -> None:
    cache = PrefixCache(capacity=2)
    for each in "ab":
        cache.use(_make_prompt(each))
    assert cache.use(_make_prompt("a")) == BLOCK_TOKENS
    cache.use(_make_prompt("c"))
    assert [cache.use(_make_prompt(each)) for each in "ab"] == [BLOCK_TOKENS, 0]


def test_the_prompt_is_that_of_both_apis() -> None:
    messages: list[JSON] = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    assert read_prompt({"messages": messages}) == b"<system>be brief<user>hello"
    assert read_prompt({"prompt": "hello"}) == b"hello"


def test_an_engine_reports_what_it_had_cached() -> None:
    async def collect(parts: AsyncIterator[Manifest]) -> list[Manifest]:
        return [part async for part in parts]

    engine = Engine("10.0.0.1")
    asked: Manifest = {"prompt": "a" * 2 * BLOCK, "max_tokens": 2}
    for cached in (0, 2 * BLOCK_TOKENS):
        *tokens, last = asyncio.run(collect(engine.complete(asked)))
        assert len(tokens) == 2
        assert last["usage"] == {
            "prompt_tokens": 2 * BLOCK_TOKENS,
            "completion_tokens": 2,
            "total_tokens": 2 * BLOCK_TOKENS + 2,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
    lines = engine.format_metrics().splitlines()
    assert 'vllm:prefix_cache_hits_total{model_name="any"} 32' in lines
    assert 'vllm:num_requests_running{model_name="any"} 0' in lines


def _make_view(*references: Manifest, ports: dict[str, int], refuses: bool = False) -> envoy.View:
    def rule(kind: str, path: str, rewrite: Manifest, backends: list[JSON]) -> Manifest:
        return {
            "matches": [{"path": {"type": kind, "value": path}}],
            "filters": [{"type": "URLRewrite", "urlRewrite": {"path": rewrite}}],
            "backendRefs": backends,
            "timeouts": {"request": "0s"},
        }

    whole: Manifest = {"type": "ReplaceFullPath", "replaceFullPath": "/v1/completions"}
    prefix: Manifest = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
    rules: list[JSON] = [
        rule("PathPrefix", PATH, prefix, [SERVICE]),
        rule("Exact", f"{PATH}/v1/completions", whole, [*references]),
    ]
    slices: list[Manifest] = [
        {
            "metadata": {"namespace": "team", "labels": {"kubernetes.io/service-name": name}},
            "endpoints": [
                {"addresses": [ready], "conditions": {"ready": True}},
                {"addresses": [waiting], "conditions": {"ready": False}},
            ],
        }
        for name, ready, waiting in (("stable", "10.0.0.1", "10.0.0.2"), ("stable-epp", "10.0.0.3", "10.0.0.4"))
    ]
    pool: Manifest = {
        "metadata": {"namespace": "team", "name": "stable-pool"},
        "spec": {
            "selector": {"matchLabels": {"app": "stable"}},
            "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {"name": "stable-epp"},
        },
    }
    pods: list[Manifest] = [
        {"metadata": {"namespace": namespace, "labels": {"app": app}}, "status": {"podIP": address}}
        for namespace, app, address in (
            ("team", "stable", "10.0.0.1"),
            ("team", "other", "10.0.0.5"),
            ("else", "stable", "10.0.0.6"),
            ("team", "stable", ""),
        )
    ]
    route: Manifest = {"metadata": {"namespace": "team"}, "spec": {"rules": rules}}
    return envoy.View([route], slices, [pool], pods, ports, refuses_without_picker=refuses)


def test_requests_to_a_pool_ask_its_ready_picker_and_others_do_not() -> None:
    exact, prefix = envoy.build_routes(_make_view(POOL, ports={"10.0.0.3": 9102, "10.0.0.4": 9202}))[0]
    assert exact["match"] == {"path": f"{PATH}/v1/completions"}
    (entry,) = listing(exact, "route.weighted_clusters.clusters")
    grpc_service = mapping(entry, "typed_per_filter_config.picker.overrides.grpc_service")
    assert (entry["name"], text(grpc_service, "envoy_grpc.cluster_name")) == (
        "team_stable-pool",
        "team_stable-pool_picker",
    )
    assert text(exact, "route.regex_rewrite.substitution") == "/v1/completions"
    assert prefix["match"] == {"path_separated_prefix": PATH}
    assert listing(prefix, "route.weighted_clusters.clusters") == [{"name": "team_stable", "weight": 1}]
    assert mapping(prefix, "route.regex_rewrite") == {"pattern": {"regex": f"^{PATH}/*"}, "substitution": "/"}
    assert (text(exact, "route.timeout"), text(prefix, "route.timeout")) == ("0s", "0s")


@pytest.mark.parametrize(
    ("ports", "refuses", "pickers_found"),
    [
        ({"10.0.0.3": 9102, "10.0.0.4": 9202}, False, (("127.0.0.1", 9102),)),
        ({}, False, ()),
        ({}, True, (("127.0.0.1", 1),)),
    ],
    ids=["leader", "no endpoint", "refused"],
)
def test_clusters_have_the_ready_endpoints(
    ports: dict[str, int], refuses: bool, pickers_found: tuple[tuple[str, int], ...]
) -> None:
    _, clusters = envoy.build_routes(_make_view(POOL, ports=ports, refuses=refuses))
    assert {each.name: each.endpoints for each in clusters} == {
        "team_stable": (("10.0.0.1", 8000),),
        "team_stable-pool": (("10.0.0.1", 8000),),
        "team_stable-pool_picker": pickers_found,
    }


def test_a_rule_with_an_unknown_reference_answers_500() -> None:
    earlier: Manifest = {**POOL, "group": "inference.networking.x-k8s.io"}
    exact, _ = envoy.build_routes(_make_view(SERVICE, earlier, ports={}))[0]
    assert exact == {"match": {"path": f"{PATH}/v1/completions"}, "direct_response": {"status": 500}}


def test_routes_follow_once_envoy_knows_their_clusters(tmp_path: Path) -> None:
    controller, view = Controller(tmp_path), _make_view(POOL, ports={"10.0.0.3": 9102})
    controller.tell(view)
    assert not (tmp_path / "routes.json").exists()
    assert {path.stem for path in tmp_path.iterdir()} > {"clusters", "team_stable"}
    controller.tell(view)
    written = json.loads((tmp_path / "routes.json").read_text())
    controller.tell(view)
    assert json.loads((tmp_path / "routes.json").read_text()) == written, "nothing is written twice"
    controller.tell(_make_view(SERVICE, ports={}))
    (table,) = json.loads((tmp_path / "routes.json").read_text())["resources"]
    assert "team_stable-pool" not in json.dumps(table)
    clusters = json.loads((tmp_path / "clusters.json").read_text())["resources"]
    assert "team_stable-pool" in {each["name"] for each in clusters}, "requests may still be on their way"


def test_a_picker_has_ports_of_its_own_and_no_scorer_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "path", lambda name: Path(f"/programs/{name}"))
    config = {
        "plugins": [{"type": "queue-scorer"}, {"type": "no-hit-lru-scorer"}],
        "schedulingProfiles": [{"name": "default", "plugins": [{"pluginRef": "no-hit-lru-scorer", "weight": 2}]}],
    }
    command: list[JSON] = ["/app/epp", "--pool-name", "p", "--grpc-port", "9002", "--grpc-health-port", "9003"]
    arguments: list[JSON] = ["--ha-enable-leader-election", "--config-text", json.dumps(config)]
    known = {"plugins": [{"type": "queue-scorer"}], "schedulingProfiles": [{"name": "default", "plugins": []}]}
    assert pickers.build_command({"command": command, "args": arguments}, 2) == [
        "/programs/epp",
        *("--pool-name", "p", "--grpc-port", "9202", "--grpc-health-port", "9203"),
        *("--ha-enable-leader-election", "--config-text", json.dumps(known), "--metrics-port=9290"),
    ]


def test_a_probe_asks_for_the_health_of_one_grpc_service() -> None:
    server, servicer = grpc.server(futures.ThreadPoolExecutor(1)), health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    probe: Manifest = {"grpc": {"port": port, "service": "readiness"}}
    server.start()
    assert ask(probe, "127.0.0.1") == "gRPC probe failed: NOT_FOUND"
    for status, answer in (("NOT_SERVING", "gRPC probe failed with status NOT_SERVING"), ("SERVING", "")):
        servicer.set("readiness", health_pb2.HealthCheckResponse.ServingStatus.Value(status))
        assert ask(probe, "127.0.0.1") == answer
    server.stop(None).wait()
    assert ask(probe, "127.0.0.1") == "gRPC probe failed: UNAVAILABLE"


@dataclass
class Cluster:
    """Has objects, and notes the statuses that are written."""

    objects: dict[str, list[Manifest]]
    written: list[tuple[str, Manifest]] = field(default_factory=list)

    def find(self, kind: str, namespace: str = "", labels: str = "") -> list[Manifest]:
        assert (namespace, labels) in {("", ""), ("", players.REFUSES_POOLS)}
        return self.objects.get(kind, [])

    def patch(self, kind: str, name: str, body: Manifest, namespace: str = "", part: str = "") -> None:
        self.written.append((f"{kind} {namespace}/{name} {part}", body))


def _make_route(name: str, generation: int, parents: list[JSON], owners: list[JSON]) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": "team", "generation": generation, "ownerReferences": owners}
    spec: Manifest = {"parentRefs": [{"name": "gateway"}]}
    return {"kind": "HTTPRoute", "metadata": metadata, "spec": spec, "status": {"parents": parents}}


def test_the_played_gateway_observes_each_generation_of_a_route() -> None:
    gateway: Manifest = {
        "spec": {"gatewayClassName": "played"},
        "metadata": {"name": "gateway"},
        "status": {"addresses": [{"value": "10.0.0.9"}]},
    }
    observed: list[JSON] = [{"conditions": [{"type": "Accepted", "observedGeneration": 2}]}]
    kserve: list[JSON] = [{"kind": "LLMInferenceService", "name": "chat"}]
    routes = [
        _make_route("new", 1, [], []),
        _make_route("changed", 3, observed, []),
        _make_route("same", 2, observed, []),
        _make_route("of-kserve", 1, [], kserve),
        _make_route("of-kserve-changed", 3, observed, kserve),
    ]
    cluster = Cluster({"Gateway": [gateway], "HTTPRoute": routes})
    players.play(cast("Api", cluster))
    written = {}
    for where, body in cluster.written:
        (parent,) = listing(body, "status.parents")
        written[where] = [
            (text(c, "type"), text(c, "status"), c.get("observedGeneration")) for c in listing(parent, "conditions")
        ]
    assert written == {
        f"HTTPRoute team/{name} status": [("Accepted", "True", generation), ("ResolvedRefs", "True", generation)]
        for name, generation in (("new", 1), ("changed", 3), ("of-kserve", None))
    }
