"""Finds what is allowed in an object and looks like a slip, or costs more than it seems: the warnings of `validate`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from function.api.cluster_model import parse_model
from function.api.inference_environment import ClusterAccess, parse_environment
from function.api.model_cache import parse_model_cache
from function.api.model_deployment import parse_placement
from function.api.problems import find_nearest, join_path
from function.capacity.admission import build_required_labels
from function.capacity.ledger import CapacityView
from function.capacity.pools import count_in_empty_pool
from function.cli.gpus import find_contradictions
from function.cli.load_warnings import find_engines_without_metrics, find_load_slips
from function.cli.name_estimates import describe_small_claim
from function.cli.references import NODE_POOLS, check_name, find_model, read_request, read_settings
from function.cli.settings_warnings import find_settings_slips
from function.cli.store import CLUSTER_SCOPED, Ref, Store, is_ours, read_environments
from function.domain.allocation import format_replicas
from function.domain.environment import Environment, Pool
from function.domain.model import DownloadedSource, Model, Problem
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, get, list_texts, mapping, text
from function.kube.quantity import gib, parse_or_none
from function.reasons import Refused
from function.scheduling.filters import REQUIREMENT_REASONS, filter_candidates
from function.scheduling.scheduler import NO_POOL, find_unsatisfiable_storage
from function.scheduling.verdicts import SchedulingRequest
from function.status.cluster_model import list_notes
from function.status.inference_environment import NO_GPUS, list_pool_notes, note_missing_plugin, note_tcp_fallback
from function.status.model_deployment import note_missing_prices
from function.status.model_placement import describe_missing_labels
from function.status.weights import format_redownload_note, note_costs
from function.weights.claim import READ_WRITE_MANY
from function.weights.faults import find_remarks
from function.weights.request import StorageType, WeightsRequest, build_cache_request, cache_key

_SIZE_FIELDS = frozenset({"memoryPerGpu", "vram", "disk", "size", "shm"})
_SMALLEST_SIZE = 2**20  # bytes; no GPU and no claim has less
_NOWHERE = Environment(name="")
# By provider and network, the preset that suits most of its nodes (docs/hardware.md).
_PRESETS = {
    ("coreweave", "ib"): "coreweave-infiniband",
    ("coreweave", "roce"): "coreweave-roce",
    ("aks", "ib"): "aks-infiniband",
    ("eks", "efa"): "eks-efa",
    ("gke", "roce"): "gke-rdma",
    ("oci", "roce"): "oci-host-network",
}
# The networks of presets that are for one network; those of the network operator serve InfiniBand and RoCE.
_NETWORKS: Mapping[str, set[str]] = {
    **{preset: {network} for (_, network), preset in _PRESETS.items()},
    "oci-virtual-functions": {"roce"},
    "network-operator-shared": {"ib", "roce"},
    "network-operator-sriov": {"ib", "roce"},
}
# Reasons that refuse even an empty pool, until the deployment, the model or the environment is corrected.
_REFUSING_EMPTY_POOLS = (Refused.INVALID_DEPLOYMENT, Refused.INVALID_PROFILE, Refused.SHARED_STORAGE_MISSING)


def find_warnings(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Returns what is allowed and looks like a slip, or costs more than it seems."""
    if text(manifest, "kind") == "Composition":
        yield from find_settings_slips(store, manifest)
    if not is_ours(manifest):
        return
    yield from _find_missing_units(manifest.get("spec"), "spec")
    yield from _find_default_class(manifest)
    match text(manifest, "kind"):
        case "ModelDeployment":
            yield from _find_costs(store, manifest)
            yield from find_load_slips(manifest)
            yield from _find_small_claim(store, manifest, "spec.modelCache.size")
            for index, name in enumerate(list_texts(manifest, "spec.rollout.order")):
                yield from check_name(store, Ref("InferenceEnvironment", "", name), f"spec.rollout.order[{index}]")
        case "ModelCache":
            yield from _find_ignored_settings(store, manifest)
            yield from _find_small_claim(store, manifest, "spec.storage.size")
        case "ModelPlacement":
            yield from _find_obstacles(store, manifest)
        case "ClusterModel" | "Model":
            model = parse_model(manifest).value
            yield from (*list_notes(model), *_find_misfits(store, model)) if model else ()
        case "InferenceEnvironment":
            parsed = parse_environment(manifest, read_settings(store, manifest)[0])
            environment = parsed.value
            pools = environment.pools
            path = next((path for path in NODE_POOLS[1:] if get(manifest, path)), NODE_POOLS[0])
            has_none = not pools and not environment.broken_pools
            yield from (Problem(path, note) for note in ([NO_GPUS] if has_none else list_pool_notes(pools)))
            yield from find_contradictions(store, manifest)
            provider = text(manifest, "spec.cluster.provider")
            yield from _propose_presets(provider, pools, path)
            yield from _find_network_contradictions(provider, pools, path)
            yield from _find_default_secret(manifest, parsed.access)


def find_ignored_namespace(manifest: Manifest) -> Problem | None:
    """Returns that the API server drops the namespace of a cluster-scoped object silently; None if it has none."""
    kind = text(manifest, "kind")
    if not is_ours(manifest) or kind not in CLUSTER_SCOPED or not text(manifest, "metadata.namespace"):
        return None
    remedy = "for a model of one namespace, set kind: Model" if kind == "ClusterModel" else "leave it out"
    return Problem("metadata.namespace", f"has no effect, as {kind}s are in no namespace; {remedy}")


def _find_small_claim(store: Store, manifest: Manifest, path: str) -> Iterator[Problem]:
    """Yields a claim that is smaller than the name of its model shows."""
    _, model = find_model(store, manifest)
    size = parse_or_none(get(manifest, path))
    if model and (message := describe_small_claim(model, size)):
        yield Problem(path, message)


def _find_network_contradictions(provider: str, pools: Iterable[Pool], path: str) -> Iterator[Problem]:
    """Yields each pool that declares another network than its provider has, or than its preset is for."""
    of_provider = {network for name, network in _PRESETS if name == provider.lower()}
    for pool in pools:
        network, _, speed = (pool.bandwidth or "").partition("-")
        preset = pool.inter_node.preset if pool.inter_node else ""
        for source, known in (
            (f"preset {preset}", _NETWORKS.get(preset, set())),
            (f"provider {provider}", of_provider and {*of_provider, "eth"}),
        ):
            if network and known and network not in known:
                values = " or ".join(f"{each}-{speed}" for each in sorted(known))
                yield Problem(
                    path, f"pool {pool.name} declares {pool.bandwidth}, and {source} has {values}; correct one"
                )
                break


def _propose_presets(provider: str, pools: Iterable[Pool], path: str) -> Iterator[Problem]:
    """Yields the preset of a provider for each pool that declares RDMA and gives its pods no network device."""
    for pool in pools:
        network = (pool.bandwidth or "").partition("-")[0]
        preset = _PRESETS.get((provider.lower(), network))
        if preset and note_tcp_fallback(pool):
            message = f"pool {pool.name} has {pool.bandwidth}, for which provider {provider} has the preset {preset}"
            yield Problem(path, f"{message}; set interNode.preset")


def _find_default_secret(manifest: Manifest, access: ClusterAccess | None) -> Iterator[Problem]:
    """Yields a remark if nothing shows that a cluster of GKE must exist already, and where its kubeconfig is."""
    gke = get(manifest, "spec.cluster.gke")
    if access and isinstance(gke, dict) and "provision" not in gke and not text(gke, "secretRef.name"):
        secret = access.kubeconfig
        message = "no cluster is created: the kubeconfig of an existing cluster must be in Secret"
        yield Problem("spec.cluster.gke", f"{message} {secret.namespace}/{secret.name}; name it in secretRef")


def _find_missing_units(value: JSON, path: str) -> Iterator[Problem]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_missing_units(item, join_path(path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            is_number = str(item).isdecimal() and isinstance(item, int | str)
            if key in _SIZE_FIELDS and is_number and 0 < int(str(item)) < _SMALLEST_SIZE:
                yield Problem(join_path(path, key), f"{item} is a number of bytes; was {item}Gi meant?")
            else:
                yield from _find_missing_units(item, join_path(path, key))


def _find_obstacles(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Returns why a placement would wait in vain: for its labels, or for more than its pool holds when it is empty."""
    placement = parse_placement(manifest).value
    if placement is None:
        return
    if missing := dict(build_required_labels(placement, None).items() - set(placement.labels)):
        yield Problem("metadata.labels", describe_missing_labels(missing))
    ref = Ref("InferenceEnvironment", "", placement.environment)
    if placement.requested is None or ref not in store:
        return
    request = placement.requested
    pool = parse_environment(store[ref], BUILT_IN).value.pool(placement.pool)
    if pool is not None and count_in_empty_pool(pool, request) < request.replicas:
        size = format_replicas(request.replicas, request)
        yield Problem("spec.pool", f"{size} required, more than the empty pool {pool.name} of {ref.name} holds")


def _find_costs(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Returns storage settings of a deployment that are costly or have no effect on any environment it may go to."""
    scheduling = read_request(store, manifest)
    if scheduling is None:
        return
    environments = read_environments(store, read_settings(store, manifest)[0])
    if without_price := note_missing_prices(scheduling.deployment, environments):
        yield Problem("spec.placement.prefer", without_price)
    requests = [*_list_requests(scheduling, environments or (_NOWHERE,))]
    for request in requests:
        yield from find_remarks(request)
        if request.storage_type is StorageType.EMPTY_DIR:
            note = format_redownload_note(request.model.disk, scheduling.deployment.replicas)
            yield Problem("spec.modelCache", f"is EmptyDir: {note}")
        else:
            yield from note_costs(request)
    yield from _find_missing_plugins(scheduling, environments)
    # Replicas that are divided need no environment that has room for all of them.
    is_divided = scheduling.deployment.divides_replicas
    yield from _find_common_refusal(scheduling.with_replicas(1) if is_divided else scheduling, environments)
    yield from find_engines_without_metrics(scheduling)
    others = (ref for ref in store.refs("ModelDeployment") if ref.namespace == scheduling.deployment.namespace)
    sharing = filter(None, (read_request(store, store[other]) for other in others))
    yield from _find_full_claims([scheduling, *sharing], environments)


def _find_missing_plugins(request: SchedulingRequest, environments: Iterable[Environment]) -> Iterator[Problem]:
    """Yields each pool that satisfies a profile over several nodes, and on which its engine cannot start."""
    for environment in environments:
        for candidate, refusals in filter_candidates(request, environment, CapacityView(())):
            is_refused = any(refusal.reason in REQUIREMENT_REASONS for refusal in refusals)
            if candidate and candidate.shape and candidate.shape.nodes > 1 and not is_refused:
                note = note_missing_plugin(candidate.pool, candidate.profile.engine)
                if note:
                    yield Problem("spec.modelRef", f"InferenceEnvironment {environment.name}: {note}")


def _find_ignored_settings(store: Store, manifest: Manifest) -> Iterator[Problem]:
    """Yields settings of a ModelCache that have no effect on one of its environments, whose models share a claim."""
    cache = parse_model_cache(manifest).value
    _, model = find_model(store, manifest)
    if cache and model:
        settings, _ = read_settings(store, manifest)
        namespace = settings.remote_namespace(cache.namespace)
        for environment in filter(cache.selects, read_environments(store, settings)):
            yield from find_remarks(build_cache_request(model, cache, environment, namespace))


def _find_common_refusal(request: SchedulingRequest, environments: Sequence[Environment]) -> Iterator[Problem]:
    """Warns if every pool that has what a profile requires is refused all the same, with the reason of the first."""
    refused = [
        next((refusal for refusal in refusals if refusal.reason in _REFUSING_EMPTY_POOLS), None)
        for environment in environments
        for candidate, refusals in filter_candidates(request, environment, CapacityView(()))
        if candidate and all(refusal.reason is not Refused.NO_POOL_SATISFIES_REQUIREMENTS for refusal in refusals)
    ]
    first = refused[0] if refused else None
    if first and all(refused) and find_unsatisfiable_storage(request, environments) is None:  # else it is an error
        message = first.message.rstrip(".")
        on_environment = f"InferenceEnvironment {first.environment}: {message}"
        yield Problem("spec.modelRef", f"{message}. {first.remedy}" if first.remedy else on_environment)


def _list_requests(request: SchedulingRequest, environments: Iterable[Environment]) -> Iterator[WeightsRequest]:
    """Returns the request for each pool that satisfies a profile; without pools those of profiles with a shape."""
    storage_request = request.storage_request
    replicas = request.deployment.replicas
    assert storage_request is not None
    for environment in environments:
        if not environment.pools:
            shapes = (profile.shape for profile in request.model.profiles)
            yield from (storage_request.with_pool(environment, NO_POOL, shape, replicas) for shape in shapes if shape)
        for candidate, refusals in filter_candidates(request, environment, CapacityView(())):
            is_refused = any(refusal.reason in REQUIREMENT_REASONS for refusal in refusals)
            if candidate and candidate.shape and not is_refused:
                yield storage_request.with_pool(environment, candidate.pool, candidate.shape, replicas)


def _find_full_claims(sharing: Sequence[SchedulingRequest], environments: Iterable[Environment]) -> Iterator[Problem]:
    """Returns the Shared claims that cannot hold the model of the first deployment and those of the others on them."""
    for environment in environments:
        storage = environment.storage
        disks = [_find_shared(each, environment) for each in sharing]
        known = dict(filter(None, disks))
        needed = sum(disk for _, disk in known.values())
        if disks[0] and len(known) > 1 and needed > storage.shared_size and storage.size_enforced:
            models = ", ".join(f"{name} {gib(disk)}" for name, disk in sorted(known.values()))
            claim = f"claim {storage.shared_claim} of InferenceEnvironment {environment.name}"
            room = f"{claim} has {gib(storage.shared_size)}, and the models that share it need {gib(needed)}"
            yield Problem("spec.modelRef", f"{room}: {models}")


def _find_shared(request: SchedulingRequest, environment: Environment) -> tuple[str, tuple[str, int]] | None:
    """Returns cache key, name and disk of a model that is kept on the Shared claim of an environment."""
    model = request.model
    if not model.disk or not isinstance(model.source, DownloadedSource):
        return None
    is_shared = any(each.storage_type is StorageType.SHARED for each in _list_requests(request, (environment,)))
    return (cache_key(model.source), (model.name, model.disk)) if is_shared else None


def _find_default_class(manifest: Manifest) -> Iterator[Problem]:
    """Yields a remark if a ReadWriteMany claim is left to the default class of the cluster."""
    path = "spec.modelCache" if text(manifest, "kind") == "ModelDeployment" else "spec.storage"
    storage = mapping(manifest, path)
    if storage.get("storageClassName") == "" and storage.get("accessMode") in (None, READ_WRITE_MANY):
        message = "leaves claims to the cluster's default class, and many of those cannot do ReadWriteMany; name one"
        yield Problem(f"{path}.storageClassName", f'"" {message}')


def _find_accelerator(required: str, offered: Iterable[str]) -> str:
    """Returns the accelerator that is meant: the only one with all words of the required type, else a similar one."""
    words = set(required.lower().replace("_", "-").split("-")) - {""}
    with_words = [name for name in sorted(set(offered)) if words and words <= set(name.lower().split("-"))]
    return with_words[0] if len(with_words) == 1 else find_nearest(required, offered)


def _find_misfits(store: Store, model: Model) -> Iterator[Problem]:
    """Returns what does not fit the model's own profiles, or what the known environments offer."""
    environments = read_environments(store)
    offered = {pool.accelerator_type for environment in environments for pool in environment.pools}
    for profile in model.profiles:
        required = profile.requires.accelerator_type or ""
        if required not in offered and (close := _find_accelerator(required, offered)):
            path = f"spec.serving[{profile.name}].replicaTopology.requires.acceleratorType"
            yield Problem(path, f"no pool has {required}; did you mean {close}?")
        shape = profile.shape
        largest = max((pool.gpus_per_node for environment in environments for pool in environment.pools), default=0)
        if shape and 0 < largest < shape.gpus_per_node:
            nodes = shape.nodes * -(-shape.gpus_per_node // largest)
            path = f"spec.serving[{profile.name}].replicaTopology.gpusPerNode"
            have = f"no pool has nodes with {shape.gpus_per_node} GPUs"
            yield Problem(path, f"{have}; nodes: {nodes} and gpusPerNode: {largest} have {nodes * largest} GPUs")
        memory = profile.requires.memory_per_gpu
        if model.vram and shape and memory and shape.gpus * memory < model.vram:
            total = f"{shape.gpus} x {gib(memory)} of profile {profile.name} are {gib(shape.gpus * memory)}"
            yield Problem("spec.resources.vram", f"is {gib(model.vram)}, and {total}")
    for environment in environments:
        storage = environment.storage
        if storage.is_shared and model.disk and model.disk > storage.shared_size:
            claim = f"the claim {storage.shared_claim} that all models share on InferenceEnvironment {environment.name}"
            yield Problem("spec.resources.disk", f"is {gib(model.disk)}, and {claim} has {gib(storage.shared_size)}")
        elif storage.is_shared and (message := describe_small_claim(model, storage.shared_size)):
            claim = f"claim {storage.shared_claim} of InferenceEnvironment {environment.name}"
            yield Problem("spec.model.name", f"{claim} {message}")
