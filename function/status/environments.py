"""What is said of an InferenceEnvironment: does its cluster answer, are its pools valid, is its storage there."""

from collections.abc import Mapping, Sequence

from function.contract import Condition
from function.domain.environment import Environment, Pool
from function.domain.model import Problem, SecretKey
from function.domain.shares import Grant
from function.kube.manifests import JSON, Manifest, listing, prune, text
from function.kube.messages import join_with_more
from function.kube.quantity import gib
from function.reasons import ClusterReady, ConditionType, EnvironmentStorage, HardwareAsDeclared, PoolsValid, Status
from function.remote import clusters
from function.remote.objects import ObservedObject, State
from function.scheduling.admission import EnvironmentLedger
from function.scheduling.ledger import PoolLedger
from function.status.conditions import faulty
from function.status.hardware import observed, usable
from function.status.objects import obstacle
from function.status.pools import slow, unlabelled
from function.status.sentences import count
from function.status.shares import share

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
    status, reason = clusters.cluster(preset)
    words = _BY_STATE.get(preset.state) or _CLUSTER[reason]
    message = words.format(secret=secret, said=preset.message, obstacle=obstacle(preset))
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
        message = f"{count(len(pools), 'pool')}{'. Note: ' if remarks else ''}{remarks}"
    return Condition(type=ConditionType.POOLS_VALID, status=status, reason=reason, message=message)


def storage_ready(class_name: str | None, storage_class: ObservedObject) -> Condition:
    """Return StorageReady from the environment's class and the observe-only Object on it."""
    status, reason = clusters.storage(class_name, storage_class)
    message = _STORAGE[reason].format(name=class_name)
    if reason is EnvironmentStorage.CONNECTING:
        message = obstacle(storage_class) or message
    return Condition(type=ConditionType.STORAGE_READY, status=status, reason=reason, message=message)


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
