"""Names with namespaces, all namespaces at once, and completed names."""

import copy
import json
import socket
import time
from pathlib import Path

import pytest
import yaml

from function.cli.init import KINDS
from function.kube.manifests import Manifest, mapping
from tests.cli.api import ApiServer
from tests.cli.conftest import Live, find_manifest
from tests.cli.process import KIMI, output_of, refused_output_of, run, write
from tests.cli.test_services import SERVICE

BOTH = ("-q", "-f", KIMI, "-f", "examples/canary")


@pytest.fixture
def other(kimi: list[Manifest]) -> Manifest:
    """A deployment of the same name in another namespace, which is not placed."""
    deployment = copy.deepcopy(find_manifest(kimi, "ModelDeployment"))
    mapping(deployment, "metadata").update({"namespace": "research", "uid": "other"})
    scheduled: Manifest = {"type": "Scheduled", "status": "False", "reason": "InsufficientCapacity", "message": "full"}
    deployment["status"] = {"conditions": [scheduled]}
    return deployment


def test_accepts_names_as_the_output_prints_them(live: Live, other: Manifest) -> None:
    options = live(other, SERVICE)
    assert refused_output_of("why", "research/kimi-k2", *options).startswith("ModelDeployment research/kimi-k2: ")
    assert output_of("why", "assistants/kimi-k2", *options) == output_of("why", "kimi-k2", *options)
    assert output_of("tree", "assistants/kimi-k2", *options) == output_of("tree", "kimi-k2", *options)
    assert output_of("traffic", "assistants/chat", *options) == output_of("traffic", "chat", *options)
    names = ("research/kimi-k2", "mdldep/assistants/kimi-k2")
    plans = json.loads(run("plan", *names, *options, "-o", "json").stdout)
    assert [plan["namespace"] for plan in plans] == ["research", "assistants"]


def test_a_namespace_in_a_name_narrows_what_is_read(live: Live, server: ApiServer, other: Manifest) -> None:
    run("why", "research/kimi-k2", *live(other))
    assert {request for request in server.requests if "namespaces" in request and "research" not in request} == set()


def test_accepts_names_with_namespaces_for_files() -> None:
    assert output_of("why", "assistants/kimi-k2", *BOTH) == output_of("why", "kimi-k2", *BOTH)
    done = run("why", "nowhere/kimi-k2", *BOTH)
    assert (done.returncode, done.stderr) == (
        4,
        "error: there is no ModelDeployment kimi-k2 in namespace nowhere. Look for it with -n NAMESPACE or -A\n",
    )


def test_refuses_two_namespaces() -> None:
    for command in ("why", "tree", "plan"):
        done = run(command, "assistants/kimi-k2", "-n", "research", *BOTH)
        assert done.returncode == 2
        assert "assistants/kimi-k2 is in namespace assistants, and -n gives research" in done.stderr


def test_why_shows_all_namespaces(live: Live, other: Manifest) -> None:
    options = live(other)
    done = run("why", "-A", *options)
    assert done.returncode == 1, "one is not placed"
    assert [line for line in done.stdout.splitlines() if line.startswith("ModelDeployment")] == [
        "ModelDeployment assistants/kimi-k2: placed",
        "ModelDeployment research/kimi-k2: not placed",
    ]
    data = json.loads(run("why", "-A", *options, "-o", "json").stdout)
    assert [(each["namespace"], each["name"]) for each in data] == [("assistants", "kimi-k2"), ("research", "kimi-k2")]
    one = json.loads(output_of("why", "assistants/kimi-k2", *options, "-o", "json"))
    assert data[0] == one


def test_why_of_files_shows_all() -> None:
    shown = output_of("why", "-A", *BOTH)
    assert [line.split(":")[0] for line in shown.splitlines() if line.startswith("ModelDeployment ")] == [
        "ModelDeployment assistants/chat-canary",
        "ModelDeployment assistants/chat-stable",
        "ModelDeployment assistants/kimi-k2",
    ]


def test_tree_shows_all_namespaces(live: Live, other: Manifest) -> None:
    roots = json.loads(output_of("tree", "-A", *live(other), "-o", "json"))
    assert [root["name"] for root in roots] == ["ModelDeployment/kimi-k2"] * 2
    planned = json.loads(output_of("tree", "-A", *BOTH, "-o", "json"))
    assert planned[2] == json.loads(output_of("tree", "kimi-k2", *BOTH, "-o", "json"))
    assert len(planned) == 3
    assert output_of("tree", "-A", *BOTH, "-o", "dot").count('label="ModelDeployment/') == 3


def test_traffic_shows_all_namespaces(server: ApiServer, tmp_path: Path) -> None:
    second: Manifest = {**SERVICE, "metadata": {"name": "find", "namespace": "search", "uid": "2"}}
    options = ("--kubeconfig", server.kubeconfig(tmp_path))
    assert run("traffic", "-A", *options).returncode == 4
    server.put([SERVICE, second])
    shown = output_of("traffic", "-A", *options)
    assert [line.split(":")[0] for line in shown.splitlines() if line.startswith("ModelService ")] == [
        "ModelService assistants/chat",
        "ModelService search/find",
    ]
    data = json.loads(output_of("traffic", "-A", *options, "-o", "json"))
    assert [(each["namespace"], each["name"], len(each["endpoints"])) for each in data] == [
        ("assistants", "chat", 2),
        ("search", "find", 2),
    ]


def complete(*words: str) -> list[str]:
    """Return what bash would offer for the last word."""
    line = " ".join(("modelplane", *words))
    done = run(COMP_WORDS=line, COMP_CWORD=str(len(words)), _MODELPLANE_COMPLETE="bash_complete")
    assert done.stderr == ""
    return [answer.partition(",")[2] for answer in done.stdout.split()]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("plan", *BOTH[1:], ""), ["chat-canary", "chat-stable", "kimi-k2"]),
        (("plan", *BOTH[1:], "kimi-k2", "chat-c"), ["chat-canary"]),
        (("why", *BOTH[1:], "ch"), ["chat", "chat-canary", "chat-stable"]),
        (("why", *BOTH[1:], "mdldep/k"), ["mdldep/kimi-k2"]),
        (("tree", *BOTH[1:], "assistants/k"), ["assistants/kimi-k2"]),
        (("tree", *BOTH[1:], "-A", ""), [
            "assistants/chat", "assistants/chat-canary", "assistants/chat-stable", "assistants/kimi-k2",
        ]),
        (("traffic", *BOTH[1:], ""), ["chat"]),
        (("capacity", *BOTH[1:], "h100"), ["h100-madrid", "h100-osaka"]),
        (("plan", *BOTH[1:], "-n", ""), ["assistants"]),
        (("plan", *BOTH[1:], "-n", "research", ""), []),
        (("plan", "-f", "nowhere.yaml", ""), []),
    ],
)  # fmt: skip
def test_completes_names_of_files(words: tuple[str, ...], names: list[str]) -> None:
    assert complete(*words) == names


def test_completes_names_of_a_control_plane(live: Live, other: Manifest) -> None:
    options = live(other)
    assert complete("why", *options, "") == ["kimi-k2"]
    assert complete("why", *options, "research/") == ["research/kimi-k2"]
    assert complete("why", *options, "-n", "") == ["assistants", "research"]
    assert complete("drain", *options, "") == ["h200-east"]
    assert complete("cache", "preload", *options, "ki") == ["kimi-k2-instruct"]
    assert complete("cache", "preload", *options, "-e", "h") == ["h200-east"]


@pytest.mark.parametrize("command", [("why",), ("cordon",), ("cache", "clear"), ("traffic",)], ids=" ".join)
def test_completes_nothing_without_a_control_plane(command: tuple[str, ...]) -> None:
    assert complete(*command, "") == []


def test_completes_nothing_after_a_second(server: ApiServer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server.address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        assert complete("why", "--kubeconfig", server.kubeconfig(tmp_path), "") == []
        assert time.monotonic() - begun < 3


def test_other_outputs_of_what_writes(live: Live, server: ApiServer) -> None:
    options = live()
    assert json.loads(output_of("cordon", "h200-east", *options, "-o", "json")) == {
        "environment": "h200-east", "state": "cordoned", "changed": True, "dryRun": False,
    }  # fmt: skip
    assert yaml.safe_load(output_of("cordon", "h200-east", *options, "-o", "yaml"))["changed"] is False
    assert json.loads(output_of("uncordon", "h200-east", *options, "--dry-run", "-o", "json")) == {
        "environment": "h200-east", "state": "uncordoned", "changed": False, "dryRun": True,
    }  # fmt: skip
    cleared = {
        "namespace": "assistants",
        "name": "spare",
        "usedBy": [],
        "removes": [],
        "deleted": True,
        "dryRun": False,
    }
    cache: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "spare", "namespace": "assistants", "uid": "spare"},
        "spec": {"modelRef": {"name": "kimi-k2-instruct"}, "environments": ["h200-east"]},
    }
    server.put([cache])
    assert json.loads(output_of("cache", "clear", "assistants/spare", *options, "-o", "json")) == [
        {**cleared, "deleted": True, "dryRun": False}
    ]


def test_init_and_schema_write_json_and_yaml() -> None:
    for kind in KINDS:
        assert json.loads(output_of("init", kind, "-o", "json")) == yaml.safe_load(output_of("init", kind))
    assert yaml.safe_load(output_of("schema", "-o", "yaml")) == json.loads(output_of("schema"))


def test_preloads_a_model_of_a_namespace(live: Live, kimi: list[Manifest]) -> None:
    model = copy.deepcopy(find_manifest(kimi, "ClusterModel"))
    model |= {"kind": "Model", "metadata": {"name": "own", "namespace": "research", "uid": "own"}}
    options = live(model)
    shown = yaml.safe_load(
        output_of("cache", "preload", "research/own", "-e", "h200-east", "--dry-run", *options, "-o", "yaml")
    )
    assert shown["metadata"]["namespace"] == "research"
    assert shown["spec"]["modelRef"] == {"kind": "Model", "name": "own"}


def test_names_in_files_keep_the_namespaces_of_the_files(tmp_path: Path, kimi: list[Manifest]) -> None:
    deployment = copy.deepcopy(find_manifest(kimi, "ModelDeployment"))
    deployment["metadata"] = {"name": "without"}
    files = ("-q", "-f", KIMI, "-f", write(tmp_path, {**deployment, "status": {}}))
    assert run("why", "default/without", *files).stdout.startswith("ModelDeployment default/without: ")
