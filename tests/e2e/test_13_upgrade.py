"""Scenario 13: an earlier release, then this one, and back, over what runs and what downloads: nothing is made again.

The earlier one is the latest in the history, or the commit that EARLIER_RELEASE names.
"""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.stack import release
from tools.stack.layout import SOURCE
from tools.stack.waiting import steady

pytestmark = pytest.mark.e2e
TEAM = "upgraded"
DEPLOYMENTS = ("several", "one")
# The pod of the download finds no node.
HELD: Manifest = {"storageClassName": "shared-vast", "download": {"nodeSelector": {"e2e-hold": "never"}}}
EARLIER, LATER = "v0.0.1", "v9.0.0"
_RELEASE = ("apis", "function", "package")


def _earlier(into: Path) -> Path:
    """Unpack the latest release in the history that is not this one; a shallow clone may know no other."""
    changed = _git("status", "--porcelain", "--", *_RELEASE)
    commits = _git("log", "--format=%H", "--", *_RELEASE).decode().split()
    earlier = os.environ.get("EARLIER_RELEASE") or (commits if changed else commits[1:] or commits)[0]
    with tarfile.open(fileobj=io.BytesIO(_git("archive", earlier))) as archive:
        archive.extraction_filter = lambda member, _: member  # Python 3.11.2 knows no other way to say which
        archive.extractall(into)
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
        environment("upgraded-slow", pool("gpus"), storage=HELD),
        deployment(TEAM, "loading", "several", on="upgraded-slow"),
    )
    before = _running(world)
    release.upgrade(home, processes, SOURCE, LATER)
    _unchanged(world, before)
    release.roll_back(home, processes, earlier, EARLIER)
    _unchanged(world, before)
    world.remove(TEAM, *DEPLOYMENTS, "loading")
    release.upgrade(home, processes, SOURCE, release.VERSION)


def _running(world: World) -> tuple[dict[str, str], list[str]]:
    """Return what runs once all of it is ready: uids on the remote cluster, and those of the placements."""
    for name in DEPLOYMENTS:
        world.ready(TEAM, name)
    loads = world.wait_placed(TEAM, "loading")
    world.wait("ModelPlacement", loads, "StorageReady", "False/Downloading", TEAM)
    placements = [text(world.placement(TEAM, name), "metadata.uid") for name in DEPLOYMENTS]
    return world.remote_uids(TEAM), placements


def _unchanged(world: World, before: tuple[dict[str, str], list[str]]) -> None:
    steady("what runs", lambda: world.remote_uids(TEAM) == before[0], seconds=15)
    assert _running(world) == before
