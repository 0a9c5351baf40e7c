"""What the real kube-state-metrics makes of a fleet, and what the rules of install/monitoring compute from that."""

import copy
import json
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import Manifest, listing, mapping, parse_time, text
from tests.cli.api import ApiServer, serving
from tests.cli.conftest import controlled
from tests.cli.process import EXAMPLES, output_of
from tests.composers.test_lent import LENDER, OWNER, deployment, started
from tests.conformance.watched import watching
from tools import debian, programs
from tools.documents import document, documents
from tools.programs import ROOT

pytestmark = pytest.mark.conformance
MONITORING = ROOT / "install" / "monitoring"
FLEET = ROOT / "tests" / "browser" / "fleet.yaml"
EXPIRES = "2027-01-01T00:00:00Z"
_SERIES = re.compile(r"(modelplane_\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SECONDS = 60
# Labels that kube-state-metrics adds to every series.
_ADDED = {"customresource_group", "customresource_kind", "customresource_version"}

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def manifests() -> list[Manifest]:
    """The fleet of the screenshots on a control plane, with a kubeconfig of which it is known when it expires."""
    control = controlled([*documents(EXAMPLES / "canary" / "composition.yaml"), *documents(FLEET)])
    copied = [copy.deepcopy(manifest) for manifest in control.store.values()]
    (west,) = (m for m in copied if text(m, "metadata.name") == "eu-west")
    mapping(west, "metadata")["annotations"] = {"modelplane.ai/kubeconfig-expires": EXPIRES}
    return copied


@pytest.fixture(scope="module")
def series(manifests: list[Manifest], tmp_path_factory: pytest.TempPathFactory) -> Series:
    """All series of the fleet."""
    return _watch(manifests, {"ModelService", "InferenceEnvironment", "ModelPlacement"}, tmp_path_factory)


@pytest.fixture(scope="module")
def reclaiming() -> list[Manifest]:
    """A pool of 4 GPUs whose lender has 4 replicas, 3 of them lent, and is told to give back 2."""
    control = started(deployment(LENDER, 4, guaranteed=1))
    control.apply([deployment(OWNER, 2)])
    control.advance()
    control.advance()
    copied = copy.deepcopy(list(control.store.values()))
    placement = next(m for m in copied if m["kind"] == "ModelPlacement")
    mapping(placement, "status")["restarts"] = {"count": 4}
    return copied


@pytest.fixture(scope="module")
def lent_series(reclaiming: list[Manifest], tmp_path_factory: pytest.TempPathFactory) -> Series:
    return _watch(reclaiming, {"InferenceEnvironment", "ModelPlacement"}, tmp_path_factory)


def _watch(manifests: list[Manifest], kinds: set[str], tmp_path_factory: pytest.TempPathFactory) -> Series:
    """Returns all series of some objects once each of these kinds has some."""
    folder = tmp_path_factory.mktemp("metrics")
    with watching(m for m in manifests if "/" in text(m, "apiVersion")) as url:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "clusters": [{"name": "here", "cluster": {"server": url}}],
            "users": [{"name": "me", "user": {}}],
        }
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))
        return _read(folder / "kubeconfig", kinds)


def _read(kubeconfig: Path, kinds: set[str]) -> Series:
    port, telemetry = _find_ports()
    options = {
        "kubeconfig": kubeconfig,
        "custom-resource-state-config-file": MONITORING / "kube-state-metrics.yaml",
        "custom-resource-state-only": "true",
        "host": "127.0.0.1",
        "port": port,
        "telemetry-host": "127.0.0.1",
        "telemetry-port": telemetry,
    }
    argv = (str(programs.path("kube-state-metrics")), *(f"--{name}={value}" for name, value in options.items()))
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return _wait(f"http://127.0.0.1:{port}/metrics", kinds)
    finally:
        process.terminate()
        process.wait()


def _find_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return one.getsockname()[1], two.getsockname()[1]


def _wait(url: str, kinds: set[str]) -> Series:
    """Return the series once each of the kinds has some and no more come."""
    deadline, before = time.monotonic() + _SECONDS, Series()
    while time.monotonic() < deadline:
        time.sleep(1)
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                found = dict(_parse(response.read().decode()))
        except OSError:
            continue
        served = {value for _, labels in found for name, value in labels if name == "kind"}
        if kinds <= served and found.keys() == before.keys():
            return found
        before = found
    raise AssertionError("kube-state-metrics shows too little")


def _parse(metrics: str) -> Iterator[tuple[tuple[str, frozenset[tuple[str, str]]], float]]:
    for line in metrics.splitlines():
        if match := _SERIES.fullmatch(line):
            labels = {name: value for name, value in _LABEL.findall(match[2]) if name not in _ADDED}
            yield (match[1], frozenset(labels.items())), float(match[3])


def find(series: Series, metric: str, **labels: str) -> list[float]:
    return [value for (name, has), value in series.items() if name == metric and set(labels.items()) <= has]


def test_every_metric_of_the_configuration_has_series(series: Series, lent_series: Series) -> None:
    resources = listing(document(MONITORING / "kube-state-metrics.yaml"), "spec.resources")
    configured = {f"modelplane_{text(metric, 'name')}" for r in resources for metric in listing(r, "metrics")}
    # No environment of the fleet has its pools there, and no ModelCache is in it.
    absent = {"existing_pool_price_per_gpu_hour", "gke_pool_price_per_gpu_hour"}
    absent |= {"cache_environments_desired", "cache_environments_ready"}
    assert configured - {name for name, _ in (*series, *lent_series)} == {f"modelplane_{name}" for name in absent}


def test_restarts_are_counted(lent_series: Series) -> None:
    assert find(lent_series, "modelplane_placement_restarts") == [4], "none of a placement whose pods are not observed"


def test_no_resource_has_two_metrics_of_one_name() -> None:
    """kube-state-metrics would leave out the last families of the resource."""
    for resource in listing(document(MONITORING / "kube-state-metrics.yaml"), "spec.resources"):
        names = [text(metric, "name") for metric in listing(resource, "metrics")]
        assert len(names) == len(set(names))


def test_series_are_what_the_objects_say(series: Series) -> None:
    assert find(series, "modelplane_pool_price_per_gpu_hour", name="us-east", pool="l4", currency="USD") == [0.6]
    assert find(series, "modelplane_pool_price_per_gpu_hour", name="us-west") == [], "it has no price"
    assert find(series, "modelplane_kubeconfig_expires") == [1798761600]
    kimi = {"namespace": "research", "deployment": "kimi", "environment": "us-east", "pool": "h200", "phase": "Ready"}
    assert find(series, "modelplane_placement_info", **kimi) == [1]
    assert find(series, "modelplane_placement_gpus", namespace="research") == [16]
    service = {"namespace": "assistants", "name": "chat"}
    assert find(series, "modelplane_service_endpoints", **service) == [2]
    assert find(series, "modelplane_service_endpoints_ready", **service) == [0]
    assert find(series, "modelplane_service_endpoint_weight", **service, environment="eu-west") == [0]
    assert find(series, "modelplane_service_endpoint_info", **service, reason="no replica is ready") == [1, 1]


def test_reclaims_are_what_the_ledger_says(lent_series: Series, reclaiming: list[Manifest], tmp_path: Path) -> None:
    pool = {"name": "h100-west", "pool": "h100", "accelerator": "nvidia-h100-80gb"}
    assert find(lent_series, "modelplane_pool_gpus_free", **pool) == [0]
    assert find(lent_series, "modelplane_pool_reclaims", **pool) == [1]
    (environment,) = (m for m in reclaiming if m["kind"] == "InferenceEnvironment")
    (row,) = listing(environment, "status.admitted")
    told = {
        "kind": "InferenceEnvironment",
        "name": "h100-west",
        "pool": "h100",
        "namespace": "team",
        "placement": text(row, "name"),
        "claimant_namespace": "team",
        "claimant": "owner",
    }
    since = parse_time(text(row, "yields.since"))
    found = {name: value for (name, labels), value in lent_series.items() if labels == set(told.items())}
    assert found == {"modelplane_reclaim_replicas_kept": 2, "modelplane_reclaim_since": since}
    lender = {"namespace": "team", "name": text(row, "name")}
    assert find(lent_series, "modelplane_placement_replicas", **lender) == [4]
    assert find(lent_series, "modelplane_placement_replicas_guaranteed", **lender) == [1]
    lent = {'{deployment="lender", environment="h100-west", pool="h100"}': 3.0}
    evaluate(lent_series, "sum by (deployment, environment, pool) (modelplane:placement_gpus:lent)", lent, tmp_path)


def test_jobs_have_the_time_of_their_creation(series: Series, manifests: list[Manifest]) -> None:
    jobs = [m for m in manifests if text(m, "spec.forProvider.manifest.kind") == "Job"]
    owners = {text(owner, "name") for job in jobs for owner in listing(job, "metadata.ownerReferences")}
    found = {
        dict(labels)["owner"]
        for name, labels in series
        if name == "modelplane_object_created" and dict(labels)["resource"].startswith("job-")
    }
    assert found == owners
    assert owners


def evaluate(series: Series, query: str, expected: Mapping[str, float], folder: Path) -> None:
    """Let promtool compute a query from the series with the rules of install/monitoring, and compare the answer."""
    lines: list[Manifest] = []
    for (name, labels), value in series.items():
        shown = ", ".join(f"{key}={json.dumps(each)}" for key, each in sorted(labels))
        lines.append({"series": f"{name}{{{shown}}}", "values": f"{value}+0x3"})
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    case = {"interval": "1m", "input_series": lines}
    case |= {"promql_expr_test": [{"expr": query, "eval_time": "2m", "exp_samples": samples}]}
    (folder / "rules.yaml").write_text(yaml.safe_dump(document(MONITORING / "alerts.yaml")["spec"]))
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [case]}
    (folder / "cases.yaml").write_text(yaml.safe_dump(content))
    program = debian.path("prometheus").with_name("promtool")
    argv = (str(program), "test", "rules", str(folder / "cases.yaml"))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_costs_are_those_of_capacity(series: Series, manifests: list[Manifest], tmp_path: Path) -> None:
    with serving(ApiServer()) as server:
        server.put(manifests)
        shown = output_of("capacity", "--by", "namespace", "--kubeconfig", server.kubeconfig(tmp_path), "-o", "json")
    expected = {
        f'{{namespace="{row["namespace"]}", currency="{cost["currency"]}"}}': float(cost["amountPerHour"])
        for row in json.loads(shown)
        for cost in row["costs"]
    }
    assert len(expected) == 3
    evaluate(series, "round(modelplane:namespace_cost:per_hour, 0.01)", expected, tmp_path)
    gpus = sum(row["gpus"] for row in json.loads(shown))
    evaluate(series, "sum by (phase) (modelplane:placement_gpus:granted)", {'{phase="Ready"}': gpus}, tmp_path)


def test_deployments_are_counted_by_their_reasons(series: Series, tmp_path: Path) -> None:
    expected = {'{reason="Placed"}': 3, '{reason="InsufficientCapacity"}': 1}
    query = 'count by (reason) (modelplane_condition{kind="ModelDeployment", type="Scheduled"})'
    evaluate(series, query, expected, tmp_path)
