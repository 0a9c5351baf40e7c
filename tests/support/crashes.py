"""A placement of two nodes whose group crashes, as its pods show it call after call."""

from dataclasses import replace

from function.contract import Outcome
from function.kube.manifests import JSON, Manifest, get, mapping
from function.parts import requirements
from tests.support.remote_scene import SEVERAL_NODES, Edit, Scene, edit_environment, edit_model, load_scene, set_field

SINCE = "2026-03-01T10:00:00Z"
WORKLOAD = "kimi-mn"  # the LeaderWorkerSet
LEADER, WORKER = "pod-0-0", "pod-0-1"  # composition-resource-names
NAMES = {LEADER: f"{WORKLOAD}-0", WORKER: f"{WORKLOAD}-0-1"}
ERROR = "RuntimeError: CUDA out of memory"


def crashing(*edits: Edit, limit: int | None = None, observe: str = "Messages", new: bool = True) -> Scene:
    """Returns a placement whose service is not Ready; `new`: it never was."""

    def forget(scene: Scene) -> None:
        if new:
            mapping(scene.xr, "status").pop("served", None)

    consent = edit_environment("monitoring", {"observePods": observe})
    limited = edit_model("serving.0.restartLimit", limit)
    return load_scene(SEVERAL_NODES).edited(report(0), forget, consent, limited, *edits)


def report(ready: int, since: str = SINCE, **workload: JSON) -> Edit:
    """Returns the edit by which KServe reports so many ready replicas."""

    def edit(scene: Scene) -> None:
        key = service_key(scene)
        status = "True" if ready else "False"
        conditions: JSON = [
            {"type": "PresetsCombined", "status": "True"},
            {"type": "Ready", "status": status, "lastTransitionTime": since, "message": "" if ready else "Not ready"},
        ]
        at = "status.atProvider.manifest.status"
        set_field(scene.observed[key], f"{at}.conditions", conditions)
        primary: Manifest = {"kind": "LeaderWorkerSet", "name": WORKLOAD, "readyReplicas": ready, **workload}
        set_field(scene.observed[key], f"{at}.workloads", {"primary": primary})

    return edit


def service_key(scene: Scene) -> str:
    """Returns the composition-resource-name of the service."""
    (key,) = (key for key in scene.observed if key.startswith("service-"))
    return key


def minute(number: int) -> str:
    """Returns a time."""
    return f"2026-03-01T{10 + number // 60:02}:{number % 60:02}:00Z"


def exited(number: int, code: int = 1, message: str = ERROR, reason: str = "Error") -> Manifest:
    """Returns how a container ended in a minute."""
    return {"exitCode": code, "reason": reason, "message": message, "finishedAt": minute(number)}


def pod(key: str, number: int, *, restarts: int = 0, last: Manifest | None = None, **changes: JSON) -> Manifest:
    """Returns the pod that was created in a minute, as its Object shows it."""
    container: Manifest = {"name": "main", "restartCount": restarts, "state": {"running": {}}}
    if last:
        container["lastState"] = {"terminated": last}
    manifest: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": NAMES[key],
            "uid": f"{key}-{number}",
            "creationTimestamp": minute(number),
            "labels": {"leaderworkerset.sigs.k8s.io/name": WORKLOAD},
        },
        "status": {"phase": "Running", "containerStatuses": [container]},
    }
    for path, value in changes.items():
        set_field(manifest, path.replace("__", "."), value)
    return manifest


def shows(key: str, manifest: Manifest, synced: str = "True", message: str = "") -> Edit:
    """Returns the edit by which an Object shows a pod."""

    def edit(scene: Scene) -> None:
        conditions: JSON = [{"type": "Synced", "status": synced, "message": message}]
        observed: Manifest = {
            "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
            "kind": "Object",
            "metadata": {"name": key, "annotations": {"crossplane.io/composition-resource-name": key}},
            "status": {"atProvider": {"manifest": manifest}, "conditions": conditions},
        }
        scene.observed[key] = observed

    return edit


def crash(key: str, number: int, **exit_: JSON) -> Edit:
    """Returns the edit by which the pod that was created in a minute has crashed once."""
    return shows(key, pod(key, number, restarts=1, last=exited(number, **exit_)))  # type: ignore[arg-type]  # its arguments


def go_on(scene: Scene, *edits: Edit) -> Scene:
    """Returns the scene of the next call: with the status of this one, and what happens until then."""
    outcome = scene.outcome()
    conditions: JSON = [
        {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message} for c in outcome.conditions
    ]
    xr = {**scene.xr, "status": {**outcome.status, "conditions": conditions}}
    return replace(scene, xr=xr).edited(*edits)


def apply(scene: Scene) -> Scene:
    """Returns the scene in which the service on the cluster is as composed, and KServe has observed it."""
    key = service_key(scene)
    written = mapping(scene.outcome().composed[key].manifest, "spec.forProvider.manifest")

    def edit(made: Scene) -> None:
        status = get(made.observed[key], "status.atProvider.manifest.status")
        set_field(made.observed[key], "spec.forProvider.manifest", written)
        set_field(made.observed[key], "status.atProvider.manifest", {**written, "status": status})

    return go_on(scene, edit)


def restarts(outcome: Outcome) -> Manifest:
    """Returns `status.restarts`."""
    return mapping(outcome.status, "restarts")


def replicas(scene: Scene) -> JSON:
    """Returns the replicas of the service as composed."""
    (service,) = scene.composed().values()
    return get(service, "spec.replicas")


def drop_answer(name: str) -> Edit:
    """Returns the edit by which a required resource is not there any more."""

    def edit(scene: Scene) -> None:
        scene.answers.pop(name)

    return edit


MODEL = requirements.MODEL
