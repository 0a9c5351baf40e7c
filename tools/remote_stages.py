"""Remote clusters without failures, in plain data: what provider-kubernetes would report of each Object.

An Object is not looked at in the step in which it is created; afterwards its remote object passes through the
stages of its kind, one each step, and stays in the last: a claim is bound once a pod wants it, a Job runs
before it completes, a service is accepted before it is ready. Times, uids and the like are fixed, so that
equal steps give equal bytes. Messages and conditions are those that were seen (docs/facts.md, provider-kubernetes).
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from function.cli.store import Ref, is_ours
from function.kube.manifests import JSON, Manifest, get, integer, mapping, text
from function.remote.composed_kinds import GKE_VERSION
from function.remote.object_writer import with_provider_finalizer

NOW = "2026-01-01T00:00:00Z"


class Clusters(Protocol):
    """What the API server and the remote clusters make of what is composed."""

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return a resource as observed so many steps after its creation; the input stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepByStep:
    """Everything comes up, one stage each step."""

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return a resource as observed so many steps after its creation; the input stays."""
        identity: Manifest = {"uid": uid(str(Ref.of(resource))), "creationTimestamp": NOW}
        if is_ours(resource):
            identity["generation"] = 1
        return reported({**resource, "metadata": {**identity, **mapping(resource, "metadata")}}, step)


def reported(resource: Manifest, step: int) -> Manifest:
    """Return a composed resource with the status that it has after so many steps."""
    if text(resource, "kind") == "Usage":
        return {**resource, "status": {"conditions": [condition("Ready", ok=True, reason="Available")]}}
    if text(resource, "apiVersion") == GKE_VERSION:
        return _created_in_a_cloud(resource, step)
    if text(resource, "kind") != "Object" or step == 0:
        return resource
    manifest = mapping(resource, "spec.forProvider.manifest")
    stages = STAGES.get(text(manifest, "kind"), _at_once())(manifest)
    ready = step >= len(stages) or text(resource, "spec.readiness.policy") in {"", "SuccessfulCreate"}
    conditions: list[JSON] = [
        condition("Synced", ok=True, reason="ReconcileSuccess"),
        condition("Ready", ok=ready, reason="Available" if ready else "Unavailable"),
    ]
    remote = _remote(manifest, stages[min(step, len(stages)) - 1])
    status: Manifest = {"atProvider": {"manifest": remote}, "conditions": conditions}
    return {**with_provider_finalizer(resource), "status": status}


def _created_in_a_cloud(resource: Manifest, step: int) -> Manifest:
    """Return a managed resource: at first nothing is known of it, then it is being created, then it is Ready."""
    if step == 0:
        return resource
    ready = condition("Ready", ok=step > 1, reason="Available" if step > 1 else "Creating")
    conditions: list[JSON] = [condition("Synced", ok=True, reason="ReconcileSuccess"), ready]
    exists: Manifest = {"atProvider": copy_manifest(mapping(resource, "spec.forProvider"))} if step > 1 else {}
    return {**resource, "status": {"conditions": conditions, **exists}}


def _remote(manifest: Manifest, stage: Manifest) -> Manifest:
    identity = f"{text(manifest, 'metadata.namespace')}/{text(manifest, 'kind')}/{text(manifest, 'metadata.name')}"
    metadata: Manifest = {
        **mapping(manifest, "metadata"),
        "uid": uid(identity),
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": NOW,
    }
    remote: Manifest = {**copy_manifest(manifest), **stage, "metadata": metadata}
    if text(manifest, "kind") == "Secret" and "data" in remote:
        remote["data"] = dict.fromkeys(mapping(remote, "data"), "")  # --sanitize-secrets
    return remote


def uid(identity: str) -> str:
    """Return a uid that is the same for the same identity."""
    digest = hashlib.sha256(identity.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def condition(type_: str, *, ok: bool, reason: str, message: str = "") -> Manifest:
    """Return a condition that has never changed."""
    found: Manifest = {"type": type_, "status": "True" if ok else "False", "reason": reason, "lastTransitionTime": NOW}
    return {**found, "message": message} if message else found


def _claim(manifest: Manifest) -> tuple[Manifest, ...]:
    asked = text(manifest, "spec.resources.requests.storage") or "4Ti"
    modes = get(manifest, "spec.accessModes") or ["ReadWriteMany"]
    spec: Manifest = {
        "accessModes": modes,
        "resources": {"requests": {"storage": asked}},
        "storageClassName": "default",
        "volumeMode": "Filesystem",
        **mapping(manifest, "spec"),
    }
    pending: Manifest = {"spec": spec, "status": {"phase": "Pending"}}
    bound: Manifest = {
        "spec": {**spec, "volumeName": "pv-1"},
        "status": {"phase": "Bound", "accessModes": modes, "capacity": {"storage": asked}},
    }
    # A claim that we did not write has been there before us.
    return (pending, bound) if "spec" in manifest else (bound,)


def _job(manifest: Manifest) -> tuple[Manifest, ...]:
    """Return the stages of a Job; an Indexed one has some of its completions while it runs."""
    parts = integer(manifest, "spec.completions", 1)
    running: Manifest = {"active": 1, "ready": 1, "startTime": NOW}
    if parts > 1:
        running |= {"succeeded": parts // 2, "completedIndexes": f"0-{parts // 2 - 1}" if parts > 3 else "0"}
    complete: Manifest = {
        "succeeded": parts,
        "startTime": NOW,
        "completionTime": NOW,
        "conditions": [
            condition("SuccessCriteriaMet", ok=True, reason="CompletionsReached"),
            condition("Complete", ok=True, reason="CompletionsReached"),
        ],
    }
    return {"status": {}}, {"status": running}, {"status": complete}


def _service(manifest: Manifest) -> tuple[Manifest, ...]:
    workload = "WorkerWorkloadReady" if "worker" in mapping(manifest, "spec") else "MainWorkloadReady"
    combined = condition("PresetsCombined", ok=True, reason="Combined")
    names = workload, "WorkloadsReady", "RouterReady", "Ready"
    starting: list[JSON] = [combined, *(condition(n, ok=False, reason="Progressing") for n in names)]
    serving: list[JSON] = [combined, *(condition(n, ok=True, reason="Ready") for n in names)]
    address = f"{text(manifest, 'metadata.namespace')}/{text(manifest, 'metadata.name')}"
    url = f"http://inference.example.org/{address}"
    accepted: Manifest = {"observedGeneration": 1, "conditions": starting}
    ready: Manifest = {"observedGeneration": 1, "conditions": serving, "url": url, "addresses": [{"url": url}]}
    return {"status": {}}, {"status": accepted}, {"status": ready}


def _at_once(**stage: JSON) -> Callable[[Manifest], tuple[Manifest, ...]]:
    return lambda _: (stage,)


# What each step adds to the manifest, by kind.
STAGES: Mapping[str, Callable[[Manifest], tuple[Manifest, ...]]] = {
    "Namespace": _at_once(status={"phase": "Active"}),
    "PersistentVolumeClaim": _claim,
    "Job": _job,
    "StorageClass": _at_once(provisioner="example.org/shared", volumeBindingMode="WaitForFirstConsumer"),
    "LLMInferenceService": _service,
}


def copy_manifest(manifest: Manifest) -> Manifest:
    """Return a deep copy, in a fifth of the time of copy.deepcopy."""
    return {key: _copied(value) for key, value in manifest.items()}


def _copied(value: JSON) -> JSON:
    if isinstance(value, dict):
        return copy_manifest(value)
    return [_copied(item) for item in value] if isinstance(value, list) else value
