"""The requirements of a profile: each case checks one of them against one pool, with filter_environment."""

from dataclasses import dataclass, replace

import pytest

from function.capacity.ledger import CapacityView
from function.domain.adapter import Adapter
from function.domain.cache import CacheType, CreatedStorage, ModelCache, StorageChoice
from function.domain.environment import Environment, Pool
from function.domain.model import EngineName, Profile
from function.reasons import Refused
from function.scheduling.filters import filter_environment
from function.scheduling.refusals import Field, Value
from function.scheduling.verdicts import Assignment, Infeasible, SchedulingRequest
from function.weights.faults import FaultKind
from tests.support.builders import deployment, engine, environment, model, planner, pool, profile, requires, shape

NO_POOL = Refused.NO_POOL_SATISFIES_REQUIREMENTS
NO_STORAGE = Refused.SHARED_STORAGE_MISSING
CLAIM = CreatedStorage(type=CacheType.PVC)
EMPTY_DIR = CreatedStorage(type=CacheType.EMPTY_DIR)


SLICES = replace(pool(gpus=4, memory="40Gi"), gpu_resource="nvidia.com/mig-3g.40gb")


def asking(**fields: object) -> Profile:
    return profile(shape=shape(), requires=requires(**fields))  # type: ignore[arg-type]  # keywords of requires()


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    reason: str
    profile: Profile = profile(shape=shape())
    pool: Pool = pool()
    choice: StorageChoice = CreatedStorage()
    adapters: tuple[Adapter, ...] = ()
    cache: ModelCache | None = None
    kind: FaultKind | None = None
    environment: Environment = environment()
    replicas: int = 1
    vram: str | None = None
    disk: str | None = None
    refused: Refused | None = None
    field: Field | None = None
    required: Value = None
    actual: Value = None


POOL_CASES = (
    Case(id="nothing-asked", reason="a profile without requirements is satisfied by any pool"),
    Case(
        id="one-node-on-a-pool-that-cannot-do-several",
        reason="a replica of one node does not need multiNodeCapable",
        pool=pool(multi_node=False),
    ),
    Case(
        id="two-nodes-on-a-pool-that-cannot",
        reason="a replica of several nodes needs a pool with multiNodeCapable: true",
        profile=profile(shape=shape(2)),
        pool=pool(multi_node=False),
        refused=NO_POOL,
        field=Field.MULTI_NODE,
        required=2,
        actual="false",
    ),
    Case(
        id="as-many-gpus-as-a-node-has",
        reason="gpusPerNode may be as large as acceleratorCount",
        profile=profile(shape=shape(1, 4)),
        pool=pool(gpus=4),
    ),
    Case(
        id="more-gpus-than-a-node-has",
        reason="gpusPerNode must not exceed acceleratorCount",
        pool=pool(gpus=4),
        refused=NO_POOL,
        field=Field.GPUS_PER_NODE,
        required=8,
        actual=4,
    ),
    Case(
        id="one-slice-of-a-gpu",
        reason="a CUDA process can use one slice, and the pod has one",
        profile=profile(shape=shape(1, 1)),
        pool=SLICES,
    ),
    Case(
        id="one-slice-of-a-gpu-on-each-of-two-nodes",
        reason="a CUDA process can use one slice, and each of the two pods has one",
        profile=profile(shape=shape(2, 1)),
        pool=SLICES,
    ),
    Case(
        id="two-slices-of-a-gpu",
        reason="a CUDA process can use only one slice, and the pod has two",
        profile=profile(shape=shape(1, 2)),
        pool=SLICES,
        refused=NO_POOL,
        field=Field.GPU_RESOURCE,
        required=2,
        actual="nvidia.com/mig-3g.40gb",
    ),
    Case(
        id="two-slices-of-a-gpu-on-each-of-two-nodes",
        reason="a CUDA process can use only one slice, and each pod has two",
        profile=profile(shape=shape(2, 2)),
        pool=SLICES,
        refused=NO_POOL,
        field=Field.GPU_RESOURCE,
        required=2,
        actual="nvidia.com/mig-3g.40gb",
    ),
    Case(
        id="two-slices-of-a-gpu-by-memory",
        reason="70Gi need two slices of 40Gi, and a CUDA process can use only one",
        profile=profile(),
        vram="70Gi",
        pool=SLICES,
        refused=NO_POOL,
        field=Field.GPU_RESOURCE,
        required=2,
        actual="nvidia.com/mig-3g.40gb",
    ),
    Case(
        id="two-shares-of-a-gpu",
        reason="NVIDIA's device plugin refuses pods that request more than one time-sliced share of a GPU",
        profile=profile(shape=shape(1, 2)),
        pool=replace(SLICES, gpu_resource="nvidia.com/gpu.shared"),
        refused=NO_POOL,
        field=Field.GPU_RESOURCE,
        required=2,
        actual="nvidia.com/gpu.shared",
    ),
    Case(
        id="two-gpus-of-another-vendor",
        reason="amd.com/gpu counts whole GPUs, and a pod can use several of them",
        profile=profile(shape=shape(1, 2)),
        pool=replace(SLICES, gpu_resource="amd.com/gpu"),
    ),
    Case(
        id="memory-just-enough",
        reason="the memory per GPU may be equal to the required memory",
        profile=asking(memory="80Gi"),
    ),
    Case(
        id="memory-too-small",
        reason="the memory per GPU must be at least the required memory",
        profile=asking(memory="141Gi"),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
        required=141 * 2**30,
        actual=80 * 2**30,
    ),
    Case(
        id="memory-not-declared",
        reason="a required capability must be declared by the pool",
        profile=asking(memory="1Gi"),
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
        required=2**30,
    ),
    Case(
        id="nvlink-domain-equal",
        reason="the NVLink domain may be as large as required",
        profile=asking(nvlink_domain=8),
    ),
    Case(
        id="nvlink-domain-larger",
        reason="the NVLink domain may be larger than required",
        profile=asking(nvlink_domain=4),
    ),
    Case(
        id="nvlink-domain-too-small",
        reason="the NVLink domain must be at least as large as required",
        profile=asking(nvlink_domain=72),
        refused=NO_POOL,
        field=Field.NVLINK_DOMAIN,
        required=72,
        actual=8,
    ),
    Case(
        id="nvlink-domain-not-declared",
        reason="a required capability must be declared by the pool",
        profile=asking(nvlink_domain=8),
        pool=pool(nvlink_domain=None),
        refused=NO_POOL,
        field=Field.NVLINK_DOMAIN,
        required=8,
    ),
    Case(
        id="interconnect-equal",
        reason="a pool with NVLink satisfies the requirement nvlink",
        profile=asking(interconnect="nvlink"),
    ),
    Case(
        id="interconnect-better",
        reason="a pool with NVLink also satisfies the requirement pcie",
        profile=asking(interconnect="pcie"),
    ),
    Case(
        id="interconnect-best",
        reason="a pool with NVSwitch also satisfies the requirement nvlink",
        profile=asking(interconnect="nvlink"),
        pool=pool(interconnect="nvswitch"),
    ),
    Case(
        id="interconnect-worse",
        reason="a pool with NVLink does not satisfy the requirement nvswitch",
        profile=asking(interconnect="nvswitch"),
        refused=NO_POOL,
        field=Field.INTERCONNECT,
        required="nvswitch",
        actual="nvlink",
    ),
    Case(
        id="interconnect-xgmi-covers-pcie",
        reason="a pool with xGMI also satisfies the requirement pcie",
        profile=asking(interconnect="pcie"),
        pool=pool(interconnect="xgmi"),
    ),
    Case(
        id="interconnect-xgmi-is-no-nvlink",
        reason="a pool with xGMI satisfies only the requirements xgmi and pcie",
        profile=asking(interconnect="nvlink"),
        pool=pool(interconnect="xgmi"),
        refused=NO_POOL,
        field=Field.INTERCONNECT,
        required="nvlink",
        actual="xgmi",
    ),
    Case(
        id="interconnect-nvswitch-is-no-xgmi",
        reason="the requirement xgmi is satisfied only by a pool with xGMI",
        profile=asking(interconnect="xgmi"),
        pool=pool(interconnect="nvswitch"),
        refused=NO_POOL,
        field=Field.INTERCONNECT,
        required="xgmi",
        actual="nvswitch",
    ),
    Case(
        id="interconnect-not-declared",
        reason="a required capability must be declared by the pool",
        profile=asking(interconnect="pcie"),
        pool=pool(interconnect=None),
        refused=NO_POOL,
        field=Field.INTERCONNECT,
        required="pcie",
    ),
    Case(
        id="type-equal",
        reason="the accelerator type is equal to the required type",
        profile=asking(accelerator_type="nvidia-h100-80gb"),
    ),
    Case(
        id="type-differs",
        reason="the accelerator type must be equal to the required type",
        profile=asking(accelerator_type="nvidia-h200-141gb"),
        refused=NO_POOL,
        field=Field.ACCELERATOR_TYPE,
        required="nvidia-h200-141gb",
        actual="nvidia-h100-80gb",
    ),
    Case(
        id="type-not-declared",
        reason="a pool with an empty accelerator type declares no type",
        profile=asking(accelerator_type="nvidia-h100-80gb"),
        pool=pool(accelerator_type=""),
        refused=NO_POOL,
        field=Field.ACCELERATOR_TYPE,
        required="nvidia-h100-80gb",
    ),
    Case(
        id="bandwidth-equal",
        reason="the bandwidth is equal to the required bandwidth",
        profile=asking(bandwidth="ib-400g"),
    ),
    Case(
        id="bandwidth-better",
        reason="with the suffix -or-better, a faster network satisfies the requirement",
        profile=asking(bandwidth="eth-800g-or-better"),
    ),
    Case(
        id="bandwidth-better-but-not-asked-so",
        reason="without the suffix -or-better, the bandwidth must be equal to the required bandwidth",
        profile=asking(bandwidth="ib-200g"),
        refused=NO_POOL,
        field=Field.BANDWIDTH,
        required=requires(bandwidth="ib-200g").bandwidth,
        actual="ib-400g",
    ),
    Case(
        id="bandwidth-lower-on-the-ladder",
        reason="ib-400g is slower than ib-800g, so it does not satisfy ib-800g-or-better",
        profile=asking(bandwidth="ib-800g-or-better"),
        refused=NO_POOL,
        field=Field.BANDWIDTH,
        required=requires(bandwidth="ib-800g-or-better").bandwidth,
        actual="ib-400g",
    ),
    Case(
        id="bandwidth-not-declared",
        reason="a required capability must be declared by the pool",
        profile=asking(bandwidth="eth-10g-or-better"),
        pool=pool(bandwidth=None),
        refused=NO_POOL,
        field=Field.BANDWIDTH,
        required=requires(bandwidth="eth-10g-or-better").bandwidth,
    ),
    Case(
        id="precision-superset",
        reason="a pool may support more precisions than required",
        profile=asking(precision=("fp8", "bf16")),
    ),
    Case(
        id="precision-partly",
        reason="a pool must support every required precision",
        profile=asking(precision=("fp8", "fp4")),
        refused=NO_POOL,
        field=Field.PRECISION,
        required=("fp8", "fp4"),
        actual=("bf16", "fp16", "fp8"),
    ),
    Case(
        id="precision-not-declared",
        reason="a required capability must be declared by the pool",
        profile=asking(precision=("fp8",)),
        pool=pool(precision=None),
        refused=NO_POOL,
        field=Field.PRECISION,
        required=("fp8",),
    ),
)

VRAM_CASES = (
    Case(
        id="vram-on-a-pool-without-memory",
        reason="the shape is computed from the memory per GPU, so the pool must declare its memory",
        profile=profile(),
        vram="810Gi",
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
    ),
    Case(
        id="vram-and-memory-on-a-pool-without-memory",
        reason="the refusal includes the memory that the profile requires",
        profile=profile(requires=requires(memory="80Gi")),
        vram="810Gi",
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
        required=80 * 2**30,
    ),
    Case(
        id="flags-of-a-shape-that-cannot-be-computed",
        reason="the shape cannot be computed, so only the memory is refused, and the flags are not compared",
        profile=profile(engine=engine(EngineName.VLLM, "--tensor-parallel-size=8")),
        vram="810Gi",
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
    ),
    Case(
        id="no-shape-and-no-vram",
        reason="a profile without a shape needs the vram of the model, to compute the size of a replica",
        profile=profile(),
        refused=Refused.INVALID_PROFILE,
        field=Field.VRAM,
    ),
    Case(
        id="flags-agree-with-the-maths",
        reason="810Gi on nodes of 8 x 80Gi need tensor 8 and pipeline 2, as the flags say",
        profile=profile(engine=engine(EngineName.VLLM, "--tensor-parallel-size=8", "-pp=2")),
        vram="810Gi",
    ),
    Case(
        id="vram-on-several-nodes-with-storage-for-one",
        reason="the computed shape has two nodes, and the EmptyDir of the deployment serves only one",
        profile=profile(),
        vram="810Gi",
        choice=EMPTY_DIR,
        refused=Refused.INVALID_DEPLOYMENT,
        field=Field.STORAGE,
        kind=FaultKind.EMPTY_DIR,
    ),
    Case(
        id="vram-on-one-node-with-storage-for-one",
        reason="640Gi fit on one node of 8 x 80Gi, for which EmptyDir suffices",
        profile=profile(),
        vram="640Gi",
        choice=EMPTY_DIR,
    ),
)


@pytest.mark.parametrize("case", [*POOL_CASES, *VRAM_CASES], ids=lambda c: c.id)
def test_checks_one_requirement(case: Case) -> None:
    check(case)


def check(case: Case) -> None:
    """Checks that the filter returns the expected refusal, and no other."""
    asked = model(case.profile, vram=case.vram, disk=case.disk)
    request = SchedulingRequest(
        deployment=replace(deployment(replicas=case.replicas), adapters=case.adapters),
        model=asked,
        storage_request=replace(planner(asked, case.choice, cache=case.cache), adapters=case.adapters),
    )
    verdict = filter_environment(request, replace(case.environment, pools=(case.pool,)), CapacityView(()))
    if case.refused is None:
        assert isinstance(verdict, Assignment), case.reason
        return
    assert isinstance(verdict, Infeasible), case.reason
    found = [(r.reason, r.field, r.required, r.actual) for r in verdict.refusals]
    assert found == [(case.refused, case.field, case.required, case.actual)], case.reason
    assert [r.storage and r.storage.kind for r in verdict.refusals] == [case.kind], case.reason
