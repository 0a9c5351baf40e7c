"""Scenario 3: replicas of many nodes, by pipeline and by data parallelism."""

import pytest

from function.kube.manifests import Manifest, condition, get, integer, mapping, parse_time, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import ACCEPTANCE, World, gpus, running
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e


def test_vram_maths_makes_one_group_of_four_nodes(world: World) -> None:
    world.apply_file(ACCEPTANCE / "kimi-k26-four-nodes.yaml")
    _follow_download(world, world.wait_placed("assistants", "kimi-k26"))
    world.ready("assistants", "kimi-k26")
    placement = world.placement("assistants", "kimi-k26")
    assert "progress" not in mapping(placement, "status.storage")
    assert get(placement, "spec.topology.nodes") == 4
    service = world.service(placement)
    until("four pods", lambda: [running(pod) for pod in world.pods(service)] == [True] * 4)
    pods = world.pods(service)
    assert len({text(pod, "spec.nodeName") for pod in pods}) == 4
    assert [gpus(pod) for pod in pods] == ["4"] * 4
    assert {world.pool_of(pod) for pod in pods} == {"a100"}
    world.remove("assistants", "kimi-k26")


def _follow_download(world: World, placed: str) -> None:
    """Follow a download of eight parts, which the Job controller counts and the provider mirrors."""

    def find_progress() -> Manifest:
        progress = mapping(world.stack.hub.get("ModelPlacement", placed, "assistants"), "status.storage.progress")
        return progress if integer(progress, "partsDone") else {}

    progress = until("a part of the download", find_progress)
    assert progress["parts"] == 8
    assert progress["bytesTotal"] == 720 * 2**30
    assert progress["bytesDone"] == 90 * 2**30 * integer(progress, "partsDone")
    assert parse_time(text(progress, "changedAt"))
    world.wait("ModelPlacement", placed, "StorageReady", "True/Hydrated", "assistants")
    name = text(world.stack.hub.get("ModelPlacement", placed, "assistants"), "status.storage.job")
    job = world.stack.remote.get("Job", name, "assistants")
    assert get(job, "status.completedIndexes") == "0-7"
    assert condition(job, "Complete")["status"] == "True"


def test_data_parallel_ranks_form_one_group(world: World) -> None:
    team = world.team("data-parallel")
    shape = spanning(2, 8, tensor=4, data=4, dataLocal=2, expert="enabled")
    world.apply(
        environment("ranks", pool("gpus")),
        model("ranks", profile=shape),
        deployment(team, "ranks", "ranks", on="ranks"),
    )
    world.ready(team, "ranks")
    (group,) = world.stack.remote.find("LeaderWorkerSet", team)
    assert integer(group, "spec.leaderWorkerTemplate.size") == 2
    service = world.service(world.placement(team, "ranks"))
    assert condition(service, "WorkerWorkloadReady")["status"] == "True"
    assert [gpus(pod) for pod in world.pods(service)] == ["8", "8"]
    world.remove(team, "ranks")
