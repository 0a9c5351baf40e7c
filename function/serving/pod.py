"""One pod of a service: KServe merges it into the pod of its preset, or takes it as it is in pipeline mode.

The container is named `main`, because KServe mounts models only into this container. The presets demand an image that
does not start as root, but only their own image satisfies this. Every other image is released from this demand, and
keeps the others (no capabilities, no escalation). In pipeline mode there is no preset: the engine gets shared memory, a
home, a folder for temporary files, and the right to lock memory, which RDMA needs. Service links are off, because a
Service called `vllm` would put an address into a variable that vLLM reads as a port.

A variable of the engine takes precedence over one of the pool, except those that a network preset sets
(`find_pool_problems`).

The anti-affinity recognises the pods of one group by the index that LeaderWorkerSet puts on them (`matchLabelKeys`),
and the pods of other replicas on several nodes by another index (`mismatchLabelKeys`). Replicas on one node are pods of
the same revision, so that the old pods do not block an update, which starts the new ones first.

**Start.** The limit is the sum of ten minutes for the engine, the time to read the weights, and half an hour for the
other pods of a group to join. The time to read the weights is eight seconds for each Gi (128 MiB/s, a slow network file
system) or, if the speed of the storage is known, four times the time at this speed: weights that were read page by page
came at a quarter of it (docs/storage.md). If the size is unknown, one hour replaces the first two.

**End.** KServe's gateway needs some seconds to learn that an engine ends, so the container pauses first. A leader then
finishes its requests within the grace period, if its version can. A stopped worker breaks whatever its leader still
computes, so workers pause until the leader is done. Pods that a preset starts have the preset's pause and grace period.

**Variables.** The author's variables take precedence; others are added only if they are missing. Several API servers
wait for their engines no longer than `VLLM_ENGINE_READY_TIMEOUT_S`, 600 seconds unless it is set. An engine that reads
its weights from a claim asks Hugging Face for nothing, unless something names another repository.
"""

from collections.abc import Mapping

from function.domain.engines import ENGINES, PORT, may_name_repository
from function.domain.environment import tolerations
from function.domain.model import Mode, Profile, Spread
from function.domain.pods import PodAdditions, add_variables, merge_by_name
from function.domain.settings import Initializer
from function.kube.manifests import JSON, Manifest, get, list_texts, mapping, prune, text
from function.kube.names import LABEL_SERVICE
from function.kube.quantity import GIB
from function.serving.digest import ServingRequest
from function.serving.engine import CERTIFICATES, JOIN_SECONDS, Launch, drain_seconds, list_adapter_paths, wrap_in_shell
from function.weights.claim import compute_load_seconds
from function.weights.request import parse_claim_uri

_SHARED_MEMORY_VOLUME = "dshm"  # the presets' own name: KServe merges by name, so that ours replaces their size
_SHARED_MEMORY_SIZE = "16Gi"
_CERTIFICATES_VOLUME = "initializer-certificates"
_PRESET_IMAGE_PREFIX = "llm-d"
# KServe gives its initializer 1 CPU and 1Gi, and a merge cannot remove a limit: these limits are as good as none.
_LARGEST_LIMITS: Manifest = {"cpu": "64", "memory": "1Ti"}
# What KServe's preset for data parallelism adds to a container whose other capabilities it drops.
_PRESET_CAPABILITIES = {Mode.SINGLE: (), Mode.DATA: ("IPC_LOCK", "SYS_RAWIO", "NET_RAW")}
# Labels of pods by which the anti-affinity recognises the pods of one group or of one revision.
_GROUP_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
_REVISION_LABEL = "pod-template-hash"

_PROBE_PERIOD_SECONDS = 10  # as in KServe's presets
# How long the engine may take to start ("Start" above).
_ENGINE_START_SECONDS = 600  # in addition to the time to read its weights
_READ_SECONDS_PER_GIB = 8  # if the speed of the storage is not known
_PAGE_BY_PAGE_FACTOR = 4  # by which reading takes longer page by page than at the speed of the storage
_START_SECONDS_OF_UNKNOWN_SIZE = 3600  # including the time to read the weights
# How a container ends ("End" above).
_PAUSE_SECONDS = 15  # until the gateway has learnt of it, as in KServe's presets
_GRACE_SECONDS = 60  # at least, as in KServe's presets
_MARGIN_SECONDS = 5  # of the grace period, after the last request

_COMPILE_CACHE = "engine-cache"  # a volume for what engines compile, and the home if no preset has one
_COMPILE_CACHE_PATH = "/var/cache/engine"
_COMPILE_CACHE_VARIABLES: Mapping[str, str] = {
    "VLLM_CACHE_ROOT": f"{_COMPILE_CACHE_PATH}/vllm",
    "TRITON_CACHE_DIR": f"{_COMPILE_CACHE_PATH}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{_COMPILE_CACHE_PATH}/inductor",
}
# What KServe's presets give a user without a home. The user of an image may be replaced (OpenShift, `runAsUser`).
_HOME_VARIABLES: Mapping[str, str] = {
    "HOME": _COMPILE_CACHE_PATH,
    "HF_HOME": f"{_COMPILE_CACHE_PATH}/huggingface",
    "XDG_CACHE_HOME": f"{_COMPILE_CACHE_PATH}/cache",
    "XDG_CONFIG_HOME": f"{_COMPILE_CACHE_PATH}/config",
}
_TEMPORARY_VOLUME = "tmp-dir"  # as KServe's presets name it
_TEMPORARY_PATH = "/tmp"  # noqa: S108  # a mount
# PyTorch asks for the name of the user when it is imported, and fails if /etc/passwd has none (docs/facts.md,
# Engines).
_USER_VARIABLES: Mapping[str, str] = {"USER": "engine"}
# Prefixes of variables about a hub.
_HUB_VARIABLES = ("HF_", "HUGGING_FACE_")

_ADAPTERS_VOLUME = "lora"
_TLS_VOLUME = "tls-certs"  # as KServe's presets name it


def build_pod(request: ServingRequest, launch: Launch, *, is_leader: bool) -> Manifest:
    """Returns a pod that starts as `launch` says; only a leader is probed."""
    engine = request.profile.engine
    nodes = request.shape.nodes
    initializer = request.initializer
    additions = request.pool.pod_overrides(nodes)
    inter_node = request.pool.inter_node_settings(nodes)
    if inter_node and inter_node.start:
        launch = wrap_in_shell(launch, inter_node.start)
    volumes, mounts = _list_volumes(request)
    # If our own command starts a pod of a group, no preset says how the pod ends.
    ends_itself = nodes > 1 and bool(launch.command)
    drain = drain_seconds(engine)
    pause = _PAUSE_SECONDS if is_leader else _PAUSE_SECONDS + drain
    grace = max(_GRACE_SECONDS, _PAUSE_SECONDS + drain + _MARGIN_SECONDS)
    container = prune(
        {
            "name": "main",
            "image": engine.image,
            "command": list(launch.command) or None,
            "args": list(launch.args) or None,
            "env": _list_variables(request, is_leader=is_leader) or None,
            **(_build_ports_and_probes(request, launch) if is_leader else {}),
            "resources": _build_resources(request, additions),
            "securityContext": _build_security_context(request, additions),
            "volumeMounts": mounts or None,
            "lifecycle": {"preStop": {"exec": {"command": ["/bin/sleep", str(pause)]}}} if ends_itself else None,
            "terminationMessagePolicy": "FallbackToLogsOnError" if request.shape.mode is Mode.PIPELINE else None,
        }
    )
    return prune(
        {
            "nodeSelector": {**dict(request.pool.labels)} or None,
            "tolerations": tolerations(request.pool),
            "affinity": build_affinity(request.profile, request.name, nodes),
            "hostNetwork": additions.host_network or None,
            # The cluster's names are not known to the node's own resolver.
            "dnsPolicy": "ClusterFirstWithHostNet" if additions.host_network else None,
            "priorityClassName": additions.priority_class or None,
            "schedulerName": additions.scheduler or None,
            "runtimeClassName": additions.runtime_class or None,
            "serviceAccountName": additions.service_account or None,
            "imagePullSecrets": _list_pull_secrets(request, additions) or None,
            "resourceClaims": list(additions.resource_claims) or None,
            "initContainers": [_build_initializer(initializer)] if initializer else None,
            "containers": [container],
            "volumes": volumes or None,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": grace if ends_itself else None,
        }
    )


def build_affinity(profile: Profile, service: str, nodes: int) -> Manifest | None:
    """Returns the anti-affinity of the pods, or None if the profile asks for none."""
    spreads = [(profile.replicas_across_nodes, "matchLabelKeys", _REVISION_LABEL)]
    if nodes > 1:
        spreads = [
            # The default is distinct nodes, because each pod is charged a node.
            (profile.pods_across_nodes or Spread.REQUIRED, "matchLabelKeys", _GROUP_LABEL),
            (profile.replicas_across_nodes, "mismatchLabelKeys", _GROUP_LABEL),
        ]
    selector: Manifest = {"matchLabels": {LABEL_SERVICE: service}}
    required, preferred = list[JSON](), list[JSON]()
    for spread, keys, label in spreads:
        term: Manifest = {"labelSelector": selector, keys: [label], "topologyKey": "kubernetes.io/hostname"}
        if spread is Spread.REQUIRED:
            required.append(term)
        elif spread is Spread.PREFERRED:
            preferred.append({"weight": 100, "podAffinityTerm": term})
    terms = prune(
        {
            "requiredDuringSchedulingIgnoredDuringExecution": required or None,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred or None,
        }
    )
    return {"podAntiAffinity": terms} if terms else None


def _list_pull_secrets(request: ServingRequest, additions: PodAdditions) -> list[JSON]:
    """Returns the Secrets of all containers: the kubelet pulls every image of a pod with all of them."""
    names = {*additions.pull_secrets, *(secret.name for secret in request.all_pull_secrets)}
    if request.initializer:
        names.update(request.initializer.pull_secrets)
    return [{"name": name} for name in sorted(names)]


def _build_resources(request: ServingRequest, additions: PodAdditions) -> Manifest:
    model = request.model
    engine = request.profile.engine.resources
    claims: list[JSON] = [{"name": get(claim, "name")} for claim in additions.resource_claims]
    return prune(
        {
            # Kubernetes also requests what is limited, unless something else is requested.
            "limits": {request.pool.gpu_resource: str(request.shape.gpus_per_node), **dict(additions.limits)},
            "requests": prune(
                {
                    "cpu": engine.cpu or model.cpu,
                    "memory": engine.memory or model.memory,
                    "ephemeral-storage": engine.ephemeral_storage or None,
                }
            ),
            "claims": claims or None,
        }
    )


def _build_security_context(request: ServingRequest, additions: PodAdditions) -> Manifest | None:
    """Returns the engine's security context: the pool's settings over our own and over those of KServe's preset."""
    mode = request.shape.mode
    image_parts = request.profile.engine.image.split("/")
    starts_as_user = any(part.startswith(_PRESET_IMAGE_PREFIX) for part in image_parts)
    own: Manifest = {} if starts_as_user else {"runAsNonRoot": False}
    if mode is Mode.PIPELINE:
        own = {"capabilities": {"add": ["IPC_LOCK"]}}
    merged = PodAdditions(security=additions.security).merge_over(PodAdditions(security=own)).security
    if merged.get("privileged") is True:
        # Kubernetes refuses privileged containers that deny escalation, and KServe's presets deny escalation.
        merged = {"allowPrivilegeEscalation": True, **merged}
    if mode in _PRESET_CAPABILITIES:
        # A merge replaces what the preset adds, and the preset drops every other capability.
        added = set(list_texts(merged, "capabilities.add"))
        preset = set(_PRESET_CAPABILITIES[mode])
        merged = {key: value for key, value in merged.items() if key != "capabilities"}
        if not added <= preset:
            merged["capabilities"] = {"add": [*sorted(added | preset)]}
    return merged or None


def _list_volumes(request: ServingRequest) -> tuple[list[JSON], list[JSON]]:
    """Returns the volumes of a pod and the mounts of its engine, unless a preset has them."""
    additions = request.pool.pod_overrides(request.shape.nodes)
    without_preset = request.shape.mode is Mode.PIPELINE
    shared_memory_size = request.profile.engine.resources.shm
    volumes, mounts = list[JSON](), list[JSON]()
    if request.shape.gpus_per_node > 1 or without_preset or shared_memory_size:
        memory: Manifest = {"medium": "Memory", "sizeLimit": shared_memory_size or _SHARED_MEMORY_SIZE}
        volumes.append({"name": _SHARED_MEMORY_VOLUME, "emptyDir": memory})
    if without_preset:
        mounts.append({"name": _SHARED_MEMORY_VOLUME, "mountPath": "/dev/shm"})  # noqa: S108  # a mount
    if request.initializer and request.initializer.bundle:
        volumes.append({"name": _CERTIFICATES_VOLUME, "configMap": {"name": request.initializer.bundle[0]}})
    volumes += additions.volumes
    mounts += additions.volume_mounts
    if without_preset and not any(text(m, "mountPath").rstrip("/") == _TEMPORARY_PATH for m in additions.volume_mounts):
        volumes.append({"name": _TEMPORARY_VOLUME, "emptyDir": {}})
        mounts.append({"name": _TEMPORARY_VOLUME, "mountPath": _TEMPORARY_PATH})
    if _has_compile_cache(request):
        volumes.append({"name": _COMPILE_CACHE, "emptyDir": {}})
        mounts.append({"name": _COMPILE_CACHE, "mountPath": _COMPILE_CACHE_PATH})
    claims = {adapter.claim: f"{_ADAPTERS_VOLUME}-{index}" for index, adapter in enumerate(request.adapters)}
    for claim, name in claims.items():
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim}})
    for adapter, path in zip(request.adapters, list_adapter_paths(request), strict=True):
        mount: Manifest = {"name": claims[adapter.claim], "mountPath": path, "readOnly": True}
        mounts.append(mount | ({"subPath": adapter.path} if adapter.path else {}))
    if request.kserve.tls and without_preset:
        # KServe's Secret. KServe shortens names of more than 63 characters, but our names are never that long.
        secret: Manifest = {"secretName": f"{request.name}-kserve-self-signed-certs"}
        volumes.append({"name": _TLS_VOLUME, "secret": secret})
        mounts.append({"name": _TLS_VOLUME, "mountPath": CERTIFICATES, "readOnly": True})
    return volumes, mounts


def _reads_claim(request: ServingRequest) -> bool:
    return parse_claim_uri(request.uri) is not None


def _has_compile_cache(request: ServingRequest) -> bool:
    return _reads_claim(request) or request.shape.mode is Mode.PIPELINE


def _build_initializer(initializer: Initializer) -> Manifest:
    """Returns what KServe merges into its own container that downloads the weights."""
    resources = initializer.resources or {}
    bundle = initializer.bundle
    mounts: list[JSON] = [{"name": _CERTIFICATES_VOLUME, "mountPath": bundle[1], "readOnly": True}] if bundle else []
    return prune(
        {
            "name": "storage-initializer",
            "image": initializer.image,
            "resources": {**resources, "limits": {**_LARGEST_LIMITS, **mapping(resources, "limits")}},
            "env": list(initializer.env) or None,
            "envFrom": list(initializer.env_from) or None,
            "volumeMounts": mounts or None,
        }
    )


def _compute_startup_seconds(request: ServingRequest) -> int:
    """Returns how many seconds the engine may take to start, a multiple of the probes' period."""
    if request.weights_bytes is None:
        seconds = _START_SECONDS_OF_UNKNOWN_SIZE
    elif request.read_bandwidth:
        read_seconds = compute_load_seconds(request.weights_bytes, request.read_bandwidth) * _PAGE_BY_PAGE_FACTOR
        seconds = _ENGINE_START_SECONDS + read_seconds
    else:
        read_seconds = -(-request.weights_bytes // GIB) * _READ_SECONDS_PER_GIB
        seconds = _ENGINE_START_SECONDS + read_seconds
    if request.shape.nodes > 1:
        seconds += JOIN_SECONDS
    return -(-seconds // _PROBE_PERIOD_SECONDS) * _PROBE_PERIOD_SECONDS


def _build_ports_and_probes(request: ServingRequest, launch: Launch) -> Manifest:
    """Returns the port and the probes of a leader; a preset's container only gets the times of its probes.

    With the times of the presets, two answers for which a saturated engine takes a second would remove the only
    endpoint.
    """
    spec = ENGINES[request.profile.engine.name]
    times: Manifest = {"periodSeconds": _PROBE_PERIOD_SECONDS, "timeoutSeconds": spec.health_timeout}
    scheme = "HTTPS" if request.kserve.tls else "HTTP"
    check: Manifest = {"httpGet": {"path": spec.health_path, "port": PORT, "scheme": scheme}} if launch.command else {}
    probes: Manifest = {
        "startupProbe": {
            **check,
            **times,
            "failureThreshold": _compute_startup_seconds(request) // _PROBE_PERIOD_SECONDS,
        },
        "readinessProbe": {**check, **times, "failureThreshold": 3},
        # A whole group restarts when its leader does, which may cost hours of loading.
        "livenessProbe": {**check, **times, "failureThreshold": 30},
    }
    if not launch.command:
        return probes
    return {"ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}], **probes}


def _list_variables(request: ServingRequest, *, is_leader: bool) -> list[JSON]:
    """Returns the variables of the engine, and those that are added where they are missing."""
    engine = request.profile.engine
    additions = request.pool.pod_overrides(request.shape.nodes)
    added: dict[str, str] = {**_USER_VARIABLES}
    if request.shape.mode is Mode.PIPELINE:
        added |= _HOME_VARIABLES
    if _has_compile_cache(request):
        added |= _COMPILE_CACHE_VARIABLES
    has_hub_variables = any(text(entry, "name").startswith(_HUB_VARIABLES) for entry in engine.env)
    if _reads_claim(request) and not has_hub_variables and not may_name_repository(engine):
        added["HF_HUB_OFFLINE"] = "1"
    # As where vLLM's ranks hold copies of a model.
    if is_leader and ENGINES[engine.name].has_api_servers and (request.shape.parallelism.data or 1) > 1:
        added["VLLM_ENGINE_READY_TIMEOUT_S"] = str(_compute_startup_seconds(request))
    return [*add_variables(merge_by_name(additions.env, engine.env), dict(sorted(added.items())))]
