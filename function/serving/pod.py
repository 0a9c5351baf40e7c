"""One pod of a service: what KServe merges into its preset's pod, or takes as it is in pipeline mode.

The container is `main`, as KServe mounts models into no other. The presets demand an image that does not start as root,
which only their own does: every other image is released from that one demand and keeps the rest (no capabilities, no
escalation). In pipeline mode there is no preset: the engine gets shared memory, and the right to lock memory, which
RDMA needs. Without service links no Service called `vllm` puts an address into a variable that vLLM reads as a port.

A variable of the engine counts over one of the pool, except those that a network preset sets (`find_preset_conflicts`).

Pods of one group are told apart by the index that LeaderWorkerSet puts on them (`matchLabelKeys`), replicas on several
nodes likewise (`mismatchLabelKeys`). Replicas on one node are pods of the same revision, so that the old pods do not
block an update, which starts the new ones first.
"""

from function.domain.environment import tolerations
from function.domain.model import Problem, Profile, Spread
from function.domain.pods import InterNode, PodAdditions, merge_by_name
from function.domain.settings import Initializer
from function.kube.manifests import JSON, Manifest, get, mapping, prune, text
from function.kube.names import LABEL_SERVICE
from function.serving.digest import ServingRequest
from function.serving.engine import Launch, Mode, Run, mode_of, wrap_in_shell
from function.serving.runtime import build_ports_and_probes, build_pre_stop, grace_seconds, list_variables, list_volumes

_SHARED_MEMORY = "dshm"  # the presets' own name: KServe merges by name, so that ours replaces their size
_SHARED_MEMORY_SIZE = "16Gi"
_CERTIFICATES = "initializer-certificates"
_PRESET_IMAGES = "llm-d"
# KServe gives its initializer 1 CPU and 1Gi, and a merge cannot take a limit away: these are as good as none.
_NO_LIMIT: Manifest = {"cpu": "64", "memory": "1Ti"}
# What KServe's preset for data parallelism adds to a container whose other capabilities it drops.
_PRESET_CAPABILITIES = {Mode.SINGLE: (), Mode.DATA: ("IPC_LOCK", "SYS_RAWIO", "NET_RAW")}
_GROUP, _REVISION = "leaderworkerset.sigs.k8s.io/group-index", "pod-template-hash"


def build_pod(request: ServingRequest, run: Run, launch: Launch, *, is_leader: bool) -> Manifest:
    """Returns a pod that starts like this; only a leader is probed."""
    nodes = request.shape.nodes
    additions, between = request.pool.pod_overrides(nodes), request.pool.inter_node_settings(nodes)
    if between and between.start:
        launch = wrap_in_shell(launch, between.start)
    # Images of a pod are pulled with all of its Secrets, whichever container they are for.
    initializer = request.initializer.pull_secrets if request.initializer else ()
    secrets = {*additions.pull_secrets, *(secret.name for secret in request.pulled_with), *initializer}
    pull_secrets: list[JSON] = [{"name": name} for name in sorted(secrets)]
    volumes = [*_list_pod_volumes(request), *additions.volumes, *(volume for volume, _ in list_volumes(request))]
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
            "imagePullSecrets": pull_secrets or None,
            "resourceClaims": list(additions.resource_claims) or None,
            "initContainers": [_build_initializer(request.initializer)] if request.initializer else None,
            "containers": [_build_engine_container(request, run, launch, is_leader=is_leader)],
            "volumes": volumes or None,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": grace_seconds(run, launch),
        }
    )


def build_affinity(profile: Profile, service: str, nodes: int) -> Manifest | None:
    """Returns the anti-affinity of the pods, or None where the profile asks for none."""
    spreads = [(profile.replicas_across_nodes, "matchLabelKeys", _REVISION)]
    if nodes > 1:
        spreads = [
            # By default on distinct nodes, as each pod is charged a node.
            (profile.pods_across_nodes or Spread.REQUIRED, "matchLabelKeys", _GROUP),
            (profile.replicas_across_nodes, "mismatchLabelKeys", _GROUP),
        ]
    required: list[JSON] = []
    preferred: list[JSON] = []
    for spread, keys, label in spreads:
        term: Manifest = {
            "labelSelector": {"matchLabels": {LABEL_SERVICE: service}},
            keys: [label],
            "topologyKey": "kubernetes.io/hostname",
        }
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


def find_preset_conflicts(profile: Profile, between: InterNode, pool: str, *, own_command: bool) -> tuple[Problem, ...]:
    """Returns why a profile cannot run over several nodes of a pool with a network preset.

    `own_command`: this function writes the engine's command, not KServe.
    """
    path, preset = f"spec.serving[{profile.name}]", f"preset {between.preset} of pool {pool}"
    names = ((index, text(entry, "name")) for index, entry in enumerate(profile.engine.env))
    problems = [
        Problem(f"{path}.engine.env[{index}]", f"{name} must be left out, {preset} sets it")
        for index, name in names
        if name in between.preset_env
    ]
    if between.start and not own_command:
        why = f"as KServe's own command cannot begin with what {preset} needs"
        problems.append(Problem(f"{path}.replicaTopology.parallelism.data", f"must be left out, {why}"))
    return tuple(problems)


def _build_engine_container(request: ServingRequest, run: Run, launch: Launch, *, is_leader: bool) -> Manifest:
    engine, additions = request.profile.engine, request.pool.pod_overrides(request.shape.nodes)
    without_preset = mode_of(request.shape) is Mode.PIPELINE
    shared_memory: list[JSON] = [{"name": _SHARED_MEMORY, "mountPath": "/dev/shm"}] if without_preset else []  # noqa: S108  # a mount
    mounts = [*shared_memory, *additions.volume_mounts, *(mount for _, mount in list_volumes(request))]
    variables = [*merge_by_name(additions.env, engine.env)]
    return prune(
        {
            "name": "main",
            "image": engine.image,
            "command": list(launch.command) or None,
            "args": list(launch.args) or None,
            "env": list_variables(request, run, variables, is_leader=is_leader) or None,
            **(build_ports_and_probes(request, run, launch) if is_leader else {}),
            "resources": _build_resources(request, additions),
            "securityContext": _build_security_context(request, additions),
            "volumeMounts": mounts or None,
            "lifecycle": build_pre_stop(run, launch, is_leader=is_leader),
            "terminationMessagePolicy": "FallbackToLogsOnError" if without_preset else None,
        }
    )


def _build_resources(request: ServingRequest, additions: PodAdditions) -> Manifest:
    engine, model = request.profile.engine.resources, request.model
    claims: list[JSON] = [{"name": get(claim, "name")} for claim in additions.resource_claims]
    return prune(
        {
            # Kubernetes also requests what is limited, where nothing else is requested.
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
    """Returns the rights of the engine's container: the pool's, over our own and over those of KServe's preset."""
    mode, image = mode_of(request.shape), request.profile.engine.image
    starts_as_user = any(part.startswith(_PRESET_IMAGES) for part in image.split("/"))
    own: Manifest = {} if starts_as_user else {"runAsNonRoot": False}
    if mode is Mode.PIPELINE:
        own = {"capabilities": {"add": ["IPC_LOCK"]}}
    merged = PodAdditions(security=additions.security).merge_over(PodAdditions(security=own)).security
    if merged.get("privileged") is True:
        # Kubernetes refuses the one without the other, and KServe's presets deny escalation.
        merged = {"allowPrivilegeEscalation": True, **merged}
    if mode in _PRESET_CAPABILITIES:
        merged = _repeat_preset_capabilities(merged, _PRESET_CAPABILITIES[mode])
    return merged or None


def _repeat_preset_capabilities(security: Manifest, preset: tuple[str, ...]) -> Manifest:
    """Returns the rights so that a merge keeps those of the preset, which drops every other capability."""
    added = mapping(security, "capabilities").get("add")
    names = {name for name in added if isinstance(name, str)} if isinstance(added, list) else set()
    rest = {key: value for key, value in security.items() if key != "capabilities"}
    return rest if names <= set(preset) else {**rest, "capabilities": {"add": [*sorted({*names, *preset})]}}


def _list_pod_volumes(request: ServingRequest) -> list[JSON]:
    size, without_preset = request.profile.engine.resources.shm, mode_of(request.shape) is Mode.PIPELINE
    bundle = request.initializer.bundle if request.initializer else None
    certificates: list[JSON] = [{"name": _CERTIFICATES, "configMap": {"name": bundle[0]}}] if bundle else []
    if request.shape.gpus_per_node == 1 and not without_preset and not size:
        return certificates
    memory: Manifest = {"medium": "Memory", "sizeLimit": size or _SHARED_MEMORY_SIZE}
    return [{"name": _SHARED_MEMORY, "emptyDir": memory}, *certificates]


def _build_initializer(initializer: Initializer) -> Manifest:
    """Returns what KServe merges into its own container that downloads the weights."""
    resources, bundle = initializer.resources or {}, initializer.bundle
    mounts: list[JSON] = [{"name": _CERTIFICATES, "mountPath": bundle[1], "readOnly": True}] if bundle else []
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
