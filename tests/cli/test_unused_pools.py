"""Divided replicas use one pool of each environment: `plan` and `why` say so, and what uses the other pool."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.api import ApiServer
from tests.cli.conftest import controlled, example, find_manifest
from tests.cli.process import refused_output_of, run, write


def _build_fleet(replicas: int, **spec: str) -> list[Manifest]:
    """Two pools of four GPUs each, of different kinds, on one environment; a replica takes one GPU."""
    manifests = copy.deepcopy(example("gemma-one-gpu"))
    environment = mapping(find_manifest(manifests, "InferenceEnvironment"), "spec")
    (h100,) = listing(environment, "nodePools")
    h100 |= {"maxNodeCount": 1}
    a100: Manifest = {
        **h100,
        "name": "a100",
        "acceleratorType": "nvidia-a100-80gb",
        "labels": {"modelplane.ai/pool": "a100"},
    }
    pools: list[JSON] = [h100, a100]
    environment["nodePools"] = pools
    scaling: Manifest = {"replicaScheduling": "Divided", "fixed": {"replicas": replicas}, **spec}
    mapping(find_manifest(manifests, "ModelDeployment"), "spec")["scaling"] = scaling
    return manifests


NOTE = (
    "room is left on h100-west/a100, but the replicas of a deployment use one pool of each environment. To use it, "
    "create a second ModelDeployment with the 2 replicas that have no place, and list both in one ModelService"
)


def test_plan_says_that_the_other_pool_is_not_used(tmp_path: Path) -> None:
    (plan,) = json.loads(run("plan", "-f", write(tmp_path, *_build_fleet(6)), "-o", "json").stdout)
    rows = [{key: row[key] for key in ("pool", "verdict", "wanted", "found")} for row in plan["candidates"]]
    assert sorted(rows, key=lambda row: str(row["pool"])) == [
        {
            "pool": "a100",
            "verdict": "unused",
            "wanted": "2 replicas",
            "found": "room for 4, but one pool for each environment: h100",
        },
        {"pool": "h100", "verdict": "placed", "wanted": "4 replicas", "found": "room for 4, 0 of 1 node in use"},
    ]
    assert NOTE in plan["remarks"]


def test_why_says_it_too(tmp_path: Path) -> None:
    shown = refused_output_of("why", "-f", write(tmp_path, *_build_fleet(6)))
    assert NOTE in " ".join(shown.split())


def test_why_says_it_of_a_control_plane(server: ApiServer, tmp_path: Path) -> None:
    server.put(copy.deepcopy([*controlled(_build_fleet(6)).store.values()]))
    options = ("--kubeconfig", server.kubeconfig(tmp_path, "chat"))
    assert NOTE in " ".join(refused_output_of("why", "gemma", *options).split())
    assert NOTE not in " ".join(refused_output_of("why", "gemma", "-q", *options).split())


def test_the_way_out_works(tmp_path: Path) -> None:
    manifests = _build_fleet(4)
    second = copy.deepcopy(find_manifest(manifests, "ModelDeployment"))
    mapping(second, "metadata")["name"] = "gemma-more"
    mapping(second, "spec.scaling.fixed")["replicas"] = 2
    plans = json.loads(run("plan", "-f", write(tmp_path, *manifests, second), "-o", "json").stdout)
    placements = [(p["name"], each["pool"], each["replicas"]) for p in plans for each in p["placements"]]
    assert placements == [("gemma", "h100", 4), ("gemma-more", "a100", 2)]


@pytest.mark.parametrize(("replicas", "scheduling"), [(4, "Divided"), (6, "Duplicated")])
def test_says_nothing_if_no_replica_lacks_a_place_or_none_is_divided(
    replicas: int, scheduling: str, tmp_path: Path
) -> None:
    file = write(tmp_path, *_build_fleet(replicas, replicaScheduling=scheduling))
    (plan,) = json.loads(run("plan", "-f", file, "-o", "json").stdout)
    assert "unused" not in {row["verdict"] for row in plan["candidates"]}
    assert NOTE not in plan["remarks"]
