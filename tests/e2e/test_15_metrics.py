"""Scenario 15: Prometheus reads the function, and answers every question of the dashboard."""

import json
import math
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from function.kube.manifests import Manifest, listing, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools import debian
from tools.stack import layout, upstream
from tools.stack.layout import SOURCE
from tools.stack.processes import Program
from tools.stack.waiting import listens, until

pytestmark = pytest.mark.e2e
TEAM = "watched"
DASHBOARD = json.loads((SOURCE / "install" / "monitoring" / "dashboard.json").read_text())
# What Grafana puts in their place.
VARIABLES = {"$__rate_interval": "60s", "$job": ".+"}
# Nothing of the kind happens here, and a counter that never counted is no series.
MAY_BE_EMPTY = {"Calls that did not compose", "Placements not admitted"}


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
    """Run Debian's Prometheus beside the stack, with the function as its only target."""
    folder = world.stack.home.root / "prometheus"
    folder.mkdir(exist_ok=True)
    target = {"targets": [f"127.0.0.1:{layout.FUNCTION_METRICS}"]}
    scrape = {"job_name": "function-modelplane", "scrape_interval": "1s", "static_configs": [target]}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump({"scrape_configs": [scrape]}))
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


def test_the_runtime_config_is_one(world: World) -> None:
    (manifest,) = upstream.read(SOURCE / "install" / "runtime-config.yaml")
    world.stack.kubectl.apply([manifest])
    stored: Manifest | None = world.stack.hub.get("DeploymentRuntimeConfig", "function-modelplane")
    assert stored is not None
    assert stored["spec"] == manifest["spec"], "nothing was pruned"
    world.remove(TEAM, "runs", "never")
