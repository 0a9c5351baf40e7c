"""An upgrade of the function restarts no service whose spec digest is unchanged."""

import json

import pytest

from function.kube.manifests import Manifest, listing, mapping
from tests.support.remote_scene import (
    ONE_NODE,
    SEVERAL_NODES,
    Scene,
    composed_service,
    edit_model,
    edit_placement,
    edit_settings,
    load_scene,
    observed_service,
    scale,
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


def _by_the_release_without_homes(found: Scene) -> None:
    """Gives the observed service what the release 81bb5302 wrote: no user, no home, and for a preset only a budget."""
    added = {"USER", "HOME", "HF_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"}
    for manifest in _services(found):
        for pod in (mapping(manifest, f"spec.{part}") for part in ("template", "worker")):
            pod["volumes"] = [v for v in listing(pod, "volumes") if v["name"] != "tmp-dir"]
            for container in listing(pod, "containers"):
                container["env"] = [v for v in listing(container, "env") if v["name"] not in added]
                mounts = listing(container, "volumeMounts")
                container["volumeMounts"] = [m for m in mounts if m["name"] != "tmp-dir"]
                if "command" not in container and "startupProbe" in container:
                    budget = mapping(container, "startupProbe")["failureThreshold"]
                    container["startupProbe"] = {"failureThreshold": budget}
                    del container["readinessProbe"], container["livenessProbe"]


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE])
def test_service_of_the_release_without_homes_keeps_every_byte_until_its_next_change(story: str) -> None:
    rest = load_scene(story).edited(_by_the_release_without_homes)
    before = json.dumps(observed_service(rest), sort_keys=True)
    assert before != json.dumps(observed_service(load_scene(story)), sort_keys=True), (
        "this release would write another service"
    )
    assert json.dumps(composed_service(rest), sort_keys=True) == before
    assert json.dumps(composed_service(rest.settled()), sort_keys=True) == before
    scaled = rest.edited(edit_placement("replicas", 2))
    assert composed_service(scaled) == scale(observed_service(rest), 2), (
        "the number of replicas changes without a restart"
    )
    changed = composed_service(rest.edited(edit_model("serving.0.engine.args", ["--max-num-seqs=7"])))
    assert "'USER'" in str(changed), "the next change of the service applies the new defaults"


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
        "the service has its digest from now on"
    )


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE])
def test_service_without_digest_is_built_when_its_pods_differ(story: str) -> None:
    rest = load_scene(story).edited(_without_digest, _by_another_release)
    assert composed_service(rest) == observed_service(load_scene(story))


def test_setting_that_the_platform_removes_leaves_the_service() -> None:
    named = load_scene(ONE_NODE).edited(edit_settings("storageInitializerImage", IMAGE)).settled()
    assert IMAGE in str(composed_service(named))
    assert IMAGE not in str(composed_service(named.edited(edit_settings("storageInitializerImage", None))))
