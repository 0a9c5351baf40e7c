"""Costs of storage that `plan` and `validate` name before they arise; none of them is refused."""

from dataclasses import dataclass, replace

import pytest

from function.domain.cache import CacheType, CreatedStorage
from function.domain.environment import EnvironmentStorage
from function.status.weights import note_costs
from function.weights.request import WeightsRequest
from tests.support.weights_requests import GIB, MULTI, SINGLE, model, on_storage

PVC = CreatedStorage(type=CacheType.PVC)
SHARED = on_storage(EnvironmentStorage(class_name="fast", is_shared=True, shared_claim="models", shared_size=100 * GIB))
DISK = "set spec.resources.disk of ClusterModel kimi-k2-instruct"


@dataclass(frozen=True)
class Case:
    id: str
    request: WeightsRequest
    want: tuple[str, ...] = ()


CASES = (
    Case("one-replica-downloads-once", replace(SINGLE, choice=CreatedStorage(type=CacheType.EMPTY_DIR))),
    Case(
        "each-replica-downloads",
        replace(SINGLE, choice=CreatedStorage(type=CacheType.EMPTY_DIR), model=model(disk=60 * GIB), replicas=4),
        (
            (
                "spec.modelCache: is EmptyDir: every pod start of each of 4 replicas downloads 60Gi again; "
                "set type: PVC for a claim that all replicas read"
            ),
        ),
    ),
    Case("size-of-the-weights", replace(MULTI, choice=PVC, model=model(disk=1000 * GIB))),
    Case(
        "size-of-the-gpus",  # 2 nodes x 8 GPUs x 141Gi
        replace(MULTI, choice=PVC),
        (f"spec.modelCache: the claim asks for 2256Gi, the GPUs' memory; {DISK}",),
    ),
    Case("unknown-size", replace(MULTI, choice=PVC, gpu_memory=None)),
    Case("shared-and-large-enough", replace(SINGLE, choice=PVC, environment=SHARED)),
    Case("shared-with-disk", replace(MULTI, choice=PVC, environment=SHARED, model=model(disk=90 * GIB))),
    Case(
        "shared-and-perhaps-too-small",
        replace(MULTI, choice=PVC, environment=SHARED),
        (
            (
                "spec.modelCache: claim models of InferenceEnvironment east has 100Gi, and the weights may need up to "
                f"2256Gi; {DISK}"
            ),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_notes_what_storage_costs(case: Case) -> None:
    assert tuple(map(str, note_costs(case.request))) == case.want
