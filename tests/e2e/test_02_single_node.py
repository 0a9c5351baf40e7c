"""Scenario 2: a model of one GPU is KServe's preset in three replicas: no claim, no Job, no group."""

from functools import partial

import pytest

from function.kube.manifests import get, integer, listing, mapping, text
from tests.e2e.world import ACCEPTANCE, World, gpus, running
from tools.stack import upstream
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM = "research"


def test_three_replicas_are_pods_of_one_gpu(world: World) -> None:
    platform = upstream.read(ACCEPTANCE / "kimi-k2-two-nodes.yaml")
    world.apply(*(m for m in platform if m["kind"] == "InferenceEnvironment"))
    world.apply_file(ACCEPTANCE / "gemma-one-gpu.yaml")
    world.ready(TEAM, "gemma")
    placement = world.placement(TEAM, "gemma")
    assert text(placement, "spec.pool") == "h100-serving"
    service = world.service(placement)
    assert get(service, "spec.worker") is None
    assert text(service, "spec.model.uri").startswith("hf://google/gemma-3-27b-it")
    (workload,) = world.stack.remote.find("Deployment", TEAM)
    assert integer(workload, "spec.replicas") == 3
    until("three pods", lambda: [running(pod) for pod in world.pods(service)] == [True] * 3)
    pods = world.pods(service)
    assert [gpus(pod) for pod in pods] == ["1"] * 3
    assert {world.pool_of(pod) for pod in pods} == {"medium"}
    assert mapping(placement, "status.storage").keys() == {"type", "uri"}
    until(
        "no claim and no Job to be there",
        lambda: not any(map(partial(_found, world), ("PersistentVolumeClaim", "Job"))),
    )


def _found(world: World, kind: str) -> int:
    return len(world.stack.remote.find(kind, TEAM))


def test_the_token_reaches_the_initializer_and_nothing_else(world: World) -> None:
    placement = world.placement(TEAM, "gemma")
    pod = world.pods(world.service(placement))[0]
    (initializer,) = (c for c in listing(pod, "spec.initContainers") if c["name"] == "storage-initializer")
    (token,) = (e for e in listing(initializer, "env") if e["name"] == "HF_TOKEN")
    secret = world.stack.remote.get("Secret", text(token, "valueFrom.secretKeyRef.name"), TEAM)
    assert secret is not None
    assert "hf_not_a_token" not in str(placement)
    assert integer(placement, "status.gpus") == 3
    world.remove(TEAM, "gemma")
