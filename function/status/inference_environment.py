"""Status of an InferenceEnvironment: its cluster, pools, storage and nodes, and the ledger that others use."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from function.api.model_deployment import parse_deployment
from function.capacity.ledger import EnvironmentLedger, PoolLedger
from function.contract import Condition
from function.domain.allocation import Grant
from function.domain.engines import is_stock
from function.domain.environment import Drift, DriftField, Environment, Pool, PoolFacts, format_unusable
from function.domain.model import Engine, EngineName, Problem, SecretKey
from function.domain.placement import Placement
from function.domain.records.shares import build_share
from function.kube.manifests import JSON, Manifest, condition, format_time, integer, listing, prune, text
from function.kube.messages import format_count, join_with_more
from function.kube.quantity import gib
from function.kube.selectors import NO_EXECUTE, find_untolerated
from function.reasons import (
    ClusterReady,
    ConditionType,
    Drained,
    EnvironmentStorageReady,
    HardwareAsDeclared,
    Phase,
    PoolsValid,
    Status,
)
from function.remote.node_collection import NodeObservation, Unobserved
from function.remote.observed_object import ObservedObject, State
from function.status.conditions import faulty
from function.status.provision import NO_REPORTS, NodePoolReports

_FOUND = {State.PRESENT: True, State.ABSENT: False}
_INSTALL = "install KServe v0.20 or later with its LLMInferenceService controller"
_CLUSTER: Mapping[ClusterReady, tuple[Status, str]] = {
    ClusterReady.CONNECTING: (Status.UNKNOWN, "Waiting for the first answer of the cluster behind {secret}"),
    ClusterReady.KUBECONFIG_MISSING: (Status.FALSE, "Create or correct {secret}: {error}"),
    ClusterReady.KSERVE_MISSING: (Status.FALSE, f"The cluster answers but has no KServe: {{error}}; {_INSTALL}"),
    ClusterReady.SYNC_FAILED: (Status.UNKNOWN, "{problem}"),
    ClusterReady.CONNECTED: (Status.TRUE, "The cluster answers and serves LLMInferenceService"),
    ClusterReady.UNREACHABLE: (Status.FALSE, "The cluster behind {secret} does not answer: {error}"),
}
# States of the preset that say more than the reason.
_CLUSTER_BY_STATE: Mapping[State, str] = {
    State.INVALID_KUBECONFIG: "{secret} holds no kubeconfig: put a complete one under that key",
    State.REJECTED: "The cluster refuses {secret}: {error}",
    State.UNAUTHORISED: "Renew {secret}: {error}",
    State.UNKNOWN_FIELD: f"The cluster has another KServe: {{error}}; {_INSTALL}",
}
_storage_ready = partial(Condition, ConditionType.STORAGE_READY)
_POOLS = (ConditionType.POOLS_VALID, PoolsValid.INVALID_POOL)
_POOLS_IN_USE = (ConditionType.POOLS_VALID, PoolsValid.POOL_IN_USE)
# The condition of a problem and its reason, by the beginning of its path; PoolsValid has the problems of all pools, and
# all other problems.
_INVALID: Mapping[str, tuple[ConditionType, str]] = {
    "spec.storage": (ConditionType.STORAGE_READY, EnvironmentStorageReady.NOT_CONFIGURED),
    "spec.hardware": (ConditionType.HARDWARE_AS_DECLARED, HardwareAsDeclared.NOT_OBSERVED),
    "spec.cluster": (ConditionType.CLUSTER_READY, ClusterReady.KUBECONFIG_MISSING),
}


def list_invalid(
    pools: Sequence[Problem], others: Sequence[Problem], conflicts: Collection[Problem] = ()
) -> tuple[Condition, ...]:
    """Returns the conditions of an invalid environment: each problem in the condition that its field belongs to.

    `conflicts`: the problems that are conflicts with pools in use.
    """
    by_condition: dict[tuple[ConditionType, str], list[Problem]] = {_POOLS: [*pools]}
    for problem in others:
        rows = (row for prefix, row in _INVALID.items() if problem.path.startswith(prefix))
        row = _POOLS if ".nodePools" in problem.path else next(rows, _POOLS)
        by_condition.setdefault(row, []).append(problem)
    if set(by_condition[_POOLS]) <= set(conflicts):
        by_condition = {_POOLS_IN_USE if row == _POOLS else row: problems for row, problems in by_condition.items()}
    return tuple(faulty(*row, sorted(problems)) for row, problems in by_condition.items() if problems)


def build_cluster_ready(preset: ObservedObject, kubeconfig: SecretKey, cloud_fault: str = "") -> Condition:
    """Returns ClusterReady; `cloud_fault`: what the cloud says is wrong with a cluster that was created there."""
    secret = f"Secret {kubeconfig.namespace}/{kubeconfig.name} (key {kubeconfig.key})"
    reason = preset.state.value.cluster
    status, template = _CLUSTER[reason]
    template = _CLUSTER_BY_STATE.get(preset.state, template)
    message = template.format(secret=secret, error=preset.message, problem=preset.problem)
    if cloud_fault:
        message += f". Google Cloud: {cloud_fault}"
    return Condition(ConditionType.CLUSTER_READY, status, reason, message)


NO_GPUS = "no pool has GPUs; nothing can be placed here"


def build_pools_valid(
    pools: Sequence[Pool],
    problems: Sequence[Problem],
    conflicts: Collection[Problem] = (),
    created: NodePoolReports = NO_REPORTS,
) -> Condition:
    """Returns PoolsValid.

    `conflicts`: the problems that are conflicts with pools in use; `created`: what the cloud says of its node pools.
    """
    if problems:
        reason = PoolsValid.POOL_IN_USE if set(problems) <= set(conflicts) else PoolsValid.INVALID_POOL
        return faulty(ConditionType.POOLS_VALID, reason, problems)
    if created.failed:
        status, reason, message = Status.FALSE, PoolsValid.NODE_POOL_FAILED, created.describe_failed()
    elif created.held:
        status, reason, message = Status.FALSE, PoolsValid.POOL_IN_USE, created.describe_held()
    else:
        status, reason, message = Status.TRUE, PoolsValid.VALID, format_count(len(pools), "pool")
        if not pools:
            status, reason, message = Status.FALSE, PoolsValid.NO_GPU_POOLS, f"spec.nodePools: {NO_GPUS}"
        notes = join_with_more([*list_pool_notes(pools), *created.list_notes()], separator="; ")
        message += f". Note: {notes}" if notes else ""
    return Condition(ConditionType.POOLS_VALID, status, reason, message)


def list_pool_notes(pools: Sequence[Pool]) -> list[str]:
    """Returns remarks about pools: settings that are valid but probably unintended."""
    notes = [note for pool in pools if (note := note_tcp_fallback(pool))]
    notes += [f"pool {p.name} has 0 nodes; set nodeCount or maxNodeCount" for p in pools if not p.max_nodes]
    notes += [
        f"pool {pool.name} has nodeCount {pool.node_count}, and only its maxNodeCount of {pool.max_nodes} counts"
        for pool in pools
        if pool.node_count > pool.max_nodes
    ]
    names = [pool.name for pool in pools if any(pool.may_start_on(other) for other in pools if other is not pool)]
    if names:
        overlapping = f"pool {names[0]} has" if len(names) == 1 else f"pools {join_with_more(names)} have"
        effect = "pods may start on its nodes, with other GPUs than are counted"
        remedy = "give each pool labels that only its nodes have"
        notes.append(f"{overlapping} no label that another pool lacks, so {effect}; {remedy}")
    return notes


def build_storage_ready(class_name: str | None, storage_class: ObservedObject) -> Condition:
    field = "spec.storage.storageClassName"
    if class_name is None:
        message = f"{field}: is not set, so models that need several nodes are not placed here"
        # An environment without a class serves models on one node.
        return _storage_ready(Status.FALSE, EnvironmentStorageReady.NOT_CONFIGURED, message, is_expected=True)
    if class_name == "":
        message = "Claims use the cluster's default class"
        return _storage_ready(Status.TRUE, EnvironmentStorageReady.DEFAULT_CLASS, message)
    if storage_class.present:
        message = f"StorageClass {class_name} exists"
        return _storage_ready(Status.TRUE, EnvironmentStorageReady.STORAGE_CLASS_FOUND, message)
    if storage_class.state is State.ABSENT:
        message = f"{field}: {class_name} does not exist on the cluster; create it or name another"
        return _storage_ready(Status.FALSE, EnvironmentStorageReady.STORAGE_CLASS_NOT_FOUND, message)
    message = storage_class.problem or f"Waiting for the cluster's answer about StorageClass {class_name}"
    return _storage_ready(Status.UNKNOWN, EnvironmentStorageReady.CONNECTING, message)


def build_status(environment: Environment, storage_class: ObservedObject) -> Manifest:
    """Returns the status without the ledger: the provider config and the storage class."""
    storage = prune({"storageClassName": environment.storage.class_name, "found": _FOUND.get(storage_class.state)})
    return {"providerConfigRef": {"name": environment.provider_config}, "storage": storage}


# The fields of the status that are the ledger.
LEDGER_FIELDS = ("pools", "gpus", "admitted", "rejected")


def build_ledger(environment: Environment, ledger: EnvironmentLedger, published: Manifest) -> Manifest:
    """Returns the ledger as a status, which changes only with allocations; `published` is the observed status."""
    pools: list[JSON] = [_build_pool(pool, ledger.pools[pool.name], published) for pool in environment.pools]
    pools += _keep_other_pools(environment, ledger, published)
    admitted: list[JSON] = [_build_grant(grant) for grant in ledger.grants if grant.uid]
    rejected: list[JSON] = [{"uid": uid, "pool": pool} for uid, pool in ledger.rejected]
    is_observed = any(pool.facts for pool in environment.pools)
    usable = sum(pool.usable_nodes * pool.gpus_per_node for pool in environment.pools)
    return {
        "pools": pools,
        "gpus": prune(
            {
                "total": sum(pool.max_nodes * pool.gpus_per_node for pool in environment.pools),
                "inUse": sum(grant.share.gpus for grant in ledger.grants),
                "usable": usable if is_observed else None,
            }
        ),
        "admitted": admitted,
        "rejected": rejected,
    }


def _build_grant(grant: Grant) -> Manifest:
    optional: Manifest = {"generation": grant.generation, "revoked": grant.revoked}
    row: Manifest = {"uid": grant.uid, "namespace": grant.namespace, "name": grant.name, **build_share(grant.share)}
    if grant.yields:
        since = None if grant.yields.since is None else format_time(grant.yields.since)
        optional["yields"] = prune({**asdict(grant.yields), "since": since})
    return row | {key: value for key, value in optional.items() if value}


def _keep_other_pools(environment: Environment, ledger: EnvironmentLedger, published: Manifest) -> list[JSON]:
    """Returns what identifies the nodes of pools that are invalid now, or are not declared but still in use.

    Such a pool has no `free`, so it counts as full.
    """
    kept = {*environment.broken_pools, *(grant.share.pool for grant in ledger.grants)}
    others = {text(row, "name"): row for row in listing(published, "pools") if text(row, "name") not in ledger.pools}
    fields = ("name", "nodeSelector", "gpuResource", "observed")
    rows = (row for name, row in others.items() if environment.broken or name in kept)
    return [{key: row[key] for key in fields if key in row} for row in rows]


def _build_pool(pool: Pool, ledger: PoolLedger, published: Manifest) -> Manifest:
    capacity = ledger.capacity
    return prune(
        {
            "name": pool.name,
            "nodeSelector": dict[str, JSON](pool.labels),
            "acceleratorType": pool.accelerator_type or None,
            "memoryPerGpu": None if pool.memory_per_gpu is None else gib(pool.memory_per_gpu),
            "gpuResource": pool.gpu_resource,
            "gpusPerNode": pool.gpus_per_node,
            "maxNodes": pool.max_nodes,
            "gpus": pool.max_nodes * pool.gpus_per_node,
            "gpusInUse": sum(grant.share.gpus for grant in ledger.grants),
            "gpusFree": sum(gpus * nodes for gpus, nodes in capacity.free.items()),
            "free": _build_levels(capacity.free.items()),
            "reclaimable": [
                {"priority": priority, "free": _build_levels(nodes)} for priority, nodes in ledger.reclaimable
            ]
            or None,
            "reclaims": _count_reclaims(pool.name, ledger, published) or None,
            "placements": capacity.placements,
            "notCreated": pool.not_created or None,
            "observed": build_node_facts(pool.facts) if pool.facts else None,
        }
    )


def _count_reclaims(pool: str, ledger: PoolLedger, published: Manifest) -> int:
    """Returns for how many requests replicas of a pool have been taken back, each counted when it begins."""
    rows = (row for row in listing(published, "pools") if text(row, "name") == pool)
    earlier = integer(next(rows, {}), "reclaims")
    claimants = {grant.yields.uid for grant in ledger.grants if grant.yields}
    if claimants:
        admitted = (row for row in listing(published, "admitted") if text(row, "pool") == pool)
        claimants -= {text(row, "yields.uid") for row in admitted}
    return earlier + len(claimants)


def _build_levels(nodes: Iterable[tuple[int, int]]) -> list[JSON]:
    return [{"gpus": gpus, "nodes": count} for gpus, count in sorted(nodes) if gpus and count]


_hardware_as_declared = partial(Condition, ConditionType.HARDWARE_AS_DECLARED)
_MIB = 2**20
_EFA_PRESET = "eks-efa"
_RDMA_PREFIXES = ("roce-", "efa-", "ib-")  # of networks for which pods need a device
_UNKNOWN: Mapping[HardwareAsDeclared, str] = {
    HardwareAsDeclared.OBSERVING: "Waiting for provider-kubernetes to list the nodes",
    HardwareAsDeclared.FORBIDDEN: (
        "The kubeconfig lacks rights on nodes; give it get, list and patch of install/remote-rbac.yaml: {error}"
    ),
    HardwareAsDeclared.UNREACHABLE: "The nodes are as last known: {error}",
}
_FAULTS: Mapping[DriftField, HardwareAsDeclared] = {
    DriftField.LABELS: HardwareAsDeclared.NO_NODES,
    DriftField.OVERLAP: HardwareAsDeclared.NODES_OVERLAP,
}


def build_node_facts(facts: PoolFacts) -> Manifest:
    unusable: list[JSON] = [
        prune({"reason": row.reason, "detail": row.detail or None, "count": row.count, "nodes": list[JSON](row.nodes)})
        for row in facts.unusable
    ]
    drift: list[JSON] = [
        prune({"field": row.field, "declared": row.declared, "observed": row.observed, "nodes": [*row.nodes] or None})
        for row in facts.drift
    ]
    return prune(
        {
            "nodes": facts.nodes,
            "usable": facts.usable,
            "unusable": unusable or None,
            "gpusPerNode": facts.gpus_per_node,
            "product": facts.product or None,
            "memoryPerGpu": None if facts.memory_per_gpu is None else f"{facts.memory_per_gpu // _MIB}Mi",
            "drift": drift or None,
        }
    )


def build_hardware_as_declared(environment: Environment, observation: NodeObservation) -> Condition:
    """Returns HardwareAsDeclared from the facts of the valid pools, as far as they are current."""
    pools = environment.pools
    unobserved = observation.unobserved
    if unobserved is None and not pools and observation.reason is None:
        unobserved = Unobserved.NO_POOLS
    if unobserved is Unobserved.NO_POOLS and environment.broken_pools:
        unobserved = Unobserved.INVALID_POOLS
    if unobserved is not None:
        return _hardware_as_declared(Status.UNKNOWN, HardwareAsDeclared.NOT_OBSERVED, unobserved.value)
    if observation.reason is not None:
        message = _UNKNOWN[observation.reason].format(error=observation.message)
        return _hardware_as_declared(Status.UNKNOWN, observation.reason, message)
    faults = [fault for pool in pools for fault in _list_faults(pool)]
    if faults:
        faults.sort(key=lambda fault: tuple(HardwareAsDeclared).index(fault[0]))
        message = join_with_more([message for _, message in faults], separator="; ")
        return _hardware_as_declared(Status.FALSE, faults[0][0], message)
    nodes = sum(pool.facts.nodes for pool in pools if pool.facts)
    if not nodes:
        message = "No nodes yet; the autoscaler adds them on demand"
        return _hardware_as_declared(Status.TRUE, HardwareAsDeclared.NO_NODES_YET, message)
    message = f"{format_count(nodes, 'node')}, all usable and as declared"
    return _hardware_as_declared(Status.TRUE, HardwareAsDeclared.AS_DECLARED, message)


def _list_faults(pool: Pool) -> list[tuple[HardwareAsDeclared, str]]:
    if pool.facts is None:
        return []
    faults = [
        (_FAULTS.get(row.field, HardwareAsDeclared.DRIFTED), describe_drift(pool.name, row)) for row in pool.facts.drift
    ]
    if pool.facts.unusable:
        message = f"pool {pool.name}: {format_unusable(pool.facts.unusable)}"
        faults.append((HardwareAsDeclared.NODES_UNUSABLE, message))
    return faults


def describe_drift(pool: str, row: Drift) -> str:
    where = f" ({', '.join(row.nodes)})" if row.nodes else ""
    match row.field:
        case DriftField.LABELS:
            nearest = f"; the nearest, {row.nodes[0]}, has {row.observed}" if row.nodes else ""
            return f"pool {pool}: no node has {row.declared}{nearest}"
        case DriftField.OVERLAP:
            return f"pool {pool}: nodes also belong to {row.observed}, and count there{where}"
        case DriftField.TAINTS:
            return f"pool {pool}: its nodes have taint {row.observed}, which it does not declare{where}"
        case DriftField.NODE_COUNT:
            return f"pool {pool}: {row.declared} nodes declared, {row.observed} exist"
        case _:
            return f"pool {pool}: {row.field} is declared as {row.declared}, nodes have {row.observed}{where}"


def note_unusable_nodes(pool: Pool) -> str:
    """Returns how many nodes of a pool cannot be used; empty if all can be used, or if nodes are not observed."""
    if pool.facts is None or not pool.facts.unusable:
        return ""
    count = sum(row.count for row in pool.facts.unusable)
    return f"pool {pool.name} cannot use {count} of {pool.facts.nodes} nodes ({format_unusable(pool.facts.unusable)})"


def note_tcp_fallback(pool: Pool) -> str:
    """Returns a note that replicas of several nodes get no RDMA device, although the pool declares RDMA; else empty."""
    declares_rdma = pool.multi_node and (pool.bandwidth or "").startswith(_RDMA_PREFIXES)
    if not declares_rdma or pool.pod_overrides(2).reaches_devices:
        return ""
    cause = f"pool {pool.name} declares {pool.bandwidth} and gives its pods no network device"
    return f"{cause}, so replicas of several nodes communicate over TCP; set interNode of the pool"


def note_missing_plugin(pool: Pool, engine: Engine) -> str:
    """Returns a note that an image lacks the only network that a pool allows between nodes; else empty.

    vLLM's own image contains neither libfabric nor aws-ofi-nccl (docs/hardware.md).
    """
    between = pool.inter_node
    is_lacking = engine.name is EngineName.VLLM and is_stock(engine)
    if between is None or between.preset != _EFA_PRESET or not between.fail_closed or not is_lacking:
        return ""
    cause = f"pool {pool.name} has preset {between.preset} with failClosed, and {engine.image} contains no aws-ofi-nccl"
    remedy = "use an image with libfabric and aws-ofi-nccl, or set interNode.failClosed: false, which uses TCP"
    return f"{cause}, so replicas of several nodes cannot start; {remedy}"


def find_draining(environment: Environment, placements: Collection[Placement]) -> list[Placement]:
    """Returns the placements that have to leave an environment with a NoExecute taint, in the order of the message.

    Placements that were never admitted and have no resources do not count: users may have written any number of them.
    """
    if not find_untolerated(environment.taints, (), {NO_EXECUTE}):
        return []
    admitted = {grant.uid for grant in environment.admitted}
    draining = (placement for placement in placements if placement.uid in admitted or placement.may_have_resources)
    return sorted(draining, key=lambda p: (p.namespace, p.deployment, p.name))


def build_drained(environment: Environment, draining: Iterable[tuple[Placement, Manifest | None]] | None) -> Condition:
    """Returns Drained, which says what is left on an environment with a NoExecute taint, and why.

    Deployments reschedule by themselves (scheduling/scheduler.py); this condition only reports the progress from their
    conditions. `draining`: the placements, each with its deployment if the deployment exists; None while Crossplane has
    not answered.
    """
    if not find_untolerated(environment.taints, (), {NO_EXECUTE}):
        message = "The environment has no NoExecute taint"
        return Condition(ConditionType.DRAINED, Status.FALSE, Drained.NOT_DRAINING, message)
    if draining is None:
        message = "Waiting for Crossplane to fetch placements and deployments"
        return Condition(ConditionType.DRAINED, Status.UNKNOWN, Drained.DRAINING, message)
    tolerating: list[str] = []
    left: list[str] = []
    for placement, deployment in draining:
        name = f"{placement.namespace}/{placement.deployment or placement.name}"
        reason = _explain_presence(environment, placement, deployment)
        if reason:
            left.append(f"{name} {reason}")
        else:
            tolerating.append(name)
    staying = f". Staying, because they tolerate the taint: {join_with_more(tolerating)}" if tolerating else ""
    if not left:
        message = f"Nothing is left to move{staying}"
        return Condition(ConditionType.DRAINED, Status.TRUE, Drained.DRAINED, message)
    message = f"{format_count(len(left), 'placement')} left: {join_with_more(left, separator='; ')}{staying}"
    return Condition(ConditionType.DRAINED, Status.FALSE, Drained.DRAINING, message)


def _explain_presence(environment: Environment, placement: Placement, manifest: Manifest | None) -> str:
    """Returns why a placement is still on the environment; empty if its deployment tolerates the taints."""
    if placement.deleting:
        return "is being deleted"
    if not placement.deployment:
        return "was not written by a deployment, so nothing moves it"
    if not manifest:
        return "is being deleted with its deployment"
    deployment = parse_deployment(manifest).value
    if deployment is None:
        return "cannot move: its deployment is invalid"
    if not find_untolerated(environment.taints, deployment.tolerations, {NO_EXECUTE}):
        return ""
    scheduled = condition(manifest, ConditionType.SCHEDULED)
    if not scheduled:
        return "cannot move yet: its deployment has no condition Scheduled"
    if scheduled.get("status") != Status.TRUE:
        summary = text(scheduled, "message").partition("\n")[0].rstrip(".")
        return f"cannot move: {text(scheduled, 'reason')} ({summary})"
    if placement.draining:
        return "serves until no ModelService sends it requests; see Scheduled of its deployment"
    rows = listing(manifest, "status.placements")
    unready = [text(row, "environment") for row in rows if text(row, "phase") != Phase.READY]
    targets = [name for name in unready if name != environment.name]
    return f"serves until {join_with_more(targets)} is Ready" if targets else "is about to move"
