"""The columns of a refusal: what is required and what was found, short enough for a table."""

from dataclasses import dataclass

import pytest

from function.capacity.pools import PoolUse
from function.domain.allocation import Limits, QuotaUsage
from function.kube.selectors import Operator, SelectorRequirement
from function.reasons import Refused
from function.scheduling.refusals import Field, Refusal
from function.weights.faults import FaultKind, StorageFault
from tests.support.builders import GIB, shape

TIER, REGION = (SelectorRequirement(key=key, operator=Operator.IN, values=("a",)) for key in ("tier", "region"))
USAGE = QuotaUsage(
    namespace="team", limits=Limits(gpus=24), placements=2, gpus=22, requested=3, holders=(("a", 16), ("b", 6))
)
FAULT = StorageFault(kind=FaultKind.EMPTY_DIR, field="spec.modelCache.type")


def refuse(field: Field, required: object = None, actual: object = None, **more: object) -> Refusal:
    reason = Refused.NO_POOL_SATISFIES_REQUIREMENTS
    return Refusal(reason=reason, field=field, required=required, actual=actual, **more)  # type: ignore[arg-type]  # as named


@dataclass(frozen=True)
class Case:
    id: str
    refusal: Refusal
    required: str
    actual: str


CASES = (
    Case("declared", refuse(Field.MEMORY_PER_GPU, 141 * GIB, 80 * GIB), "memoryPerGpu 141Gi", "80Gi"),
    Case("not-declared", refuse(Field.PRECISION, ("fp8",)), "precisionSupport fp8", "not declared"),
    Case("nothing-required", refuse(Field.MEMORY_PER_GPU), "memoryPerGpu", "not declared"),
    Case(
        "labels",
        refuse(Field.MODEL_SELECTOR, unmet=((TIER, "b"), (REGION, None))),
        "tier=a, region=a",
        "tier=b, no region",
    ),
    Case("quota", refuse(Field.QUOTA, 3, quota_usage=USAGE), "3 GPUs", "quota: 22 of 24 GPUs"),
    Case("fixed", refuse(Field.VRAM), "spec.resources.vram", "not set"),
    Case("value-in-words", refuse(Field.MULTI_NODE, 2, "false"), "multiNodeCapable for 2 nodes", "false"),
    Case(
        "slices",
        refuse(Field.GPU_RESOURCE, 2, "nvidia.com/mig-3g.40gb"),
        "2 GPUs for each pod",
        "nvidia.com/mig-3g.40gb",
    ),
    Case("no-ledger", refuse(Field.LEDGER, 2, 0, shape=shape()), "2 replicas", "room for 0"),
    Case(
        "capacity",
        refuse(Field.REPLICAS, 2, 1, shape=shape(), use=PoolUse(nodes=4, nodes_in_use=3, placements=1)),
        "2 replicas",
        "room for 1, 3 of 4 nodes in use",
    ),
    Case("storage", refuse(Field.STORAGE, storage=FAULT), *FAULT.columns),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_columns_have_the_required_and_the_actual_value(case: Case) -> None:
    assert case.refusal.columns == (case.required, case.actual)
