"""Claims that cannot hold what the model says its weights take: refused before the download, kept where bytes are."""

import pytest

from function.kube.manifests import Manifest, mapping, text
from function.reasons import Status
from tests.support.remote_scene import (
    SEVERAL_NODES,
    Edit,
    Scene,
    edit_environment,
    edit_model,
    edit_observed,
    edit_placement,
    load_scene,
    set_field,
)

# The model of the example declares 1000Gi. Another figure shows that the edit is in effect.
DISK = edit_model("resources.disk", "960Gi")
OWN = edit_placement("modelCache", {"type": "PVC", "size": "500Gi"})
SHARED: tuple[Edit, ...] = (
    edit_environment("storage.mode", "Shared"),
    edit_environment("storage.sharedClaim", {"name": "team", "size": "700Gi"}),
)
IGNORED = edit_environment("storage.sizeEnforced", False)


def new(*edits: Edit) -> Scene:
    """Return a placement of which nothing is observed but its namespace."""
    found = load_scene(SEVERAL_NODES).edited(DISK)
    found.xr.pop("status", None)
    found.observed.clear()
    return found.edited(*edits)


def users_claim(given: str, *, asked: str = "1Gi") -> Edit:
    """Return the edit that observes a claim of the user with this capacity."""

    def edit(found: Scene) -> None:
        set_field(found.xr, "spec.modelCache", {"claimName": "mine"})
        claim = found.outcome().composed["claim-mine"]
        remote: Manifest = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "mine", "uid": "1"},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": asked}}},
            "status": {"phase": "Bound", **({"capacity": {"storage": given}} if given else {})},
        }
        status: Manifest = {
            "conditions": [{"type": "Synced", "status": "True"}, {"type": "Ready", "status": "True"}],
            "atProvider": {"manifest": remote},
        }
        found.observed["claim-mine"] = {**claim.manifest, "status": status}

    return edit


@pytest.mark.parametrize(
    ("edits", "said", "reason"),
    [
        (
            (OWN,),
            "spec.modelCache.size: 500Gi is less than the model's spec.resources.disk of 960Gi",
            "the size that the deployment requests is too small",
        ),
        (
            SHARED,
            "spec.storage.sharedClaim.size: 700Gi is less than the model's spec.resources.disk of 960Gi",
            "the size of the environment's shared claim is too small",
        ),
        (
            (users_claim("200Gi"),),
            "spec.modelCache.claimName: the claim has 200Gi, less than the model's spec.resources.disk of 960Gi",
            "the capacity of the user's claim is too small",
        ),
        (
            (users_claim("", asked="250Gi"),),
            "spec.modelCache.claimName: the claim has 250Gi, less than the model's spec.resources.disk of 960Gi",
            "the request of the user's claim counts while the claim has no capacity yet",
        ),
    ],
)
def test_refuses_download_that_does_not_fit(edits: tuple[Edit, ...], said: str, reason: str) -> None:
    found = new(*edits)
    condition = found.condition("StorageReady")
    assert (condition.status, condition.reason, condition.message) == (Status.FALSE, "StorageTooSmall", said), reason
    assert found.composed("job-") == found.composed("service-") == {}


@pytest.mark.parametrize("edits", [(OWN,), SHARED, (users_claim("200Gi"),)])
def test_remarks_small_claim_if_storage_ignores_sizes(edits: tuple[Edit, ...]) -> None:
    found = new(IGNORED, *edits)
    assert len(found.composed("job-")) == 1
    assert "Note: spec." in found.condition("StorageReady").message
    assert "the model's spec.resources.disk of 960Gi" in found.condition("StorageReady").message


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        (
            (edit_placement("modelCache", {"type": "PVC", "size": "960Gi"}),),
            "a claim of exactly the declared disk suffices",
        ),
        (
            (edit_placement("modelCache", {"type": "PVC", "size": "959.5Gi"}),),
            "the size of a claim is rounded up to whole Gi",
        ),
        ((users_claim("1Ti"),), "a claim that is larger than the declared disk suffices"),
        ((users_claim("", asked="nonsense"),), "a size that cannot be parsed refuses no download"),
        ((OWN, edit_model("resources.disk", None)), "without a declared disk, no claim is too small"),
    ],
)
def test_downloads_to_claim_of_sufficient_size(edits: tuple[Edit, ...], reason: str) -> None:
    found = new(*edits)
    assert found.condition("StorageReady").reason != "StorageTooSmall", reason
    assert len(found.composed("job-")) == 1
    assert "Note" not in found.condition("StorageReady").message


def test_keeps_service_on_small_claim_and_applies_edits() -> None:
    """The model's disk is corrected upward while a service reads verified weights."""
    before = load_scene(SEVERAL_NODES)
    grown = before.edited(
        edit_placement("modelCache", {"type": "PVC", "size": "500Gi"}), edit_model("resources.disk", "1500Gi")
    )
    assert grown.condition("StorageReady").reason == "Hydrated"
    (service,) = grown.composed().values()
    assert service == next(iter(before.composed().values()))
    edited = grown.edited(edit_placement("replicas", 2))
    (more,) = edited.composed().values()
    assert mapping(more, "spec")["replicas"] == 2


def test_keeps_running_download_on_small_claim() -> None:
    found = new(OWN, edit_model("resources.disk", "500Gi")).settled()
    assert len(found.composed("job-")) == 1
    late = found.edited(DISK)
    assert len(late.composed("job-")) == 1
    assert late.condition("StorageReady").reason != "StorageTooSmall"


def test_starts_no_other_download_on_small_claim() -> None:
    """The model changes to another revision, whose weights are not downloaded."""
    found = load_scene(SEVERAL_NODES).edited(OWN, DISK, edit_model("huggingFace.revision", "v2"))
    assert found.condition("StorageReady").reason == "StorageTooSmall"
    assert found.composed("job-") == load_scene(SEVERAL_NODES).composed("job-")
    assert found.composed() == load_scene(SEVERAL_NODES).composed(), "the service keeps its current weights"


def test_keeps_service_without_download() -> None:
    """With preload: false, weights are never verified, but those that the service reads exist."""
    found = load_scene(SEVERAL_NODES).edited(edit_placement("modelCache", {"type": "PVC", "preload": False})).settled()
    (uri,) = (text(service, "spec.model.uri") for service in found.composed().values())
    set_field(found.xr, "status", {"service": {"uri": uri}})
    set_field(found.xr, "spec.modelCache.size", "500Gi")
    late = found.edited(DISK, edit_observed("job-", "spec.gone", True))
    assert late.condition("StorageReady").reason == "NotPreloaded"
    assert len(late.composed()) == 1
