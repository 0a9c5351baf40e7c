"""Scenario 35: the control plane is restored from a backup, and rebuilt from manifests, by the words of
docs/backup.md; what runs on the GPU cluster stays.

Only the hub loses its state: it is given an etcd of its own. It runs alone, at the end of `make e2e-long`.
"""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from function.kube.manifests import Manifest, listing, mapping, text
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools import programs
from tools.stack import apiserver, hub, layout, release
from tools.stack.layout import SOURCE, Home
from tools.stack.processes import Program
from tools.stack.waiting import listens, steady, until

pytestmark = pytest.mark.e2e
TEAM = "restored"
_HUB = (release.FUNCTION, hub.PROVIDER, "core", "hub-controllers")


def _wait_for_hub(world: World) -> None:
    until("the hub's API server", world.stack.hub.ready)


def _start_hub_on(world: World, data: Path, port: int) -> None:
    """Start an etcd on a folder of data, and the hub's API server on this etcd."""
    home = world.stack.home
    program = apiserver.etcd(home)
    old = {f":{layout.ETCD_PEER}": f":{port + 1}", f":{layout.ETCD}": f":{port}", str(home.root / "etcd"): str(data)}
    _start(world, program, old, f"etcd-{port}")
    until("the other etcd", lambda: listens(port))
    server = apiserver.apiserver(home, "hub")
    _start(world, server, {f":{layout.ETCD}": f":{port}"}, server.name)
    _wait_for_hub(world)


def _start(world: World, program: Program, changes: dict[str, str], name: str) -> None:
    argv = program.argv
    for before, after in changes.items():
        argv = tuple(argument.replace(before, after) for argument in argv)
    world.stack.processes.start(replace(program, name=name, argv=argv))


def _back_up_etcd(world: World, target: Path) -> None:
    """Copy the data of etcd while it does not run, which is a snapshot of everything."""
    program = world.stack.processes.stop("etcd")
    shutil.copytree(world.stack.home.root / "etcd", target)
    world.stack.processes.start(program)
    until("etcd", lambda: listens(layout.ETCD))
    _wait_for_hub(world)


def _export(home: Home) -> Path:
    """Run the commands of the page that export manifests, and return the folder of the files."""
    page = (SOURCE / "docs/backup.md").read_text()
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    folder = home.root / "export"
    folder.mkdir()
    path = f"{programs.path('kubectl').parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "KUBECONFIG": str(home.kubeconfig("hub"))}
    subprocess.run(("bash", "-euo", "pipefail", "-c", commands), env=environment, cwd=folder, check=True)
    return folder


def _read_export(file: Path) -> list[Manifest]:
    """Return the objects of an export without what the page says to remove."""
    exported = listing(yaml.safe_load(file.read_text()), "items")
    for manifest in exported:
        manifest.pop("status", None)
        mapping(manifest, "spec").pop("crossplane", None)
        for field in ("uid", "resourceVersion"):
            mapping(manifest, "metadata").pop(field)
    return exported


def _apply_models(world: World) -> None:
    world.team(TEAM)
    world.apply(
        environment("restored", pool("gpus", maxNodeCount=4)),
        model("several", profile=spanning(2, 8)),
        model("one"),
        deployment(TEAM, "several", "several", on="restored"),
    )
    world.ready(TEAM, "several")


def test_a_backup_of_etcd_is_restored(world: World, tmp_path: Path) -> None:
    """What was created after the backup keeps running, and is taken over when it is applied again."""
    processes = world.stack.processes
    _apply_models(world)
    _back_up_etcd(world, tmp_path / "backup")
    later = deployment(TEAM, "later", "one", on="restored")
    world.apply(later)
    world.ready(TEAM, "later")
    before = world.remote_uids(TEAM)

    processes.stop("hub-apiserver")
    _start_hub_on(world, tmp_path / "backup", 12379)
    for name in reversed(_HUB):
        processes.start(processes.stop(name))
    names = {text(found, "metadata.name") for found in world.stack.hub.find("ModelDeployment", TEAM)}
    assert names == {"several"}
    steady("what runs", lambda: world.remote_uids(TEAM) == before, seconds=30)
    world.ready(TEAM, "several")
    world.apply(later)
    world.ready(TEAM, "later")
    assert world.remote_uids(TEAM) == before


def test_a_control_plane_is_rebuilt_from_manifests(world: World, tmp_path: Path) -> None:
    home, processes = world.stack.home, world.stack.processes
    before = world.remote_uids(TEAM)
    where = {text(p, "metadata.name") for p in world.stack.hub.find("ModelPlacement", TEAM)}
    folder = _export(home)
    for name in (*_HUB, "hub-apiserver", "registry"):
        processes.stop(name)
    _start_hub_on(world, tmp_path / "empty", 13379)
    hub.start(home, processes)
    hub.finish(home, processes)
    assert world.stack.hub.find("ModelDeployment") == []

    world.prepare()
    world.team(TEAM)
    world.apply(*_read_export(folder / "modelplane.yaml"), *_read_export(folder / "modelservices.yaml"))
    for name in ("several", "later"):
        world.ready(TEAM, name)
    assert {text(p, "metadata.name") for p in world.stack.hub.find("ModelPlacement", TEAM)} == where
    steady("what runs", lambda: world.remote_uids(TEAM) == before, seconds=10)
