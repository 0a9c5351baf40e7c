"""A remote cluster in plain data: what provider-kubernetes would report of each Object, step by step.

An Object is not looked at in the step in which it is created; afterwards its remote object passes through the
stages of its kind, one each step, and stays in the last: a claim is bound once a pod wants it, a Job runs
before it completes, a service is accepted before it is ready. What a cluster owner brings (an observed claim,
a class, a definition) is there unless it is listed as absent. Times, uids and the like are fixed, so that
equal steps give equal bytes. Messages and conditions are those that were seen (docs/facts.md, provider-kubernetes).
"""

import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from function.kube.manifests import JSON, Manifest, get, listing, mapping, text

NOW = "2026-01-01T00:00:00Z"
# What a copied Secret's key holds: tests look for it where it must not turn up.
SECRET_VALUE = "c2ltdWxhdGVkLXNlY3JldA=="  # noqa: S105  # base64 of a made-up word


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The remote clusters. `absent` names what is not there: `Secret/hf-token`, `StorageClass/fast`."""

    absent: frozenset[str] = frozenset()

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return a composed resource as observed so many steps after its creation; the input stays."""
        observed = copy.deepcopy(resource)
        if text(resource, "kind") == "Usage":
            observed["status"] = {"conditions": [_condition("Ready", ok=True, reason="Available")]}
        if text(resource, "kind") != "Object" or step == 0:
            return observed
        failure = self._failure(resource)
        if failure:
            observed["status"] = {
                "conditions": [
                    _condition("Synced", ok=False, reason="ReconcileError", message=failure),
                    _condition("Ready", ok=False, reason="Creating"),
                ]
            }
            return observed
        _copy_secrets(observed)
        manifest = mapping(observed, "spec.forProvider.manifest")
        stages = STAGES.get(text(manifest, "kind"), _nothing)(manifest)
        ready = step >= len(stages) or text(resource, "spec.readiness.policy") in {"", "SuccessfulCreate"}
        observed["status"] = {
            "atProvider": {"manifest": _remote(manifest, stages[min(step, len(stages)) - 1])},
            "conditions": [
                _condition("Synced", ok=True, reason="ReconcileSuccess"),
                _condition("Ready", ok=ready, reason="Available" if ready else "Unavailable"),
            ],
        }
        return observed

    def _failure(self, resource: Manifest) -> str:
        manifest = mapping(resource, "spec.forProvider.manifest")
        if get(resource, "spec.managementPolicies") == ["Observe"] and _title(manifest) in self.absent:
            return "observe failed: external resource does not exist"
        for source in (mapping(r, "patchesFrom") for r in listing(resource, "spec.references")):
            if _title(source, "name") in self.absent:
                wanted = f'{text(source, "kind").lower()}s "{text(source, "name")}" not found'
                return f"observe failed: cannot resolve resource references: cannot get referenced resource: {wanted}"
        return ""


def _title(manifest: Manifest, name: str = "metadata.name") -> str:
    return f"{text(manifest, 'kind')}/{text(manifest, name)}"


def _copy_secrets(observed: Manifest) -> None:
    """Do as the provider does: the value ends up in the Object's own manifest on the control plane."""
    manifest = mapping(observed, "spec.forProvider.manifest")
    for reference in listing(observed, "spec.references"):
        source = mapping(reference, "patchesFrom")
        key = text(source, "fieldPath").removeprefix("data[").removeprefix("data.").removesuffix("]")
        if text(source, "kind") == "Secret":
            manifest["data"] = {**mapping(manifest, "data"), key: SECRET_VALUE}


def _remote(manifest: Manifest, stage: Manifest) -> Manifest:
    identity = f"{text(manifest, 'metadata.namespace')}/{_title(manifest)}"
    metadata: Manifest = {
        **mapping(manifest, "metadata"),
        "uid": uid(identity),
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": NOW,
    }
    remote: Manifest = {**copy.deepcopy(manifest), **stage, "metadata": metadata}
    if text(manifest, "kind") == "Secret" and "data" in remote:
        remote["data"] = dict.fromkeys(mapping(remote, "data"), "")  # --sanitize-secrets
    return remote


def uid(identity: str) -> str:
    """Return a uid that is the same for the same identity."""
    digest = hashlib.sha256(identity.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def _condition(type_: str, *, ok: bool, reason: str, message: str = "") -> Manifest:
    found: Manifest = {
        "type": type_,
        "status": "True" if ok else "False",
        "reason": reason,
        "lastTransitionTime": NOW,
    }
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


def _job(_manifest: Manifest) -> tuple[Manifest, ...]:
    running: Manifest = {"active": 1, "ready": 1, "startTime": NOW}
    complete: Manifest = {
        "succeeded": 1,
        "startTime": NOW,
        "completionTime": NOW,
        "conditions": [
            _condition("SuccessCriteriaMet", ok=True, reason="CompletionsReached"),
            _condition("Complete", ok=True, reason="CompletionsReached"),
        ],
    }
    return {"status": {}}, {"status": running}, {"status": complete}


def _service(manifest: Manifest) -> tuple[Manifest, ...]:
    workload = "WorkerWorkloadReady" if "worker" in mapping(manifest, "spec") else "MainWorkloadReady"
    combined = _condition("PresetsCombined", ok=True, reason="Combined")
    names = workload, "WorkloadsReady", "RouterReady", "Ready"
    starting: list[JSON] = [combined, *(_condition(n, ok=False, reason="Progressing") for n in names)]
    serving: list[JSON] = [combined, *(_condition(n, ok=True, reason="Ready") for n in names)]
    address = f"{text(manifest, 'metadata.namespace')}/{text(manifest, 'metadata.name')}"
    url = f"http://inference.example.org/{address}"
    accepted: Manifest = {"observedGeneration": 1, "conditions": starting}
    ready: Manifest = {
        "observedGeneration": 1,
        "conditions": serving,
        "url": url,
        "addresses": [{"url": url}],
    }
    return {"status": {}}, {"status": accepted}, {"status": ready}


def _namespace(_manifest: Manifest) -> tuple[Manifest, ...]:
    return ({"status": {"phase": "Active"}},)


def _class(_manifest: Manifest) -> tuple[Manifest, ...]:
    return ({"provisioner": "example.org/shared", "volumeBindingMode": "WaitForFirstConsumer"},)


def _definition(_manifest: Manifest) -> tuple[Manifest, ...]:
    return ({"status": {"conditions": [_condition("Established", ok=True, reason="InitialNames")]}},)


def _nothing(_manifest: Manifest) -> tuple[Manifest, ...]:
    return ({},)


# What each step adds to the manifest, by kind.
STAGES: Mapping[str, Callable[[Manifest], tuple[Manifest, ...]]] = {
    "Namespace": _namespace,
    "PersistentVolumeClaim": _claim,
    "Job": _job,
    "StorageClass": _class,
    "CustomResourceDefinition": _definition,
    "LLMInferenceService": _service,
}
