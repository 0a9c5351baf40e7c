"""What an earlier release wrote, which carries no wish, and what a platform names beside what is built in."""

from dataclasses import dataclass

import pytest

from function.domain.settings import INITIALIZER_IMAGE
from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.lifecycle.scene import (
    ONE_NODE,
    SEVERAL_NODES,
    Edit,
    Scene,
    defaults,
    environment,
    model,
    only,
    running,
    scene,
)

ENGINE = "serving.0.engine"
HUB: JSON = [{"name": "HF_ENDPOINT", "value": "http://hub.internal"}]


def _of_an_earlier_release(found: Scene) -> None:
    """Let what is observed be as another release would have written it: no wish, and other numbers."""
    for key, manifest in found.observed.items():
        if not key.startswith("service-"):
            continue
        for path in ("spec.forProvider.manifest", "status.atProvider.manifest"):
            service = mapping(manifest, path)
            del mapping(service, "metadata")["annotations"]
            for pod in (mapping(service, f"spec.{part}") for part in ("template", "worker")):
                _with_other_numbers(pod)


def _with_other_numbers(pod: Manifest) -> None:
    for container in listing(pod, "containers"):
        for probe in ("startupProbe", "readinessProbe"):
            if probe in container:
                mapping(container, probe)["failureThreshold"] = 99
    for volume in listing(pod, "volumes"):
        if "medium" in mapping(volume, "emptyDir"):
            mapping(volume, "emptyDir")["sizeLimit"] = "7Gi"
    for container in listing(pod, "initContainers"):
        container["image"] = EARLIER
        mapping(container, "resources")["requests"] = {"memory": "5Gi"}
        for entry in listing(container, "env"):
            if entry["name"] == "TQDM_MININTERVAL":
                entry["value"] = "20"


EARLIER = "kserve/storage-initializer:v0.19.0"


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE])
def test_what_an_earlier_release_wrote_is_only_marked(story: str) -> None:
    rest = scene(story).edited(_of_an_earlier_release)
    marked = only(rest)
    assert marked["spec"] == running(rest)["spec"]
    assert marked["metadata"] == running(scene(story))["metadata"], "now it carries its wish"
    again = rest.settled()
    assert only(again.edited(model("resources.disk", "1500Gi"))) == marked, "and stays, as any other"


@dataclass(frozen=True)
class Upgraded:
    """An edit that comes together with the first release that knows wishes, and what must be seen of it."""

    id: str
    edit: Edit
    shown: str


UPGRADED = (
    Upgraded("args", model(f"{ENGINE}.args", ["--max-num-seqs=7"]), "--max-num-seqs=7"),
    Upgraded("image", defaults("storageInitializerImage", "kserve/storage-initializer:v0.18.0"), ":v0.18.0"),
    Upgraded("resources", defaults("download.resources", {"requests": {"memory": "3Gi"}}), "3Gi"),
    Upgraded("env", defaults("download.env", HUB), "hub.internal"),
    Upgraded("token", environment("storage.download.tokenSecretName", "there"), "'name': 'there'"),
)


@pytest.mark.parametrize("case", UPGRADED, ids=lambda case: case.id)
def test_a_wish_that_comes_with_an_upgrade_is_not_lost(case: Upgraded) -> None:
    rest = scene(ONE_NODE).edited(_of_an_earlier_release)
    assert case.shown in str(only(rest.edited(case.edit)))


def test_an_image_that_no_release_ever_pinned_does_not_stay() -> None:
    def mirrored(found: Scene) -> None:
        for key, manifest in found.observed.items():
            for container in listing(manifest, "spec.forProvider.manifest.spec.template.initContainers"):
                assert key.startswith("service-")
                container["image"] = "mirror/storage-initializer:v1"

    assert INITIALIZER_IMAGE in str(only(scene(ONE_NODE).edited(_of_an_earlier_release, mirrored)))


def test_what_a_platform_names_no_longer_goes_at_once() -> None:
    named = scene(ONE_NODE).edited(defaults("storageInitializerImage", EARLIER)).settled()
    assert EARLIER in str(only(named))
    assert INITIALIZER_IMAGE in str(only(named.edited(defaults("storageInitializerImage", None))))
