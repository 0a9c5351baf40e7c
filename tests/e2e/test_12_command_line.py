"""Scenario 12: the command line on the live control plane: it decides as the controller does, and its writes work."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from function.kube.manifests import JSON, listing, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM = "commanded"


def run(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as an administrator of the hub."""
    program = str(Path(sys.executable).with_name("kubectl-modelplane"))
    kubeconfig = str(world.stack.home.kubeconfig("hub"))
    command = (program, *arguments, "-n", TEAM, "--kubeconfig", kubeconfig)
    return subprocess.run(command, capture_output=True, check=False, text=True, timeout=300)


def said(world: World, *arguments: str) -> str:
    """Run a command that succeeds and return what it wrote."""
    done = run(world, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plan_tells_what_the_controller_decided(world: World) -> None:
    world.team(TEAM)
    world.apply(
        environment("commanded", pool("gpus", maxNodeCount=2)),
        model("commanded", profile=spanning(2, 8), resources={"disk": "10Gi"}),
        deployment(TEAM, "runs", "commanded", on="commanded"),
    )
    world.ready(TEAM, "runs", seconds=120)
    world.apply(deployment(TEAM, "waits", "commanded", on="commanded"))
    world.wait("ModelDeployment", "waits", "Scheduled", "False/InsufficientCapacity", TEAM)
    plans = json.loads(run(world, "plan", "-A", "-o", "json").stdout)
    reasons = {(plan["namespace"], plan["name"]): plan["reason"] for plan in plans}
    assert reasons == {(TEAM, "runs"): "Placed", (TEAM, "waits"): "InsufficientCapacity"}


def test_every_reader_reads_what_is_there(world: World) -> None:
    assert "InsufficientCapacity (not now)" in said(world, "why", "waits")
    root = json.loads(said(world, "tree", "runs", "-o", "json"))
    (placement,) = root["children"]
    assert {child["ready"] for child in placement["children"]} == {"True"}
    assert "LLMInferenceService" in {child["name"].split("/")[0] for child in placement["children"]}
    pools: list[JSON] = json.loads(said(world, "capacity", "-o", "json"))
    (ours,) = listing({"pools": [p for p in pools if text(p, "environment") == "commanded"]}, "pools")
    assert ours["gpus"] == {"total": 16, "inUse": 16, "free": 0}


def test_weights_come_and_go_by_command(world: World) -> None:
    said(world, "cache", "preload", "commanded", "-e", "commanded", "--name", "kept", "--wait", "--timeout", "120")
    (entry,) = json.loads(said(world, "cache", "list", "-o", "json"))
    assert (entry["name"], entry["environment"], entry["phase"]) == ("kept", "commanded", "Ready")
    said(world, "cache", "retry", "kept", "--wait", "--timeout", "120")
    said(world, "cache", "clear", "kept", "--purge")
    until("the cache to go", lambda: world.stack.hub.get("ModelCache", "kept", TEAM) is None)
    world.remove(TEAM, "runs", "waits")
