"""An upgrade of the function restarts no service whose spec digest is unchanged."""

import pytest

from function.kube.manifests import Manifest, listing, mapping
from tests.support.remote_scene import ONE_NODE, SEVERAL_NODES, Scene, defaults, model, only, running, scene

IMAGE = "kserve/storage-initializer:v0.19.0"


def _by_another_release(found: Scene) -> None:
    """Give the observed service other derived values and built-in defaults than this release would write."""
    for manifest in _services(found):
        for pod in (mapping(manifest, f"spec.{part}") for part in ("template", "worker")):
            _with_other_defaults(pod)


def _without_digest(found: Scene) -> None:
    for manifest in _services(found):
        del mapping(manifest, "metadata")["annotations"]


def _services(found: Scene) -> list[Manifest]:
    objects = [manifest for key, manifest in found.observed.items() if key.startswith("service-")]
    paths = ("spec.forProvider.manifest", "status.atProvider.manifest")
    return [mapping(manifest, path) for manifest in objects for path in paths]


def _with_other_defaults(pod: Manifest) -> None:
    for container in listing(pod, "containers"):
        for probe in ("startupProbe", "readinessProbe"):
            if probe in container:
                mapping(container, probe)["failureThreshold"] = 99
    for volume in listing(pod, "volumes"):
        if "medium" in mapping(volume, "emptyDir"):
            mapping(volume, "emptyDir")["sizeLimit"] = "7Gi"
    for container in listing(pod, "initContainers"):
        container["image"] = IMAGE
        mapping(container, "resources")["requests"] = {"memory": "5Gi"}


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE])
def test_keeps_service_of_another_release_while_its_digest_is_unchanged(story: str) -> None:
    rest = scene(story).edited(_by_another_release)
    assert running(rest) != running(scene(story)), "the other release writes another service"
    assert only(rest) == running(rest)
    assert only(rest.edited(model("resources.disk", "1500Gi"))) == running(rest)


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE])
def test_service_of_another_release_is_built_when_its_digest_changes(story: str) -> None:
    edit = model("serving.0.engine.args", ["--max-num-seqs=7"])
    assert only(scene(story).edited(_by_another_release, edit)) == only(scene(story).edited(edit))


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE])
def test_service_without_digest_keeps_its_pods_when_they_are_as_built(story: str) -> None:
    """For example one that was restored from a backup without its annotations."""
    rest = scene(story).edited(_without_digest)
    assert only(rest)["spec"] == running(rest)["spec"]
    assert only(rest)["metadata"] == running(scene(story))["metadata"], "it carries its digest from now on"


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE])
def test_service_without_digest_is_built_when_its_pods_differ(story: str) -> None:
    rest = scene(story).edited(_without_digest, _by_another_release)
    assert only(rest) == running(scene(story))


def test_setting_that_the_platform_removes_leaves_the_service() -> None:
    named = scene(ONE_NODE).edited(defaults("storageInitializerImage", IMAGE)).settled()
    assert IMAGE in str(only(named))
    assert IMAGE not in str(only(named.edited(defaults("storageInitializerImage", None))))
