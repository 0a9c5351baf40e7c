"""On a live control plane each placement is charged once: by its grant, which the environment has published."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, condition, listing, mapping, text
from tests.cli.api import ApiServer
from tests.cli.conftest import controlled, example
from tests.cli.process import run, write


def deployment(name: str, replicas: int) -> Manifest:
    """A deployment of Kimi K2, whose replicas take two nodes each."""
    (manifest,) = [copy.deepcopy(m) for m in example("kimi-k2-two-nodes") if m["kind"] == "ModelDeployment"]
    mapping(manifest, "metadata")["name"] = name
    mapping(manifest, "spec")["scaling"] = {"fixed": {"replicas": replicas}}
    return manifest


@pytest.mark.parametrize(("replicas", "reason"), [(2, "Placed"), (3, "InsufficientCapacity")])
def test_plan_charges_each_placement_once(server: ApiServer, tmp_path: Path, replicas: int, reason: str) -> None:
    manifests = [copy.deepcopy(m) for m in example("kimi-k2-two-nodes") if m["kind"] != "ModelDeployment"]
    (environment,) = [m for m in manifests if m["kind"] == "InferenceEnvironment"]
    listing(environment, "spec.nodePools")[0]["maxNodeCount"] = 6
    control = controlled([*manifests, deployment("first", 1), deployment("second", 1)])
    server.put(copy.deepcopy(list(control.store.values())))
    grown = deployment("second", replicas)
    control.apply([copy.deepcopy(grown)])
    control.settle()
    (ref,) = [ref for ref in control.all("ModelDeployment") if ref.name == "second"]
    scheduled = condition(control.store[ref], "Scheduled")
    assert text(scheduled, "reason") == reason
    live = ("--live", "--kubeconfig", server.kubeconfig(tmp_path, "assistants"))
    (plan,) = json.loads(run("plan", "second", "-f", write(tmp_path, grown), *live, "-o", "json").stdout)
    assert (plan["reason"], plan["message"]) == (text(scheduled, "reason"), text(scheduled, "message"))
