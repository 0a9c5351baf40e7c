"""The weights of a placement through changes, failures and claims of users, and when old weights are deleted."""

import copy
from dataclasses import dataclass, replace

import pytest

from function.cli.store import Ref
from function.kube.manifests import Manifest, condition, get, listing, mapping, text
from tests.support.plane import change, manifests, only, plane, remote, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

NEVER_DELETED = ["Observe", "Create", "Update", "LateInitialize"]
UNAUTHORISED = "Container download for pod assistants/x failed with exit code 41 matching FailJob rule at index 0"


@dataclass(frozen=True, kw_only=True)
class Failing(World):
    """A world in which Jobs without a retry fail, as podFailurePolicy says."""

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return the Object; the Job in it failed where it should not have completed."""
        observed = World.advance(self, resource, step)
        job = mapping(observed, "status.atProvider.manifest")
        if job.get("kind") == "Job" and not mapping(job, "metadata.annotations"):
            failed: Manifest = {
                "type": "Failed",
                "status": "True",
                "reason": "PodFailurePolicy",
                "message": UNAUTHORISED,
            }
            job["status"] = {"failed": 1, "conditions": [failed]}
        return observed


def _change(control: ControlPlane, ref: Ref, path: str, value: object) -> None:
    """Set a field of a spec; absent maps on the way are made."""
    changed = copy.deepcopy(control.composites[ref])
    *way, last = path.split(".")
    place = mapping(changed, "spec")
    for key in way:
        place = place.setdefault(key, {})  # type: ignore[assignment]  # maps all the way
    place[last] = value  # type: ignore[assignment]  # any JSON
    control.composites[ref] = changed


def _policies(control: ControlPlane, ref: Ref, prefix: str) -> list[object]:
    composed = control.rounds[-1].rendered[ref].composed
    return [get(resource, "spec.managementPolicies") for key, resource in composed.items() if key.startswith(prefix)]


def _uri(control: ControlPlane, ref: Ref) -> str:
    (service,) = remote(control, ref, "service-").values()
    return text(service, "spec.model.uri")


def _defaults(image: str) -> Manifest:
    """Return a function input that names the initializer's image."""
    return {"apiVersion": "modelplane.fn.crossplane.io/v1beta1", "kind": "Defaults", "storageInitializerImage": image}


def _say(control: ControlPlane, function_input: Manifest) -> None:
    """Let the platform say something else from now on."""
    assert isinstance(control.renderer, Engine)
    control.renderer = replace(control.renderer, input=function_input)
    control.settle()


def test_the_service_appears_with_the_finished_job_and_never_leaves() -> None:
    control = plane("kimi-k2-two-nodes")
    placement = only(control, "ModelPlacement")
    seen = []
    for latest in control.rounds:
        if placement in latest.rendered:
            jobs = [o for k, o in latest.observed[placement].items() if k.startswith("job-")]
            done = any(condition(get(o, "status.atProvider.manifest"), "Complete") for o in jobs)
            serves = any(k.startswith("service-") for k in latest.rendered[placement].composed)
            seen.append((done, serves))
    assert (False, False) in seen, "the Job must not be Complete from the start"
    assert all(done == serves for done, serves in seen), seen


def test_a_new_revision_is_fetched_beside_the_old_one() -> None:
    control = plane("kimi-k2-two-nodes")
    model, placement = only(control, "ClusterModel"), only(control, "ModelPlacement")
    old_uri, old_claims = _uri(control, placement), remote(control, placement, "claim-")
    _change(control, model, "huggingFace.revision", "v2")
    control.advance()
    assert _uri(control, placement) == old_uri, "the service keeps the verified weights"
    assert len(remote(control, placement, "claim-")) == len(remote(control, placement, "job-")) == 2
    moved_while_old_was_there = False
    for _ in range(20):
        control.advance()
        both = len(remote(control, placement, "claim-")) == 2
        moved_while_old_was_there |= both and _uri(control, placement) != old_uri
    assert moved_while_old_was_there, "the old weights are deleted only after the service has moved"
    assert not old_claims.keys() & remote(control, placement, "claim-").keys(), (
        "the old weights are deleted after the service has moved"
    )
    assert said(control, placement, "ServiceReady") == ("True", "Serving")


def test_another_group_size_is_another_service_on_the_same_bytes() -> None:
    control = plane("kimi-k2-two-nodes")
    model, placement = only(control, "ClusterModel"), only(control, "ModelPlacement")
    before, claims = remote(control, placement, "service-"), remote(control, placement, "claim-")
    changed = copy.deepcopy(control.composites[model])
    topology = mapping(listing(changed, "spec.serving")[0], "replicaTopology")
    topology.update({"nodes": 4, "parallelism": {"tensor": 8, "pipeline": 4}})
    control.composites[model] = changed
    control.settle()
    after = remote(control, placement, "service-")
    assert len(after) == 1, "the old service must be deleted first, because GPUs rarely suffice for both"
    assert not before.keys() & after.keys(), (
        "the service is replaced, because KServe refuses to change the size of a group"
    )
    assert remote(control, placement, "claim-").keys() == claims.keys(), "the weights are not downloaded again"


def test_a_finished_job_stays_whatever_the_settings_become() -> None:
    control = plane("kimi-k2-two-nodes")
    placement = only(control, "ModelPlacement")
    jobs = remote(control, placement, "job-")
    _say(control, _defaults("kserve/storage-initializer:v0.21.0"))
    assert remote(control, placement, "job-") == jobs


def test_a_failed_download_says_why_and_retry_starts_another_job() -> None:
    control = plane("kimi-k2-two-nodes", Failing())
    deployment, placement = only(control, "ModelDeployment"), only(control, "ModelPlacement")
    failed = remote(control, placement, "job-")
    assert said(control, placement, "StorageReady") == ("False", "DownloadFailed")
    message = text(condition(control.composites[placement], "StorageReady"), "message")
    assert "check the token" in message
    assert "modelCache.retry" in message
    assert text(control.composites[placement], "status.phase") == "Failed"
    _change(control, deployment, "modelCache.retry", "1")
    control.settle()
    again = remote(control, placement, "job-")
    assert len(again) == 1
    assert not again.keys() & failed.keys()
    assert said(control, placement, "ServiceReady") == ("True", "Serving")


def test_only_observes_users_claim() -> None:
    control = plane("bring-your-own-claim")
    placement = only(control, "ModelPlacement")
    (claim,) = remote(control, placement, "claim-").values()
    assert claim == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "team-models", "namespace": "lab"},
    }
    assert _policies(control, placement, "claim-") == [["Observe"]]
    assert _uri(control, placement).startswith("pvc://team-models/models/")


def test_waits_for_missing_claim_without_fallback() -> None:
    control = plane("bring-your-own-claim", World(absent=frozenset({"PersistentVolumeClaim/team-models"})))
    placement = only(control, "ModelPlacement")
    assert said(control, placement, "StorageReady") == ("False", "ClaimNotFound")
    message = text(condition(control.composites[placement], "StorageReady"), "message")
    assert all(word in message for word in ("team-models", "lab", "h100-lab"))
    assert not remote(control, placement, "job-")
    assert not remote(control, placement, "service-")
    control.world = World()
    control.settle()
    assert said(control, placement, "ServiceReady") == ("True", "Serving")


@dataclass(frozen=True, kw_only=True)
class Claimed(World):
    """A world in which the claims that are only observed have these access modes."""

    modes: tuple[str, ...] = ("ReadWriteMany",)

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return the Object; a claim in it has the modes."""
        observed = World.advance(self, resource, step)
        claim = mapping(observed, "status.atProvider.manifest")
        if claim.get("kind") == "PersistentVolumeClaim":
            mapping(claim, "spec")["accessModes"] = [*self.modes]
        return observed


def _prestaged(world: World) -> ControlPlane:
    """Return a control plane with a model whose weights are on claim `pre`, over two nodes."""
    control = ControlPlane(renderer=plane("kimi-k2-two-nodes").renderer, world=world)
    found = manifests("kimi-k2-two-nodes")
    for manifest in found:
        if manifest["kind"] == "ClusterModel":
            spec = mapping(manifest, "spec")
            del spec["huggingFace"]
            spec.update({"source": "PVC", "pvc": {"claimName": "pre", "path": "kimi"}})
    control.apply(found)
    control.settle()
    return control


def test_only_observes_claim_of_prestaged_weights() -> None:
    control = _prestaged(World())
    placement = only(control, "ModelPlacement")
    assert _policies(control, placement, "claim-") == [["Observe"]]
    (claim,) = remote(control, placement, "claim-").values()
    assert claim["metadata"] == {"name": "pre", "namespace": "assistants"}
    assert said(control, placement, "StorageReady") == ("True", "Prestaged")
    assert said(control, placement, "Ready")[0] == "True"
    assert _uri(control, placement) == "pvc://pre/kimi"


def test_waits_for_missing_claim_of_prestaged_weights() -> None:
    control = _prestaged(World(absent=frozenset({"PersistentVolumeClaim/pre"})))
    placement = only(control, "ModelPlacement")
    assert said(control, placement, "StorageReady") == ("False", "ClaimNotFound")
    assert get(control.composites[placement], "status.storage.accessMode") is None, "no claim has an access mode yet"
    assert not remote(control, placement, "service-")
    control.world = World()
    control.settle()
    assert said(control, placement, "ServiceReady") == ("True", "Serving")


@pytest.mark.parametrize(("mode", "serves"), [("ReadWriteOnce", False), ("ReadOnlyMany", True)])
def test_several_nodes_read_only_shared_claims(mode: str, serves: bool) -> None:
    control = _prestaged(Claimed(modes=(mode,)))
    placement = only(control, "ModelPlacement")
    assert said(control, placement, "StorageReady")[1] == ("Prestaged" if serves else "ClaimNotShared")
    assert bool(remote(control, placement, "service-")) == serves
    assert get(control.composites[placement], "status.storage.accessMode") == mode


def test_unobserved_claim_of_prestaged_weights_stops_nothing() -> None:
    """This happens after an upgrade from a release that did not observe the claim, or before the claim is observed."""
    control = _prestaged(World())
    placement = only(control, "ModelPlacement")
    before = remote(control, placement, "service-")
    items = control.store.items()
    (claim,) = (ref for ref, m in items if text(m, "spec.forProvider.manifest.metadata.name") == "pre")
    control.store.drop(claim)
    control.advance()
    assert remote(control, placement, "service-") == before
    assert said(control, placement, "Ready")[0] == "True"
    control.world = World(absent=frozenset({"PersistentVolumeClaim/pre"}))
    control.settle()
    assert remote(control, placement, "service-") == before
    assert said(control, placement, "StorageReady") == ("False", "ClaimNotFound")


def test_reports_missing_token_and_waits() -> None:
    names = {text(m, "metadata.name") for m in manifests("private-model") if m["kind"] == "Secret"}
    control = plane("private-model", World(absent=frozenset(f"Secret/{name}" for name in names)))
    placement = only(control, "ModelPlacement")
    assert said(control, placement, "StorageReady") == ("False", "TokenMissing")


def test_removes_copied_token_after_verified_download() -> None:
    control = plane("private-model")
    placement = only(control, "ModelPlacement")
    composed = [set(r.rendered[placement].composed) for r in control.rounds if placement in r.rendered]
    assert any(key.startswith("token-") for keys in composed for key in keys), "the Secret is copied for the download"
    if remote(control, placement, "job-"):
        assert not remote(control, placement, "token-"), "the copied Secret is deleted after the download"


def test_a_shared_claim_is_never_deleted() -> None:
    control = plane("shared-claim")
    for placement in control.all("ModelPlacement"):
        assert _policies(control, placement, "claim-") in ([], [NEVER_DELETED])
        assert _policies(control, placement, "job-") in ([], [["Observe"]]), "a finished Job is only observed"
    assert any(_policies(control, placement, "claim-") for placement in control.all("ModelPlacement"))


def test_retained_weights_are_found_again_by_name() -> None:
    control = ControlPlane(renderer=plane("kimi-k2-two-nodes").renderer)
    found = manifests("kimi-k2-two-nodes")
    for manifest in found:
        if manifest["kind"] == "ModelDeployment":
            mapping(manifest, "spec")["modelCache"] = {"type": "PVC", "retain": True}
    control.apply(found)
    control.settle()
    placement, deployment = only(control, "ModelPlacement"), only(control, "ModelDeployment")
    before = {**remote(control, placement, "claim-"), **remote(control, placement, "job-")}
    assert _policies(control, placement, "claim-") == [NEVER_DELETED]
    assert _policies(control, placement, "job-") == [["Observe"]], "a finished Job is only observed"
    control.delete(deployment)
    other = copy.deepcopy(next(m for m in found if m["kind"] == "ModelDeployment"))
    mapping(other, "metadata")["name"] = "another-name"
    control.apply([other])
    control.settle()
    placement = only(control, "ModelPlacement")
    assert {**remote(control, placement, "claim-"), **remote(control, placement, "job-")} == before


def test_shared_weights_are_found_again_by_name() -> None:
    def weights(control: ControlPlane) -> list[Manifest]:
        found = control.all("ModelPlacement")
        return [{**remote(control, ref, "claim-"), **remote(control, ref, "job-")} for ref in found]

    control = plane("shared-claim")
    before = weights(control)
    assert any(before), "a download must have run before"
    for deployment in control.all("ModelDeployment"):
        control.delete(deployment)
    control.settle()
    assert not control.all("ModelPlacement")
    control.apply(manifests("shared-claim"))
    control.settle()
    assert weights(control) == before, "the claim and the complete Job are the same"


def test_a_named_cache_leaves_the_deployment_without_a_job() -> None:
    control = plane("model-cache")
    for placement in control.all("ModelPlacement"):
        composed = control.rounds[-1].rendered[placement].composed
        assert {key.split("-")[0] for key in composed} == {"namespace", "cache", "service"}
        assert composed["cache-usage"]["kind"] == "Usage"
    cache = only(control, "ModelCache")
    assert said(control, cache, "Hydrated") == ("True", "Hydrated")
    assert mapping(control.composites[cache], "status")["usedBy"] == ["qwen"]


def test_keeps_service_when_cache_is_missing() -> None:
    control = plane("model-cache")
    placements = control.all("ModelPlacement")
    services = [remote(control, placement, "service-") for placement in placements]
    cache = only(control, "ModelCache")
    change(control, cache, "spec.environments", ["b"])
    control.advance()
    assert {said(control, p, "ReferencesResolved") for p in placements} == {("False", "CacheNotFound")}
    (message,) = {text(condition(control.composites[p], "ReferencesResolved"), "message") for p in placements}
    assert message.startswith("Correct ModelCache qwen-weights: spec.environmentSelector: "), message
    del control.composites[cache]
    for _ in range(3):
        control.advance()
    assert [remote(control, placement, "service-") for placement in placements] == services
    assert {said(control, p, "ReferencesResolved") for p in placements} == {("False", "CacheNotFound")}


def test_without_preload_the_service_comes_at_once() -> None:
    control = ControlPlane(renderer=plane("kimi-k2-two-nodes").renderer)
    found = manifests("kimi-k2-two-nodes")
    for manifest in found:
        if manifest["kind"] == "ModelDeployment":
            mapping(manifest, "spec")["modelCache"] = {"type": "PVC", "preload": False}
    control.apply(found)
    control.settle()
    placement = only(control, "ModelPlacement")
    every = (r.rendered[placement].composed for r in control.rounds if placement in r.rendered)
    first = next(composed for composed in every if composed)
    assert {key.split("-")[0] for key in first} == {"namespace", "claim", "service"}
