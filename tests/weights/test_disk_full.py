"""Advice after DiskFull: what can be done about this claim, by this object's fields."""

from dataclasses import dataclass, replace

import pytest

from function.domain.cache import CreatedStorage, UserClaim
from function.kube.manifests import Manifest
from function.status.weights import describe_storage
from function.weights.request import WeightsRequest
from tests.support.weights_requests import on_storage
from tests.support.weights_scene import RETAINED, observe_started, reconcile_observed, request_weights, with_job_status

FULL: Manifest = {
    "type": "Failed",
    "status": "True",
    "reason": "PodFailurePolicy",
    "message": "with exit code 43 matching",
}
SHARED = on_storage(replace(request_weights().environment.storage, is_shared=True))
MINE = UserClaim(claim="mine")


@dataclass(frozen=True)
class Case:
    id: str
    request: WeightsRequest
    room: str
    retry: str = "modelCache.retry"


OF_CACHE, MAKE_ROOM = "retry of the ModelCache", "expand the claim, or make room on it"
SHARED_SIZE = "raise spec.storage.sharedClaim.size of InferenceEnvironment east"
CASES = (
    Case(
        "own",
        request_weights(CreatedStorage()),
        "raise modelCache.size, or where that is not set the model's spec.resources.disk",
    ),
    Case(
        "retained",
        request_weights(RETAINED),
        "raise modelCache.size, or where that is not set the model's spec.resources.disk",
    ),
    Case("shared", request_weights(CreatedStorage(), environment=SHARED), SHARED_SIZE),
    Case("the-user-s", request_weights(MINE), MAKE_ROOM),
    Case(
        "cache",
        request_weights(CreatedStorage(), for_cache=True),
        "raise storage.size of the ModelCache, or where that is not set the model's spec.resources.disk",
        OF_CACHE,
    ),
    Case("cache-shared", request_weights(CreatedStorage(), environment=SHARED, for_cache=True), SHARED_SIZE, OF_CACHE),
    Case("cache-the-user-s", request_weights(MINE, for_cache=True), MAKE_ROOM, OF_CACHE),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_advises_fields_that_exist(case: Case) -> None:
    full = observe_started(case.request, with_job_status({"conditions": [FULL]}))
    said = describe_storage(reconcile_observed(case.request, full).state)
    assert f"failed (DiskFull): the claim is full: {case.room}. Then set {case.retry} to another value;" in said
