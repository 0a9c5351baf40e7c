"""The load of the played engines, and how Prometheus finds them (docs/scale.md)."""

import threading
from dataclasses import dataclass, field
from typing import cast

from function.kube.manifests import Manifest
from tools.stack.api import Api
from tools.stack.targets import find_targets
from tools.stack.traffic import Queues

SERVING: Manifest = {
    "metadata": {"name": "chat-1f2e", "namespace": "team"},
    "spec": {"deploymentRef": {"name": "chat"}, "inferenceEnvironmentRef": {"name": "east"}},
    "status": {"service": {"name": "chat-1f2e-0a", "namespace": "models"}},
}
WAITING: Manifest = {"metadata": {"name": "later", "namespace": "team"}, "spec": {}}


@dataclass
class Cluster:
    """Returns the same objects for each question, and notes the questions."""

    objects: list[Manifest]
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def find(self, kind: str, namespace: str = "", labels: str = "") -> list[Manifest]:
        self.asked.append((kind, namespace, labels))
        return self.objects


def test_an_engine_works_on_one_request_and_the_others_wait() -> None:
    queues, release = Queues(), threading.Event()

    def ask() -> None:
        with queues.turn("10.0.0.1"):
            release.wait(10)

    clients = [threading.Thread(target=ask) for _ in range(3)]
    for client in clients:
        client.start()
    busy = "vllm:num_requests_running 1\nvllm:num_requests_waiting 2\n"
    idle = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
    while queues.metrics("10.0.0.1") != busy:
        assert any(client.is_alive() for client in clients)
    assert queues.metrics("10.0.0.2") == idle
    release.set()
    for client in clients:
        client.join(10)
    assert queues.metrics("10.0.0.1") == idle


def test_engines_have_the_labels_by_which_a_deployment_is_scaled() -> None:
    pods: list[Manifest] = [
        {"metadata": {"name": "chat-0"}, "status": {"podIP": "10.0.0.1"}},
        {"metadata": {"name": "without-address"}},
    ]
    hub, remote = Cluster([SERVING, WAITING]), Cluster(pods)
    labels = {"namespace": "team", "deployment": "chat", "environment": "east", "pod": "chat-0"}
    found = [*find_targets(cast("Api", hub), cast("Api", remote))]
    assert found == [{"targets": ["10.0.0.1:8000"], "labels": labels}]
    assert remote.asked == [("Pod", "models", "app.kubernetes.io/name=chat-1f2e-0a,kserve.io/component=workload")]
