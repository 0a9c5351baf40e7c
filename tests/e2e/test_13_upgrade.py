"""Scenario 13: an earlier release, then this one, and back, over what runs: nothing is made again."""

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
EARLIER, LATER = "v0.0.1", "v9.0.0"
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


def test_an_upgrade_and_its_way_back_make_nothing_again(world: World, tmp_path: Path) -> None:
    home, processes = world.stack.home, world.stack.processes
    earlier = _earlier(tmp_path / "earlier")
    release.publish(home, earlier, EARLIER)
    release.publish(home, SOURCE, LATER)
    release.roll_back(home, processes, earlier, EARLIER)
    world.team(TEAM)
    world.apply(
        environment("upgraded", pool("gpus", maxNodeCount=3)),
        model("several", profile=spanning(2, 8)),
        model("one"),
        *(deployment(TEAM, name, name, on="upgraded") for name in DEPLOYMENTS),
    )
    before = _running(world)
    release.upgrade(home, processes, SOURCE, LATER)
    _unchanged(world, before)
    release.roll_back(home, processes, earlier, EARLIER)
    _unchanged(world, before)
    world.remove(TEAM, *DEPLOYMENTS)
    release.upgrade(home, processes, SOURCE, release.VERSION)


def _running(world: World) -> tuple[dict[str, str], list[str]]:
    """Return what runs once all of it is ready: uids on the remote cluster, and those of the placements."""
    for name in DEPLOYMENTS:
        world.ready(TEAM, name)
    placements = [text(world.placement(TEAM, name), "metadata.uid") for name in DEPLOYMENTS]
    return world.remote_uids(TEAM), placements


def _unchanged(world: World, before: tuple[dict[str, str], list[str]]) -> None:
    steady("what runs", lambda: world.remote_uids(TEAM) == before[0], seconds=15)
    assert _running(world) == before
