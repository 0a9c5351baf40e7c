"""Nodes as clusters have them, and the Objects through which provider-kubernetes shows them.

The shapes of GKE, EKS and DGX are written by hand from the documentation of the clouds, of gpu-feature-discovery and of
the device plugin.
"""

from dataclasses import replace
from typing import Any

from function.domain.environment import Environment, Pool
from function.kube.manifests import JSON, Manifest

UID = "collection-uid"
POOL = "modelplane.ai/pool"
H100 = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/mig.strategy": "none",
}
GKE_L4 = {
    "cloud.google.com/gke-nodepool": "l4",
    "cloud.google.com/gke-accelerator": "nvidia-l4",
    "cloud.google.com/gke-accelerator-count": "2",
    "kubernetes.io/os": "linux",
}
EKS_A100 = {
    "eks.amazonaws.com/nodegroup": "a100",
    "node.kubernetes.io/instance-type": "p4d.24xlarge",
    "kubernetes.io/os": "linux",
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/gpu.count": "8",
}
DGX_H100 = {POOL: "dgx", "kubernetes.io/os": "linux", **H100}


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Manifest:
    """Return a taint."""
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def node(
    name: str = "gpu-1",
    labels: dict[str, str] | None = None,
    *,
    gpus: JSON = "8",
    resource: str = "nvidia.com/gpu",
    taints: tuple[Manifest, ...] = (),
    ready: str = "True",
    cordoned: bool = False,
    deleting: bool = False,
    beat: str = "2026-01-01T00:00:00Z",
) -> Manifest:
    """Return a Node. With `gpus` None, the node has no allocatable GPUs yet. `beat` changes with every heartbeat."""
    allocatable: Manifest = {"cpu": "96", "memory": "1800Gi", "pods": "110"}
    if gpus is not None:
        allocatable[resource] = gpus
    metadata: Manifest = {
        "name": name,
        "uid": f"uid-of-{name}",
        "resourceVersion": beat,
        "labels": {"kubernetes.io/hostname": name, **({POOL: "h100"} if labels is None else labels)},
    }
    spec: Manifest = {"taints": [*taints]}
    if deleting:
        metadata["deletionTimestamp"] = beat
    if cordoned:
        spec["unschedulable"] = True
    conditions: list[JSON] = [
        {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": beat},
        {"type": "Ready", "status": ready, "lastHeartbeatTime": beat, "lastTransitionTime": beat},
    ]
    images: list[JSON] = [{"names": [f"image@{beat}"], "sizeBytes": 1}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": conditions, "images": images},
    }


def member(
    shown: Manifest, *, synced: str = "", seen: bool = True, meant: str = "", owner: str = UID, leaving: bool = False
) -> Manifest:
    """Return the Object of a node. `synced` is the error of its last sync; `meant` is the node that it should show."""
    metadata = shown["metadata"]
    assert isinstance(metadata, dict)
    name = str(metadata["name"])
    status: Manifest = {
        "conditions": [
            {"type": "Synced", "status": "False" if synced else "True", "message": synced},
            {"type": "Ready", "status": "True"},
        ]
    }
    if seen:
        status["atProvider"] = {"manifest": shown}
    about: Manifest = {
        "name": f"nodes-{name}",
        "namespace": "modelplane-system",
        "uid": f"object-of-{name}",
        "resourceVersion": metadata["resourceVersion"],
        "ownerReferences": [{"kind": "ObservedObjectCollection", "uid": owner}],
    }
    if leaving:
        about["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    manifest: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": meant or name, "namespace": ""}}
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "metadata": about,
        "spec": {"managementPolicies": ["Observe"], "forProvider": {"manifest": manifest}},
        "status": status,
    }


def collection(*, listed: bool = True, synced: str = "") -> Manifest:
    """Return the collection. `listed` means that it was reconciled once; `synced` is the error of its last list."""
    status: Manifest = {}
    if listed:
        status["membershipLabel"] = {"kubernetes.crossplane.io/owned-by-collection": "nodes"}
    if listed or synced:
        status["conditions"] = [{"type": "Synced", "status": "False" if synced else "True", "message": synced}]
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "ObservedObjectCollection",
        "metadata": {"name": "nodes", "namespace": "modelplane-system", "uid": UID},
        "status": status,
    }


def pool(name: str = "h100", **more: Any) -> Pool:
    """Return a pool of 8-GPU nodes, found by its name, without an autoscaler."""
    return replace(Pool(name=name, gpus_per_node=8, max_nodes=2, labels=((POOL, name),)), **more)


def environment(*pools: Pool, **more: Any) -> Environment:
    """Return an environment of the control plane with these pools."""
    return replace(Environment(name="east", uid="1", pools=pools or (pool(),)), **more)
