"""Scenario 13: an earlier release, then this one, over what runs: nothing is made again."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from function.kube.manifests import text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.stack import release
from tools.stack.layout import SOURCE
from tools.stack.waiting import steady

pytestmark = pytest.mark.e2e
TEAM = "upgraded"
DEPLOYMENTS = ("several", "one")
_RELEASE = ("apis", "function", "package")


def _earlier(into: Path) -> Path:
    """Unpack the latest release in the history that is not this one; a shallow clone may know no other."""
    changed = _git("status", "--porcelain", "--", *_RELEASE)
    commits = _git("log", "--format=%H", "--", *_RELEASE).decode().split()
    earlier = commits if changed else commits[1:] or commits
    with tarfile.open(fileobj=io.BytesIO(_git("archive", earlier[0]))) as archive:
        archive.extractall(into, filter="data")
    return into


def _git(*arguments: str) -> bytes:
    return subprocess.run(("git", *arguments), cwd=SOURCE, capture_output=True, check=True).stdout


def test_an_upgrade_makes_nothing_again(world: World, tmp_path: Path) -> None:
    release.install(world.stack.home, world.stack.processes, _earlier(tmp_path / "earlier"))
    world.team(TEAM)
    world.apply(
        environment("upgraded", pool("gpus", maxNodeCount=3)),
        model("several", profile=spanning(2, 8)),
        model("one"),
        *(deployment(TEAM, name, name, on="upgraded") for name in DEPLOYMENTS),
    )
    for name in DEPLOYMENTS:
        world.ready(TEAM, name)
    before = world.remote_uids(TEAM)
    placements = [text(world.placement(TEAM, name), "metadata.uid") for name in DEPLOYMENTS]
    release.install(world.stack.home, world.stack.processes)
    steady("what runs", lambda: world.remote_uids(TEAM) == before, seconds=15)
    for name in DEPLOYMENTS:
        world.ready(TEAM, name)
    assert [text(world.placement(TEAM, name), "metadata.uid") for name in DEPLOYMENTS] == placements
    world.remove(TEAM, *DEPLOYMENTS)
