"""Scenario 23: disks of nodes, claims that belong to root, and pods that come with Secrets of their own.

Scheduler, volume binder, Job controller and admission are Kubernetes' own. Nothing here mounts anything: a pod that
is to fail is held back by a label that no node has, and its end is written into its status.
"""

import base64

import pytest

from function.kube.manifests import Manifest, condition, get, integer, listing, mapping, text
from function.weights.scripts.download_script import Exit
from tests.e2e.objects import deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.stack import inventory
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM, SEALED = "file-systems", "sealed"
LOCAL: Manifest = {"storageClassName": "local-nvme", "accessMode": "ReadWriteOnce"}
H100 = pool("gpus", labels={"modelplane.ai/pool": "h100"})
JOB = "batch.kubernetes.io/job-name"
KEY = ".dockerconfigjson"


def test_a_volume_of_one_node_is_bound_where_the_service_runs(world: World) -> None:
    world.team(TEAM)
    world.apply(
        environment("nvme", H100, storage=LOCAL),
        model("on-disk", resources={"disk": "60Gi"}),
        deployment(TEAM, "on-disk", "on-disk", on="nvme", modelCache={"type": "PVC"}),
    )
    world.ready(TEAM, "on-disk")
    placement = world.placement(TEAM, "on-disk")
    claim = world.stack.remote.get("PersistentVolumeClaim", text(placement, "status.storage.claimName"), TEAM)
    volume = text(claim, "spec.volumeName")
    (served,) = world.pods(world.service(placement))
    parts = world.stack.remote.find("Pod", TEAM, f"{JOB}={text(placement, 'status.storage.job')}")
    assert len(parts) == 4
    assert {f"local-nvme-{text(part, 'spec.nodeName')}" for part in parts} == {volume}
    assert volume == f"local-nvme-{text(served, 'spec.nodeName')}"
    assert world.pool_of(served) == "h100"
    world.remove(TEAM, "on-disk")
    until("its pods to go", lambda: not world.stack.remote.find("Pod", TEAM))


def test_a_claim_that_belongs_to_root_takes_one_failure_and_one_prepared_job(world: World) -> None:
    world.team(TEAM)
    held: Manifest = {"storageClassName": "shared-vast", "download": {"nodeSelector": {"e2e-hold": "yes"}}}
    world.apply(
        environment("rooted", storage=held),
        model("rooted", resources={"disk": "30Gi"}),  # one part, so one pod
        deployment(TEAM, "rooted", "rooted", on="rooted", modelCache={"type": "PVC"}),
    )
    placed = world.wait_placed(TEAM, "rooted")
    first = until("the first pod", lambda: _pods(world, prepared=False))[0]
    ended: Manifest = {"exitCode": int(Exit.NOT_WRITABLE), "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    state: Manifest = {"name": "download", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    failed: Manifest = {"phase": "Failed", "containerStatuses": [{**state, "state": {"terminated": ended}}]}
    world.stack.remote.patch("Pod", text(first, "metadata.name"), {"status": failed}, TEAM, part="status")
    second = until("the prepared pod", lambda: _pods(world, prepared=True))[0]
    (prepare,) = listing(second, "spec.initContainers")
    assert get(prepare, "securityContext.capabilities") == {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]}
    until("the first Job to go", lambda: not _pods(world, prepared=False))
    job = str(mapping(second, "metadata.labels")[JOB])

    def patient() -> bool:
        found = world.stack.remote.get("Job", job, TEAM)
        return integer(found or {}, "spec.activeDeadlineSeconds") == 86400

    until("the Job to have all its time, as it has a pod", patient)
    world.stack.remote.patch(
        "Pod", text(second, "metadata.name"), {"status": {"phase": "Succeeded"}}, TEAM, part="status"
    )
    world.wait("ModelPlacement", placed, "StorageReady", "True/Hydrated", TEAM)
    world.ready(TEAM, "rooted")
    world.remove(TEAM, "rooted")


def _pods(world: World, *, prepared: bool) -> list[Manifest]:
    found = world.stack.remote.find("Pod", TEAM, JOB)
    return [pod for pod in found if bool(listing(pod, "spec.initContainers")) is prepared]


def test_a_namespace_that_lets_no_root_in_is_named(world: World) -> None:
    world.team(SEALED)
    (sealed,) = inventory.namespaces(SEALED)
    mapping(sealed, "metadata")["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    world.stack.remote.apply(sealed)
    # As long as ten minutes, for those who wait: a download's own deadline counts where it is shorter.
    always: Manifest = {"prepare": "Always", "activeDeadlineSeconds": 60}
    world.apply(
        environment("sealed", storage={"storageClassName": "shared-vast", "download": always}),
        model("sealed", resources={"disk": "60Gi"}),
        deployment(SEALED, "sealed", "sealed", on="sealed", modelCache={"type": "PVC"}),
    )
    placed = world.wait_placed(SEALED, "sealed")
    found = world.wait("ModelPlacement", placed, "StorageReady", "False/DownloadFailed", SEALED, seconds=180)
    message = text(condition(found, "StorageReady"), "message")
    assert "NoPod" in message
    assert "Pod Security restricted" in message
    assert not world.stack.remote.find("Pod", SEALED)
    world.apply(environment("sealed", storage={"storageClassName": "shared-vast", "download": {"prepare": "Never"}}))
    world.wait("ModelPlacement", placed, "StorageReady", "True/Hydrated", SEALED)
    world.remove(SEALED, "sealed")


def _registry(name: str) -> Manifest:
    data: Manifest = {KEY: base64.b64encode(b'{"auths":{}}').decode()}
    metadata: Manifest = {"name": name, "namespace": "modelplane-system"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": metadata,
        "data": data,
    }


ENGINE: Manifest = {"name": "vLLM", "image": "vllm/vllm-openai:v0.15.0", "imagePullSecrets": [{"name": "of-engine"}]}


def test_every_pod_comes_with_the_secrets_of_its_images(world: World) -> None:
    world.team(TEAM)
    for name in ("of-engine", "of-platform"):
        world.stack.hub.apply(_registry(name))
    secrets: list[Manifest] = [{"secretRef": {"name": "of-platform"}}, {"name": "there"}]
    download: Manifest = {
        "imagePullSecrets": [{"name": "of-download"}],
        "env": [{"name": "CA_BUNDLE_CONFIGMAP_NAME", "value": "corporate-ca"}],
    }
    storage: Manifest = {"storageClassName": "shared-vast", "download": download}
    world.apply(
        environment("registry", pool("gpus", maxNodeCount=3), storage=storage, imagePullSecrets=[*secrets]),
        model("wide-private", profile={**spanning(2, 8), "engine": ENGINE}, resources={"disk": "60Gi"}),
        model("one-private", profile={**spanning(1, 1), "engine": ENGINE}, resources={"disk": "55Gi"}),
        *(deployment(TEAM, name, name, on="registry") for name in ("wide-private", "one-private")),
    )
    for name, pods, own in (("wide-private", 2, []), ("one-private", 1, ["of-download"])):
        world.ready(TEAM, name)
        service = world.service(world.placement(TEAM, name))
        found = world.pods(service)
        assert len(found) == pods
        for pod in found:
            pulled = [text(entry, "name") for entry in listing(pod, "spec.imagePullSecrets")]
            copies = [each for each in pulled if each not in ("there", "of-download")]
            assert sorted({*pulled} - {*copies}) == sorted(["there", *own])
            for copy in copies:
                there = world.stack.remote.get("Secret", copy, TEAM) or {}
                assert there["type"] == "kubernetes.io/dockerconfigjson"
                assert get(there, "data") == {KEY: base64.b64encode(b'{"auths":{}}').decode()}
            assert len(copies) == 2
    (initializer,) = (c for c in listing(found[0], "spec.initContainers") if c["name"] == "storage-initializer")
    mounts = [text(mount, "mountPath") for mount in listing(initializer, "volumeMounts")]
    assert mounts.count("/etc/ssl/custom-certs") == 1
    said = condition(world.placement(TEAM, "one-private"), "StorageReady")
    assert "every pod start downloads 55Gi again" in text(said, "message")
    world.remove(TEAM, "wide-private", "one-private")

    def gone() -> bool:
        return not [s for s in world.stack.remote.find("Secret", TEAM) if KEY in mapping(s, "data")]

    until("the copies to go with their services", gone)
