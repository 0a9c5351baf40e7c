"""Scenario 3: every example there is, all of them at once on one hub, reaches Ready."""

from pathlib import Path

import pytest

from function.kube.manifests import Manifest, mapping, text
from tests.e2e.world import World
from tests.support.plane import APPLIED
from tools.stack import inventory, upstream
from tools.stack.layout import SOURCE

pytestmark = pytest.mark.e2e
# Google Cloud is played only in scenario 44.
STORIES = [SOURCE / "examples" / name for name in APPLIED if name != "gke-cluster"]
FIRST = [story for story in STORIES if story.name == "node-local"]
# On the remote cluster: the claim that the README of bring-your-own-claim makes.
OWN_CLAIM: Manifest = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "team-models", "namespace": "lab"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "shared-fast",
        "resources": {"requests": {"storage": "1Ti"}},
    },
}


def _manifests(story: Path) -> list[Manifest]:
    """Return a story without what cannot be had here: Google's tokens, and a package's Compositions replaced.

    A label keeps its environments to itself, since all stories share one hub.
    """
    found = [m for m in upstream.read(*sorted(story.glob("*.yaml"))) if m["kind"] != "Composition"]
    for manifest in found:
        for source in ("existing", "gke"):
            mapping(manifest, f"spec.cluster.{source}").pop("identitySecretRef", None)
        if manifest["kind"] == "InferenceEnvironment":
            _inner(_inner(manifest, "metadata"), "labels")["story"] = story.name
            # Nodes are scenario 18's: some 300 Objects, polled every 20 s, would delay all others for minutes.
            _inner(manifest, "spec").setdefault("hardware", {"observe": "Never"})
        if manifest["kind"] in {"ModelDeployment", "ModelCache"}:
            selector = _inner(_inner(manifest, "spec"), "environmentSelector")
            _inner(selector, "matchLabels")["story"] = story.name
    return found


def _inner(manifest: Manifest, key: str) -> Manifest:
    found = manifest.setdefault(key, {})
    assert isinstance(found, dict)
    return found


def _deployments(story: Path) -> list[tuple[str, str]]:
    return [
        (text(m, "metadata.namespace"), text(m, "metadata.name"))
        for m in _manifests(story)
        if m["kind"] == "ModelDeployment"
    ]


@pytest.fixture(scope="module")
def announced(world: World) -> None:
    for manifest in (*inventory.namespaces("lab"), OWN_CLAIM):
        world.stack.remote.apply(manifest)
    # A download takes a disk of one node, and all clusters are one here: others could have that node's GPUs by then.
    for stories in (FIRST, [story for story in STORIES if story not in FIRST]):
        everything = [manifest for story in stories for manifest in _manifests(story)]
        for name in {_kubeconfig(m) for m in everything if m["kind"] == "InferenceEnvironment"}:
            world.kubeconfig(name)
        for kind in ("Namespace", "InferenceEnvironment"):
            world.apply(*(m for m in everything if m["kind"] == kind))
        world.apply(*(m for m in everything if m["kind"] not in {"Namespace", "InferenceEnvironment"}))
        for namespace, name in (found for story in FIRST for found in _deployments(story)):
            world.ready(namespace, name)


def _kubeconfig(environment: Manifest) -> str:
    name = text(environment, "metadata.name")
    return text(environment, "spec.cluster.existing.secretRef.name") or f"{name}-kubeconfig"


@pytest.mark.usefixtures("announced")
@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.name)
def test_every_example_becomes_ready(story: Path, world: World) -> None:
    for namespace, name in _deployments(story):
        world.ready(namespace, name)
