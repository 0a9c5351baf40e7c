"""What a pool must satisfy, one function for each requirement; `CHECKS` in its order is the specification.

The order is that of `Refused`, so that the pool whose first failing check lies furthest down came nearest.
Within the requirements on the hardware it is the design's table. Asked for but not declared by the pool is
not satisfied, and recorded as `found=None`. What the weights ask for is the planner's to say. Capacity and
readiness come after these, see judge.py; selectors before.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from function.domain.engine_args import find_shape_faults, find_tls_faults
from function.domain.environment import Environment, Pool
from function.domain.hardware import covers_interconnect
from function.domain.model import Profile, Shape
from function.reasons import Refused
from function.scheduling.request import SchedulingRequest
from function.scheduling.verdicts import Field, Refusal, Value
from function.weights.faults import StorageFault


@dataclass(frozen=True)
class Candidate:
    """A profile on a pool. `shape` None: it must be computed, and pool or model do not say enough."""

    request: SchedulingRequest
    environment: Environment
    profile: Profile
    pool: Pool
    shape: Shape | None

    @cached_property
    def storage(self) -> tuple[StorageFault, ...]:
        """Why the planner has no storage for it; asked at most once."""
        if self.shape is None:
            return ()
        return self.request.storage_check(self.environment, self.pool, self.shape, self.request.deployment.replicas)


Check: TypeAlias = Callable[[SchedulingRequest, Candidate], Refusal | None]


def _make_refusal(
    candidate: Candidate,
    field: Field,
    wanted: Value,
    found: Value,
    reason: Refused = Refused.NO_POOL_SATISFIES_REQUIREMENTS,
) -> Refusal:
    return Refusal(
        reason=reason,
        field=field,
        environment=candidate.environment.name,
        profile=candidate.profile.name,
        pool=candidate.pool.name,
        wanted=wanted,
        found=found,
        shape=candidate.shape,
    )


def vram(request: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A profile without a shape needs a model that says how much memory it takes."""
    if candidate.profile.shape is None and not request.model.vram:
        return _make_refusal(candidate, Field.VRAM, None, None, Refused.INVALID_PROFILE)
    return None


def engine_args(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Engine and arguments must agree with a shape that VRAM maths made; parse checks declared shapes."""
    if candidate.profile.shape is not None or candidate.shape is None:
        return None
    problems = find_shape_faults(candidate.profile.engine, candidate.shape)
    return _make_refusal(candidate, Field.ENGINE_ARGS, None, problems, Refused.INVALID_PROFILE) if problems else None


def inter_node(request: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """An engine leaves to the pool's preset what that says about the network between nodes."""
    if candidate.shape is None:
        return None
    problems = request.serving_check(candidate.profile, candidate.shape, candidate.pool)
    return _make_refusal(candidate, Field.INTER_NODE, None, problems, Refused.INVALID_PROFILE) if problems else None


def tls(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """An engine can serve HTTPS where the cluster's KServe speaks nothing else to it."""
    problems = find_tls_faults(candidate.profile.engine) if candidate.environment.kserve.tls else ()
    return _make_refusal(candidate, Field.TLS, None, problems, Refused.INVALID_PROFILE) if problems else None


def deployment_storage(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """What the deployment itself says about its weights suits this shape."""
    return _storage(candidate, Refused.INVALID_DEPLOYMENT)


def multi_node(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Several nodes need a pool that says it can; one node runs anywhere."""
    shape = candidate.shape
    if shape is not None and shape.nodes > 1 and not candidate.pool.multi_node:
        return _make_refusal(candidate, Field.MULTI_NODE, shape.nodes, "false")
    return None


def gpus_per_node(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A node has at least the GPUs that one pod takes."""
    shape, has = candidate.shape, candidate.pool.gpus_per_node
    if shape is not None and shape.gpus_per_node > has:
        return _make_refusal(candidate, Field.GPUS_PER_NODE, shape.gpus_per_node, has)
    return None


def memory_per_gpu(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A GPU has at least the memory asked for; VRAM maths needs it declared in any case."""
    wanted, has = candidate.profile.requires.memory_per_gpu, candidate.pool.memory_per_gpu
    if candidate.profile.shape is None and not has:
        return _make_refusal(candidate, Field.MEMORY_PER_GPU, wanted, None)
    if wanted is not None and (has is None or has < wanted):
        return _make_refusal(candidate, Field.MEMORY_PER_GPU, wanted, has)
    return None


def nvlink_domain(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """At least so many GPUs share one NVLink domain."""
    wanted, has = candidate.profile.requires.nvlink_domain, candidate.pool.nvlink_domain
    if wanted is not None and (has is None or has < wanted):
        return _make_refusal(candidate, Field.NVLINK_DOMAIN, wanted, has)
    return None


def interconnect(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """GPUs of one node are connected so, or better."""
    wanted, has = candidate.profile.requires.interconnect, candidate.pool.interconnect
    if wanted is not None and (has is None or not covers_interconnect(has, wanted)):
        return _make_refusal(candidate, Field.INTERCONNECT, wanted, has)
    return None


def accelerator_type(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """The GPUs are of exactly this type."""
    wanted, has = candidate.profile.requires.accelerator_type, candidate.pool.accelerator_type or None
    return _make_refusal(candidate, Field.ACCELERATOR_TYPE, wanted, has) if wanted and wanted != has else None


def bandwidth(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Nodes are connected at a rung of the ladder, or at least at it."""
    wanted, has = candidate.profile.requires.bandwidth, candidate.pool.bandwidth
    if wanted is not None and (has is None or not wanted.is_met_by(has)):
        return _make_refusal(candidate, Field.BANDWIDTH, wanted, has)
    return None


def precision(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """The GPUs support every precision asked for."""
    wanted, has = candidate.profile.requires.precision, candidate.pool.precision
    if wanted and (has is None or not set(wanted) <= set(has)):
        return _make_refusal(candidate, Field.PRECISION, wanted, has)
    return None


def claim_size(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Where nobody says how large the claim must be, the pool's GPU memory does."""
    if candidate.profile.requires.memory_per_gpu and candidate.pool.memory_per_gpu is None:
        return None  # said already
    return _storage(candidate, Refused.NO_POOL_SATISFIES_REQUIREMENTS)


def shared_storage(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """The environment has storage that every pod can mount."""
    return _storage(candidate, Refused.SHARED_STORAGE_MISSING)


def storage_size(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """The claim is said to hold what the weights take."""
    return _storage(candidate, Refused.STORAGE_TOO_SMALL)


def cache(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A named ModelCache keeps its weights on this environment."""
    return _storage(candidate, Refused.CACHE_NOT_ON_ENVIRONMENT)


def _storage(candidate: Candidate, reason: Refused) -> Refusal | None:
    fault = next((fault for fault in candidate.storage if fault.reason is reason), None)
    return None if fault is None else refuse_storage(candidate, fault)


def refuse_storage(candidate: Candidate, fault: StorageFault) -> Refusal:
    """Return the planner's word as a refusal."""
    refusal = _make_refusal(candidate, Field.STORAGE, None, None, fault.reason)
    return replace(refusal, storage=fault)


CHECKS: tuple[Check, ...] = (
    deployment_storage,
    vram,
    engine_args,
    inter_node,
    tls,
    multi_node,
    gpus_per_node,
    memory_per_gpu,
    nvlink_domain,
    interconnect,
    accelerator_type,
    bandwidth,
    precision,
    claim_size,
    shared_storage,
    storage_size,
    cache,
)
FIRST_OF_POOL = CHECKS.index(multi_node)
