"""What an administrator would have set up on the remote cluster: nodes with GPUs, storage, a gateway,
namespaces.

Node labels and classes are those of the acceptance manifests and the examples.
"""

from function.kube.manifests import Manifest

# label of the pool, nodes, GPUs on each
_POOLS = (
    ({"modelplane.ai/pool": "medium"}, 4, 8),
    ({"modelplane.ai/pool": "frontier"}, 8, 8),
    ({"modelplane.ai/pool": "h100"}, 24, 8),
    ({"modelplane.ai/pool": "h200"}, 12, 8),
    ({"modelplane.ai/pool": "a100"}, 12, 4),
    ({"modelplane.ai/pool": "l40s"}, 2, 2),
    ({"cloud.google.com/gke-nodepool": "a100"}, 4, 4),
    ({"modelplane.ai/pool": "cpu"}, 2, 0),
    ({"modelplane.ai/pool": "l40s-x4"}, 2, 4),
    ({"modelplane.ai/pool": "l40s-porto"}, 1, 4),
    ({"modelplane.ai/pool": "l40s-riga"}, 1, 4),
)
# What device plugins would offer on every node with GPUs.
_DEVICES: Manifest = {
    "rdma/ib": "63",
    "rdma/rdma_shared_device_a": "63",
    "nvidia.com/sriov_rdma": "8",
    "nvidia.com/rdma-vf": "16",
    "vpc.amazonaws.com/efa": "32",
    "hugepages-2Mi": "6000Mi",
}
# class, volumes of it
_CLASSES = {
    "shared-vast": 20,
    "shared-fast": 13,
    "filestore-rwx": 2,
    "user-class": 2,
    "campus-nfs": 2,
    "ceph-shared": 6,
    "vault-shared": 2,
    "earlier": 7,
}
# Disks of nodes: those of a pool, and of nodes that no pool has.
_LOCAL_CLASS, _LOCAL_NODES = "local-nvme", ("h100-2-0", "h100-2-1", "h100-2-2", "cpu-7-0", "cpu-7-1")
PLAYED, PLAYER = "played", "modelplane.ai/played"  # the GatewayClass of `players`, and its controller
GATEWAY = "kserve-ingress-gateway"


def nodes() -> list[Manifest]:
    """Return fake nodes for kwok, tainted as GPU nodes are."""
    return [
        build_node(f"{'-'.join(labels.values())}-{position}-{number}", labels, gpus)
        for position, (labels, count, gpus) in enumerate(_POOLS)
        for number in range(count)
    ]


def namespaces(*names: str) -> list[Manifest]:
    """Return namespaces."""
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]


def storage() -> list[Manifest]:
    """Return storage classes without a provisioner, and volumes for their claims."""
    local: Manifest = {**_storage_class(_LOCAL_CLASS), "volumeBindingMode": "WaitForFirstConsumer"}
    return [*(_storage_class(name) for name in _CLASSES), *_volumes(), local, *_local_volumes()]


def gateway() -> list[Manifest]:
    """Return the Gateway that KServe's routes refer to; nothing implements it but `players`."""
    return list_gateway_manifests(PLAYED, PLAYER, "kserve", GATEWAY)


def list_gateway_manifests(class_name: str, controller: str, namespace: str, name: str) -> list[Manifest]:
    """Return a GatewayClass and a Gateway of it that takes routes of all namespaces."""
    listener: Manifest = {
        "name": "http",
        "port": 80,
        "protocol": "HTTP",
        "allowedRoutes": {"namespaces": {"from": "All"}},
    }
    return [
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": class_name},
            "spec": {"controllerName": controller},
        },
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"gatewayClassName": class_name, "listeners": [listener]},
        },
    ]


def build_node(name: str, labels: dict[str, str], gpus: int) -> Manifest:
    """Return a fake node, tainted if it has GPUs."""
    size: Manifest = {"cpu": "96", "memory": "1800Gi", "pods": "110", "ephemeral-storage": "2Ti"}
    taint: Manifest = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    if gpus:
        size |= {"nvidia.com/gpu": str(gpus), **_DEVICES}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels},
        },
        "spec": {"taints": [taint] if gpus else []},
        "status": {"allocatable": size, "capacity": size},
    }


def _storage_class(name: str) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "Immediate",
    }


def _volumes() -> list[Manifest]:
    where: Manifest = {"hostPath": {"path": "/nowhere"}}
    return [
        _volume(f"{name}-{number}", name, "ReadWriteMany", "4Ti", where)
        for name, volumes in _CLASSES.items()
        for number in range(volumes)
    ]


def _local_volumes() -> list[Manifest]:
    return [_volume(f"{_LOCAL_CLASS}-{node}", _LOCAL_CLASS, "ReadWriteOnce", "2Ti", _on(node)) for node in _LOCAL_NODES]


def _volume(name: str, storage_class: str, mode: str, size: str, where: Manifest) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {"storageClassName": storage_class, "accessModes": [mode], "capacity": {"storage": size}, **where},
    }


def _on(node: str) -> Manifest:
    return {"local": {"path": "/nowhere"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [_only(node)]}}}


def _only(node: str) -> Manifest:
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
