"""ModelServices on the command line: shares, the reason for every zero, the tree, and what render makes of them."""

import json
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import Manifest
from tests.cli.api import ApiServer
from tests.cli.process import cells, output_of, refused_output_of, run, write

CANARY = ("-f", "examples/canary")
REASON = "no replica is ready"
SERVICE: Manifest = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelService",
    "metadata": {"name": "chat", "namespace": "assistants", "uid": "1"},
    "spec": {"backends": [{"deployment": "chat-stable"}, {"deployment": "chat-canary"}]},
    "status": {
        "url": "https://models.example.com/services/assistants/chat",
        "conditions": [
            {"type": "EndpointsReady", "status": "False", "reason": "PartiallyReady", "message": "1 of 2"},
            {"type": "RouteReady", "status": "True", "reason": "Accepted", "message": "accepted"},
        ],
        "endpoints": [
            {
                "environment": "madrid",
                "address": "http://10.0.0.1",
                "state": "Serving",
                "weight": 1,
                "backends": [
                    {"deployment": "chat-stable", "placement": "stable-1", "readyReplicas": 1, "weight": 1},
                    {"deployment": "chat-canary", "placement": "canary-1", "weight": 0, "reason": REASON},
                ],
            },
            {"environment": "osaka", "state": "NotReady", "weight": 0, "reason": "no gateway", "backends": []},
        ],
    },
}


def _live(server: ApiServer, folder: Path) -> list[str]:
    server.put([SERVICE])
    return ["--kubeconfig", server.kubeconfig(folder, "assistants")]


def test_example_of_a_canary_is_valid() -> None:
    assert "8 objects valid" in output_of("validate", *CANARY)
    assert "2 Placed" in output_of("plan", *CANARY)


def test_traffic_from_files_shows_the_shares() -> None:
    shown = output_of("traffic", "-q", *CANARY)
    rows = cells(shown.partition("\n\n")[2])
    assert [row[:3] for row in rows] == [
        ["h100-madrid", "Serving", "55.0%"],
        ["chat-canary", "-", "10.0%"],
        ["chat-stable", "-", "45.0%"],
        ["h100-osaka", "Serving", "45.0%"],
        ["chat-stable", "-", "45.0%"],
    ]
    assert shown.startswith("ModelService assistants/chat: https://models.example.com/services/assistants/chat\n")


def test_render_writes_the_routes_although_a_canary_differs() -> None:
    names = output_of("render", "-q", *CANARY, "--level", "control-plane", "-o", "name").splitlines()
    kinds = [name.partition("/")[0] for name in names]
    counts = {kind: kinds.count(kind) for kind in ("httproute.gateway.networking.k8s.io", "service")}
    assert counts == {"httproute.gateway.networking.k8s.io": 1, "service": 2}
    routes = output_of("render", "-q", *CANARY, "--level", "remote", "--kind", "HTTPRoute")
    weights = [[r["weight"] for r in d["spec"]["rules"][0]["backendRefs"]] for d in yaml.safe_load_all(routes)]
    assert weights == [[2, 9], [1]]


def test_why_says_why_an_endpoint_gets_no_requests(tmp_path: Path) -> None:
    other = (
        Path("examples/canary/environment.yaml")
        .read_text()
        .replace("    url: http://madrid", "    url: https://10.0.0.1 #")
    )
    environment = write(tmp_path, *yaml.safe_load_all(other))
    files = [f"-fexamples/canary/{name}.yaml" for name in ("model", "deployment", "service", "composition")]
    shown = refused_output_of("why", "chat", "-q", "-f", environment, *files)
    assert shown.startswith("ModelService assistants/chat: not serving on all endpoints\n")
    assert "1. h100-madrid: NotReady" in shown
    assert "has no host name to verify; set spec.gateway.tls.hostname of InferenceEnvironment h100-madrid" in shown
    assert output_of("why", "chat", *CANARY).startswith("ModelService assistants/chat: serving on all endpoints\n")


def test_why_reads_what_the_controller_reports(server: ApiServer, tmp_path: Path) -> None:
    shown = json.loads(refused_output_of("why", "chat", *_live(server, tmp_path), "-o", "json"))
    reasons = [(reason["subject"], reason["reason"], reason["faults"]) for reason in shown["reasons"]]
    assert reasons == [("canary-1 on madrid", "Serving", [REASON]), ("osaka", "NotReady", ["no gateway"])]


def test_tree_shows_endpoints_and_routes(server: ApiServer, tmp_path: Path) -> None:
    names = [row[0] for row in cells(output_of("tree", "chat", *CANARY, "-q"))]
    assert names[:2] == ["ModelService/chat", "├─ h100-madrid at http://madrid.gateways.example.com"]
    assert [name.partition("/")[0] for name in names[-2:]] == ["├─ HTTPRoute", "└─ HTTPRoute"]
    rows = cells(output_of("tree", "chat", *_live(server, tmp_path)))
    assert rows[-1] == ["└─ osaka at no address yet", "-", "-", "NotReady", "no gateway"]
    assert output_of("tree", "chat", *CANARY, "-q", "-o", "dot").startswith("digraph modelplane {")


def test_name_may_have_its_kind() -> None:
    assert output_of("why", "mdlsvc/chat", *CANARY) == output_of("why", "chat", *CANARY)
    assert output_of("tree", "modelservices/chat", *CANARY) == output_of("tree", "chat", *CANARY)


def test_unknown_name_is_that_of_a_deployment() -> None:
    done = run("why", "chatter", *CANARY)
    assert "there is no ModelDeployment chatter" in done.stderr
    done = run("why", "mdlsvc/chat-stable", *CANARY)
    assert done.stderr.splitlines()[-1] == "error: there is no ModelService chat-stable. There are chat"
    assert done.returncode == 4


@pytest.mark.parametrize("command", ["validate", "plan", "traffic"])
def test_hand_written_service_with_the_name_of_a_deployment_that_composes_one_is_an_error(
    tmp_path: Path, command: str
) -> None:
    """The controller refuses it, too; the deployment would silently replace the service."""
    hand: Manifest = {**SERVICE, "metadata": {"name": "chat", "namespace": "assistants"}}
    deployment: Manifest = {**hand, "kind": "ModelDeployment", "spec": {"modelRef": {"name": "m"}, "service": {}}}
    done = run(command, "-f", write(tmp_path, hand, deployment))
    message = "spec.service: ModelService chat exists and is not composed by this deployment; delete or rename it"
    assert (done.returncode, message in done.stdout + done.stderr) == (1, True)


def test_service_that_a_deployment_composed_is_its_own(tmp_path: Path) -> None:
    """As `kubectl get -o yaml` writes them."""
    owner: Manifest = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelDeployment", "name": "chat", "uid": "1"}
    composed: Manifest = {
        **SERVICE,
        "metadata": {
            "name": "chat",
            "namespace": "assistants",
            "annotations": {"crossplane.io/composition-resource-name": "service"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"backends": [{"deployment": "chat"}]},
    }
    metadata: Manifest = {"name": "chat", "namespace": "assistants", "uid": "1"}
    spec: Manifest = {"modelRef": {"name": "m"}, "service": {}}
    deployment: Manifest = {**composed, "kind": "ModelDeployment", "metadata": metadata, "spec": spec}
    assert output_of("validate", "-q", write(tmp_path, composed, deployment)) == ""
