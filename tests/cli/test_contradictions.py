"""What one command says of files no other command denies, nor the controller: `plan NAME`, `why NAME` and `plan` decide
the same world, and every command warns of invalid objects that it would have used.
"""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest, mapping
from tests.cli.conftest import Live, example, find_manifest
from tests.cli.process import KIMI, output_of, run, write


def kimi(kind: str, name: str = "", namespace: str = "assistants") -> Manifest:
    """Return one of the example's manifests, under another name where one is given."""
    found = copy.deepcopy(find_manifest(example("kimi-k2-two-nodes"), kind))
    if name:
        mapping(found, "metadata").update({"name": name, "namespace": namespace})
    return found


def placed(name: str, deployment: str, namespace: str, **spec: JSON) -> Manifest:
    """Return a placement as one writes it down from a control plane: without owners and uids."""
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelPlacement",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "modelRef": {"kind": "ClusterModel", "name": "kimi-k2-instruct"},
            "deploymentRef": {"name": deployment},
            "inferenceEnvironmentRef": {"name": "h200-east"},
            "profile": "h200-two-nodes",
            "pool": "h200",
            "topology": {
                "nodes": 2,
                "gpusPerNode": 8,
                "parallelism": {"tensor": 8, "pipeline": 2, "expert": "enabled"},
            },
            "replicas": 1,
            **spec,
        },
    }


@pytest.fixture
def three(tmp_path: Path) -> str:
    """Three deployments, of which the two that come first take all four nodes."""
    deployments = [kimi("ModelDeployment", name) for name in ("a", "b", "c")]
    return write(tmp_path, kimi("ClusterModel"), kimi("InferenceEnvironment"), *deployments)


def reasons(*arguments: str) -> dict[str, str]:
    """Return the reason of each deployment that a plan shows."""
    return {p["name"]: p["reason"] for p in json.loads(run("plan", *arguments, "-o", "json").stdout)}


def test_plan_of_one_deployment_agrees_with_the_plan_of_all(three: str) -> None:
    every = json.loads(run("plan", "-f", three, "-o", "json").stdout)
    assert {p["name"]: p["reason"] for p in every} == {"a": "Placed", "b": "Placed", "c": "InsufficientCapacity"}
    for plan in every:
        assert json.loads(run("plan", plan["name"], "-f", three, "-o", "json").stdout) == [plan]


def test_why_agrees_with_plan(three: str) -> None:
    found = json.loads(run("why", "c", "-f", three, "-o", "json").stdout)
    assert [reason["reason"] for reason in found["reasons"]] == ["InsufficientCapacity"]


def test_live_deployments_that_are_not_shown_are_decided_too(live: Live, tmp_path: Path) -> None:
    # One replica of two is placed there; the first of two new deployments takes the rest of four nodes.
    file = write(tmp_path, kimi("ModelDeployment", "a"), kimi("ModelDeployment", "b"))
    assert reasons("b", "-f", file, "--live", *live()) == {"b": "InsufficientCapacity"}


def test_deployments_own_their_placements_from_files(tmp_path: Path) -> None:
    # The environment has room for two replicas: this one is the deployment's own, and stays.
    files = kimi("ClusterModel"), kimi("InferenceEnvironment"), kimi("ModelDeployment")
    own = placed("runs-here", "kimi-k2", "assistants")
    done = run("plan", "-f", write(tmp_path, *files, own), "--diff")
    assert (done.returncode, "stays" in done.stdout, "nothing changes" in done.stdout) == (0, True, True)
    names = output_of("plan", "-f", write(tmp_path, *files, own), "-o", "name").splitlines()
    assert names == ["modelplacement.modelplane.ai/runs-here"]


def test_deployments_do_not_own_placements_in_other_namespaces(tmp_path: Path) -> None:
    files = kimi("ClusterModel"), kimi("InferenceEnvironment"), kimi("ModelDeployment")
    others = placed("runs-there", "kimi-k2", "elsewhere", replicas=2)
    found = reasons("-f", write(tmp_path, *files, others))
    assert found == {"kimi-k2": "InsufficientCapacity"}


def test_namespace_option_selects_from_files(tmp_path: Path) -> None:
    mine, theirs = kimi("ModelDeployment", "a", "mine"), kimi("ModelDeployment", "b", "theirs")
    file = write(tmp_path, kimi("ClusterModel"), kimi("InferenceEnvironment"), mine, theirs)
    assert reasons("-f", file).keys() == {"a", "b"}
    assert reasons("-f", file, "-n", "mine").keys() == {"a"}
    assert reasons("-f", file, "-n", "mine", "-A").keys() == {"a", "b"}
    shown = output_of("render", "-f", file, "-n", "theirs", "-o", "json")
    placements = [m for m in (item["manifest"] for item in json.loads(shown)) if m["kind"] == "ModelPlacement"]
    assert [m["metadata"]["namespace"] for m in placements] == ["theirs"]
    none = run("plan", "-f", file, "-n", "others")
    assert none.returncode == 4
    assert none.stderr.startswith("error: there is no ModelDeployment in namespace others")


def test_finds_deployments_from_files_in_other_namespaces(live: Live, tmp_path: Path) -> None:
    file = write(tmp_path, kimi("ModelDeployment", "elsewhere", "another"))
    options = ("-f", file, "--live", *live())
    assert reasons("elsewhere", *options) == reasons(*options) == {"elsewhere": "Placed"}


COMMANDS = (("plan",), ("why", "kimi-k2"), ("capacity",), ("size",), ("render",), ("tree", "kimi-k2"))
BAD: dict[str, tuple[Manifest, str]] = {
    "placement": (
        placed("broken", "other", "assistants", topology={"nodes": 0, "gpusPerNode": 8}),
        "ModelPlacement assistants/broken: spec.topology.nodes: 0 is not allowed; must be at least 1",
    ),
    "environment": (
        {**kimi("InferenceEnvironment", "broken", ""), "spec": {"cluster": {"source": "Elsewhere"}}},
        "InferenceEnvironment broken: spec.cluster.source: ",
    ),
    "deployment": (
        {**kimi("ModelDeployment", "broken"), "spec": {"environments": -1, "modelRef": {"name": "kimi-k2-instruct"}}},
        "ModelDeployment assistants/broken: spec.environments: -1 is not allowed; must be at least 1",
    ),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_stops_at_invalid_objects_of_files(kind: str, command: tuple[str, ...], tmp_path: Path) -> None:
    bad, fault = BAD[kind]
    file = write(tmp_path, bad)
    done = run(*command, "-f", KIMI, "-f", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {file}:"), done.stderr
    assert fault in done.stderr.splitlines()[0]


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("command", [("plan", "kimi-k2"), ("size", "--live")], ids=" ".join)
def test_every_command_warns_of_invalid_objects_that_are_live(kind: str, command: tuple[str, ...], live: Live) -> None:
    """The API server accepted them, under the rules of its version: others are planned in spite of them."""
    bad, fault = BAD[kind]
    done = run(*command, *live(bad))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith(f"warning: {fault}")], done.stderr


def test_warns_once_of_what_is_read_twice(live: Live, tmp_path: Path) -> None:
    """`--diff` decides the control plane without the files, too."""
    bad, fault = BAD["placement"]
    done = run("plan", "-f", write(tmp_path, kimi("ModelDeployment")), "--live", "--diff", *live(bad))
    assert (done.returncode, done.stderr.count(f"warning: {fault}")) == (0, 1)


def test_a_file_replaces_an_invalid_object_that_is_live(live: Live, tmp_path: Path) -> None:
    bad, _ = BAD["deployment"]
    done = run("plan", "kimi-k2", "-f", write(tmp_path, kimi("ModelDeployment", "broken")), "--live", *live(bad))
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr


PARSED = {
    "no-line-between": (
        "apiVersion: v1\nkind: A\nmetadata: {name: a}\napiVersion: v1\nkind: B\n",
        ":4: apiVersion is given already in line 1. Put --- between objects, or leave one out",
    ),
    "key-twice": (
        "kind: A\nspec:\n  pools:\n  - name: a\n    name: b\n",
        ":5: name is given already in line 4. Put --- between objects, or leave one out",
    ),
    "key-twice-in-json": ('{"kind": "A",\n "kind": "B"}', ":2: kind is given already in line 1."),
    "no-kind": ("apiVersion: v1\nkind: A\n---\nname: b\n", ":4: this is not a Kubernetes manifest (it has no kind)"),
    "item-without-kind": (
        "apiVersion: v1\nkind: List\nitems:\n- name: b\n",
        ":4: this is not a Kubernetes manifest (it has no kind)",
    ),
    "no-version": ("kind: A\n", ":1: this is not a Kubernetes manifest (it has no apiVersion)"),
    "not-yaml": ("a: 1\nb: [1\nc: 2\n", ":3: "),
    "a-map-as-key": ("kind: A\n{a: 1}: b\n", ":2: "),
    "tabs": ("kind: A\nspec:\n\tname: a\n", ":3: "),
    "a-tag": ("kind: A\nspec: !python/object:os.system {}\n", ":2: "),
    "a-loop": ("kind: A\nspec: &a\n  again: *a\n", ":1: it is nested too deeply, or contains itself"),
    "too-deep": (f"kind: A\nspec: {'[' * 2000}{']' * 2000}\n", ":1: it is nested too deeply, or contains itself"),
}


@pytest.mark.parametrize("case", PARSED)
@pytest.mark.parametrize("command", [("plan", "-f"), ("validate",)], ids=" ".join)
def test_parse_errors_name_file_and_line(case: str, command: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(PARSED[case][0])
    done = run(*command, str(file))
    first = (done.stderr or done.stdout).splitlines()[0]
    assert first.startswith(f"error: {file}{PARSED[case][1]}")
    assert done.returncode == 2


def test_accepts_overridden_keys_of_an_anchor(tmp_path: Path) -> None:
    # `<<` brings keys of another map, which the map's own keys replace: that is what it is for.
    environment = "a: &a {name: x, size: 1}\nb: {<<: *a, name: y}\n"
    file = tmp_path / "file.yaml"
    file.write_text(f"apiVersion: v1\nkind: A\n{environment}")
    assert run("validate", str(file)).returncode == 0
