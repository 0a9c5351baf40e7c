"""What is said of valid pools: nodes that are lost or that nothing tells apart, a network that pods get no way to."""

from collections.abc import Sequence
from dataclasses import replace

from function.contract import Condition
from function.domain.environment import Pool, own_taints
from function.domain.model import Shape
from function.kube.messages import join_with_more
from function.reasons import ServiceReady
from function.status.hardware import lost

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
