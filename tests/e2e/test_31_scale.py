"""Scenario 31: `kubectl scale` and the HorizontalPodAutoscaler of Kubernetes change the replicas of a deployment."""

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from function.kube.manifests import Manifest, get, integer, listing, mapping, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World, running
from tools.stack import apiserver
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM, NAME, METRIC = "scaled", "chat", "requests_waiting"
_GROUP = "external.metrics.k8s.io"
_PORT = 19443


class Metrics(BaseHTTPRequestHandler):
    """Serves one metric of the API of external metrics."""

    waiting = 0

    def do_GET(self) -> None:  # the base class's name
        """Answer discovery, or with the value of the metric."""
        version = f"{_GROUP}/v1beta1"
        if f"/{METRIC}" in self.path:
            value = {"metricName": METRIC, "value": str(self.waiting), "timestamp": "2026-01-01T00:00:00Z"}
            self._send({"kind": "ExternalMetricValueList", "apiVersion": version, "metadata": {}, "items": [value]})
        else:
            resource = {"name": METRIC, "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
            self._send(
                {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [resource]}
            )

    def _send(self, answer: object) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextlib.contextmanager
def _serve_metrics(world: World) -> Iterator[None]:
    """Serve the API of external metrics behind the API server of the hub."""
    server = ThreadingHTTPServer(("127.0.0.1", _PORT), Metrics)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(world.stack.home.server_tls / "tls.crt", world.stack.home.server_tls / "tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    service: Manifest = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": _PORT}]}
    world.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics", "namespace": TEAM}, "spec": service},
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1beta1.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "version": "v1beta1",
                "service": {"name": "metrics", "namespace": TEAM, "port": _PORT},
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    )
    try:
        yield
    finally:
        world.stack.kubectl("delete", "apiservice", f"v1beta1.{_GROUP}")
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module", autouse=True)
def serving(world: World, empty: None) -> Iterator[None]:  # noqa: ARG001  # it comes first
    """Serve a model with one replica."""
    world.team(TEAM)
    world.apply(environment("scaled", pool("gpus")), model("scaled"), deployment(TEAM, NAME, "scaled", on="scaled"))
    world.ready(TEAM, NAME)
    yield
    world.remove(TEAM, NAME)


def _serves(world: World, replicas: int) -> bool:
    pods = [pod for pod in world.pods(world.service(world.placement(TEAM, NAME))) if running(pod)]
    reported = get(world.deployment(TEAM, NAME), "status.scale.replicas")
    if (len(pods), reported) != (replicas, replicas):
        raise LookupError(f"{len(pods)} pods run, {reported} reported")
    return True


def test_kubectl_scales_a_deployment(world: World) -> None:
    world.stack.kubectl("scale", "modeldeployment", NAME, "-n", TEAM, "--replicas=2")
    until("two replicas", partial(_serves, world, 2))
    world.stack.kubectl("scale", "modeldeployment", NAME, "-n", TEAM, "--replicas=1", "--current-replicas=2")
    until("one replica", partial(_serves, world, 1))


def test_divided_replicas_spill_over_and_sleep(world: World) -> None:
    """Each replica takes a node: narrow has one, wide has two."""
    for name, nodes in (("narrow", 1), ("wide", 2)):
        made = environment(name, pool("gpus", maxNodeCount=nodes))
        mapping(made, "metadata.labels")["divided"] = "yes"
        world.apply(made)
    for name in ("narrow", "wide"):  # of those that are Ready, the first by name comes first
        world.wait("InferenceEnvironment", name, "Ready", "True")
    divided = deployment(TEAM, "divided", "whole", environmentSelector={"matchLabels": {"divided": "yes"}})
    mapping(divided, "spec")["scaling"] = {"replicaScheduling": "Divided"}
    world.apply(model("whole", profile=spanning(1, 8)), divided)

    def runs(**want: int) -> bool:
        status = mapping(world.deployment(TEAM, "divided"), "status")
        found = {text(row, "environment"): integer(row, "replicas") for row in listing(status, "placements")}
        total = sum(want.values())
        if (found, get(status, "scale.granted"), get(status, "scale.replicas")) != (want, total, total):
            raise LookupError(f"{found}, {get(status, 'scale')}")
        return True

    until("one replica", partial(runs, narrow=1))
    for replicas, want in ((3, {"narrow": 1, "wide": 2}), (0, {"narrow": 0}), (1, {"narrow": 1})):
        world.stack.kubectl("scale", "modeldeployment", "divided", "-n", TEAM, f"--replicas={replicas}")
        until(f"{replicas} replicas", partial(runs, **want))
    world.stack.kubectl("scale", "modeldeployment", "divided", "-n", TEAM, "--replicas=5")
    until("three of five replicas", partial(runs, narrow=1, wide=2))
    world.wait("ModelDeployment", "divided", "ScaledAsRequested", "False/Limited", TEAM)
    world.remove(TEAM, "divided")


def test_autoscaler_follows_an_external_metric(world: World) -> None:
    autoscaler: Manifest = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": NAME, "namespace": TEAM},
        "spec": {
            "scaleTargetRef": {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelDeployment", "name": NAME},
            "minReplicas": 1,
            "maxReplicas": 3,
            "metrics": [
                {
                    "type": "External",
                    "external": {"metric": {"name": METRIC}, "target": {"type": "AverageValue", "averageValue": "10"}},
                }
            ],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }
    program = apiserver.controllers(
        world.stack.home, "hub", ("horizontal-pod-autoscaler-controller",), "--horizontal-pod-autoscaler-sync-period=3s"
    )
    program = replace(program, name="hub-autoscaler")
    with _serve_metrics(world):
        world.stack.processes.start(program)
        try:
            world.apply(autoscaler)
            Metrics.waiting = 29
            until("three replicas", partial(_serves, world, 3))
            steady("three replicas", partial(_serves, world, 3), seconds=6)
            Metrics.waiting = 4
            until("one replica", partial(_serves, world, 1))
        finally:
            world.stack.kubectl("delete", "hpa", NAME, "-n", TEAM)
            world.stack.processes.stop("hub-autoscaler")
