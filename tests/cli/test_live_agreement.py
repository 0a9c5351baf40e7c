"""On a live control plane `plan` and `why` say what the controller says, whatever an environment has published."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, condition, mapping, text
from tests.cli.api import ApiServer
from tests.cli.conftest import controlled, example
from tests.cli.process import run, said
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


def test_plan_refuses_what_the_controller_refuses(
    unpublished: list[Manifest], server: ApiServer, tmp_path: Path
) -> None:
    server.put(unpublished)
    (deployment,) = [m for m in unpublished if m["kind"] == "ModelDeployment"]
    scheduled = condition(deployment, "Scheduled")
    assert text(scheduled, "reason") == "InsufficientCapacity"
    options = ["--kubeconfig", server.kubeconfig(tmp_path, "assistants")]
    (plan,) = json.loads(run("plan", "kimi-k2", *options, "-o", "json").stdout)
    assert (plan["reason"], plan["message"]) == (text(scheduled, "reason"), text(scheduled, "message"))


def test_why_says_what_the_controller_says(unpublished: list[Manifest], server: ApiServer, tmp_path: Path) -> None:
    server.put(unpublished)
    shown = said("why", "kimi-k2", "--kubeconfig", server.kubeconfig(tmp_path, "assistants"))
    assert "Scheduled False InsufficientCapacity" in shown
    assert "1. h200-east: InsufficientCapacity" in shown


def test_why_needs_no_rights_beyond_its_namespace(
    unpublished: list[Manifest], server: ApiServer, tmp_path: Path
) -> None:
    server.put(unpublished)
    said("why", "kimi-k2", "--kubeconfig", server.kubeconfig(tmp_path, "assistants"))
    namespace = "GET /apis/modelplane.ai/v1alpha1/namespaces/assistants"
    assert [request for request in server.requests if "/version" not in request] == [
        f"{namespace}/modeldeployments",
        f"{namespace}/modelplacements",
    ]
