"""Scenario 33: replicas follow the load over two clusters, with KEDA, the autoscaler of Kubernetes and Prometheus.

The manifest, the settings and what a user sees are those of docs/scale.md. The engines are played and answer at once,
so their load is played too: what Prometheus scrapes has vLLM's metrics with the labels that docs/scale.md asks for, and
the numbers of the scenario. KEDA has only the scalers that are used (tools/keda.py).
"""

import contextlib
import copy
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
import yaml

from function.kube.manifests import JSON, Manifest, condition, get, mapping, text
from tests.e2e.fleet import THROTTLE_SECONDS, Fleet, ask, open_fleet, small_environment
from tests.e2e.load import Load, constant_load
from tests.e2e.objects import deployment, model, spanning
from tests.e2e.world import World
from tools import debian
from tools.stack import gateways, keda, layout
from tools.stack.layout import SOURCE
from tools.stack.processes import Program
from tools.stack.waiting import listens, steady, until

pytestmark = pytest.mark.e2e
PAGE = (SOURCE / "docs" / "scale.md").read_text()
MANIFEST, SETTINGS, *_ = (
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
)
TEAM, CHAT = text(MANIFEST, "metadata.namespace"), text(MANIFEST, "metadata.name")
UNCHANGED_SECONDS = 600 if "E2E_LONG" in os.environ else 60
_EXPORTER = 19300
_COMPOSITION, _INPUT = "modeldeployments", "/spec/pipeline/0/input"
_AUTOSCALING: Manifest = {"prometheus": {"url": f"http://127.0.0.1:{layout.PROMETHEUS}"}, "wakeUp": "Traefik"}
_MODEL = text(MANIFEST, "spec.modelRef.name")


class Engines(BaseHTTPRequestHandler):
    """The metrics of all engines of the deployment, played."""

    waiting: ClassVar[dict[str, int]] = {}  # by environment

    def do_GET(self) -> None:  # the base class's name
        """Answer a scrape."""
        labels = f'namespace="{TEAM}",deployment="{CHAT}"'
        # Engines report wherever they serve, unless all series end.
        loads = {"east": 0, "west": 0, **self.waiting} if self.waiting else {}
        series = [(f'{{{labels},environment="{name}",pod="{name}-0"}}', n) for name, n in loads.items()]
        lines = [f"vllm:num_requests_waiting{where} {number}" for where, number in series]
        lines += [f"vllm:num_requests_running{where} 0" for where, _ in series]
        body = ("\n".join(lines) + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextlib.contextmanager
def _export() -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", _EXPORTER), Engines)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _prometheus(world: World) -> Program:
    folder = world.stack.home.root / "prometheus-by-load"
    folder.mkdir(exist_ok=True)
    targets = {"engines": f"127.0.0.1:{_EXPORTER}", "gateway": f"{gateways.ADDRESSES['hub']}:{gateways.METRICS}"}
    scrapes = [
        {"job_name": name, "honor_labels": True, "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
        for name, target in targets.items()
    ]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump({"scrape_configs": scrapes}))
    options = {
        "config.file": folder / "prometheus.yaml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": f"127.0.0.1:{layout.PROMETHEUS}",
    }
    argv = (str(debian.path("prometheus")), *(f"--{name}={value}" for name, value in options.items()))
    return Program(name="prometheus-by-load", argv=argv)


@dataclass(frozen=True)
class Scene:
    fleet: Fleet
    load: Load
    lines: list[str] = field(default_factory=list)

    @property
    def world(self) -> World:
        return self.fleet.world

    def scale(self) -> tuple[JSON, ...]:
        """Return the requested, granted and running replicas."""
        found = self.world.deployment(TEAM, CHAT)
        return tuple(get(found, f"status.scale.{name}") for name in ("requested", "granted", "replicas"))

    def wait_scale(self, *want: int, seconds: float = 150) -> float:
        """Wait for these numbers of replicas, and return the seconds that it took."""
        begin = time.monotonic()

        def reached() -> bool:
            if (found := self.scale()) != want:
                raise LookupError(f"{found}, {self.says('Autoscaled')}, {self.says('ScaledAsRequested')}")
            return True

        until(f"{want} replicas requested, granted and running", reached, seconds=seconds)
        took = time.monotonic() - begin
        self.lines.append(f"{want} after {took:.0f} s")
        with (self.world.stack.home.logs / "by-load.log").open("a") as log:
            log.write(f"{self.lines[-1]}; {self.load}\n")
        return took

    def says(self, type_: str) -> tuple[str, str, str]:
        found = condition(self.world.deployment(TEAM, CHAT), type_)
        return text(found, "status"), text(found, "reason"), text(found, "message")

    def events(self) -> Counter[str]:
        """Return how many events there were, by the kind of their object."""
        found = Counter[str]()
        for each in self.world.stack.hub.find("Event", TEAM):
            found[text(each, "involvedObject.kind")] += int(str(get(each, "count") or 1))
        return found

    def left(self, name: str) -> list[str]:
        """Return what there still is of a deployment on the control plane and on both clusters."""
        hub = self.world.stack.hub
        named = [
            f"{kind} {text(each, 'metadata.name')}"
            for kind in ("ModelDeployment", "ScaledObject", "HorizontalPodAutoscaler", "ModelPlacement", "Object")
            for each in hub.find(kind, TEAM)
            if name in text(each, "metadata.name")
        ]
        remote = [
            f"{kind} {text(each, 'metadata.name')}"
            for world in (self.world, self.fleet.west)
            for kind in ("LLMInferenceService", "Pod")
            for each in world.stack.remote.find(kind)
            if name in text(each, "metadata.name")
        ]
        return named + remote


def _by_query(name: str, query: str) -> Manifest:
    """Return a deployment whose load is a query of its own, without a ModelService."""
    made = deployment(TEAM, name, _MODEL, environmentSelector={"matchLabels": {"fleet": "both"}})
    target: Manifest = {"query": {"promQL": query, "value": "5"}}
    load: Manifest = {"minReplicas": 1, "maxReplicas": 8, "target": target, "stabilization": {"down": "15s"}}
    mapping(made, "spec")["scaling"] = {"signal": "Load", "replicaScheduling": "Divided", "load": load}
    return made


def _autoscaler(replicas: int) -> Manifest:
    """Return an autoscaler of the user's own for the same deployment, which wants a number of replicas."""
    target: Manifest = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelDeployment", "name": CHAT}
    load: JSON = {
        "type": "External",
        "external": {"metric": {"name": "none"}, "target": {"type": "AverageValue", "averageValue": "1"}},
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "own", "namespace": TEAM},
        "spec": {"scaleTargetRef": target, "minReplicas": replicas, "maxReplicas": replicas, "metrics": [load]},
    }


def _east(nodes: int) -> Manifest:
    return small_environment("east", nodes, "dallas-kubeconfig")


def _chat(least: int = 1) -> Manifest:
    """Return the deployment of the page, with a window that lets replicas go sooner."""
    made: Manifest = copy.deepcopy(MANIFEST)
    mapping(made, "spec.scaling.load").update(minReplicas=least, stabilization={"down": "15s"})
    return made


def _configure(world: World) -> None:
    value: JSON = {**mapping(SETTINGS, "input"), "autoscaling": _AUTOSCALING}
    world.stack.hub.patch("Composition", _COMPOSITION, [{"op": "add", "path": _INPUT, "value": value}])


def _reset(world: World) -> None:
    world.stack.hub.patch("Composition", _COMPOSITION, [{"op": "remove", "path": _INPUT}])


@pytest.fixture(scope="module")
def scene(world: World, empty: None) -> Iterator[Scene]:  # noqa: ARG001  # it comes first
    processes = world.stack.processes
    with contextlib.ExitStack() as stack:
        keda.up(world.stack.home, processes)
        stack.callback(keda.down, world.stack.home, processes)
        stack.enter_context(_export())
        fleet = stack.enter_context(open_fleet(world, TEAM))
        processes.start(_prometheus(world))
        stack.callback(processes.stop, "prometheus-by-load")
        until("Prometheus", lambda: listens(layout.PROMETHEUS))
        _configure(world)
        stack.callback(_reset, world)
        Engines.waiting = {"east": 0}
        world.apply(_east(2), small_environment("west", 2, "west-kubeconfig"))
        world.apply(model(_MODEL, profile=spanning(1, 8)), MANIFEST)
        world.ready(TEAM, CHAT)
        fleet.wait_weights(CHAT, {"east": 1})
        with constant_load(fleet.url(CHAT), pace=20) as load:
            yield Scene(fleet, load)


def test_grows_over_clusters_and_back(scene: Scene, record_property: Callable[[str, object], None]) -> None:
    """Each replica takes a node, and east has two: of four replicas, two are in the west."""
    scene.wait_scale(1, 1, 1)
    until("the load to be known", lambda: scene.says("Autoscaled")[:2] == ("True", "FollowsLoad"), seconds=90)
    scene.world.apply(_chat())
    Engines.waiting = {"east": 20}
    scene.wait_scale(4, 4, 4)
    scene.fleet.wait_weights(CHAT, {"east": 1, "west": 1})  # equal shares
    answered = scene.fleet.ask(CHAT, 40)
    assert set(answered) == {"east", "west"}, answered
    Engines.waiting = {"east": 0, "west": 0}
    scene.wait_scale(1, 1, 1)
    scene.fleet.wait_weights(CHAT, {"east": 1})
    time.sleep(10)
    record_property("steps", scene.lines)
    assert (scene.load.failed, scene.load.cut) == ([], []), scene.load


def test_growth_without_room_waits_and_says_so(scene: Scene, record_property: Callable[[str, object], None]) -> None:
    """Eight replicas are needed, and both clusters together have four nodes."""
    Engines.waiting = {"east": 40}
    scene.wait_scale(8, 4, 4)
    status, reason, message = scene.says("ScaledAsRequested")
    assert (status, reason) == ("False", "Limited")
    (example,) = re.findall(r"`(asked for [^`]*)`", PAGE)
    pattern = ".*".join(re.escape(part) for part in " ".join(example.split()).split("…"))
    assert re.fullmatch(pattern, message), message
    shown = scene.world.stack.kubectl("get", "modeldeployment", CHAT, "-n", TEAM, "-o", "jsonpath={.status.scale}")
    assert f"```text\n{shown}\n```" in PAGE
    until("what runs to be Ready", lambda: scene.says("Ready")[0] == "True")
    time.sleep(15)  # the events of the growth itself
    begun = scene.events()
    steady("four of eight replicas", lambda: scene.scale() == (8, 4, 4), seconds=UNCHANGED_SECONDS)
    more = scene.events() - begun
    record_property("events", f"{dict(more)} in {UNCHANGED_SECONDS} s")
    assert more["ModelDeployment"] <= 5, more
    scene.world.apply(_east(4))
    scene.wait_scale(8, 6, 6)
    scene.world.apply(_east(2))  # what runs there stays, and the pool is overcommitted
    Engines.waiting = {"east": 0, "west": 0}
    scene.wait_scale(1, 1, 1)
    assert scene.load.failed == [], scene.load


def test_an_unknown_load_changes_nothing(scene: Scene) -> None:
    Engines.waiting = {"east": 15}
    scene.wait_scale(3, 3, 3)
    Engines.waiting = {}  # the series end, as when a cluster's Prometheus is away
    until("KEDA to say so", lambda: scene.says("Autoscaled")[:2] == ("False", "LoadUnknown"), seconds=120)
    steady("three replicas", lambda: scene.scale() == (3, 3, 3), seconds=45)
    program = scene.world.stack.processes.stop("prometheus-by-load")
    steady("three replicas without Prometheus", lambda: scene.scale() == (3, 3, 3), seconds=45)
    Engines.waiting = {"east": 15}
    scene.world.stack.processes.start(program)
    until("the load to be known", lambda: scene.says("Autoscaled")[:2] == ("True", "FollowsLoad"), seconds=120)
    stopped = scene.world.stack.processes.stop(keda.OPERATOR)
    Engines.waiting = {"east": 0, "west": 0}
    steady("three replicas without KEDA", lambda: scene.scale() == (3, 3, 3), seconds=30)
    scene.world.stack.processes.start(stopped)
    scene.wait_scale(1, 1, 1)
    assert scene.load.failed == [], scene.load


def test_applying_the_manifest_again_resets_nothing(scene: Scene) -> None:
    Engines.waiting = {"east": 10}
    scene.wait_scale(2, 2, 2)
    scene.world.apply(_chat())
    steady("two replicas", lambda: scene.scale() == (2, 2, 2), seconds=30)
    Engines.waiting = {"east": 0}
    scene.wait_scale(1, 1, 1)


def test_a_second_autoscaler_loses_nothing(scene: Scene, record_property: Callable[[str, object], None]) -> None:
    """KEDA's admission refuses the ScaledObject of a deployment that another autoscaler scales."""
    Engines.waiting = {"east": 5}
    scene.wait_scale(1, 1, 1)
    before = text(scene.world.placement(TEAM, CHAT), "metadata.uid")
    scene.world.apply(_autoscaler(2))

    def says_why() -> bool:
        status, _, message = scene.says("Synced")
        if status == "True":
            raise LookupError(f"{message}, {scene.says('Autoscaled')}")
        record_property("synced", message)
        assert "is already managed by the hpa 'own'" in message
        return True

    until("the deployment to say why", says_why, seconds=60)
    begin, seen = time.monotonic(), Counter[str]()
    while time.monotonic() - begin < 45:
        found = scene.world.deployment(TEAM, CHAT)
        seen[f"{get(found, 'spec.scaling.fixed.replicas')} {get(found, 'status.scale.replicas')}"] += 1
        time.sleep(0.5)
    record_property("asked and running", dict(seen))
    scene.world.stack.hub.delete("HorizontalPodAutoscaler", "own", TEAM)
    until("Crossplane to reconcile again", lambda: scene.says("Synced")[0] == "True", seconds=120)
    scene.wait_scale(1, 1, 1)
    assert scene.load.failed == [], scene.load
    assert text(scene.world.placement(TEAM, CHAT), "metadata.uid") == before


def test_a_deployment_that_scales_is_deleted_whole(scene: Scene) -> None:
    Engines.waiting = {"east": 0, "west": 0}
    scene.wait_scale(1, 1, 1)
    scene.world.apply(_by_query("brief", "vector(15)"))

    def grows() -> bool:
        requested = get(scene.world.deployment(TEAM, "brief"), "status.scale.requested")
        return requested == 3 and any(each.startswith("LLMInferenceService") for each in scene.left("brief"))

    until("three replicas to be requested", grows, seconds=120)
    kinds = {each.split()[0] for each in scene.left("brief")}
    assert kinds >= {"ScaledObject", "HorizontalPodAutoscaler", "ModelPlacement", "Object"}, kinds
    scene.world.stack.hub.delete("ModelDeployment", "brief", TEAM)

    def gone() -> bool:
        if left := scene.left("brief"):
            raise LookupError(", ".join(left))
        return True

    until("everything of it to go", gone, seconds=150)
    assert scene.load.failed == [], scene.load


def test_serves_on_while_the_api_of_keda_is_away(scene: Scene, record_property: Callable[[str, object], None]) -> None:
    Engines.waiting = {"east": 15}
    scene.wait_scale(3, 3, 3)
    home = scene.world.stack.home
    keda.delete_crds(home)

    def says_why() -> bool:
        synced = scene.says("Synced")
        if synced[0] == "True":
            raise LookupError(f"{synced}, {scene.says('Autoscaled')}")
        record_property("synced", synced)
        return True

    until("the deployment to say why", says_why, seconds=120)
    # Crossplane gives up on a kind that is missing after two minutes (docs/facts.md, Gateway API).
    steady("three replicas", lambda: scene.scale() == (3, 3, 3), seconds=150)
    record_property("synced later", scene.says("Synced"))
    keda.apply_crds(home)
    until("the load to be known", lambda: scene.says("Autoscaled")[:2] == ("True", "FollowsLoad"), seconds=240)
    until("Crossplane to reconcile again", lambda: scene.says("Synced")[0] == "True", seconds=120)
    Engines.waiting = {"east": 20}
    scene.wait_scale(4, 4, 4)
    Engines.waiting = {"east": 0, "west": 0}
    scene.wait_scale(1, 1, 1)
    assert scene.load.failed == [], scene.load


def test_sleeps_and_is_woken(scene: Scene, record_property: Callable[[str, object], None]) -> None:
    """The load of the scenario would keep it awake, so this is the last test."""
    scene.load.end()
    scene.world.apply(_chat(least=0))
    scene.wait_scale(0, 0, 0, seconds=300)
    (asleep,) = scene.world.placements(TEAM, CHAT)
    cluster = text(asleep, "spec.inferenceEnvironmentRef.name")
    until("all pods to end", lambda: not scene.fleet.pods(CHAT, cluster))
    time.sleep(THROTTLE_SECONDS)
    path = scene.fleet.url(CHAT)
    begin, refused = time.monotonic(), list[int]()

    def answers() -> bool:
        said = ask(path)
        if said.status != 200:
            refused.append(said.status)
            raise LookupError(f"{said.status}, {scene.scale()}")
        return True

    until("an answer", answers, seconds=240)
    record_property("woken", f"{time.monotonic() - begin:.0f} s, meanwhile {sorted(set(refused))}")
    assert refused, "the first request finds nobody"
