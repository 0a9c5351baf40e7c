"""On a live control plane `plan` and `why` agree with the controller, and each placement is charged once."""

import copy
import json
from pathlib import Path

import pytest
import yaml

from function.cli.store import Ref
from function.kube.manifests import Manifest, condition, listing, mapping, text
from tests.cli.api import ApiServer
from tests.cli.conftest import Live, controlled, example, find_manifest
from tests.cli.process import output_of, refused_output_of, run, write
from tests.cli.test_ways_out import FLEET
from tools.control_plane import ControlPlane
from tools.engine import Engine


@pytest.fixture(scope="module")
def unpublished() -> list[Manifest]:
    """Kimi K2 on a Ready environment that has not published its free GPUs, as the controller has decided it."""
    control = controlled([m for m in example("kimi-k2-two-nodes") if m["kind"] != "ModelDeployment"])
    (ref,) = control.all("InferenceEnvironment")
    environment = copy.deepcopy(control.store[ref])
    for ledger in ("pools", "gpus", "admitted", "rejected"):
        mapping(environment, "status").pop(ledger, None)
    control.store[ref] = environment
    control.apply([m for m in example("kimi-k2-two-nodes") if m["kind"] == "ModelDeployment"])
    (wanted,) = control.all("ModelDeployment")
    assert isinstance(control.renderer, Engine)
    # One reconcile of the deployment, before the environment's own.
    (made,) = control.renderer.render(control.store, [wanted])
    control.store[wanted] = {**control.store[wanted], "status": made.composite["status"]}
    return copy.deepcopy(list(control.store.values()))


def test_plan_agrees_with_the_controller_before_a_ledger_is_published(
    unpublished: list[Manifest], server: ApiServer, tmp_path: Path
) -> None:
    server.put(unpublished)
    deployment = find_manifest(unpublished, "ModelDeployment")
    scheduled = condition(deployment, "Scheduled")
    assert text(scheduled, "reason") == "InsufficientCapacity"
    options = ["--kubeconfig", server.kubeconfig(tmp_path, "assistants")]
    (plan,) = json.loads(run("plan", "kimi-k2", *options, "-o", "json").stdout)
    assert (plan["reason"], plan["message"]) == (text(scheduled, "reason"), text(scheduled, "message"))


def test_why_prints_what_the_controller_reports(unpublished: list[Manifest], server: ApiServer, tmp_path: Path) -> None:
    server.put(unpublished)
    shown = refused_output_of("why", "kimi-k2", "--kubeconfig", server.kubeconfig(tmp_path, "assistants"))
    assert "Scheduled False InsufficientCapacity" in shown
    assert "1. h200-east: InsufficientCapacity" in shown


def test_why_reads_only_its_namespace_unless_an_environment_refuses(
    unpublished: list[Manifest], server: ApiServer, tmp_path: Path
) -> None:
    placed = [m for m in unpublished if m["kind"] != "ModelDeployment"]
    deployment = copy.deepcopy(find_manifest(unpublished, "ModelDeployment"))
    mapping(deployment, "status")["unplaced"] = []
    server.put([*placed, deployment])
    refused_output_of("why", "kimi-k2", "--kubeconfig", server.kubeconfig(tmp_path, "assistants"))
    namespace = "GET /apis/modelplane.ai/v1alpha1/namespaces/assistants"
    assert [request for request in server.requests if "/version" not in request] == [
        f"{namespace}/modeldeployments",
        f"{namespace}/modelplacements",
        f"{namespace}/modelservices",
    ]


def deployment(name: str, replicas: int) -> Manifest:
    """A deployment of Kimi K2, whose replicas take two nodes each."""
    manifest = copy.deepcopy(find_manifest(example("kimi-k2-two-nodes"), "ModelDeployment"))
    mapping(manifest, "metadata")["name"] = name
    mapping(manifest, "spec")["scaling"] = {"fixed": {"replicas": replicas}}
    return manifest


@pytest.mark.parametrize(("replicas", "reason"), [(2, "Placed"), (3, "InsufficientCapacity")])
def test_plan_charges_each_placement_once(server: ApiServer, tmp_path: Path, replicas: int, reason: str) -> None:
    manifests = [copy.deepcopy(m) for m in example("kimi-k2-two-nodes") if m["kind"] != "ModelDeployment"]
    environment = find_manifest(manifests, "InferenceEnvironment")
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


def test_capacity_agrees_with_the_published_ledger(live: Live, kimi: list[Manifest]) -> None:
    # Without the environment's label a placement that runs nothing takes no part in the ledger.
    waiting = copy.deepcopy(find_manifest(kimi, "ModelPlacement"))
    mapping(waiting, "metadata").update({"name": "waiting", "uid": "waiting", "labels": {}, "ownerReferences": []})
    waiting.pop("status")
    (pool,) = listing(find_manifest(kimi, "InferenceEnvironment"), "status.pools")
    (usage,) = json.loads(output_of("capacity", *live(waiting), "-o", "json"))
    assert (usage["gpus"]["total"], usage["gpus"]["inUse"]) == (pool["gpus"], pool["gpusInUse"])
    assert [user["placement"] for user in usage["usedBy"]] != ["waiting"]


ENVIRONMENT, OTHER = "eu-h100", "eu-l40s"


@pytest.fixture(scope="module")
def crowded() -> list[Manifest]:
    """Two environments, as the controller has decided them: `chat` fits if `search` moves, or if a node is added."""
    fleet: list[Manifest] = [m for m in yaml.safe_load_all(FLEET) if m["kind"] != "ModelPlacement"]
    (chat,) = [m for m in fleet if mapping(m, "metadata")["name"] == "chat"]
    control = controlled([m for m in fleet if m is not chat])
    (pool,) = listing(find_named(control, ENVIRONMENT), "spec.nodePools")
    pool["maxNodeCount"] = 1
    control.settle()
    control.apply([chat])
    control.settle()
    return copy.deepcopy(list(control.store.values()))


def find_named(control: ControlPlane, name: str) -> Manifest:
    """Returns the environment with a name."""
    return control.store[Ref("InferenceEnvironment", "", name)]


MOVE = (
    "Move team-a/search from eu-h100 to eu-l40s (pool l40s), so that pool h100 of InferenceEnvironment eu-h100 has room"
)
ADD = "Add 1 node to pool h100 of InferenceEnvironment eu-h100 (maxNodeCount 2; 20.00 USD per hour)"


def test_why_lists_the_ways_out_of_plan_under_their_environments(
    crowded: list[Manifest], server: ApiServer, tmp_path: Path
) -> None:
    server.put(crowded)
    live = ("--kubeconfig", server.kubeconfig(tmp_path, "team-c"))
    shown = refused_output_of("why", "chat", *live)
    first, second = shown.partition("\n2. ")[::2]
    assert f"   do: {MOVE}\n   or: {ADD}\n" in first
    assert second == (
        f"{OTHER}: NoPoolSatisfiesRequirements (unschedulable)\n"
        "   - profile eight-gpus: pool l40s has acceleratorCount 4, 8 required (4 missing)\n"
    )
    (plan,) = json.loads(run("plan", "chat", *live, "--ways-out", "-o", "json").stdout)
    assert [way["message"] for way in plan["waysOut"]] == [MOVE, ADD]


def test_why_shows_the_advice_of_the_controller_if_it_may_read_no_environments(
    crowded: list[Manifest], server: ApiServer, tmp_path: Path
) -> None:
    server.put(crowded)
    server.forbidden = frozenset({"inferenceenvironments"})
    shown = refused_output_of("why", "chat", "--kubeconfig", server.kubeconfig(tmp_path, "team-c"))
    first, second = shown.partition("\n2. ")[::2]
    assert f"   do: {ADD}\n" in first
    assert "   do: " not in second
    assert "\n\n  note: only what the controller found is shown, without placements to move: cannot list " in second
