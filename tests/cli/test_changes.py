"""`plan --set` and `plan --diff`: which deployments are decided differently, and which services restart."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.api import ApiServer
from tests.cli.conftest import Live, example, find_manifest
from tests.cli.process import KIMI, output_of, run, write
from tests.support.plane import change, only, plane


@pytest.fixture
def three(tmp_path: Path) -> str:
    """Three deployments of two nodes each on a pool of four."""
    manifests = example("kimi-k2-two-nodes")
    deployment = find_manifest(manifests, "ModelDeployment")
    more = [copy.deepcopy(deployment) for _ in range(2)]
    for each, name in zip(more, ("second", "third"), strict=True):
        mapping(each, "metadata")["name"] = name
    return write(tmp_path, *manifests, *more)


CHANGE = """\
+ ModelDeployment assistants/third
    InsufficientCapacity: 0/1 environments can run kimi-k2-instruct: 1 has insufficient capacity.
 -> Placed: Placed on h200-east (profile h200-two-nodes, pool h200, 1 replica of 2 nodes x 8 GPUs)

1 deployment would be scheduled differently"""


def test_set_shows_deployments_that_change(three: str) -> None:
    shown = output_of("plan", "kimi-k2", "-f", three, "--set", "h200-east/h200.maxNodeCount=6")
    assert shown.rstrip().endswith(CHANGE)
    found = json.loads(output_of("plan", "-f", three, "--set", "h200-east/h200.maxNodeCount=6", "-o", "json"))
    assert [(c["name"], c["before"]["reason"], c["after"]["reason"]) for c in found["changes"]] == [
        ("third", "InsufficientCapacity", "Placed")
    ]
    assert [p["reason"] for p in found["plans"]] == ["Placed"] * 3


def test_set_reports_no_changes(three: str) -> None:
    done = run("plan", "-f", three, "--set", "h200-east/h200.maxNodeCount=5")
    assert done.stdout.endswith("\nnothing changes\n")


def test_set_reads_standard_input_once(three: str) -> None:
    done = run("plan", "-f", "-", "--set", "h200-east/h200.maxNodeCount=6", stdin=Path(three).read_text())
    assert done.stdout.rstrip().endswith(CHANGE)


def test_set_changes_pools_below_the_cluster() -> None:
    """The model needs four nodes of four GPUs."""
    done = run("plan", "-f", "examples/kimi-k26-vram", "--set", "gke-us-central1/a100.maxNodeCount=3")
    assert " -> PoolTooSmall: 0/1 environments can run kimi-k2.6: 1 is too small" in done.stdout
    assert done.returncode == 1


def test_set_changes_live_pools(live: Live) -> None:
    shown = run("plan", "--set", "h200-east/h200.maxNodeCount=1", *live()).stdout
    assert "nothing changes" in shown, "what runs stays"


@pytest.mark.parametrize("price", ["2.5", "'2.5'"])
def test_set_takes_a_price_as_a_number(price: str) -> None:
    """The field is text; the example runs on 2 nodes x 8 GPUs: 16 x 2.5 = 40."""
    value = f"h200-east/h200.price={{perGpuHour: {price}, currency: USD}}"
    shown = json.loads(output_of("plan", "-f", KIMI, "-o", "json", "--set", value))
    assert shown["plans"][0]["costs"] == [{"currency": "USD", "amountPerHour": "40.0"}]


@pytest.mark.parametrize(
    ("value", "code", "says"),
    [
        ("maxNodeCount=8", 2, "is not ENVIRONMENT/POOL.FIELD=VALUE, such as us-east/h100.nodeCount=8"),
        ("h200-eest/h200.maxNodeCount=8", 4, "there is no InferenceEnvironment h200-eest. Did you mean h200-east?"),
        ("h200-east/zz.maxNodeCount=8", 4, "there is no pool zz of InferenceEnvironment h200-east. There are h200"),
        ("h200-east/h200.maxNodeCont=8", 2, "spec.nodePools[0].maxNodeCont: is not a field; did you mean maxNodeCount"),
        (
            "h200-east/h200.acceleratorCount=72",
            2,
            "spec.nodePools[0].acceleratorCount: 72 is not allowed; must be at m",
        ),
        ("h200-east/h200.maxNodeCount=[", 2, "[ is not YAML"),
        ("h200-east/h200.maxNodeCount=!!int many", 2, "!!int many is not YAML"),
        ("h200-east/h200.acceleratorCount=2026-11-28", 2, 'acceleratorCount: "2026-11-28" is not allowed'),
    ],
)
def test_set_refuses_invalid_values(value: str, code: int, says: str) -> None:
    done = run("plan", "-f", KIMI, "--set", value)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr


def test_names_the_deployments_that_hold_a_full_pool(three: str) -> None:
    (refused,) = [plan for plan in json.loads(run("plan", "-f", three, "-o", "json").stdout) if not plan["placed"]]
    # 2 x 2 nodes of 8 GPUs.
    held = "assistants/kimi-k2 (16), assistants/second (16)"
    assert f"h200-east: GPUs of pool h200 are held by {held}" in refused["remarks"]
    assert f"note: h200-east: GPUs of pool h200 are held by {held}" in run("plan", "-f", three).stdout
    assert "note:" not in run("plan", "-f", three, "-q").stdout


def test_names_the_holders_on_a_control_plane(live: Live, tmp_path: Path) -> None:
    second = copy.deepcopy(find_manifest(example("kimi-k2-two-nodes"), "ModelDeployment"))
    mapping(second, "metadata")["name"] = "second"
    mapping(second, "spec")["scaling"] = {"fixed": {"replicas": 2}}  # of two nodes each, and two of four are free
    shown = run("plan", "second", "-f", write(tmp_path, second), "--live", *live()).stdout
    assert "note: h200-east: GPUs of pool h200 are held by assistants/kimi-k2 (16)" in shown


def test_prints_a_summary_of_many_deployments(three: str) -> None:
    shown = run("plan", "-f", three).stdout
    assert shown.endswith("\n3 deployments\n  2 Placed\n  1 InsufficientCapacity: assistants/third\n")
    assert "deployments" not in output_of("plan", "-f", KIMI)


SEEN = "pod template changes"


def edited(field: str, value: JSON) -> Manifest:
    """Return the example's environment with another field of its pool."""
    found = copy.deepcopy(find_manifest(example("kimi-k2-two-nodes"), "InferenceEnvironment"))
    (pool,) = listing(found, "spec.nodePools")
    pool[field] = value
    return found


EDITS: tuple[tuple[str, JSON], ...] = (
    ("taints", [{"key": "team", "value": "x", "effect": "NoSchedule"}]),
    ("pod", {"env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}),
    ("interNode", {"preset": "coreweave-infiniband"}),
)


def diff(file: str, options: list[str]) -> list[str]:
    """Return the changes that a plan shows for a file over the control plane."""
    (plan,) = json.loads(output_of("plan", "-f", file, "--live", "--diff", "-o", "json", *options))
    changes: list[str] = plan["changes"]
    return changes


@pytest.mark.parametrize(("field", "value"), EDITS, ids=[field for field, _ in EDITS])
def test_diff_names_services_that_restart(field: str, value: JSON, live: Live, tmp_path: Path) -> None:
    (line,) = diff(write(tmp_path, edited(field, value)), live())
    assert line.startswith("~ LLMInferenceService kimi-k2-")
    assert line.endswith(f" on h200-east restarts: {SEEN}")


def test_names_a_pool_in_use_whose_labels_would_change(live: Live, tmp_path: Path) -> None:
    file = write(tmp_path, edited("labels", {"modelplane.ai/pool": "another"}))
    assert diff(file, live()) == [], "the services stay on their nodes"
    shown = output_of("plan", "-f", file, "--live", *live())
    assert "invalid" in shown
    assert "nodePools[0].labels" in shown
    assert "cannot change while assistants/kimi-k2-" in shown


def test_diff_is_empty_when_no_pod_template_changes(live: Live, tmp_path: Path) -> None:
    manifests = copy.deepcopy(example("kimi-k2-two-nodes"))
    for manifest in manifests:
        if manifest["kind"] == "InferenceEnvironment":
            mapping(manifest, "spec.storage")["readBandwidth"] = 2
            (pool,) = listing(manifest, "spec.nodePools")
            pool["maxNodeCount"] = 9
    assert diff(write(tmp_path, *manifests), live()) == []


def test_unchanged_file_shows_no_difference(live: Live, kimi: list[Manifest], tmp_path: Path) -> None:
    """The API server adds defaults to a placement that the function leaves out."""
    deployment = copy.deepcopy(find_manifest(kimi, "ModelDeployment"))
    placement = copy.deepcopy(find_manifest(kimi, "ModelPlacement"))
    mapping(deployment, "spec")["modelCache"] = {"type": "PVC"}
    mapping(placement, "spec")["modelCache"] = {"type": "PVC", "retain": False, "preload": True}
    file = write(tmp_path, {key: deployment[key] for key in ("apiVersion", "kind", "metadata", "spec")})
    assert diff(file, live(deployment, placement)) == []


GATE: Manifest = {"apiVersion": "batch/v1", "kind": "Job", "name": "smoke", "condition": "Complete"}


@pytest.mark.parametrize(
    ("rollout", "order"),
    [
        ({}, "a100-oslo, h100-tokyo"),
        ({"order": ["h100-tokyo"]}, "h100-tokyo, a100-oslo"),
        ({"paused": True}, "a100-oslo, h100-tokyo; paused"),
        ({"gate": GATE}, "a100-oslo, h100-tokyo; after the first, Job smoke must have Complete=True"),
    ],
    ids=["by-name", "order", "paused", "gate"],
)
def test_diff_shows_the_order_of_a_rollout(rollout: Manifest, order: str, server: ApiServer, tmp_path: Path) -> None:
    control = plane("two-environments")
    deployment = only(control, "ModelDeployment")
    change(control, deployment, "spec.rollout", {"environments": "OneByOne", **rollout})
    control.settle()
    server.put(copy.deepcopy(list(control.store.values())))
    options = ["--kubeconfig", server.kubeconfig(tmp_path, deployment.namespace)]
    model = copy.deepcopy(find_manifest(example("two-environments"), "ClusterModel"))
    assert diff(write(tmp_path, model), options) == [], "it is the same"

    for profile in listing(model, "spec.serving"):
        mapping(profile, "engine")["image"] = "vllm/vllm-openai:v0.15.1"
    *restarts, last = diff(write(tmp_path, model), options)
    assert last == f"~ one environment after the other: {order}"
    assert [line.split(" on ")[1].split()[0] for line in restarts] == order.partition(";")[0].split(", ")


def test_set_names_services_that_restart(live: Live) -> None:
    shown = output_of("plan", "--set", "h200-east/h200.taints=[{key: team, effect: NoSchedule}]", *live())
    assert f" on h200-east: {SEEN}" in shown
    assert shown.endswith("1 service to restart\n"), "no decision changes"
