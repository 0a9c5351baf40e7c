"""The command line on the live control plane, as kubectl's plugin and with the rights that its page
asks for: it decides as the controller does, and its writes work.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from function.cli.options import Code
from function.kube.manifests import JSON, Manifest, listing, mapping, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools import programs
from tools.stack import inventory
from tools.stack.layout import SOURCE
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM, READ = "commanded", "modelplane-cli-read"
GATEWAY = "Gateway kserve/kserve-ingress-gateway"


@pytest.fixture(scope="module", autouse=True)
def _rights(world: World) -> None:
    """Give the reader and the keeper of caches the ClusterRoles of docs/cli.md and no more."""
    documented = (SOURCE / "docs" / "cli.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    world.apply(*yaml.safe_load_all(documented))
    for user, roles in (("reader", (READ,)), ("keeper", (READ, "modelplane-cli-caches"))):
        world.apply(*(_binding(user, role) for role in roles))


def _binding(user: str, role: str) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{role}-{user}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


def run(world: World, *arguments: str, user: str = "reader") -> subprocess.CompletedProcess[str]:
    """Run a command of kubectl's plugin in the team's namespace."""
    return _plugin(world, *arguments, "-n", TEAM, user=user)


def _plugin(world: World, *arguments: str, user: str) -> subprocess.CompletedProcess[str]:
    kubeconfig = str(world.stack.home.kubeconfig(user))
    command = (str(programs.path("kubectl")), "modelplane", *arguments, "--kubeconfig", kubeconfig)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path}
    return subprocess.run(command, capture_output=True, check=False, env=environment, text=True, timeout=300)


def output_of(world: World, *arguments: str, user: str = "reader") -> str:
    """Run a command that succeeds and return what it wrote."""
    done = run(world, *arguments, user=user)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plan_agrees_with_the_controller(world: World) -> None:
    world.team(TEAM)
    world.apply(
        environment("commanded", pool("gpus", maxNodeCount=2)),
        model("commanded", profile=spanning(2, 8), resources={"disk": "10Gi"}),
        deployment(TEAM, "runs", "commanded", on="commanded"),
    )
    world.ready(TEAM, "runs")
    world.apply(deployment(TEAM, "waits", "commanded", on="commanded"))
    world.wait("ModelDeployment", "waits", "Scheduled", "False/InsufficientCapacity", TEAM)
    plans = json.loads(run(world, "plan", "-A", "-o", "json").stdout)
    reasons = {(plan["namespace"], plan["name"]): plan["reason"] for plan in plans}
    assert reasons == {(TEAM, "runs"): "Placed", (TEAM, "waits"): "InsufficientCapacity"}


def test_commands_read_the_control_plane(world: World) -> None:
    refused = run(world, "why", "waits")
    assert refused.returncode == 1, refused.stderr
    assert "InsufficientCapacity (waiting)" in refused.stdout

    def read_children() -> list[dict[str, str]]:
        (placement,) = json.loads(output_of(world, "tree", "runs", "-o", "json"))["children"]
        children: list[dict[str, str]] = placement["children"]
        return children

    # The Object of the download's scripts is shown until the provider has released it.
    until("only what is Ready", lambda: {child["ready"] for child in read_children()} == {"True"})
    assert "LLMInferenceService" in {child["name"].split("/")[0] for child in read_children()}
    pools: list[JSON] = json.loads(output_of(world, "capacity", "-o", "json"))
    (ours,) = listing({"pools": [p for p in pools if text(p, "environment") == "commanded"]}, "pools")
    assert ours["gpus"] == {"total": 16, "inUse": 16, "free": 0}


def test_commands_apply_files_over_live_objects(world: World, tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(yaml.safe_dump(deployment(TEAM, "runs", "commanded", on="commanded")))
    rendered = yaml.safe_load_all(output_of(world, "render", "-f", str(file), "--live"))
    kinds = {manifest["kind"] for manifest in rendered if manifest}
    assert {"ModelPlacement", "LLMInferenceService", "Job", "PersistentVolumeClaim"} <= kinds
    assert "commanded" in output_of(world, "size", "--live", "--params", "16B", "--precision", "bf16")
    file.write_text(yaml.safe_dump(deployment(TEAM, "later", "comanded", on="commanded")))
    checked = run(world, "validate", str(file), "--live")
    assert checked.returncode == Code.REFUSED
    assert "did you mean commanded?" in checked.stdout


def test_check_cluster_finds_all_prerequisites(world: World, record_property: Callable[[str, object], None]) -> None:
    """With the rights that we ask for everything but the Gateway can be seen; an administrator sees that, too."""
    for user, unsettled in (("executor", {GATEWAY: ("warning", "forbidden for this identity")}), ("remote", {})):
        done = _plugin(world, "check", "cluster", "-o", "json", user=user)
        lines = {line["check"]: (line["state"], line["found"]) for line in json.loads(done.stdout)}
        record_property(user, lines)
        assert {check: line for check, line in lines.items() if line[0] not in ("ok", "unchecked")} == unsettled
        assert done.returncode == Code.OK
        assert lines["Kubernetes"] == ("ok", "v1.34.2")
        assert lines["storage class shared-vast"] == ("unchecked", "kubernetes.io/no-provisioner, Immediate")
        gpus = [int(str(mapping(node, "status.capacity").get("nvidia.com/gpu", "0"))) for node in inventory.nodes()]
        assert lines["GPUs nvidia.com/gpu"] == ("ok", f"{sum(gpus)} on {len(gpus) - 2} nodes")
        assert lines["nodes without GPUs"] == ("ok", f"2 of {len(gpus)}: cpu-7-0, cpu-7-1")
    assert lines[GATEWAY][1].startswith("Programmed at ")


def test_check_cluster_names_all_missing_prerequisites(world: World) -> None:
    """The hub's own API server: no KServe, no nodes."""
    done = _plugin(world, "check", "cluster", "-o", "json", user="hub")
    missing = {line["check"] for line in json.loads(done.stdout) if line["state"] == "missing"}
    assert missing == {"LeaderWorkerSet", "KServe", "KServe's presets", "Gateway API", GATEWAY, "GPUs"}
    assert done.returncode == Code.REFUSED


def test_check_control_plane_finds_all_prerequisites(world: World) -> None:
    """Core and the provider run as processes, so no Deployment tells their releases and the provider's account."""
    done = _plugin(world, "check", "control-plane", "-o", "json", user="hub")
    lines = {line["check"]: (line["state"], line["found"]) for line in json.loads(done.stdout)}
    assert {check for check, (state, _) in lines.items() if state == "missing"} == set()
    assert lines["rights of Crossplane"] == ("ok", "all, as crossplane")
    assert done.returncode == Code.OK
    assert "Function Version: v" in _plugin(world, "version", user="hub").stdout


def test_cache_commands_preload_and_clear(world: World) -> None:
    wait = ("--wait", "--timeout", "120")
    refused = run(world, "cache", "preload", "commanded", "-e", "commanded", "--name", "kept")
    assert refused.returncode == Code.UNREACHABLE
    assert "Ask for the rights that docs/cli.md lists" in refused.stderr
    output_of(world, "cache", "preload", "commanded", "-e", "commanded", "--name", "kept", *wait, user="keeper")
    (entry,) = json.loads(output_of(world, "cache", "list", "-o", "json"))
    assert (entry["name"], entry["environment"], entry["phase"]) == ("kept", "commanded", "Ready")
    output_of(world, "cache", "clear", "kept", "--purge", user="keeper")
    until("the cache to go", lambda: world.stack.hub.get("ModelCache", "kept", TEAM) is None)
    world.remove(TEAM, "runs", "waits")
