"""While something that a placement refers to cannot be used, what runs stays, and nobody says that it is more or less.

Fewer replicas need nobody's leave, and so nothing that could be missing (decision 4). More wait.
"""

import pytest

from function.kube.manifests import get
from function.reasons import Status
from tests.support.remote_scene import (
    SEVERAL_NODES,
    Edit,
    Scene,
    environment,
    model,
    observed,
    placement,
    put,
    scaled,
    scene,
)

NO_MODEL = model("serving", [])
NO_PROFILE = model("serving.0.replicaTopology.parallelism", {"tensor": 3})
NO_POOL = environment("nodePools.0.acceleratorCount", "x")
NO_ENVIRONMENT = environment("storage.storageClassName", 7)
MISSING = pytest.mark.parametrize(
    "missing", [NO_MODEL, NO_PROFILE, NO_POOL, NO_ENVIRONMENT], ids=["model", "profile", "pool", "environment"]
)
REVISION = model("huggingFace.revision", "v2")
LARGER = placement("topology", {"nodes": 3, "gpusPerNode": 8, "parallelism": {"tensor": 8, "pipeline": 3}})


def runs(replicas: int) -> Edit:
    """Let the service have so many replicas, and say that it takes them."""

    def edit(found: Scene) -> None:
        for path in ("spec.forProvider", "status.atProvider"):
            observed("service-", f"{path}.manifest.spec.replicas", replicas)(found)
        put(found.xr, "status.service.replicas", replicas)
        put(found.xr, "status.gpus", replicas * 16)

    return edit


@MISSING
@pytest.mark.parametrize("asks", [1, 0])
def test_scales_down_while_a_reference_is_missing(missing: Edit, asks: int) -> None:
    there = scene(SEVERAL_NODES).edited(runs(3))
    held = there.edited(missing, placement("replicas", asks))
    assert held.said("ReferencesResolved").status is Status.FALSE
    before, after = there.edited(missing).composed(), held.composed()
    assert after == {key: scaled(service, asks) for key, service in before.items()}
    status = held.outcome().status
    assert (get(status, "service.replicas"), status["gpus"]) == (3, 48), "the cluster still has them"
    confirmed = held.edited(observed("service-", "status.atProvider.manifest.spec.replicas", asks)).outcome().status
    assert (get(confirmed, "service.replicas"), confirmed["gpus"]) == (asks, asks * 16), "what is gone is not charged"
    assert held.said("ServiceReady").reason == ("Serving" if asks else "ScaledToZero")
    assert held.outcome().ready is None


@MISSING
def test_scales_up_only_when_references_resolve(missing: Edit) -> None:
    there = scene(SEVERAL_NODES).edited(runs(1), missing)
    more = there.edited(placement("replicas", 3))
    assert more.composed() == there.composed()
    assert get(more.outcome().status, "service.replicas") == 1
    assert more.said("ServiceReady").reason == "Serving", "the one that runs"


@MISSING
def test_service_without_running_replicas_is_not_serving(missing: Edit) -> None:
    """KServe says Ready of a service without replicas."""
    more = scene(SEVERAL_NODES).edited(runs(0), missing, placement("replicas", 2))
    said = more.said("ServiceReady")
    assert (said.status, said.reason, said.message) == (Status.FALSE, "Starting", "The service has no replicas yet")


def test_keeps_replicas_of_invalid_placement() -> None:
    faulty = scene(SEVERAL_NODES).edited(runs(3), placement("topology", "two nodes"), placement("replicas", 0))
    assert faulty.said("ReferencesResolved").reason == "InvalidPlacement"
    assert [get(service, "spec.replicas") for service in faulty.composed().values()] == [3]
    assert faulty.said("ServiceReady").reason == "Serving"


@pytest.mark.parametrize(("asks", "want"), [(0, 0), (1, 3)])
def test_keeps_replicas_of_other_group_unless_scaled_to_zero(asks: int, want: int) -> None:
    """One replica of the larger group is no reason to serve with fewer of the smaller one until it comes."""
    there = scene(SEVERAL_NODES).edited(runs(3), REVISION, LARGER, placement("replicas", asks))
    assert [get(service, "spec.replicas") for service in there.composed().values()] == [want]
    confirmed = there.edited(observed("service-", "status.atProvider.manifest.spec.replicas", want))
    assert get(confirmed.outcome().status, "service.replicas") == want


def test_refused_service_is_not_ready_at_zero() -> None:
    none = scene(SEVERAL_NODES).edited(runs(3), NO_MODEL, placement("replicas", 0))
    refused = observed(
        "service-", "status.atProvider.manifest.status.conditions", [{"type": "PresetsCombined", "status": "False"}]
    )
    for found, ready in ((none, True), (none.edited(refused), False)):
        assert [item.ready for key, item in found.outcome().composed.items() if key.startswith("service-")] == [ready]


def test_service_scaled_to_zero_is_ready() -> None:
    said = scene(SEVERAL_NODES).edited(runs(0), placement("replicas", 0)).said("ServiceReady")
    assert (said.status, said.reason) == (Status.TRUE, "ScaledToZero")
