"""One pod of a service: what KServe merges into its preset's pod, or takes as it is in pipeline mode.

The container is `main`, as KServe mounts models into no other; GPUs are never computed by it, hence the
limit here. The presets demand an image that does not start as root, which only their own does: everybody
else's is let off that one demand and keeps the rest (no capabilities, no escalation). In pipeline mode there
is no preset: the engines' processes get shared memory, and the right to lock memory, which RDMA between
nodes needs.
"""

from function.domain.settings import Initializer
from function.domain.taints import tolerations
from function.kube.manifests import JSON, Manifest, mapping, prune
from function.serving import platform
from function.serving.engines import Launch, Mode, mode_of
from function.serving.request import ServingRequest
from function.serving.spread import affinity

_SHARED_MEMORY = "dshm"  # the presets' own name: merged by name, ours replaces their size
_SHARED_MEMORY_SIZE = "16Gi"
CERTIFICATES = "initializer-certificates"
_PRESET_IMAGES = "llm-d"
# KServe gives its initializer 1 CPU and 1Gi, and a merge cannot take a limit away: these are as good as none.
_NO_LIMIT: Manifest = {"cpu": "64", "memory": "1Ti"}


def pod(request: ServingRequest, launch: Launch, listening: Manifest) -> Manifest:
    """Return the pod that starts like this; `listening` has ports and probes where it serves."""
    node_selector: Manifest = dict(request.pool.labels)
    given, between = request.pool.given(request.shape.nodes), request.pool.between(request.shape.nodes)
    if between and between.start:
        launch = platform.sourced(launch, between.start)
    return prune(
        {
            "nodeSelector": node_selector or None,
            "tolerations": tolerations(request.pool),
            "affinity": affinity(request.profile, request.name, request.shape.nodes),
            **platform.pod_fields(given, _pull_secrets(request)),
            "initContainers": [_initializer(request.initializer)] if request.initializer else None,
            "containers": [_main(request, launch, listening)],
            "volumes": [*_volumes(request), *given.volumes] or None,
        }
    )


def _pull_secrets(request: ServingRequest) -> list[str]:
    # Images of a pod are pulled with all of its Secrets, whichever container they are for.
    initializers = request.initializer.pull_secrets if request.initializer else ()
    return [*(secret.name for secret in request.pulled_with), *initializers]


def _main(request: ServingRequest, launch: Launch, listening: Manifest) -> Manifest:
    profile, bare = request.profile, _bare(request)
    given = request.pool.given(request.shape.nodes)
    shared_memory: list[JSON] = [{"name": _SHARED_MEMORY, "mountPath": "/dev/shm"}] if bare else []  # noqa: S108  # a mount
    return prune(
        {
            "name": "main",
            "image": profile.engine.image,
            "command": list(launch.command) or None,
            "args": list(launch.args) or None,
            "env": platform.variables(given, profile),
            **listening,
            "resources": platform.resources(
                given,
                {request.pool.gpu_resource: str(request.shape.gpus_per_node)},
                _requests(request),
            ),
            "securityContext": platform.security(
                given, _security(profile.engine.image, bare=bare), mode_of(request.shape)
            ),
            "volumeMounts": [*shared_memory, *given.volume_mounts] or None,
            "terminationMessagePolicy": "FallbackToLogsOnError" if bare else None,
        }
    )


def _requests(request: ServingRequest) -> Manifest:
    asked = request.profile.engine.resources
    return prune(
        {
            "cpu": asked.cpu or request.model.cpu,
            "memory": asked.memory or request.model.memory,
            "ephemeral-storage": asked.ephemeral_storage or None,
        }
    )


def _bare(request: ServingRequest) -> bool:
    return mode_of(request.shape) is Mode.PIPELINE


def _security(image: str, *, bare: bool) -> Manifest:
    if bare:
        return {"capabilities": {"add": ["IPC_LOCK"]}}
    starts_as_user = any(part.startswith(_PRESET_IMAGES) for part in image.split("/"))
    return {} if starts_as_user else {"runAsNonRoot": False}


def _volumes(request: ServingRequest) -> list[JSON]:
    asked = request.profile.engine.resources.shm
    bundle = request.initializer.bundle if request.initializer else None
    certificates: list[JSON] = [{"name": CERTIFICATES, "configMap": {"name": bundle[0]}}] if bundle else []
    if request.shape.gpus_per_node == 1 and not _bare(request) and not asked:
        return certificates
    memory: Manifest = {"medium": "Memory", "sizeLimit": asked or _SHARED_MEMORY_SIZE}
    return [{"name": _SHARED_MEMORY, "emptyDir": memory}, *certificates]


def _initializer(initializer: Initializer) -> Manifest:
    resources, bundle = initializer.resources or {}, initializer.bundle
    mounts: list[JSON] = [{"name": CERTIFICATES, "mountPath": bundle[1], "readOnly": True}] if bundle else []
    return prune(
        {
            "name": "storage-initializer",
            "image": initializer.image,
            "resources": {**resources, "limits": {**_NO_LIMIT, **mapping(resources, "limits")}},
            "env": list(initializer.env) or None,
            "envFrom": list(initializer.env_from) or None,
            "volumeMounts": mounts or None,
        }
    )
