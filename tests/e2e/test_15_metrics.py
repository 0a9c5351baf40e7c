"""Scenario 15: Prometheus reads the function and kube-state-metrics, and answers every question of the dashboard."""

import json
import math
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import Manifest, listing, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools import debian, programs
from tools.stack import layout, upstream
from tools.stack.layout import SOURCE
from tools.stack.processes import Program
from tools.stack.waiting import listens, until

pytestmark = pytest.mark.e2e
TEAM = "watched"
MONITORING = SOURCE / "install" / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
# What Grafana puts in their place.
VARIABLES = {"$__rate_interval": "60s", "$job": ".+"}
# Nothing of the kind happens here, and a counter that never counted is no series.
MAY_BE_EMPTY = {
    "Calls that did not compose",
    "Environments by condition",
    "Placements not admitted",
    # There is no price, ModelService, download, load or kubeconfig that expires: see tests/conformance.
    "Costs by namespace",
    "Costs by deployment",
    "Endpoints of services",
    "Weights of endpoints",
    "Endpoints without requests",
    "Age of downloads",
    "Time until kubeconfigs expire",
    "Requests that wait",
    "Requests that run",
    "Time to first token",
    "Tokens per second",
    "Deployments that do not follow the load",
    # Nor is a replica lent.
    "Lent GPUs by namespace",
    "Lent GPUs of pools",
    "Reclaims in one hour",
    "Deployments that wait for replicas",
    "Replicas kept",
}


@dataclass(frozen=True)
class Question:
    """One query of the dashboard."""

    panel: str
    query: str


def _questions() -> tuple[Question, ...]:
    found = []
    for panel in listing(DASHBOARD, "panels"):
        for target in listing(panel, "targets"):
            query = text(target, "expr")
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            found.append(Question(text(panel, "title"), query))
    return tuple(found)


QUESTIONS = _questions()


@pytest.fixture(scope="module")
def _prometheus(world: World) -> Iterator[None]:
    """Run Debian's Prometheus beside the stack: the function, kube-state-metrics, and the alerts."""
    folder = world.stack.home.root / "prometheus"
    folder.mkdir(exist_ok=True)
    _start_state_metrics(world, folder)
    (alerts,) = upstream.read(MONITORING / "alerts.yaml")
    (folder / "alerts.yaml").write_text(yaml.safe_dump(alerts["spec"]))
    ports = {"function-modelplane": layout.FUNCTION_METRICS, "kube-state-metrics": layout.STATE_METRICS}
    scrapes = [
        {
            "job_name": name,
            "honor_labels": True,
            "scrape_interval": "1s",
            "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
        }
        for name, port in ports.items()
    ]
    often: Manifest = {"evaluation_interval": "2s"}
    config = {"global": often, "scrape_configs": scrapes, "rule_files": ["alerts.yaml"]}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    options = {
        "config.file": folder / "prometheus.yaml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": f"127.0.0.1:{layout.PROMETHEUS}",
    }
    argv = (str(debian.path("prometheus")), *(f"--{name}={value}" for name, value in options.items()))
    world.stack.processes.start(Program(name="prometheus", argv=argv))
    until("Prometheus", lambda: listens(layout.PROMETHEUS))
    yield
    world.stack.processes.stop("prometheus")
    world.stack.processes.stop("kube-state-metrics")


def _start_state_metrics(world: World, folder: Path) -> None:
    """Run kube-state-metrics with the configuration and no more rights than those in install/monitoring."""
    world.stack.kubectl.apply(upstream.read(MONITORING / "rbac.yaml"))
    identity = json.loads(world.stack.home.kubeconfig("hub").read_text())
    identity["users"][0]["user"]["as"] = "system:serviceaccount:monitoring:kube-state-metrics"
    (folder / "kubeconfig").write_text(json.dumps(identity))
    options = {
        "kubeconfig": folder / "kubeconfig",
        "custom-resource-state-config-file": MONITORING / "kube-state-metrics.yaml",
        "custom-resource-state-only": "true",
        "host": "127.0.0.1",
        "port": layout.STATE_METRICS,
        "telemetry-host": "127.0.0.1",
        "telemetry-port": layout.STATE_TELEMETRY,
    }
    argv = (str(programs.path("kube-state-metrics")), *(f"--{name}={value}" for name, value in options.items()))
    world.stack.processes.start(Program(name="kube-state-metrics", argv=argv))
    until("kube-state-metrics", lambda: listens(layout.STATE_METRICS))


def ask(query: str) -> list[float]:
    """Return the values of a query's answer, of which none may be an error."""
    url = f"http://127.0.0.1:{layout.PROMETHEUS}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=10) as response:
        answer = json.load(response)
    assert answer["status"] == "success", query
    return [float(each["value"][1]) for each in answer["data"]["result"]]


@pytest.fixture(scope="module")
def _happening(world: World, _prometheus: None) -> None:
    """Let there be what dashboards are about: something is served, something is refused."""
    world.team(TEAM)
    world.apply(
        environment("watched", pool("gpus", maxNodeCount=1)),
        model("one"),
        model("three", profile=spanning(3, 8)),
        deployment(TEAM, "runs", "one", on="watched"),
        deployment(TEAM, "never", "three", on="watched"),
    )
    world.ready(TEAM, "runs")
    world.wait("ModelDeployment", "never", "Scheduled", "False/PoolTooSmall", TEAM)


@pytest.mark.usefixtures("_happening")
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.panel)
def test_every_panel_has_something_to_show(question: Question) -> None:
    if question.panel in MAY_BE_EMPTY:
        assert all(map(math.isfinite, ask(question.query)))
    else:
        until(question.query, lambda: any(map(math.isfinite, ask(question.query))), seconds=90)


@pytest.mark.usefixtures("_happening")
def test_a_refusal_is_counted_under_its_reason() -> None:
    query = 'modelplane_conditions_not_true_total{kind="ModelDeployment",type="Scheduled",reason="PoolTooSmall"}'
    until("the refusal", lambda: ask(query))


@pytest.mark.usefixtures("_happening")
def test_a_reconcile_takes_no_more_rounds_than_crossplane_makes() -> None:
    rounds = ask("sum by (kind) (modelplane_call_seconds_count) / sum by (kind) (modelplane_reconciles_total)")
    assert rounds
    assert all(1 <= each <= 6 for each in rounds), "(docs/facts.md, Crossplane)"


STATE = {
    'modelplane_pool_gpus{name="watched", pool="gpus"}': 8,
    'modelplane_pool_gpus_in_use{name="watched", pool="gpus"}': 1,
    'modelplane_pool_gpus_free{name="watched", pool="gpus"}': 7,
    'modelplane_pool_placements{name="watched", pool="gpus"}': 1,
    'modelplane_deployment_replicas_desired{namespace="watched", name="runs"}': 1,
    'modelplane_deployment_replicas{namespace="watched", name="runs", environment="watched", phase="Ready"}': 1,
    'modelplane_deployment_environments_ready{namespace="watched", name="runs"}': 1,
    'modelplane_deployment_environments_ready{namespace="watched", name="never"}': 0,
    'modelplane_condition{kind="ModelDeployment", name="never", type="Scheduled", reason="PoolTooSmall"}': 1,
    'modelplane_condition{kind="ModelPlacement", namespace="watched", type="Ready", status="True"}': 1,
    'modelplane_condition{kind="InferenceEnvironment", name="watched", type="ClusterReady", status="True"}': 1,
    'modelplane_placement_gpus{namespace="watched"}': 1,
    'modelplane_placement_info{namespace="watched", deployment="runs", environment="watched", phase="Ready"}': 1,
    'modelplane:placement_gpus:granted{namespace="watched", deployment="runs", phase="Ready"}': 1,
    'min(modelplane_object_synced{namespace="watched"})': 1,
}


@pytest.mark.usefixtures("_happening")
@pytest.mark.parametrize("query", STATE)
def test_objects_are_series(query: str) -> None:
    until(query, lambda: ask(query) == [STATE[query]], seconds=30)


@pytest.mark.usefixtures("_happening")
def test_alerts_are_loaded_and_pending() -> None:
    """One that waits for its minutes; promtool tests when each fires (tests/conformance/test_monitoring.py)."""
    query = 'ALERTS{alertname="ModelDeploymentNotReady", name="never", alertstate="pending"}'
    until("the alert", lambda: ask(query), seconds=30)


def test_the_runtime_config_is_one(world: World) -> None:
    (manifest,) = upstream.read(SOURCE / "install" / "runtime-config.yaml")
    world.stack.kubectl.apply([manifest])
    stored: Manifest | None = world.stack.hub.get("DeploymentRuntimeConfig", "function-modelplane")
    assert stored is not None
    assert stored["spec"] == manifest["spec"], "nothing was pruned"
    world.remove(TEAM, "runs", "never")
