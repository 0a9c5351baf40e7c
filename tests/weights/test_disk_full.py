"""Advice after DiskFull: what can be done about this claim, by this object's fields."""

from dataclasses import dataclass, replace

import pytest

from function.domain.cache import ManagedCache, UserClaim
from function.domain.environment import StorageMode
from function.kube.manifests import Manifest
from function.status.weights import describe_storage
from function.weights.request import StorageRequest
from tests.weights.test_reconcile_weights import RETAINED, asked, begun, job, weighed

FULL: Manifest = {
    "type": "Failed",
    "status": "True",
    "reason": "PodFailurePolicy",
    "message": "with exit code 43 matching",
}
SHARED = replace(asked().environment, mode=StorageMode.SHARED)
MINE = UserClaim(claim="mine")


@dataclass(frozen=True)
class Case:
    id: str
    request: StorageRequest
    room: str
    retry: str = "modelCache.retry"


OF_CACHE, MAKE_ROOM = "retry of the ModelCache", "expand the claim, or make room on it"
SHARED_SIZE = "raise spec.storage.sharedClaim.size of InferenceEnvironment east"
CASES = (
    Case(
        "own", asked(ManagedCache()), "raise modelCache.size, or where that is not set the model's spec.resources.disk"
    ),
    Case(
        "retained", asked(RETAINED), "raise modelCache.size, or where that is not set the model's spec.resources.disk"
    ),
    Case("shared", asked(ManagedCache(), environment=SHARED), SHARED_SIZE),
    Case("the-user-s", asked(MINE), MAKE_ROOM),
    Case(
        "cache",
        asked(ManagedCache(), for_cache=True),
        "raise storage.size of the ModelCache, or where that is not set the model's spec.resources.disk",
        OF_CACHE,
    ),
    Case("cache-shared", asked(ManagedCache(), environment=SHARED, for_cache=True), SHARED_SIZE, OF_CACHE),
    Case("cache-the-user-s", asked(MINE, for_cache=True), MAKE_ROOM, OF_CACHE),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_advises_fields_that_exist(case: Case) -> None:
    full = begun(case.request, job({"conditions": [FULL]}))
    said = describe_storage(weighed(case.request, full).state)
    assert f"failed (DiskFull): the claim is full: {case.room}. Then set another {case.retry};" in said
