"""What is said of an InferenceEnvironment: does its cluster answer, are its pools valid, is its storage there.

What is said of an environment's nodes: its status, HardwareAsDeclared, and why a pool has fewer than declared.

What is said of valid pools: nodes that are lost or that nothing tells apart, a network that pods get no way to.

How much of a pool somebody holds, as a status says it; `api/common.py` reads it back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from function.contract import Condition
from function.domain.allocation import Grant, Share
from function.domain.environment import (
    Drift,
    Drifted,
    Environment,
    Pool,
    PoolFacts,
    Unusable,
    format_unusable,
    own_taints,
)
from function.domain.model import Problem, SecretKey, Shape
from function.kube.manifests import JSON, Manifest, listing, prune, text
from function.kube.messages import format_count, join_with_more
from function.kube.quantity import gib
from function.reasons import (
    ClusterReady,
    ConditionType,
    EnvironmentStorage,
    HardwareAsDeclared,
    PoolsValid,
    ServiceReady,
    Status,
)
from function.remote.node_facts import MAX_AUTO_NODES, NodeObservation, Unobserved
from function.remote.observed_object import ObservedObject, State
from function.scheduling.admission import EnvironmentLedger
from function.scheduling.ledger import PoolLedger
from function.status.conditions import faulty

_FOUND = {State.PRESENT: True, State.ABSENT: False}
_INSTALL = "install KServe v0.20 or later with its LLMInferenceService controller"
_CLUSTER: Mapping[ClusterReady, str] = {
    ClusterReady.CONNECTING: "Waits for the first answer of the cluster behind {secret}",
    ClusterReady.KUBECONFIG_MISSING: "Create or correct {secret}: {said}",
    ClusterReady.KSERVE_MISSING: f"The cluster answers but has no KServe: {{said}}; {_INSTALL}",
    ClusterReady.SYNC_FAILED: "{obstacle}",
    ClusterReady.CONNECTED: "The cluster answers and serves LLMInferenceService",
    ClusterReady.UNREACHABLE: "The cluster behind {secret} does not answer: {said}",
}
_CLUSTER_STATUS: Mapping[ClusterReady, Status] = {
    ClusterReady.CONNECTED: Status.TRUE,
    ClusterReady.CONNECTING: Status.UNKNOWN,
    ClusterReady.SYNC_FAILED: Status.UNKNOWN,
}
_STORAGE_STATUS: Mapping[EnvironmentStorage, Status] = {
    EnvironmentStorage.DEFAULT_CLASS: Status.TRUE,
    EnvironmentStorage.STORAGE_CLASS_FOUND: Status.TRUE,
    EnvironmentStorage.CONNECTING: Status.UNKNOWN,
}
_BY_STATE: Mapping[State, str] = {
    State.REJECTED: "The cluster refuses {secret}: {said}",
    State.UNAUTHORISED: "Renew {secret}: {said}",
    State.UNKNOWN_FIELD: f"The cluster has another KServe: {{said}}; {_INSTALL}",
}
_STORAGE: Mapping[EnvironmentStorage, str] = {
    EnvironmentStorage.NOT_CONFIGURED: (
        "spec.storage.storageClassName: is not set, so models that need several nodes are not placed here"
    ),
    EnvironmentStorage.DEFAULT_CLASS: "Claims use the cluster's default class",
    EnvironmentStorage.STORAGE_CLASS_FOUND: "StorageClass {name} exists",
    EnvironmentStorage.STORAGE_CLASS_NOT_FOUND: (
        "spec.storage.storageClassName: {name} does not exist on the cluster; create it or name another"
    ),
    EnvironmentStorage.CONNECTING: "Waits for the cluster's answer about StorageClass {name}",
}


def invalid(pools: Sequence[Problem], others: Sequence[Problem]) -> tuple[Condition, ...]:
    """Return the conditions of an environment with faults outside its pools: each where its field belongs."""
    found: dict[ConditionType, list[Problem]] = {ConditionType.POOLS_VALID: [*pools]}
    for problem in others:
        found.setdefault(_owner(problem.path), []).append(problem)
    reasons = {
        ConditionType.CLUSTER_READY: ClusterReady.KUBECONFIG_MISSING,
        ConditionType.POOLS_VALID: PoolsValid.INVALID_POOL,
        ConditionType.STORAGE_READY: EnvironmentStorage.NOT_CONFIGURED,
        ConditionType.HARDWARE_AS_DECLARED: HardwareAsDeclared.NOT_OBSERVED,
    }
    return tuple(faulty(type_, reasons[type_], sorted(problems)) for type_, problems in found.items() if problems)


def _owner(path: str) -> ConditionType:
    if ".nodePools" in path:
        return ConditionType.POOLS_VALID
    if path.startswith("spec.storage"):
        return ConditionType.STORAGE_READY
    if path.startswith("spec.hardware"):
        return ConditionType.HARDWARE_AS_DECLARED
    return ConditionType.CLUSTER_READY if path.startswith("spec.cluster") else ConditionType.POOLS_VALID


def cluster_ready(preset: ObservedObject, kubeconfig: SecretKey) -> Condition:
    """Return ClusterReady from the Object that keeps KServe's pipeline preset."""
    secret = f"Secret {kubeconfig.namespace}/{kubeconfig.name} (key {kubeconfig.key})"
    reason = preset.state.value.cluster
    status = _CLUSTER_STATUS.get(reason, Status.FALSE)
    words = _BY_STATE.get(preset.state) or _CLUSTER[reason]
    message = words.format(secret=secret, said=preset.message, obstacle=preset.problem)
    return Condition(type=ConditionType.CLUSTER_READY, status=status, reason=reason, message=message)


def pools_valid(pools: Sequence[Pool], problems: Sequence[Problem]) -> Condition:
    """Return PoolsValid: every fault of every pool, or how many pools there are and which of them are slow."""
    if problems:
        return faulty(ConditionType.POOLS_VALID, PoolsValid.INVALID_POOL, problems)
    if not pools:
        status, reason = Status.FALSE, PoolsValid.NO_GPU_POOLS
        message = "spec.nodePools: names no pool with GPUs; nothing can be placed here until it does"
    else:
        remarks = join_with_more([said for said in (*map(slow, pools), unlabelled(pools)) if said], separator="; ")
        status, reason = Status.TRUE, PoolsValid.VALID
        message = f"{format_count(len(pools), 'pool')}{'. Note: ' if remarks else ''}{remarks}"
    return Condition(type=ConditionType.POOLS_VALID, status=status, reason=reason, message=message)


def storage_ready(class_name: str | None, storage_class: ObservedObject) -> Condition:
    """Return StorageReady from the environment's class and the observe-only Object on it."""
    reason = _find_storage_reason(class_name, storage_class)
    status = _STORAGE_STATUS.get(reason, Status.FALSE)
    message = _STORAGE[reason].format(name=class_name)
    if reason is EnvironmentStorage.CONNECTING:
        message = storage_class.problem or message
    return Condition(type=ConditionType.STORAGE_READY, status=status, reason=reason, message=message)


def _find_storage_reason(class_name: str | None, storage_class: ObservedObject) -> EnvironmentStorage:
    if class_name is None:
        return EnvironmentStorage.NOT_CONFIGURED
    if class_name == "":
        return EnvironmentStorage.DEFAULT_CLASS
    if storage_class.present:
        return EnvironmentStorage.STORAGE_CLASS_FOUND
    absent = storage_class.state is State.ABSENT
    return EnvironmentStorage.STORAGE_CLASS_NOT_FOUND if absent else EnvironmentStorage.CONNECTING


def status(environment: Environment, storage_class: ObservedObject) -> Manifest:
    """Return the status besides the ledger: the provider config and the storage class."""
    return {
        "providerConfigRef": {"name": environment.provider_config},
        "storage": prune(
            {"storageClassName": environment.storage.class_name, "found": _FOUND.get(storage_class.state)}
        ),
    }


def ledger(environment: Environment, found: EnvironmentLedger, published: Manifest) -> Manifest:
    """Return the part of the status that others decide by, whole: nothing in it changes unless who holds what does.

    `published` is the status as it was written last.
    """
    pools: list[JSON] = [_pool(pool, found.pools[pool.name]) for pool in environment.pools]
    pools += _last_known(environment, published)
    admitted: list[JSON] = [_grant(grant) for grant in found.grants if grant.uid]
    rejected: list[JSON] = [{"uid": uid, "pool": pool} for uid, pool in found.rejected]
    return {
        "pools": pools,
        "gpus": prune(
            {
                "total": sum(pool.max_nodes * pool.gpus_per_node for pool in environment.pools),
                "inUse": sum(grant.share.gpus for grant in found.grants),
                "usable": usable(environment.pools),
            }
        ),
        "admitted": admitted,
        "rejected": rejected,
    }


def _last_known(environment: Environment, published: Manifest) -> list[JSON]:
    """Return what was observed of the nodes of pools that cannot be read now: it counts once they are mended.

    Nothing else is known of such a pool. Without `free` it counts as full.
    """
    if not (environment.broken or environment.broken_pools):
        return []
    rows = [row for row in listing(published, "pools") if environment.pool(text(row, "name")) is None]
    return [{"name": text(row, "name"), "observed": row["observed"]} for row in rows if "observed" in row]


# What of the status is the ledger's.
LEDGER = ("pools", "gpus", "admitted", "rejected")


def _grant(grant: Grant) -> Manifest:
    return {"uid": grant.uid, "namespace": grant.namespace, "name": grant.name, **share(grant.share)}


def _pool(pool: Pool, found: PoolLedger) -> Manifest:
    room = found.room
    free: list[JSON] = [{"gpus": gpus, "nodes": nodes} for gpus, nodes in sorted(room.free.items()) if gpus and nodes]
    return prune(
        {
            "name": pool.name,
            "nodeSelector": dict[str, JSON](pool.labels),
            "acceleratorType": pool.accelerator_type or None,
            "memoryPerGpu": None if pool.memory_per_gpu is None else gib(pool.memory_per_gpu),
            "gpusPerNode": pool.gpus_per_node,
            "maxNodes": pool.max_nodes,
            "gpus": pool.max_nodes * pool.gpus_per_node,
            "gpusInUse": sum(grant.share.gpus for grant in found.grants),
            "free": free,
            "placements": room.placements,
            "observed": observed(pool.facts) if pool.facts else None,
        }
    )


_MIB = 2**20
_UNOBSERVED: Mapping[Unobserved, str] = {
    Unobserved.NEVER: "spec.hardware.observe is Never: pools are taken as declared",
    Unobserved.IN_FILE: "Nodes are not looked at from files: pools are taken as declared",
    Unobserved.NO_POOLS: (
        "There is no pool whose nodes could be looked at; with spec.hardware.observe Always, "
        "`kubectl modelplane capacity --suggest` prints pools for those that are there"
    ),
    Unobserved.INVALID_POOLS: "No pool can be read, see PoolsValid; what is known of the nodes is kept until then",
    Unobserved.NO_LABELS: (
        "The pools have no label in common to find their nodes by: set spec.hardware.selector, or spec.hardware.observe"
    ),
    Unobserved.TOO_MANY: (
        f"The pools have more than {MAX_AUTO_NODES} nodes, which Auto does not look at: see docs/nodes.md for what "
        "that costs, and set spec.hardware.observe to Always or Never"
    ),
    Unobserved.NO_KIND: (
        "The control plane does not serve ObservedObjectCollection: apply install/activation.yaml, or set "
        "spec.hardware.observe to Never"
    ),
}
_UNKNOWN: Mapping[HardwareAsDeclared, str] = {
    HardwareAsDeclared.OBSERVING: "Waits for provider-kubernetes to list the nodes",
    HardwareAsDeclared.FORBIDDEN: (
        "The kubeconfig lacks rights on nodes; give it get, list and patch of install/remote-rbac.yaml: {said}"
    ),
    HardwareAsDeclared.UNREACHABLE: "The nodes are as last known: {said}",
}
_FAULTS: Mapping[Drifted, HardwareAsDeclared] = {
    Drifted.LABELS: HardwareAsDeclared.NO_NODES,
    Drifted.OVERLAP: HardwareAsDeclared.NODES_OVERLAP,
}


def observed(facts: PoolFacts) -> Manifest:
    """Return what the status says of a pool's nodes."""
    unusable: list[JSON] = [_unusable(row) for row in facts.unusable]
    drift: list[JSON] = [_drift(row) for row in facts.drift]
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


def _unusable(row: Unusable) -> Manifest:
    nodes: list[JSON] = [*row.nodes]
    return prune({"reason": str(row.reason), "detail": row.detail or None, "count": row.count, "nodes": nodes})


def _drift(row: Drift) -> Manifest:
    nodes: list[JSON] = [*row.nodes]
    return prune({"field": str(row.field), "declared": row.declared, "observed": row.observed, "nodes": nodes or None})


def usable(pools: Sequence[Pool]) -> int | None:
    """Return the GPUs of nodes that can be used; None where nobody looks at them."""
    if all(pool.facts is None for pool in pools):
        return None
    return sum(pool.usable_nodes * pool.gpus_per_node for pool in pools)


def as_declared(pools: Sequence[Pool], observation: NodeObservation, *, invalid: bool = False) -> Condition:
    """Return HardwareAsDeclared from the facts of the pools, where they are known to be so now.

    `pools` are the valid ones; `invalid` tells whether there are others.
    """
    status, reason, message = _judged(pools, observation, Unobserved.INVALID_POOLS if invalid else Unobserved.NO_POOLS)
    return Condition(type=ConditionType.HARDWARE_AS_DECLARED, status=status, reason=reason, message=message)


def _judged(
    pools: Sequence[Pool], observation: NodeObservation, without: Unobserved
) -> tuple[Status, HardwareAsDeclared, str]:
    """Return the parts of the condition; `without` is the reason where there is no valid pool."""
    why = observation.unobserved or (None if pools or observation.reason else Unobserved.NO_POOLS)
    why = without if why is Unobserved.NO_POOLS else why
    if why is not None:
        return Status.UNKNOWN, HardwareAsDeclared.NOT_OBSERVED, _UNOBSERVED[why]
    if observation.reason is not None:
        return Status.UNKNOWN, observation.reason, _UNKNOWN[observation.reason].format(said=observation.message)
    faults = sorted((fault for pool in pools for fault in _faults(pool)), key=lambda fault: _ORDER.index(fault[0]))
    if faults:
        return Status.FALSE, faults[0][0], join_with_more([said for _, said in faults], separator="; ")
    nodes = sum(pool.facts.nodes for pool in pools if pool.facts)
    if not nodes:
        return Status.TRUE, HardwareAsDeclared.NO_NODES_YET, "No nodes yet; the autoscaler adds them on demand"
    return Status.TRUE, HardwareAsDeclared.AS_DECLARED, f"{nodes} nodes, all usable and matching their declaration"


_ORDER = tuple(HardwareAsDeclared)


def _faults(pool: Pool) -> list[tuple[HardwareAsDeclared, str]]:
    if pool.facts is None:
        return []
    drift = [(_FAULTS.get(row.field, HardwareAsDeclared.DRIFTED), drifted(pool.name, row)) for row in pool.facts.drift]
    if not pool.facts.unusable:
        return drift
    said = f"pool {pool.name}: {format_unusable(pool.facts.unusable)}"
    return [*drift, (HardwareAsDeclared.NODES_UNUSABLE, said)]


def drifted(pool: str, row: Drift) -> str:
    """Say where nodes contradict what their pool declares."""
    where = f" ({', '.join(row.nodes)})" if row.nodes else ""
    match row.field:
        case Drifted.LABELS:
            nearest = f"; the nearest, {row.nodes[0]}, has {row.observed}" if row.nodes else ""
            return f"pool {pool}: no node has {row.declared}{nearest}"
        case Drifted.OVERLAP:
            return f"pool {pool}: nodes are of {row.observed} as well, and count there{where}"
        case Drifted.TAINTS:
            return f"pool {pool}: its nodes have taint {row.observed}, which it does not declare{where}"
        case Drifted.NODE_COUNT:
            return f"pool {pool}: {row.declared} nodes declared, {row.observed} there"
        case _:
            return f"pool {pool}: {row.field} is declared as {row.declared}, nodes have {row.observed}{where}"


def lost(pool: Pool) -> str:
    """Say that nodes of a pool cannot be used; nothing where all can, or nobody knows."""
    if pool.facts is None or not pool.facts.unusable:
        return ""
    count = sum(row.count for row in pool.facts.unusable)
    return f"pool {pool.name} lost {count} of {pool.facts.nodes} nodes ({format_unusable(pool.facts.unusable)})"


_WAITS = (ServiceReady.STARTING, ServiceReady.DEGRADED)
_TALKS = (ServiceReady.SERVING, *_WAITS)


def slow(pool: Pool) -> str:
    """Say that pods of several nodes get no RDMA device where the pool declares such a network; nothing otherwise."""
    if not pool.unused_rdma:
        return ""
    lost = f"pool {pool.name} declares {pool.unused_rdma} and gives its pods no network device"
    return f"{lost}, so replicas of several nodes talk over TCP; set spec.nodePools[{pool.name}].interNode"


def unlabelled(pools: Sequence[Pool]) -> str:
    """Say whose pods may start on the nodes of another pool, as nothing tells them apart; nothing where none may."""
    found = [pool.name for pool in pools if not pool.labels and any(_admits(other, pool) for other in pools)]
    if not found:
        return ""
    who = f"pool {found[0]} has" if len(found) == 1 else f"pools {join_with_more(found)} have"
    wrong = "pods may start on nodes of another pool, with other GPUs than are counted"
    return f"{who} no labels, so {wrong}; set spec.nodePools[].labels"


def _admits(other: Pool, pool: Pool) -> bool:
    """Tell whether pods of a pool without labels find their resource on another one, and tolerate its taints."""
    alike = other is not pool and other.gpu_resource == pool.gpu_resource
    return alike and all(taint in pool.taints for taint in own_taints(other))


def remarked(serving: Condition, pool: Pool, shape: Shape, environment: str) -> Condition:
    """Return ServiceReady with those remarks: of lost nodes while pods may wait for one, of the network where pods of
    several nodes are, or will be.
    """
    said = [lost(pool)] if serving.reason in _WAITS else []
    said += [slow(pool)] if shape.nodes > 1 and serving.reason in _TALKS else []
    notes = "".join(f". Note: {note} of InferenceEnvironment {environment}" for note in said if note)
    return replace(serving, message=f"{serving.message}{notes}")


def share(held: Share) -> Manifest:
    """Return a part of a pool."""
    return {"pool": held.pool, "nodes": held.nodes, "gpusPerNode": held.gpus_per_node, "replicas": held.replicas}
