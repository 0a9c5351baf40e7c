"""Scenario 34: one command installs everything, by the words of docs/install.md; then an upgrade, and the removal.

It begins without any package, and leaves the stack without any: it runs alone, at the end of `make e2e-long`.
"""

import os
import re
import subprocess
from functools import partial

import pytest
import yaml

from function.kube.manifests import text
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.world import World
from tools import package_roots, programs
from tools.stack import hub, manager, packages, release
from tools.stack.layout import SOURCE
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM, NEXT = "one-command", "v9.0.0"
FUNCTION = package_roots.name_dependency(release.describe_release().function)
PROVIDER = package_roots.name_dependency(release.describe_release().provider)
EVERYTHING = {("Function", FUNCTION), ("Provider", PROVIDER), ("Configuration", "modelplane")}
_PACKAGES = ("Function", "Configuration", "Provider")


def _run(world: World, commands: str) -> str:
    """Run commands of a page as a user of the stack's registry."""
    paths = [str(programs.path(name).parent) for name in ("kubectl", "crossplane")]
    environment = os.environ | {
        "PATH": ":".join((*paths, os.environ["PATH"])),
        "KUBECONFIG": str(world.stack.home.kubeconfig("hub")),
        "REGISTRY": packages.REGISTRY,
    }
    folder = world.stack.home.root / "user"
    (folder / "dist").mkdir(parents=True, exist_ok=True)
    settings = yaml.safe_dump_all(package_roots.list_settings(release.describe_release()))
    (folder / "dist" / f"settings-{release.VERSION}.yaml").write_text(settings)
    script = ("bash", "-euo", "pipefail", "-c", commands)
    done = subprocess.run(script, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _read_commands(heading: str) -> list[str]:
    """Return the blocks of commands below a heading of docs/install.md."""
    page = (SOURCE / "docs/install.md").read_text()
    (section,) = re.findall(rf"^##+ {heading}$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def _list_packages(world: World) -> set[tuple[str, str]]:
    found = ((kind, manifest) for kind in _PACKAGES for manifest in world.stack.hub.find(kind))
    return {(kind, text(manifest, "metadata.name")) for kind, manifest in found}


def _find_revision(world: World, kind: str, name: str) -> str:
    return text(world.stack.hub.get(kind, name), "status.currentRevision")


def _is_replaced(world: World, kind: str, name: str, revision: str) -> bool:
    """Tells whether a package has another revision than this one: it also depends on how the package runs."""
    return _find_revision(world, kind, name) not in ("", revision)


def _has_no_kind(world: World, group: str) -> bool:
    return f".{group}\n" not in world.stack.kubectl("get", "crd", "--output=name")


def _remove_first_installation(world: World) -> None:
    """Remove what the stack came up with, so that the control plane has Crossplane and nothing else."""
    home = world.stack.home
    world.stack.kubectl("delete", "-k", str(home.manifests / "install"), "--wait=false")
    until("all packages to go", lambda: not _list_packages(world))
    for group in ("modelplane.ai", "kubernetes.m.crossplane.io"):
        until(f"the kinds of {group} to go", partial(_has_no_kind, world, group))
    until("the namespace to go", lambda: not world.stack.hub.get("Namespace", "modelplane-system"))
    for name in (release.FUNCTION, hub.PROVIDER):
        world.stack.processes.stop(name)


def _install(world: World) -> None:
    """Install the packages and the settings; the stand-in for the package runtime runs each new revision."""
    home, processes = world.stack.home, world.stack.processes
    install, settings = _read_commands("Install with one command")
    _run(world, install)
    hub.install_provider(home, processes, PROVIDER)
    release.run(home, processes, name=FUNCTION)
    manager.install(home, "Configuration", "modelplane")
    assert _list_packages(world) == EVERYTHING
    revisions = {name: _find_revision(world, kind, name) for kind, name in EVERYTHING}
    _run(world, settings)
    for kind, name, config in (("Function", FUNCTION, release.FUNCTION), ("Provider", PROVIDER, hub.PROVIDER)):
        assert text(world.stack.hub.get(kind, name), "spec.runtimeConfigRef.name") == config
        until(f"a new revision of {name}", partial(_is_replaced, world, kind, name, revisions[name]))
    processes.stop(hub.PROVIDER)
    hub.install_provider(home, processes, PROVIDER)
    release.run(home, processes, name=FUNCTION)


def _upgrade(world: World) -> None:
    home, processes = world.stack.home, world.stack.processes
    release.publish(home, version=NEXT)
    release.publish_bundle(home, NEXT)
    (upgrade,) = _read_commands("Upgrade what one command installed")
    _run(world, upgrade.replace("v0.2.0", NEXT))
    release.run(home, processes, version=NEXT, name=FUNCTION)
    manager.install(home, "Configuration", "modelplane")
    assert _list_packages(world) == EVERYTHING


def _remove(world: World) -> None:
    """Remove everything but what runs on the GPU cluster."""
    (stop,) = _read_commands("Stop the function that one command installed")
    keep, remove = _read_commands("Remove, and leave models running")
    first, others = keep.split("\n", 1)
    assert first == "kubectl delete function function-modelplane"
    assert "[Observe]" in _run(world, stop + others)
    _run(world, remove.replace("configuration configuration-modelplane", "configuration modelplane"))
    until("our Objects to go", lambda: not world.stack.hub.find("Object"))
    until("our kinds to go", partial(_has_no_kind, world, "modelplane.ai"))
    dependencies = EVERYTHING - {("Configuration", "modelplane")}
    assert _list_packages(world) == dependencies, "they stay"
    for kind, name in dependencies:
        world.stack.hub.delete(kind, name)
    until("all packages to go", lambda: not _list_packages(world))


def test_one_command_installs_upgrades_and_leaves_models_running(world: World) -> None:
    _remove_first_installation(world)
    release.publish_bundle(world.stack.home)
    _install(world)
    world.prepare()
    world.team(TEAM)
    nodes = pool("gpus", maxNodeCount=1)
    world.apply(environment("alone", nodes), model("one"), deployment(TEAM, "one", "one", on="alone"))
    world.ready(TEAM, "one")
    before = world.remote_uids(TEAM)
    _upgrade(world)
    steady("what runs", lambda: world.remote_uids(TEAM) == before, seconds=5)
    world.ready(TEAM, "one")
    _remove(world)
    steady("what runs", lambda: world.remote_uids(TEAM) == before, seconds=5)
