"""One pod of a service: what KServe merges into its preset's pod, or takes as it is in pipeline mode.

The container is `main`, as KServe mounts models into no other; GPUs are never computed by it, hence the
limit here. The presets demand an image that does not start as root, which only their own does: everybody
else's is let off that one demand and keeps the rest (no capabilities, no escalation). In pipeline mode there
is no preset: the engines' processes get shared memory, and the right to lock memory, which RDMA between
nodes needs.
"""

from function.kube.manifests import JSON, Manifest, mapping, prune
from function.serving.engines import Launch, Mode, mode_of
from function.serving.order import Initializer, ServiceOrder
from function.serving.spread import affinity, tolerations

_SHARED_MEMORY = "dshm"  # the presets' own name: merged by name, ours replaces their size
_SHARED_MEMORY_SIZE = "16Gi"
_PRESET_IMAGES = "llm-d"
# KServe gives its initializer 1 CPU and 1Gi, and a merge cannot take a limit away: these are as good as none.
_NO_LIMIT: Manifest = {"cpu": "64", "memory": "1Ti"}


def pod(order: ServiceOrder, launch: Launch, listening: Manifest) -> Manifest:
    """Return the pod that starts like this; `listening` has ports and probes where it serves."""
    node_selector: Manifest = dict(order.pool.labels)
    return prune(
        {
            "nodeSelector": node_selector or None,
            "tolerations": tolerations(order.pool),
            "affinity": affinity(order.profile, order.name, order.shape.nodes),
            "initContainers": [_initializer(order.initializer)] if order.initializer else None,
            "containers": [_main(order, launch, listening)],
            "volumes": _volumes(order),
        }
    )


def _main(order: ServiceOrder, launch: Launch, listening: Manifest) -> Manifest:
    engine, bare = order.profile.engine, _bare(order)
    return prune(
        {
            "name": "main",
            "image": engine.image,
            "command": list(launch.command) or None,
            "args": list(launch.args) or None,
            "env": list(engine.env) or None,
            **listening,
            "resources": {
                "limits": {order.pool.gpu_resource: str(order.shape.gpus_per_node)},
                "requests": {"cpu": order.model.cpu, "memory": order.model.memory},
            },
            "securityContext": _security(engine.image, bare=bare),
            "volumeMounts": [{"name": _SHARED_MEMORY, "mountPath": "/dev/shm"}] if bare else None,  # noqa: S108  # a mount
            "terminationMessagePolicy": "FallbackToLogsOnError" if bare else None,
        }
    )


def _bare(order: ServiceOrder) -> bool:
    return mode_of(order.shape) is Mode.PIPELINE


def _security(image: str, *, bare: bool) -> Manifest | None:
    if bare:
        return {"capabilities": {"add": ["IPC_LOCK"]}}
    starts_as_user = any(part.startswith(_PRESET_IMAGES) for part in image.split("/"))
    return None if starts_as_user else {"runAsNonRoot": False}


def _volumes(order: ServiceOrder) -> list[JSON] | None:
    if order.shape.gpus_per_node == 1 and not _bare(order):
        return None
    memory: Manifest = {"medium": "Memory", "sizeLimit": _SHARED_MEMORY_SIZE}
    return [{"name": _SHARED_MEMORY, "emptyDir": memory}]


def _initializer(initializer: Initializer) -> Manifest:
    resources = initializer.resources or {}
    return prune(
        {
            "name": "storage-initializer",
            "image": initializer.image,
            "resources": {**resources, "limits": {**_NO_LIMIT, **mapping(resources, "limits")}},
            "env": list(initializer.env) or None,
            "envFrom": list(initializer.env_from) or None,
        }
    )
