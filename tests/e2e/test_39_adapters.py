"""Scenario 39: LoRA adapters are downloaded beside a model, and reach every pod that KServe composes."""

from functools import partial

import pytest

from function.kube.manifests import Manifest, condition, get, list_texts, listing, text
from tests.e2e.objects import VLLM, deployment, environment, model, pool, spanning
from tests.e2e.world import World, running
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM, SOUTH = "adapters", "south"
CLAIM: Manifest = {"type": "PVC"}
ENGINE: Manifest = {"engine": {"name": "vLLM", "image": VLLM}, "lora": {"maxAdapters": 2}}
FEW: Manifest = {"replicaTopology": {"nodes": 1, "gpusPerNode": 1}, **ENGINE}
TWO_NODES: Manifest = {**spanning(2, 2), **ENGINE}
SQL: Manifest = {"name": "sql", "huggingFace": {"repo": "org/sql"}}
LAW: Manifest = {"name": "Org/Law.v1", "huggingFace": {"repo": "org/law", "path": "v1"}}


def _deploy(world: World, name: str, *adapters: Manifest) -> None:
    world.apply(deployment(TEAM, name, name, on=SOUTH, modelCache=CLAIM, adapters=[*adapters]))


def _pods(world: World, name: str) -> list[Manifest]:
    return [pod for pod in world.pods(world.service(world.placement(TEAM, name))) if running(pod)]


def _loaded(pod: Manifest) -> dict[str, str]:
    """Return the directory of each adapter on its claim, by the name that the engine of a pod gives it."""
    (main,) = (c for c in listing(pod, "spec.containers") if c.get("name") == "main")
    words = " ".join(str(word) for key in ("command", "args") for word in list_texts(main, key))
    mounts = {text(mount, "mountPath"): text(mount, "subPath") for mount in listing(main, "volumeMounts")}
    named = (word.partition("=") for word in words.split() if "=/mnt/lora/" in word)
    return {name.strip("'\""): mounts[path.strip("'\"")] for name, _, path in named}


def _all_load(world: World, name: str, *adapters: str) -> bool:
    pods = _pods(world, name)
    return bool(pods) and all(_loaded(pod).keys() == {*adapters} for pod in pods)


def _jobs(world: World) -> dict[str, str]:
    """Return the uid of each Job by its cache key."""
    jobs = world.stack.remote.find("Job", TEAM)
    return {str(get(job, "metadata.labels")): text(job, "metadata.uid") for job in jobs}


@pytest.mark.parametrize(("name", "profile", "pods"), [("few", FEW, 1), ("wide", TWO_NODES, 2)])
def test_every_pod_loads_the_adapters(world: World, name: str, profile: Manifest, pods: int) -> None:
    world.team(TEAM)
    world.apply(environment(SOUTH, pool("gpus")), model(name, profile=profile, resources={"disk": "60Gi"}))
    _deploy(world, name, SQL, LAW)
    world.ready(TEAM, name)
    until("all pods to load both", partial(_all_load, world, name, "sql", "Org/Law.v1"))
    running_pods = _pods(world, name)
    assert len(running_pods) == pods
    directories = [_loaded(pod) for pod in running_pods]
    assert all(found == directories[0] for found in directories)
    assert directories[0]["Org/Law.v1"].endswith("/v1")
    assert condition(world.placement(TEAM, name), "StorageReady")["status"] == "True"


def test_adding_and_removing_one_downloads_nothing_again(world: World) -> None:
    before = _jobs(world)
    _deploy(world, "few", SQL)
    until("all pods to load one", partial(_all_load, world, "few", "sql"))
    until("its Job to go", lambda: len(_jobs(world)) == len(before) - 1)
    kept = _jobs(world)
    assert kept.items() < before.items()
    _deploy(world, "few", SQL, LAW)
    until("all pods to load both", partial(_all_load, world, "few", "sql", "Org/Law.v1"))
    # The adapter that comes back may be complete in the Object that was still there, and then needs no Job.
    assert kept.items() <= _jobs(world).items(), "the model and the other adapter are not downloaded again"
    world.ready(TEAM, "few")


def test_too_many_are_refused_and_what_runs_stays(world: World) -> None:
    service = world.service(world.placement(TEAM, "few"))
    _deploy(world, "few", SQL, LAW, {"name": "third", "huggingFace": {"repo": "org/third"}})
    placed = text(world.placement(TEAM, "few"), "metadata.name")
    found = world.wait("ModelPlacement", placed, "ServiceAccepted", "False/Rejected", TEAM)
    assert "allows 2 LoRA adapters (lora.maxAdapters), and the deployment has 3" in str(
        condition(found, "ServiceAccepted")
    )
    assert get(world.service(world.placement(TEAM, "few")), "metadata.generation") == get(
        service, "metadata.generation"
    )
    for name in ("few", "wide"):
        world.remove(TEAM, name)
