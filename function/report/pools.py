"""What is said of a pool whose network is faster than what its pods get of it."""

from dataclasses import replace

from function.domain.environment import Pool
from function.domain.model import Shape
from function.exchange import Condition
from function.reasons import ServiceReady

_TALKS = (ServiceReady.SERVING, ServiceReady.STARTING, ServiceReady.DEGRADED)


def slow(pool: Pool) -> str:
    """Say that pods of several nodes get no RDMA device where the pool declares such a network; nothing otherwise."""
    if not pool.unused_rdma:
        return ""
    lost = f"pool {pool.name} declares {pool.unused_rdma} and gives its pods no network device"
    return f"{lost}, so replicas of several nodes talk over TCP; set spec.nodePools[{pool.name}].interNode"


def remarked(serving: Condition, pool: Pool, shape: Shape, environment: str) -> Condition:
    """Return ServiceReady with that remark, where pods of several nodes are, or will be."""
    said = slow(pool) if shape.nodes > 1 and serving.reason in _TALKS else ""
    if not said:
        return serving
    return replace(serving, message=f"{serving.message}. Note: {said} of InferenceEnvironment {environment}")
