"""Scenario 13: an upgrade and its rollback restart no service, and no download of the same script and pin.

The earlier release is the latest in the history, or the commit that EARLIER_RELEASE names. `upgrades.yaml` has the
models: one service of each mode, with weights from each source.
"""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, mapping, text
from tests.e2e.objects import cache, deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.documents import document
from tools.stack import inventory, release
from tools.stack.layout import SOURCE
from tools.stack.waiting import steady

pytestmark = pytest.mark.e2e
TEAM = "upgraded"
CASES: dict[str, Manifest] = document(Path(__file__).parent / "upgrades.yaml")
CLASS = "earlier"
CLAIMS = ("weights", "staged")
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


def _environments() -> list[Manifest]:
    """Return the two that the services share; on the cluster there are two nodes more than the first declares, as its
    scheduler packs pods less tightly than the ledger.
    """
    nodes = pool("h100", maxNodeCount=14, labels={"modelplane.ai/pool": "h100"})
    (shared,) = (mapping(case, "storage") for case in CASES.values() if "storage" in case)
    return [
        environment("upgraded", nodes, storage=CLASS),
        environment("upgraded-shared", pool("h100"), storage={"storageClassName": CLASS, **shared}),
    ]


def _deployment(name: str) -> Manifest:
    found = deployment(TEAM, name, name, on="upgraded-shared" if "storage" in CASES[name] else "upgraded")
    mapping(found, "spec").update({key: CASES[name][key] for key in ("modelCache",) if key in CASES[name]})
    return found


def _claim(name: str) -> Manifest:
    """Return a claim as a user makes it on the remote cluster."""
    asked: Manifest = {"accessModes": ["ReadWriteMany"], "storageClassName": CLASS}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {**asked, "resources": {"requests": {"storage": "2Ti"}}},
    }


def test_an_upgrade_and_its_way_back_make_nothing_again(world: World, tmp_path: Path) -> None:
    home, processes = world.stack.home, world.stack.processes
    earlier = _earlier(tmp_path / "earlier")
    release.publish(home, earlier, EARLIER)
    release.publish(home, SOURCE, LATER)
    release.roll_back(home, processes, earlier, EARLIER)
    world.team(TEAM)
    for manifest in (*inventory.namespaces(TEAM), *map(_claim, CLAIMS)):
        world.stack.remote.apply(manifest)
    world.secret("s3", {"AWS_SECRET_ACCESS_KEY": "x"})
    models: list[Manifest] = [{**model(name), "spec": case["model"]} for name, case in CASES.items()]
    world.apply(
        *_environments(),
        *models,
        cache(TEAM, "weights", "pipeline-modelcache", ["upgraded"]),
        *map(_deployment, CASES),
        model("several", profile=spanning(2, 8)),
        environment("upgraded-slow", pool("gpus"), storage=HELD),
        deployment(TEAM, "loading", "several", on="upgraded-slow"),
    )
    before = _running(world)
    release.upgrade(home, processes, SOURCE, LATER)
    _unchanged(world, before)
    release.roll_back(home, processes, earlier, EARLIER)
    _unchanged(world, before)
    world.remove(TEAM, *CASES, "loading")
    release.upgrade(home, processes, SOURCE, release.VERSION)


def _running(world: World) -> tuple[dict[str, str], list[str]]:
    """Return what runs once all of it is ready: uids on the remote cluster, and those of the placements."""
    for name in CASES:
        world.ready(TEAM, name)
    loads = world.wait_placed(TEAM, "loading")
    world.wait("ModelPlacement", loads, "StorageReady", "False/Downloading", TEAM)
    placements = [text(world.placement(TEAM, name), "metadata.uid") for name in CASES]
    return world.remote_uids(TEAM), placements


def _unchanged(world: World, before: tuple[dict[str, str], list[str]]) -> None:
    steady("what runs", lambda: world.remote_uids(TEAM) == before[0], seconds=15)
    assert _running(world) == before
