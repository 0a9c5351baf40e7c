"""What is said of a pool beside a service: nodes that it lost, and a network faster than what its pods get of it."""

from dataclasses import replace

from function.domain.environment import Pool
from function.domain.model import Shape
from function.exchange import Condition
from function.reasons import ServiceReady
from function.report.hardware import lost

_WAITS = (ServiceReady.STARTING, ServiceReady.DEGRADED)
_TALKS = (ServiceReady.SERVING, *_WAITS)


def slow(pool: Pool) -> str:
    """Say that pods of several nodes get no RDMA device where the pool declares such a network; nothing otherwise."""
    if not pool.unused_rdma:
        return ""
    lost = f"pool {pool.name} declares {pool.unused_rdma} and gives its pods no network device"
    return f"{lost}, so replicas of several nodes talk over TCP; set spec.nodePools[{pool.name}].interNode"


def remarked(serving: Condition, pool: Pool, shape: Shape, environment: str) -> Condition:
    """Return ServiceReady with those remarks: of lost nodes while pods may wait for one, of the network where pods of
    several nodes are, or will be.
    """
    said = [lost(pool)] if serving.reason in _WAITS else []
    said += [slow(pool)] if shape.nodes > 1 and serving.reason in _TALKS else []
    notes = "".join(f". Note: {note} of InferenceEnvironment {environment}" for note in said if note)
    return replace(serving, message=f"{serving.message}{notes}")
