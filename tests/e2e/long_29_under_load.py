"""Scenario 29: nothing that a platform team does on purpose costs a request or cuts a stream.

A model of two groups moves, is drained away with its whole environment, gets another engine, and every process of the
control plane is killed and started again, one after the other, under constant load on its URL.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, condition, text
from tests.e2e.fleet import Fleet, open_fleet, set_gateway
from tests.e2e.load import Load, constant_load
from tests.e2e.objects import deployment, model, spanning
from tests.e2e.world import World, main_container, running
from tools.stack import layout
from tools.stack.waiting import listens, until

pytestmark = pytest.mark.e2e
TEAM, CHAT = "under-load", "chat"
OLD, NEW = "vllm/vllm-openai:v0.15.0", "vllm/vllm-openai:v0.16.0"
LEAST = 10_000 if "E2E_LONG" in os.environ else 0
CONTROL_PLANE = ("core", "provider-kubernetes", "function-modelplane", "hub-controllers", "hub-apiserver")
_STEP_SECONDS = 15  # of load after each step


@dataclass(frozen=True)
class _Scene:
    fleet: Fleet
    load: Load
    lines: list[str] = field(default_factory=list)

    def end_step(self, name: str) -> None:
        """Let the load go on for a while, and require that nothing has failed since the beginning."""
        time.sleep(_STEP_SECONDS)
        self.lines.append(f"after {name}: {self.load}")
        # What is recorded is shown only at the end.
        with (self.fleet.world.stack.home.logs / "load.log").open("a") as log:
            log.write(f"{self.lines[-1]}\n{sorted(when for when, _ in (*self.load.failed, *self.load.cut))[:100]}\n")
        assert (self.load.failed, self.load.cut) == ([], []), self.lines


def _model(image: str) -> Manifest:
    return model("chat", profile={**spanning(2, 2), "engine": {"name": "vLLM", "image": image}})


def _on(cluster: str, name: str = CHAT, environments: int = 1) -> Manifest:
    """Return a deployment on one of the clusters, or on whichever has room."""
    labels: Manifest = {"e2e": cluster} if cluster else {"fleet": "both"}
    selector: Manifest = {"matchLabels": labels}
    return deployment(
        TEAM, name, "chat", replicas=2, environmentSelector=selector, service={}, environments=environments
    )


@pytest.fixture(scope="module")
def scene(world: World, empty: None) -> Iterator[_Scene]:  # noqa: ARG001  # it comes first
    with open_fleet(world, TEAM) as fleet:
        world.apply(_model(OLD), _on("east"), _on("west", "pinned"))
        for name, cluster in ((CHAT, "east"), ("pinned", "west")):
            world.ready(TEAM, name)
            fleet.wait_weights(name, {cluster: 1})
        with constant_load(fleet.url(CHAT), pace=40) as load:
            yield _Scene(fleet, load)


def test_a_move(world: World, scene: _Scene) -> None:
    world.apply(_on("west"))
    _wait_moved(scene.fleet, "west")
    scene.end_step("a move")


def _wait_moved(fleet: Fleet, cluster: str) -> None:
    """Wait until the model is on one cluster only, and gets all requests there."""

    def moved() -> bool:
        found = [text(p, "spec.inferenceEnvironmentRef.name") for p in fleet.world.placements(TEAM, CHAT)]
        if found != [cluster]:
            raise LookupError(str(found))
        return True

    until(f"{CHAT} to be on {cluster}", moved)
    fleet.wait_weights(CHAT, {cluster: 1})


def test_a_drain_of_a_whole_environment(
    world: World, scene: _Scene, record_property: Callable[[str, object], None]
) -> None:
    """Who cannot move is named; uncordon brings back what is missing and moves nothing else."""
    world.apply(_on(""))  # it may go anywhere, and stays
    world.ready(TEAM, CHAT)
    refused = _run(world, "drain", "west")
    record_property("drain", refused.stdout + refused.stderr)
    assert refused.returncode != 0
    assert "cannot move" in refused.stdout
    assert "under-load/pinned" in refused.stdout
    forced = _run(world, "drain", "west", "--force")
    record_property("drain --force", forced.stdout)
    assert forced.returncode == 0, forced.stderr
    _wait_moved(scene.fleet, "east")
    world.apply(_on("", "late", environments=2))
    world.wait("ModelDeployment", "late", "Scheduled", "False", TEAM)
    scene.end_step("a drain")
    drained = world.wait("InferenceEnvironment", "west", "Drained", "False/Draining")
    record_property("Drained", text(condition(drained, "Drained"), "message"))
    before = {text(p, "metadata.uid") for p in world.stack.hub.find("ModelPlacement", TEAM)}
    back = _run(world, "uncordon", "west")
    assert back.returncode == 0, back.stderr
    world.ready(TEAM, "late")
    after = {text(p, "metadata.uid") for p in world.stack.hub.find("ModelPlacement", TEAM)}
    assert before < after
    assert len(after - before) == 1
    assert [text(p, "spec.inferenceEnvironmentRef.name") for p in world.placements(TEAM, CHAT)] == ["east"]
    scene.end_step("uncordon")


def _run(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    kubeconfig = str(world.stack.home.kubeconfig("hub"))
    command = (str(Path(sys.executable).with_name("modelplane")), *arguments, "--kubeconfig", kubeconfig)
    return subprocess.run(command, cwd=layout.SOURCE, capture_output=True, text=True, check=False, timeout=300)


def test_another_engine(world: World, scene: _Scene) -> None:
    world.apply(_model(NEW))

    def rolled() -> bool:
        found = Counter((text(main_container(p), "image"), running(p)) for p in scene.fleet.pods(CHAT, "east"))
        if found != {(NEW, True): 4}:
            raise LookupError(str(found))
        return True

    until("all pods to run the new engine", rolled)
    world.ready(TEAM, CHAT)
    scene.end_step("a rollout")


@pytest.mark.parametrize("name", CONTROL_PLANE)
def test_a_process_of_the_control_plane_is_killed(world: World, scene: _Scene, name: str) -> None:
    processes = world.stack.processes
    killed = processes.kill(name)
    time.sleep(3)
    processes.start(killed)
    until("the API server", lambda: listens(layout.HUB) and world.stack.hub.ready())
    for ended in processes.dead():
        processes.start(processes.stop(ended))

    def is_ready() -> bool:
        set_gateway(world)
        return text(condition(world.deployment(TEAM, CHAT), "Ready"), "status") == "True"

    time.sleep(_STEP_SECONDS)
    until(f"{CHAT} to be Ready", is_ready)
    scene.end_step(f"{name} was killed")


def test_no_request_failed(scene: _Scene, record_property: Callable[[str, object], None]) -> None:
    until(f"{LEAST} requests", lambda: scene.load.requests >= LEAST, seconds=600)
    scene.load.end()
    record_property("steps", scene.lines)
    record_property("all in all", str(scene.load))
    assert (scene.load.failed, scene.load.cut) == ([], [])
