"""What a pool must satisfy, one function for each requirement; `CHECKS` in its order is the specification.

The order is that of `Refused`, so that the pool whose first failing check lies furthest down came nearest.
Within the requirements on the hardware it is the design's table. Asked for but not declared by the pool is
not satisfied, and recorded as `found=None`. Capacity and readiness come after these, see judge.py;
selectors before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from function.domain.engine_args import disagreements
from function.domain.environment import Environment, Pool
from function.domain.model import EngineName, Profile, Shape
from function.domain.problem import Problem
from function.reasons import Refused
from function.scheduling.request import SchedulingRequest
from function.scheduling.verdicts import Field, Refusal, Value

SHARED_ACCESS = "ReadWriteMany"

# Several hundred pools of one kind ask the same about the same arguments.
_disagreements = lru_cache(maxsize=256)(disagreements)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A profile on a pool. `shape` None: it must be computed, and pool or model do not say enough."""

    environment: Environment
    profile: Profile
    pool: Pool
    shape: Shape | None


Check: TypeAlias = Callable[[SchedulingRequest, Candidate], Refusal | None]


def _refuse(
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
        return _refuse(candidate, Field.VRAM, None, None, Refused.INVALID_PROFILE)
    return None


def engine_args(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Parallelism flags must agree with a shape that VRAM maths made; parse checks declared shapes."""
    if candidate.profile.shape is not None or candidate.shape is None:
        return None
    engine = candidate.profile.engine
    problems = _problems(engine.name, engine.args, candidate.shape)
    return _refuse(candidate, Field.ENGINE_ARGS, None, problems, Refused.INVALID_PROFILE) if problems else None


def _problems(engine: EngineName, args: tuple[str, ...], shape: Shape) -> tuple[Problem, ...]:
    return _disagreements(engine, args, shape) if args else ()


def one_node(request: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Weights that the deployment keeps on one node serve no shape of several."""
    shape = candidate.shape
    if request.storage.single_node_only and shape is not None and shape.nodes > 1:
        return _refuse(candidate, Field.ONE_NODE, 1, shape.nodes)
    return None


def multi_node(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Several nodes need a pool that says it can; one node runs anywhere."""
    shape = candidate.shape
    if shape is not None and shape.nodes > 1 and not candidate.pool.multi_node:
        return _refuse(candidate, Field.MULTI_NODE, shape.nodes, "false")
    return None


def gpus_per_node(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A node has at least the GPUs that one pod takes."""
    shape, has = candidate.shape, candidate.pool.gpus_per_node
    if shape is not None and shape.gpus_per_node > has:
        return _refuse(candidate, Field.GPUS_PER_NODE, shape.gpus_per_node, has)
    return None


def memory_per_gpu(request: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A GPU has at least the memory asked for; VRAM maths needs it declared in any case."""
    wanted, has = candidate.profile.requires.memory_per_gpu, candidate.pool.memory_per_gpu
    if candidate.profile.shape is None and not has:
        return _refuse(candidate, Field.MEMORY_PER_GPU, wanted or request.model.vram, None)
    if wanted is not None and (has is None or has < wanted):
        return _refuse(candidate, Field.MEMORY_PER_GPU, wanted, has)
    return None


def nvlink_domain(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """At least so many GPUs share one NVLink domain."""
    wanted, has = candidate.profile.requires.nvlink_domain, candidate.pool.nvlink_domain
    if wanted is not None and (has is None or has < wanted):
        return _refuse(candidate, Field.NVLINK_DOMAIN, wanted, has)
    return None


def interconnect(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """GPUs of one node are connected exactly so."""
    wanted, has = candidate.profile.requires.interconnect, candidate.pool.interconnect
    return _refuse(candidate, Field.INTERCONNECT, wanted, has) if wanted and wanted != has else None


def accelerator_type(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """The GPUs are of exactly this type."""
    wanted, has = candidate.profile.requires.accelerator_type, candidate.pool.accelerator_type or None
    return _refuse(candidate, Field.ACCELERATOR_TYPE, wanted, has) if wanted and wanted != has else None


def bandwidth(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Nodes are connected at a rung of the ladder, or at least at it."""
    wanted, has = candidate.profile.requires.bandwidth, candidate.pool.bandwidth
    if wanted is not None and (has is None or not wanted.met_by(has)):
        return _refuse(candidate, Field.BANDWIDTH, wanted, has)
    return None


def precision(_: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """The GPUs support every precision asked for."""
    wanted, has = candidate.profile.requires.precision, candidate.pool.precision
    if wanted and (has is None or not set(wanted) <= set(has)):
        return _refuse(candidate, Field.PRECISION, wanted, has)
    return None


def storage_class(request: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """Where the weights need a claim, somebody must name its class; "" is a name: the cluster's default."""
    storage, shape = request.storage, candidate.shape
    if shape is None or not _needs_claim(request, shape):
        return None
    if not (storage.class_name is candidate.environment.storage.class_name is storage.default_class is None):
        return None
    return _refuse(candidate, Field.STORAGE_CLASS, None, None, Refused.SHARED_STORAGE_MISSING)


def access_mode(request: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A claim for more than one replica on one node must be shared."""
    if candidate.shape is None or shares(request, candidate.environment, candidate.shape):
        return None
    mode = effective_mode(request, candidate.environment)
    return _refuse(candidate, Field.ACCESS_MODE, SHARED_ACCESS, mode, Refused.SHARED_STORAGE_MISSING)


def shares(request: SchedulingRequest, environment: Environment, shape: Shape) -> bool:
    """Tell whether the access mode serves every pod that mounts the weights."""
    alone = shape.nodes == 1 and request.deployment.replicas <= 1
    return alone or not _needs_claim(request, shape) or effective_mode(request, environment) == SHARED_ACCESS


def effective_mode(request: SchedulingRequest, environment: Environment) -> str:
    """Return the deployment's access mode, else the environment's."""
    return request.storage.access_mode or environment.storage.access_mode


def _needs_claim(request: SchedulingRequest, shape: Shape) -> bool:
    return request.storage.multi_node_claim if shape.nodes > 1 else request.storage.single_node_claim


def cache(request: SchedulingRequest, candidate: Candidate) -> Refusal | None:
    """A named ModelCache keeps its weights on this environment."""
    kept = request.storage.cache_environments
    if kept is None or candidate.environment.name in kept:
        return None
    return _refuse(candidate, Field.CACHE, request.storage.cache_name, None, Refused.CACHE_NOT_ON_ENVIRONMENT)


CHECKS: tuple[Check, ...] = (
    vram,
    engine_args,
    one_node,
    multi_node,
    gpus_per_node,
    memory_per_gpu,
    nvlink_domain,
    interconnect,
    accelerator_type,
    bandwidth,
    precision,
    storage_class,
    access_mode,
    cache,
)
FIRST_OF_POOL = CHECKS.index(one_node)
