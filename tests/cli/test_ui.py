"""`ui`: the data of the page agrees with the other commands, and the page follows what the files say."""

import copy
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from function.cli.options import Sources
from function.cli.ui import find_version
from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.api import ApiServer
from tests.cli.conftest import Live, find_manifest
from tests.cli.process import ELSEWHERE, ENVIRONMENT, EXAMPLES, KIMI, ROOT, STORIES, cells, output_of, run, write
from tests.cli.test_nodes import looked
from tests.cli.test_services import SERVICE

# The last world has a deployment that no environment can run.
WORLDS = [*(("-f", f"examples/{story}") for story in STORIES), ("-f", f"{KIMI}/deployment.yaml", *ELSEWHERE)]


def read(*options: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(output_of("ui", *options, "-o", "json"))
    return data


def check_fleet(data: dict[str, Any], *options: str) -> None:
    """Check that environments are those of `capacity`, and that the bars add up to its numbers."""
    pools = [(each, pool) for each in data["environments"] for pool in each["pools"]]
    expected = json.loads(output_of("capacity", *options, "-o", "json"))
    assert [(each["name"], each["ready"], pool["pool"]) for each, pool in pools] == [
        (row["environment"], row["ready"], row["pool"]) for row in expected
    ]
    same = ("faults", "acceleratorType", "nodes", "gpus", "notSchedulable", "largestReplica")
    for (_, pool), row in zip(pools, expected, strict=True):
        assert {key: pool[key] for key in same} == {key: row[key] for key in same}
        users = [
            {key: user[key] for key in ("namespace", "deployment", "placement", "gpus")} for user in pool["usedBy"]
        ]
        assert users == row["usedBy"]
        sums = Counter[str]()
        for segment in pool["segments"]:
            sums[segment["state"] if not segment["namespace"] else "used"] += segment["gpus"]
        assert sums.total() == row["gpus"]["total"]
        assert sums["Free"] == row["gpus"]["free"]
        assert sums["used"] + sums["Blocked"] == row["gpus"]["inUse"]


def check_deployments(data: dict[str, Any], *options: str) -> None:
    """Check that reasons are those of `why`, and ways out and verdicts those of `plan`."""
    plans = json.loads(run("plan", "-A", "--ways-out", *options, "-o", "json").stdout)
    for shown, plan in zip(data["deployments"], plans, strict=True):
        why = json.loads(run("why", f"mdldep/{shown['name']}", "-n", shown["namespace"], *options, "-o", "json").stdout)
        conditions = [{key: c[key] for key in ("type", "status", "reason", "message")} for c in shown["conditions"]]
        assert (conditions, shown["reasons"]) == (why["conditions"], why["reasons"])
        assert (shown["name"], shown["placed"]) == (plan["name"], plan["placed"])
        assert shown["waysOut"] == [way["message"] for way in plan.get("waysOut", [])]
        assert [p["name"] for p in shown["placements"]] == [p["name"] for p in plan["placements"]]


def check_services(data: dict[str, Any], *options: str) -> None:
    """Check that the shares and reasons of endpoints are those of `traffic`."""
    for shown in data["services"]:
        of_service = ("traffic", shown["name"], "-n", shown["namespace"], *options)
        entries = json.loads(output_of(*of_service, "-o", "json"))
        same = ("environment", "address", "state", "reason", "weight")
        assert [[e[key] for key in same] for e in shown["endpoints"]] == [[e[key] for key in same] for e in entries]
        rows = cells(output_of(*of_service).partition("\n\n")[2])
        listed = [row for endpoint in shown["endpoints"] for row in (endpoint, *endpoint["backends"])]
        assert [row["share"] for row in listed] == [row[2] for row in rows]


@pytest.mark.parametrize("files", WORLDS, ids=lambda files: files[1].rpartition("/")[2])
def test_agrees_with_the_other_commands_on_files(files: tuple[str, ...]) -> None:
    data = read("-q", *files)
    check_fleet(data, *files)
    check_deployments(data, "-q", *files)
    check_services(data, *files)


def test_agrees_with_the_other_commands_on_a_control_plane(live: Live, kimi: list[Manifest]) -> None:
    refused = copy.deepcopy(find_manifest(kimi, "ModelDeployment"))
    refused["metadata"] = {"name": "too-many", "namespace": "assistants", "uid": "too-many"}
    mapping(refused, "spec")["scaling"] = {"fixed": {"replicas": 3}}
    refused["status"] = {
        "conditions": [{"type": "Scheduled", "status": "False", "reason": "InsufficientCapacity", "message": "full"}],
        "unplaced": [{"environment": "h200-east", "reason": "InsufficientCapacity", "message": "no room"}],
    }
    options = live(refused, SERVICE)
    data = read(*options)
    assert data["source"] == "context here"
    check_fleet(data, *options)
    check_services(data, *options)
    placed, shown = data["deployments"]
    why = json.loads(run("why", "too-many", *options, "-o", "json").stdout)
    assert shown["reasons"] == why["reasons"]
    (plan,) = json.loads(run("plan", "too-many", "--ways-out", *options, "-o", "json").stdout)
    assert shown["waysOut"] == [way["message"] for way in plan["waysOut"]] != []
    assert (placed["placed"], placed["waysOut"]) == (True, [])
    (placement,) = placed["placements"]
    assert (placement["state"], placement["download"]["reason"]) == ("Ready", "Hydrated")


def test_costs_agree_with_capacity() -> None:
    files = ("-q", "-f", "examples/cheapest")
    data = read(*files)
    rows = json.loads(output_of("capacity", *files, "--by", "namespace", "-o", "json"))
    costs = [f"{float(cost['amountPerHour']):.2f} {cost['currency']} per hour" for row in rows for cost in row["costs"]]
    # Each namespace of the example has one deployment.
    assert sorted(cost for each in data["deployments"] for cost in each["costs"]) == sorted(costs)
    assert data["totals"]["costs"] == [
        f"{sum(float(cost['amountPerHour']) for row in rows for cost in row['costs']):.2f} USD per hour"
    ]


def shown_states(data: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Return the parts of the only bar."""
    ((pool,),) = [each["pools"] for each in data["environments"]]
    return [(segment["namespace"], segment["state"], segment["gpus"]) for segment in pool["segments"]]


UNREACHABLE = {"type": "ServiceReady", "status": "Unknown", "reason": "Unreachable"}


@pytest.mark.parametrize(
    ("metadata", "status", "state"),
    [
        ({}, {"phase": "Downloading"}, "Downloading"),
        ({}, {"phase": "Failed"}, "Failed"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"phase": "Ready"}, "Deleting"),
        ({}, {"phase": "Starting", "conditions": [UNREACHABLE]}, "Unreachable"),
        ({"creationTimestamp": "2026-01-01T00:00:00Z"}, {}, "Pending"),
        ({}, {"served": True}, "Pending"),
    ],
)
def test_states_of_gpus(
    metadata: Manifest, status: Manifest, state: str, kimi: list[Manifest], server: ApiServer, tmp_path: Path
) -> None:
    manifests = copy.deepcopy(kimi)
    placement = find_manifest(manifests, "ModelPlacement")
    mapping(placement, "metadata").update(metadata)
    placement["status"] = status
    server.put(manifests)
    data = read("--kubeconfig", server.kubeconfig(tmp_path))
    assert shown_states(data) == [("assistants", state, 16), ("", "Free", 16)]


def test_gpus_of_unusable_nodes_are_shown(kimi: list[Manifest], tmp_path: Path) -> None:
    data = read("-q", "-f", write(tmp_path, *looked(kimi)))
    assert shown_states(data)[1:] == [("", "Free", 8), ("", "Unusable", 8)]


def test_gpus_that_an_exclusive_node_blocks_are_shown(kimi: list[Manifest], tmp_path: Path) -> None:
    # Of two nodes of 8 GPUs, one has a pod of 4 that nothing else may run beside.
    environment, placement = (
        copy.deepcopy(find_manifest(kimi, kind)) for kind in ("InferenceEnvironment", "ModelPlacement")
    )
    (pool,) = listing(environment, "spec.nodePools")
    pool |= {"maxNodeCount": 2, "pod": {"hostNetwork": True}}
    mapping(placement, "spec")["topology"] = {"nodes": 1, "gpusPerNode": 4}
    for manifest in (environment, placement):
        del manifest["status"]
    data = read("-q", "-f", write(tmp_path, environment, placement))
    assert [part[1:] for part in shown_states(data)] == [("Pending", 4), ("Blocked", 4), ("Free", 8)]


def test_invalid_pools_and_services_are_shown(tmp_path: Path, server: ApiServer, kimi: list[Manifest]) -> None:
    manifests = copy.deepcopy(kimi)
    (pool,) = listing(find_manifest(manifests, "InferenceEnvironment"), "spec.nodePools")
    pool["acceleratorCount"] = "many"
    server.put([*manifests, {**SERVICE, "spec": {}}])
    data = read("--kubeconfig", server.kubeconfig(tmp_path))
    ((pool,),) = [each["pools"] for each in data["environments"]]
    assert "acceleratorCount" in pool["faults"][0]
    assert [(s["name"], s["endpoints"]) for s in data["services"]] == [("chat", [])]


def test_a_namespace_limits_deployments_and_not_the_fleet() -> None:
    data = read("-q", "-f", "examples/canary", "-f", "examples/two-environments", "-n", "search")
    assert {each["namespace"] for each in data["deployments"]} == {"search"}
    assert data["services"] == []
    users = {user["namespace"] for each in data["environments"] for pool in each["pools"] for user in pool["usedBy"]}
    assert users == {"assistants", "search"}


def test_an_empty_control_plane_is_shown(server: ApiServer, tmp_path: Path) -> None:
    data = read("--kubeconfig", server.kubeconfig(tmp_path))
    assert (data["environments"], data["deployments"], data["services"]) == ([], [], [])
    assert data["totals"] == {"environments": 0, "gpus": {"total": 0, "inUse": 0, "free": 0}, "costs": []}


def test_files_over_a_control_plane_are_named(live: Live, tmp_path: Path, kimi: list[Manifest]) -> None:
    file = write(tmp_path, find_manifest(kimi, "ClusterModel"))
    assert read("-q", "-f", file, "--live", *live())["source"] == f"{file} over context here"


def wait_for(url: str, what: str) -> dict[str, Any]:
    """Ask for the data, as a browser does, until it contains a text."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        content = httpx.get(f"{url}data.json", trust_env=False).text
        if what in content:
            answer: dict[str, Any] = json.loads(content)
            return answer
        time.sleep(0.1)
    raise AssertionError(f"{what} does not appear")


@contextmanager
def showing(source: str, *options: str) -> Iterator[str]:
    """Run the command as a process until the block ends, and then interrupt it; return the URL of its page."""
    program = str(Path(sys.executable).with_name("modelplane"))
    process = subprocess.Popen(
        (program, "ui", *options, "--port", "0"),
        cwd=ROOT,
        env={**ENVIRONMENT, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stderr
    try:
        line = process.stdout.readline()
        match = re.fullmatch(rf"(http://127\.0\.0\.1:\d+/) shows {re.escape(source)}; Ctrl-C ends it\n", line)
        assert match, line
        yield match[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read().strip() == ""
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_page_follows_the_files_until_interrupted(tmp_path: Path) -> None:
    file = tmp_path / "environment.yaml"
    content = (EXAMPLES / "gemma-one-gpu" / "environment.yaml").read_text()
    file.write_text(content)
    with showing(str(file), "-f", str(file)) as url:
        name = find_name(wait_for(url, "environments")["snapshot"])
        file.write_text(content.replace(name, "renamed-while-shown"))
        assert find_name(wait_for(url, "renamed-while-shown")["snapshot"]) == "renamed-while-shown"
        file.write_text("kind: {")
        answer = wait_for(url, "Correct the YAML")
        assert answer["error"].startswith(f"error: {file}:")
        assert find_name(answer["snapshot"]) == "renamed-while-shown", "what was read last stays"
        file.write_text(content)
        assert wait_for(url, f'"name": "{name}"')["error"] == ""


def test_page_follows_a_control_plane(live: Live, server: ApiServer, kimi: list[Manifest]) -> None:
    with showing("context here", *live()) as url:
        assert wait_for(url, '"state": "Ready"')["error"] == ""
        placement = copy.deepcopy(find_manifest(kimi, "ModelPlacement"))
        placement["status"] = {"phase": "Downloading"}
        server.put([placement])
        wait_for(url, '"state": "Downloading"')
        server.forbidden = frozenset({"inferenceenvironments"})
        answer = wait_for(url, "is forbidden")
        assert shown_states(answer["snapshot"])[0] == ("assistants", "Downloading", 16)
        server.forbidden = frozenset()
        assert wait_for(url, '"error": ""')["snapshot"]["source"] == "context here"


def find_name(snapshot: dict[str, JSON]) -> str:
    (environment,) = listing(snapshot, "environments")
    return str(environment["name"])


def test_reads_files_again_only_if_they_have_changed(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("a: 1\n")
    first = find_version(Sources(files=(str(tmp_path), "nowhere.yaml")))
    assert first is not None
    assert find_version(Sources(files=(str(tmp_path), "nowhere.yaml"))) == first
    (tmp_path / "two.yaml").write_text("b: 1\n")
    assert find_version(Sources(files=(str(tmp_path),))) != first
    assert find_version(Sources()) is None, "a control plane tells nothing without being read"
    assert find_version(Sources(files=(str(tmp_path),), live=True)) is None


def test_standard_input_is_read_once() -> None:
    content = (EXAMPLES / "gemma-one-gpu" / "environment.yaml").read_text()
    done = run("ui", "-f", "-", stdin=content)
    assert done.returncode == 2
    assert "standard input cannot be read again" in done.stderr
    assert json.loads(run("ui", "-f", "-", "-o", "json", stdin=content).stdout)["source"] == "standard input"


def test_files_must_be_right_when_the_page_starts() -> None:
    done = run("ui", "-f", "nowhere.yaml")
    assert done.returncode == 2
    assert "nowhere.yaml" in done.stderr
