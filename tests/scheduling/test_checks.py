"""What a pool must satisfy: one table over the design's, each row asked of the judge."""

from dataclasses import dataclass, replace

import pytest

from function.capacity.ledger import Ledger
from function.domain.cache import CacheChoice, CacheType, CreatedStorage, ModelCache
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
    choice: CacheChoice = CreatedStorage()
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
    Case(id="nothing-asked", reason="a pool that declares all satisfies a profile that asks nothing"),
    Case(
        id="one-node-on-a-pool-that-cannot-do-several",
        reason="multiNodeCapable does not block nodes = 1",
        pool=pool(multi_node=False),
    ),
    Case(
        id="two-nodes-on-a-pool-that-cannot",
        reason="must be true; missing = false",
        profile=profile(shape=shape(2)),
        pool=pool(multi_node=False),
        refused=NO_POOL,
        field=Field.MULTI_NODE,
        required=2,
        actual="false",
    ),
    Case(
        id="as-many-gpus-as-a-node-has",
        reason="gpusPerNode <= acceleratorCount",
        profile=profile(shape=shape(1, 4)),
        pool=pool(gpus=4),
    ),
    Case(
        id="more-gpus-than-a-node-has",
        reason="gpusPerNode <= acceleratorCount",
        pool=pool(gpus=4),
        refused=NO_POOL,
        field=Field.GPUS_PER_NODE,
        required=8,
        actual=4,
    ),
    Case(
        id="one-slice-of-a-gpu",
        reason="a process of CUDA sees one slice",
        profile=profile(shape=shape(1, 1)),
        pool=SLICES,
    ),
    Case(
        id="one-slice-of-a-gpu-on-each-of-two-nodes",
        reason="each pod has one",
        profile=profile(shape=shape(2, 1)),
        pool=SLICES,
    ),
    Case(
        id="two-slices-of-a-gpu",
        reason="a process of CUDA sees one slice",
        profile=profile(shape=shape(1, 2)),
        pool=SLICES,
        refused=NO_POOL,
        field=Field.GPU_RESOURCE,
        required=2,
        actual="nvidia.com/mig-3g.40gb",
    ),
    Case(
        id="two-slices-of-a-gpu-on-each-of-two-nodes",
        reason="every pod has two",
        profile=profile(shape=shape(2, 2)),
        pool=SLICES,
        refused=NO_POOL,
        field=Field.GPU_RESOURCE,
        required=2,
        actual="nvidia.com/mig-3g.40gb",
    ),
    Case(
        id="two-slices-of-a-gpu-by-memory",
        reason="70Gi need two slices of 40Gi",
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
        reason="NVIDIA's device plugin refuses a pod more than one share of time",
        profile=profile(shape=shape(1, 2)),
        pool=replace(SLICES, gpu_resource="nvidia.com/gpu.shared"),
        refused=NO_POOL,
        field=Field.GPU_RESOURCE,
        required=2,
        actual="nvidia.com/gpu.shared",
    ),
    Case(
        id="two-gpus-of-another-vendor",
        reason="a resource that is no slice has whole GPUs",
        profile=profile(shape=shape(1, 2)),
        pool=replace(SLICES, gpu_resource="amd.com/gpu"),
    ),
    Case(id="memory-just-enough", reason=">=", profile=asking(memory="80Gi")),
    Case(
        id="memory-too-small",
        reason=">=",
        profile=asking(memory="141Gi"),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
        required=141 * 2**30,
        actual=80 * 2**30,
    ),
    Case(
        id="memory-not-declared",
        reason="asked for but not declared is not satisfied",
        profile=asking(memory="1Gi"),
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
        required=2**30,
    ),
    Case(id="nvlink-domain-equal", reason=">=", profile=asking(nvlink_domain=8)),
    Case(id="nvlink-domain-larger", reason=">=", profile=asking(nvlink_domain=4)),
    Case(
        id="nvlink-domain-too-small",
        reason=">=",
        profile=asking(nvlink_domain=72),
        refused=NO_POOL,
        field=Field.NVLINK_DOMAIN,
        required=72,
        actual=8,
    ),
    Case(
        id="nvlink-domain-not-declared",
        reason="asked for but not declared is not satisfied",
        profile=asking(nvlink_domain=8),
        pool=pool(nvlink_domain=None),
        refused=NO_POOL,
        field=Field.NVLINK_DOMAIN,
        required=8,
    ),
    Case(id="interconnect-equal", reason="equal", profile=asking(interconnect="nvlink")),
    Case(id="interconnect-better", reason="pcie < nvlink", profile=asking(interconnect="pcie")),
    Case(
        id="interconnect-best",
        reason="nvlink < nvswitch: a pool with NVSwitch serves who asks for NVLink",
        profile=asking(interconnect="nvlink"),
        pool=pool(interconnect="nvswitch"),
    ),
    Case(
        id="interconnect-worse",
        reason="nvlink < nvswitch",
        profile=asking(interconnect="nvswitch"),
        refused=NO_POOL,
        field=Field.INTERCONNECT,
        required="nvswitch",
        actual="nvlink",
    ),
    Case(
        id="interconnect-xgmi-covers-pcie",
        reason="xgmi covers itself and pcie",
        profile=asking(interconnect="pcie"),
        pool=pool(interconnect="xgmi"),
    ),
    Case(
        id="interconnect-xgmi-is-no-nvlink",
        reason="xgmi covers itself and pcie",
        profile=asking(interconnect="nvlink"),
        pool=pool(interconnect="xgmi"),
        refused=NO_POOL,
        field=Field.INTERCONNECT,
        required="nvlink",
        actual="xgmi",
    ),
    Case(
        id="interconnect-nvswitch-is-no-xgmi",
        reason="xgmi equals itself alone",
        profile=asking(interconnect="xgmi"),
        pool=pool(interconnect="nvswitch"),
        refused=NO_POOL,
        field=Field.INTERCONNECT,
        required="xgmi",
        actual="nvswitch",
    ),
    Case(
        id="interconnect-not-declared",
        reason="asked for but not declared is not satisfied",
        profile=asking(interconnect="pcie"),
        pool=pool(interconnect=None),
        refused=NO_POOL,
        field=Field.INTERCONNECT,
        required="pcie",
    ),
    Case(id="type-equal", reason="equal", profile=asking(accelerator_type="nvidia-h100-80gb")),
    Case(
        id="type-differs",
        reason="equal",
        profile=asking(accelerator_type="nvidia-h200-141gb"),
        refused=NO_POOL,
        field=Field.ACCELERATOR_TYPE,
        required="nvidia-h200-141gb",
        actual="nvidia-h100-80gb",
    ),
    Case(
        id="type-not-declared",
        reason="an empty type is none",
        profile=asking(accelerator_type="nvidia-h100-80gb"),
        pool=pool(accelerator_type=""),
        refused=NO_POOL,
        field=Field.ACCELERATOR_TYPE,
        required="nvidia-h100-80gb",
    ),
    Case(id="bandwidth-equal", reason="without suffix equal", profile=asking(bandwidth="ib-400g")),
    Case(id="bandwidth-better", reason="suffix = >=", profile=asking(bandwidth="eth-800g-or-better")),
    Case(
        id="bandwidth-better-but-not-asked-so",
        reason="without suffix equal",
        profile=asking(bandwidth="ib-200g"),
        refused=NO_POOL,
        field=Field.BANDWIDTH,
        required=requires(bandwidth="ib-200g").bandwidth,
        actual="ib-400g",
    ),
    Case(
        id="bandwidth-lower-on-the-ladder",
        reason="ib-800g stands above ib-400g",
        profile=asking(bandwidth="ib-800g-or-better"),
        refused=NO_POOL,
        field=Field.BANDWIDTH,
        required=requires(bandwidth="ib-800g-or-better").bandwidth,
        actual="ib-400g",
    ),
    Case(
        id="bandwidth-not-declared",
        reason="asked for but not declared is not satisfied",
        profile=asking(bandwidth="eth-10g-or-better"),
        pool=pool(bandwidth=None),
        refused=NO_POOL,
        field=Field.BANDWIDTH,
        required=requires(bandwidth="eth-10g-or-better").bandwidth,
    ),
    Case(id="precision-superset", reason="superset", profile=asking(precision=("fp8", "bf16"))),
    Case(
        id="precision-partly",
        reason="every one must be there",
        profile=asking(precision=("fp8", "fp4")),
        refused=NO_POOL,
        field=Field.PRECISION,
        required=("fp8", "fp4"),
        actual=("bf16", "fp16", "fp8"),
    ),
    Case(
        id="precision-not-declared",
        reason="asked for but not declared is not satisfied",
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
        reason="the maths needs it, whether the profile asks for it or not",
        profile=profile(),
        vram="810Gi",
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
    ),
    Case(
        id="vram-and-memory-on-a-pool-without-memory",
        reason="what the profile asks for is said as well",
        profile=profile(requires=requires(memory="80Gi")),
        vram="810Gi",
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
        required=80 * 2**30,
    ),
    Case(
        id="flags-of-a-shape-that-cannot-be-computed",
        reason="the memory is what is missing; nothing is known that flags could disagree with",
        profile=profile(engine=engine(EngineName.VLLM, "--tensor-parallel-size=8")),
        vram="810Gi",
        pool=pool(memory=None),
        refused=NO_POOL,
        field=Field.MEMORY_PER_GPU,
    ),
    Case(
        id="no-shape-and-no-vram",
        reason="nothing says how large a replica is",
        profile=profile(),
        refused=Refused.INVALID_PROFILE,
        field=Field.VRAM,
    ),
    Case(
        id="flags-agree-with-the-maths",
        reason="810Gi on 8 x 80Gi is tensor 8, pipeline 2",
        profile=profile(engine=engine(EngineName.VLLM, "--tensor-parallel-size=8", "-pp=2")),
        vram="810Gi",
    ),
    Case(
        id="vram-on-several-nodes-with-storage-for-one",
        reason="a pool that needs two nodes cannot serve a deployment that asked for EmptyDir",
        profile=profile(),
        vram="810Gi",
        choice=EMPTY_DIR,
        refused=Refused.INVALID_DEPLOYMENT,
        field=Field.STORAGE,
        kind=FaultKind.EMPTY_DIR,
    ),
    Case(
        id="vram-on-one-node-with-storage-for-one",
        reason="640Gi fit 8 x 80Gi",
        profile=profile(),
        vram="640Gi",
        choice=EMPTY_DIR,
    ),
)


@pytest.mark.parametrize("case", [*POOL_CASES, *VRAM_CASES], ids=lambda c: c.id)
def test_checks_one_requirement(case: Case) -> None:
    check(case)


def check(case: Case) -> None:
    """Each refusal stands alone: nothing else of the pool is at fault."""
    asked = model(case.profile, vram=case.vram, disk=case.disk)
    request = SchedulingRequest(
        deployment=deployment(replicas=case.replicas),
        model=asked,
        storage_request=planner(asked, case.choice, cache=case.cache),
    )
    verdict = filter_environment(request, replace(case.environment, pools=(case.pool,)), Ledger(()))
    if case.refused is None:
        assert isinstance(verdict, Assignment), case.reason
        return
    assert isinstance(verdict, Infeasible), case.reason
    found = [(r.reason, r.field, r.required, r.actual) for r in verdict.refusals]
    assert found == [(case.refused, case.field, case.required, case.actual)], case.reason
    assert [r.storage and r.storage.kind for r in verdict.refusals] == [case.kind], case.reason
