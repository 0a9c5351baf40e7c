"""Claims of one node: the download runs on the nodes of the service, and no pod is composed that cannot mount them."""

import copy
from dataclasses import dataclass, field

import pytest

from function.contract import Call
from function.kube.manifests import JSON, Manifest, condition, get, integer, listing, mapping, text
from function.weights.job import DOWNLOAD, SCRIPT_FILES
from tests.support.plane import change, manifests, only, plane, reconciled, remote, said
from tests.support.remote_scene import set_field
from tools.control_plane import ControlPlane
from tools.world import World

STORY, POOLS = "gemma-one-gpu", "spec.nodePools"
ONCE: Manifest = {"type": "PVC", "accessMode": "ReadWriteOnce", "storageClassName": "local", "size": "60Gi"}


@dataclass(frozen=True, kw_only=True)
class Local(World):
    """A world whose claims belong to one node; Jobs run while `run` is set."""

    running: list[Manifest] = field(default_factory=list)

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return the Object; a claim in it is of one node."""
        observed = World.advance(self, resource, step)
        there = mapping(observed, "status.atProvider.manifest")
        if there.get("kind") == "PersistentVolumeClaim":
            set_field(there, "spec.accessModes", ["ReadWriteOnce"])
        if there.get("kind") == "Job" and self.running:
            there["status"] = self.running[0]
        return observed


def settled(cache: JSON, world: World, replicas: int = 1) -> ControlPlane:
    """Return a plane with one deployment of one node."""
    control, found = ControlPlane(renderer=plane(STORY).renderer, world=world), manifests(STORY)
    for manifest in found:
        if manifest["kind"] == "ModelDeployment":
            set_field(manifest, "spec.modelCache", cache)
            set_field(manifest, "spec.scaling", {"fixed": {"replicas": replicas}})
    control.apply(found)
    control.settle()
    return control


def edit(control: ControlPlane, kind: str, path: str, value: JSON) -> None:
    """Set a field, and let the control plane settle."""
    changed = copy.deepcopy(control.composites[only(control, kind)])
    set_field(changed, path, value)
    control.apply([changed])
    control.settle()


def relabel(control: ControlPlane) -> None:
    """Give the pools' nodes another label."""
    (environment,) = (m for m in manifests(STORY) if m["kind"] == "InferenceEnvironment")
    for index, _ in enumerate(listing(environment, POOLS)):
        edit(control, "InferenceEnvironment", f"{POOLS}.{index}.labels", {"other": "label"})


def pod_of_job(control: ControlPlane) -> Manifest:
    (job,) = remote(control, only(control, "ModelPlacement"), "job-").values()
    return mapping(job, "spec.template.spec")


def test_runs_download_on_nodes_of_the_service() -> None:
    caches: tuple[Manifest, ...] = (ONCE, {"claimName": "mine"})
    for cache in caches:
        control = settled(cache, Local())
        (service,) = remote(control, only(control, "ModelPlacement"), "service-").values()
        pod = pod_of_job(control)
        assert pod["nodeSelector"] == get(service, "spec.template.nodeSelector")
        assert pod["tolerations"] == get(service, "spec.template.tolerations")


@pytest.mark.parametrize("ready", [0, 1], ids=["waits for a node", "runs"])
def test_a_download_follows_the_labels_of_its_pool(ready: int) -> None:
    control = settled(ONCE, Local(running=[{"active": 1, "ready": ready}]))
    relabel(control)
    assert pod_of_job(control)["nodeSelector"] == {"other": "label"}


def replicas(control: ControlPlane) -> list[int]:
    """Return the replicas of the existing services."""
    found = remote(control, only(control, "ModelPlacement"), "service-").values()
    return [integer(service, "spec.replicas") for service in found]


def test_serves_one_replica_on_users_read_write_once_claim() -> None:
    caches: tuple[Manifest, ...] = ({"claimName": "mine"}, {"claimName": "mine", "preload": False})
    for cache in caches:
        control = settled(cache, Local(), replicas=2)
        placement = only(control, "ModelPlacement")
        assert said(control, placement, "StorageReady") == ("False", "ClaimNotShared")
        assert replicas(control) == []


def test_keeps_running_replica_and_starts_no_second_one() -> None:
    control = settled({"claimName": "mine"}, Local())
    assert replicas(control) == [1]
    edit(control, "ModelDeployment", "spec.scaling", {"fixed": {"replicas": 2}})
    deployment = only(control, "ModelDeployment")
    assert replicas(control) == [1]
    assert said(control, deployment, "Scheduled") == ("False", "SharedStorageMissing")
    message = text(condition(control.composites[deployment], "Scheduled"), "message")
    assert "the existing claim is ReadWriteOnce, and 2 replicas need ReadWriteMany" in message
    placement = only(control, "ModelPlacement")
    change(control, placement, "spec.replicas", 2)
    first = Call(xr=control.composites[placement], observed=control.store.owned(placement))
    _, found = reconciled(first, control.composites.values())
    message = next(c.message for c in found.conditions if c.type == "StorageReady")
    assert "ReadWriteOnce, and several nodes or replicas need ReadWriteMany" in message, (
        "a placement that a user has written by hand is refused"
    )


def test_another_script_restarts_no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    control = settled(ONCE, Local(running=[{"active": 1, "ready": 1}]))
    before = remote(control, only(control, "ModelPlacement"), "job-")
    (mounted,) = remote(control, only(control, "ModelPlacement"), "scripts-").values()
    assert text(mounted, "metadata.name") in config_maps(control)
    monkeypatch.setitem(SCRIPT_FILES, DOWNLOAD, "another release's")
    edit(control, "InferenceEnvironment", "metadata.labels.touched", "yes")
    assert remote(control, only(control, "ModelPlacement"), "job-") == before
    assert remote(control, only(control, "ModelPlacement"), "scripts-") == {
        f"scripts-{text(mounted, 'metadata.name')}": mounted
    }
    assert text(mounted, "metadata.name") in config_maps(control)


def test_another_image_starts_another_job() -> None:
    control = settled(ONCE, Local(running=[{"active": 1, "ready": 1}]))
    edit(control, "InferenceEnvironment", "spec.storage.download", {"image": "kserve/storage-initializer:v0.19.0"})
    assert images(control) == ["kserve/storage-initializer:v0.19.0"]
    edit(control, "InferenceEnvironment", "spec.storage.download", {"image": "mirror/storage-initializer:v0.20.0"})
    assert images(control) == ["mirror/storage-initializer:v0.20.0"]


def config_maps(control: ControlPlane) -> list[str]:
    """Return the ConfigMaps that the Job's pods mount."""
    volumes = listing(pod_of_job(control), "volumes")
    return [text(volume, "configMap.name") for volume in volumes if "configMap" in volume]


def images(control: ControlPlane) -> list[str]:
    return [text(container, "image") for container in listing(pod_of_job(control), "containers")]


def test_retries_failed_download_with_current_script(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: Manifest = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
    control = settled(ONCE, Local(running=[failed]))
    monkeypatch.setitem(SCRIPT_FILES, DOWNLOAD, "today's")
    edit(control, "InferenceEnvironment", "metadata.labels.touched", "yes")
    (mounted,) = config_maps(control)
    composed = (m for each in control.rounds for made in each.rendered.values() for m in made.remote.values())
    scripts = {text(m, "metadata.name"): m for m in composed if m["kind"] == "ConfigMap"}
    assert scripts[mounted]["data"] == SCRIPT_FILES
