"""An upgrade of the function restarts no service whose spec digest is unchanged."""

import pytest

from function.kube.manifests import Manifest, listing, mapping
from tests.support.remote_scene import (
    ONE_NODE,
    SEVERAL_NODES,
    Scene,
    composed_service,
    edit_model,
    edit_settings,
    load_scene,
    observed_service,
)

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
    rest = load_scene(story).edited(_by_another_release)
    assert observed_service(rest) != observed_service(load_scene(story)), "the other release writes another service"
    assert composed_service(rest) == observed_service(rest)
    assert composed_service(rest.edited(edit_model("resources.disk", "1500Gi"))) == observed_service(rest)


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE])
def test_service_of_another_release_is_built_when_its_digest_changes(story: str) -> None:
    edit = edit_model("serving.0.engine.args", ["--max-num-seqs=7"])
    assert composed_service(load_scene(story).edited(_by_another_release, edit)) == composed_service(
        load_scene(story).edited(edit)
    )


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE])
def test_service_without_digest_keeps_its_pods_when_they_are_as_built(story: str) -> None:
    """For example one that was restored from a backup without its annotations."""
    rest = load_scene(story).edited(_without_digest)
    assert composed_service(rest)["spec"] == observed_service(rest)["spec"]
    assert composed_service(rest)["metadata"] == observed_service(load_scene(story))["metadata"], (
        "it carries its digest from now on"
    )


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE])
def test_service_without_digest_is_built_when_its_pods_differ(story: str) -> None:
    rest = load_scene(story).edited(_without_digest, _by_another_release)
    assert composed_service(rest) == observed_service(load_scene(story))


def test_setting_that_the_platform_removes_leaves_the_service() -> None:
    named = load_scene(ONE_NODE).edited(edit_settings("storageInitializerImage", IMAGE)).settled()
    assert IMAGE in str(composed_service(named))
    assert IMAGE not in str(composed_service(named.edited(edit_settings("storageInitializerImage", None))))
