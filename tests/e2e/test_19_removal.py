"""Scenario 19: everything of ours leaves the hub, by the words of docs/install.md, and what runs goes on."""

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from function.kube.manifests import text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools import programs
from tools.stack import manager, release
from tools.stack.layout import SOURCE
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM = "left-running"
DEPLOYMENTS = ("several", "one")
_SECTION = re.compile(r"^## Remove, and leave models running$(.*?)^\*\*To remove everything", re.MULTILINE | re.DOTALL)
_COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def installed_again(world: World) -> Iterator[None]:
    """Whatever comes later finds the hub as it was."""
    yield
    manager.tell(world.stack.home)
    release.configure(world.stack.home)
    release.exchange(world.stack.home, world.stack.processes)
    for service in world.stack.remote.find("LLMInferenceService", TEAM):
        world.stack.remote.delete("LLMInferenceService", text(service, "metadata.name"), TEAM)


def _as_documented(world: World) -> None:
    (section,) = _SECTION.findall((SOURCE / "docs/install.md").read_text())
    keep, remove = _COMMANDS.findall(section)
    header, *rows = _run(world, keep).partition("NAMESPACE ")[2].splitlines()
    assert header.split() == ["NAME", "POLICIES"]
    assert rows
    assert all(row.endswith("[Observe]") for row in rows), rows
    _run(world, remove)


def _run(world: World, commands: str) -> str:
    path = f"{programs.path('kubectl').parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "KUBECONFIG": str(world.stack.home.kubeconfig("hub"))}
    done = subprocess.run(
        ("bash", "-euo", "pipefail", "-c", commands), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("installed_again")
def test_what_runs_outlives_our_packages(world: World) -> None:
    world.team(TEAM)
    world.apply(
        environment("left", pool("gpus", maxNodeCount=3)),
        model("several", profile=spanning(2, 8)),
        model("one"),
        *(deployment(TEAM, name, name, on="left") for name in DEPLOYMENTS),
    )
    for name in DEPLOYMENTS:
        world.ready(TEAM, name)
    before = world.remote_uids(TEAM)
    _as_documented(world)
    until("our Objects to go", lambda: not world.stack.hub.find("Object"))
    until("our kinds to go", lambda: "modelplane.ai" not in world.stack.kubectl("get", "crd", "--output=name"))
    steady("what runs", lambda: world.remote_uids(TEAM) == before, seconds=5)
